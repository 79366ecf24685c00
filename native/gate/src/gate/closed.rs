//! Listeners that the server has closed: in a reload, or because the process has ended that had opened it for itself (`SO_REUSEPORT`).
//!
//! A process that shows a listener keeps that conversation open for as long as it has the listener, and so do its children. When all have
//! ended, the gate closes the listener too, as the kernel does that of a last process. Who waits because of it goes to the listener that
//! is at its address, now or in a moment: a server may open it anew.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{acceptfrom_with, getsockname, RecvFlags, SocketFlags};
use trimtab_wire::handoff::{self, Dispatch};
use trimtab_wire::shared::{DISPATCHED, FREE};

use super::{Gate, Listener};
use crate::entry::Peer;
use crate::ledger::{add, Kind};
use crate::sockets;

/// Only the end of these is waited for.
pub(super) const HOLD: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
/// Holds at once, at most a quarter of all descriptors; a process that was broken into could show its listener for ever.
const HOLDS: usize = 16_384;
/// So long connections wait for another listener. A server that opens its port anew does so at once.
const ASTRAY_NS: u64 = 2_000_000_000;
/// Connections of a closed listener that are accepted for another one.
const LAST: usize = 4096;
/// The listener of a connection whose own was closed.
const NO_LISTENER: u32 = u32::MAX;

impl Gate<'_> {
    /// Nobody may show a listener any more.
    pub(super) fn has_all_holds(&self) -> bool {
        let most = (self.ledger.descriptors() / 4).min(HOLDS);
        let holds = self.listeners.iter().map(|one| one.holds.len());
        holds.sum::<usize>() >= most
    }

    /// A conversation lasts from now on as long as its process, or a child of it, has the listener.
    pub(super) fn hold(&mut self, number: u32, index: usize) {
        let listener = &mut self.listeners[index];
        listener.holds.push(number);
        self.ledger.describe(number, Kind::Hold, listener.number);
        self.rewatch(number, HOLD);
    }

    /// Those who had a listener by this conversation have closed it, or one of them says something, which is no end.
    pub(super) fn on_hold(&mut self, number: u32) {
        let mut scratch = [0; 64];
        if !sockets::discard(self.ledger.borrow(number), 1, &mut scratch) {
            return;
        }
        let of = self.ledger.entry(number).with.load(Relaxed);
        if let Some(index) = self.listener(of) {
            self.listeners[index].holds.retain(|&hold| hold != number);
        }
        self.close(number);
        self.forget_closed();
    }

    /// Lets the listeners go that nobody has.
    pub(super) fn forget_closed(&mut self) {
        let is_closed = |one: &Listener| one.holds.is_empty();
        while let Some(index) = self.listeners.iter().position(is_closed) {
            self.forget(index);
        }
    }

    /// Closes a listener, and has those look for another one who came by it.
    pub(super) fn forget(&mut self, index: usize) {
        let listener = self.listeners.remove(index);
        // Another process may have it still, and each connection to it would wake the gate for nothing, again and again.
        self.unwatch(listener.number);
        self.astray_until_ns = self.now_ns + ASTRAY_NS;
        let waiting = (0..self.queues.len())
            .flat_map(|class| self.queues[class].members(&self.ledger))
            .chain(self.peeking.members(&self.ledger))
            .chain(self.unsure.iter().copied());
        for number in waiting.collect::<Vec<_>>() {
            let with = &self.ledger.entry(number).with;
            if with.load(Relaxed) == listener.number {
                with.store(NO_LISTENER, Relaxed);
            }
        }
        self.take_back(listener.worker_end);
        let heirs = self.heirs(listener.local);
        self.accept_last(listener.number, &heirs);
        let ends = [listener.number, listener.gate_end, listener.worker_end];
        for number in ends.into_iter().chain(listener.holds) {
            self.close(number);
        }
        // Should somebody have it after all, as who has shut it down and listens there again, he accepts for himself now, and may come again.
        self.shared.header.generation.fetch_add(1, SeqCst);
    }

    /// The listener to which a connection goes whose own was closed.
    pub(super) fn found_anew(&self, number: u32) -> Option<usize> {
        let entry = self.ledger.entry(number);
        let local = getsockname(self.ledger.borrow(number)).ok();
        let heirs = self.heirs(local.and_then(sockets::internet)?);
        let index = *heirs.get(number as usize % heirs.len().max(1))?;
        entry.with.store(self.listeners[index].number, Relaxed);
        Some(index)
    }

    /// The listeners at an address, of which there are several where each process opens the port for itself.
    fn heirs(&self, local: SocketAddr) -> Vec<usize> {
        let Some(first) = self.at(local) else {
            return Vec::new();
        };
        let local = self.listeners[first].local;
        let is_there = |&index: &usize| self.listeners[index].local == local;
        (0..self.listeners.len()).filter(is_there).collect()
    }

    /// Whether there may be another listener yet for a connection whose own was closed.
    pub(super) fn may_be_found_anew(&self, number: u32) -> bool {
        let with = self.ledger.entry(number).with.load(Relaxed);
        with == NO_LISTENER && self.now_ns < self.astray_until_ns
    }

    /// Takes back what workers have not received, who will not any more.
    fn take_back(&mut self, worker_end: u32) {
        let mut bytes = [0; handoff::LONGEST];
        let how = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        while let Ok((length @ 1.., passed)) =
            handoff::receive(self.ledger.borrow(worker_end), &mut bytes, how)
        {
            let dispatch = Dispatch::decode(&bytes[..length]);
            let (Some(dispatch), Some(fd)) = (dispatch, passed) else {
                continue;
            };
            let slot = self.shared.slot(dispatch.slot);
            let is_its = slot.is_some_and(|slot| {
                slot.sequence.load(Relaxed) == dispatch.sequence && slot.advance(DISPATCHED, FREE)
            });
            // A connection of the server to itself has no slot, and has ended.
            let Some(class) = is_its.then(|| self.free(dispatch.slot)).flatten() else {
                continue;
            };
            let number = self.ledger.keep(fd, Kind::Peeking, NO_LISTENER);
            let entry = self.ledger.entry(number);
            entry.since_ns.store(dispatch.arrival_ns, Relaxed);
            entry.set_peer(&Peer {
                bytes: dispatch.peer,
                len: dispatch.peer_len,
            });
            self.join(number, class, false);
        }
    }

    /// Accepts for some listeners what has come to another.
    fn accept_last(&mut self, from: u32, heirs: &[usize]) {
        for &heir in heirs.iter().cycle().take(LAST) {
            match acceptfrom_with(self.ledger.borrow(from), SocketFlags::CLOEXEC) {
                Ok((fd, peer)) => {
                    if let Some(peer) = peer.and_then(sockets::internet) {
                        self.arrived(heir, fd, peer);
                    }
                }
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                // There are no more, or no room for them.
                Err(_) => return,
            }
        }
    }

    /// A connection that nobody serves any more ends, as in the kernel's queue of a listener that is closed.
    pub(super) fn end_astray(&mut self, number: u32, class: u32) {
        if (class as usize) < self.queues.len() {
            add(&self.ledger.cell(class as usize).aborted, 1);
        }
        self.close(number);
    }
}
