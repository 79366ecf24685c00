//! The events to come, ordered by virtual time.
//!
//! An event is one 128-bit key: the bits of its time above its kind, slot and stamp. Times are not negative, so
//! their bits order as they do; events at the same time follow in the order of kind and slot, in every run alike.
//!
//! The next slice of time is a heap, small enough for the fastest cache; the slices after it are unsorted buckets in a ring, and
//! what lies beyond the ring is a heap again (a calendar queue after Brown 1988, with heaps at both ends).

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

/// Slices per second.
const SLICES_HZ: f64 = 128.0;

/// Slices in the ring: 32 s, beyond most timeouts.
const RING: u64 = 4096;

/// The slice of all times that no run reaches.
const LAST_SLICE: u64 = 1 << 62;

type Heap = BinaryHeap<Reverse<u128>>;

/// The events to come.
#[derive(Debug)]
pub struct Calendar {
    /// All events before the slice `start`; empty only when the calendar is.
    near: Heap,
    /// First slice of the ring.
    start: u64,
    ring: Vec<Vec<Reverse<u128>>>,
    in_ring: usize,
    /// Events behind the ring.
    far: Heap,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            near: Heap::new(),
            start: 0,
            ring: vec![Vec::new(); RING as usize],
            in_ring: 0,
            far: Heap::new(),
        }
    }
}

impl Calendar {
    /// Enters an event; its time must be finite and not negative.
    pub fn push(&mut self, event: Event) {
        let what = u64::from(event.kind as u8) << 56
            | u64::from(event.slot) << 32
            | u64::from(event.stamp);
        let key = u128::from(event.at_s.to_bits()) << 64 | u128::from(what);
        let slice = slice_of(key);
        if slice < self.start {
            self.near.push(Reverse(key));
        } else if slice < self.start + RING {
            self.ring[(slice % RING) as usize].push(Reverse(key));
            self.in_ring += 1;
        } else {
            self.far.push(Reverse(key));
        }
        if self.near.is_empty() {
            self.refill();
        }
    }

    /// Time of the earliest event; infinite when there is none.
    pub fn next_s(&self) -> f64 {
        self.near
            .peek()
            .map_or(f64::INFINITY, |Reverse(key)| time_of(*key))
    }

    /// Takes the earliest event out.
    pub fn pop(&mut self) -> Option<Event> {
        let Reverse(key) = self.near.pop()?;
        if self.near.is_empty() {
            self.refill();
        }
        let what = key as u64;
        Some(Event {
            at_s: time_of(key),
            kind: KINDS[(what >> 56) as usize],
            slot: (what >> 32) as u32 & (MAX_SLOTS - 1),
            stamp: what as u32,
        })
    }

    /// Brings the next slice that has events into `near`.
    fn refill(&mut self) {
        while self.near.is_empty() {
            if self.in_ring == 0 {
                let Some(Reverse(key)) = self.far.peek() else {
                    return;
                };
                self.start = slice_of(*key);
                self.fetch();
            }
            let bucket = &mut self.ring[(self.start % RING) as usize];
            self.in_ring -= bucket.len();
            self.near.extend(bucket.drain(..));
            self.start += 1;
            self.fetch();
        }
    }

    /// Moves what the ring now reaches out of `far`.
    fn fetch(&mut self) {
        while let Some(Reverse(key)) = self.far.peek() {
            let slice = slice_of(*key);
            if slice >= self.start + RING {
                return;
            }
            self.ring[(slice % RING) as usize].push(Reverse(*key));
            self.in_ring += 1;
            self.far.pop();
        }
    }
}

fn time_of(key: u128) -> f64 {
    f64::from_bits((key >> 64) as u64)
}

fn slice_of(key: u128) -> u64 {
    ((time_of(key) * SLICES_HZ) as u64).min(LAST_SLICE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

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

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the distances, those of a slice's length above all, and with events entered between the others being taken out.
        #[test]
        fn it_is_a_priority_queue(
            gaps in prop_oneof![vec((-9.0..4.0_f64, 0_u32..4), 1..300), vec((-2.6..-1.4_f64, 0_u32..3), 1..300)],
        ) {
            let mut calendar = Calendar::default();
            let mut entered: Vec<(u64, u32)> = Vec::new();
            let mut now_s = 0.0;
            let take = |calendar: &mut Calendar, entered: &mut Vec<(u64, u32)>| {
                entered.sort_unstable();
                let expected = (!entered.is_empty()).then(|| entered.remove(0));
                let next_s = calendar.next_s();
                let event = calendar.pop();
                assert_eq!(event.map(|e| (e.at_s.to_bits(), e.slot)), expected);
                assert_eq!(event.map_or(f64::INFINITY, |e| e.at_s), next_s);
                event.map(|e| e.at_s)
            };
            for (slot, (exponent, taken)) in (0..).zip(gaps) {
                let at_s = now_s + 10_f64.powf(exponent);
                calendar.push(Event { at_s, kind: Kind::Click, slot, stamp: 0 });
                entered.push((at_s.to_bits(), slot));
                for _ in 0..taken {
                    now_s = take(&mut calendar, &mut entered).unwrap_or(now_s);
                }
            }
            while take(&mut calendar, &mut entered).is_some() {}
        }
    }

    #[test]
    fn times_beyond_every_slice_are_in_order_too() {
        let mut calendar = Calendar::default();
        for at_s in [1e300, 5.0, 1e200] {
            calendar.push(Event {
                at_s,
                kind: Kind::Click,
                slot: 0,
                stamp: 0,
            });
        }
        let times: Vec<f64> = std::iter::from_fn(|| calendar.pop())
            .map(|e| e.at_s)
            .collect();
        assert_eq!(times, [5.0, 1e200, 1e300]);
    }

    #[test]
    fn kinds_are_listed_in_their_order() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, index);
        }
    }
}
