//! The whole system in virtual time: clients, accept queue, workers, cores, memory.
//!
//! The clients' side is in `client.rs`, the server's in `workers.rs`; here are the state and the passing of time.

use std::collections::{BTreeMap, VecDeque};

use rand::rngs::SmallRng;
use rand::SeedableRng;
use trimtab_wire::sim::{Server, Totals};
use trimtab_wire::workload::Population;
use trimtab_wire::BadInput;

use crate::calendar::{Calendar, Event, Kind};
use crate::check;
use crate::cores::Cores;
use crate::gate::Gate;
use crate::memory::{self, Memory};
use crate::meter::{Levels, Meter};
use crate::pool::Pool;
use crate::population::Clients;
use crate::session::Slab;

/// Stream of the server's own randomness, apart from that of the traffic.
const SERVICE_STREAM: u64 = 0x7365_7276_6963_6521;

/// The knobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Configuration {
    /// Worker limit m.
    pub max_request_workers: u32,
    /// How long an idle connection is kept, in milliseconds.
    pub keep_alive_timeout_ms: u32,
}

/// Sessions by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Sessions started.
    pub started: u64,
    /// Sessions that ended after their last page.
    pub ended: u64,
    /// Sessions given up by the client after a timeout.
    pub failed: u64,
    /// Sessions in progress.
    pub active: u64,
}

/// The simulated system.
#[derive(Debug)]
pub struct System {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Clients>,
    pub(crate) seed: u64,
    pub(crate) rng: SmallRng,
    pub(crate) now_s: f64,
    pub(crate) events: u64,
    pub(crate) calendar: Calendar,
    pub(crate) cores: Cores,
    pub(crate) sessions: Slab,
    /// The accept queue; empty where there is a gate.
    pub(crate) queue: VecDeque<u32>,
    pub(crate) gate: Gate,
    pub(crate) busy: u32,
    /// Those of the busy that wait for the next request of their connection.
    pub(crate) held: u32,
    /// Requests that a client waits for.
    pub(crate) outstanding: u32,
    pub(crate) pool: Pool,
    pub(crate) memory: Memory,
    /// Requests that wait for the lock, and whether one has it.
    pub(crate) lock_queue: VecDeque<u32>,
    pub(crate) locked: bool,
    pub(crate) in_force: Configuration,
    pub(crate) ordered: VecDeque<Configuration>,
    pub(crate) meter: Meter,
    /// What clients had before the measuring interval.
    pub(crate) earlier: Totals,
    pub(crate) census: Census,
}

impl System {
    /// Builds the system; virtual time is 0 and the first sessions arrive.
    ///
    /// # Errors
    /// A parameter is outside its domain; nothing is built.
    pub fn new(server: Server, populations: &[Population], seed: u64) -> Result<Self, BadInput> {
        check::server(&server)?;
        let mut clients = Vec::with_capacity(populations.len());
        for (index, population) in (0..=u32::from(u16::MAX)).zip(populations) {
            clients.push(Clients::new(population, index, seed, server.other_s)?);
        }
        let gate = Gate::new(&server.classes);
        if gate.is_there() {
            for (clients, population) in clients.iter_mut().zip(populations) {
                clients.class = gate.find(&population.class).ok_or_else(|| {
                    BadInput(format!(
                        "population {:?} belongs to no class",
                        population.class
                    ))
                })?;
            }
        }
        if clients.len() != populations.len() {
            return Err(BadInput(format!(
                "{} populations, at most 65536",
                populations.len()
            )));
        }
        let mut system = Self {
            cores: Cores::new(server.cores),
            in_force: Configuration {
                max_request_workers: server.max_request_workers,
                keep_alive_timeout_ms: server.keep_alive_timeout_ms,
            },
            server,
            clients,
            seed,
            rng: SmallRng::seed_from_u64(seed ^ SERVICE_STREAM),
            now_s: 0.0,
            events: 0,
            calendar: Calendar::default(),
            sessions: Slab::default(),
            queue: VecDeque::new(),
            gate,
            busy: 0,
            held: 0,
            outstanding: 0,
            pool: Pool::default(),
            memory: Memory::default(),
            lock_queue: VecDeque::new(),
            locked: false,
            ordered: VecDeque::new(),
            meter: Meter::default(),
            earlier: Totals::default(),
            census: Census {
                started: 0,
                ended: 0,
                failed: 0,
                active: 0,
            },
        };
        system.start_pool();
        system.schedule(1.0, Kind::Maintain, 0, 0);
        system.open_doors()?;
        Ok(system)
    }

    /// Orders a change; it comes into force when `reload_s` has passed. What the gate decides, its budgets and the worker
    /// limit, is in force at once.
    ///
    /// # Errors
    /// An unknown knob or a value outside its domain; nothing is ordered.
    pub fn apply(&mut self, changes: &BTreeMap<String, i64>) -> Result<(), BadInput> {
        let last = self.ordered.back().unwrap_or(&self.in_force);
        let (wanted, budgets) = check::changed(*last, &self.gate, changes)?;
        if self.gate.is_there() {
            for (class, budget) in budgets {
                self.gate.set_budget(class, budget);
            }
            for one in self.ordered.iter_mut().chain([&mut self.in_force]) {
                one.max_request_workers = wanted.max_request_workers;
            }
            self.accept();
            if !changes.contains_key("keep_alive_timeout_ms") {
                return Ok(());
            }
        }
        self.ordered.push_back(wanted);
        if self.is_prefork() {
            if self.ordered.len() == 1 {
                self.pool.ran = self.pool.resident;
            }
            self.retire();
        }
        self.schedule(self.server.reload_s, Kind::Reload, 0, 0);
        if self.server.reload_s == 0.0 {
            self.advance(0.0)?;
        }
        Ok(())
    }

