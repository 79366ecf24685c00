//! Connections go out to the workers, and their slots come back.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SendFlags;
use trimtab_wire::handoff::{self, Dispatch};
use trimtab_wire::shared::{now_ns, Slot, CLOSED, DISPATCHED, FREE, NO_SLOT};
use trimtab_wire::wake;

use super::{Gate, Listener};
use crate::ledger::Kind;
use crate::slots::NO_CLASS;
use crate::{sockets, tally};

/// A dispatch that nobody has received after this time, although nothing lies between gate and workers, is lost.
const LOST_NS: u64 = 5_000_000_000;

/// The outcome of giving a connection to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gift {
    /// A worker will receive it.
    Sent,
    /// The workers of its listener take no more now.
    Full,
    /// It can never be sent; it is closed.
    Gone,
}

impl Gate<'_> {
    /// Takes the slots that have come back.
    ///
    /// # Returns
    /// True when there were any of a class.
    pub(crate) fn collect(&mut self) -> bool {
        let shared = self.shared;
        let mut any = false;
        let is_closed = |slot: &&Slot| slot.state.load(Acquire) == CLOSED;
        for index in shared.take_released() {
            let Some(slot) = shared.slot(index).filter(is_closed) else {
                continue;
            };
            let sent_ns = slot.dispatched_ns.load(Relaxed);
            let closed_ns = slot.idle_since_ns.load(Relaxed);
            let Some(class) = self.free(index) else {
                continue;
            };
            any = true;
            // It was closed a while ago: R_k counted it until now, the integral must not.
            if (sent_ns..=self.now_ns).contains(&closed_ns) {
                tally::closed_earlier(self.ledger.cell(class), self.now_ns - closed_ns);
            }
        }
        any
    }

    /// Frees a slot that no process has any more.
    ///
    /// # Returns
    /// The class that it counted in.
    pub(super) fn free(&mut self, slot: u32) -> Option<usize> {
        self.end_loan(slot);
        let class = self.slots.give_back(self.shared, slot)? as usize;
        if class >= self.queues.len() {
            return None;
        }
        self.pass(class);
        self.budgets.released(class);
        Some(class)
    }

    /// A connection that the server makes to itself goes to a worker whatever the budgets say: ended, because it is there to wake one, and
    /// whoever else takes the same source address shall get no more by it.
    pub(super) fn give_outside(&mut self, number: u32) {
        wake::end(self.ledger.borrow(number));
        // When the workers take no more they are awake.
        if self.send(number, NO_SLOT, 0, NO_CLASS) != Gift::Gone {
            self.close(number);
        }
    }

    /// Brings the integrals of a class up to now.
    pub(super) fn pass(&self, class: usize) {
        let share = self.budgets.shares()[class];
        tally::pass(
            self.ledger.cell(class),
            self.now_ns,
            share.waiting,
            share.in_service - self.lent(class),
        );
    }

    /// The workers have taken something, or want a slot to be fetched.
    pub(super) fn on_gate_end(&mut self, number: u32, flags: EventFlags) {
        let mut scratch = [0; 64];
        // One wake byte comes for each sleep; should there be more, the next wait tells.
        let is_over = sockets::discard(self.ledger.borrow(number), 1, &mut scratch);
        let has_room = flags.contains(EventFlags::OUT);
        let its = |one: &&mut Listener| one.gate_end == number;
        if let Some(listener) = self.listeners.iter_mut().find(its) {
            listener.full &= !has_room;
            listener.shut |= is_over;
        }
        if is_over {
            self.unwatch(number);
        } else if has_room {
            self.rewatch(number, EventFlags::IN);
        }
    }

    /// Frees the slots that have gone astray.
    pub(super) fn free_astray(&mut self) {
        for slot in self.slots.astray(self.shared) {
            self.free(slot);
        }
    }

    /// Frees the slots of connections that were sent and that nobody can receive any more.
    pub(super) fn recover_lost_dispatches(&mut self) {
        let drained = |one: &Listener| sockets::is_drained(self.ledger.borrow(one.gate_end));
        if !self.listeners.iter().all(drained) {
            return;
        }
        let shared = self.shared;
        let sent: Vec<u32> = self
            .slots
            .used(shared, |state, _| state == DISPATCHED)
            .collect();
        for index in sent {
            let lost = shared.slot(index).is_some_and(|slot| {
                slot.since_dispatch_ns(self.now_ns) > LOST_NS && slot.advance(DISPATCHED, FREE)
            });
            if lost {
                self.free(index);
            }
        }
    }

    /// Gives a connection to the workers of its listener.
    pub(super) fn give(&mut self, number: u32, class: usize, watched: bool) -> Gift {
        let entry = self.ledger.entry(number);
        let since_ns = entry.since_ns.load(Relaxed);
        if watched {
            self.now_ns = now_ns();
        }
        let now_ns = self.now_ns;
        let (shared, lent) = (self.shared, self.lanes_are_open());
        let taken = match lent {
            true => self.slots.take_lent(shared, class as u32, since_ns, now_ns),
            false => self.slots.take(shared, class as u32, since_ns, now_ns),
        };
        let Some((slot, sequence)) = taken else {
            return Gift::Full;
        };
        let gift = self.send(number, slot, sequence, class as u32);
        if gift != Gift::Sent {
            if lent {
                self.free(slot);
            } else {
                self.slots.give_back(self.shared, slot);
            }
            return gift;
        }
        // Counted before it is closed: should this gate be killed in between, the next one closes it and counts nothing.
        if !lent {
            self.pass(class);
            self.budgets.served(class);
        }
        tally::dispatched(self.ledger.cell(class), now_ns.saturating_sub(since_ns));
        if watched {
            self.unwatch(number);
        }
        self.close(number);
        gift
    }

    fn send(&mut self, number: u32, slot: u32, sequence: u64, class: u32) -> Gift {
        let entry = self.ledger.entry(number);
        let (kind, from) = (entry.kind(), entry.with.load(Relaxed));
        let Some(index) = self.listener(from).or_else(|| self.found_anew(number)) else {
            if self.may_be_found_anew(number) {
                return Gift::Full;
            }
            self.end_astray(number, class);
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
            Ok(()) => {
                let port = self.listeners[index].local.port();
                self.shared.lanes.note_sent(port.into());
                Gift::Sent
            }
            Err(error) => {
                entry.set_kind(kind);
                let listener = &mut self.listeners[index];
                listener.full = true;
                listener.shut |= error == Errno::PIPE;
                // Of other lacks than room the socket does not tell when they end; they are tried again at the next tick.
                if error == Errno::AGAIN {
                    self.rewatch(gate_end, EventFlags::IN | EventFlags::OUT);
                }
                Gift::Full
            }
        }
    }
}
