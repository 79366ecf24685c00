//! The slots of the mapped file as the gate sees them: which are free, and which have come back.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trimtab_wire::shared::{
    Layout, Slot, CLOSED, CUTTING, DISPATCHED, FREE, HELD, IDLE, NO_SLOT, SLOTS,
};

/// The class number of connections that are outside classes and budgets.
pub const NO_CLASS: u32 = NO_SLOT;
/// The class number of a free slot.
const NOT_GIVEN: u32 = NO_CLASS - 1;
/// With fewer free slots than this nobody keeps what is only his word: no server holds as many connections as there are others.
const SHORT: usize = SLOTS / 2;

/// The free slots, how far the used ones reach, and the class of each: the file's own copy is open to all processes of
/// the server, and what they write there must not upset the gate's counts.
#[derive(Debug)]
pub struct Slots {
    free: Vec<u32>,
    reach: u32,
    classes: Vec<u32>,
    /// Lent to the workers; these have a class whether a connection has them or not.
    lent: Vec<bool>,
    /// Slots that seemed to be astray at the last look, in rising order.
    suspects: Vec<u32>,
}

/// An idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// Since when.
    pub since_ns: u64,
    /// Its slot.
    pub slot: u32,
    /// Its class.
    pub class: u32,
}

impl Slots {
    /// Finds the slots that are free; those on the stack of released ones must have been taken off it.
    pub fn find(layout: &Layout) -> Self {
        let (mut free, mut classes, mut reach) = (Vec::new(), vec![NOT_GIVEN; SLOTS], 0);
        // Each state is read once: it may be another the next time.
        for ((index, slot), class) in (0..).zip(&layout.slots).zip(&mut classes) {
            if slot.state.load(Acquire) == FREE {
                free.push(index);
            } else {
                *class = u32::from(slot.class.load(Relaxed));
                reach = index + 1;
            }
        }
        // Low numbers are given out first, so that looking through the used ones stays short.
        free.reverse();
        Self {
            free,
            reach,
            classes,
            lent: vec![false; SLOTS],
            suspects: Vec::new(),
        }
    }

    /// Takes a slot for a connection that is about to be sent.
    ///
    /// # Returns
    /// The slot and the number of its use; None when all are taken.
    pub fn take(
        &mut self,
        layout: &Layout,
        class: u32,
        arrival_ns: u64,
        now_ns: u64,
    ) -> Option<(u32, u64)> {
        loop {
            let index = self.free.pop()?;
            let slot = layout.slot(index)?;
            self.reach = self.reach.max(index + 1);
            let Some(sequence) = begin(slot, arrival_ns, now_ns) else {
                // A worker took it from a lane of the gate before this one, just when that died.
                self.classes[index as usize] = NO_CLASS;
                continue;
            };
            self.classes[index as usize] = class;
            slot.class.store(class as u16, Relaxed);
            slot.era.store(0, Relaxed);
            return Some((index, sequence));
        }
    }

    /// Takes a slot that the workers may take too, for a connection that is about to be sent.
    ///
    /// # Returns
    /// As `take`.
    pub fn take_lent(
        &self,
        layout: &Layout,
        class: u32,
        arrival_ns: u64,
        now_ns: u64,
    ) -> Option<(u32, u64)> {
        let index = layout
            .pop(class)
            .filter(|&index| self.is_lent_to(index, class))?;
        let sequence = begin(layout.slot(index)?, arrival_ns, now_ns)?;
        Some((index, sequence))
    }

    /// Slots for the workers, as many as wanted if there are.
    pub fn lend(&mut self, class: u32, count: u32) -> Vec<u32> {
        let kept = self.free.len().saturating_sub(count as usize);
        let mut slots = self.free.split_off(kept);
        // The lowest on top.
        slots.reverse();
        for &index in &slots {
            self.classes[index as usize] = class;
            self.lent[index as usize] = true;
            self.reach = self.reach.max(index + 1);
        }
        slots
    }

    /// The slot is lent to the workers for connections of this class.
    pub fn is_lent_to(&self, index: u32, class: u32) -> bool {
        self.is_lent(index) && self.class(index) == Some(class)
    }

    /// The slot is lent to the workers.
    pub fn is_lent(&self, index: u32) -> bool {
        self.lent.get(index as usize).is_some_and(|&lent| lent)
    }

    /// The slot is the gate's again, whoever has it.
    pub fn end_loan(&mut self, index: u32) {
        if let Some(lent) = self.lent.get_mut(index as usize) {
            *lent = false;
        }
    }

