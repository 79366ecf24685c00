//! The state that nearly every call needs, side by side.
//!
//! A server has hundreds of processes, and each has pages of its own for whatever the shim writes: a call that looks at four
//! of them misses the caches four times, which costs more than all that it computes. So what a request on a kept connection
//! needs is one line here, one line of the connection's entry, and the counts in the mapped file. The code of it lies side
//! by side as well, in the section `.text.hot`.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};

use trimtab_wire::shared::{Layout, Room};

use crate::real;
use crate::table::{Entry, NUMBERS};

/// Descriptors whose entries lie in the first page.
pub const NEAR: usize = 58;

const _: () = assert!(std::mem::offset_of!(Hot, room) == 4096);

/// All zeros at first, so that it lies in zero pages: a process pays only for those that it touches.
#[repr(C, align(4096))]
pub struct Hot {
    /// This process, as of the last fork.
    pub pid: AtomicU32,
    /// Whether a listener of this process may have to wait for a gate to come back.
    pub alone: AtomicU32,
    /// The mapped file; null when there is nothing to do in this process.
    pub shared: AtomicPtr<Layout>,
    /// A bit for each of the lowest numbers, set when something is known of it.
    pub known: AtomicU64,
    /// The kernel's clock; null when it has none to call.
    pub clock: AtomicPtr<c_void>,
    /// The functions of `real`, those of each request first.
    pub functions: [AtomicPtr<c_void>; real::FUNCTIONS],
    /// Process that waits for many connections at once.
    pub multiplexes: AtomicU32,
    /// Process whose thread ends idle connections.
    pub expires: AtomicU32,
    /// One more than the highest number that has been a connection.
    pub connections_below: AtomicI32,
    /// The entries of the lowest descriptors: as many as fit into the page.
    pub near: [Entry; NEAR],
    /// Where the mapped file comes to lie: it shares a page-table page with this struct.
    pub room: Room,
    /// The entries of the other descriptors.
    pub far: [Entry; NUMBERS - NEAR],
}

/// The one of this process.
pub static HOT: Hot = Hot {
    pid: AtomicU32::new(0),
    alone: AtomicU32::new(0),
    shared: AtomicPtr::new(std::ptr::null_mut()),
    known: AtomicU64::new(0),
    clock: AtomicPtr::new(std::ptr::null_mut()),
    functions: [const { AtomicPtr::new(std::ptr::null_mut()) }; real::FUNCTIONS],
    multiplexes: AtomicU32::new(0),
    expires: AtomicU32::new(0),
    connections_below: AtomicI32::new(0),
    near: [const { Entry::new() }; NEAR],
    room: Room::new(),
    far: [const { Entry::new() }; NUMBERS - NEAR],
};
