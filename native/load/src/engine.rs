//! The loop: waits for sockets and timers, and does what is due in order of time.
//!
//! One thread. What sessions do is in `traffic.rs`, what connections do in `exchange.rs`; this file has the clock, the timers and the reports.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::{epoll, Timespec};
use rustix::io::Errno;
use rustix::time::{clock_gettime, ClockId};
use trimtab_wire::load::{Class, Report};
use trimtab_wire::workload::Arrivals;

use crate::alarm::Alarm;
use crate::arena::{Arena, Id};
use crate::arrivals::Stream;
use crate::browser::Browser;
use crate::clock::Clock;
use crate::connection::Link;
use crate::journal::Journal;
use crate::meter::Meter;
use crate::plan::{ns, Plan};
use crate::session::Session;
use crate::stops::Stops;
use crate::tally::Tally;
use crate::timer::{Due, Timers};
use crate::users::Users;

/// Socket events taken at once, and timers acted on at once: few, so that neither waits long for the other.
const BATCH: usize = 64;
/// Reply bytes taken at once; one buffer serves all connections.
const BUFFER_BYTES: usize = 128 * 1024;
/// A last interval shorter than this is not reported by itself.
const SHORTEST_INTERVAL_NS: u64 = 1_000_000;
/// Overdue arrivals of a stream are counted up to this many.
const MOST_OVERDUE: usize = 1_000_000;

/// What the alarm is called among the events; connections and stops have other tokens.
const ALARM: u64 = u64::MAX - 2;

/// Takes a report; false when nobody reads any more, which ends the run.
pub type Emit<'a> = dyn FnMut(Report) -> bool + 'a;

/// A run in progress.
pub struct Engine<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) target: SocketAddr,
    clock: Clock,
    pub(crate) epoll: OwnedFd,
    alarm: Alarm,
    pub(crate) timers: Timers,
    pub(crate) sessions: Arena<Session>,
    pub(crate) browsers: Arena<Browser>,
    pub(crate) links: Arena<Link>,
    pub(crate) tallies: Vec<Tally>,
    pub(crate) users: Vec<Users>,
    pub(crate) buffer: Vec<u8>,
    /// The first error of this machine's own, and the connections open when it came.
    pub(crate) local_error: Option<(Errno, usize)>,
    streams: Vec<Option<Stream>>,
    numbers: Vec<u64>,
    lateness: Meter,
    lateness_total: Meter,
    interval_began_ns: u64,
    over: bool,
    stopped_early: bool,
}

impl<'a> Engine<'a> {
    /// A run that has not begun.
    ///
    /// # Errors
    /// The kernel gives no epoll descriptor, or a meter cannot be made.
    pub fn new(plan: &'a Plan, clock: Clock) -> anyhow::Result<Self> {
        let streams = plan
            .crowds
            .iter()
            .enumerate()
            .map(|(index, crowd)| match crowd.arrivals {
                Arrivals::Poisson { rate_hz } => {
                    Some(Stream::new(rate_hz, true, plan.seed, index as u32))
                }
                Arrivals::Constant { rate_hz } => {
                    Some(Stream::new(rate_hz, false, plan.seed, index as u32))
                }
                Arrivals::Closed { .. } => None,
            });
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new(&epoll, ALARM)?;
        Ok(Self {
            plan,
            target: plan.target,
            clock,
            epoll,
            alarm,
            timers: Timers::default(),
            sessions: Arena::default(),
            browsers: Arena::default(),
            links: Arena::default(),
            tallies: tallies(plan)?,
            users: plan.crowds.iter().map(|_| Users::default()).collect(),
            buffer: vec![0; BUFFER_BYTES],
            local_error: None,
            streams: streams.collect(),
            numbers: vec![0; plan.crowds.len()],
            lateness: Meter::new()?,
            lateness_total: Meter::new()?,
            interval_began_ns: 0,
            over: false,
            stopped_early: false,
        })
    }

