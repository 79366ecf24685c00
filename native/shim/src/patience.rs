//! How long a server waits in poll for the next request of one connection.
//!
//! While a keep-alive time is set and nothing is under way for certain, the time takes the place of the timeout that the server asked
//! for: when it has passed, the server sees its own timeout run out. A server that waits on after that is left alone on this connection.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

use libc::pollfd;
use trimtab_wire::shared::Layout;

use crate::clock::now_ns;
use crate::table::{self, Entry, ENDED_BY_US};
use crate::{connection, environment, expiry, idle, phase};

/// Longest wait before it is looked whether another time is in force.
const STEP_MS: u64 = 1000;
/// Wait for an answer that is still on its way to the client.
const UNSENT_NS: u64 = 20_000_000;
const MS: u64 = 1_000_000;

/// A wait for the next request of one connection.
pub struct Wait {
    shared: &'static Layout,
    entry: &'static Entry,
    fd: c_int,
    wanted_ms: u64,
}

/// Notes that the server waits for a number together with others.
#[inline]
pub fn waits_among_others(fd: c_int) {
    if let Some(entry) = table::connection(fd) {
        entry.raise(table::MULTIPLEXED);
    }
}

/// The wait that a poll of one descriptor is; None when it is not for the next request of a connection.
#[inline]
#[link_section = ".text.hot"]
pub fn wait_of(one: pollfd, timeout_ms: c_int) -> Option<Wait> {
    let wanted_ms = u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0);
    let entry = table::connection(one.fd)?;
    if one.events & (libc::POLLIN | libc::POLLOUT) != libc::POLLIN {
        return None;
    }
    connection::wants_input(entry);
    phase::waits_for_request(entry)?;
    if entry.has(ENDED_BY_US) {
        // It has seen its timeout run out and goes on waiting, as one that looks at a clock of its own: cut short again, it would not wait
        // at all.
        entry.lower(ENDED_BY_US);
        entry.give_up();
    }
    let shared = environment::shared()?;
    let wanted_ms = wanted_ms?;
    idle::server_waits(shared, wanted_ms);
    // Of one that nothing follows it is never certain that nothing is under way.
    entry.is_followed().then_some(Wait {
        shared,
        entry,
        fd: one.fd,
        wanted_ms,
    })
}

impl Wait {
    /// Waits; the result is poll's, and 0 when the time has passed.
    #[inline(never)]
    pub fn run(&self, poll: impl Fn(c_int) -> c_int) -> c_int {
        // Not known before it matters: mostly the next request comes first.
        let mut own_end = None;
        loop {
            let ours = self.end_ns();
            let left_ms = if ours.is_none() && own_end.is_none() {
                self.wanted_ms
            } else {
                let now = now_ns();
                self.left_ms(now, ours, *own_end.get_or_insert(now + self.wanted_ms * MS))
            };
            let step_ms = left_ms.min(STEP_MS);
            let ready = poll(c_int::try_from(step_ms).unwrap_or(0));
            if ready != 0 {
                return ready;
            }
            if left_ms == 0 || (ours.is_none() && left_ms <= STEP_MS) {
                if ours.is_some() {
                    self.entry.raise(ENDED_BY_US);
                }
                return 0;
            }
            own_end.get_or_insert_with(|| now_ns() + (left_ms - step_ms) * MS);
        }
    }

    /// How long it lasts from now on, rounded up: not earlier than the time.
    fn left_ms(&self, now: u64, ours: Option<u64>, own_end: u64) -> u64 {
        let mut end = ours.unwrap_or(own_end);
        if ours.is_some() && end <= now && now < own_end && !self.is_quiet() {
            end = own_end.min(now + UNSENT_NS);
        }
        end.saturating_sub(now).div_ceil(MS)
    }

    /// When the time ends that is set; None when the server's own is in force.
    fn end_ns(&self) -> Option<u64> {
        if !self.entry.is_followed() || phase::waits_for_request(self.entry) != Some(true) {
            return None;
        }
        let since = self.entry.last_ns.load(Relaxed);
        Some(since.saturating_add(idle::limit_ns(self.shared, since)?))
    }

    fn is_quiet(&self) -> bool {
        expiry::is_quiet(self.entry, self.fd)
    }
}
