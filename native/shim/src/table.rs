//! What is known of each descriptor: an array indexed by its number, without locks.
//!
//! A descriptor is used by one thread at a time, as far as its connection is concerned, so relaxed accesses do. The array lies in zero pages:
//! a process pays only for those it touches.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use trimtab_wire::shared::NO_SLOT;

/// Numbers that are followed; those beyond are libc's alone.
const NUMBERS: usize = 65_536;

/// Nothing is known.
pub const UNKNOWN: u32 = 0;
/// An accepted connection; `index` is its slot or `NO_SLOT`.
pub const CONNECTION: u32 = 1;
/// A gated listener whose place the worker end of the dispatch socket pair has taken; `index` is the listener's.
pub const GATED: u32 = 2;
/// A gated listener on which the process accepts for itself; `index` is the listener's.
pub const OWN: u32 = 3;
/// A descriptor of the shim's own.
pub const HIDDEN: u32 = 4;
/// A listener that is no affair of ours.
pub const FOREIGN: u32 = 5;

/// One number.
pub struct Entry {
    /// `UNKNOWN` ... `FOREIGN`.
    pub kind: AtomicU32,
    /// Which process a connection belongs to: a child that inherits the descriptor does not hold the slot.
    pub owner: AtomicU32,
    /// See the kinds.
    pub index: AtomicU32,
    /// Where in a request a connection is.
    pub phase: AtomicU32,
    /// When the first byte of the request was read.
    pub start_ns: AtomicU64,
    /// When the last byte so far was written.
    pub last_ns: AtomicU64,
    /// Bytes written since the last request was counted.
    pub bytes: AtomicU64,
}

static TABLE: [Entry; NUMBERS] = [const { Entry::new() }; NUMBERS];
static PID: AtomicU32 = AtomicU32::new(0);

impl Entry {
    const fn new() -> Self {
        Self {
            kind: AtomicU32::new(UNKNOWN),
            owner: AtomicU32::new(0),
            index: AtomicU32::new(0),
            phase: AtomicU32::new(0),
            start_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// What kind of descriptor it is.
    #[inline]
    pub fn kind(&self) -> u32 {
        self.kind.load(Ordering::Relaxed)
    }

    /// Sets kind and index.
    pub fn become_kind(&self, kind: u32, index: u32) {
        self.index.store(index, Ordering::Relaxed);
        self.kind.store(kind, Ordering::Release);
    }

    /// Starts the life of a connection in this process.
    pub fn become_connection(&self, slot: Option<u32>) {
        self.owner.store(pid(), Ordering::Relaxed);
        self.phase.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.become_kind(CONNECTION, slot.unwrap_or(NO_SLOT));
    }
}

/// What is known of a number; None for one beyond the table.
#[inline]
pub fn entry(fd: c_int) -> Option<&'static Entry> {
    usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd))
}

/// The entry of a connection that this process holds.
#[inline]
pub fn connection(fd: c_int) -> Option<&'static Entry> {
    entry(fd).filter(|e| {
        e.kind() == CONNECTION && e.owner.load(Ordering::Relaxed) == PID.load(Ordering::Relaxed)
    })
}

/// This process, as of the last fork.
pub fn pid() -> u32 {
    let known = PID.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    remember_pid()
}

/// Notes which process this is: at the start and after each fork.
pub fn remember_pid() -> u32 {
    let pid = really();
    PID.store(pid, Ordering::Relaxed);
    pid
}

/// Whether this is a child of vfork, which shares its parent's memory but not its descriptors.
pub fn is_borrowed() -> bool {
    really() != pid()
}

fn really() -> u32 {
    rustix::process::getpid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}
