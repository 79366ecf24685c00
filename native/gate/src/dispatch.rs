//! Connections go out: from the queues to the workers, as the budgets allow, and their slots come back.

use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use trimtab_wire::gate::{Full, Policy};
use trimtab_wire::handoff::{self, Dispatch, Reclaim};
use trimtab_wire::shared::{now_ns, DISPATCHED, FLAG_PREEMPTIVE, FREE, NO_SLOT};

use crate::gate::Gate;
use crate::ledger::{add, Kind};
use crate::slots::NO_CLASS;
use crate::{sockets, tally};

/// A connection in a queue is waited on for its client giving up.
const QUEUED: EventFlags = EventFlags::RDHUP.union(EventFlags::ET);
/// A dispatch that nobody has received after this time, although nothing lies between gate and workers, is lost.
const LOST_NS: u64 = 5_000_000_000;
/// A connection that was asked back and is still there after this time was busy again.
const ASKED_NS: u64 = 1_000_000_000;
const RECLAIM_DISTANCE_NS: u64 = 10_000_000;

/// A connection that its worker was asked to end.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    class: usize,
    sequence: u64,
    until_ns: u64,
}

/// What came of giving a connection to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gift {
    Sent,
    /// The workers of its listener take no more now.
    Full,
    /// It can never be sent; it is closed.
    Gone,
}

