//! Connections come in: accepted at once, told apart by their ends or by the beginning of their request.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{acceptfrom_with, getsockname, SocketFlags};
use trimtab_wire::shared::now_ns;
use trimtab_wire::wake;

use super::Gate;
use crate::ledger::{add, Kind};
use crate::rules::{Bytes, Ends};
use crate::sockets;

/// Times that one connection is looked at before it is classified by what has come: each look copies it all again.
const LOOKS: u32 = 64;

/// Connections that may wait for their requests at once, at most half of all descriptors: the rest is left to those that wait for a
/// worker, which the queues' limits bound. With the usual five seconds it takes 3,000 silent clients a second to reach it.
const MOST_PEEKS: usize = 16_384;
/// One source has one part in so many of them. A proxy in front is one source, too, but it has its requests ready: a thousand at once that
/// have not sent theirs within the time of a round trip are 10,000 new ones a second at 100 ms.
const SHARE_OF_SOURCE: usize = 16;

/// A connection that waits for its bytes is waited on for them; one event for each time that some come.
const PEEKING: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// Why the bytes of a connection are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It has just come.
    First,
    /// More bytes have come.
    More,
    /// Its client has ended: only a request that is whole is served.
    Over,
    /// Its time is over: it is classified by what there is.
    Last,
}

