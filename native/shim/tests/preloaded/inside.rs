//! A test's body in a process of its own, into which the library is preloaded.

use std::ffi::{c_int, c_long};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trimtab_wire::shared::{Shared, FLAG_SENSE};

/// Longest that a body may take.
const PATIENCE: Duration = Duration::from_secs(60);
const INSIDE: &str = "TRIMTAB_TEST_INSIDE";
const SKIPPED: &str = "skipped: ";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
pub const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Runs a body with the library in the process; it senses, and keeps connections for a time that never passes.
pub fn sensing<F: FnOnce(&Shared)>(body: F) {
    run(false, body);
}

/// As `sensing`, with a hand-off socket named in the environment, at which nobody listens before the body does.
pub fn gated<F: FnOnce(&Shared)>(body: F) {
    run(true, body);
}

/// Where the hand-off socket of a gate is to be.
pub fn handoff(shared: &Shared) -> PathBuf {
    let directory = PathBuf::from(std::env::var_os("TRIMTAB_HANDOFF").unwrap());
    directory.join(trimtab_wire::handoff::name(shared.token()))
}

fn run<F: FnOnce(&Shared)>(is_gated: bool, body: F) {
    // The path of the closure begins with this crate and the name of the test.
    let (_, name) = std::any::type_name::<F>().split_once("::").unwrap();
    let name = name.strip_suffix("::{{closure}}").unwrap();
    if std::env::var_os(INSIDE).is_some() {
        let path = std::env::var_os("TRIMTAB_SHARED").unwrap();
        return body(&Shared::open(path.as_ref()).unwrap());
    }
    let directory = Directory::new();
    let path = directory.0.join("shared");
    let shared = Shared::create(&path).unwrap();
    shared.header.flags.store(FLAG_SENSE, Relaxed);
    // Where nobody is in charge of the time nothing is followed.
    shared.header.keep_alive.mode.store(1, Relaxed);
    keep_for(&shared, Duration::from_secs(1_000_000));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "yes")
        .env("LD_PRELOAD", library())
        .env("TRIMTAB_SHARED", &path)
        .env("TRIMTAB_PORTS", "*")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if is_gated {
        command.env("TRIMTAB_HANDOFF", &directory.0);
    }
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let done = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let complained = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}\n{said}{complained}", done.status);
    for line in complained.lines().filter(|line| line.starts_with(SKIPPED)) {
        // Not by a macro, whose output a test that passes keeps to itself.
        let line = format!("{name}: {line}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    assert!(said.contains("1 passed"), "no test of this name: {said}");
}

/// The library, as the profile of these tests builds it: cargo makes none for tests that do not link it.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/PROFILE/deps/TEST
        let program = std::env::current_exe().unwrap();
        let outputs = program.ancestors().nth(2).unwrap();
        let profile = match outputs.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let built = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--locked",
                "--lib",
                "--profile",
                profile,
            ])
            .arg("--target-dir")
            .arg(outputs.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            // The jobserver of a make around these tests is not open to this process.
            .env_remove("MAKEFLAGS")
            .env_remove("CARGO_MAKEFLAGS")
            .status();
        assert!(built.unwrap().success());
        outputs.join("libtrimtab_shim.so")
    })
}

struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Relaxed);
        let name = format!("trimtab-shim-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Has idle connections end after a time.
pub fn keep_for(shared: &Shared, time: Duration) {
    let time_ns = u64::try_from(time.as_nanos()).unwrap();
    shared.header.keep_alive.time_ns.store(time_ns, Relaxed);
}

/// A listener on loopback that the server made.
pub fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// A connection that the server has accepted, and its client.
pub struct Served {
    pub fd: c_int,
    pub client: TcpStream,
}

impl Served {
    pub fn by(listener: &TcpListener) -> Self {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (served, _) = listener.accept().unwrap();
        let fd = served.into_raw_fd();
        Self { fd, client }
    }

    pub fn new() -> Self {
        Self::by(&listener())
    }

    /// The client asks, and the request has come.
    pub fn ask(&mut self) {
        self.send(REQUEST);
    }

    /// The client sends bytes, and they have come.
    pub fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
        // By the number of bytes: epoll and poll are what is tested.
        while unread(self.fd) < bytes.len() {
            std::thread::yield_now();
        }
    }

    /// The server reads what has come and answers.
    pub fn answer(&mut self) {
        let mut bytes = [0_u8; 512];
        assert!(unsafe { libc::read(self.fd, bytes.as_mut_ptr().cast(), bytes.len()) } > 0);
        assert_eq!(
            unsafe { libc::write(self.fd, ANSWER.as_ptr().cast(), ANSWER.len()) },
            ANSWER.len() as isize
        );
        self.hear();
    }

    /// The client gets an answer.
    pub fn hear(&mut self) {
        let mut bytes = [0; ANSWER.len()];
        self.client.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, ANSWER);
    }

    /// A request and its answer.
    pub fn turn(&mut self) {
        self.ask();
        self.answer();
    }

    /// The server closes it.
    pub fn close(self) {
        assert_eq!(unsafe { libc::close(self.fd) }, 0);
    }

    /// Whether it is shut down for reading, or the client has gone.
    pub fn is_at_its_end(&self) -> bool {
        let (events, revents) = (libc::POLLRDHUP, 0);
        let mut one = libc::pollfd {
            fd: self.fd,
            events,
            revents,
        };
        // Not through the hook.
        unsafe { libc::syscall(libc::SYS_poll, &mut one, 1, 0) == 1 }
    }
}

fn unread(fd: c_int) -> usize {
    let mut count: c_int = 0;
    assert_eq!(unsafe { libc::ioctl(fd, libc::FIONREAD, &mut count) }, 0);
    usize::try_from(count).unwrap()
}

/// Counts so far: connections and requests.
pub fn counted(shared: &Shared) -> (u64, u64) {
    let sense = &shared.header.sense;
    (
        sense.connections.load(Relaxed),
        sense.requests.load(Relaxed),
    )
}

/// Says in a body that a part of it is left out here.
pub fn skipped(why: &str) {
    eprintln!("{SKIPPED}{why}");
}

extern "C" {
    pub fn closefrom(first: c_int);
}

/// Has the kernel refuse a system call to this thread with an error.
pub fn forbid(call: c_long, error: c_int) {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        // Of another call the refusal is left out.
        jf: u8::from(code & 7 == libc::BPF_JMP),
        k,
    };
    let mut program = [
        // The number of the call is the first word.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32),
        statement(
            libc::BPF_RET | libc::BPF_K,
            libc::SECCOMP_RET_ERRNO | error as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
    }
}

/// The error of the last call.
pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// The number that a listener has.
pub fn number(listener: &TcpListener) -> c_int {
    listener.as_raw_fd()
}
