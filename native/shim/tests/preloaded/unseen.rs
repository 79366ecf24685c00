//! Calls that the shim does not stand before: what it does not see it leaves to the server.

use std::ffi::c_int;
use std::mem::zeroed;
use std::net::{TcpListener, TcpStream};
use std::ptr::null_mut;
use std::time::Duration;

use io_uring::{opcode, types, IoUring};
use libc::{c_long, iovec, mmsghdr};

use crate::idle::epoll_of;
use crate::inside::{counted, keep_for, listener, number, sensing, skipped, Served, ANSWER};

/// Reads what has come.
type Read = fn(c_int, &mut [u8]) -> isize;

/// Ways to read that are no hook's.
const UNSEEN: [(&str, Read); 5] = [
    ("read as a system call", |fd, to| unsafe {
        libc::syscall(libc::SYS_read, fd, to.as_mut_ptr(), to.len()) as isize
    }),
    ("recvmmsg", |fd, to| unsafe {
        let (mut part, mut message) = (part(to), zeroed::<mmsghdr>());
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&mut part, 1);
        assert_eq!(libc::recvmmsg(fd, &mut message, 1, 0, null_mut()), 1);
        message.msg_len as isize
    }),
    ("preadv2", |fd, to| unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            fd,
            &part(to),
            1,
            -1 as c_long,
            -1 as c_long,
            0,
        ) as isize
    }),
    ("splice", |fd, to| unsafe {
        let mut ends = [0; 2];
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::splice(fd, null_mut(), ends[1], null_mut(), to.len(), 0)
    }),
    ("io_uring", |fd, to| match Ring::new() {
        Some(mut ring) => ring.read(fd, to),
        None => UNSEEN[0].1(fd, to),
    }),
];

fn part(to: &mut [u8]) -> iovec {
    iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    }
}

/// An io_uring.
struct Ring(IoUring);

impl Ring {
    /// None where it is forbidden, as in many containers: what needs it is skipped, and this is said.
    fn new() -> Option<Self> {
        match IoUring::new(2) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                skipped(&format!("io_uring is forbidden here: {error}"));
                None
            }
            ring => Some(Self(ring.unwrap())),
        }
    }

    /// Does one thing.
    fn done(&mut self, entry: &io_uring::squeue::Entry) -> i32 {
        // What it reads into lives until it is done, which is waited for.
        unsafe { self.0.submission().push(entry).unwrap() };
        self.0.submit_and_wait(1).unwrap();
        self.0.completion().next().unwrap().result()
    }

    /// The number of the connection, or an error as a negative number.
    fn accept(&mut self, listener: &TcpListener) -> c_int {
        let waiting = types::Fd(number(listener));
        self.done(&opcode::Accept::new(waiting, null_mut(), null_mut()).build())
    }

    fn read(&mut self, fd: c_int, to: &mut [u8]) -> isize {
        let receive = opcode::Recv::new(types::Fd(fd), to.as_mut_ptr(), to.len() as u32);
        self.done(&receive.build()) as isize
    }

    fn close(&mut self, fd: c_int) {
        assert_eq!(self.done(&opcode::Close::new(types::Fd(fd)).build()), 0);
    }
}

/// Waits until the thread that ends idle connections has looked at all that became idle before this.
fn others_have_ended(listener: &TcpListener) {
    let mut other = Served::by(listener);
    let epoll = epoll_of(other.fd);
    other.turn();
    while !other.is_at_its_end() {
        std::thread::yield_now();
    }
    other.close();
    assert_eq!(unsafe { libc::close(epoll) }, 0);
}

#[test]
fn a_connection_on_which_a_request_was_read_unseen_is_not_ended_under_it() {
    sensing(|shared| {
        let listener = listener();
        for (name, read) in UNSEEN {
            let mut served = Served::by(&listener);
            epoll_of(served.fd);
            served.turn();
            served.ask();
            assert!(read(served.fd, &mut [0; 512]) > 0, "{name}");
            keep_for(shared, Duration::from_millis(5));
            others_have_ended(&listener);
            assert!(!served.is_at_its_end(), "{name}");
            keep_for(shared, Duration::from_secs(1_000_000));
            served.close();
        }
    });
}

#[test]
fn a_number_that_io_uring_closed_and_accepted_anew_is_not_ended_for_the_connection_before() {
    sensing(|shared| {
        let listener = listener();
        // All that takes a number does so before one is free.
        let Some(mut ring) = Ring::new() else { return };
        let mut before = Served::by(&listener);
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        epoll_of(before.fd);
        before.turn();
        ring.close(before.fd);
        let fd = ring.accept(&listener);
        assert_eq!(fd, before.fd);
        let mut served = Served { fd, client };
        served.send(b"GET /other HTTP/1.1\r\n\r\n");
        assert!(ring.read(fd, &mut [0; 512]) > 0);
        keep_for(shared, Duration::from_millis(5));
        others_have_ended(&listener);
        assert!(!served.is_at_its_end());
    });
}

#[test]
fn a_server_that_does_all_by_io_uring_is_served_and_nothing_is_counted() {
    sensing(|shared| {
        let Some(mut ring) = Ring::new() else { return };
        let listener = listener();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd = ring.accept(&listener);
        let mut served = Served { fd, client };
        served.ask();
        assert!(ring.read(fd, &mut [0; 512]) > 0);
        let (socket, length) = (types::Fd(fd), ANSWER.len() as u32);
        let send = opcode::Send::new(socket, ANSWER.as_ptr(), length).build();
        assert_eq!(ring.done(&send), ANSWER.len() as i32);
        served.hear();
        ring.close(fd);
        assert_eq!(counted(shared), (0, 0));
    });
}
