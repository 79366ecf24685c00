//! The slots of the mapped file as the gate sees them: which are free, and which have come back.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use trimtab_wire::shared::{
    Layout, Slot, CLOSED, CUTTING, DISPATCHED, FREE, HELD, IDLE, NO_SLOT, SLOTS,
};

/// The class number of connections that are outside classes and budgets.
pub const NO_CLASS: u32 = NO_SLOT;
/// The class number of a free slot.
const NOT_GIVEN: u32 = NO_CLASS - 1;

/// The free slots, how far the used ones reach, and the class of each: the file's own copy is open to all processes of
/// the server, and what they write there must not upset the gate's counts.
#[derive(Debug)]
pub struct Slots {
    free: Vec<u32>,
    reach: u32,
    classes: Vec<u32>,
    /// Lent to the workers; these have a class whether a connection has them or not.
    lent: Vec<bool>,
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
        let is_free = |&slot: &u32| state(layout, slot) == FREE;
        // Low numbers are given out first, so that looking through the used ones stays short.
        let free: Vec<u32> = (0..SLOTS as u32).rev().filter(is_free).collect();
        let reach = (0..SLOTS as u32).rev().find(|slot| !is_free(slot));
        let class = |index| match layout.slot(index) {
            Some(slot) if !is_free(&index) => u32::from(slot.class.load(Relaxed)),
            _ => NOT_GIVEN,
        };
        Self {
            free,
            reach: reach.map_or(0, |last| last + 1),
            classes: (0..SLOTS as u32).map(class).collect(),
            lent: vec![false; SLOTS],
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

    /// Slots that a process had; it is dead, and the stack of released slots has been emptied since.
    pub fn of_dead(&self, layout: &Layout, pid: u32) -> Vec<u32> {
        let had = |state, holder| holder == pid && matches!(state, HELD | IDLE | CUTTING | CLOSED);
        self.used(layout, had).collect()
    }

    /// Processes that hold connections.
    pub fn holders(&self, layout: &Layout) -> Vec<u32> {
        let mut pids: Vec<u32> = self
            .used(layout, |state, _| {
                matches!(state, HELD | IDLE | CUTTING | CLOSED)
            })
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

fn state(layout: &Layout, index: u32) -> u32 {
    layout
        .slot(index)
        .map_or(CLOSED, |slot| slot.state.load(Acquire))
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