impl Gate<'_> {
    /// A connection of a class has come: it is given to a worker, waits, or is refused.
    ///
    /// # Arguments
    /// * `watched` - the connection is waited on.
    pub(crate) fn join(&mut self, number: u32, class: usize, watched: bool) {
        add(&self.ledger.cell(class).arrivals, 1);
        self.enter(number, class, watched);
    }

    /// As `join`, of a connection that was counted before.
    pub(crate) fn enter(&mut self, number: u32, class: usize, watched: bool) {
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
            let Some(class) = self.budgets.next(blocked) else {
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

    /// Takes the slots that have come back.
    ///
    /// # Returns
    /// True when there were any.
    pub(crate) fn collect(&mut self) -> bool {
        let place = self.place;
        let mut any = false;
        for slot in place.shared.take_released() {
            any = true;
            self.free(slot);
        }
        any
    }

    /// Frees a slot that no process has any more.
    pub(crate) fn free(&mut self, slot: u32) {
        let Some(class) = self.slots.give_back(&self.place.shared, slot) else {
            return;
        };
        let class = class as usize;
        if class < self.queues.len() {
            self.pass(class);
            self.budgets.released(class);
        }
    }

    /// A connection that the server makes to itself goes to a worker whatever the budgets say.
    pub(crate) fn give_outside(&mut self, number: u32) {
        // When the workers take no more they are awake.
        if self.send(number, NO_SLOT, 0, NO_CLASS) != Gift::Gone {
            self.close(number);
        }
    }

    /// The client of a queued connection has given up.
    pub(crate) fn abandoned(&mut self, number: u32) {
        let class = self.ledger.entry(number).class.load(Relaxed) as usize;
        self.unqueue(number, class);
        add(&self.ledger.cell(class).aborted, 1);
        self.close(number);
    }

    /// Brings the integrals of a class up to now.
    pub(crate) fn pass(&self, class: usize) {
        let share = self.budgets.shares()[class];
        tally::pass(
            self.ledger.cell(class),
            self.now_ns,
            share.waiting,
            share.in_service,
        );
    }

    /// Gives everything that waits to the workers, before the gate ends: they receive it all before the end.
    pub(crate) fn give_all(&mut self) {
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

    /// The workers have taken something, or want a slot to be fetched.
    pub(crate) fn on_gate_end(&mut self, number: u32, flags: EventFlags) {
        let mut scratch = [0; 64];
        sockets::discard(self.ledger.borrow(number), 64, &mut scratch);
        if flags.contains(EventFlags::OUT) {
            let full = self.listeners.iter_mut().find(|one| one.gate_end == number);
            if let Some(listener) = full {
                listener.full = false;
            }
            self.rewatch(number, EventFlags::IN);
        }
    }

    /// Frees the slots of connections that were sent and that nobody can receive any more.
    pub(crate) fn recover_lost_dispatches(&mut self) {
        let drained =
            |one: &crate::gate::Listener| sockets::is_drained(self.ledger.borrow(one.gate_end));
        if !self.listeners.iter().all(drained) {
            return;
        }
        let shared = &self.place.shared;
        let sent: Vec<u32> = self
            .slots
            .used(shared, |state, _| state == DISPATCHED)
            .collect();
        for index in sent {
            let lost = shared.slot(index).is_some_and(|slot| {
                let since_ns = slot.dispatched_ns.load(Relaxed);
                self.now_ns.saturating_sub(since_ns) > LOST_NS && slot.advance(DISPATCHED, FREE)
            });
            if lost {
                self.free(index);
            }
        }
    }

    /// Says in the mapped file which policy holds.
    pub(crate) fn set_preemptive_flag(&self) {
        let flags = &self.place.shared.header.flags;
        if self.is_preemptive() {
            flags.fetch_or(FLAG_PREEMPTIVE, Relaxed);
        } else {
            flags.fetch_and(!FLAG_PREEMPTIVE, Relaxed);
        }
    }

    /// Classes wait for workers that the preemptive policy may take from others.
    pub(crate) fn is_short(&self) -> bool {
        self.is_preemptive() && self.budgets.waiting() > 0 && self.budgets.short_of() > 0
    }

    pub(crate) fn policy(&self) -> Policy {
        match self.is_preemptive() {
            true => Policy::Preemptive,
            false => Policy::NonPreemptive,
        }
    }

    fn is_preemptive(&self) -> bool {
        self.ledger.settings().preemptive.load(Relaxed) != 0
    }

    /// Nobody who waits goes first, and the budgets have room.
    fn may_pass(&mut self, class: usize) -> bool {
        let free = |gate: &Self| gate.queues[class].len() == 0 && gate.budgets.admits(class);
        // Whoever waits although it is its turn waits for its listener's workers, not for a budget.
        self.budgets.next(0).is_none() && (free(self) || (self.collect() && free(self)))
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

    fn unqueue(&mut self, number: u32, class: usize) {
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

    /// Gives a connection to the workers of its listener.
    fn give(&mut self, number: u32, class: usize, watched: bool) -> Gift {
        let entry = self.ledger.entry(number);
        let since_ns = entry.since_ns.load(Relaxed);
        if watched {
            self.now_ns = now_ns();
        }
        let now_ns = self.now_ns;
        let Some((slot, sequence)) =
            self.slots
                .take(&self.place.shared, class as u32, since_ns, now_ns)
        else {
            return Gift::Full;
        };
        let gift = self.send(number, slot, sequence, class as u32);
        if gift != Gift::Sent {
            self.slots.give_back(&self.place.shared, slot);
            return gift;
        }
        if watched {
            self.unwatch(number);
        }
        self.close(number);
        self.pass(class);
        self.budgets.served(class);
        tally::dispatched(self.ledger.cell(class), now_ns.saturating_sub(since_ns));
        gift
    }

    fn send(&mut self, number: u32, slot: u32, sequence: u64, class: u32) -> Gift {
        let entry = self.ledger.entry(number);
        let (kind, from) = (entry.kind(), entry.with.load(Relaxed));
        let Some(index) = self.listener(from) else {
            self.close(number);
            return Gift::Gone;
        };
        if self.listeners[index].full {
            return Gift::Full;
        }
        let peer = entry.peer();
        let message = Dispatch {
            slot,
            class,
            sequence,
            arrival_ns: entry.since_ns.load(Relaxed),
            peer: peer.bytes,
            peer_len: peer.len,
        };
        entry.slot.store(slot, Relaxed);
        entry.set_kind(Kind::Sending);
        let gate_end = self.listeners[index].gate_end;
        let passed = Some(self.ledger.borrow(number));
        let socket = self.ledger.borrow(gate_end);
        match handoff::send(socket, &message.encode(), passed, SendFlags::DONTWAIT) {
            Ok(()) => Gift::Sent,
            Err(error) => {
                entry.set_kind(kind);
                self.listeners[index].full = true;
                // Of other lacks than room the socket does not tell when they end; they are tried again at the next tick.
                if error == Errno::AGAIN {
                    self.rewatch(gate_end, EventFlags::IN | EventFlags::OUT);
                }
                Gift::Full
            }
        }
    }

    /// Asks for idle connections of classes over their budget while others, under theirs, wait (preemptive policy).
    fn reclaim(&mut self) {
        if !self.is_short() || self.now_ns.saturating_sub(self.reclaimed_ns) < RECLAIM_DISTANCE_NS {
            return;
        }
        self.reclaimed_ns = self.now_ns;
        let (shared, now_ns) = (&self.place.shared, self.now_ns);
        self.asked.retain(|&slot, asked| {
            let same =
                |slot: &trimtab_wire::shared::Slot| slot.sequence.load(Relaxed) == asked.sequence;
            now_ns < asked.until_ns && shared.slot(slot).is_some_and(same)
        });
        let mut left = self
            .budgets
            .short_of()
            .saturating_sub(self.asked.len() as u32);
        let mut over: Vec<u32> = (0..self.queues.len())
            .map(|class| self.budgets.over(class))
            .collect();
        for asked in self.asked.values() {
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
                && !self.asked.contains_key(&idle.slot)
                && self.ask_back(idle.slot, class)
            {
                over[class] -= 1;
                left -= 1;
            }
        }
    }

    fn ask_back(&mut self, index: u32, class: usize) -> bool {
        let Some(slot) = self.place.shared.slot(index) else {
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
        self.asked.insert(
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
