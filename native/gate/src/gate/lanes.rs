//! While no budget binds the workers accept for themselves: the gate lends them what the classes may still put into
//! service, and steps in where nobody accepts.
//!
//! The workers' accept costs them what it costs without a gate. The gate waits behind them at the listeners (the kernel
//! wakes one of those that wait exclusively, the first of them) and so hears of a connection only when no worker waits;
//! when workers have taken something just now they are busy, and come for it themselves.
//!
//! A budget that binds ends this at once, whoever finds it: nobody waits, and no budget or policy changes, while
//! anything is lent. It begins again when nothing has waited for a while. Classes that need a look at the request, a
//! budget of 0 and an open gate leave everything to the gate.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, Release};

use rustix::event::epoll::EventFlags;
use rustix::net::{getpeername, getsockname};
use trimtab_wire::lanes::{ERAS, RULES};
use trimtab_wire::shared::{now_ns, Layout, Slot, FREE};

use super::Gate;
use crate::ledger::add;
use crate::sockets;

/// So long after a budget has bound the workers get nothing.
const BOUND_NS: u64 = 200_000_000;
/// Connections accepted before others get their turn.
const BATCH: usize = 64;
/// So long the gate leaves the listeners to workers who get connections.
const REST_NS: u64 = 1_000_000;

/// The present lending.
#[derive(Debug, Default)]
pub struct Lanes {
    /// The classes can be told apart by the workers.
    possible: bool,
    open: bool,
    /// Era of what is lent.
    era: u16,
    /// Slots lent, by class.
    lent: Vec<u32>,
    /// When a budget last bound.
    bound_ns: u64,
    /// The workers' activity when the gate last looked.
    activity: u64,
    /// Until when the listeners are left to the workers.
    rests_until_ns: Option<u64>,
}

/// Nothing is lent any more: what a gate before this one has lent is found as what it is now.
pub fn close_all(layout: &Layout, classes: usize) {
    layout.lanes.open.store(0, Relaxed);
    for class in 0..classes as u32 {
        let _ = layout.close_lane(class);
    }
}

fn is_free(slot: &Slot) -> bool {
    slot.state.load(Relaxed) == FREE
}

