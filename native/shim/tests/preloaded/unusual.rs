//! What few servers do and every server may: under a gate it goes on as without one.

use std::ffi::c_int;
use std::fs::File;
use std::io::Read as _;
use std::mem::zeroed;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, listen, recv, socket_with, AddressFamily, RecvFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use trimtab_wire::handoff::{self, Reclaim};
use trimtab_wire::shared::{Shared, DISPATCHED, FLAG_PREEMPTIVE, HELD, IDLE};

use crate::gated::gate;
use crate::inside::{self, counted, errno, gated, listener, number, sensing, Served};

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
        let workers = gate.die();
        for slot in [5, 6] {
            let sequence = u64::from(slot) + 100;
            let wish = Reclaim { slot, sequence }.encode();
            handoff::send(workers[0].as_fd(), &wish, None, SendFlags::empty()).unwrap();
        }
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
