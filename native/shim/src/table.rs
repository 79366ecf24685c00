//! The entries of all descriptors: an array indexed by their numbers, without locks.
//!
//! A descriptor is used by one thread at a time, as far as its connection is concerned, so relaxed accesses do. Should a server
//! use one from two threads at once, its follower is given up.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicU8, Ordering};

use trimtab_wire::shared::NO_SLOT;

use crate::clock::now_ns;
use crate::follower::{may_be_http, Follower};
use crate::hot::{HOT, NEAR};
use crate::{environment, tcp};

/// Numbers that are followed; those beyond are libc's alone.
pub const NUMBERS: usize = 65_536;

/// Nothing is known.
pub const UNKNOWN: u8 = 0;
/// An accepted connection; `index` is its slot or `NO_SLOT`.
pub const CONNECTION: u8 = 1;
/// A gated listener whose place the worker end of the dispatch socket pair has taken; `index` is the listener's.
pub const GATED: u8 = 2;
/// A gated listener on which the process accepts for itself; `index` is the listener's.
pub const OWN: u8 = 3;
/// A descriptor of the shim's own.
pub const HIDDEN: u8 = 4;
/// A listener that is no affair of ours.
pub const FOREIGN: u8 = 5;

/// Bit of `Entry::flags`: the server waits for this connection together with others.
pub const MULTIPLEXED: u8 = 1;
/// Bit of `Entry::flags`: in this idle period nothing is under way for certain.
pub const SURE: u8 = 2;
/// Bit of `Entry::flags`: the shim has ended this idle period.
pub const ENDED_BY_US: u8 = 4;
/// Bit of `Entry::flags`: the client has said that it goes.
pub const LEAVING: u8 = 8;
/// Bit of `Entry::flags`: nothing follows it: not yet, not to any use, or not since two threads have used it at once.
const UNFOLLOWED: u8 = 16;
/// Bit of `Entry::flags`: the server has written before it has read.
pub const SPOKEN: u8 = 32;
/// Bit of `Entry::flags`: nothing follows it because it was of no use when it began.
const DEFERRED: u8 = 64;

/// One number, in one cache line.
#[repr(C, align(64))]
pub struct Entry {
    /// `UNKNOWN` ... `FOREIGN`.
    pub kind: AtomicU8,
    /// Where in a request a connection is.
    pub phase: AtomicU8,
    /// See the bits.
    pub flags: AtomicU8,
    /// Somebody has the follower.
    in_use: AtomicU8,
    /// The number itself, when it is a connection's.
    fd: AtomicI32,
    /// Which process a connection belongs to: a child that inherits the descriptor does not hold the slot.
    pub owner: AtomicU32,
    /// See the kinds.
    pub index: AtomicU32,
    /// Answers so far; of TLS, turns from reading to writing.
    pub turns: AtomicU32,
    /// Bytes that the shim has seen the server read, as they count in 32 bits.
    read: AtomicU32,
    /// When the first byte of the request was read.
    pub start_ns: AtomicU64,
    /// When the last byte so far was written.
    pub last_ns: AtomicU64,
    /// Bytes written since the last request was counted.
    pub bytes: AtomicU64,
    /// When a worker got the connection.
    pub born_ns: AtomicU64,
    /// From then until its first byte.
    pub wait_ns: AtomicU64,
}

const _: () = assert!(std::mem::size_of::<Entry>() == 64);

/// The followers of the connections, apart: most need none.
struct Followers([UnsafeCell<Follower>; NUMBERS]);

// SAFETY: only the one who has set `in_use` of the entry touches its follower.
unsafe impl Sync for Followers {}

static FOLLOWERS: Followers = Followers([const { UnsafeCell::new(Follower::Other) }; NUMBERS]);

impl Entry {
    /// Nothing is known.
    pub const fn new() -> Self {
        Self {
            kind: AtomicU8::new(UNKNOWN),
            phase: AtomicU8::new(0),
            flags: AtomicU8::new(0),
            in_use: AtomicU8::new(0),
            fd: AtomicI32::new(0),
            owner: AtomicU32::new(0),
            index: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            read: AtomicU32::new(0),
            start_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            born_ns: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
        }
    }

