//! Each call does what libc does, and is counted once.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};
use std::sync::atomic::Ordering::Relaxed;

use libc::{iovec, msghdr, timespec};

use crate::idle::{epoll_of, epoll_pwait2};
use crate::inside::{closefrom, counted, errno, gated, listener, number, sensing, Served, ANSWER};

/// Where nothing is.
const NOWHERE: usize = 8;

/// A part of a message.
pub fn part(bytes: &mut [u8]) -> iovec {
    iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// A message of these parts.
pub fn message(parts: &mut [iovec]) -> msghdr {
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    message
}

#[test]
fn a_request_is_counted_once_however_it_is_read_and_answered() {
    sensing(|shared| {
        let reads: [fn(c_int, &mut [u8]) -> isize; 5] = [
            |fd, to| unsafe { libc::read(fd, to.as_mut_ptr().cast(), to.len()) },
            |fd, to| unsafe { libc::recv(fd, to.as_mut_ptr().cast(), to.len(), 0) },
            |fd, to| unsafe {
                libc::recvfrom(
                    fd,
                    to.as_mut_ptr().cast(),
                    to.len(),
                    0,
                    null_mut(),
                    null_mut(),
                )
            },
            |fd, to| unsafe {
                let (one, other) = to.split_at_mut(7);
                libc::readv(fd, [part(one), part(other)].as_ptr(), 2)
            },
            |fd, to| unsafe { libc::recvmsg(fd, &mut message(&mut [part(to)]), 0) },
        ];
        let writes: [fn(c_int, &mut [u8]) -> isize; 5] = [
            |fd, from| unsafe { libc::write(fd, from.as_ptr().cast(), from.len()) },
            |fd, from| unsafe { libc::send(fd, from.as_ptr().cast(), from.len(), 0) },
            |fd, from| unsafe { libc::sendto(fd, from.as_ptr().cast(), from.len(), 0, null(), 0) },
            |fd, from| unsafe {
                let (one, other) = from.split_at_mut(7);
                libc::writev(fd, [part(one), part(other)].as_ptr(), 2)
            },
            |fd, from| unsafe { libc::sendmsg(fd, &message(&mut [part(from)]), 0) },
        ];
        let mut served = Served::new();
        let (mut to, mut from) = ([0; 512], ANSWER.to_vec());
        for (at, (read, write)) in (1..).zip(
            reads
                .iter()
                .flat_map(|r| writes.iter().map(move |w| (r, w))),
        ) {
            served.ask();
            assert!(read(served.fd, &mut to) > 0);
            assert_eq!(write(served.fd, &mut from), ANSWER.len() as isize);
            served.hear();
            assert_eq!(counted(shared), (1, at));
        }
        let all = 25 * ANSWER.len() as u64;
        assert_eq!(shared.header.sense.bytes_written.load(Relaxed), all);
    });
}

#[test]
fn a_body_sent_by_the_kernel_completes_the_answer() {
    sensing(|shared| {
        let mut served = Served::new();
        let path = std::env::var("TRIMTAB_SHARED").unwrap() + ".body";
        std::fs::write(&path, "ok").unwrap();
        let body = std::fs::File::open(&path).unwrap();
        served.ask();
        let (head, mut to) = (&ANSWER[..ANSWER.len() - 2], [0_u8; 512]);
        unsafe {
            assert!(libc::read(served.fd, to.as_mut_ptr().cast(), to.len()) > 0);
            assert!(libc::write(served.fd, head.as_ptr().cast(), head.len()) > 0);
            assert_eq!(counted(shared), (1, 0));
            let body = std::os::fd::AsRawFd::as_raw_fd(&body);
            assert_eq!(libc::sendfile(served.fd, body, null_mut(), 2), 2);
        }
        served.hear();
        assert_eq!(counted(shared), (1, 1));
    });
}

#[test]
fn a_peek_and_a_look_at_the_error_queue_are_no_reads() {
    sensing(|shared| {
        let mut served = Served::new();
        let (fd, mut to, yes) = (served.fd, [0_u8; 512], 1_i32);
        served.turn();
        served.ask();
        assert!(unsafe { libc::recv(fd, to.as_mut_ptr().cast(), 512, libc::MSG_PEEK) } > 0);
        assert_eq!(shared.header.idle.intervals.load(Relaxed), 0);
        unsafe {
            assert!(libc::read(fd, to.as_mut_ptr().cast(), 512) > 0);
            let (level, name) = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
            assert_eq!(
                libc::setsockopt(fd, level, name, (&raw const yes).cast(), 4),
                0
            );
            assert!(libc::send(fd, ANSWER.as_ptr().cast(), ANSWER.len(), libc::MSG_ZEROCOPY) > 0);
            // Word that it is done, without bytes.
            while libc::recvmsg(fd, &mut message(&mut []), libc::MSG_ERRQUEUE) < 0 {
                std::thread::yield_now();
            }
        }
        served.hear();
        assert_eq!(shared.header.idle.intervals.load(Relaxed), 1);
        served.turn();
        assert_eq!(shared.header.idle.intervals.load(Relaxed), 2);
    });
}

#[test]
fn a_request_that_is_thrown_away_unseen_is_a_request() {
    sensing(|shared| {
        let mut served = Served::new();
        served.ask();
        assert!(unsafe { libc::recv(served.fd, null_mut(), 99, libc::MSG_TRUNC) } > 0);
        assert!(unsafe { libc::write(served.fd, ANSWER.as_ptr().cast(), ANSWER.len()) } > 0);
        served.close();
        assert_eq!(counted(shared), (1, 1));
    });
}

#[test]
fn what_the_kernel_refuses_is_refused_and_not_looked_at() {
    sensing(|_| {
        let (nowhere, listener) = (NOWHERE as *mut c_void, listener());
        // Where there is nothing to look for, as after the first look for a gate, a timeout is not looked at.
        assert_eq!(unsafe { libc::poll(null_mut(), 0, 0) }, 0);
        let (epoll, mut event) = (epoll_of(number(&listener)), unsafe { zeroed() });
        let waited = unsafe { epoll_pwait2(epoll, &mut event, 1, nowhere.cast(), null()) };
        assert_eq!((waited, errno()), (-1, libc::EFAULT));
        let mut served = Served::new();
        served.turn();
        served.ask();
        let fd = served.fd;
        let (here, others) = (c"/bin/true".as_ptr(), u64::MAX >> 4);
        let refused: [&dyn Fn() -> isize; 13] = [
            &|| unsafe { libc::read(fd, nowhere, 9) },
            &|| unsafe { libc::readv(fd, nowhere.cast(), 3) },
            &|| unsafe { libc::recvmsg(fd, nowhere.cast(), 0) },
            &|| unsafe { libc::write(fd, nowhere, 9) },
            &|| unsafe { libc::writev(fd, nowhere.cast(), 3) },
            &|| unsafe { libc::sendmsg(fd, nowhere.cast(), 0) },
            &|| unsafe { libc::getsockname(fd, nowhere.cast(), nowhere.cast()) as isize },
            &|| unsafe { libc::poll(nowhere.cast(), 2, 0) as isize },
            &|| unsafe {
                libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, number(&listener), nowhere.cast()) as isize
            },
            &|| unsafe { libc::connect(number(&listener), nowhere.cast(), 16) as isize },
            &|| unsafe { libc::execve(here, null(), nowhere.cast()) as isize },
            &|| unsafe { libc::poll(nowhere.cast(), others, 0) as isize },
            &|| unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_DEL, fd, nowhere.cast()) as isize },
        ];
        for (at, call) in refused.iter().enumerate() {
            let error = if at >= 11 { libc::EINVAL } else { libc::EFAULT };
            assert_eq!((call(), errno()), (-1, error), "{at}");
        }
        assert_eq!(unsafe { libc::writev(fd, null(), -1) }, -1);
        served.answer();
    });
}

