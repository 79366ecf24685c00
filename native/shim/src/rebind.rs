//! Opening a port anew that the server has just closed: the gate has it too until it hears of that, and bind finds it in use.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{sockaddr, socklen_t};
use rustix::net::{sockopt, SocketType};
use rustix::thread::nanosleep;
use rustix::time::Timespec;

use crate::clock::now_ns;
use crate::register::borrow;
use crate::{environment, real, wake};

/// Longest wait for the gate.
const PATIENCE_NS: u64 = 1_000_000_000;
/// After this time the gate has long closed what the server has.
const ANEW_NS: u64 = 10_000_000_000;
const STEP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// When this process last closed a gated listener; 0: never.
static LEFT_NS: AtomicU64 = AtomicU64::new(0);

/// This process has closed a gated listener.
pub fn left() {
    LEFT_NS.store(now_ns(), Ordering::Relaxed);
}

/// Binds, and waits where the gate may have the address yet.
///
/// # Arguments
/// - `fd`: the socket.
/// - `call`: libc's function for this socket and address.
///
/// # Safety
/// `address` is as bind(2) asks for.
pub unsafe fn bind(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
    call: impl Fn() -> c_int,
) -> c_int {
    let before = real::errno();
    let done = call();
    if done == 0 || real::errno() != libc::EADDRINUSE {
        return done;
    }
    let left = LEFT_NS.load(Ordering::Relaxed);
    if left == 0 {
        return done;
    }
    let began = now_ns();
    if began.saturating_sub(left) >= ANEW_NS {
        return done;
    }
    // SAFETY: the kernel has read it.
    if unsafe { wake::target(address, length) }.is_none_or(|target| !may_be_held(fd, target.port()))
    {
        return done;
    }
    loop {
        // Woken early by a signal it tries the sooner.
        let _ = nanosleep(&STEP);
        let done = call();
        if done == 0 {
            real::set_errno(before);
            return done;
        }
        let is_over = now_ns().saturating_sub(began) >= PATIENCE_NS;
        if real::errno() != libc::EADDRINUSE || is_over {
            return done;
        }
    }
}

/// Whether a gate may have what keeps a socket from a port: it has no sockets of datagrams.
fn may_be_held(fd: c_int, port: u16) -> bool {
    // SAFETY: the server has named it in this call.
    let is_stream = unsafe { borrow(fd) }
        .is_some_and(|socket| sockopt::socket_type(socket) == Ok(SocketType::STREAM));
    is_stream && environment::get().is_some_and(|e| e.handoff.is_some() && e.gates(port))
}
