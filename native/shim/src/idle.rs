//! Idle periods: from the last byte of an answer to the first byte of the next request, or to the end.

use std::sync::atomic::Ordering::Relaxed;

use trimtab_wire::shared::{step, Layout, FLAG_SENSE};

use crate::clock::now_ns;
use crate::table::{Entry, ENDED_BY_US, LEAVING, MULTIPLEXED, SURE};
use crate::{answers, environment};

/// A server that closes so long after the last byte of an answer has waited for another request, in nanoseconds.
///
/// Only where it is not known otherwise whether it meant to close at once.
const WAITED_NS: u64 = 10_000_000;

/// How an idle period ended without a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Cut,
    Expired,
    Left,
}

/// An idle period that has ended.
struct Period {
    shared: &'static Layout,
    since_ns: u64,
    length_ns: u64,
}

/// How long this idle period of a connection may last; None leaves it to the server.
#[inline]
pub fn limit_ns(shared: &Layout, since_ns: u64) -> Option<u64> {
    let settings = &shared.header.keep_alive;
    let time_ns = settings.time_ns.load(Relaxed);
    if time_ns == 0 {
        return None;
    }
    let every = u64::from(settings.trial_every.load(Relaxed));
    let trial_ns = settings.trial_ns.load(Relaxed);
    // Nobody chooses the nanosecond in which an answer ends; hashed, it serves as a random number that stays the same in one period.
    let drawn = since_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let trial = every != 0 && trial_ns != 0 && drawn % every == 0;
    Some(if trial { trial_ns } else { time_ns })
}

/// The first byte of the next request has come.
#[inline]
pub fn next_request(entry: &Entry, now: u64) {
    let Some(period) = period(entry, now) else {
        return;
    };
    let (counts, length) = (&period.shared.header.idle, period.length_ns);
    counts.interval_ns_sum.fetch_add(length, Relaxed);
    if let Some(cell) = period.shared.intervals_50ms.get(step(length)) {
        cell.fetch_add(1, Relaxed);
    }
    counts.intervals.fetch_add(1, Relaxed);
    answers::count(&period.shared.intervals, length);
    period.count_spared(entry);
}

/// The server has read the end of the connection.
pub fn client_gone(entry: &Entry) {
    let by_us = entry.flags.load(Relaxed) & ENDED_BY_US != 0;
    over(entry, now_ns(), if by_us { End::Cut } else { End::Left });
}

/// The server ends the connection.
pub fn server_ends(entry: &Entry) {
    let flags = entry.flags.load(Relaxed);
    let end = match (flags & ENDED_BY_US != 0, flags & LEAVING != 0) {
        (true, _) => End::Cut,
        (false, true) => End::Left,
        (false, false) => End::Expired,
    };
    over(entry, now_ns(), end);
}

/// The server ends a connection of which it is not known whether it waited for a request.
pub fn server_ends_perhaps(entry: &Entry) {
    if now_ns().saturating_sub(entry.last_ns.load(Relaxed)) >= WAITED_NS {
        server_ends(entry);
    }
}

/// The shim has ended it.
pub fn cut(entry: &Entry, now: u64) {
    over(entry, now, End::Cut);
}

/// The server waits for the next request of one connection, so long by its own will.
#[inline]
pub fn server_waits(shared: &Layout, timeout_ms: u64) {
    let seen = &shared.header.idle.server_ms;
    if seen.load(Relaxed) != timeout_ms {
        seen.store(timeout_ms, Relaxed);
    }
}

/// The first answer is complete.
pub fn first_answer(shared: &Layout, entry: &Entry) {
    let (born, wait) = (entry.born_ns.load(Relaxed), entry.wait_ns.load(Relaxed));
    let took = entry.last_ns.load(Relaxed).saturating_sub(born + wait);
    let counts = &shared.header.idle;
    counts.firsts.fetch_add(1, Relaxed);
    counts.first_wait_ns_sum.fetch_add(wait, Relaxed);
    counts.first_service_ns_sum.fetch_add(took, Relaxed);
}

/// An idle period ends without a request.
fn over(entry: &Entry, now: u64, end: End) {
    let Some(period) = period(entry, now) else {
        return;
    };
    let counts = &period.shared.header.idle;
    let (number, histogram) = match end {
        End::Cut => (&counts.cut, &period.shared.ended),
        End::Expired => (&counts.expired, &period.shared.ended),
        End::Left => (&counts.left, &period.shared.left),
    };
    number.fetch_add(1, Relaxed);
    answers::count(histogram, period.length_ns);
    if end != End::Cut {
        period.count_spared(entry);
    }
}

/// The idle period that ends now; None when it is not to be counted.
#[inline]
fn period(entry: &Entry, now: u64) -> Option<Period> {
    let shared = environment::shared()?;
    let turns = entry.turns.load(Relaxed);
    // Only a connection's first periods may belong to a handshake.
    if !shared.has(FLAG_SENSE) || (turns <= 2 && turns <= entry.turns_before_requests()) {
        return None;
    }
    let since_ns = entry.last_ns.load(Relaxed);
    let length_ns = now.saturating_sub(since_ns);
    let counts = &shared.header.idle;
    counts.idle_ns_sum.fetch_add(length_ns, Relaxed);
    if entry.flags.load(Relaxed) & MULTIPLEXED == 0 {
        counts.held_ns_sum.fetch_add(length_ns, Relaxed);
    }
    Some(Period {
        shared,
        since_ns,
        length_ns,
    })
}

impl Period {
    /// Counts that it was longer than the time in force, because it was not certain that nothing was under way.
    #[inline]
    fn count_spared(&self, entry: &Entry) {
        let limit_ns = limit_ns(self.shared, self.since_ns);
        let unsure = entry.flags.load(Relaxed) & SURE == 0;
        if unsure && limit_ns.is_some_and(|limit_ns| self.length_ns > limit_ns) {
            self.shared.header.idle.spared.fetch_add(1, Relaxed);
        }
    }
}
