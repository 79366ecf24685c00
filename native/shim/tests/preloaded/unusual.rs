//! What few servers do and every server may: under a gate it goes on as without one.

use std::ffi::c_int;
use std::fs::File;
use std::io::Read as _;
use std::mem::zeroed;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, listen, recv, socket_with, AddressFamily, RecvFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use trimtab_wire::shared::{Shared, DISPATCHED, FLAG_PREEMPTIVE, HELD, IDLE};

use crate::gated::{gate, gate_of};
use crate::inside::{self, counted, errno, gated, listener, number, sensing, Served};

#[test]
fn a_server_of_one_process_that_asks_itself_is_a_client_as_any() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let source = |served: &Served| served.client.local_addr().unwrap().ip();
        let wakes = gate.served(&listener, 5);
        let own = Ipv4Addr::from(shared.header.wake_source.load(Relaxed));
        assert_eq!(source(&wakes), own, "it has never accepted before");
        let asks = gate.served(&listener, 6);
        assert_eq!(source(&asks), Ipv4Addr::LOCALHOST);
    });
}

#[test]
fn a_worker_that_cannot_meet_the_gate_any_more_wakes_it_all_the_same() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        // As it is for a process that has changed its root directory.
        std::fs::remove_file(inside::handoff(shared)).unwrap();
        let served = gate.served(&listener, 5);
        assert!(shared.announce_wait());
        served.close();
        assert_eq!(gate.released(), [5]);
        let woken = recv(&gate.gate_end, &mut [0; 9], RecvFlags::DONTWAIT);
        assert_eq!(woken.map(|(length, _)| length), Ok(1));
    });
}

/// Opens files until this process may open no more.
fn fill(files: &mut Vec<File>) {
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    assert_eq!(errno(), libc::EMFILE);
}

/// Limits the numbers of this process.
pub fn limit(numbers: u64) {
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = numbers;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

#[test]
fn a_connection_for_which_a_process_has_no_number_waits_for_one() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let mut files = Vec::new();
        limit(600);
        fill(&mut files);
        files.truncate(files.len() - 10);
        gate.served(&listener, 5).close();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        gate.dispatch(6);
        fill(&mut files);
        let accept = || unsafe { libc::accept(number(&listener), null_mut(), null_mut()) };
        assert_eq!((accept(), errno()), (-1, libc::EMFILE));
        assert_eq!(gate.state(6), DISPATCHED);
        drop(files.pop());
        assert!(accept() >= 0);
        assert_eq!(gate.state(6), HELD);
    });
}

/// An epoll that waits for a listener.
struct Waits(c_int);

impl Waits {
    fn on(listener: &TcpListener) -> Self {
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 7,
        };
        let add = libc::EPOLL_CTL_ADD;
        assert_eq!(
            unsafe { libc::epoll_ctl(epoll, add, number(listener), &mut event) },
            0
        );
        Self(epoll)
    }

    /// Whether it is woken at once.
    fn is_woken(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        unsafe { libc::epoll_wait(self.0, &mut event, 1, 0) == 1 }
    }
}

/// Where processes come to a gate.
pub fn door(shared: &Shared) -> OwnedFd {
    shared.header.generation.store(1, Relaxed);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let door = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let name = SocketAddrUnix::new(inside::handoff(shared)).unwrap();
    bind(&door, &name).unwrap();
    listen(&door, 16).unwrap();
    door
}

#[test]
fn a_listener_that_a_process_could_not_keep_is_not_shown_to_the_gate() {
    gated(|shared| {
        let door = door(shared);
        let nobody_came = || {
            let came = accept_with(&door, SocketFlags::CLOEXEC).map(|_| ());
            assert_eq!(came, Err(Errno::AGAIN));
        };
        // Its place is taken by a file of the server's.
        let file = File::open("/dev/null").unwrap();
        let next = File::open("/dev/null").unwrap();
        let place = next.as_raw_fd() + 512;
        assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), place) }, place);
        drop(next);
        let one = listener();
        assert_eq!(number(&one) + 512, place);
        nobody_came();
        // Its place is beyond the limit.
        let mut files = Vec::new();
        while files
            .last()
            .is_none_or(|file: &File| file.as_raw_fd() < 400)
        {
            files.push(File::open("/dev/null").unwrap());
        }
        limit(600);
        let other = listener();
        nobody_came();
        for one in [one, other] {
            Served::by(&one).turn();
        }
    });
}

