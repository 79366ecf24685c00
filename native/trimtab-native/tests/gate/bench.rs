//! A gate in a directory of its own, a server that takes connections from it, and its clients.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
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
const PATIENCE: Duration = Duration::from_secs(60);

/// The program of the gate.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_trimtab-native");

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
    pub fn start(name: &str, start: Value) -> Self {
        Self::start_by(name, start, || Command::new(PROGRAM))
    }

    /// As `start`, by another command.
    pub fn start_by(name: &str, mut start: Value, command: impl FnOnce() -> Command) -> Self {
        let name = format!("trimtab-gate-{}-{name}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir(&directory).unwrap();
        start["directory"] = json!(directory);
        let guardian = Self::guardian(command(), &start);
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

    fn guardian(mut command: Command, start: &Value) -> Child {
        let mut guardian = command.arg("gate").stdin(Stdio::piped()).spawn().unwrap();
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

    /// Connects to the hand-off socket, says hello and is believed.
    pub fn hello(&self, listener: Option<&TcpListener>) -> OwnedFd {
        let role = if listener.is_some() {
            Role::Listener
        } else {
            Role::Worker
        };
        let socket = greet(
            &self.directory,
            self.shared.token(),
            std::process::id(),
            role,
        );
        assert!(is_believed(&socket));
        if let Some(listener) = listener {
            let passed = Some(listener.as_fd());
            let flags = SendFlags::empty();
            handoff::send(socket.as_fd(), &handoff::LISTENER, passed, flags).unwrap();
        }
        socket
    }

    /// Another process that takes connections, until its standard input ends.
    pub fn other_process(&self) -> Child {
        let mut other = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "bench::other_process",
                "--ignored",
                "--nocapture",
            ])
            .env(OTHER, &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(other.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains(BELIEVED)));
        other
    }
}

/// Names the run directory to another process of a test.
const OTHER: &str = "TRIMTAB_TEST_DIRECTORY";
const BELIEVED: &str = "it is believed";

#[test]
#[ignore = "the other process of a test"]
fn other_process() {
    let directory = PathBuf::from(std::env::var_os(OTHER).unwrap());
    let shared = Shared::open(&directory.join("shared")).unwrap();
    let socket = greet(&directory, shared.token(), std::process::id(), Role::Worker);
    assert!(is_believed(&socket));
    println!("{BELIEVED}");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Connects to the hand-off socket of a run directory and says who one is.
pub fn greet(directory: &Path, token: [u8; 16], pid: u32, role: Role) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    let name = std::fs::read_dir(directory).unwrap();
    let name = name
        .map(|entry| entry.unwrap().file_name())
        .find(|name| name.to_str().unwrap().starts_with("handoff-"));
    let path = directory.join(name.unwrap());
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    let hello = Hello {
        token,
        pid,
        role,
        port: 0,
        generation: 1,
    };
    handoff::send(socket.as_fd(), &hello.encode(), None, SendFlags::empty()).unwrap();
    socket
}

/// The gate wants to hear more.
pub fn is_believed(socket: &OwnedFd) -> bool {
    let mut bytes = [0; handoff::LONGEST];
    let received = handoff::receive(socket.as_fd(), &mut bytes, RecvFlags::empty());
    received.is_ok_and(|(length, _)| bytes[..length] == handoff::GO_ON)
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

/// A server behind the gate.
pub struct Server {
    pub address: SocketAddr,
    pub listener: TcpListener,
    pub workers: OwnedFd,
    pub hold: OwnedFd,
    pub talk: OwnedFd,
}

/// A connection that a worker has.
pub struct Held {
    pub slot: u32,
    pub class: u32,
    pub stream: TcpStream,
}

impl Server {
    pub fn start(bench: &Bench) -> Self {
        Self::with(bench, TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    pub fn with(bench: &Bench, listener: TcpListener) -> Self {
        let (workers, hold) = register(bench, &listener);
        let talk = bench.hello(None);
        Self {
            address: listener.local_addr().unwrap(),
            listener,
            workers,
            hold,
            talk,
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
            slot.pid.store(std::process::id(), Relaxed);
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

/// The gate has taken a listener.
pub fn is_welcome(talk: &OwnedFd) -> bool {
    let mut bytes = [0; handoff::LONGEST];
    let received = handoff::receive(talk.as_fd(), &mut bytes, RecvFlags::empty());
    received.is_ok_and(|(length, _)| Welcome::decode(&bytes[..length]).is_some())
}

/// Passes a listener to the gate: the workers' end, and the conversation for as long as the listener is open.
pub fn register(bench: &Bench, listener: &TcpListener) -> (OwnedFd, OwnedFd) {
    let talk = bench.hello(Some(listener));
    let mut bytes = [0; handoff::LONGEST];
    let (length, passed) = handoff::receive(talk.as_fd(), &mut bytes, RecvFlags::empty()).unwrap();
    assert!(Welcome::decode(&bytes[..length]).is_some());
    let workers = passed.unwrap();
    // As for a server whose accept blocks.
    rustix::io::ioctl_fionbio(&workers, false).unwrap();
    (workers, talk)
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