    /// Lets virtual time pass.
    ///
    /// # Errors
    /// The duration is negative or not finite, or more sessions are in progress than can be kept.
    pub fn advance(&mut self, duration_s: f64) -> Result<(), BadInput> {
        let end_s = self.now_s + duration_s;
        if !(duration_s >= 0.0 && end_s.is_finite()) {
            return Err(BadInput(format!(
                "duration_s {duration_s} must be at least 0"
            )));
        }
        loop {
            let entered_s = self.calendar.next_s();
            let done_s = self.cores.next_s();
            let next_s = entered_s.min(done_s);
            if next_s > end_s {
                break;
            }
            self.pass(next_s);
            self.events += 1;
            if done_s <= entered_s {
                if let Some(slot) = self.cores.leave(self.now_s) {
                    self.computed(slot)?;
                }
            } else if let Some(event) = self.calendar.pop() {
                self.happen(event)?;
            }
            let slowdown = self.slowdown();
            self.cores.slow_down(self.now_s, slowdown);
        }
        self.pass(end_s);
        Ok(())
    }

    /// How many times its work everything takes now, for memory that does not fit.
    pub(crate) fn slowdown(&self) -> f64 {
        self.memory
            .slowdown(&self.server, self.pool, self.busy - self.held)
    }

    /// Starts a new measuring interval.
    pub fn begin(&mut self) {
        self.earlier = self.totals();
        self.meter = Meter::default();
        self.gate.begin(self.now_s);
    }

    /// What was measured since `begin`.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// What clients had since the start, whenever the measuring interval began.
    pub fn totals(&self) -> Totals {
        Totals {
            waited_s: self.earlier.waited_s + self.meter.integral.outstanding,
            replies: self.earlier.replies + self.meter.replies,
            given_up: self.earlier.given_up + self.meter.errors,
            unsent: self.earlier.unsent + self.meter.unsent,
        }
    }

    /// Readings since `begin` by metric name.
    pub fn readings(&self) -> BTreeMap<String, f64> {
        let mut readings = self.meter.readings(&self.server);
        if !readings.is_empty() {
            let elapsed_s = self.meter.elapsed_s;
            self.gate.read(self.now_s, elapsed_s, &mut readings);
        }
        readings
    }

    /// Virtual time.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Events processed since the start.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The configuration in force.
    pub fn configuration(&self) -> Configuration {
        self.in_force
    }

    /// Process budgets by knob name.
    pub fn budgets(&self) -> impl Iterator<Item = (String, i64)> + '_ {
        let named = |(name, budget)| (format!("{}{name}", check::BUDGET), i64::from(budget));
        self.gate.budgets().map(named)
    }

    /// Connections that workers hold, by class in order of priority.
    pub fn in_service(&self) -> Vec<u32> {
        self.gate.in_service().collect()
    }

    /// Requests that a client waits for.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Sessions by what became of them; the active ones are counted, not inferred.
    pub fn census(&self) -> Census {
        let active = self.clients.iter().map(|c| u64::from(c.active)).sum();
        Census {
            active,
            ..self.census
        }
    }

    /// Time that the connections in the accept queue have waited so far, from their own clocks.
    pub fn waiting_s(&mut self) -> f64 {
        let now_s = self.now_s;
        let sessions = &mut self.sessions;
        let waits = self
            .queue
            .iter()
            .map(|&slot| now_s - sessions.at(slot).since_s);
        waits.sum::<f64>() + self.gate.waiting_s(now_s).sum::<f64>()
    }

    /// The same for the queue of each class, in order of priority.
    pub fn waiting_by_class_s(&self) -> Vec<f64> {
        self.gate.waiting_s(self.now_s).collect()
    }

    /// Enters an event that is due after this time.
    pub(crate) fn schedule(&mut self, after_s: f64, kind: Kind, slot: u32, stamp: u32) {
        self.calendar.push(Event {
            at_s: self.now_s + after_s,
            kind,
            slot,
            stamp,
        });
    }

    fn pass(&mut self, until_s: f64) {
        let elapsed_s = until_s - self.now_s;
        let levels = Levels {
            waiting: (self.queue.len() + self.gate.waiting()) as f64,
            busy: f64::from(self.busy),
            held: f64::from(self.held),
            outstanding: f64::from(self.outstanding),
            resident: f64::from(self.pool.resident),
            cores: self.cores.busy(),
            memory_bytes: memory::demand_bytes(&self.server, self.pool),
            stalled: self.cores.stalled(),
            pressure: self.cores.pressure(),
        };
        self.meter.pass(elapsed_s, levels);
        self.now_s = until_s;
    }

    fn happen(&mut self, event: Event) -> Result<(), BadInput> {
        let Event { slot, stamp, .. } = event;
        match event.kind {
            Kind::Step => return self.step(slot, stamp),
            Kind::Arrival => return self.arrive(slot, stamp),
            Kind::Reload => {
                self.reload();
                return Ok(());
            }
            Kind::Maintain => {
                self.maintain();
                return Ok(());
            }
            _ => {}
        }
        if self.sessions.at(slot).stamp != stamp {
            return Ok(());
        }
        match event.kind {
            Kind::DelayEnd => return self.worked(slot),
            Kind::KeepAliveEnd => self.close_idle(slot),
            Kind::NextObject => self.request(slot),
            Kind::Click => self.click(slot),
            Kind::Retry => self.connect(slot),
            _ => return self.time_out(slot),
        }
        Ok(())
    }
}
