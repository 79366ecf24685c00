//! Threads of our own inside the server.

const STACK_BYTES: usize = 128 * 1024;

/// Starts one on which the server's signal handlers never run; false when there can be none.
pub fn start(work: fn()) -> bool {
    // SAFETY: both sets are initialised by libc before they are read. The new thread inherits the blocked signals.
    unsafe {
        let mut all = std::mem::zeroed();
        let mut kept = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut kept);
        let started = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(work)
            .is_ok();
        libc::pthread_sigmask(libc::SIG_SETMASK, &kept, std::ptr::null_mut());
        started
    }
}
