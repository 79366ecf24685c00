//! The clients' side: sessions arrive, click, fetch a page's objects, think, give up.

use rand::Rng;
use trimtab_wire::sample::session_rng;
use trimtab_wire::workload::Connection;
use trimtab_wire::BadInput;

use crate::calendar::Kind;
use crate::population::MAX_SESSIONS;
use crate::session::Stage;
use crate::system::System;

impl System {
    /// Sets up the schedules and the first arrivals.
    pub(crate) fn open_doors(&mut self) -> Result<(), BadInput> {
        for index in 0..self.clients.len() {
            let steps = self.clients[index].schedule.len();
            for step in 0..steps {
                let at_s = self.clients[index].schedule[step].at_s;
                self.schedule(at_s, Kind::Step, index as u32, step as u32);
            }
            // A step at time 0 stands for the start itself.
            if steps == 0 || self.clients[index].schedule[0].at_s > 0.0 {
                self.admit(index as u32)?;
            }
        }
        Ok(())
    }

    /// A population changes its intensity.
    pub(crate) fn step(&mut self, population: u32, step: u32) -> Result<(), BadInput> {
        let clients = &mut self.clients[population as usize];
        clients.factor = clients.schedule[step as usize].factor;
        clients.epoch += 1;
        self.admit(population)
    }

    /// A session of an open population arrives.
    pub(crate) fn arrive(&mut self, population: u32, epoch: u32) -> Result<(), BadInput> {
        if self.clients[population as usize].epoch != epoch {
            return Ok(());
        }
        self.await_arrival(population);
        self.start_session(population)
    }

    /// Brings a closed population up to its number of users; sets up the next arrival of an open one.
    fn admit(&mut self, population: u32) -> Result<(), BadInput> {
        self.await_arrival(population);
        loop {
            let clients = &self.clients[population as usize];
            if clients.active >= clients.users() {
                return Ok(());
            }
            self.start_session(population)?;
        }
    }

    fn await_arrival(&mut self, population: u32) {
        let clients = &mut self.clients[population as usize];
        let epoch = clients.epoch;
        if let Some(gap_s) = clients.next_gap_s() {
            self.schedule(gap_s, Kind::Arrival, population, epoch);
        }
    }

    fn start_session(&mut self, population: u32) -> Result<(), BadInput> {
        if self.sessions.active() >= MAX_SESSIONS as usize {
            return Err(BadInput(format!(
                "more than {MAX_SESSIONS} sessions in progress at {} s: they arrive faster than they are served",
                self.now_s
            )));
        }
        let clients = &mut self.clients[population as usize];
        let mut rng = session_rng(self.seed, population, clients.sessions);
        clients.sessions += 1;
        clients.active += 1;
        let pages = clients.session_pages.draw_count(&mut rng);
        self.census.started += 1;
        let slot = self.sessions.insert(rng, population as u16, pages);
        self.click(slot);
        Ok(())
    }

    /// The user clicks: a page begins.
    pub(crate) fn click(&mut self, slot: u32) {
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        let clients = &self.clients[session.population as usize];
        session.requests_left = clients.burst_requests.draw_count(&mut session.rng);
        session.page_requests = session.requests_left;
        session.click_s = now_s;
        session.first = true;
        self.request(slot);
    }

    /// The client sends a request, on a new connection where it has none.
    pub(crate) fn request(&mut self, slot: u32) {
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        let timeout_s = self.clients[session.population as usize].timeout_s;
        session.deadline_s = now_s + timeout_s;
        let (stamp, connected, timer) = (session.stamp, session.connected, session.timer);
        session.timer = true;
        self.outstanding += 1;
        self.meter.requests += 1;
        if !timer {
            self.schedule(timeout_s, Kind::Timeout, slot, stamp);
        }
        if connected {
            self.serve(slot);
        } else {
            self.connect(slot);
        }
    }

