//! Where a connection is in its life.
//!
//! | phase | what has happened | next |
//! |---|---|---|
//! | FRESH | nothing yet | read: READ |
//! | READ | request bytes read | write: WRITTEN, or BLOCKED when not all went out |
//! | WRITTEN | answer bytes written | the answer is complete: counted, IDLE; wants to read, and nothing is certain: counted, RESTING |
//! | BLOCKED | the socket took no more | write: WRITTEN |
//! | RESTING | between requests, it seems; the slot is IDLE, unless the gate preempts | read: READ; write: TAIL |
//! | TAIL | more of an answer that was taken for complete | wants to read: RESTING |
//! | IDLE | between requests for certain; the slot is IDLE | a read begins: TAKING |
//! | TAKING | the server is reading | request bytes: READ; nothing: IDLE |
//! | CUTTING | our own thread shuts it down at this moment | OVER, or back to IDLE |
//! | OVER | no request will be read any more | |
//!
//! Only RESTING and IDLE are idle periods, and our own thread takes a connection only from IDLE to CUTTING, by compare-and-swap, as
//! the server takes it to TAKING: so no request is cut in the middle, and the descriptor is not closed under the shutdown.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::clock::now_ns;
use crate::idle;
use crate::table::{Entry, ENDED_BY_US};

/// Nothing has been read yet.
pub const FRESH: u8 = 0;
/// Of a request something has been read.
pub const READ: u8 = 1;
/// Of its answer something has been written.
pub const WRITTEN: u8 = 2;
/// The socket took no more of the answer.
pub const BLOCKED: u8 = 3;
/// Between requests, it seems.
pub const RESTING: u8 = 4;
/// More of an answer has come that was taken for complete.
pub const TAIL: u8 = 5;
/// Between requests for certain.
pub const IDLE: u8 = 6;
/// The server reads at this moment.
pub const TAKING: u8 = 7;
/// Our own thread ends the connection at this moment.
pub const CUTTING: u8 = 8;
/// No request will be read any more.
pub const OVER: u8 = 9;

/// Some of the phases. Asked for by bits: of a match compilers make a jump through a table, which lies on a page of its own in
/// each process, and costs a request more than all it decides.
#[derive(Clone, Copy)]
pub struct Phases(u16);

impl Phases {
    /// These.
    pub const fn of(phases: &[u8]) -> Self {
        let (mut bits, mut left) = (0, phases);
        while let [phase, rest @ ..] = left {
            bits |= 1 << *phase;
            left = rest;
        }
        Self(bits)
    }

    /// Whether it is one of them.
    #[inline]
    pub const fn has(self, phase: u8) -> bool {
        self.0 >> phase & 1 != 0
    }
}

/// Claims the connection for a read of the server; false when the shim has ended it, and then the server is to see its end.
///
/// Bytes that have come since then are not read: the server could not read the rest of it. To the client the connection has ended
/// before its request, as when a server's own keep-alive time runs out (RFC 9112, 9.5).
#[inline]
pub fn may_read(entry: &Entry) -> bool {
    match entry.phase.load(Relaxed) {
        IDLE | CUTTING => take(entry),
        OVER => entry.flags.load(Relaxed) & ENDED_BY_US == 0,
        _ => true,
    }
}

/// Takes an idle connection away from our own thread; false when it was too late.
pub fn take(entry: &Entry) -> bool {
    loop {
        match entry.phase.load(Acquire) {
            IDLE if advance(entry, IDLE, TAKING) => return true,
            IDLE | CUTTING => wait(),
            phase => return phase != OVER,
        }
    }
}

/// Kept apart: even the address of what it calls is far away.
#[cold]
#[inline(never)]
fn wait() {
    std::thread::yield_now();
}

/// Whether the server waits for the next request, and whether nothing is under way for certain; None when it does not.
#[inline]
pub fn waits_for_request(entry: &Entry) -> Option<bool> {
    match entry.phase.load(Relaxed) {
        IDLE => Some(true),
        RESTING => Some(false),
        _ => None,
    }
}

/// Has our own thread end a connection that is idle for certain, when `cut` says so and does it.
pub fn cut_idle(entry: &Entry, cut: impl FnOnce() -> bool) {
    if !advance(entry, IDLE, CUTTING) {
        return;
    }
    let next = if cut() {
        idle::cut(entry, now_ns());
        entry.raise(ENDED_BY_US);
        OVER
    } else {
        IDLE
    };
    entry.phase.store(next, Release);
}

fn advance(entry: &Entry, from: u8, to: u8) -> bool {
    entry
        .phase
        .compare_exchange(from, to, AcqRel, Relaxed)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::table;

    /// An idle connection of a number that no other test uses.
    fn idle(fd: i32) -> &'static Entry {
        let entry = table::entry(fd).expect("in the table");
        entry.become_connection(fd, None);
        entry.phase.store(IDLE, Relaxed);
        entry
    }

    #[test]
    fn after_a_cut_the_server_sees_the_end_and_without_one_it_reads() {
        let entry = idle(65_001);
        cut_idle(entry, || false);
        assert_eq!(waits_for_request(entry), Some(true));
        cut_idle(entry, || true);
        assert_eq!(waits_for_request(entry), None);
        assert!(!may_read(entry));
    }

    #[test]
    fn a_connection_that_the_server_reads_is_not_cut() {
        let entry = idle(65_002);
        assert!(may_read(entry));
        cut_idle(entry, || panic!("the server reads"));
        entry.phase.store(READ, Relaxed);
        cut_idle(entry, || panic!("a request is under way"));
        assert!(may_read(entry));
    }

    #[test]
    fn either_the_server_reads_or_the_connection_is_cut() {
        let (entry, inside) = (idle(65_003), AtomicU32::new(0));
        let alone = || {
            assert_eq!(inside.fetch_add(1, AcqRel), 0, "both at once");
            std::thread::yield_now();
            inside.fetch_sub(1, AcqRel);
        };
        std::thread::scope(|scope| {
            let cutter = scope.spawn(|| {
                for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                    cut_idle(entry, || {
                        alone();
                        false
                    });
                }
            });
            while !cutter.is_finished() {
                assert!(may_read(entry));
                alone();
                entry.phase.store(IDLE, Release);
            }
        });
    }
}
