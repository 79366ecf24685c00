//! The mapped file that the gate, the shim in every server process and Python's shim sensor share.
//!
//! Layout (native endian; all of it is `#[repr(C)]` and tested against golden offsets here and in Python):
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 4096 | [`Header`] |
//! | 4096 | 4096 | histogram of accept delays: 512 counts |
//! | 8192 | 4096 | histogram of service times: 512 counts |
//! | 12288 | 8192 | histogram of request intervals in steps of 50 ms: 1024 counts |
//! | 20480 | 4096 | histogram of request intervals: 512 counts |
//! | 24576 | 4096 | histogram of idle periods that the shim or the server ended: 512 counts |
//! | 28672 | 4096 | histogram of idle periods that the client ended: 512 counts |
//! | 32768 | 64 x 65536 | [`Slot`]s |
//! | 4227072 | | [`Lanes`] |
//!
//! In the first page [`Sense`] lies at 192, [`KeepAlive`] at 256 and [`Idle`] at 320.
//!
//! A slot is a connection between its dispatch and its end. The gate takes a free slot and sets it DISPATCHED; from then on the
//! shim moves it on by compare-and-swap, so exactly one party closes it: `Slot::close` tells which. Who closed it pushes it on
//! the stack of released slots, from which only the gate pops, and only everything at once: so there is no ABA.
//! A process that dies between closing and pushing leaves a slot CLOSED off the stack: when a process has died the gate empties
//! the stack first and then frees whatever slots still carry that pid.
//!
//! A process of the server can write anything anywhere here, at any time: whoever reads an index, a link, a state, a count or a time
//! believes none of it, follows no link more often than there are slots, and waits for nothing that only this file says.
//!
//! The times are CLOCK_MONOTONIC in nanoseconds. The gate raises `generation` once its hand-off socket listens, not before, and after it has
//! let a listener go: a process that accepts for itself shows its listeners once for each generation (and again after a failure, at a distance).

// The shim carries this into the server, which a panic would end.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::lanes::Lanes;
pub use crate::shared_file::{Room, Shared};

/// "TRIMTAB\0" as the bytes lie in the file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TRIMTAB\0");
/// Version of the layout; a reader of another version stays away.
pub const VERSION: u32 = 3;
/// Slots in the file.
pub const SLOTS: usize = 65_536;
/// Counts in a histogram.
pub const BUCKETS: usize = 512;
/// Counts in the histogram of request intervals in steps of [`STEP_NS`]; the last one takes whatever is longer.
pub const STEPS: usize = 1024;
/// Width of such a step.
pub const STEP_NS: u64 = 50_000_000;
/// Attempts at a change that others may come before: none fails so often by chance.
pub(crate) const TRIES: usize = 10_000;
/// No slot: the connection is outside classes and budgets.
pub const NO_SLOT: u32 = u32::MAX;

/// The gate has a slot to give.
pub const FREE: u32 = 0;
/// Sent to the workers, received by none yet.
pub const DISPATCHED: u32 = 1;
/// In the hands of a worker.
pub const HELD: u32 = 2;
/// Kept alive between requests.
pub const IDLE: u32 = 3;
/// Its worker shuts it down for reading at this moment, at the gate's wish.
pub const CUTTING: u32 = 4;
/// The worker has closed it.
pub const CLOSED: u32 = 5;

/// Bit of `Header::flags`: delays and service times are to be counted.
pub const FLAG_SENSE: u32 = 1;
/// Bit of `Header::flags`: the policy is preemptive, so workers listen for RECLAIM.
pub const FLAG_PREEMPTIVE: u32 = 2;