    /// Runs to the end, or until told to stop.
    ///
    /// # Errors
    /// The kernel refuses to wait, or a histogram cannot be serialised.
    pub fn run(&mut self, stops: &mut Stops, emit: &mut Emit<'_>) -> anyhow::Result<()> {
        let watched = stops.watch(&self.epoll)?;
        self.clock.start();
        self.begin();
        if !watched || stops.came_early()? {
            self.stop_early();
        }
        let mut events = Vec::with_capacity(BATCH);
        while !self.over {
            self.act_on_timers(emit);
            if self.over {
                break;
            }
            self.wait(&mut events)?;
            for event in &events {
                let bits = event.data.u64();
                if bits == ALARM {
                    self.alarm.expired();
                } else if Stops::is_stop(bits) {
                    if stops.heard(bits)? {
                        self.stop_early();
                    }
                } else {
                    self.on_socket(Id::from_bits(bits), event.flags);
                }
            }
        }
        self.finish(emit)
    }

    /// Nanoseconds since the start of the run.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn begin(&mut self) {
        self.timers.push(self.plan.duration_ns, Due::End);
        self.timers.push(self.plan.interval_ns, Due::Interval);
        for index in 0..self.plan.crowds.len() as u32 {
            let crowd = &self.plan.crowds[index as usize];
            for step in crowd.schedule.steps() {
                self.timers.push(ns(step.at_s), Due::Step(index));
            }
            match crowd.arrivals {
                Arrivals::Closed { .. } => self.on_step(index, 0),
                _ => self.expect_arrival(index),
            }
        }
    }

    fn stop_early(&mut self) {
        self.over = true;
        self.stopped_early = true;
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> anyhow::Result<()> {
        events.clear();
        let next_ns = self.timers.next_ns().unwrap_or(self.plan.duration_ns);
        #[cfg(test)]
        if let Clock::Virtual(time) = &mut self.clock {
            return Ok(time.wait(&self.epoll, &self.links, next_ns, events)?);
        }
        let now_ns = self.now_ns();
        let overdue = next_ns <= now_ns;
        if !overdue {
            self.alarm.set(next_ns, now_ns)?;
        }
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let timeout = overdue.then_some(&at_once);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn act_on_timers(&mut self, emit: &mut Emit<'_>) {
        for _ in 0..BATCH {
            let now_ns = self.now_ns();
            let Some((due_ns, due)) = self.timers.pop(now_ns) else {
                return;
            };
            match due {
                Due::Wake(id) => {
                    if self.sessions.get(id).is_some() {
                        self.lateness.record(now_ns - due_ns);
                        self.on_wake(id, due_ns, now_ns);
                    }
                }
                Due::Deadline(id) => self.on_deadline(id, now_ns),
                Due::Arrival(index) => {
                    self.lateness.record(now_ns - due_ns);
                    let number = self.numbers[index as usize];
                    self.numbers[index as usize] += 1;
                    self.expect_arrival(index);
                    self.start_session(index, number, due_ns, now_ns);
                }
                Due::User(index, user) => {
                    self.lateness.record(now_ns - due_ns);
                    self.start_user(index, user, due_ns, now_ns);
                }
                Due::Step(index) => self.on_step(index, now_ns),
                Due::Interval => self.on_interval(due_ns, now_ns, emit),
                Due::End => {
                    self.over = true;
                    return;
                }
            }
        }
    }

    fn expect_arrival(&mut self, index: u32) {
        let crowd = &self.plan.crowds[index as usize];
        let stream = self.streams[index as usize].as_mut();
        if let Some(at_s) = stream.and_then(|stream| stream.next(&crowd.schedule)) {
            self.timers.push(ns(at_s), Due::Arrival(index));
        }
    }

    fn on_step(&mut self, index: u32, now_ns: u64) {
        let crowd = &self.plan.crowds[index as usize];
        if let Arrivals::Closed { users } = crowd.arrivals {
            let factor = crowd.schedule.factor(now_ns as f64 * 1e-9);
            let limit = (f64::from(users) * factor).round() as u32;
            for user in self.users[index as usize].set_limit(limit) {
                self.timers.push(now_ns, Due::User(index, user));
            }
        }
    }

    fn on_interval(&mut self, due_ns: u64, now_ns: u64, emit: &mut Emit<'_>) {
        let mut next_ns = due_ns + self.plan.interval_ns;
        if next_ns <= now_ns {
            next_ns += (now_ns - next_ns) / self.plan.interval_ns * self.plan.interval_ns
                + self.plan.interval_ns;
        }
        self.timers.push(next_ns, Due::Interval);
        if !emit(self.interval(now_ns)) {
            self.stop_early();
        }
    }

    fn interval(&mut self, now_ns: u64) -> Report {
        let overdue = self.overdue(now_ns);
        let classes: Vec<Class> = self
            .tallies
            .iter_mut()
            .zip(overdue)
            .map(|(tally, overdue)| tally.interval(overdue, now_ns))
            .collect();
        let lateness = self.lateness.figures();
        self.lateness_total.drain(&mut self.lateness);
        let duration_s = (now_ns - self.interval_began_ns) as f64 * 1e-9;
        self.interval_began_ns = now_ns;
        Report::Interval {
            at_s: now_ns as f64 * 1e-9,
            duration_s,
            classes,
            active_sessions: self.active_sessions(),
            lateness,
        }
    }

    fn active_sessions(&self) -> u64 {
        let lanes: usize = self
            .browsers
            .iter()
            .map(|browser| browser.lanes.len())
            .sum();
        (self.sessions.len() - lanes + self.browsers.len()) as u64
    }

    /// Requests by class that should have begun and have not: the generator is behind.
    fn overdue(&self, now_ns: u64) -> Vec<u64> {
        let before_ns = now_ns.min(self.plan.duration_ns);
        let mut counts = vec![0; self.tallies.len()];
        for due in self.timers.overdue(before_ns) {
            let (crowd, requests) = match due {
                Due::Wake(id) => match self.sessions.get(id) {
                    // What is on its way through the network is counted already.
                    Some(session) if !session.is_waiting() => (session.crowd, 1),
                    _ => continue,
                },
                Due::User(crowd, _) => (crowd, 1),
                Due::Arrival(crowd) => (crowd, 1 + self.further_arrivals(crowd, before_ns)),
                _ => continue,
            };
            counts[self.plan.crowds[crowd as usize].class] += requests;
        }
        counts
    }

    fn further_arrivals(&self, index: u32, before_ns: u64) -> u64 {
        let schedule = &self.plan.crowds[index as usize].schedule;
        self.streams[index as usize]
            .clone()
            .map_or(0, |mut stream| {
                let due = std::iter::from_fn(|| {
                    stream.next(schedule).filter(|&at_s| ns(at_s) < before_ns)
                });
                due.take(MOST_OVERDUE).count() as u64
            })
    }

    fn finish(&mut self, emit: &mut Emit<'_>) -> anyhow::Result<()> {
        let now_ns = self.now_ns();
        if now_ns - self.interval_began_ns >= SHORTEST_INTERVAL_NS && !emit(self.interval(now_ns)) {
            return Ok(());
        }
        let overdue = self.overdue(now_ns);
        self.lateness_total.drain(&mut self.lateness);
        let classes = self
            .tallies
            .iter_mut()
            .zip(overdue)
            .map(|(tally, overdue)| tally.summary(overdue, now_ns));
        let report = Report::Summary {
            duration_s: now_ns as f64 * 1e-9,
            classes: classes.collect::<anyhow::Result<_>>()?,
            lateness: self.lateness_total.summary()?,
            cpu_s: cpu_s(),
            stopped_early: self.stopped_early,
        };
        emit(report);
        Ok(())
    }
}

fn tallies(plan: &Plan) -> anyhow::Result<Vec<Tally>> {
    let classes = plan.classes.iter().zip(&plan.page_names);
    let made = classes.map(|(name, pages)| {
        let mut tally = Tally::new(name)?;
        if !pages.is_empty() {
            tally.journal = Some(Journal::new(pages, plan.measured_ns)?);
        }
        Ok(tally)
    });
    made.collect()
}

/// CPU time of this process, user and system, in seconds.
fn cpu_s() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}
