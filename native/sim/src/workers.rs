//! The server's side: accept queue or connection scheduler, requests in workers, the lock, keep-alive.

use trimtab_wire::BadInput;

use crate::calendar::Kind;
use crate::memory;
use crate::session::Stage;
use crate::system::System;

/// Pause before the first repetition of a lost SYN (RFC 6298); it doubles each time: 1, 3, 7 s after the first.
const SYN_TIMEOUT_S: f64 = 1.0;

/// Repetitions after which the pause no longer doubles, beyond every sensible timeout.
const MAX_DOUBLINGS: u8 = 16;

impl System {
    /// The client asks for a connection.
    pub(crate) fn connect(&mut self, slot: u32) {
        if self.gate.is_there() {
            self.queue_up(slot);
            return;
        }
        let full = self.queue.len() >= self.server.accept_queue as usize;
        let idle = self.queue.is_empty() && self.worker_is_free();
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        if full && !idle {
            let pause_s = SYN_TIMEOUT_S * f64::from(1_u32 << session.losses.min(MAX_DOUBLINGS));
            session.losses = session.losses.saturating_add(1);
            session.stage = Stage::Retrying;
            let stamp = session.stamp;
            self.meter.overflows += 1;
            self.schedule(pause_s, Kind::Retry, slot, stamp);
            return;
        }
        session.losses = 0;
        session.since_s = now_s;
        session.stage = Stage::Queued;
        self.meter.entered += 1;
        self.queue.push_back(slot);
        self.accept();
    }

    /// The gate takes the connection at once, whatever waits already.
    fn queue_up(&mut self, slot: u32) {
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        session.since_s = now_s;
        session.stage = Stage::Queued;
        let class = self.clients[session.population as usize].class;
        self.meter.entered += 1;
        self.gate.enqueue(now_s, class, slot);
        self.accept();
    }

    /// Free workers take connections from the head of the queue, or from where the gate says.
    pub(crate) fn accept(&mut self) {
        while self.worker_is_free() {
            let next = match self.gate.is_there() {
                true => self.gate.dispatch(self.now_s),
                false => self.queue.pop_front(),
            };
            let Some(slot) = next else {
                return;
            };
            let first = self.take_worker();
            let now_s = self.now_s;
            let session = self.sessions.at(slot);
            session.connected = true;
            session.closing = false;
            self.meter.accepted += 1;
            self.meter.waited_s += now_s - session.since_s;
            self.begin_request(slot, Some(first));
        }
    }

    /// A worker goes on with the next request of the connection that it holds.
    pub(crate) fn serve(&mut self, slot: u32) {
        self.begin_request(slot, None);
    }

    /// A request begins; with one that opens a connection, whether its worker has served none yet.
    fn begin_request(&mut self, slot: u32, opening: Option<bool>) {
        let now_s = self.now_s;
        let cpu_s = self.demand_s(slot);
        self.let_go(slot);
        self.memory.count(cpu_s, opening.is_some());
        // All work takes longer for what comes back, which room that is made for a worker once does not.
        let eviction_s = match opening {
            Some(true) => memory::eviction_s(&self.server, self.pool) / self.slowdown(),
            _ => 0.0,
        };
        let work_s = cpu_s + eviction_s;
        let (off_s, lock) = (self.server.other_s, self.server.lock_ratio);
        let session = self.sessions.at(slot);
        session.since_s = now_s;
        session.expiry_s = f64::INFINITY;
        session.stage = Stage::Served;
        if lock == 0.0 {
            self.work(slot, work_s, off_s);
            return;
        }
        session.rest_s = (work_s, off_s);
        session.locking = true;
        if self.locked {
            self.lock_queue.push_back(slot);
        } else {
            self.locked = true;
            self.work_under_lock(slot);
        }
    }

