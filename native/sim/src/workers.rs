//! The server's side: accept queue or connection scheduler, workers, keep-alive, memory, reload.
//!
//! Memory is that of the resident workers, busy or idle, as with Apache's prefork: a worker is spawned when a connection needs
//! one (at once; Apache doubles its spawning rate each second up to 32) and stays until more than `spare_workers` are idle, when one of them
//! ends each second. A reload ends the idle ones and starts spares anew; a busy one ends with its connection.

use crate::calendar::Kind;
use crate::session::Stage;
use crate::system::System;

/// Period of the server's look at its spare workers, as Apache's idle server maintenance.
const MAINTENANCE_S: f64 = 1.0;

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
        let idle = self.queue.is_empty() && self.busy < self.in_force.max_request_workers;
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
        while self.busy < self.in_force.max_request_workers {
            let next = match self.gate.is_there() {
                true => self.gate.dispatch(self.now_s),
                false => self.queue.pop_front(),
            };
            let Some(slot) = next else {
                return;
            };
            self.busy += 1;
            self.set_resident(self.resident.max(self.busy));
            let now_s = self.now_s;
            let session = self.sessions.at(slot);
            session.connected = true;
            session.closing = false;
            self.meter.accepted += 1;
            self.meter.waited_s += now_s - session.since_s;
            self.serve(slot);
        }
    }

    /// A worker begins with a request on the connection that it holds.
    pub(crate) fn serve(&mut self, slot: u32) {
        let now_s = self.now_s;
        let demand_s = self.demand_s(slot);
        let session = self.sessions.at(slot);
        session.since_s = now_s;
        session.expiry_s = f64::INFINITY;
        session.stage = Stage::Served;
        if demand_s > 0.0 {
            self.cores.enter(now_s, slot, demand_s);
        } else {
            let stamp = session.stamp;
            self.schedule(self.server.other_s, Kind::DelayEnd, slot, stamp);
        }
    }

    /// A request's work on the cores is done.
    pub(crate) fn computed(&mut self, slot: u32) -> Result<(), String> {
        if self.server.other_s > 0.0 {
            let stamp = self.sessions.at(slot).stamp;
            self.schedule(self.server.other_s, Kind::DelayEnd, slot, stamp);
            return Ok(());
        }
        self.served(slot)
    }

    /// A request is served.
    pub(crate) fn served(&mut self, slot: u32) -> Result<(), String> {
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
        } else if pause_s > limit_s {
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

    /// The connection of a session is closed; its worker is free.
    pub(crate) fn release(&mut self, slot: u32) {
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
            self.set_resident(self.resident - 1);
        }
        self.accept();
    }

    /// An ordered change comes into force, as by a graceful restart: idle connections are closed at once, the others after
    /// the request under way; their workers count against the new limit until then.
    pub(crate) fn reload(&mut self) -> Result<(), String> {
        if let Some(wanted) = self.ordered.pop_front() {
            self.in_force = wanted;
        }
        for slot in 0..self.sessions.slots() {
            let session = self.sessions.at(slot);
            session.closing = session.connected;
            if session.stage == Stage::Between {
                self.release(slot);
            }
        }
        self.spawn_spares();
        self.accept();
        Ok(())
    }

    /// Ends all idle workers and starts the spare ones.
    pub(crate) fn spawn_spares(&mut self) {
        let room = self.in_force.max_request_workers.saturating_sub(self.busy);
        self.set_resident(self.busy + room.min(self.server.spare_workers));
    }

    /// The server's look at its spare workers: one ends when there are too many.
    pub(crate) fn maintain(&mut self) {
        if self.resident - self.busy > self.server.spare_workers {
            self.set_resident(self.resident - 1);
        }
        self.schedule(MAINTENANCE_S, Kind::Maintain, 0, 0);
    }

    /// Past the memory limit everything takes longer, in proportion to what does not fit.
    fn set_resident(&mut self, workers: u32) {
        if workers == self.resident {
            return;
        }
        self.resident = workers;
        let demand =
            self.server.base_memory_bytes + self.server.worker_memory_bytes * f64::from(workers);
        let excess = (demand / self.server.memory_limit_bytes - 1.0).max(0.0);
        self.cores
            .slow_down(self.now_s, 1.0 + self.server.swap_cost * excess);
    }
}