    /// The slots that are lent, with their class and what they are now.
    pub fn on_loan<'a>(
        &'a self,
        layout: &'a Layout,
    ) -> impl Iterator<Item = (u32, usize, &'a Slot)> + 'a {
        let lent = (0..self.reach).filter(|&index| self.is_lent(index));
        lent.filter_map(|index| Some((index, self.class(index)? as usize, layout.slot(index)?)))
    }

    /// Frees a slot that nobody else will touch.
    ///
    /// # Returns
    /// The class of its connection; None when the slot was free already.
    pub fn give_back(&mut self, layout: &Layout, index: u32) -> Option<u32> {
        let Some(class) = self.class(index).filter(|&class| class != NOT_GIVEN) else {
            // Found free by this gate at its start, while a worker was giving it back.
            layout.slot(index)?.advance(CLOSED, FREE);
            return None;
        };
        layout.slot(index)?.state.store(FREE, Relaxed);
        self.end_loan(index);
        self.classes[index as usize] = NOT_GIVEN;
        self.free.push(index);
        Some(class)
    }

    /// The class that a slot counts in.
    pub fn class(&self, index: u32) -> Option<u32> {
        self.classes.get(index as usize).copied()
    }

    /// Slots in use, by a test on their state and holder.
    pub fn used<'a>(
        &self,
        layout: &'a Layout,
        test: impl Fn(u32, u32) -> bool + 'a,
    ) -> impl Iterator<Item = u32> + 'a {
        (0..self.reach).filter(move |&index| {
            layout
                .slot(index)
                .is_some_and(|slot| test(slot.state.load(Acquire), slot.pid.load(Relaxed)))
        })
    }

    /// Slots that processes had; they are dead, and the stack of released slots has been emptied since.
    ///
    /// # Arguments
    /// * `pids` - the processes, in rising order.
    pub fn of_dead(&self, layout: &Layout, pids: &[u32]) -> Vec<u32> {
        let had = |state, holder| is_had(state) && pids.binary_search(&holder).is_ok();
        self.used(layout, had).collect()
    }

    /// Slots that were astray at the look before this one too: given in these books, and in the file nobody has them.
    ///
    /// Whatever a process of the server has written over slots is so undone. Where it has written that it holds them itself, which may
    /// be true of a slot that it took from a gate before this one, they stay with it while others are left. Slots that are
    /// free in these books are made free in the file.
    pub fn astray(&mut self, layout: &Layout) -> Vec<u32> {
        let mut suspects = Vec::new();
        let (mut astray, mut reach) = (Vec::new(), 0);
        let is_short = self.free.len() < SHORT;
        for (index, slot) in (0..self.reach).zip(&layout.slots) {
            let state = slot.state.load(Acquire);
            let class = self.class(index);
            if state != FREE || class != Some(NOT_GIVEN) {
                reach = index + 1;
            }
            let suspect = match class {
                _ if self.is_lent(index) => false,
                Some(NOT_GIVEN) => state != DISPATCHED && state != FREE && !is_held(state),
                Some(NO_CLASS) if is_short && is_held(state) => true,
                _ => state != DISPATCHED && !is_held(state),
            };
            if !suspect {
                continue;
            }
            if self.suspects.binary_search(&index).is_err() {
                suspects.push(index);
            } else if class == Some(NOT_GIVEN) {
                slot.state.store(FREE, Relaxed);
            } else {
                astray.push(index);
            }
        }
        self.suspects = suspects;
        self.reach = reach;
        astray
    }

    /// Processes that hold connections.
    pub fn holders(&self, layout: &Layout) -> Vec<u32> {
        let mut pids: Vec<u32> = self
            .used(layout, |state, _| is_had(state))
            .filter_map(|index| layout.slot(index))
            .map(|slot| slot.pid.load(Relaxed))
            .collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Classes of the connections that have a slot, one for each.
    pub fn given(&self) -> impl Iterator<Item = u32> + '_ {
        self.classes
            .iter()
            .copied()
            .filter(|&class| class != NOT_GIVEN)
    }

    /// The first error in these books; None when they hold.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn flaw(&self) -> Option<String> {
        let mut seen = vec![false; SLOTS];
        for &index in &self.free {
            if std::mem::replace(&mut seen[index as usize], true) {
                return Some(format!("slot {index} is free twice"));
            }
            if self.classes[index as usize] != NOT_GIVEN || self.lent[index as usize] {
                return Some(format!("slot {index} is free and given"));
            }
        }
        let lost = (0..SLOTS).find(|&at| !seen[at] && self.classes[at] == NOT_GIVEN);
        lost.map(|at| format!("slot {at} is neither free nor given"))
    }

    /// Idle connections whose class a test holds for, longest idle first.
    pub fn idle(&self, layout: &Layout, wanted: impl Fn(u32) -> bool) -> Vec<Idle> {
        let mut idle: Vec<Idle> = self
            .used(layout, |state, _| state == IDLE)
            .filter_map(|index| Some((index, self.class(index)?, layout.slot(index)?)))
            .filter(|&(_, class, _)| wanted(class))
            .map(|(slot, class, of)| Idle {
                since_ns: of.idle_since_ns.load(Relaxed),
                slot,
                class,
            })
            .collect();
        idle.sort_unstable_by_key(|idle| (idle.since_ns, idle.slot));
        idle
    }
}

/// A connection is about to be sent in this slot; None when it is not free.
fn begin(slot: &Slot, arrival_ns: u64, now_ns: u64) -> Option<u64> {
    if !slot.advance(FREE, DISPATCHED) {
        return None;
    }
    let sequence = slot.sequence.load(Relaxed).wrapping_add(1);
    slot.sequence.store(sequence, Relaxed);
    slot.pid.store(0, Relaxed);
    slot.fd.store(-1, Relaxed);
    slot.arrival_ns.store(arrival_ns, Relaxed);
    slot.dispatched_ns.store(now_ns, Relaxed);
    slot.received_ns.store(0, Relaxed);
    slot.idle_since_ns.store(0, Relaxed);
    slot.requests.store(0, Release);
    Some(sequence)
}

/// A process has the connection of a slot in this state.
fn is_held(state: u32) -> bool {
    matches!(state, HELD | IDLE | CUTTING)
}

/// A process has it, or has not given it back yet.
fn is_had(state: u32) -> bool {
    is_held(state) || state == CLOSED
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
