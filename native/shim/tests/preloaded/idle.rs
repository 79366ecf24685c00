//! Idle connections end after the time that is set, others do not.

use std::ffi::c_int;
use std::io::Write as _;
use std::mem::zeroed;
use std::ptr::null;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use libc::{epoll_event, pollfd, timespec};

use crate::inside::{keep_for, listener, sensing, Served};

/// Longer than any test.
const LONG_MS: c_int = 600_000;
const SHORT: Duration = Duration::from_millis(5);

/// An epoll descriptor that waits for input on a connection.
pub fn epoll_of(fd: c_int) -> c_int {
    unsafe {
        let epoll = libc::epoll_create1(0);
        let mut event = epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 7,
        };
        assert_eq!(
            libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event),
            0
        );
        epoll
    }
}

fn poll(fd: c_int) -> c_int {
    poll_for(fd, LONG_MS)
}

fn poll_for(fd: c_int, timeout_ms: c_int) -> c_int {
    let (events, revents) = (libc::POLLIN, 0);
    let mut one = pollfd {
        fd,
        events,
        revents,
    };
    unsafe { libc::poll(&mut one, 1, timeout_ms) }
}

#[test]
fn a_server_that_waits_on_after_its_timeout_waits_for_as_long_as_it_wants() {
    sensing(|shared| {
        let mut served = Served::new();
        served.turn();
        keep_for(shared, SHORT);
        assert_eq!(poll(served.fd), 0);
        let began = Instant::now();
        assert_eq!(poll_for(served.fd, 100), 0);
        assert!(began.elapsed() >= Duration::from_millis(100));
        served.turn();
        served.close();
        let idle = &shared.header.idle;
        let counts = [&idle.cut, &idle.intervals];
        assert_eq!(counts.map(|count| count.load(Relaxed)), [0, 1]);
    });
}

#[test]
fn a_server_that_polls_for_the_next_request_sees_its_timeout_run_out() {
    sensing(|shared| {
        let mut served = Served::new();
        served.turn();
        keep_for(shared, SHORT);
        assert_eq!(poll(served.fd), 0);
        served.close();
        assert_eq!(shared.header.idle.cut.load(Relaxed), 1);
    });
}

#[test]
fn an_idle_period_in_a_poll_for_several_holds_no_worker() {
    sensing(|shared| {
        let (mut one, mut other) = (Served::new(), Served::new());
        one.turn();
        one.ask();
        let mut both = [one.fd, other.fd].map(|fd| pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        assert_eq!(unsafe { libc::poll(both.as_mut_ptr(), 2, LONG_MS) }, 1);
        one.answer();
        let idle = &shared.header.idle;
        assert!(idle.idle_ns_sum.load(Relaxed) > 0);
        assert_eq!(idle.held_ns_sum.load(Relaxed), 0);
        other.turn();
        other.turn();
        assert_eq!(idle.held_ns_sum.load(Relaxed), 0);
    });
}

#[test]
fn a_server_that_polls_for_the_rest_of_a_request_waits_on() {
    sensing(|shared| {
        let listener = listener();
        let (mut busy, mut idle) = (Served::by(&listener), Served::by(&listener));
        busy.turn();
        idle.turn();
        busy.send(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n");
        let mut to = [0_u8; 99];
        assert!(unsafe { libc::read(busy.fd, to.as_mut_ptr().cast(), to.len()) } > 0);
        keep_for(shared, SHORT);
        let (fd, client) = (busy.fd, &mut busy.client);
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || poll(fd));
            // It began to be idle before.
            assert_eq!(poll(idle.fd), 0);
            client.write_all(b"x").unwrap();
            assert_eq!(waits.join().unwrap(), 1);
        });
    });
}

#[test]
fn a_server_that_waits_for_many_sees_the_end_of_an_idle_connection() {
    let waits: [fn(c_int, &mut epoll_event) -> c_int; 4] = [
        |epoll, event| unsafe { libc::epoll_wait(epoll, event, 1, LONG_MS) },
        |epoll, event| unsafe { libc::epoll_pwait(epoll, event, 1, LONG_MS, null()) },
        |epoll, event| unsafe { epoll_pwait2(epoll, event, 1, null(), null()) },
        |epoll, event| {
            let timeout = timespec {
                tv_sec: 600,
                tv_nsec: 1,
            };
            unsafe { epoll_pwait2(epoll, event, 1, &timeout, null()) }
        },
    ];
    sensing(|shared| {
        for (at, wait) in (1..).zip(waits) {
            let mut served = Served::new();
            let epoll = epoll_of(served.fd);
            served.turn();
            keep_for(shared, SHORT);
            let mut event: epoll_event = unsafe { zeroed() };
            assert_eq!(wait(epoll, &mut event), 1);
            let mut to = [0_u8; 9];
            assert_eq!(
                unsafe { libc::read(served.fd, to.as_mut_ptr().cast(), 9) },
                0
            );
            served.close();
            assert_eq!(shared.header.idle.cut.load(Relaxed), at);
        }
    });
}

#[test]
fn a_server_that_waited_while_the_time_was_off_sees_the_end_by_the_next_one() {
    sensing(|shared| {
        let mut served = Served::new();
        let epoll = epoll_of(served.fd);
        served.turn();
        // The thread that ends connections looks at the time once a second.
        let looked = || std::thread::sleep(Duration::from_millis(2500));
        keep_for(shared, Duration::from_secs(600));
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || {
                let mut event: epoll_event = unsafe { zeroed() };
                unsafe { libc::epoll_wait(epoll, &mut event, 1, LONG_MS) }
            });
            looked();
            keep_for(shared, Duration::ZERO);
            looked();
            keep_for(shared, SHORT);
            assert_eq!(waits.join().unwrap(), 1);
        });
        // The thread that ends a connection counts it right after, and the server may have seen its end by then.
        let counted = || shared.header.idle.cut.load(Relaxed);
        for _ in 0..200 {
            if counted() == 1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(counted(), 1);
    });
}

extern "C" {
    pub fn epoll_pwait2(
        epoll: c_int,
        events: *mut epoll_event,
        most: c_int,
        timeout: *const timespec,
        mask: *const libc::sigset_t,
    ) -> c_int;
}

#[test]
fn a_wait_that_ends_before_the_time_ends_as_the_server_wants() {
    sensing(|_| {
        let mut served = Served::new();
        let epoll = epoll_of(served.fd);
        served.turn();
        let mut event: epoll_event = unsafe { zeroed() };
        let none = timespec {
            tv_sec: 0,
            tv_nsec: 1,
        };
        unsafe {
            assert_eq!(libc::epoll_wait(epoll, &mut event, 1, 1), 0);
            assert_eq!(epoll_pwait2(epoll, &mut event, 1, &none, null()), 0);
        }
        served.ask();
        assert_eq!(
            unsafe { libc::epoll_wait(epoll, &mut event, 1, LONG_MS) },
            1
        );
        served.answer();
    });
}