    /// The timeout event of a session: one per session is in the calendar, set again while requests are answered in time.
    pub(crate) fn time_out(&mut self, slot: u32) -> Result<(), BadInput> {
        let now_s = self.now_s;
        let session = self.sessions.at(slot);
        let (stamp, deadline_s) = (session.stamp, session.deadline_s);
        if deadline_s > now_s {
            session.timer = deadline_s.is_finite();
            if session.timer {
                self.schedule(deadline_s - now_s, Kind::Timeout, slot, stamp);
            }
            return Ok(());
        }
        self.meter.errors += 1;
        self.outstanding -= 1;
        self.census.failed += 1;
        let later_pages = u64::from(session.pages_left.saturating_sub(1));
        self.meter.unsent += u64::from(session.requests_left.saturating_sub(1))
            + later_pages * u64::from(session.page_requests);
        session.abandoned = true;
        let population = u32::from(session.population);
        let queued_at_gate = session.stage == Stage::Queued && self.gate.is_there();
        if queued_at_gate {
            let class = self.clients[population as usize].class;
            self.gate.abort(now_s, class, slot);
        }
        // Without a connection nothing of it is left, and a gate sees who leaves it; else the server finds out when it has
        // served the request.
        if session.stage == Stage::Retrying || queued_at_gate {
            self.sessions.remove(slot);
        }
        self.depart(population)
    }

    /// The reply has arrived; the worker still holds the connection.
    pub(crate) fn replied(&mut self, slot: u32) -> Result<(), BadInput> {
        let now_s = self.now_s;
        self.meter.replies += 1;
        self.outstanding -= 1;
        let session = self.sessions.at(slot);
        let clients = &self.clients[session.population as usize];
        session.deadline_s = f64::INFINITY;
        session.stage = Stage::Between;
        session.first = false;
        session.requests_left -= 1;
        let policy = clients.connection;
        if session.requests_left > 0 {
            let gap_s = clients.object_gap_s.draw_s(&mut session.rng);
            let stamp = session.stamp;
            if policy == Connection::PerRequest {
                self.release(slot);
            } else {
                self.keep(slot, gap_s);
            }
            if gap_s > 0.0 {
                self.schedule(gap_s, Kind::NextObject, slot, stamp);
            } else {
                self.request(slot);
            }
            return Ok(());
        }
        self.meter.pages += 1;
        self.meter.page_s += now_s - session.click_s;
        session.pages_left -= 1;
        if session.pages_left == 0 {
            return self.end_session(slot);
        }
        let think_s = clients.think_s.draw_s(&mut session.rng);
        let stamp = session.stamp;
        if policy == Connection::UntilServerCloses {
            self.keep(slot, think_s);
        } else {
            self.release(slot);
        }
        self.schedule(think_s, Kind::Click, slot, stamp);
        Ok(())
    }

    fn end_session(&mut self, slot: u32) -> Result<(), BadInput> {
        let population = u32::from(self.sessions.at(slot).population);
        self.census.ended += 1;
        self.release(slot);
        self.sessions.remove(slot);
        self.depart(population)
    }

    /// A user has left; a closed population sends the next.
    fn depart(&mut self, population: u32) -> Result<(), BadInput> {
        let clients = &mut self.clients[population as usize];
        clients.active -= 1;
        if clients.active < clients.users() {
            return self.start_session(population);
        }
        Ok(())
    }

    /// CPU time of the request that a session sends now; its URL is part of the traffic, its length is the server's.
    pub(crate) fn demand_s(&mut self, slot: u32) -> f64 {
        let session = self.sessions.at(slot);
        let clients = &self.clients[session.population as usize];
        let urls = if session.first {
            &clients.pages
        } else {
            &clients.objects
        };
        let mean_s = urls.cpu_s[urls.mix.choose(&mut session.rng)];
        if self.server.exponential_service {
            mean_s * self.rng.sample::<f64, _>(rand_distr::Exp1)
        } else {
            mean_s
        }
    }
}