/// The first page. What is written often lies on cache lines of its own.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`]; written last when the file is made.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Bytes before the first slot.
    pub header_len: AtomicU32,
    /// Number of slots.
    pub slot_count: AtomicU32,
    /// Bytes of a slot.
    pub slot_len: AtomicU32,
    /// What a process must show at the hand-off socket, as two words.
    pub token: [AtomicU64; 2],
    /// Gate starts and listeners that were let go, so far; 0 before the first.
    pub generation: AtomicU32,
    /// Process id of the gate; 0 when there is none.
    pub gate_pid: AtomicU32,
    /// Source address of connections that the server makes to itself, 127.x.y.z as a big-endian number.
    pub wake_source: AtomicU32,
    /// `FLAG_*`.
    pub flags: AtomicU32,
    _line_0: AtomicU64,
    /// Top of the stack of released slots: index + 1, or 0 when it is empty.
    pub released_head: AtomicU64,
    _line_1: [AtomicU64; 7],
    /// Not 0 when the gate wants one wake byte with the next release.
    pub gate_waiting: AtomicU32,
    _line_2: [AtomicU32; 15],
    /// Sensed so far.
    pub sense: Sense,
    _line_3: [AtomicU64; 2],
    /// How long idle connections are kept; written by Python alone.
    pub keep_alive: KeepAlive,
    _line_4: [AtomicU64; 5],
    /// Idle periods so far.
    pub idle: Idle,
    _rest: [AtomicU64; 460],
}

/// What the shim has counted since the file was made.
#[repr(C)]
pub struct Sense {
    /// Connections received by a worker.
    pub connections: AtomicU64,
    /// Sum of their delays from the end of the handshake (with a gate: its accept) until then.
    pub accept_delay_ns_sum: AtomicU64,
    /// Requests answered.
    pub requests: AtomicU64,
    /// Sum of their times from the first byte read to the last byte written.
    pub service_ns_sum: AtomicU64,
    /// Bytes written in answer to them.
    pub bytes_written: AtomicU64,
    /// Connections that could not be followed: their descriptor lies beyond the shim's table.
    pub clipped: AtomicU64,
}

/// How long an idle connection is kept.
#[repr(C)]
pub struct KeepAlive {
    /// After how long it is ended; 0 leaves it to the server.
    pub time_ns: AtomicU64,
    /// The same for an idle period that is a trial, which shows request intervals beyond `time_ns`; 0: there are none.
    pub trial_ns: AtomicU64,
    /// One idle period in so many is a trial; 0: none is.
    pub trial_every: AtomicU32,
    /// Who decides the time: 0 the server, 1 the operator, 2 a controller. While it is 0 the shim does not
    /// follow requests and answers byte by byte on connections that begin.
    pub mode: AtomicU32,
}

/// Idle periods: from the last byte of an answer to the first byte of the next request (a request interval) or to the end.
///
/// Of a TLS connection only those after its third turn from reading to writing count: before that the handshake may go on.
#[repr(C)]
pub struct Idle {
    /// Those that a request ended.
    pub intervals: AtomicU64,
    /// Sum of their lengths.
    pub interval_ns_sum: AtomicU64,
    /// Sum of the lengths of all, however they ended.
    pub idle_ns_sum: AtomicU64,
    /// The part of it in which a worker waited for nothing but the one connection.
    pub held_ns_sum: AtomicU64,
    /// Those that the shim ended.
    pub cut: AtomicU64,
    /// Those that the server ended by itself.
    pub expired: AtomicU64,
    /// Those that the client ended.
    pub left: AtomicU64,
    /// The time that the server itself last wanted to wait in one, in milliseconds; 0: not seen.
    pub server_ms: AtomicU64,
    /// Those that lasted longer than the time because it was not certain that nothing was under way.
    pub spared: AtomicU64,
    /// Connections whose first request is answered; of TLS: whose second turn is over, which ends the handshake.
    pub firsts: AtomicU64,
    /// Sum of their waits from when a worker had the connection until its first byte.
    pub first_wait_ns_sum: AtomicU64,
    /// Sum of their times from then to the last byte of that answer.
    pub first_service_ns_sum: AtomicU64,
}

