//! The preemptive policy: idle connections of classes over their budget are asked back while others, under theirs, wait.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use rustix::net::SendFlags;
use trimtab_wire::gate::Policy;
use trimtab_wire::handoff::{self, Reclaim};
use trimtab_wire::shared::{Slot, FLAG_PREEMPTIVE};

use super::Gate;

/// A connection that was asked back and is still there after this time was busy again.
const ASKED_NS: u64 = 1_000_000_000;
/// Distance of looks at idle connections while the policy is short of workers.
pub const DISTANCE_NS: u64 = 10_000_000;

/// A connection that its worker was asked to end.
#[derive(Debug, Clone, Copy)]
struct Asked {
    class: usize,
    sequence: u64,
    until_ns: u64,
}

/// What was asked back.
#[derive(Debug, Default)]
pub(super) struct Reclaims {
    /// By slot.
    asked: HashMap<u32, Asked>,
    /// When idle connections were last looked at.
    looked_ns: u64,
}

impl Gate<'_> {
    /// Says in the mapped file which policy holds.
    pub(super) fn set_preemptive_flag(&self) {
        let flags = &self.shared.header.flags;
        if self.is_preemptive() {
            flags.fetch_or(FLAG_PREEMPTIVE, Relaxed);
        } else {
            flags.fetch_and(!FLAG_PREEMPTIVE, Relaxed);
        }
    }

    /// Classes wait for workers that the preemptive policy may take from others.
    pub(super) fn is_short(&self) -> bool {
        self.is_preemptive() && self.budgets.waiting() > 0 && self.budgets.short_of() > 0
    }

    fn is_preemptive(&self) -> bool {
        self.start.policy == Policy::Preemptive
    }

    /// Asks for idle connections of classes over their budget while others, under theirs, wait (preemptive policy).
    pub(super) fn reclaim(&mut self) {
        if !self.is_short() || self.now_ns.saturating_sub(self.reclaims.looked_ns) < DISTANCE_NS {
            return;
        }
        self.reclaims.looked_ns = self.now_ns;
        let (shared, now_ns) = (self.shared, self.now_ns);
        self.reclaims.asked.retain(|&slot, asked| {
            let same = |slot: &Slot| slot.sequence.load(Relaxed) == asked.sequence;
            now_ns < asked.until_ns && shared.slot(slot).is_some_and(same)
        });
        let mut left = self
            .budgets
            .short_of()
            .saturating_sub(self.reclaims.asked.len() as u32);
        let mut over: Vec<u32> = (0..self.queues.len())
            .map(|class| self.budgets.over(class))
            .collect();
        for asked in self.reclaims.asked.values() {
            over[asked.class] = over[asked.class].saturating_sub(1);
        }
        let idle = self.slots.idle(shared, |class| {
            over.get(class as usize).is_some_and(|&over| over > 0)
        });
        for idle in idle {
            let class = idle.class as usize;
            if left == 0 {
                break;
            }
            if over[class] > 0
                && !self.reclaims.asked.contains_key(&idle.slot)
                && self.ask_back(idle.slot, class)
            {
                over[class] -= 1;
                left -= 1;
            }
        }
    }

    fn ask_back(&mut self, index: u32, class: usize) -> bool {
        let Some(slot) = self.shared.slot(index) else {
            return false;
        };
        let sequence = slot.sequence.load(Relaxed);
        let Some(&worker) = self.workers.get(&slot.pid.load(Relaxed)) else {
            return false;
        };
        let message = Reclaim {
            slot: index,
            sequence,
        }
        .encode();
        let until_ns = self.now_ns + ASKED_NS;
        self.reclaims.asked.insert(
            index,
            Asked {
                class,
                sequence,
                until_ns,
            },
        );
        handoff::send(
            self.ledger.borrow(worker),
            &message,
            None,
            SendFlags::DONTWAIT,
        )
        .is_ok()
    }
}
