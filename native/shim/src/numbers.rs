//! Room for the descriptor of the next connection that the gate has sent.
//!
//! accept(2) leaves a connection where it is when the process has no number for it; recvmsg(2) drops it. So a process that
//! has come near its limit makes sure of a number before each.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::process::{getrlimit, Resource};

use crate::register::Number;

/// Numbers so far below the limit are near it: a server opens few for each connection.
const NEAR: c_int = 64;

/// First number that is near the limit, as of the first accept.
static NEAR_LIMIT: AtomicI32 = AtomicI32::new(c_int::MAX);
/// It has come near once.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Asks for the limit of this process.
pub fn learn_limit() {
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.and_then(|limit| c_int::try_from(limit).ok());
    NEAR_LIMIT.store(limit.unwrap_or(c_int::MAX).saturating_sub(NEAR), Relaxed);
}

/// A connection has got this number, the lowest that was free.
#[inline]
pub fn note(fd: c_int) {
    if fd >= NEAR_LIMIT.load(Relaxed) {
        ran_out();
    }
}

/// There was none for a connection, or nearly none.
#[cold]
pub fn ran_out() {
    IS_SHORT.store(true, Relaxed);
}

/// Whether there is a number for one more descriptor.
///
/// # Arguments
/// - `any`: something that can be duplicated.
#[inline]
pub fn has_room_for_next(any: Number) -> bool {
    let is_full = || matches!(rustix::io::fcntl_dupfd_cloexec(any, 0), Err(Errno::MFILE));
    !IS_SHORT.load(Relaxed) || !is_full()
}
