//! Whether a wait that was interrupted goes on.
//!
//! accept(2) goes on by itself after a handler that was set with SA_RESTART, and after a process was stopped and continued; poll(2) and
//! epoll_wait(2), by which the shim waits in its place, never do (signal(7)).

use std::mem::MaybeUninit;
use std::ptr::null;

use crate::real;

/// Signals of Linux.
const SIGNALS: std::ops::RangeInclusive<libc::c_int> = 1..=64;
/// Those of a fault of the thread's own, which interrupt no wait.
const FAULTS: [libc::c_int; 7] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
];

/// Whether accept would go on whichever of the server's handlers has run. Where some ask for it and others do not, the one
/// that waits for its end must have it.
#[cold]
pub fn goes_on() -> bool {
    let errno = real::errno();
    let mut signals = SIGNALS.filter(|signal| !FAULTS.contains(signal));
    let all = signals.all(restarts);
    real::set_errno(errno);
    all
}

fn restarts(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is set, and there is room for an action; for a signal that libc keeps to itself nothing is written.
    let action = unsafe {
        libc::sigaction(signal, null(), action.as_mut_ptr());
        action.assume_init()
    };
    matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN)
        || action.sa_flags & libc::SA_RESTART != 0
}
