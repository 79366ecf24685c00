//! Idle periods: from the last byte of an answer to the first byte of the next request, or to the end.

use std::sync::atomic::Ordering::Relaxed;

use trimtab_wire::shared::{bucket, now_ns, step, Layout, FLAG_SENSE};

use crate::environment;
use crate::table::{Entry, ENDED_BY_US, LEAVING, MULTIPLEXED, SURE};

/// A server that closes so long after the last byte of an answer has waited for another request, in nanoseconds.
///
/// Only where it is not known otherwise whether it meant to close at once.
const WAITED_NS: u64 = 10_000_000;

/// How an idle period ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Request,
    Cut,
    Expired,
    Left,
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
    over(entry, now, End::Request);
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

#[inline]
fn over(entry: &Entry, now: u64, end: End) {
    let Some(shared) = environment::shared() else {
        return;
    };
    let turns = entry.turns.load(Relaxed);
    // Only a connection's first periods may belong to a handshake.
    if !shared.has(FLAG_SENSE) || (turns <= 2 && turns <= entry.turns_before_requests()) {
        return;
    }
    let since = entry.last_ns.load(Relaxed);
    let length = now.saturating_sub(since);
    let flags = entry.flags.load(Relaxed);
    let counts = &shared.header.idle;
    counts.idle_ns_sum.fetch_add(length, Relaxed);
    if flags & MULTIPLEXED == 0 {
        counts.held_ns_sum.fetch_add(length, Relaxed);
    }
    let (number, histogram) = match end {
        End::Request => {
            counts.interval_ns_sum.fetch_add(length, Relaxed);
            if let Some(cell) = shared.intervals_50ms.get(step(length)) {
                cell.fetch_add(1, Relaxed);
            }
            (&counts.intervals, &shared.intervals)
        }
        End::Cut => (&counts.cut, &shared.ended),
        End::Expired => (&counts.expired, &shared.ended),
        End::Left => (&counts.left, &shared.left),
    };
    number.fetch_add(1, Relaxed);
    if let Some(cell) = histogram.get(bucket(length)) {
        cell.fetch_add(1, Relaxed);
    }
    if end != End::Cut && flags & SURE == 0 && limit_ns(shared, since).is_some_and(|l| length > l) {
        counts.spared.fetch_add(1, Relaxed);
    }
}
