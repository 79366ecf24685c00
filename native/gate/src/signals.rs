//! Signals are taken when they are asked for; none interrupts anything.

use std::mem::MaybeUninit;

/// The signals that are taken: the two that ask for the end, and the one that tells of a child's.
fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, and sigaddset changes an initialised one.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Keeps the signals pending from now on, in this process and in those it starts.
pub fn hold() {
    // SAFETY: the set is initialised, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set(), std::ptr::null_mut()) };
}

/// Waits for a signal.
///
/// # Returns
/// Its number; None after the time.
pub fn wait(timeout: std::time::Duration) -> Option<i32> {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(timeout.subsec_nanos() as i32),
    };
    // SAFETY: set and time are initialised, and the details are not asked for.
    let signal = unsafe { libc::sigtimedwait(&set(), std::ptr::null_mut(), &timeout) };
    (signal > 0).then_some(signal)
}

/// Somebody has asked this process to end.
pub fn asked_to_end() -> bool {
    while let Some(signal) = wait(std::time::Duration::ZERO) {
        if signal != libc::SIGCHLD {
            return true;
        }
    }
    false
}