/// A connection between its dispatch and its end; one cache line.
#[repr(C, align(64))]
pub struct Slot {
    /// `FREE` ... `CLOSED`.
    pub state: AtomicU32,
    /// Index of its class.
    pub class: AtomicU16,
    /// Era in which the slot was lent to its class's lane; 0: it was not.
    pub era: AtomicU16,
    /// Process that holds it; 0 before it is received.
    pub pid: AtomicU32,
    /// Its descriptor in that process; -1 before it is received.
    pub fd: AtomicI32,
    /// When the gate accepted the connection.
    pub arrival_ns: AtomicU64,
    /// When the gate sent it.
    pub dispatched_ns: AtomicU64,
    /// When a worker received it.
    pub received_ns: AtomicU64,
    /// When it last became idle; of a closed connection: when it was closed.
    pub idle_since_ns: AtomicU64,
    /// Link of the stack: index + 1 of the slot below, or 0.
    pub next: AtomicU32,
    /// Requests begun on it.
    pub requests: AtomicU32,
    /// Counts the uses of the slot, so that a RECLAIM for an earlier connection is known as such.
    pub sequence: AtomicU64,
}

/// The whole file.
#[repr(C)]
pub struct Layout {
    /// The first page.
    pub header: Header,
    /// Accept delays, indexed by [`bucket`].
    pub accept_delay: [AtomicU64; BUCKETS],
    /// Service times, indexed by [`bucket`].
    pub service_time: [AtomicU64; BUCKETS],
    /// Request intervals in steps of [`STEP_NS`].
    pub intervals_50ms: [AtomicU64; STEPS],
    /// Request intervals, indexed by [`bucket`].
    pub intervals: [AtomicU64; BUCKETS],
    /// Idle periods that the shim or the server ended, indexed by [`bucket`]: intervals that might have been longer.
    pub ended: [AtomicU64; BUCKETS],
    /// Idle periods that the client ended, indexed by [`bucket`].
    pub left: [AtomicU64; BUCKETS],
    /// The slots.
    pub slots: [Slot; SLOTS],
    /// What the gate has lent to the workers.
    pub lanes: Lanes,
}

/// Bytes before the first slot.
pub const HEADER_LEN: usize = std::mem::offset_of!(Layout, slots);

const _: () = assert!(std::mem::size_of::<Header>() == 4096);
const _: () = assert!(std::mem::size_of::<Slot>() == 64);
const _: () = assert!(HEADER_LEN == 32_768);
const _: () = assert!(std::mem::offset_of!(Layout, lanes) == 4_227_072);

/// Index of a duration in a histogram: eight buckets to the octave, exact below 8 ns.
#[must_use]
pub const fn bucket(ns: u64) -> usize {
    if ns < 8 {
        return ns as usize;
    }
    let octave = ns.ilog2();
    (octave as usize - 2) * 8 + ((ns >> (octave - 3)) & 7) as usize
}

/// Smallest duration in ns that falls into a bucket; the next bucket's is the end of this one. Beyond the last: `u64::MAX`.
#[must_use]
pub const fn bucket_floor_ns(index: usize) -> u64 {
    if index < 8 {
        return index as u64;
    }
    let shift = index / 8 - 1;
    if shift > 60 {
        return u64::MAX;
    }
    (8 + (index % 8) as u64) << shift
}

/// Index of a duration in the histogram of steps.
#[must_use]
pub const fn step(ns: u64) -> usize {
    let step = ns / STEP_NS;
    if step < STEPS as u64 {
        step as usize
    } else {
        STEPS - 1
    }
}

impl Slot {
    /// Moves the slot from one state to another; false when it was in neither the first nor could be moved.
    pub fn advance(&self, from: u32, to: u32) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// How long ago the gate sent it; a time to come, which nobody but a hostile process writes, is as long ago as can be.
    #[must_use]
    pub fn since_dispatch_ns(&self, now_ns: u64) -> u64 {
        let sent_ns = self.dispatched_ns.load(Ordering::Relaxed);
        now_ns.checked_sub(sent_ns).unwrap_or(u64::MAX)
    }

