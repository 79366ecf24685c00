//! A gate in a directory of its own, a server that takes connections from it, and its clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::net::{
    connect, socket_with, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use serde_json::{json, Value};
use trimtab_wire::handoff::{self, Dispatch, Hello, Reclaim, Role, Welcome};
use trimtab_wire::shared::{Shared, DISPATCHED, HELD, IDLE, NO_SLOT};

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// A gate.
pub struct Bench {
    pub directory: PathBuf,
    guardian: Child,
    pub shared: Shared,
}

/// A start line with two classes: `first` for 127.0.1.0/24, `rest`.
pub fn two_classes() -> Value {
    json!({
        "directory": "", "limit": 4, "policy": "non_preemptive", "borrow": false,
        "peek_bytes": 8192, "peek_timeout_s": 0.3, "metrics": null, "controller_timeout_s": 60.0,
        "classes": [
            {"name": "first", "rules": [{"source": "127.0.1.0/24"}], "budget": 2, "minimum": 1,
             "queue_limit": 100, "full": "refuse_newest"},
            {"name": "rest", "rules": [], "budget": 2, "minimum": 1,
             "queue_limit": 100, "full": "refuse_newest"}
        ]
    })
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "still not: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Bench {
    pub fn start(name: &str, mut start: Value) -> Self {
        let name = format!("trimtab-gate-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        start["directory"] = json!(directory);
        let guardian = Self::guardian(&start);
        let control = directory.join("control.sock");
        until("the gate answers", || UnixStream::connect(&control).is_ok());
        let shared = Shared::open(&directory.join("shared")).unwrap();
        until("the gate has begun", || {
            shared.header.generation.load(Relaxed) > 0
        });
        Self {
            directory,
            guardian,
            shared,
        }
    }

    fn guardian(start: &Value) -> Child {
        let mut guardian = Command::new(env!("CARGO_BIN_EXE_trimtab-native"))
            .arg("gate")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(guardian.stdin.as_mut().unwrap(), "{start}").unwrap();
        guardian
    }

    pub fn gate_pid(&self) -> u32 {
        self.shared.header.gate_pid.load(Relaxed)
    }

    pub fn guardian_pid(&self) -> u32 {
        self.guardian.id()
    }

    pub fn close_stdin(&mut self) {
        drop(self.guardian.stdin.take());
    }

    /// Exit code of the guardian, waited for.
    pub fn exit_code(&mut self) -> Option<i32> {
        let mut code = None;
        until("the guardian ends", || {
            code = self.guardian.try_wait().unwrap();
            code.is_some()
        });
        code.and_then(|status| status.code())
    }

    pub fn control(&self) -> Control {
        let stream = UnixStream::connect(self.directory.join("control.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Control {
            lines: BufReader::new(stream),
        }
    }

    /// The readings of a class.
    pub fn class(&self, index: usize) -> Value {
        self.control().ask(&json!({"type": "read"}))["classes"][index].clone()
    }

    /// Connects to the hand-off socket and says hello.
    pub fn hello(&self, pid: u32, listener: Option<&TcpListener>) -> OwnedFd {
        self.greet(self.shared.token(), pid, listener)
    }

    /// As a listener with a token of its own.
    pub fn stranger(&self, token: [u8; 16], listener: &TcpListener) -> OwnedFd {
        self.greet(token, 1, Some(listener))
    }

    fn greet(&self, token: [u8; 16], pid: u32, listener: Option<&TcpListener>) -> OwnedFd {
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let path = self.directory.join("handoff.sock");
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let hello = Hello {
            token,
            pid,
            role: if listener.is_some() {
                Role::Listener
            } else {
                Role::Worker
            },
            port: 0,
            generation: 1,
        };
        let passed = listener.map(|listener| listener.as_fd());
        handoff::send(socket.as_fd(), &hello.encode(), passed, SendFlags::empty()).unwrap();
        socket
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let signal = |pid: u32| {
            let pid = rustix::process::Pid::from_raw(pid as i32);
            if let Some(pid) = pid {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        };
        signal(self.guardian.id());
        let _ = self.guardian.wait();
        // A gate whose guardian is gone starts another: all of them are children of the last.
        for _ in 0..2 {
            signal(self.gate_pid());
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A conversation on `control.sock`.
pub struct Control {
    lines: BufReader<UnixStream>,
}

impl Control {
    pub fn into_stream(self) -> UnixStream {
        self.lines.into_inner()
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.lines.get_mut().write_all(bytes).unwrap();
    }

    pub fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    pub fn ask(&mut self, order: &Value) -> Value {
        self.say(format!("{order}\n").as_bytes());
        self.hear()
    }
}

/// A server behind the gate; `pid` is what it says it is.
pub struct Server {
    pub address: SocketAddr,
    pub listener: TcpListener,
    workers: OwnedFd,
    pub talk: OwnedFd,
    pid: u32,
}

/// A connection that a worker has.
pub struct Held {
    pub slot: u32,
    pub class: u32,
    pub stream: TcpStream,
}

impl Server {
    pub fn start(bench: &Bench) -> Self {
        Self::start_as(bench, std::process::id())
    }

    pub fn start_as(bench: &Bench, pid: u32) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let workers = register(bench, &listener, pid);
        let talk = bench.hello(pid, None);
        Self {
            address: listener.local_addr().unwrap(),
            listener,
            workers,
            talk,
            pid,
        }
    }

    /// Takes a connection; None when there is none within the time.
    pub fn take_within(&self, bench: &Bench, wait: Duration) -> Option<Held> {
        let began = Instant::now();
        let mut bytes = [0; handoff::LONGEST];
        let (length, passed) = loop {
            match handoff::receive(self.workers.as_fd(), &mut bytes, RecvFlags::DONTWAIT) {
                Ok(received) => break received,
                Err(_) if began.elapsed() > wait => return None,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let dispatch = Dispatch::decode(&bytes[..length])?;
        let stream = TcpStream::from(passed.unwrap());
        if dispatch.slot != NO_SLOT {
            let slot = bench.shared.slot(dispatch.slot).unwrap();
            slot.pid.store(self.pid, Relaxed);
            assert!(slot.advance(DISPATCHED, HELD));
        }
        Some(Held {
            slot: dispatch.slot,
            class: dispatch.class,
            stream,
        })
    }

    /// Receives a connection without a word to the mapped file.
    pub fn receive_and_die(&self) -> OwnedFd {
        let mut bytes = [0; handoff::LONGEST];
        let received = handoff::receive(self.workers.as_fd(), &mut bytes, RecvFlags::empty());
        received.unwrap().1.unwrap()
    }

    pub fn take(&self, bench: &Bench) -> Held {
        self.take_within(bench, PATIENCE).expect("a connection")
    }

    pub fn takes_nothing(&self, bench: &Bench) -> bool {
        self.take_within(bench, Duration::from_millis(60)).is_none()
    }

    /// Ends a connection as the shim does.
    pub fn release(&self, bench: &Bench, held: Held) {
        drop(held.stream);
        assert!(bench.shared.slot(held.slot).unwrap().close(|| false));
        if bench.shared.release(held.slot) {
            rustix::net::send(&self.workers, b"w", SendFlags::DONTWAIT).unwrap();
        }
    }

    pub fn set_idle(&self, bench: &Bench, held: &Held, since_ns: u64) {
        let slot = bench.shared.slot(held.slot).unwrap();
        slot.idle_since_ns.store(since_ns, Relaxed);
        assert!(slot.advance(HELD, IDLE));
    }

    /// The slot of the next RECLAIM.
    pub fn asked_back(&self) -> u32 {
        let mut bytes = [0; handoff::LONGEST];
        let (length, _) =
            handoff::receive(self.talk.as_fd(), &mut bytes, RecvFlags::empty()).unwrap();
        Reclaim::decode(&bytes[..length]).unwrap().slot
    }

    /// The gate's end of the dispatch pair is closed.
    pub fn sees_the_end(&self) -> bool {
        let mut bytes = [0; handoff::LONGEST];
        let received = handoff::receive(self.workers.as_fd(), &mut bytes, RecvFlags::DONTWAIT);
        matches!(received, Ok((0, _)))
    }
}

/// Passes a listener to the gate.
pub fn register(bench: &Bench, listener: &TcpListener, pid: u32) -> OwnedFd {
    let talk = bench.hello(pid, Some(listener));
    let mut bytes = [0; handoff::LONGEST];
    let (length, passed) = handoff::receive(talk.as_fd(), &mut bytes, RecvFlags::empty()).unwrap();
    assert!(Welcome::decode(&bytes[..length]).is_some());
    passed.unwrap()
}

/// A client with a source address.
pub fn client(source: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that a client receives until the end.
pub fn all_of(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}
