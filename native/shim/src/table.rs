//! What is known of each descriptor: an array indexed by its number, without locks.
//!
//! A descriptor is used by one thread at a time, as far as its connection is concerned, so relaxed accesses do. Should a server
//! use one from two threads at once, its follower is given up.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use trimtab_wire::shared::{now_ns, NO_SLOT};

use crate::follower::Follower;
use crate::hot::HOT;

/// Numbers that are followed; those beyond are libc's alone.
pub const NUMBERS: usize = 65_536;

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

/// Bit of `Entry::flags`: the server waits for this connection together with others.
pub const MULTIPLEXED: u32 = 1;
/// Bit of `Entry::flags`: in this idle period nothing is under way for certain.
pub const SURE: u32 = 2;
/// Bit of `Entry::flags`: the shim has ended this idle period.
pub const ENDED_BY_US: u32 = 4;
/// Bit of `Entry::flags`: the client has said that it goes.
pub const LEAVING: u32 = 8;
/// Bit of `Entry::flags`: two threads have used the connection at once.
const SHARED: u32 = 16;

/// One number. What each request needs comes first, in one cache line.
#[repr(C, align(64))]
pub struct Entry {
    /// `UNKNOWN` ... `FOREIGN`.
    pub kind: AtomicU32,
    /// Which process a connection belongs to: a child that inherits the descriptor does not hold the slot.
    pub owner: AtomicU32,
    /// See the kinds.
    pub index: AtomicU32,
    /// Where in a request a connection is.
    pub phase: AtomicU32,
    /// Answers so far; of TLS, turns from reading to writing.
    pub turns: AtomicU32,
    /// See the bits.
    pub flags: AtomicU32,
    in_use: AtomicU32,
    /// When the first byte of the request was read.
    pub start_ns: AtomicU64,
    /// When the last byte so far was written.
    pub last_ns: AtomicU64,
    /// Bytes written since the last request was counted.
    pub bytes: AtomicU64,
    follower: UnsafeCell<Follower>,
    /// When a worker got the connection.
    pub born_ns: AtomicU64,
    /// From then until its first byte.
    pub wait_ns: AtomicU64,
}

// SAFETY: all is atomic but the follower, which only the one who has set `in_use` touches.
unsafe impl Sync for Entry {}

impl Entry {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self {
            kind: AtomicU32::new(UNKNOWN),
            owner: AtomicU32::new(0),
            index: AtomicU32::new(0),
            phase: AtomicU32::new(0),
            start_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            born_ns: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            turns: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            in_use: AtomicU32::new(0),
            follower: UnsafeCell::new(Follower::New),
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
    pub fn become_connection(&self, fd: c_int, slot: Option<u32>) {
        self.owner.store(pid(), Ordering::Relaxed);
        for word in [&self.phase, &self.turns, &self.flags] {
            word.store(0, Ordering::Relaxed);
        }
        self.bytes.store(0, Ordering::Relaxed);
        self.born_ns.store(now_ns(), Ordering::Relaxed);
        self.in_use.store(0, Ordering::Relaxed);
        self.follow(|follower| *follower = Follower::New);
        if HOT.connections_below.load(Ordering::Relaxed) <= fd {
            HOT.connections_below.fetch_max(fd + 1, Ordering::Relaxed);
        }
        self.become_kind(CONNECTION, slot.unwrap_or(NO_SLOT));
    }

    /// Does something with what follows the connection; None when another thread does, and then the follower is of no use any more.
    #[inline]
    pub fn follow<T>(&self, work: impl FnOnce(&mut Follower) -> T) -> Option<T> {
        if self.flags.load(Ordering::Relaxed) & SHARED != 0 {
            return None;
        }
        if self.in_use.swap(1, Ordering::Acquire) != 0 {
            self.raise(SHARED);
            return None;
        }
        // SAFETY: whoever has changed `in_use` from 0 to 1 is alone here until it is 0 again.
        let done = work(unsafe { &mut *self.follower.get() });
        self.in_use.store(0, Ordering::Release);
        Some(done)
    }

    /// Sets bits of the flags.
    #[inline]
    pub fn raise(&self, bits: u32) {
        if self.flags.load(Ordering::Relaxed) & bits != bits {
            self.flags.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Clears bits of the flags.
    #[inline]
    pub fn lower(&self, bits: u32) {
        if self.flags.load(Ordering::Relaxed) & bits != 0 {
            self.flags.fetch_and(!bits, Ordering::Relaxed);
        }
    }

    /// Turns that cannot be those of a request.
    #[inline]
    pub fn turns_before_requests(&self) -> u32 {
        self.follow(|follower| follower.turns_before_requests())
            .unwrap_or(0)
    }
}

/// The connections of this process with their numbers.
pub fn connections() -> impl Iterator<Item = (c_int, &'static Entry)> {
    (0..HOT.connections_below.load(Ordering::Relaxed)).filter_map(|fd| Some((fd, connection(fd)?)))
}

/// What is known of a number; None for one beyond the table.
#[inline]
pub fn entry(fd: c_int) -> Option<&'static Entry> {
    usize::try_from(fd).ok().and_then(|fd| HOT.entries.get(fd))
}

/// Whether there has ever been a connection.
#[inline]
pub fn has_connections() -> bool {
    HOT.connections_below.load(Ordering::Relaxed) > 0
}

/// The entry of a connection that this process holds.
#[inline]
pub fn connection(fd: c_int) -> Option<&'static Entry> {
    entry(fd).filter(|e| {
        e.kind() == CONNECTION && e.owner.load(Ordering::Relaxed) == HOT.pid.load(Ordering::Relaxed)
    })
}

/// This process, as of the last fork.
pub fn pid() -> u32 {
    let known = HOT.pid.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    remember_pid()
}

/// Notes which process this is: at the start and after each fork.
pub fn remember_pid() -> u32 {
    let pid = really();
    HOT.pid.store(pid, Ordering::Relaxed);
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
