//! The events to come, ordered by virtual time.
//!
//! An event is one 128-bit key: the bits of its time above its kind, slot and stamp. Times are not negative, so
//! their bits order as they do; events at the same time follow in the order of kind and slot, in every run alike.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most slots that an event can name.
pub const MAX_SLOTS: u32 = 1 << 24;

/// What happens; the order is the order of events at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A step of a population's schedule; the slot is the population.
    Step,
    /// A change of the configuration comes into force.
    Reload,
    /// The server looks at its spare workers, once a second.
    Maintain,
    /// A request's time off the cores is over.
    DelayEnd,
    /// The server closes an idle connection.
    KeepAliveEnd,
    /// The client sends the next request of a page.
    NextObject,
    /// The user clicks.
    Click,
    /// The client sends a lost connection request again.
    Retry,
    /// The client gives up waiting.
    Timeout,
    /// A session arrives; the slot is the population.
    Arrival,
}

const KINDS: [Kind; 10] = [
    Kind::Step,
    Kind::Reload,
    Kind::Maintain,
    Kind::DelayEnd,
    Kind::KeepAliveEnd,
    Kind::NextObject,
    Kind::Click,
    Kind::Retry,
    Kind::Timeout,
    Kind::Arrival,
];

/// An event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Event {
    /// Virtual time.
    pub at_s: f64,
    /// What happens.
    pub kind: Kind,
    /// To which session or population.
    pub slot: u32,
    /// Which use of the slot is meant: an event whose stamp is an old one is void.
    pub stamp: u32,
}

/// The events to come.
#[derive(Debug, Default)]
pub struct Calendar {
    heap: BinaryHeap<Reverse<u128>>,
}

impl Calendar {
    /// Enters an event; its time must be finite and not negative.
    pub fn push(&mut self, event: Event) {
        let what = u64::from(event.kind as u8) << 56
            | u64::from(event.slot) << 32
            | u64::from(event.stamp);
        let key = u128::from(event.at_s.to_bits()) << 64 | u128::from(what);
        self.heap.push(Reverse(key));
    }

    /// Time of the earliest event; infinite when there is none.
    pub fn next_s(&self) -> f64 {
        self.heap.peek().map_or(f64::INFINITY, |Reverse(key)| {
            f64::from_bits((key >> 64) as u64)
        })
    }

    /// Takes the earliest event out.
    pub fn pop(&mut self) -> Option<Event> {
        let Reverse(key) = self.heap.pop()?;
        let what = key as u64;
        Some(Event {
            at_s: f64::from_bits((key >> 64) as u64),
            kind: KINDS[(what >> 56) as usize],
            slot: (what >> 32) as u32 & (MAX_SLOTS - 1),
            stamp: what as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_whole_and_in_order_of_time() {
        let mut calendar = Calendar::default();
        let event = |at_s, kind, slot, stamp| Event {
            at_s,
            kind,
            slot,
            stamp,
        };
        let expected = [
            event(0.0, Kind::Arrival, 0, 0),
            event(1e-9, Kind::Step, MAX_SLOTS - 1, u32::MAX),
            event(2.0, Kind::Click, 5, 1),
            event(2.0, Kind::Timeout, 4, 1),
            event(1e9, Kind::Reload, 0, 7),
        ];
        for index in [3, 1, 4, 0, 2] {
            calendar.push(expected[index]);
        }
        assert_eq!(calendar.next_s(), 0.0);
        let popped: Vec<Event> = std::iter::from_fn(|| calendar.pop()).collect();
        assert_eq!(popped, expected);
        assert_eq!(calendar.next_s(), f64::INFINITY);
    }

    #[test]
    fn kinds_are_listed_in_their_order() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
