//! Lanes: while no budget binds, the workers accept for themselves, within what the gate has lent them.
//!
//! A class's lane is a stack of free slots, as many as the class may still put into service. The gate fills it and shows the rules
//! that tell the classes apart by their ends. A worker that accepts takes a slot from the lane of the connection's
//! class and puts it back when the connection ends; the gate need not run for it. A worker that finds the lane
//! empty has found a budget that binds: it hands the connection to the gate, and the gate takes all lanes back
//! before it lets anybody wait.
//!
//! The head of a stack holds the top slot, the era of its lending and a count of its changes, so that neither an
//! earlier state of the stack nor a slot of an earlier lending is taken for the present one. Era 0: closed.

// The shim carries this into the server, which a panic would end.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::ends::{Ends, EndsRule, WORDS};
use crate::shared::{bucket, Layout, BUCKETS, CLOSED, FREE, HELD, SLOTS, TRIES};

/// Most classes.
pub const CLASSES: usize = 64;
/// Most rules that the file has room for.
pub const RULES: usize = 256;
/// Eras are counted from 1 to this and again.
pub const ERAS: u16 = 0x7fff;

const INDEX_BITS: u32 = 17;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
const TAG_SHIFT: u32 = 32;
/// More changes than a lane can have seen between two instructions of the gate.
const TAGS_AHEAD: u64 = 1 << 20;

/// The part of the mapped file behind the slots.
#[repr(C)]
pub struct Lanes {
    /// 1: workers may accept for themselves.
    pub open: AtomicU32,
    /// Era of the last lending.
    pub era: AtomicU32,
    /// Listeners, one bit for each, to whose workers the gate has sent something that may lie there yet.
    pub sent: AtomicU32,
    /// Listeners whose workers wait for clients too, one bit for each.
    pub armed: AtomicU32,
    /// Connections that workers have received from the gate while they might accept for themselves.
    pub received: AtomicU32,
    /// Rules in use.
    pub rule_count: AtomicU32,
    /// Class of connections for which no rule holds.
    pub rest: AtomicU32,
    /// 1: some rule asks for the server's address, not only for its port.
    pub asks_address: AtomicU32,
    _line: [AtomicU32; 8],
    /// In the order in which they are asked, as [`EndsRule::words`].
    pub rules: [[AtomicU64; WORDS]; RULES],
    /// By class.
    pub lanes: [Lane; CLASSES],
}

/// What workers have taken for themselves in a class.
#[repr(C)]
pub struct Lane {
    head: AtomicU64,
    _line: [AtomicU64; 7],
    /// Connections.
    pub taken: AtomicU64,
    /// Sum of their delays.
    pub delay_ns: AtomicU64,
    /// Sum of their times in service, of those that have ended.
    pub held_ns: AtomicU64,
    _line_2: [AtomicU64; 5],
    /// Counts of delays, indexed by [`bucket`].
    pub delays: [AtomicU64; BUCKETS],
}

const _: () = assert!(SLOTS < INDEX_MASK as usize);
const _: () = assert!(std::mem::size_of::<Lane>() == 128 + 8 * BUCKETS);

impl Lanes {
    /// Whether workers may accept for themselves.
    #[inline]
    #[must_use]
    pub fn are_open(&self) -> bool {
        self.open.load(Ordering::Acquire) != 0
    }

    /// Shows the rules; the lanes are closed.
    ///
    /// # Arguments
    /// - `rules`: at most [`RULES`], each with its class.
    pub fn show(&self, rules: &[(EndsRule, u32)], rest: u32) {
        for ((rule, class), places) in rules.iter().zip(&self.rules) {
            for (word, place) in rule.words(*class).into_iter().zip(places) {
                place.store(word, Ordering::Relaxed);
            }
        }
        let asks = rules.iter().any(|(rule, _)| rule.local_address.is_some());
        self.asks_address.store(u32::from(asks), Ordering::Relaxed);
        self.rest.store(rest, Ordering::Relaxed);
        let count = rules.len().min(RULES) as u32;
        self.rule_count.store(count, Ordering::Release);
    }

