//! What a program that is executed gets of the listeners: the kept ones with the numbers of the server's, or neither.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::{fcntl_getfd, FdFlags};

use super::{all, under, Listener};
use crate::kept;
use crate::register::{borrow, Number};
use crate::table::GATED;

impl Listener {
    /// Has exec close what is kept when it closes the numbers.
    pub(super) fn close_kept_alike(&self) {
        for kept in [&self.hidden, &self.hold].into_iter().filter_map(open) {
            kept::close_with(kept, self.numbers.iter().filter_map(open));
        }
    }
}

fn open(number: &AtomicI32) -> Option<Number> {
    // SAFETY: it is the shim's own, or the number of a listener.
    unsafe { borrow(number.load(Ordering::Relaxed)) }
}

/// Whether a listener of this process stays open in a program that it executes.
pub fn leaves_listeners() -> bool {
    all()
        .flat_map(|listener| &listener.numbers)
        .filter_map(open)
        .any(|number| fcntl_getfd(number).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC)))
}

/// The server has said whether exec closes a number.
pub fn flagged(fd: c_int) {
    if let Some((listener, GATED)) = under(fd) {
        listener.close_kept_alike();
    }
}

/// The server has had exec close some numbers.
pub fn flagged_in_part() {
    all()
        .flat_map(|listener| &listener.numbers)
        .for_each(|number| flagged(number.load(Ordering::Relaxed)));
}