    /// Ends a connection that a worker holds; true for the one caller who must now release the slot.
    ///
    /// While the slot is being cut the caller waits: the descriptor must not be closed under the shutdown.
    ///
    /// # Arguments
    /// - `is_cut`: whether this process itself is cutting it at this moment. Nobody else does, whatever the state says.
    pub fn close(&self, is_cut: impl Fn() -> bool) -> bool {
        for _ in 0..TRIES {
            let state = self.state.load(Ordering::Acquire);
            if !matches!(state, HELD | IDLE | CUTTING) {
                return false;
            }
            while state == CUTTING && is_cut() {
                std::thread::yield_now();
            }
            if self.advance(state, CLOSED) {
                // Before the release, so whoever takes the slot off the stack reads it.
                self.idle_since_ns.store(now_ns(), Ordering::Relaxed);
                return true;
            }
        }
        false
    }
}

impl Layout {
    /// The slot of this index, when there is one.
    #[must_use]
    pub fn slot(&self, index: u32) -> Option<&Slot> {
        self.slots.get(index as usize)
    }

    /// Puts a closed slot on the stack of released slots; true when the caller owes the gate one wake byte.
    pub fn release(&self, index: u32) -> bool {
        let Some(slot) = self.slot(index) else {
            return false;
        };
        let top = &self.header.released_head;
        let mut head = top.load(Ordering::Relaxed);
        // Where it cannot be put there at all the gate's next look at all slots finds it CLOSED.
        for _ in 0..TRIES {
            slot.next.store(head as u32, Ordering::Relaxed);
            let new = u64::from(index) + 1;
            match top.compare_exchange_weak(head, new, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(seen) => head = seen,
            }
        }
        let waiting = &self.header.gate_waiting;
        waiting.load(Ordering::SeqCst) != 0 && waiting.swap(0, Ordering::SeqCst) != 0
    }

    /// Takes everything off the stack of released slots, as many as there can be; for the gate alone.
    pub fn take_released(&self) -> Released<'_> {
        let head = self.header.released_head.swap(0, Ordering::SeqCst);
        Released {
            layout: self,
            next: head as u32,
            left: SLOTS,
        }
    }

    /// Announces that the gate is about to wait; false when a slot has been released meanwhile, so that it must not.
    pub fn announce_wait(&self) -> bool {
        self.header.gate_waiting.store(1, Ordering::SeqCst);
        if self.header.released_head.load(Ordering::SeqCst) == 0 {
            return true;
        }
        self.header.gate_waiting.store(0, Ordering::SeqCst);
        false
    }

    /// Whether these bits are set in the flags.
    #[must_use]
    pub fn has(&self, flags: u32) -> bool {
        self.header.flags.load(Ordering::Relaxed) & flags == flags
    }

    /// The token as it travels.
    #[must_use]
    pub fn token(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let (low, high) = bytes.split_at_mut(8);
        low.copy_from_slice(&self.header.token[0].load(Ordering::Relaxed).to_ne_bytes());
        high.copy_from_slice(&self.header.token[1].load(Ordering::Relaxed).to_ne_bytes());
        bytes
    }
}

/// The slots that were on the stack, last released first. The link is read before the slot is given out, so it may be reused.
pub struct Released<'a> {
    layout: &'a Layout,
    next: u32,
    left: usize,
}

impl Iterator for Released<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let index = self.next.checked_sub(1)?;
        self.left = self.left.checked_sub(1)?;
        self.next = self.layout.slot(index)?.next.load(Ordering::Relaxed);
        Some(index)
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

#[cfg(test)]
#[path = "shared_tests.rs"]
mod tests;
