//! Duties that are due at their time, and how long the gate may sleep until then.

use std::sync::atomic::Ordering::Relaxed;

use rustix::process::{getppid, Pid};

use super::{reclaim, End, Gate};
use crate::signals;

const MS: u64 = 1_000_000;
/// Distance of the regular work: released slots are fetched, deadlines kept, signals seen.
const TICK_NS: u64 = 100 * MS;
/// The same when nothing is held and nobody waits.
const IDLE_TICK_NS: u64 = 500 * MS;
/// Distance of looks at all slots and processes.
const SURVEY_NS: u64 = 1_000 * MS;
/// How long a listener stays whose server is gone, and how long the gate stays without a server and without anybody on its standard input.
const GRACE_NS: u64 = 5_000 * MS;

/// When duties were last done, and whether anybody needs the gate.
pub(super) struct Clockwork {
    guardian: Option<Pid>,
    ticked_ns: u64,
    surveyed_ns: u64,
    /// Since when no worker is there.
    unattended_ns: Option<u64>,
    /// Since when nobody needs the gate.
    deserted_ns: Option<u64>,
    /// Nobody is left on standard input.
    pub(super) stdin_ended: bool,
}

impl Clockwork {
    /// Nothing has been done yet; whoever started this process is the guardian.
    pub(super) fn new() -> Self {
        Self {
            guardian: getppid(),
            ticked_ns: 0,
            surveyed_ns: 0,
            unattended_ns: None,
            deserted_ns: None,
            stdin_ended: false,
        }
    }
}

impl Gate<'_> {
    /// How long to sleep; not at all when slots have come back that somebody waits for.
    pub(super) fn wait_ns(&mut self) -> u64 {
        let waits = self.budgets.waiting() > 0;
        if waits && !self.shared.announce_wait() {
            return 0;
        }
        let busy = waits
            || self.budgets.in_service() > self.all_lent()
            || !self.unsure.is_empty()
            || self.peeking.len() > 0
            || !self.paused_doors.is_empty()
            || self
                .listeners
                .iter()
                .any(|listener| listener.full || listener.paused);
        let mut wait_ns = if busy { TICK_NS } else { IDLE_TICK_NS };
        if self.is_short() {
            wait_ns = wait_ns.min(reclaim::DISTANCE_NS);
        }
        if let Some(rest_ns) = self.rest_ns() {
            wait_ns = wait_ns.min(rest_ns);
        }
        match self.next_deadline_ns() {
            Some(deadline_ns) => wait_ns.min(deadline_ns.saturating_sub(self.now_ns).max(MS)),
            None => wait_ns,
        }
    }

    /// The regular work, or somebody's deadline, is due.
    pub(super) fn is_due(&self) -> bool {
        let due = |deadline_ns| deadline_ns <= self.now_ns;
        self.now_ns - self.clockwork.ticked_ns >= TICK_NS
            || self.next_deadline_ns().is_some_and(due)
    }

    fn next_deadline_ns(&self) -> Option<u64> {
        let lease_ns = self.ledger.settings().lease_ends_ns.load(Relaxed);
        let lease_ns = (lease_ns != 0 && !self.budgets.open).then_some(lease_ns);
        [lease_ns, self.peek_deadline_ns()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The regular work.
    pub(super) fn tick(&mut self) {
        self.clockwork.ticked_ns = self.now_ns;
        self.collect();
        self.end_peeks();
        self.end_refused();
        self.end_late_handshakes();
        self.end_late_clients();
        self.resolve_unsure();
        self.forget_shut();
        self.resume_listeners();
        self.resume_doors();
        self.look_after_lanes();
        if self.now_ns - self.clockwork.surveyed_ns >= SURVEY_NS {
            self.clockwork.surveyed_ns = self.now_ns;
            self.recover_lost_dispatches();
            self.free_astray();
            self.check_processes();
            self.end_unattended();
        }
        self.end_lease();
        if signals::asked_to_end() {
            self.end = Some(End::Done);
        }
        if getppid() != self.clockwork.guardian {
            self.end = Some(End::Orphaned);
        }
        self.end_when_deserted();
    }

    /// Lets listeners go whose server is gone. A server that is about to start its workers has time for it.
    fn end_unattended(&mut self) {
        if !self.workers.is_empty() {
            self.clockwork.unattended_ns = None;
            return;
        }
        let since_ns = *self.clockwork.unattended_ns.get_or_insert(self.now_ns);
        if self.now_ns - since_ns >= GRACE_NS {
            self.forget_dead_owners();
        }
    }

    fn end_when_deserted(&mut self) {
        if !self.clockwork.stdin_ended || !self.listeners.is_empty() || !self.workers.is_empty() {
            self.clockwork.deserted_ns = None;
            return;
        }
        let since_ns = *self.clockwork.deserted_ns.get_or_insert(self.now_ns);
        if self.now_ns - since_ns >= GRACE_NS {
            self.end = Some(End::Done);
        }
    }
}