#[test]
fn a_timeout_that_the_kernel_refuses_is_refused_while_a_gate_is_looked_for() {
    gated(|_| {
        Served::new().close();
        for (tv_sec, tv_nsec) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            let timeout = timespec { tv_sec, tv_nsec };
            let done = unsafe { libc::ppoll(null_mut(), 0, &timeout, null()) };
            assert_eq!((done, errno()), (-1, libc::EINVAL), "{tv_sec} {tv_nsec}");
        }
    });
}

#[test]
fn errors_and_errno_are_those_of_libc() {
    sensing(|_| {
        let listener = listener();
        listener.set_nonblocking(true).unwrap();
        let accept = || unsafe { libc::accept(number(&listener), null_mut(), null_mut()) };
        assert_eq!((accept(), errno()), (-1, libc::EAGAIN));
        assert_eq!((unsafe { libc::close(-1) }, errno()), (-1, libc::EBADF));
        assert_eq!((unsafe { libc::dup(40_000) }, errno()), (-1, libc::EBADF));
        let mut served = Served::new();
        unsafe { *libc::__errno_location() = libc::EXDEV };
        served.turn();
        served.close();
        assert_eq!(errno(), libc::EXDEV, "what succeeds leaves it");
    });
}

#[test]
fn a_call_by_its_number_is_the_kernels() {
    sensing(|_| {
        let path = std::env::var("TRIMTAB_SHARED").unwrap() + ".pages";
        let page = 65_536;
        std::fs::write(&path, [vec![b'a'; page], vec![b'b'; page]].concat()).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let (fd, nowhere) = (std::os::fd::AsRawFd::as_raw_fd(&file), null_mut::<u8>());
        unsafe {
            *libc::__errno_location() = libc::EXDEV;
            let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE);
            let mapped = libc::syscall(libc::SYS_mmap, nowhere, page, access, kind, fd, page);
            assert_eq!(*(mapped as *const u8), b'b', "of six arguments the last");
            assert_eq!(errno(), libc::EXDEV, "what succeeds leaves it");
            assert_eq!(libc::syscall(libc::SYS_munmap, mapped, page), 0);
            let failed = libc::syscall(libc::SYS_close, -1);
            assert_eq!((failed, errno()), (-1, libc::EBADF));
        }
    });
}