    /// A request has the lock for its share of what it has to do; the rest comes afterwards.
    fn work_under_lock(&mut self, slot: u32) {
        let lock = self.server.lock_ratio;
        let session = self.sessions.at(slot);
        let (work_s, off_s) = session.rest_s;
        session.rest_s = ((1.0 - lock) * work_s, (1.0 - lock) * off_s);
        self.work(slot, lock * work_s, lock * off_s);
    }

    /// A request goes on the cores, and off them afterwards.
    fn work(&mut self, slot: u32, work_s: f64, off_s: f64) {
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        session.off_s = off_s;
        if work_s > 0.0 {
            self.cores.enter(now_s, slot, work_s);
        } else {
            let stamp = session.stamp;
            self.schedule(off_s, Kind::DelayEnd, slot, stamp);
        }
    }

    /// A request's work on the cores is done.
    pub(crate) fn computed(&mut self, slot: u32) -> Result<(), BadInput> {
        let session = self.sessions.at(slot);
        if session.off_s > 0.0 {
            let (off_s, stamp) = (session.off_s, session.stamp);
            self.schedule(off_s, Kind::DelayEnd, slot, stamp);
            return Ok(());
        }
        self.worked(slot)
    }

    /// A request is done with the lock, or altogether.
    pub(crate) fn worked(&mut self, slot: u32) -> Result<(), BadInput> {
        let session = self.sessions.at(slot);
        if !session.locking {
            return self.served(slot);
        }
        session.locking = false;
        let (work_s, off_s) = session.rest_s;
        self.pass_lock();
        if work_s + off_s > 0.0 {
            self.work(slot, work_s, off_s);
            return Ok(());
        }
        self.served(slot)
    }

    /// The next request that waits for the lock has it.
    fn pass_lock(&mut self) {
        match self.lock_queue.pop_front() {
            Some(next) => self.work_under_lock(next),
            None => self.locked = false,
        }
    }

    /// A request is served.
    pub(crate) fn served(&mut self, slot: u32) -> Result<(), BadInput> {
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        let (since_s, abandoned) = (session.since_s, session.abandoned);
        self.meter.served += 1;
        self.meter.service_s += now_s - since_s;
        if abandoned {
            self.release(slot);
            self.sessions.remove(slot);
            return Ok(());
        }
        self.replied(slot)
    }

    /// The worker waits for the next request, which comes after this pause, as long as the keep-alive time allows.
    pub(crate) fn keep(&mut self, slot: u32, pause_s: f64) {
        let limit_s = f64::from(self.in_force.keep_alive_timeout_ms) / 1e3;
        if self.sessions.at(slot).closing {
            self.release(slot);
            return;
        }
        if pause_s == 0.0 {
            return;
        }
        if limit_s == 0.0 {
            self.release(slot);
            return;
        }
        self.sessions.at(slot).held = true;
        self.held += 1;
        if pause_s > limit_s {
            let expiry_s = self.now_s + limit_s;
            let session = self.sessions.at(slot);
            session.expiry_s = expiry_s;
            let stamp = session.stamp;
            self.schedule(limit_s, Kind::KeepAliveEnd, slot, stamp);
        }
    }

    /// The keep-alive time of a connection is over, unless a reload has closed it before.
    pub(crate) fn close_idle(&mut self, slot: u32) {
        if self.sessions.at(slot).expiry_s == self.now_s {
            self.release(slot);
        }
    }

    /// A worker no longer waits for the next request.
    fn let_go(&mut self, slot: u32) {
        let session = self.sessions.at(slot);
        self.held -= u32::from(session.held);
        session.held = false;
    }

    /// The connection of a session is closed; its worker is free.
    pub(crate) fn release(&mut self, slot: u32) {
        self.let_go(slot);
        let session = self.sessions.at(slot);
        session.expiry_s = f64::INFINITY;
        if !session.connected {
            return;
        }
        session.connected = false;
        let ends = session.closing;
        let population = session.population;
        self.busy -= 1;
        if self.gate.is_there() {
            let class = self.clients[population as usize].class;
            self.gate.leave(self.now_s, class);
        }
        if ends {
            self.end_old();
        }
        self.accept();
    }
}