#[test]
fn a_listener_that_was_given_open_is_waited_for_at_the_gate_too() {
    gated(|shared| {
        // As systemd gives one: nobody in this process calls listen.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) };
        assert_eq!(
            unsafe { libc::syscall(libc::SYS_listen, socket, 16) },
            0,
            "at any port"
        );
        let given = unsafe { TcpListener::from_raw_fd(socket) };
        given.set_nonblocking(true).unwrap();
        let waits = Waits::on(&given);
        let gate = gate_of(shared, || assert!(!waits.is_woken()));
        let client = TcpStream::connect(given.local_addr().unwrap()).unwrap();
        gate.dispatch(5);
        assert!(waits.is_woken());
        let (served, _) = given.accept().unwrap();
        assert_eq!(gate.state(5), HELD);
        drop((served, client));
    });
}

#[test]
fn exec_closes_what_the_shim_keeps_exactly_when_it_closes_the_servers_listener() {
    gated(|shared| {
        let (listener, _gate) = gate(shared);
        let (own, kept) = (number(&listener), number(&listener) + 512);
        let flags = |fd| unsafe { libc::fcntl(fd, libc::F_GETFD) };
        let set = |flags: c_int| assert_eq!(unsafe { libc::fcntl(own, libc::F_SETFD, flags) }, 0);
        assert_eq!([flags(own), flags(kept)], [libc::FD_CLOEXEC; 2]);
        // As before a program is executed that takes over.
        set(0);
        assert_eq!(flags(kept), 0);
        // As after listen.
        set(libc::FD_CLOEXEC);
        assert_eq!(flags(kept), libc::FD_CLOEXEC);
        // As a launcher says of all that a program is not to have.
        let close = |from: c_int, to: c_int| {
            let flags = libc::CLOSE_RANGE_CLOEXEC as c_int;
            assert_eq!(
                unsafe { libc::close_range(from as u32, to as u32, flags) },
                0
            );
        };
        set(0);
        close(kept, c_int::MAX);
        assert_eq!([flags(own), flags(kept)], [0; 2]);
        close(own, own);
        assert_eq!([flags(own), flags(kept)], [libc::FD_CLOEXEC; 2]);
        let copy = unsafe { libc::dup2(own, 300) };
        assert_eq!([flags(copy), flags(kept)], [0; 2]);
    });
}

#[test]
fn a_connection_on_which_something_may_be_under_way_does_not_end_at_the_gates_wish() {
    gated(|shared| {
        shared.header.flags.fetch_or(FLAG_PREEMPTIVE, Relaxed);
        let (listener, gate) = gate(shared);
        let (mut other, mut idle) = (gate.served(&listener, 5), gate.served(&listener, 6));
        // Over TLS the server has said something, and waits for more while it owes an answer.
        let record = b"\x17\x03\x03\x00\x20abcdefghijklmnopqrstuvwxyz012345";
        let (fd, mut to) = (other.fd, [0_u8; 99]);
        let (events, revents) = (libc::POLLIN, 0);
        let mut one = libc::pollfd {
            fd,
            events,
            revents,
        };
        for _ in 0..3 {
            other.send(record);
            assert!(unsafe { libc::read(fd, to.as_mut_ptr().cast(), to.len()) } > 0);
            let written = unsafe { libc::write(fd, record.as_ptr().cast(), record.len()) };
            assert_eq!(written, record.len() as isize);
            assert_eq!(unsafe { libc::poll(&mut one, 1, 0) }, 0);
        }
        idle.turn();
        assert_eq!([gate.state(5), gate.state(6)], [HELD, IDLE]);
        let _worker = gate.wishes_back([5, 6]);
        while !idle.is_at_its_end() {
            std::thread::yield_now();
        }
        assert!(!other.is_at_its_end());
    });
}

#[test]
fn word_to_go_on_with_a_body_is_no_answer_whatever_its_length() {
    sensing(|shared| {
        // Nobody is in charge of the time, so nothing is followed byte by byte.
        shared.header.keep_alive.mode.store(0, Relaxed);
        let mut served = Served::new();
        let (fd, mut to) = (served.fd, [0_u8; 99]);
        let mut read = || assert!(unsafe { libc::read(fd, to.as_mut_ptr().cast(), 99) } > 0);
        for go_on in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 \r\n\r\n"] {
            served.send(b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
            read();
            let written = unsafe { libc::write(fd, go_on.as_ptr().cast(), go_on.len()) };
            assert_eq!(written, go_on.len() as isize);
            served.client.read_exact(&mut vec![0; go_on.len()]).unwrap();
            served.send(b"x");
            served.answer();
        }
        served.close();
        assert_eq!(counted(shared), (1, 2));
        assert_eq!(shared.header.idle.intervals.load(Relaxed), 1);
    });
}

