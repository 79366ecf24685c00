//! Opening a port anew that the server has just closed: the gate has it too until it hears of that, and bind finds it in use.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use libc::{sockaddr, socklen_t};
use rustix::thread::nanosleep;
use rustix::time::Timespec;

use crate::clock::now_ns;
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
/// - `call`: libc's function for this address.
///
/// # Safety
/// `address` is as bind(2) asks for.
pub unsafe fn bind(address: *const sockaddr, length: socklen_t, call: impl Fn() -> c_int) -> c_int {
    let done = call();
    if done == 0 || real::errno() != libc::EADDRINUSE {
        return done;
    }
    let began = now_ns();
    let left = LEFT_NS.load(Ordering::Relaxed);
    // SAFETY: the kernel has read it.
    let target = unsafe { wake::target(address, length) };
    let gated = |port| environment::get().is_some_and(|e| e.handoff.is_some() && e.gates(port));
    let anew = left != 0 && began.saturating_sub(left) < ANEW_NS;
    if !anew || !target.is_some_and(|target| gated(target.port())) {
        return done;
    }
    loop {
        // Woken early by a signal it tries the sooner.
        let _ = nanosleep(&STEP);
        let done = call();
        let is_over = now_ns().saturating_sub(began) >= PATIENCE_NS;
        if done == 0 || real::errno() != libc::EADDRINUSE || is_over {
            return done;
        }
    }
}