impl Gate<'_> {
    /// Accepts what a listener has.
    pub(super) fn accept_all(&mut self, number: u32) {
        let Some(index) = self.listener(number) else {
            return;
        };
        for _ in 0..self.turn(index) {
            match acceptfrom_with(self.ledger.borrow(number), SocketFlags::CLOEXEC) {
                Ok((fd, peer)) => {
                    if let Some(peer) = peer.and_then(sockets::internet) {
                        self.arrived(index, fd, peer);
                    }
                }
                Err(Errno::AGAIN) => break,
                // At a listener that was shut down there is an event all the while; the server may listen there again.
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::INVAL) => {
                    self.pause(index);
                    break;
                }
                // The client has gone again, or the network has.
                Err(_) => {}
            }
        }
        self.step_behind();
    }

    /// A connection has come.
    pub(super) fn arrived(&mut self, index: usize, fd: OwnedFd, client: SocketAddr) {
        let Some(listener) = self.listeners.get(index) else {
            return;
        };
        let (from, local) = (listener.number, listener.local);
        let number = self.ledger.keep(fd, Kind::Peeking, from);
        let entry = self.ledger.entry(number);
        self.now_ns = now_ns();
        entry.since_ns.store(self.now_ns, Relaxed);
        entry.set_peer(&sockets::peer(client));
        if wake::is_wake(self.shared, client.ip()) {
            self.give_outside(number);
            return;
        }
        let ends = self.ends(number, client.ip(), local);
        match self.classifier.by_ends(&ends) {
            Some(class) => self.join(number, class, false),
            None => self.look(number, &ends, Look::First),
        }
    }

    /// More of a request has come, or its client has given up.
    pub(super) fn look_again(&mut self, number: u32, flags: EventFlags) {
        let over = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let look = match flags.intersects(over) {
            true => Look::Over,
            false => Look::More,
        };
        self.look_once_more(number, look);
    }

    /// Classifies the connections whose time to say more is over.
    pub(super) fn end_peeks(&mut self) {
        while let Some(number) = self.peeking.first() {
            if self
                .peek_deadline_ns()
                .is_none_or(|deadline_ns| deadline_ns > self.now_ns)
            {
                break;
            }
            self.look_once_more(number, Look::Last);
        }
    }

    /// When the first of the connections that are looked at must be classified.
    pub(super) fn peek_deadline_ns(&self) -> Option<u64> {
        let first = self.peeking.first()?;
        let timeout_ns = (self.start.peek_timeout_s * 1e9) as u64;
        Some(self.ledger.entry(first).since_ns.load(Relaxed) + timeout_ns)
    }

    /// The connection waits for its request from now on, as the last of those that do.
    pub(super) fn await_request(&mut self, number: u32) {
        self.ledger.entry(number).set_kind(Kind::Peeking);
        if self.watch(number, PEEKING).is_ok() {
            self.peeking.push(&self.ledger, number);
            if let Some((client, since_ns)) = self.origin(number) {
                self.sources.add(client, since_ns, number);
                self.bound_peeks(client);
            }
        } else {
            self.join(number, self.classifier.rest(), false);
        }
    }

    /// The connection waits for its request no more.
    pub(super) fn end_peek(&mut self, number: u32) {
        self.peeking.remove(&self.ledger, number);
        if let Some((client, since_ns)) = self.origin(number) {
            self.sources.remove(client, since_ns, number);
        }
    }

    /// Classifies the oldest by what has come of them when too many wait, of one source or of all.
    fn bound_peeks(&mut self, client: IpAddr) {
        let most = (self.ledger.descriptors() / 2).min(MOST_PEEKS);
        let of_source = (most / SHARE_OF_SOURCE).max(1);
        if let Some(oldest) = self.sources.oldest_beyond(client, of_source) {
            self.look_once_more(oldest, Look::Last);
        }
        if self.peeking.len() as usize > most {
            if let Some(oldest) = self.peeking.first() {
                self.look_once_more(oldest, Look::Last);
            }
        }
    }

    /// Where a connection comes from, and when it came.
    fn origin(&self, number: u32) -> Option<(IpAddr, u64)> {
        let entry = self.ledger.entry(number);
        let client = sockets::address(&entry.peer())?;
        Some((client.ip(), entry.since_ns.load(Relaxed)))
    }

    fn look_once_more(&mut self, number: u32, look: Look) {
        let entry = self.ledger.entry(number);
        let looks = entry.class.load(Relaxed) + 1;
        entry.class.store(looks, Relaxed);
        let local = match self.listener(entry.with.load(Relaxed)) {
            Some(index) => Some(self.listeners[index].local),
            None => getsockname(self.ledger.borrow(number))
                .ok()
                .and_then(sockets::internet),
        };
        let client = sockets::address(&entry.peer());
        match (local, client) {
            (Some(local), Some(client)) => {
                let ends = self.ends(number, client.ip(), local);
                let worn = look == Look::More && looks >= LOOKS;
                self.look(number, &ends, if worn { Look::Last } else { look });
            }
            _ => {
                self.end_peek(number);
                self.close(number);
            }
        }
    }

    /// Looks at the bytes of a connection.
    fn look(&mut self, number: u32, ends: &Ends, look: Look) {
        let most = self.start.peek_bytes as usize;
        let waited = look != Look::First;
        let seen = sockets::peek(self.ledger.borrow(number), &mut self.buffer[..most]);
        let class = match seen {
            Ok(0) => return self.gave_up(number, waited),
            Ok(count) => {
                let last = look == Look::Last || count == most;
                let seen = &self.buffer[..count];
                self.classifier.by_request(ends, Bytes { seen, last })
            }
            Err(Errno::AGAIN | Errno::INTR) => (look == Look::Last).then(|| self.classifier.rest()),
            Err(_) => return self.gave_up(number, waited),
        };
        match class {
            Some(class) => {
                if waited {
                    self.end_peek(number);
                }
                self.join(number, class, waited);
            }
            None if look == Look::Over => self.gave_up(number, waited),
            None if !waited => self.await_request(number),
            None => {}
        }
    }

    /// A client ends before it has said enough.
    fn gave_up(&mut self, number: u32, waited: bool) {
        if waited {
            self.end_peek(number);
        }
        let cell = self.ledger.cell(self.classifier.rest());
        add(&cell.arrivals, 1);
        add(&cell.aborted, 1);
        self.close(number);
    }

    fn ends(&self, number: u32, source: IpAddr, local: SocketAddr) -> Ends {
        let asked = || {
            getsockname(self.ledger.borrow(number))
                .ok()
                .and_then(sockets::internet)
        };
        let local = match self.classifier.asks_address() {
            true => asked().unwrap_or(local),
            false => local,
        };
        Ends { source, local }
    }

    /// Nothing can be accepted for now, as when descriptors ran out: the kernel's queue keeps the connections until some are free again.
    fn pause(&mut self, index: usize) {
        self.listeners[index].paused = true;
        self.unwatch(self.listeners[index].number);
    }

    /// Accepts and dispatches again where it was stopped.
    pub(super) fn resume_listeners(&mut self) {
        for index in 0..self.listeners.len() {
            self.listeners[index].full = false;
            if self.listeners[index].paused {
                let number = self.listeners[index].number;
                self.listeners[index].paused = self.watch(number, self.listening()).is_err();
            }
        }
    }
}
