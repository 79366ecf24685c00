//! Listeners that are passed to other processes, kept at the limit, closed and opened anew.

use std::ffi::c_int;
use std::fs::File;
use std::mem::zeroed;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::calls::{message, part};
use crate::gated::{gate, gate_of, greet};
use crate::inside::{self, errno, gated, listener, number, Served};
use crate::unusual::{door, limit};

#[test]
fn a_listener_is_held_also_where_the_place_of_its_hold_is_beyond_the_limit() {
    gated(|shared| {
        limit(600);
        let file = || File::open("/dev/null").unwrap();
        let files: Vec<_> = (0..200).map(|_| file()).collect();
        let (listener, gate) = gate(shared);
        assert!(number(&listener) + 300 < 600 && number(&listener) + 450 >= 600);
        assert_eq!(gate.said(), Err(Errno::AGAIN));
        gate.served(&listener, 5).close();
        assert_eq!(gate.released(), [5]);
        drop(listener);
        assert_eq!(gate.said(), Ok(0));
        drop(files);
    });
}

#[test]
fn a_process_shows_the_gate_256_listeners_and_one_more_is_served_without() {
    gated(|shared| {
        let door = door(shared);
        rustix::io::ioctl_fionbio(&door, false).unwrap();
        std::thread::scope(|scope| {
            let shown = scope.spawn(|| std::iter::from_fn(|| greet(&door).1).count());
            let listeners: Vec<_> = (0..258).map(|_| listener()).collect();
            rustix::net::shutdown(&door, Shutdown::Both).unwrap();
            assert_eq!(shown.join().unwrap(), 256);
            Served::by(&listeners[257]).turn();
        });
    });
}

/// Room for one descriptor beside a message.
type Control = [u64; 3];

/// Passes a descriptor, as a server does.
fn pass(over: &UnixStream, fd: c_int) {
    let (mut byte, mut control) = ([1], Control::default());
    let mut parts = [part(&mut byte)];
    let mut message = message(&mut parts);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>();
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<c_int>().write_unaligned(fd);
        assert_eq!(libc::sendmsg(over.as_raw_fd(), &message, 0), 1);
        let still = libc::CMSG_DATA(header).cast::<c_int>().read_unaligned();
        assert_eq!(still, fd, "the message is the server's");
    }
}

/// The descriptor that was passed.
fn passed(over: &UnixStream) -> c_int {
    let (mut byte, mut control) = ([0], Control::default());
    let mut parts = [part(&mut byte)];
    let mut message = message(&mut parts);
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>();
    unsafe {
        assert_eq!(libc::recvmsg(over.as_raw_fd(), &mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&message);
        assert!(!header.is_null());
        libc::CMSG_DATA(header).cast::<c_int>().read_unaligned()
    }
}

#[test]
fn a_listener_that_another_process_has_passed_is_shown_to_the_gate_at_once() {
    gated(|shared| {
        let (listener, first) = gate(shared);
        let address = listener.local_addr().unwrap();
        let (from, to) = UnixStream::pair().unwrap();
        pass(&from, number(&listener));
        // From here on it is nowhere but in the message.
        drop(listener);
        drop(first.die());
        std::fs::remove_file(inside::handoff(shared)).unwrap();
        let mut got = -1;
        let next = gate_of(shared, || got = passed(&to));
        let listener = unsafe { TcpListener::from_raw_fd(got) };
        assert_eq!(listener.local_addr().unwrap(), address);
        next.served(&listener, 6).close();
        assert_eq!(next.released(), [6]);
        // What is no listener goes as it is.
        let file = File::open("/dev/null").unwrap();
        pass(&from, file.as_raw_fd());
        let copy = unsafe { File::from_raw_fd(passed(&to)) };
        let inode = |file: &File| rustix::fs::fstat(file).unwrap().st_ino;
        assert_eq!(inode(&copy), inode(&file));
    });
}

#[test]
fn bind_waits_for_a_port_that_the_gate_may_have_and_for_no_other() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let address = listener.local_addr().unwrap();
        let others = UdpSocket::bind("127.0.0.1:0").unwrap();
        let took = |binds: &dyn Fn() -> std::io::Error| {
            let began = Instant::now();
            assert_eq!(binds().raw_os_error(), Some(libc::EADDRINUSE));
            began.elapsed()
        };
        let stream = || TcpListener::bind(address).unwrap_err();
        let datagrams = || UdpSocket::bind(others.local_addr().unwrap()).unwrap_err();
        let never_closed = took(&stream);
        drop(listener);
        let (of_datagrams, gates) = (took(&datagrams), took(&stream));
        assert!(never_closed < gates / 4 && of_datagrams < gates / 4);
        let tcp = gate.tcp;
        let closes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(tcp);
        });
        unsafe { *libc::__errno_location() = libc::EXDEV };
        let anew = TcpListener::bind(address);
        assert_eq!(errno(), libc::EXDEV, "what succeeds leaves it");
        assert_eq!(anew.unwrap().local_addr().unwrap(), address);
        closes.join().unwrap();
    });
}

#[test]
fn a_listener_rests_when_it_is_connected_to_nowhere_and_listens_again() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let listens = || rustix::net::sockopt::socket_acceptconn(&gate.tcp).unwrap();
        let nowhere: libc::sockaddr = unsafe { zeroed() };
        let length = size_of_val(&nowhere) as u32;
        assert!(listens());
        assert_eq!(
            unsafe { libc::connect(number(&listener), &nowhere, length) },
            0
        );
        assert!(!listens());
        assert_eq!(unsafe { libc::listen(number(&listener), 16) }, 0);
        assert!(listens());
        gate.served(&listener, 5).close();
    });
}

#[test]
fn a_listener_that_is_shut_down_for_writing_goes_on() {
    gated(|shared| {
        let (listener, gate) = gate(shared);
        let shut = unsafe { libc::shutdown(number(&listener), libc::SHUT_WR) };
        assert_eq!(shut, 0, "it is nothing to a listener");
        gate.served(&listener, 5).close();
        assert_eq!(gate.released(), [5]);
    });
}
