//! Egalitarian processor sharing over c cores, in O(log n) per event.
//!
//! With n requests on the cores each of them needs `pace = max(1, n / c)` seconds, times a slowdown, for a second of its work. All
//! therefore gain the same amount of attained service, the virtual service time V with dV/dt = 1 / pace, and a request of demand d that enters at V leaves when
//! V reaches V + d: a heap of these tags is all there is to keep (the virtual clock of fair queueing; Kleinrock 1967 for PS).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The cores and the requests on them.
///
/// V is anchored at the last change of the pace, so that looking at the system in between changes no digit of its run.
#[derive(Debug)]
pub struct Cores {
    cores: f64,
    per_core: f64,
    slowdown: f64,
    pace: f64,
    anchor_s: f64,
    attained_s: f64,
    next_s: f64,
    /// Tag bits above the slot; tags are not negative.
    heap: BinaryHeap<Reverse<u128>>,
}

impl Cores {
    /// Idle cores.
    pub fn new(cores: f64) -> Self {
        Self {
            cores,
            per_core: 1.0 / cores,
            slowdown: 1.0,
            pace: 1.0,
            anchor_s: 0.0,
            attained_s: 0.0,
            next_s: f64::INFINITY,
            heap: BinaryHeap::new(),
        }
    }

    /// A request enters with this much work, in seconds of one core.
    pub fn enter(&mut self, now_s: f64, slot: u32, demand_s: f64) {
        if self.heap.is_empty() {
            // A small V keeps the tags exact in long runs.
            self.attained_s = 0.0;
            self.anchor_s = now_s;
        }
        self.anchor(now_s);
        let tag = (self.attained_s + demand_s).to_bits();
        self.heap
            .push(Reverse(u128::from(tag) << 32 | u128::from(slot)));
        self.update();
    }

    /// When the first request is done; infinite when there is none.
    pub fn next_s(&self) -> f64 {
        self.next_s
    }

    /// Takes out the request that is done first, at the time that `next_s` told.
    pub fn leave(&mut self, now_s: f64) -> Option<u32> {
        let Reverse(key) = self.heap.pop()?;
        // Not by the clock, whose rounding may miss the tag; the other tags stay at or above this one.
        self.attained_s = tag_of(key);
        self.anchor_s = now_s;
        self.update();
        Some(key as u32)
    }

    /// Every request needs this many times its work from now on.
    pub fn slow_down(&mut self, now_s: f64, slowdown: f64) {
        if slowdown != self.slowdown {
            self.anchor(now_s);
            self.slowdown = slowdown;
            self.update();
        }
    }

    /// Cores whose work is what the slowdown adds.
    pub fn stalled(&self) -> f64 {
        self.busy() * (1.0 - 1.0 / self.slowdown)
    }

    /// Probability that some request is at what the slowdown adds, each independently.
    pub fn pressure(&self) -> f64 {
        1.0 - self.slowdown.powi(-(self.heap.len() as i32))
    }

    /// Cores at work.
    pub fn busy(&self) -> f64 {
        self.cores.min(self.heap.len() as f64)
    }

    fn anchor(&mut self, now_s: f64) {
        self.attained_s += (now_s - self.anchor_s) / self.pace;
        self.anchor_s = now_s;
    }

    fn update(&mut self) {
        let Some(Reverse(key)) = self.heap.peek() else {
            self.next_s = f64::INFINITY;
            return;
        };
        self.pace = (self.heap.len() as f64 * self.per_core).max(1.0) * self.slowdown;
        let left_s = (tag_of(*key) - self.attained_s).max(0.0) * self.pace;
        self.next_s = self.anchor_s + left_s;
    }
}

fn tag_of(key: u128) -> f64 {
    f64::from_bits((key >> 32) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cores: &mut Cores) -> (f64, u32) {
        let at_s = cores.next_s();
        (at_s, cores.leave(at_s).expect("a request is there"))
    }

    #[test]
    fn two_requests_share_one_core_equally() {
        let mut cores = Cores::new(1.0);
        cores.enter(0.0, 1, 1.0);
        cores.enter(0.0, 2, 2.0);
        assert_eq!(run(&mut cores), (2.0, 1));
        assert_eq!(run(&mut cores), (3.0, 2));
        assert_eq!(cores.next_s(), f64::INFINITY);
        assert_eq!(cores.leave(4.0), None);
    }

    #[test]
    fn a_request_never_uses_more_than_one_core() {
        let mut cores = Cores::new(4.0);
        cores.enter(0.0, 1, 1.0);
        assert_eq!(cores.busy(), 1.0);
        assert_eq!(run(&mut cores), (1.0, 1));
    }

    #[test]
    fn a_late_request_shares_only_what_is_left() {
        let mut cores = Cores::new(1.0);
        cores.enter(0.0, 1, 1.0);
        cores.enter(0.5, 2, 0.25);
        assert_eq!(run(&mut cores), (1.0, 2));
        assert_eq!(run(&mut cores), (1.25, 1));
    }

    #[test]
    fn slowdown_stretches_the_work_that_is_left() {
        let mut cores = Cores::new(0.5);
        cores.enter(0.0, 1, 1.0);
        cores.slow_down(1.0, 3.0);
        assert_eq!(run(&mut cores), (4.0, 1));
    }
}
