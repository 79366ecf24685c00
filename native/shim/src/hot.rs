//! What nearly every call needs, side by side.
//!
//! A server has hundreds of processes, and each has pages of its own for whatever the shim writes: a call that looks at four
//! of them misses the caches four times, which costs more than all that it computes.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32};

use trimtab_wire::shared::Layout;

use crate::real;
use crate::table::{Entry, NUMBERS};

/// All zeros at first, so that it lies in zero pages: a process pays only for those that it touches.
#[repr(C, align(4096))]
pub struct Hot {
    /// This process, as of the last fork.
    pub pid: AtomicU32,
    /// Whether a listener of this process may have to wait for a gate to come back.
    pub alone: AtomicU32,
    /// Process that waits for many connections at once.
    pub multiplexes: AtomicU32,
    /// Process whose thread ends idle connections.
    pub expires: AtomicU32,
    /// The mapped file; null when there is nothing to do in this process.
    pub shared: AtomicPtr<Layout>,
    /// The functions of `real`, those of each request first.
    pub functions: [AtomicPtr<c_void>; real::FUNCTIONS],
    /// One more than the highest number that has been a connection.
    pub connections_below: AtomicI32,
    /// What is known of each descriptor.
    pub entries: [Entry; NUMBERS],
}

/// The one of this process.
pub static HOT: Hot = Hot {
    pid: AtomicU32::new(0),
    alone: AtomicU32::new(0),
    multiplexes: AtomicU32::new(0),
    expires: AtomicU32::new(0),
    shared: AtomicPtr::new(std::ptr::null_mut()),
    functions: [const { AtomicPtr::new(std::ptr::null_mut()) }; real::FUNCTIONS],
    connections_below: AtomicI32::new(0),
    entries: [const { Entry::new() }; NUMBERS],
};
