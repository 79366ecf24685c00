//! Ending idle connections of a server that waits for many at once, from a thread of our own.
//!
//! Such a server learns of the end as if the client had closed: the connection is shut down for reading. The thread runs only in a
//! process that multiplexes connections, from the first keep-alive time that is set there on.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use rustix::ioctl::{ioctl, Getter};
use rustix::net::Shutdown;
use rustix::thread::nanosleep;
use rustix::time::Timespec;
use trimtab_wire::shared::Layout;

use crate::clock::now_ns;
use crate::hot::HOT;
use crate::register::borrow;
use crate::table::{self, Entry, MULTIPLEXED};
use crate::{environment, idle, phase, real, thread};

/// Longest sleep: a new time is followed after that.
const LONGEST_NS: u64 = 1_000_000_000;
/// Shortest one, and how far past its time an idle period may last.
const SHORTEST_NS: u64 = 5_000_000;

/// The server waits for this connection together with others.
#[inline]
pub fn multiplexed(entry: &Entry) {
    entry.raise(MULTIPLEXED);
    if HOT.multiplexes.load(Ordering::Relaxed) != table::pid() {
        HOT.multiplexes.store(table::pid(), Ordering::Relaxed);
    }
    if looks() {
        attend();
    }
}

/// Whether this process may come to need the thread, and does not have it.
///
/// True before it is known whether it multiplexes: one thread may wait while another adds its first connection.
#[inline]
pub fn looks() -> bool {
    table::has_connections() && HOT.expires.load(Ordering::Relaxed) != table::pid()
}

/// Starts the thread when it is needed; true while it is not and may yet be.
pub fn attend() -> bool {
    let Some(environment) = environment::get().filter(|_| looks()) else {
        return false;
    };
    let pid = table::pid();
    if HOT.multiplexes.load(Ordering::Relaxed) == pid && is_on(&environment.shared) {
        start(pid);
    }
    looks()
}

#[cold]
fn start(pid: u32) {
    let before = HOT.expires.load(Ordering::Relaxed);
    let swapped = HOT
        .expires
        .compare_exchange(before, pid, Ordering::AcqRel, Ordering::Relaxed);
    if before == pid || swapped.is_err() {
        return;
    }
    let errno = real::errno();
    if !thread::start(serve) {
        HOT.expires.store(0, Ordering::Release);
    }
    real::set_errno(errno);
}

fn is_on(shared: &Layout) -> bool {
    shared.header.keep_alive.time_ns.load(Ordering::Relaxed) != 0
}

/// Serves until the process ends: a server may wait without limit since it was told that somebody looks, so that nobody would begin
/// again when the time is switched off for a while.
fn serve() {
    while let Some(environment) = environment::get() {
        let sleep_ns = if is_on(&environment.shared) {
            sweep(&environment.shared)
        } else {
            LONGEST_NS
        };
        let sleep = Timespec {
            tv_sec: i64::from(sleep_ns >= LONGEST_NS),
            tv_nsec: (sleep_ns % LONGEST_NS) as _,
        };
        // Woken early by nothing: no signal reaches this thread.
        let _ = nanosleep(&sleep);
    }
    HOT.expires.store(0, Ordering::Release);
}

/// Ends what is due; how long nothing else can be.
fn sweep(shared: &Layout) -> u64 {
    let now = now_ns();
    let time_ns = shared.header.keep_alive.time_ns.load(Ordering::Relaxed);
    // What becomes idle after this is not due before its time has passed.
    let mut next_ns = time_ns;
    for (fd, entry) in table::connections() {
        let waits = entry.is_followed() && phase::waits_for_request(entry) == Some(true);
        if !waits || entry.flags.load(Ordering::Relaxed) & MULTIPLEXED == 0 {
            continue;
        }
        match left_ns(shared, entry, now) {
            None => {}
            Some(0) => phase::cut_idle(entry, || cut(shared, entry, fd, now)),
            Some(left) => next_ns = next_ns.min(left),
        }
    }
    next_ns.clamp(SHORTEST_NS, LONGEST_NS)
}

/// How long an idle period still has; None when only the server ends it.
fn left_ns(shared: &Layout, entry: &Entry, now: u64) -> Option<u64> {
    let since = entry.last_ns.load(Ordering::Relaxed);
    let end = since.saturating_add(idle::limit_ns(shared, since)?);
    Some(end.saturating_sub(now))
}

/// Ends a connection unless something has happened on it after all; true when it has ended.
fn cut(shared: &Layout, entry: &Entry, fd: c_int, now: u64) -> bool {
    // The number may have become another connection's; this one has just become idle.
    if left_ns(shared, entry, now) != Some(0) {
        return false;
    }
    // SAFETY: the table knows it as a connection, which the server cannot close before this is over.
    let socket = unsafe { borrow(fd) };
    is_quiet(entry, fd)
        && socket.is_some_and(|socket| rustix::net::shutdown(socket, Shutdown::Read).is_ok())
}

/// Whether nothing that has come is unread, nothing that was written is still on its way, and all that was read was seen.
///
/// One of which not all was seen is left to the server from here on.
pub fn is_quiet(entry: &Entry, fd: c_int) -> bool {
    // SAFETY: the table knows it as a connection.
    let Some(socket) = (unsafe { borrow(fd) }) else {
        return false;
    };
    // SAFETY: TIOCOUTQ, which is SIOCOUTQ for a socket (tcp(7)), gives one int.
    let unsent = unsafe { ioctl(socket, Getter::<{ libc::TIOCOUTQ as _ }, c_int>::new()) };
    let unread = rustix::io::ioctl_fionread(socket);
    let is_seen = unread.is_ok_and(|unread| entry.is_as_seen(fd, unread));
    if !is_seen {
        entry.give_up();
    }
    is_seen && (unsent, unread) == (Ok(0), Ok(0))
}