impl Gate<'_> {
    /// Shows the workers how to tell the classes apart, where they can.
    pub(super) fn show_lanes(&mut self) {
        self.lanes.lent = vec![0; self.queues.len()];
        let rules = self.classifier.of_ends();
        if let Some(rules) = rules.filter(|rules| rules.len() <= RULES) {
            let rest = self.classifier.rest() as u32;
            self.shared.lanes.show(&rules, rest);
            self.lanes.possible = true;
        }
    }

    pub(super) fn lanes_are_open(&self) -> bool {
        self.lanes.open
    }

    /// Slots of a class that lie with the workers or are in use by them.
    pub(super) fn lent(&self, class: usize) -> u32 {
        self.lanes.lent.get(class).copied().unwrap_or(0)
    }

    /// As `lent`, of all classes.
    pub(super) fn all_lent(&self) -> u32 {
        self.lanes.lent.iter().sum()
    }

    /// The regular work: lends when nothing has bound for a while, or what has come back since.
    pub(super) fn look_after_lanes(&mut self) {
        if !self.lanes.open {
            self.open_lanes();
            return;
        }
        for class in 0..self.queues.len() {
            self.lend(class);
        }
        self.step_behind();
    }

    /// Waits behind workers that have begun to wait since the gate did, or not at all while it leaves the listeners to them.
    pub(super) fn step_behind(&mut self) {
        if !self.lanes.open {
            return;
        }
        if self.lanes.rests_until_ns.is_none() {
            self.watch_listeners();
            return;
        }
        for index in 0..self.listeners.len() {
            self.unwatch(self.listeners[index].number);
        }
    }

    /// Lends the workers what the budgets leave, when nobody waits and there is something for each class.
    pub(crate) fn open_lanes(&mut self) {
        let classes = 0..self.queues.len();
        let quiet = self.budgets.waiting() == 0
            && self.peeking.len() == 0
            && self.unsure.is_empty()
            && self.now_ns.saturating_sub(self.lanes.bound_ns) >= BOUND_NS
            && !self.listeners.iter().any(|one| one.full || one.paused);
        let room = !self.budgets.open && classes.clone().all(|class| self.room(class) > 0);
        if self.lanes.open || !self.lanes.possible || !quiet || !room {
            return;
        }
        let shared = self.shared;
        let era = shared.lanes.era.load(Relaxed) as u16 % ERAS + 1;
        shared.lanes.era.store(era.into(), Relaxed);
        self.lanes.era = era;
        for class in classes {
            shared.open_lane(class as u32, era);
            self.lend(class);
        }
        self.lanes.open = true;
        self.lanes.activity = shared.lanes.activity();
        shared.lanes.armed.store(0, Relaxed);
        shared.lanes.open.store(1, Release);
        self.watch_listeners();
    }

    /// Lends what has come back since; false when nothing has.
    pub(super) fn lends_more(&mut self, class: usize) -> bool {
        let before = self.lent(class);
        self.lend(class);
        self.lent(class) > before
    }

    /// Lends what a class may still put into service.
    fn lend(&mut self, class: usize) {
        let shared = self.shared;
        let era = self.lanes.era;
        self.pass(class);
        for index in self.slots.lend(class as u32, self.room(class)) {
            self.lanes.lent[class] += 1;
            self.budgets.served(class);
            shared.lend(index, class as u32, era);
        }
    }

    /// Takes everything back; what is in use comes back as other slots do.
    pub(super) fn close_lanes(&mut self) {
        if !self.lanes.open {
            return;
        }
        let shared = self.shared;
        shared.lanes.open.store(0, Release);
        for class in 0..self.queues.len() {
            self.pass(class);
            for index in shared.close_lane(class as u32) {
                if self.slots.is_lent_to(index, class as u32) {
                    self.lanes.lent[class] -= 1;
                    self.slots.end_loan(index);
                    if self.slots.give_back(shared, index).is_some() {
                        self.budgets.released(class);
                    }
                }
            }
        }
        let left: Vec<u32> = self
            .slots
            .on_loan(shared)
            .map(|(index, ..)| index)
            .collect();
        // Those of them that are FREE are in the hands of a worker at this moment, or astray.
        for index in left {
            self.end_loan(index);
        }
        self.lanes.open = false;
        self.watch_listeners();
    }

    /// A budget binds, or the workers take no more: from here on connections wait with the gate.
    pub(crate) fn close_bound_lanes(&mut self) {
        self.lanes.bound_ns = self.now_ns;
        self.close_lanes();
    }

    /// A lent slot in use is the gate's again: what its connection has had so far counts now.
    pub(super) fn end_loan(&mut self, index: u32) {
        let (class, slot) = (self.slots.class(index), self.shared.slot(index));
        let (true, Some(class), Some(slot)) = (self.slots.is_lent(index), class, slot) else {
            return;
        };
        let class = class as usize;
        self.pass(class);
        slot.era.store(0, Relaxed);
        if !is_free(slot) {
            let held_ns = self.now_ns.saturating_sub(slot.dispatched_ns.load(Relaxed));
            add(&self.ledger.cell(class).in_service_ns, held_ns);
        }
        self.lanes.lent[class] -= 1;
        self.slots.end_loan(index);
    }

    /// Of a class: connections in service in lent slots, and the sum of their times until now.
    pub(super) fn on_loan(&self, class: usize) -> (u32, u64) {
        let used = self.slots.on_loan(self.shared);
        let used = used.filter(|&(_, of, slot)| of == class && !is_free(slot));
        used.fold((0, 0), |(count, sum_ns), (_, _, slot)| {
            let since_ns = slot.dispatched_ns.load(Relaxed);
            let used_ns = self.now_ns.saturating_sub(since_ns);
            (count + 1, u64::saturating_add(sum_ns, used_ns))
        })
    }

    /// How many connections to accept at a listener now.
    ///
    /// Where workers who accept for themselves get connections they are about to come for this one too: then it is one, for
    /// a worker that waits for the gate alone, and nobody looks for a while.
    pub(super) fn turn(&mut self, index: usize) -> usize {
        let lanes = &self.shared.lanes;
        let port = self.listeners[index].local.port();
        if !self.lanes.open || !lanes.are_armed(port.into()) {
            return BATCH;
        }
        let activity = lanes.activity();
        if activity == std::mem::replace(&mut self.lanes.activity, activity) {
            return BATCH;
        }
        self.lanes.rests_until_ns = Some(now_ns() + REST_NS);
        1
    }

    /// How long the listeners are still left to the workers.
    pub(super) fn rest_ns(&self) -> Option<u64> {
        let until_ns = self.lanes.rests_until_ns?;
        Some(until_ns.saturating_sub(self.now_ns))
    }

    /// Looks at the listeners again.
    pub(super) fn end_rest(&mut self) {
        if self.rest_ns() == Some(0) {
            self.watch_listeners();
        }
    }

    /// How a listener is waited on.
    pub(super) fn listening(&self) -> EventFlags {
        match self.lanes.open {
            true => EventFlags::IN | EventFlags::EXCLUSIVE,
            false => EventFlags::IN,
        }
    }

    /// A worker has accepted a connection that its class's budget has no room for.
    pub(super) fn handed_over(&mut self, fd: OwnedFd) {
        let client = getpeername(&fd).ok().flatten().and_then(sockets::internet);
        let local = getsockname(&fd).ok().and_then(sockets::internet);
        // A client that has gone needs no more than that the descriptor is closed.
        if let (Some(client), Some(index)) = (client, local.and_then(|local| self.serving(local))) {
            self.arrived(index, fd, client);
        }
    }

    /// Index of the listener that a connection to this address came from.
    pub(super) fn serving(&self, local: SocketAddr) -> Option<usize> {
        // A transparent proxy's listener has none of its connections' addresses.
        self.at(local)
            .or_else(|| self.on_port(local.port(), |_| true))
    }

    /// Index of the listener at this very address, else of one at all addresses of its family, as the kernel chooses too. A server may
    /// serve a connection by the listener at which it is accepted, as nginx does.
    pub(super) fn at(&self, local: SocketAddr) -> Option<usize> {
        let all = |ip: IpAddr| ip.is_unspecified() && ip.is_ipv4() == local.is_ipv4();
        self.on_port(local.port(), |ip| ip == local.ip())
            .or_else(|| self.on_port(local.port(), all))
    }

    fn on_port(&self, port: u16, fits: impl Fn(IpAddr) -> bool) -> Option<usize> {
        self.listeners
            .iter()
            .position(|one| one.local.port() == port && fits(one.local.ip()))
    }

    /// Connections of a class that may still go into service.
    fn room(&self, class: usize) -> u32 {
        let share = self.budgets.shares()[class];
        share.allotted.saturating_sub(share.in_service)
    }

    /// Waits on the listeners anew: alone, or behind all workers that wait.
    fn watch_listeners(&mut self) {
        self.lanes.rests_until_ns = None;
        for index in 0..self.listeners.len() {
            let number = self.listeners[index].number;
            if self.listeners[index].paused {
                continue;
            }
            self.unwatch(number);
            self.listeners[index].paused = self.watch(number, self.listening()).is_err();
        }
    }
}
