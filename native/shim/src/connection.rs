//! The life of a connection as its reads and writes show it.
//!
//! A request begins with the first byte read after an answer and ends with the last byte written. Which byte is the last is known
//! where the follower is certain of it; elsewhere not until the server wants to read again, waits for input in epoll or
//! closes. Then the request is counted.
//!
//! An interim answer (100 Continue) is no answer: a client that is about to send a body is not idle.

use std::ffi::c_int;
use std::sync::atomic::Ordering::{Relaxed, Release};

use trimtab_wire::shared::{
    Layout, Slot, FLAG_PREEMPTIVE, FLAG_SENSE, HELD, IDLE as SLOT_IDLE, NO_SLOT,
};

use crate::clock::now_ns;
use crate::follower::{Read, Sent};
use crate::http1::State;
use crate::phase::{
    take, Phases, BLOCKED, CUTTING, FRESH, IDLE, OVER, READ, RESTING, TAIL, TAKING, WRITTEN,
};
use crate::table::{self, Entry, ENDED_BY_US, LEAVING, SPOKEN, SURE};
use crate::{answers, environment, idle, real, reclaim, register};

/// Where what is read begins a request.
const BEFORE_REQUEST: Phases = Phases::of(&[FRESH, RESTING, TAIL, TAKING]);
/// Where what is written belongs to the answer to the last request.
const IN_ANSWER: Phases = Phases::of(&[READ, WRITTEN, BLOCKED]);
/// Where our own thread may be about to end the connection.
const IDLE_FOR_CERTAIN: Phases = Phases::of(&[IDLE, TAKING, CUTTING]);

/// Length of "HTTP/1.1 100 Continue\r\n\r\n"; some servers, such as Tomcat, leave the word out.
pub const INTERIM_MOST: isize = 25;
/// How an interim answer begins.
pub const INTERIM: &[u8] = b"HTTP/1.1 100";

/// Follows a connection from here on.
///
/// # Arguments
/// - `slot`: its slot when the gate gave it one.
/// - `delay_ns`: how long it waited to be accepted, when that is known.
pub fn begin(fd: c_int, slot: Option<u32>, delay_ns: Option<u64>) {
    let Some(shared) = environment::shared() else {
        return;
    };
    let sense = shared.has(FLAG_SENSE);
    let counts = &shared.header.sense;
    let Some(entry) = table::entry(fd) else {
        counts.clipped.fetch_add(1, Relaxed);
        if let Some(index) = slot {
            give_back(shared, index);
        }
        return;
    };
    forget_unseen_end(fd, entry, slot);
    if let (true, Some(delay_ns)) = (sense, delay_ns) {
        counts.connections.fetch_add(1, Relaxed);
        counts.accept_delay_ns_sum.fetch_add(delay_ns, Relaxed);
        answers::count(&shared.accept_delay, delay_ns);
    }
    if sense || slot.is_some() {
        entry.become_connection(fd, slot);
    }
}

/// The server wants to read: unless it is known better, the answer before is complete.
#[inline]
#[link_section = ".text.hot"]
pub fn wants_input(entry: &Entry) {
    match entry.phase.load(Relaxed) {
        WRITTEN => match state(entry) {
            State::Busy => return,
            State::Doubt | State::Idle => answers::complete(entry),
            State::Last | State::Upgraded => return,
        },
        TAIL => {}
        _ => return,
    }
    rest(entry, RESTING);
}

/// A read has ended.
///
/// # Arguments
/// - `count`: what the call returned.
/// - `pieces`: the bytes that it read.
#[inline]
#[link_section = ".text.hot"]
pub fn has_read<'a>(entry: &Entry, count: isize, pieces: impl Iterator<Item = &'a [u8]> + Clone) {
    let phase = entry.phase.load(Relaxed);
    if count <= 0 {
        if matches!(phase, TAKING | RESTING) {
            has_read_nothing(entry, phase, count);
        }
        return;
    }
    entry.has_read(count.unsigned_abs());
    if phase == FRESH || (phase == RESTING && entry.may_be_followed_yet()) {
        if let Some(&first) = pieces.clone().next().and_then(|piece| piece.first()) {
            entry.follow_from(first);
        }
    }
    let read = entry.follow(|follower| {
        pieces.fold(Read::Nothing, |all, piece| all.or(follower.received(piece)))
    });
    if !BEFORE_REQUEST.has(phase) {
        return;
    }
    if phase == RESTING && !matches!(read, None | Some(Read::Request)) && is_past_handshake(entry) {
        if read == Some(Read::Farewell) {
            entry.raise(LEAVING);
        }
        return;
    }
    let now = now_ns();
    if phase == FRESH {
        let wait = now.saturating_sub(entry.born_ns.load(Relaxed));
        entry.wait_ns.store(wait, Relaxed);
    } else if phase != TAIL {
        idle::next_request(entry, now);
    }
    entry.lower(ENDED_BY_US);
    entry.start_ns.store(now, Relaxed);
    entry.phase.store(READ, Relaxed);
    if let Some((_, slot)) = slot_of(entry) {
        slot.advance(SLOT_IDLE, HELD);
        slot.requests.fetch_add(1, Relaxed);
    }
}

#[cold]
fn has_read_nothing(entry: &Entry, phase: u8, count: isize) {
    let nothing_yet = [libc::EAGAIN, libc::EINTR];
    if count < 0 && nothing_yet.contains(&real::errno()) {
        if phase == TAKING {
            entry.phase.store(IDLE, Release);
        }
        return;
    }
    idle::client_gone(entry);
    entry.phase.store(OVER, Relaxed);
}