#[test]
fn a_number_with_copies_is_counted_once_and_ends_with_the_first() {
    sensing(|shared| {
        let copies: [fn(c_int) -> c_int; 5] = [
            |fd| unsafe { libc::dup(fd) },
            |fd| unsafe { libc::dup2(fd, 300) },
            |fd| unsafe { libc::dup3(fd, 301, libc::O_CLOEXEC) },
            |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD, 302) },
            |fd| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 303) },
        ];
        for (at, copy) in (1..).zip(copies) {
            let mut served = Served::new();
            let copy = copy(served.fd);
            assert!(copy >= 0 && copy != served.fd);
            served.turn();
            assert_eq!(unsafe { libc::close(copy) }, 0);
            served.close();
            assert_eq!(counted(shared), (at, at));
        }
    });
}

#[test]
fn numbers_closed_as_a_range_are_forgotten() {
    sensing(|shared| {
        let closes: [fn(c_int); 3] = [
            |fd| assert_eq!(unsafe { libc::close_range(fd as u32, fd as u32, 0) }, 0),
            |fd| {
                let flags = libc::CLOSE_RANGE_UNSHARE as c_int;
                assert_eq!(unsafe { libc::close_range(fd as u32, fd as u32, flags) }, 0);
            },
            // Nothing of the test lies above it.
            |fd| unsafe { closefrom(fd) },
        ];
        for close in closes {
            let before = counted(shared);
            let mut served = Served::new();
            served.ask();
            let mut to = [0_u8; 99];
            unsafe {
                assert!(libc::read(served.fd, to.as_mut_ptr().cast(), to.len()) > 0);
                assert!(libc::write(served.fd, ANSWER.as_ptr().cast(), 9) > 0);
                // Of an answer that has only begun it is known by the close that no more of it comes.
                close(served.fd);
            }
            assert_eq!(counted(shared), (before.0 + 1, before.1 + 1));
            let again = unsafe { libc::close(served.fd) };
            assert_eq!((again, errno()), (-1, libc::EBADF));
        }
    });
}

#[test]
fn two_threads_that_use_one_connection_while_numbers_come_and_go_end_nothing() {
    sensing(|shared| {
        let listener = listener();
        let shared_one = Served::by(&listener);
        let fd = shared_one.fd;
        let client = shared_one.client.try_clone().unwrap();
        client.set_nonblocking(true).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut to = [0_u8; 64];
                    for _ in 0..2_000 {
                        unsafe {
                            libc::recv(fd, to.as_mut_ptr().cast(), to.len(), libc::MSG_DONTWAIT)
                        };
                        unsafe {
                            libc::send(fd, ANSWER.as_ptr().cast(), ANSWER.len(), libc::MSG_DONTWAIT)
                        };
                        let _ = std::io::Write::write(&mut &client, b"GET / HTTP/1.1\r\n\r\n");
                        let _ = std::io::Read::read(&mut &client, &mut to);
                    }
                });
            }
            for _ in 0..200 {
                let mut served = Served::by(&listener);
                served.turn();
                served.close();
            }
        });
        let (connections, requests) = counted(shared);
        assert_eq!(connections, 201);
        assert!(requests >= 200);
    });
}
