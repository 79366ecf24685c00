//! The pool of workers by the rules of Apache 2.4's prefork (server/mpm/prefork/prefork.c, `perform_idle_server_maintenance` and
//! `prefork_run`), and without them where no StartServers is given.
//!
//! Once a second the parent looks at the idle workers. Fewer than MinSpareServers: it starts 1, the next time 2, then 4, up to 32, as long as
//! they are too few. More than MaxSpareServers: it ends one. Neither: the next start is of 1 again. MaxRequestWorkers bounds all of them,
//! those of an earlier generation too. After a graceful restart StartServers are started, where the old ones leave no room as they end,
//! and the rate does not double for ten looks. As StartServers trimtab writes the number of workers that run, as far as the new
//! limit allows them: else a loaded server would be short of workers after every change.
//!
//! Simpler than Apache, which forgets StartServers that found no room within a second (`prefork_run`: `startup_children`, then
//! `remaining_children_to_start = 0`), and does not count old workers in slots beyond a lowered limit. What both change together is in
//! docs/battery.md.

use crate::calendar::Kind;
use crate::session::Stage;
use crate::system::System;

/// Period of the server's look at its spare workers, as Apache's idle server maintenance.
const MAINTENANCE_S: f64 = 1.0;

/// Most workers started at one look (MAX_SPAWN_RATE).
const MOST_STARTED: u32 = 32;

/// Looks after a graceful restart in which the rate does not double (hold_off_on_exponential_spawning).
const HOLD_OFF: u32 = 10;

/// The workers that there are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pool {
    /// All, busy or idle.
    pub resident: u32,
    /// Those that have served a request.
    pub touched: u32,
    /// Workers to start at the next look.
    rate: u32,
    /// Looks to come in which the rate does not double.
    hold_off: u32,
    /// Workers of StartServers for which there was no room yet.
    to_start: u32,
    /// Workers that ran when a reload was ordered.
    pub ran: u32,
}

impl Pool {
    /// A worker ends.
    fn end(&mut self, touched: bool) {
        self.resident -= 1;
        if touched || self.touched > self.resident {
            self.touched -= 1;
        }
    }
}

impl System {
    /// Whether Apache's rules hold.
    pub(crate) fn is_prefork(&self) -> bool {
        self.server.start_workers > 0
    }

    /// Whether a connection can be served now.
    pub(crate) fn worker_is_free(&self) -> bool {
        let limited = self.busy < self.in_force.max_request_workers;
        match self.is_prefork() {
            true => self.busy < self.pool.resident && (limited || !self.gate.is_there()),
            false => limited,
        }
    }

    /// A worker takes a connection; true when it is its first. The longest idle one is next, so that all are used in turn.
    pub(crate) fn take_worker(&mut self) -> bool {
        self.busy += 1;
        let pool = &mut self.pool;
        pool.resident = pool.resident.max(self.busy);
        let first = pool.touched < pool.resident;
        pool.touched += u32::from(first);
        first
    }

    /// The first workers.
    pub(crate) fn start_pool(&mut self) {
        self.pool.rate = 1;
        if self.is_prefork() {
            self.pool.to_start = match self.pool.ran {
                0 => self.server.start_workers,
                ran => ran.min(self.most()),
            };
            self.start_some();
        } else {
            let room = self.in_force.max_request_workers.saturating_sub(self.busy);
            self.pool.resident = self.busy + room.min(self.server.spare_workers);
            self.pool.touched = self.pool.touched.min(self.busy);
        }
    }

    /// Workers that there may be: with a gate in front its limit is not the server's.
    fn most(&self) -> u32 {
        match self.gate.is_there() {
            true => self.server.max_request_workers,
            false => self.in_force.max_request_workers,
        }
    }

    fn start_some(&mut self) {
        let room = self.most().saturating_sub(self.pool.resident);
        let started = room.min(self.pool.to_start);
        self.pool.resident += started;
        self.pool.to_start -= started;
    }

    /// The server's look at its spare workers.
    pub(crate) fn maintain(&mut self) {
        self.schedule(MAINTENANCE_S, Kind::Maintain, 0, 0);
        if self.is_prefork() && !self.ordered.is_empty() {
            return; // the parent reads its configuration
        }
        let idle = self.pool.resident - self.busy;
        if idle > self.server.spare_workers {
            self.pool.end(false);
            self.pool.rate = 1;
        } else if self.is_prefork() && idle < self.server.min_spare_workers {
            let room = self.most().saturating_sub(self.pool.resident);
            self.pool.resident += room.min(self.pool.rate);
            if room == 0 {
                self.pool.rate = 1;
            } else if self.pool.hold_off > 0 {
                self.pool.hold_off -= 1;
            } else {
                self.pool.rate = (2 * self.pool.rate).min(MOST_STARTED);
            }
            self.accept();
        } else {
            self.pool.rate = 1;
        }
    }

    /// A graceful restart begins: idle workers end, those with an idle connection too, the others after the request in hand.
    pub(crate) fn retire(&mut self) {
        self.pool.to_start = 0;
        self.pool.resident = self.busy;
        self.pool.touched = self.pool.touched.min(self.busy);
        for slot in 0..self.sessions.slots() {
            let session = self.sessions.at(slot);
            session.closing = session.connected;
            if session.stage == Stage::Between {
                self.release(slot);
            }
        }
    }

    /// A worker of an earlier generation ends with its connection.
    pub(crate) fn end_old(&mut self) {
        self.pool.end(true);
        self.start_some();
    }

    /// An ordered change comes into force with a new generation.
    pub(crate) fn reload(&mut self) {
        if let Some(wanted) = self.ordered.pop_front() {
            self.in_force = wanted;
        }
        self.retire();
        if self.ordered.is_empty() || !self.is_prefork() {
            self.start_pool();
            self.pool.hold_off = HOLD_OFF;
            self.accept();
        }
    }
}
