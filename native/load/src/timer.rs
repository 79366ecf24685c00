//! What is due when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::arena::Id;

/// What happens at a time; of things due at the same time the first ones here come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// The run ends.
    End,
    /// A population's intensity changes.
    Step(u32),
    /// A session's user clicks, or its browser asks for the next object.
    Wake(Id),
    /// A session's request may have taken too long.
    Deadline(Id),
    /// The next session of an open population.
    Arrival(u32),
    /// The next session of a closed population's user.
    User(u32, u32),
    /// An interval ends.
    Interval,
}

/// A queue of [`Due`] by time, in nanoseconds since the start of the run.
#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<(u64, Due)>>,
}

impl Timers {
    /// Adds one.
    pub fn push(&mut self, at_ns: u64, due: Due) {
        self.heap.push(Reverse((at_ns, due)));
    }

    /// When the first is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Takes the first when its time has come.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u64, Due)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }

    /// Those that were due before a time and that nobody has taken, in no order.
    pub fn overdue(&self, before_ns: u64) -> impl Iterator<Item = Due> + '_ {
        self.heap
            .iter()
            .filter(move |Reverse((at_ns, _))| *at_ns < before_ns)
            .map(|Reverse((_, due))| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_of_time_and_never_early() {
        let mut timers = Timers::default();
        for at_ns in [30, 10, 20] {
            timers.push(at_ns, Due::Arrival(at_ns as u32));
        }
        assert_eq!(timers.pop(9), None);
        assert_eq!(timers.overdue(20).count(), 1);
        assert_eq!(timers.pop(25), Some((10, Due::Arrival(10))));
        assert_eq!(timers.pop(25), Some((20, Due::Arrival(20))));
        assert_eq!(timers.pop(25), None);
        assert_eq!(timers.next_ns(), Some(30));
    }
}
