//! Time for tests: however busy the machine is, a server has all the time it needs, and none of it passes.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use rustix::event::{epoll, Timespec};

use crate::arena::Arena;
use crate::connection::{Link, Stage};

/// The present moment, which a server or a report may read and move.
#[derive(Debug, Clone, Default)]
pub struct Now(Arc<AtomicU64>);

impl Now {
    /// Nanoseconds since the start of the run.
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Seconds since the start of the run.
    pub fn s(&self) -> f64 {
        self.ns() as f64 * 1e-9
    }

    /// Lets this much time pass.
    pub fn advance_s(&self, duration_s: f64) {
        self.0
            .fetch_add((duration_s * 1e9) as u64, Ordering::SeqCst);
    }
}

/// Whether time may pass with these connections.
pub type Settled = Box<dyn FnMut(&Arena<Link>) -> bool>;

/// No handshake and no request is under way.
pub fn nothing_under_way(links: &Arena<Link>) -> bool {
    links.iter().all(|link| link.stage == Stage::Idle)
}

/// A clock that jumps to the next timer when the connections have settled, and stands still otherwise.
pub struct Virtual {
    /// What it shows.
    pub now: Now,
    /// Whether it may move.
    pub settled: Settled,
}

impl Virtual {
    /// Takes what the sockets have; where that is nothing and all is settled, jumps to the next timer.
    pub fn wait(
        &mut self,
        poll: &OwnedFd,
        links: &Arena<Link>,
        next_ns: u64,
        events: &mut Vec<epoll::Event>,
    ) -> rustix::io::Result<()> {
        let settled = next_ns <= self.now.ns() || (self.settled)(links);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: if settled { 0 } else { 1_000_000 },
        };
        epoll::wait(poll, rustix::buffer::spare_capacity(events), Some(&timeout))?;
        if settled && events.is_empty() {
            self.now.0.fetch_max(next_ns, Ordering::SeqCst);
        }
        Ok(())
    }
}
