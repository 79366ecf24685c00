//! The queues of the classes: who waits, who is next, who is refused.

use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll::EventFlags;
use trimtab_wire::gate::Full;

use super::dispatch::Gift;
use super::Gate;
use crate::ledger::{add, Kind};

/// A connection in a queue is waited on for its client giving up.
const QUEUED: EventFlags = EventFlags::RDHUP.union(EventFlags::ET);

impl Gate<'_> {
    /// A connection of a class has come: it is given to a worker, waits, or is refused.
    ///
    /// # Arguments
    /// * `watched` - the connection is waited on.
    pub(super) fn join(&mut self, number: u32, class: usize, watched: bool) {
        add(&self.ledger.cell(class).arrivals, 1);
        self.enter(number, class, watched);
    }

    /// As `join`, of a connection that was counted before.
    pub(super) fn enter(&mut self, number: u32, class: usize, watched: bool) {
        if self.lanes_are_open() {
            let given = |gate: &mut Self| gate.give(number, class, watched) != Gift::Full;
            if given(self) || (self.collect() && self.lends_more(class) && given(self)) {
                return;
            }
            self.close_bound_lanes();
        }
        if self.may_pass(class) && self.give(number, class, watched) != Gift::Full {
            return;
        }
        let limit = self.start.classes[class].queue_limit;
        if self.queues[class].len() >= limit {
            match (self.start.classes[class].full, self.queues[class].first()) {
                (Full::RefuseOldest, Some(oldest)) => {
                    self.unqueue(oldest, class);
                    self.refuse(oldest, class, true);
                }
                _ => return self.refuse(number, class, watched),
            }
        }
        self.enqueue(number, class, watched);
    }

    /// Gives waiting connections to workers as long as the budgets and the workers take any.
    pub(crate) fn pump(&mut self) {
        let mut blocked = 0;
        loop {
            let Some(class) = self.next(blocked) else {
                if self.budgets.waiting() > 0 && self.collect() {
                    continue;
                }
                break;
            };
            let Some(number) = self.queues[class].first() else {
                blocked |= 1 << class;
                continue;
            };
            match self.give_queued(number, class) {
                Gift::Sent | Gift::Gone => {}
                Gift::Full => blocked |= 1 << class,
            }
        }
        self.reclaim();
    }

    /// The client of a queued connection has given up.
    pub(super) fn abandoned(&mut self, number: u32) {
        let class = self.ledger.entry(number).class.load(Relaxed) as usize;
        self.unqueue(number, class);
        add(&self.ledger.cell(class).aborted, 1);
        self.close(number);
    }

    /// Gives everything that waits to the workers, before the gate ends: they receive it all before the end.
    pub(super) fn give_all(&mut self) {
        let rest = self.classifier.rest();
        while let Some(number) = self.peeking.first() {
            self.peeking.remove(&self.ledger, number);
            self.enqueue(number, rest, true);
        }
        for class in 0..self.queues.len() {
            while let Some(number) = self.queues[class].first() {
                if self.give_queued(number, class) == Gift::Full {
                    break;
                }
            }
        }
    }

    /// The class to serve next.
    fn next(&self, blocked: u64) -> Option<usize> {
        let since = |number| self.ledger.entry(number).since_ns.load(Relaxed);
        let first = |class: usize| self.queues[class].first();
        self.budgets
            .next(blocked, |class| first(class).map_or(u64::MAX, since))
    }

    /// Nobody who waits goes first, and the budgets have room.
    fn may_pass(&mut self, class: usize) -> bool {
        let free = |gate: &Self| gate.queues[class].len() == 0 && gate.budgets.admits(class);
        // Whoever waits although it is its turn waits for its listener's workers, not for a budget.
        self.next(0).is_none() && (free(self) || (self.collect() && free(self)))
    }

    fn enqueue(&mut self, number: u32, class: usize, watched: bool) {
        let entry = self.ledger.entry(number);
        entry.class.store(class as u32, Relaxed);
        entry.set_kind(Kind::Queued);
        if watched {
            self.rewatch(number, QUEUED);
        } else if self.watch(number, QUEUED).is_err() {
            return self.refuse(number, class, false);
        }
        self.pass(class);
        self.queues[class].push(&self.ledger, number);
        self.budgets.joined(class);
    }

    pub(super) fn unqueue(&mut self, number: u32, class: usize) {
        self.pass(class);
        self.queues[class].remove(&self.ledger, number);
        self.budgets.left(class);
    }

    fn give_queued(&mut self, number: u32, class: usize) -> Gift {
        // The chain is left first: after that the number may belong to another connection.
        self.unqueue(number, class);
        let gift = self.give(number, class, true);
        if gift == Gift::Full {
            self.pass(class);
            self.queues[class].push_first(&self.ledger, number);
            self.budgets.joined(class);
        }
        gift
    }
}