    /// The class of a connection.
    #[must_use]
    pub fn class_of(&self, ends: &Ends) -> u32 {
        let count = self.rule_count.load(Ordering::Acquire) as usize;
        let found = self.rules.iter().take(count).find_map(|places| {
            let words = std::array::from_fn(|at| match places.get(at) {
                Some(place) => place.load(Ordering::Relaxed),
                None => 0,
            });
            let (rule, class) = EndsRule::from_words(words);
            rule.holds(ends).then_some(class)
        });
        found.unwrap_or_else(|| self.rest.load(Ordering::Relaxed))
    }

    /// Notes that something was sent to the workers of the listener on a port.
    pub fn note_sent(&self, port: u32) {
        raise(&self.sent, port);
    }

    /// Whether something that was sent to them may lie there yet.
    #[inline]
    #[must_use]
    pub fn may_have_sent(&self, port: u32) -> bool {
        self.sent.load(Ordering::Acquire) & bit(port) != 0
    }

    /// Notes that nothing lay there.
    pub fn nothing_sent(&self, port: u32) {
        self.sent.fetch_and(!bit(port), Ordering::AcqRel);
    }

    /// Notes that workers of the listener on a port wait for clients too.
    #[inline]
    pub fn note_armed(&self, port: u32) {
        raise(&self.armed, port);
    }

    /// Whether some do.
    #[must_use]
    pub fn are_armed(&self, port: u32) -> bool {
        self.armed.load(Ordering::Relaxed) & bit(port) != 0
    }