/// Bytes have been written, or could not be.
///
/// # Arguments
/// - `wanted`: bytes that the server asked to write.
/// - `count`: what the call returned.
/// - `sent`: what the follower says of them.
#[inline]
#[link_section = ".text.hot"]
pub fn has_written(entry: &Entry, wanted: usize, count: isize, sent: Sent) {
    let phase = entry.phase.load(Relaxed);
    if matches!(phase, FRESH | OVER) {
        if count > 0 {
            entry.raise(SPOKEN);
        }
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
    if sent.farewell && is_past_handshake(entry) {
        shut(entry);
        return;
    }
    let now = now_ns();
    let bytes = entry.bytes.load(Relaxed) + count.unsigned_abs() as u64;
    entry.bytes.store(bytes, Relaxed);
    if IN_ANSWER.has(phase) {
        let all = count.unsigned_abs() == wanted;
        entry
            .phase
            .store(if all { WRITTEN } else { BLOCKED }, Relaxed);
    } else if !IDLE_FOR_CERTAIN.has(phase) || take(entry) {
        // Nobody has asked for it.
        add_tail(entry, now);
    }
    entry.last_ns.store(now, Relaxed);
    if matches!(sent.state, State::Busy | State::Doubt) {
        return;
    }
    answers::complete(entry);
    if sent.state == State::Idle {
        rest(entry, IDLE);
    } else {
        entry.phase.store(OVER, Relaxed);
    }
}

/// An idle period begins.
#[link_section = ".text.hot"]
fn rest(entry: &Entry, phase: u8) {
    if phase == IDLE {
        entry.raise(SURE);
    } else {
        entry.lower(SURE);
    }
    entry.phase.store(phase, Release);
    if let Some((shared, slot)) = slot_of(entry) {
        slot.idle_since_ns
            .store(entry.last_ns.load(Relaxed), Relaxed);
        let is_preemptive = shared.has(FLAG_PREEMPTIVE);
        // What the gate would ask for in vain is not shown to it.
        if phase == IDLE || !is_preemptive {
            slot.advance(HELD, SLOT_IDLE);
        }
        if is_preemptive {
            reclaim::ensure();
        }
    }
}

/// The server shuts the connection down for writing.
pub fn shut(entry: &Entry) {
    // Our own thread must let go of it first.
    take(entry);
    match entry.phase.load(Relaxed) {
        WRITTEN => {
            answers::complete(entry);
            if state(entry) == State::Doubt {
                idle::server_ends_perhaps(entry);
            }
        }
        RESTING | IDLE | TAKING => idle::server_ends(entry),
        BLOCKED | TAIL => {}
        _ => return,
    }
    entry.phase.store(OVER, Relaxed);
}

/// Whether nothing more can come of it, and nobody waits for its end.
#[inline]
pub fn is_settled(entry: &Entry) -> bool {
    entry.phase.load(Relaxed) == OVER && entry.index.load(Relaxed) == NO_SLOT
}

/// The server closes the connection. The caller closes the descriptor and then gives back the slot that is returned.
pub fn end(fd: c_int, entry: &Entry) -> Option<u32> {
    if entry.phase.load(Relaxed) == BLOCKED {
        answers::complete(entry);
    }
    shut(entry);
    let index = entry.index.load(Relaxed);
    let is_cut = || reclaim::cuts(index);
    let closed = slot_of(entry).is_some_and(|(_, slot)| slot.close(is_cut));
    table::become_kind(fd, table::UNKNOWN, 0);
    closed.then_some(index)
}

/// Ends the connection that a new one's number still stands for: the server has closed it by a call that the shim does not stand before.
///
/// # Arguments
/// - `slot`: the slot of the new one.
fn forget_unseen_end(fd: c_int, entry: &Entry, slot: Option<u32>) {
    if table::connection(fd).is_none() {
        return;
    }
    // Nobody knows when it ended.
    take(entry);
    entry.phase.store(OVER, Relaxed);
    let is_its_own = slot_of(entry).is_some_and(|(_, its)| {
        its.pid.load(Relaxed) == table::pid() && its.fd.load(Relaxed) == fd
    });
    if !is_its_own || slot == Some(entry.index.load(Relaxed)) {
        entry.index.store(NO_SLOT, Relaxed);
    }
    if let Some(index) = end(fd, entry) {
        release(index);
    }
}

/// Lets the gate have a closed slot.
pub fn release(index: u32) {
    if let Some(shared) = environment::shared() {
        give_back(shared, index);
    }
}

fn give_back(shared: &Layout, index: u32) {
    if let Some(slot) = shared.slot(index) {
        slot.close(|| reclaim::cuts(index));
        if !shared.give_to_lane(index) && shared.release(index) {
            register::wake_gate();
        }
    }
}

/// More of an answer that has been counted.
fn add_tail(entry: &Entry, now: u64) {
    entry.phase.store(TAIL, Relaxed);
    if let Some((_, slot)) = slot_of(entry) {
        slot.advance(SLOT_IDLE, HELD);
    }
    answers::add_tail(entry, now);
}

fn state(entry: &Entry) -> State {
    entry
        .follow(|follower| follower.state())
        .unwrap_or(State::Doubt)
}

fn is_past_handshake(entry: &Entry) -> bool {
    entry.turns.load(Relaxed) >= entry.turns_before_requests()
}

fn slot_of(entry: &Entry) -> Option<(&'static Layout, &'static Slot)> {
    let index = entry.index.load(Relaxed);
    if index == NO_SLOT {
        return None;
    }
    let shared = environment::shared()?;
    shared.slot(index).map(|slot| (shared, slot))
}
