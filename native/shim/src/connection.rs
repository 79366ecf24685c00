//! The life of a connection as its reads and writes show it.
//!
//! A request begins with the first byte read after an answer and ends with the last byte written. It cannot be known that a
//! byte is the last until the server wants to read again, waits for input in epoll or closes; then the request is counted.
//!
//! | phase | what has happened | next |
//! |---|---|---|
//! | FRESH | nothing yet | read: READ |
//! | READ | request bytes read | write: WRITTEN, or BLOCKED when not all went out |
//! | WRITTEN | answer bytes written | wants to read: counted, RESTING |
//! | BLOCKED | the socket took no more | write: WRITTEN |
//! | RESTING | between requests; the slot is IDLE | read: READ; write: TAIL |
//! | TAIL | more of an answer that was taken for complete | wants to read: RESTING |
//!
//! An interim answer (100 Continue) is no answer: a client that is about to send a body is not idle.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;

use trimtab_wire::shared::{
    bucket, now_ns, Layout, Slot, FLAG_PREEMPTIVE, FLAG_SENSE, HELD, IDLE, NO_SLOT,
};

use crate::table::{self, Entry};
use crate::{environment, reclaim, register};

const FRESH: u32 = 0;
const READ: u32 = 1;
const WRITTEN: u32 = 2;
const BLOCKED: u32 = 3;
const RESTING: u32 = 4;
const TAIL: u32 = 5;

/// Length of "HTTP/1.1 100 Continue\r\n\r\n".
pub const INTERIM_LEN: isize = 25;
/// How an interim answer begins.
pub const INTERIM: &[u8] = b"HTTP/1.1 1";

/// Follows a connection from here on.
///
/// # Arguments
/// - `slot`: its slot when the gate gave it one.
/// - `delay_ns`: how long it waited to be accepted, when that is known.
pub fn begin(fd: c_int, slot: Option<u32>, delay_ns: Option<u64>) {
    let Some(environment) = environment::get() else {
        return;
    };
    let sense = environment.shared.has(FLAG_SENSE);
    let counts = &environment.shared.header.sense;
    let Some(entry) = table::entry(fd) else {
        counts.clipped.fetch_add(1, Relaxed);
        if let Some(index) = slot {
            give_back(&environment.shared, index);
        }
        return;
    };
    if let (true, Some(delay_ns)) = (sense, delay_ns) {
        counts.connections.fetch_add(1, Relaxed);
        counts.accept_delay_ns_sum.fetch_add(delay_ns, Relaxed);
        count(&environment.shared.accept_delay, delay_ns);
    }
    if sense || slot.is_some() {
        entry.become_connection(slot);
    }
}

/// The server wants to read, so the answer before is complete.
#[inline]
pub fn wants_input(entry: &Entry) {
    match entry.phase.load(Relaxed) {
        WRITTEN => answered(entry),
        TAIL => {}
        _ => return,
    }
    entry.phase.store(RESTING, Relaxed);
    if let Some((shared, slot)) = slot_of(entry) {
        slot.idle_since_ns
            .store(entry.last_ns.load(Relaxed), Relaxed);
        slot.advance(HELD, IDLE);
        if shared.has(FLAG_PREEMPTIVE) {
            reclaim::ensure();
        }
    }
}

/// Bytes have been read.
#[inline]
pub fn has_read(entry: &Entry, count: isize) {
    if count <= 0 || !matches!(entry.phase.load(Relaxed), FRESH | RESTING | TAIL) {
        return;
    }
    entry.start_ns.store(now_ns(), Relaxed);
    entry.phase.store(READ, Relaxed);
    if let Some((_, slot)) = slot_of(entry) {
        slot.advance(IDLE, HELD);
        slot.requests.fetch_add(1, Relaxed);
    }
}

/// Bytes have been written, or could not be.
///
/// # Arguments
/// - `wanted`: bytes that the server asked to write.
/// - `count`: what the call returned.
#[inline]
pub fn has_written(entry: &Entry, wanted: usize, count: isize) {
    let phase = entry.phase.load(Relaxed);
    if phase == FRESH {
        return;
    }
    if count <= 0 {
        // A sendfile that returns 0 has come to the end of its file.
        match (phase, count) {
            (BLOCKED, 0) => entry.phase.store(WRITTEN, Relaxed),
            (READ | WRITTEN, -1) => entry.phase.store(BLOCKED, Relaxed),
            _ => {}
        }
        return;
    }
    let now = now_ns();
    entry.bytes.fetch_add(count.unsigned_abs() as u64, Relaxed);
    if matches!(phase, RESTING | TAIL) {
        add_tail(entry, now);
    } else {
        let all = count.unsigned_abs() == wanted;
        entry
            .phase
            .store(if all { WRITTEN } else { BLOCKED }, Relaxed);
    }
    entry.last_ns.store(now, Relaxed);
}

/// The server closes the connection. The caller closes the descriptor and then gives back the slot that is returned.
pub fn end(entry: &Entry) -> Option<u32> {
    if matches!(entry.phase.load(Relaxed), WRITTEN | BLOCKED) {
        answered(entry);
    }
    let closed = slot_of(entry).is_some_and(|(_, slot)| slot.close());
    let index = entry.index.load(Relaxed);
    entry.become_kind(table::UNKNOWN, 0);
    closed.then_some(index)
}

/// Lets the gate have a closed slot.
pub fn release(index: u32) {
    if let Some(environment) = environment::get() {
        give_back(&environment.shared, index);
    }
}

fn give_back(shared: &Layout, index: u32) {
    if let Some(slot) = shared.slot(index) {
        slot.close();
        if shared.release(index) {
            register::wake_gate();
        }
    }
}

fn answered(entry: &Entry) {
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
    counts
        .bytes_written
        .fetch_add(entry.bytes.swap(0, Relaxed), Relaxed);
    count(&shared.service_time, took);
}

/// More of an answer that has been counted: its time grows, and is not counted again.
fn add_tail(entry: &Entry, now: u64) {
    entry.phase.store(TAIL, Relaxed);
    if let Some((_, slot)) = slot_of(entry) {
        slot.advance(IDLE, HELD);
    }
    if let Some(shared) = sensed() {
        let more = now.saturating_sub(entry.last_ns.load(Relaxed));
        shared.header.sense.service_ns_sum.fetch_add(more, Relaxed);
        let bytes = entry.bytes.swap(0, Relaxed);
        shared.header.sense.bytes_written.fetch_add(bytes, Relaxed);
    }
}

fn sensed() -> Option<&'static Layout> {
    let shared: &Layout = &environment::get()?.shared;
    shared.has(FLAG_SENSE).then_some(shared)
}

fn slot_of(entry: &Entry) -> Option<(&'static Layout, &'static Slot)> {
    let index = entry.index.load(Relaxed);
    if index == NO_SLOT {
        return None;
    }
    let shared: &Layout = &environment::get()?.shared;
    shared.slot(index).map(|slot| (shared, slot))
}

fn count(histogram: &[std::sync::atomic::AtomicU64], ns: u64) {
    if let Some(cell) = histogram.get(bucket(ns)) {
        cell.fetch_add(1, Relaxed);
    }
}
