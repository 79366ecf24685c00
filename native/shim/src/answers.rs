//! Answers and what is counted of them.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use trimtab_wire::shared::{bucket, Layout, FLAG_SENSE};

use crate::table::Entry;
use crate::{environment, idle};

/// An answer is complete.
#[link_section = ".text.hot"]
pub fn complete(entry: &Entry) {
    let turn = entry.turns.load(Relaxed).saturating_add(1);
    entry.turns.store(turn, Relaxed);
    let Some(shared) = sensed() else {
        return;
    };
    let took = entry
        .last_ns
        .load(Relaxed)
        .saturating_sub(entry.start_ns.load(Relaxed));
    let counts = &shared.header.sense;
    counts.requests.fetch_add(1, Relaxed);
    counts.service_ns_sum.fetch_add(took, Relaxed);
    let bytes = entry.bytes.load(Relaxed);
    entry.bytes.store(0, Relaxed);
    counts.bytes_written.fetch_add(bytes, Relaxed);
    count(&shared.service_time, took);
    // With the turns of a handshake the connection has had its whole price.
    if turn <= 2 && turn == entry.turns_before_requests().max(1) {
        idle::first_answer(shared, entry);
    }
}

/// More of an answer that has been counted: its time grows, and is not counted again.
pub fn add_tail(entry: &Entry, now: u64) {
    if let Some(shared) = sensed() {
        let more = now.saturating_sub(entry.last_ns.load(Relaxed));
        shared.header.sense.service_ns_sum.fetch_add(more, Relaxed);
        let bytes = entry.bytes.swap(0, Relaxed);
        shared.header.sense.bytes_written.fetch_add(bytes, Relaxed);
    }
}

/// Counts a duration.
#[inline]
pub fn count(histogram: &[AtomicU64], ns: u64) {
    if let Some(cell) = histogram.get(bucket(ns)) {
        cell.fetch_add(1, Relaxed);
    }
}

fn sensed() -> Option<&'static Layout> {
    environment::shared().filter(|shared| shared.has(FLAG_SENSE))
}
