//! A gate takes over what a killed one has left: the descriptors are still open, and the ledger says what they are.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context as _;
use rustix::event::epoll::EventFlags;
use rustix::net::{getpeername, getsockname};
use trimtab_wire::shared::{DISPATCHED, FREE};

use super::closed::HOLD;
use super::{Gate, Listener};
use crate::ledger::{open_descriptors, Kind};
use crate::slots::NO_CLASS;
use crate::{sockets, tally};

/// Time after which a dispatch that may not have happened has not.
const UNSURE_NS: u64 = 1_000_000_000;

impl Gate<'_> {
    /// Takes over settings, counters, slots, processes and connections of the gate before this one.
    ///
    /// # Errors
    /// The table of descriptors cannot be read, or they cannot be waited on.
    pub fn recover(&mut self) -> anyhow::Result<()> {
        self.recover_settings();
        for class in self.slots.given().collect::<Vec<_>>() {
            if (class as usize) < self.queues.len() {
                self.budgets.served(class as usize);
            }
        }
        self.collect();
        let numbers = open_descriptors().context("/proc/self/fd")?;
        self.recover_listeners(&numbers)?;
        let mut waiting = Vec::new();
        for number in numbers {
            self.beat();
            match self.ledger.entry(number).kind() {
                Kind::Worker => {
                    self.watch(number, EventFlags::IN).context("epoll")?;
                    let pid = self.ledger.entry(number).with.load(Relaxed);
                    self.workers.insert(pid, number);
                }
                Kind::Hold => self.recover_hold(number)?,
                Kind::Peeking | Kind::Queued => waiting.push(number),
                Kind::Sending => self.unsure.push(number),
                Kind::Unknown => self.adopt(number),
                Kind::Passing if !self.is_epoll(number) => self.close(number),
                Kind::Refused => self.close(number),
                _ => {}
            }
        }
        // Those that waited longest go to the front of their queues again.
        waiting.sort_by_key(|&number| self.ledger.entry(number).since_ns.load(Relaxed));
        for number in waiting {
            self.beat();
            self.resume(number);
        }
        self.forget_closed();
        Ok(())
    }

    /// Decides about connections that a killed gate was about to send: sent, once a worker has them.
    pub(super) fn resolve_unsure(&mut self) {
        for number in std::mem::take(&mut self.unsure) {
            let entry = self.ledger.entry(number);
            let index = entry.slot.load(Relaxed);
            let slot = self.shared.slot(index);
            let age_ns = slot.map_or(0, |slot| slot.since_dispatch_ns(self.now_ns));
            let pending = slot.is_some_and(|slot| slot.state.load(Relaxed) == DISPATCHED);
            if !pending {
                self.close(number);
                continue;
            }
            let listener = self
                .listener(entry.with.load(Relaxed))
                .map(|index| &self.listeners[index]);
            let drained =
                listener.is_none_or(|one| sockets::is_drained(self.ledger.borrow(one.gate_end)));
            if !drained || age_ns < UNSURE_NS {
                self.unsure.push(number);
                continue;
            }
            // It lies nowhere and nobody has it: it was never sent.
            let taken_back = slot.is_some_and(|slot| slot.advance(DISPATCHED, FREE));
            if !taken_back {
                self.close(number);
                continue;
            }
            let class = slot.map_or(NO_CLASS, |slot| slot.class.load(Relaxed).into()) as usize;
            self.free(index);
            let class = if class < self.queues.len() {
                class
            } else {
                self.classifier.rest()
            };
            self.enter(number, class, false);
        }
    }

    fn recover_settings(&mut self) {
        let settings = self.ledger.settings();
        if settings.begun.load(Relaxed) == 0 {
            settings.limit.store(self.start.limit, Relaxed);
            for (index, class) in self.start.classes.iter().enumerate() {
                let cell = self.ledger.cell(index);
                cell.budget.store(u64::from(class.budget), Relaxed);
                cell.until_ns.store(self.now_ns, Relaxed);
            }
            settings.begun.store(1, Relaxed);
        }
        let ledger = self.ledger;
        let budgets =
            (0..self.queues.len()).map(|class| ledger.cell(class).budget.load(Relaxed) as u32);
        self.budgets.set(settings.limit.load(Relaxed), budgets);
        self.budgets.open = settings.open.load(Relaxed) != 0;
        for class in 0..self.queues.len() {
            tally::pass(self.ledger.cell(class), self.now_ns, 0, 0);
        }
    }

    fn recover_listeners(&mut self, numbers: &[u32]) -> anyhow::Result<()> {
        let mut found = Vec::new();
        let listens = |&number: &u32| self.ledger.entry(number).kind() == Kind::Listener;
        for number in numbers.iter().copied().filter(listens) {
            let gate_end = self.ledger.entry(number).with.load(Relaxed);
            let worker_end = self.ledger.entry(gate_end).with.load(Relaxed);
            let socket = self.ledger.borrow(number);
            let local = getsockname(socket).ok().and_then(sockets::internet);
            found.push(Listener {
                number,
                gate_end,
                worker_end,
                inode: rustix::fs::fstat(socket).context("listener")?.st_ino,
                local: local.context("a listener without an address")?,
                owner: self.ledger.entry(worker_end).with.load(Relaxed),
                holds: Vec::new(),
                full: false,
                paused: false,
                shut: false,
            });
        }
        for listener in found {
            self.serve_listener(listener).context("epoll")?;
        }
        Ok(())
    }

    fn recover_hold(&mut self, number: u32) -> anyhow::Result<()> {
        let listener = self.listener(self.ledger.entry(number).with.load(Relaxed));
        match listener {
            Some(index) => {
                self.watch(number, HOLD).context("epoll")?;
                self.listeners[index].holds.push(number);
            }
            None => self.close(number),
        }
        Ok(())
    }

    /// A descriptor that the killed gate had no time to describe: a connection to the server, or nothing of value.
    fn adopt(&mut self, number: u32) {
        self.ledger.describe(number, Kind::Peeking, u32::MAX);
        let socket = self.ledger.borrow(number);
        let client = getpeername(socket)
            .ok()
            .flatten()
            .and_then(sockets::internet);
        let local = getsockname(socket).ok().and_then(sockets::internet);
        let from = local
            .and_then(|local| self.serving(local))
            .map(|index| self.listeners[index].number);
        let (Some(client), Some(from)) = (client, from) else {
            return self.close(number);
        };
        let entry = self.ledger.entry(number);
        entry.with.store(from, Relaxed);
        entry.since_ns.store(self.now_ns, Relaxed);
        entry.set_peer(&sockets::peer(client));
        self.await_request(number);
    }

    fn resume(&mut self, number: u32) {
        let entry = self.ledger.entry(number);
        let class = entry.class.load(Relaxed) as usize;
        if entry.kind() == Kind::Queued && class < self.queues.len() {
            self.enter(number, class, false);
        } else {
            self.await_request(number);
        }
    }
}