    /// The kind of descriptor that it is.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.kind.load(Ordering::Relaxed)
    }

    /// Starts the life of a connection in this process.
    pub fn become_connection(&self, fd: c_int, slot: Option<u32>) {
        self.owner.store(pid(), Ordering::Relaxed);
        self.fd.store(fd, Ordering::Relaxed);
        self.phase.store(0, Ordering::Relaxed);
        self.flags.store(UNFOLLOWED, Ordering::Relaxed);
        self.turns.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
        // Not `in_use`: whoever still has the follower of the connection before gives it back, and until then this one is not followed.
        self.born_ns.store(now_ns(), Ordering::Relaxed);
        if HOT.connections_below.load(Ordering::Relaxed) <= fd {
            HOT.connections_below.fetch_max(fd + 1, Ordering::Relaxed);
        }
        become_kind(fd, CONNECTION, slot.unwrap_or(NO_SLOT));
    }

    /// Notes that the server has read so many bytes.
    #[inline]
    pub fn has_read(&self, count: usize) {
        let read = self.read.load(Ordering::Relaxed);
        self.read
            .store(read.wrapping_add(count as u32), Ordering::Relaxed);
    }

    /// Whether nothing has happened on a connection of which the shim has not seen all, so that it is what its entry says.
    ///
    /// A server may close a number, take it again and read there by calls that the shim does not stand before, such as io_uring's, or
    /// in another process. The kernel counts every byte.
    ///
    /// # Arguments
    /// - `fd`: its number.
    /// - `unread`: bytes that have come and were not read.
    pub fn is_as_seen(&self, fd: c_int, unread: u64) -> bool {
        let seen = self.read.load(Ordering::Relaxed);
        tcp::info(fd).is_some_and(|tcp| tcp.bytes_received.wrapping_sub(unread) as u32 == seen)
    }

    /// Has the connection followed from a first byte on, when that is of use by now.
    pub fn follow_from(&self, first: u8) {
        if self.flags.load(Ordering::Relaxed) & SPOKEN != 0 {
            return;
        }
        if may_be_http(first) && !environment::ends_connections() {
            self.raise(DEFERRED);
            return;
        }
        let follower = Follower::of(first);
        if !matches!(follower, Follower::Other) {
            self.lower(UNFOLLOWED | DEFERRED);
            self.follow(|place| *place = follower);
        }
    }

    /// Follows it no more: bytes have passed that were not seen, or may pass.
    pub fn give_up(&self) {
        self.raise(UNFOLLOWED | SPOKEN);
        self.lower(DEFERRED);
    }

    /// Whether it may be followed from its next request on.
    ///
    /// Only where the server waits for one connection at a time: it would not wait for another request while it owes an answer.
    #[inline]
    pub fn may_be_followed_yet(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (DEFERRED | MULTIPLEXED) == DEFERRED
            && environment::ends_connections()
    }

    /// Does something with what follows the connection; None when that is of no use, as when another thread does so too.
    #[inline]
    pub fn follow<T>(&self, work: impl FnOnce(&mut Follower) -> T) -> Option<T> {
        if !self.is_followed() {
            return None;
        }
        let number = usize::try_from(self.fd.load(Ordering::Relaxed)).ok()?;
        let follower = FOLLOWERS.0.get(number)?;
        if self.in_use.swap(1, Ordering::Acquire) != 0 {
            self.raise(UNFOLLOWED);
            return None;
        }
        // SAFETY: whoever has changed `in_use` from 0 to 1 is alone here until it is 0 again, and nobody else makes it 0.
        let follower = unsafe { &mut *follower.get() };
        let done = work(follower);
        if matches!(follower, Follower::Other) {
            self.raise(UNFOLLOWED);
        }
        self.in_use.store(0, Ordering::Release);
        Some(done)
    }

    /// Whether it can become certain that nothing is under way.
    #[inline]
    pub fn is_followed(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & UNFOLLOWED == 0
    }

    /// Whether one of these bits of the flags is set.
    #[inline]
    pub fn has(&self, bits: u8) -> bool {
        self.flags.load(Ordering::Relaxed) & bits != 0
    }

    /// Sets bits of the flags.
    #[inline]
    pub fn raise(&self, bits: u8) {
        if self.flags.load(Ordering::Relaxed) & bits != bits {
            self.flags.fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Clears bits of the flags.
    #[inline]
    pub fn lower(&self, bits: u8) {
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

/// The numbers from one to another of which something is known, with their kinds.
pub fn known(first: c_int, last: c_int) -> impl Iterator<Item = (c_int, u8)> {
    (first.max(0)..=last.min(NUMBERS as c_int - 1))
        .map(|fd| (fd, kind(fd)))
        .filter(|&(_, kind)| kind != UNKNOWN)
}

/// The connections of this process with their numbers.
pub fn connections() -> impl Iterator<Item = (c_int, &'static Entry)> {
    (0..HOT.connections_below.load(Ordering::Relaxed)).filter_map(|fd| Some((fd, connection(fd)?)))
}

/// Sets kind and index of a number, when it is in the table.
pub fn become_kind(fd: c_int, kind: u8, index: u32) {
    let Some(entry) = entry(fd) else { return };
    let bit = low_bit(fd);
    if kind != UNKNOWN {
        HOT.known.fetch_or(bit, Ordering::Relaxed);
    }
    entry.index.store(index, Ordering::Relaxed);
    entry.kind.store(kind, Ordering::Release);
    if kind == UNKNOWN {
        HOT.known.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// The bit of a number in `known`; none for most.
#[inline]
fn low_bit(fd: c_int) -> u64 {
    u32::try_from(fd)
        .ok()
        .and_then(|fd| 1_u64.checked_shl(fd))
        .unwrap_or(0)
}

/// The kind of descriptor that a number is. Of low numbers that nothing is known of, such as those of files, not even the entry is looked at.
#[inline]
pub fn kind(fd: c_int) -> u8 {
    let bit = low_bit(fd);
    if bit != 0 && HOT.known.load(Ordering::Relaxed) & bit == 0 {
        return UNKNOWN;
    }
    entry(fd).map_or(UNKNOWN, Entry::kind)
}

/// The entry of a number; None for one beyond the table.
#[inline]
pub fn entry(fd: c_int) -> Option<&'static Entry> {
    let fd = usize::try_from(fd).ok()?;
    match fd.checked_sub(NEAR) {
        None => HOT.near.get(fd),
        Some(far) => HOT.far.get(far),
    }
}

/// Whether there has ever been a connection.
#[inline]
pub fn has_connections() -> bool {
    HOT.connections_below.load(Ordering::Relaxed) > 0
}

/// The entry of a connection that this process holds.
#[inline]
pub fn connection(fd: c_int) -> Option<&'static Entry> {
    if kind(fd) != CONNECTION {
        return None;
    }
    entry(fd).filter(|e| e.owner.load(Ordering::Relaxed) == HOT.pid.load(Ordering::Relaxed))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_an_entry_of_its_own_and_none_beyond_the_table_has() {
        let last = NUMBERS as c_int - 1;
        let near = NEAR as c_int;
        let places = [0, near - 1, near, last].map(|fd| entry(fd).map(std::ptr::from_ref));
        for (at, place) in places.iter().enumerate() {
            assert!(place.is_some() && !places[..at].contains(place));
        }
        assert!(entry(-1).is_none() && entry(last + 1).is_none());
    }

    #[test]
    fn what_is_known_is_known_of_low_numbers_and_of_high_ones_until_it_is_forgotten() {
        for fd in [40, 63, 64, 65, 300] {
            assert_eq!(kind(fd), UNKNOWN);
            become_kind(fd, FOREIGN, 7);
            assert_eq!(kind(fd), FOREIGN);
            assert_eq!(kind(fd + 1000), UNKNOWN);
            become_kind(fd, UNKNOWN, 0);
            assert_eq!(kind(fd), UNKNOWN);
        }
        assert_eq!(kind(-1), UNKNOWN);
    }

    #[test]
    fn nothing_follows_a_connection_on_which_the_server_has_spoken_first() {
        let fd = 65_010;
        let entry = entry(fd).expect("in the table");
        entry.become_connection(fd, None);
        entry.follow_from(22);
        assert!(entry.is_followed(), "TLS");
        entry.become_connection(fd, None);
        entry.raise(SPOKEN);
        entry.follow_from(22);
        assert!(!entry.is_followed());
    }

    #[test]
    fn a_follower_has_one_holder_even_when_its_number_becomes_another_connections_meanwhile() {
        let fd = 65_011;
        let entry = entry(fd).expect("in the table");
        entry.become_connection(fd, None);
        entry.follow_from(22);
        let seen = entry.follow(|_| {
            // Another thread has closed the number, and accepted a connection that got it.
            entry.become_connection(fd, None);
            entry.follow_from(22);
            entry.follow(|_| ()).is_some()
        });
        assert_eq!(seen, Some(false));
    }

    #[test]
    fn threads_that_share_a_number_never_hold_its_follower_at_once() {
        let (fd, held) = (65_012, AtomicU32::new(0));
        let entry = entry(fd).expect("in the table");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                        entry.become_connection(fd, None);
                        entry.follow_from(22);
                        entry.follow(|follower| {
                            assert_eq!(held.fetch_add(1, Ordering::Relaxed), 0);
                            follower.received(b"\x17\x03\x03\x00");
                            held.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                });
            }
        });
    }
}