#[test]
fn a_server_may_have_a_duplicate_of_its_listener_for_each_thread() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let clones: Vec<_> = (0..80).map(|_| listener.try_clone().unwrap()).collect();
        for (slot, clone) in (5..).zip(&clones) {
            let mut served = gate.served(clone, slot);
            served.turn();
            served.close();
            assert_eq!(gate.released(), [slot]);
        }
    });
}

#[test]
fn a_connection_that_a_stream_closes_gives_its_slot_back() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let served = gate.served(&listener, 5);
        unsafe {
            let stream = libc::fdopen(served.fd, c"r+".as_ptr());
            assert!(libc::fputs(c"bye".as_ptr(), stream) >= 0);
            assert_eq!(libc::fclose(stream), 0);
        }
        assert_eq!(gate.released(), [5]);
        let mut said = String::new();
        (&served.client).read_to_string(&mut said).unwrap();
        assert_eq!(said, "bye");
    });
}

#[test]
fn accept_waits_no_longer_than_the_listener_says() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        rustix::io::ioctl_fionbio(&gate.tcp, true).unwrap();
        let accept = || unsafe { libc::accept(number(&listener), null_mut(), null_mut()) };
        let longest = libc::timeval {
            tv_sec: 0,
            tv_usec: 20_000,
        };
        let (option, length) = ((&raw const longest).cast(), size_of_val(&longest) as u32);
        let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        let set = unsafe { libc::setsockopt(number(&listener), level, name, option, length) };
        assert_eq!(set, 0);
        let times_out = || assert_eq!((accept(), errno()), (-1, libc::EAGAIN));
        times_out();
        shared.lanes.open.store(1, Relaxed);
        times_out();
        shared.lanes.open.store(0, Relaxed);
        drop(gate.die());
        times_out();
        Served::by(&listener).turn();
    });
}

#[test]
fn a_read_of_no_bytes_is_no_end() {
    sensing(|shared| {
        let mut served = Served::new();
        served.turn();
        assert_eq!(unsafe { libc::read(served.fd, null_mut(), 0) }, 0);
        served.turn();
        served.close();
        assert_eq!(counted(shared), (1, 2));
    });
}

const LISTENER: &str = "TRIMTAB_TEST_LISTENER";

#[test]
fn without_its_gate_a_server_that_executes_itself_goes_on_accepting_as_it_did() {
    gated(|shared| {
        let accept = |fd| unsafe { libc::accept(fd, null_mut(), null_mut()) };
        if let Ok(left) = std::env::var(LISTENER) {
            let (fd, address) = left.split_once(' ').unwrap();
            let address: SocketAddr = address.parse().unwrap();
            let client = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                TcpStream::connect(address)
            });
            assert!(accept(fd.parse().unwrap()) >= 0, "{}", errno());
            assert!(client.join().unwrap().is_ok());
            return;
        }
        let (listener, gate) = gate(shared);
        // As a gate does.
        rustix::io::ioctl_fionbio(&gate.tcp, true).unwrap();
        let fd = number(&listener);
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0);
        gate.served(&listener, 5).close();
        drop(gate.die());
        Served::by(&listener).close();
        let address = listener.local_addr().unwrap();
        let failed = Command::new(std::env::current_exe().unwrap())
            .args(std::env::args_os().skip(1))
            .env(LISTENER, format!("{fd} {address}"))
            .exec();
        panic!("{failed}");
    });
}

extern "C" fn nothing(_: c_int) {}

/// Sets the handler of a signal.
fn handle(signal: c_int, flags: c_int) {
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = nothing as *const () as libc::sighandler_t;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

#[test]
fn accept_goes_on_after_a_signal_exactly_when_its_handler_says_so() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        gate.served(&listener, 5).close();
        drop(gate.die());
        let address = listener.local_addr().unwrap();
        let accept = || unsafe { libc::accept(number(&listener), null_mut(), null_mut()) };
        for (flags, goes_on) in [(libc::SA_RESTART, true), (0, false)] {
            handle(libc::SIGUSR1, flags);
            let (waits, over) = (unsafe { libc::pthread_self() }, AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut signals = 0;
                    while !(over.load(Relaxed) || goes_on && signals == 50) {
                        unsafe { libc::pthread_kill(waits, libc::SIGUSR1) };
                        std::thread::sleep(Duration::from_millis(1));
                        signals += 1;
                    }
                    goes_on.then(|| TcpStream::connect(address).unwrap())
                });
                let accepted = accept();
                assert_eq!(accepted >= 0, goes_on, "{}", errno());
                assert!(goes_on || errno() == libc::EINTR);
                over.store(true, Relaxed);
            });
        }
    });
}