    /// A number that changes whenever a worker gets a connection.
    #[must_use]
    pub fn activity(&self) -> u64 {
        let taken = |lane: &Lane| lane.taken.load(Ordering::Relaxed);
        let received = u64::from(self.received.load(Ordering::Relaxed));
        self.lanes
            .iter()
            .map(taken)
            .fold(received, u64::wrapping_add)
    }
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            head: AtomicU64::default(),
            _line: Default::default(),
            taken: AtomicU64::default(),
            delay_ns: AtomicU64::default(),
            held_ns: AtomicU64::default(),
            _line_2: Default::default(),
            delays: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl Lane {
    /// A worker has taken a connection that waited so long.
    pub fn count(&self, delay_ns: u64) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.delay_ns.fetch_add(delay_ns, Ordering::Relaxed);
        if let Some(count) = self.delays.get(bucket(delay_ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Layout {
    /// Opens a lane, which is closed, with nothing in it; for the gate alone.
    pub fn open_lane(&self, class: u32, era: u16) {
        if let Some(lane) = self.lanes.lanes.get(class as usize) {
            let tag = lane.head.load(Ordering::Relaxed) >> TAG_SHIFT;
            let head = pack(tag.wrapping_add(1), era, 0);
            lane.head.store(head, Ordering::Release);
        }
    }

    /// Puts a slot that is FREE and in nobody's hands into an open lane; for the gate alone.
    pub fn lend(&self, index: u32, class: u32, era: u16) {
        if let Some(slot) = self.slot(index) {
            slot.class.store(class as u16, Ordering::Relaxed);
            slot.era.store(era, Ordering::Relaxed);
            self.push(index);
        }
    }

    /// Closes a lane: the slots that lay in it, which nobody else has now; for the gate alone.
    #[must_use]
    pub fn close_lane(&self, class: u32) -> Vec<u32> {
        let Some(lane) = self.lanes.lanes.get(class as usize) else {
            return Vec::new();
        };
        let tag = lane.head.load(Ordering::Relaxed) >> TAG_SHIFT;
        let closed = pack(tag.wrapping_add(TAGS_AHEAD), 0, 0);
        // In one step, which no worker can come before again and again.
        let head = lane.head.swap(closed, Ordering::AcqRel);
        let mut slots = Vec::new();
        let mut next = (head & INDEX_MASK) as u32;
        // What a process of the server has written there must not make this endless.
        while let (Some(index), true) = (next.checked_sub(1), slots.len() < SLOTS) {
            let Some(slot) = self.slot(index) else {
                break;
            };
            slots.push(index);
            next = slot.next.load(Ordering::Relaxed);
        }
        slots
    }

    /// Takes a slot from a lane; None when it is empty or closed.
    #[must_use]
    pub fn pop(&self, class: u32) -> Option<u32> {
        let head = &self.lanes.lanes.get(class as usize)?.head;
        let mut seen = head.load(Ordering::Acquire);
        for _ in 0..TRIES {
            let era = era_of(seen);
            let index = ((seen & INDEX_MASK) as u32).checked_sub(1)?;
            if era == 0 {
                return None;
            }
            let next = self.slot(index)?.next.load(Ordering::Relaxed);
            let new = pack((seen >> TAG_SHIFT).wrapping_add(1), era, next);
            match head.compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(other) => seen = other,
            }
        }
        None
    }

    /// Puts a slot that is FREE and in the caller's hands into the lane that it was lent to; false when that is closed.
    pub fn push(&self, index: u32) -> bool {
        let Some(slot) = self.slot(index) else {
            return false;
        };
        let (class, era) = (
            slot.class.load(Ordering::Relaxed),
            slot.era.load(Ordering::Relaxed),
        );
        let Some(lane) = self.lanes.lanes.get(usize::from(class)) else {
            return false;
        };
        let mut seen = lane.head.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if era == 0 || era_of(seen) != era {
                return false;
            }
            slot.next
                .store((seen & INDEX_MASK) as u32, Ordering::Relaxed);
            let new = pack((seen >> TAG_SHIFT).wrapping_add(1), era, index + 1);
            let done =
                lane.head
                    .compare_exchange_weak(seen, new, Ordering::AcqRel, Ordering::Relaxed);
            match done {
                Ok(_) => return true,
                Err(other) => seen = other,
            }
        }
        false
    }

    /// Takes a slot of a class for a connection that a worker has accepted for itself; None when there is none.
    #[must_use]
    pub fn take_for_itself(&self, class: u32, pid: u32, fd: i32, now_ns: u64) -> Option<u32> {
        let index = self.pop(class)?;
        let slot = self.slot(index)?;
        let sequence = slot.sequence.load(Ordering::Relaxed).wrapping_add(1);
        slot.sequence.store(sequence, Ordering::Relaxed);
        slot.pid.store(pid, Ordering::Relaxed);
        slot.fd.store(fd, Ordering::Relaxed);
        for time in [&slot.arrival_ns, &slot.dispatched_ns, &slot.received_ns] {
            time.store(now_ns, Ordering::Relaxed);
        }
        slot.idle_since_ns.store(0, Ordering::Relaxed);
        slot.requests.store(0, Ordering::Relaxed);
        // A next gate may have found it free between the two.
        slot.advance(FREE, HELD).then_some(index)
    }

    /// Gives a closed slot back to its lane; false when that is closed, and then the slot is as before.
    pub fn give_to_lane(&self, index: u32) -> bool {
        let Some(slot) = self.slot(index) else {
            return false;
        };
        if slot.era.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let load = |time: &AtomicU64| time.load(Ordering::Relaxed);
        let held_ns = load(&slot.idle_since_ns).saturating_sub(load(&slot.dispatched_ns));
        let class = slot.class.load(Ordering::Relaxed);
        slot.state.store(FREE, Ordering::Release);
        if !self.push(index) {
            // Where a next gate has given it away meanwhile, it is no longer the caller's.
            return !slot.advance(FREE, CLOSED);
        }
        if let Some(lane) = self.lanes.lanes.get(usize::from(class)) {
            lane.held_ns.fetch_add(held_ns, Ordering::Relaxed);
        }
        true
    }
}

/// The bit of the listener on a port; two may share one.
fn bit(port: u32) -> u32 {
    1 << (port % 32)
}

#[inline]
fn raise(bits: &AtomicU32, port: u32) {
    if bits.load(Ordering::Relaxed) & bit(port) == 0 {
        bits.fetch_or(bit(port), Ordering::Release);
    }
}

fn pack(tag: u64, era: u16, index: u32) -> u64 {
    tag << TAG_SHIFT | u64::from(era & ERAS) << INDEX_BITS | u64::from(index) & INDEX_MASK
}

fn era_of(head: u64) -> u16 {
    (head >> INDEX_BITS) as u16 & ERAS
}

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
