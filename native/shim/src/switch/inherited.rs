//! Listeners of the program that has executed this one, such as a PHP-FPM that reloads.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::{adopt, under};
use crate::table::{self, GATED};
use crate::{environment, kept};

/// Goes on with one that the gate has.
pub fn inherit(fd: c_int, hidden: c_int, port: u16) {
    if !adopt(fd, port) {
        return;
    }
    if let (Some((listener, _)), Some(entry)) = (under(fd), table::entry(fd)) {
        table::become_kind(hidden, table::HIDDEN, 0);
        listener.hidden.store(hidden, Ordering::Relaxed);
        let hold = environment::get().and_then(|e| kept::hold_of(fd, e.handoff.as_ref()?));
        if let Some(hold) = hold {
            table::become_kind(hold, table::HIDDEN, 0);
            listener.hold_by(hold);
        }
        // Of an unknown gate: should it be a dead one, the living one is found.
        listener.generation.store(0, Ordering::Relaxed);
        entry.kind.store(GATED, Ordering::Release);
    }
}

/// As `inherit`, when that program's gate had gone: accept is to block, at a listener that the gate has made non-blocking.
pub fn inherit_alone(fd: c_int, hidden: c_int, port: u16) {
    if !adopt(fd, port) {
        return;
    }
    if let Some((listener, _)) = under(fd) {
        table::become_kind(hidden, table::HIDDEN, 0);
        listener.hidden.store(hidden, Ordering::Relaxed);
        listener.blocking.store(1, Ordering::Relaxed);
    }
}
