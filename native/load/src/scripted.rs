//! For tests: a server that does what a script says, orders with defaults, and runs against it.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::net::{send, SendFlags};
use trimtab_wire::graph::{Ask, Graph, Method, Page};
use trimtab_wire::load::{Class, Report, Start};
use trimtab_wire::workload::{Arrivals, Connection, Distribution, Population, Url};

use crate::clock::Clock;
use crate::engine::{Emit, Engine};
use crate::plan::Plan;
use crate::stops::Stops;
use crate::virtual_time::{nothing_under_way, Now, Settled, Virtual};

/// A server on a port that the kernel chose; it ends when dropped.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Runs the script on every connection, in a thread of its own; the number counts connections from 0.
    pub fn new(script: impl Fn(usize, Client) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("address");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let script = Arc::new(script);
        let thread = std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let (script, client) = (Arc::clone(&script), Client::new(stream.expect("accept")));
                std::thread::spawn(move || script(number, client));
            }
        });
        Self {
            address,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("server");
        }
    }
}

const REPLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The server's end of one connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Reads a request's head; None when the client has closed.
    pub fn lines(&mut self) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line == "\r\n" {
                return Some(lines);
            }
            lines.push(line);
        }
    }

    /// What follows a head.
    pub fn body(&mut self) -> &mut impl Read {
        &mut self.stream
    }

    /// Reads a request; None when the client has closed, else its path and whether it asks to close.
    pub fn request(&mut self) -> Option<(String, bool)> {
        let lines = self.lines()?;
        let path = lines[0].split(' ').nth(1).expect("path").to_owned();
        Some((
            path,
            lines.iter().any(|line| line == "Connection: close\r\n"),
        ))
    }

    /// Sends bytes.
    pub fn send(&mut self, text: &str) {
        // The client may have gone, by a timeout or the end of the run.
        let _ = self.stream.get_mut().write_all(text.as_bytes());
    }

    /// Sends a reply of two bytes.
    pub fn reply(&mut self) {
        self.send(REPLY);
    }

    /// Replies and closes in one segment: the client cannot have the one without the other.
    pub fn reply_and_close(self) {
        send(self.stream.get_ref(), REPLY.as_bytes(), SendFlags::MORE).expect("room for a reply");
    }

    /// Replies to every request until the client closes.
    pub fn serve(&mut self) {
        while self.request().is_some() {
            self.reply();
        }
    }
}

fn constant(value: f64) -> Distribution {
    Distribution::Constant { value }
}

/// One user; sessions of 3 pages of 2 requests, nothing random, no waiting.
pub fn population(class: &str) -> Population {
    let url = |path: &str| {
        vec![Url {
            path: path.to_owned(),
            weight: 1.0,
            cpu_s: 0.0,
        }]
    };
    Population {
        class: class.to_owned(),
        arrivals: Arrivals::Closed { users: 1 },
        session_pages: constant(3.0),
        burst_requests: constant(2.0),
        think_s: constant(0.0),
        object_gap_s: constant(0.0),
        pages: url("/page"),
        objects: url("/object"),
        connection: Connection::UntilServerCloses,
        timeout_s: 5.0,
        schedule: Vec::new(),
        source: None,
        round_trip_s: 0.0,
        graph: None,
    }
}

/// One session in the whole run, of single requests with a think time between them.
pub fn one_session(pages: f64, think_s: f64) -> Population {
    Population {
        arrivals: Arrivals::Constant { rate_hz: 0.001 },
        session_pages: constant(pages),
        burst_requests: constant(1.0),
        think_s: constant(think_s),
        ..population("one")
    }
}

/// A page that is asked for by its name, from which one goes to the site's first.
pub fn page(name: &str) -> Page {
    Page {
        name: name.to_owned(),
        asks: vec![Ask {
            when: vec![],
            remember: vec![],
            method: Method::Get,
            path: format!("/{name}"),
            fields: vec![],
        }],
        thresholds: vec![],
    }
}

/// A site of these pages, which one walks one after the other and round again; nothing random, no waiting.
pub fn site(mut pages: Vec<Page>) -> Graph {
    let count = pages.len();
    for (index, page) in pages.iter_mut().enumerate() {
        page.thresholds = vec![0; count];
        page.thresholds[(index + 1) % count] = 9999;
    }
    Graph {
        start: pages[0].name.clone(),
        pages,
        name_marker: None,
        session_s: constant(1e6),
        first_click_s: [0.0, 0.0],
        memories: vec![],
        image_connections: 4,
    }
}

/// One browser on a site, which thinks for a second.
pub fn browser(graph: Graph) -> Population {
    Population {
        graph: Some(graph),
        pages: vec![],
        objects: vec![],
        think_s: constant(1.0),
        ..population("browsers")
    }
}

/// A short order.
pub fn start(target: SocketAddr, populations: Vec<Population>) -> Start {
    Start {
        target,
        host: "test".to_owned(),
        populations,
        duration_s: 0.3,
        interval_s: 0.1,
        seed: 1,
        allow_remote: false,
        measured: None,
    }
}

/// Runs an order in time that passes only when nothing is under way: the reports of its intervals and of the whole run.
pub fn run(start: &Start) -> (Vec<Vec<Class>>, Vec<Class>) {
    run_in(Now::default(), Box::new(nothing_under_way), start)
}

/// Runs an order in time that passes when the connections have settled.
pub fn run_in(now: Now, settled: Settled, start: &Start) -> (Vec<Vec<Class>>, Vec<Class>) {
    let (mut intervals, mut summary) = (Vec::new(), None);
    let mut emit = |report| {
        match report {
            Report::Interval { classes, .. } => intervals.push(classes),
            Report::Summary {
                classes,
                stopped_early,
                ..
            } => {
                assert!(!stopped_early);
                summary = Some(classes);
            }
        }
        true
    };
    execute(now, settled, start, &mut emit);
    (intervals, summary.expect("summary"))
}

/// Runs an order to its end or that of its reader.
pub fn execute(now: Now, settled: Settled, start: &Start, emit: &mut Emit<'_>) {
    let plan = Plan::new(start).expect("plan");
    Engine::new(&plan, Clock::Virtual(Virtual { now, settled }))
        .expect("engine")
        .run(&mut Stops::default(), emit)
        .expect("run");
}

/// An order for one population against a server, for so many seconds.
pub fn order(server: &Server, population: Population, duration_s: f64) -> Start {
    Start {
        duration_s,
        ..start(server.address, vec![population])
    }
}

/// Runs one population against a server for so many seconds: the summary of its class.
pub fn summary(server: &Server, population: Population, duration_s: f64) -> Class {
    run(&order(server, population, duration_s)).1.remove(0)
}
