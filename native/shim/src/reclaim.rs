//! Ending idle connections at the gate's wish, from a thread of our own.
//!
//! The connection is shut down for reading: a request that arrives meanwhile is still read and answered, and then the server sees
//! the end of the connection and closes it as if the client had. Only where nothing is under way for certain: a server may wait for input
//! on a WebSocket over TLS, or on HTTP/2, while it owes answers.

use std::ffi::c_int;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::net::{RecvFlags, Shutdown};
use trimtab_wire::handoff::{receive, Reclaim, LONGEST};
use trimtab_wire::shared::{Layout, CUTTING, HELD, IDLE};

use crate::register::{self, borrow, Number};
use crate::{environment, phase, real, table, thread};

/// Process whose thread runs.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// Process and slot of the connection that its thread cuts at this moment; 0: none.
static CUTS: AtomicU64 = AtomicU64::new(0);

/// Starts the thread of this process when it does not run.
#[inline]
pub fn ensure() {
    if RUNNING.load(Ordering::Relaxed) != table::pid() {
        start();
    }
}

#[cold]
fn start() {
    let (before, pid) = (RUNNING.load(Ordering::Relaxed), table::pid());
    if register::conversation().is_none()
        || before == pid
        || RUNNING
            .compare_exchange(before, pid, Ordering::AcqRel, Ordering::Relaxed)
            .is_err()
    {
        return;
    }
    let errno = real::errno();
    let started = thread::start(serve);
    if !started {
        RUNNING.store(0, Ordering::Release);
    }
    real::set_errno(errno);
}

fn serve() {
    let mut bytes = [0; LONGEST];
    while let (Some(gate), Some(environment)) = (register::conversation(), environment::get()) {
        match receive(gate.as_fd(), &mut bytes, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Ok((length, _)) if length > 0 => {
                if let Some(reclaim) = bytes.get(..length).and_then(Reclaim::decode) {
                    cut(&environment.shared, &reclaim);
                }
            }
            _ => break,
        }
    }
    RUNNING.store(0, Ordering::Release);
}

/// Shuts a connection down for reading, when it is still the one that is meant and still idle.
fn cut(shared: &Layout, reclaim: &Reclaim) {
    let Some(slot) = shared.slot(reclaim.slot) else {
        return;
    };
    if slot.pid.load(Ordering::Relaxed) != table::pid() {
        return;
    }
    CUTS.store(here(reclaim.slot), Ordering::Release);
    if slot.advance(IDLE, CUTTING) {
        // From here on close waits, so the descriptor is the connection's.
        let is_same = slot.sequence.load(Ordering::Relaxed) == reclaim.sequence;
        let fd = slot.fd.load(Ordering::Relaxed);
        let next = match is_same.then(|| connection(fd, reclaim.slot)).flatten() {
            Some(connection) => {
                // A connection that the client has reset meanwhile is at its end already.
                let _ = rustix::net::shutdown(connection, Shutdown::Read);
                HELD
            }
            _ => IDLE,
        };
        slot.advance(CUTTING, next);
    }
    CUTS.store(0, Ordering::Release);
}

/// Whether this process's thread cuts the connection in a slot at this moment.
pub fn cuts(slot: u32) -> bool {
    CUTS.load(Ordering::Acquire) == here(slot)
}

/// A slot of this process, not that of the parent whose memory it began with; never 0.
fn here(slot: u32) -> u64 {
    u64::from(table::pid()) << 32 | u64::from(slot)
}

/// The connection in this slot, when a number is its. The file is not believed: another process can write any number there.
fn connection(fd: c_int, slot: u32) -> Option<Number> {
    let entry = table::connection(fd).filter(|e| e.index.load(Ordering::Relaxed) == slot)?;
    if !entry.is_followed() || phase::waits_for_request(entry) != Some(true) {
        return None;
    }
    // SAFETY: the table knows it as a connection.
    let socket = unsafe { borrow(fd) }?;
    let unread = rustix::io::ioctl_fionread(socket).ok()?;
    (unread == 0 && entry.is_as_seen(fd, unread)).then(|| {
        entry.raise(table::ENDED_BY_US);
        socket
    })
}
