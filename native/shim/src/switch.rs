//! The file under the number of a gated listener: the worker end of the dispatch socket pair, or the TCP listener itself.
//!
//! While the gate serves, the TCP listener is kept at a high number. An epoll registration belongs to the open file, not to
//! the number, so those of the number are remembered, taken out before the file under it changes and put in again.

mod executing;
mod inherited;

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{fcntl_getfl, fcntl_setfl, OFlags};
use rustix::io::{fcntl_getfd, fcntl_setfd, DupFlags, FdFlags};

use crate::clock::now_ns;
use crate::environment::{self, Environment};
use crate::epolls::{self, Registrations};
use crate::hot::HOT;
use crate::register::{self, borrow, Number};
use crate::table::{self, GATED, OWN};
use crate::{kept, rebind};

pub use executing::{flagged, flagged_in_part, leaves_listeners};
pub use inherited::{inherit, inherit_alone};

/// Listeners of this process; one more is served without the gate. Of so many with numbers in a row each finds its places free, see `kept`.
const LISTENERS: usize = 256;
/// Numbers of one listener: the one that the server opened and its duplicates, of which some servers have one for each thread. More
/// are served, but not when the others are closed.
const NUMBERS: usize = 64;
/// Distance of attempts to reach a gate that does not answer.
const AGAIN_NS: u64 = 100_000_000;

/// One gated listener of this process.
pub struct Listener {
    /// Its port; 0 when the entry is free.
    pub port: AtomicU32,
    /// Where the TCP listener is kept; -1 while it was never moved.
    pub hidden: AtomicI32,
    /// The conversation with the gate that lasts as long as a process has the listener; -1 while there is none.
    hold: AtomicI32,
    /// The server wants accept to block; known from the first switch on.
    pub blocking: AtomicU32,
    numbers: [AtomicI32; NUMBERS],
    generation: AtomicU32,
    next_try_ns: AtomicU64,
    lock: AtomicU32,
    epolls: Registrations,
    /// Waits for the worker end and the TCP listener at once; -1 while there is none.
    waiter: AtomicI32,
    /// Process and generation that wait for the TCP listener too, in the waiter or in the server's epolls; 0: nobody.
    armed: AtomicU64,
}

static ALL: [Listener; LISTENERS] = [const { Listener::new() }; LISTENERS];
/// One more than the highest place that has been in use: of those beyond no page is touched.
static USED_BELOW: AtomicUsize = AtomicUsize::new(0);

impl Listener {
    const fn new() -> Self {
        Self {
            port: AtomicU32::new(0),
            hidden: AtomicI32::new(-1),
            hold: AtomicI32::new(-1),
            blocking: AtomicU32::new(0),
            numbers: [const { AtomicI32::new(-1) }; NUMBERS],
            generation: AtomicU32::new(0),
            next_try_ns: AtomicU64::new(0),
            lock: AtomicU32::new(0),
            epolls: Registrations::new(),
            waiter: AtomicI32::new(-1),
            armed: AtomicU64::new(0),
        }
    }

    /// Whether there may be a gate that this process does not take connections from yet.
    #[inline]
    pub fn may_take_over(&self, environment: &Environment) -> bool {
        environment.handoff.is_some()
            && environment.shared.header.generation.load(Ordering::Acquire)
                != self.generation.load(Ordering::Relaxed)
            && now_ns() >= self.next_try_ns.load(Ordering::Relaxed)
    }

    /// Notes a number; false when there is no room for it.
    fn add(&self, fd: c_int) -> bool {
        let free = |number: &&AtomicI32| {
            number
                .compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        self.numbers.iter().find(free).is_some()
    }

    /// Forgets a number; true when none is left.
    fn remove(&self, fd: c_int) -> bool {
        let mut left = false;
        for number in &self.numbers {
            let gone = number.compare_exchange(fd, -1, Ordering::AcqRel, Ordering::Relaxed);
            left |= matches!(gone, Err(other) if other >= 0);
        }
        !left
    }

    /// Has this process woken by connections at the TCP listener as well as by the gate.
    ///
    /// # Arguments
    /// - `worker`: the worker end, under the number of the listener.
    ///
    /// # Returns
    /// The waiter, where accept blocks.
    pub fn arm(&self, worker: Number) -> Option<Number> {
        let generation = self.generation.load(Ordering::Relaxed);
        let now = u64::from(table::pid()) << 32 | u64::from(generation);
        if self.armed.load(Ordering::Acquire) != now {
            self.locked(|| {
                if self.armed.load(Ordering::Relaxed) != now {
                    self.end_arming();
                    let tcp = self.hidden.load(Ordering::Relaxed);
                    // Not `blocking`: the server may have changed that since its listener was passed.
                    let blocks =
                        fcntl_getfl(worker).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK));
                    if blocks {
                        // SAFETY: it is the shim's own.
                        let waiter =
                            unsafe { borrow(tcp) }.and_then(|tcp| epolls::both(worker, tcp));
                        self.waiter.store(waiter.unwrap_or(-1), Ordering::Relaxed);
                    } else {
                        self.epolls.add_beside(tcp);
                    }
                    self.armed.store(now, Ordering::Release);
                }
            });
        }
        // SAFETY: it is the shim's own.
        unsafe { borrow(self.waiter.load(Ordering::Relaxed)) }
    }

    /// Has the server's epolls woken by the gate alone; nobody waits with the waiter then.
    #[inline]
    pub fn disarm(&self) {
        let armed = self.armed.load(Ordering::Relaxed) != 0;
        if armed && self.waiter.load(Ordering::Relaxed) < 0 {
            self.locked(|| self.end_arming());
        }
    }

    fn end_arming(&self) {
        self.armed.store(0, Ordering::Relaxed);
        // SAFETY: it is taken from where it was kept.
        unsafe { register::lower(self.waiter.swap(-1, Ordering::Relaxed)) };
        self.epolls
            .remove_beside(self.hidden.load(Ordering::Relaxed), None);
    }

    /// Another conversation holds the listener now, or none.
    fn hold_by(&self, conversation: c_int) {
        // SAFETY: it is taken from where it was kept.
        unsafe { register::lower(self.hold.swap(conversation, Ordering::AcqRel)) };
    }

    fn locked<T>(&self, work: impl FnOnce() -> T) -> T {
        while self.lock.swap(1, Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        let done = work();
        self.lock.store(0, Ordering::Release);
        done
    }
}

/// Opens locks that another thread of the parent held when it forked, and leaves to the parent what it waits with.
pub fn forked() {
    for listener in all() {
        listener.lock.store(0, Ordering::Release);
        listener.armed.store(0, Ordering::Relaxed);
        listener.epolls.forget_beside();
        // SAFETY: it is taken from where it was kept.
        unsafe { register::lower(listener.waiter.swap(-1, Ordering::Relaxed)) };
    }
}

/// The listeners of this process.
pub fn all() -> impl Iterator<Item = &'static Listener> {
    let is_used = |listener: &&Listener| listener.port.load(Ordering::Acquire) != 0;
    places().filter(is_used)
}

/// The places that are or have been in use.
fn places() -> impl Iterator<Item = &'static Listener> {
    ALL.iter().take(USED_BELOW.load(Ordering::Acquire))
}

/// The listener under a number, when it is gated or the process's own.
#[inline]
pub fn under(fd: c_int) -> Option<(&'static Listener, u8)> {
    match table::kind(fd) {
        kind @ (GATED | OWN) => {
            let index = table::entry(fd)?.index.load(Ordering::Relaxed);
            Some((ALL.get(index as usize)?, kind))
        }
        _ => None,
    }
}

/// A descriptor that this process waits for has hung up: should it be a gate's, `attend` will see to it.
///
/// A process that waits at a listener and leaves accepting to its children, such as PHP-FPM's ondemand master, learns of
/// the gate's death only so.
pub fn suspect() {
    HOT.alone.store(1, Ordering::Release);
}

/// Falls back when the gate of a number has gone and all that it dispatched has been taken; true when it has gone.
fn has_lost_gate(fd: c_int) -> bool {
    // SAFETY: the table knows it as a listener.
    let Some(worker) = (unsafe { borrow(fd) }) else {
        return false;
    };
    let mut state = [PollFd::new(&worker, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let hung_up = poll(&mut state, Some(&now)).is_ok()
        && state
            .iter()
            .any(|worker| worker.revents().contains(PollFlags::HUP));
    if hung_up && rustix::io::ioctl_fionread(worker) == Ok(0) {
        fall_back(fd);
    }
    hung_up
}

/// Whether some listener of this process is without a gate; true for too long rather than too short.
#[inline]
pub fn alone() -> bool {
    HOT.alone.load(Ordering::Relaxed) != 0
}

/// Takes over whatever listener a gate has come back for; false when no listener of this process waits for one.
///
/// While the gate empties the TCP listener, a process that waits for input there would wait for ever: so the hooks of
/// poll and epoll_wait ask again and again.
pub fn attend() -> bool {
    // Before the look: another thread that falls back during it sets this again.
    HOT.alone.store(0, Ordering::SeqCst);
    let Some(environment) = environment::get().filter(|e| e.handoff.is_some()) else {
        return false;
    };
    let mut waits = false;
    for listener in all() {
        let may = listener.may_take_over(environment);
        for number in listener.numbers.iter().map(|n| n.load(Ordering::Relaxed)) {
            match under(number) {
                Some((_, GATED)) => waits |= has_lost_gate(number),
                Some(_) => waits |= !(may && take_over(environment, number)),
                None => {}
            }
        }
    }
    if waits {
        HOT.alone.store(1, Ordering::Release);
    }
    waits
}

/// The descriptor of the TCP listener of a number that is gated.
pub fn tcp(fd: c_int) -> c_int {
    match under(fd) {
        Some((listener, GATED)) => listener.hidden.load(Ordering::Relaxed),
        _ => fd,
    }
}

/// Follows a TCP listener from here on; the process accepts for itself.
pub fn adopt(fd: c_int, port: u16) -> bool {
    if table::entry(fd).is_none() {
        return false;
    }
    for (listener, index) in ALL.iter().zip(0..) {
        let claimed =
            listener
                .port
                .compare_exchange(0, u32::from(port), Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_ok() {
            USED_BELOW.fetch_max(index as usize + 1, Ordering::AcqRel);
            return listener.add(fd) && {
                table::become_kind(fd, OWN, index);
                HOT.alone.store(1, Ordering::Relaxed);
                true
            };
        }
    }
    false
}

/// A second number for a listener; both are served alike.
pub fn share(from: c_int, to: c_int) {
    if let (Some((listener, kind)), Some(entry)) = (under(from), table::entry(from)) {
        listener.add(to);
        table::become_kind(to, kind, entry.index.load(Ordering::Relaxed));
        flagged(to);
    }
}

/// The server closes a number; the last one takes the kept TCP listener with it.
pub fn leave(fd: c_int) {
    let Some((listener, _)) = under(fd) else {
        return;
    };
    // Without the lock: a signal handler of the server may close it, in the middle of anything.
    listener.end_arming();
    table::become_kind(fd, table::UNKNOWN, 0);
    listener.epolls.forget(fd);
    if listener.remove(fd) {
        // SAFETY: it is taken from where it was kept.
        unsafe { register::lower(listener.hidden.swap(-1, Ordering::AcqRel)) };
        // After that: from here on the gate may be the only one who has it.
        listener.hold_by(-1);
        rebind::left();
        // What wakes the gate may be of this listener.
        register::expire();
        listener.generation.store(0, Ordering::Relaxed);
        listener.blocking.store(0, Ordering::Relaxed);
        listener.port.store(0, Ordering::Release);
    }
}

/// Puts the gate under a number; false when it cannot be reached, and then nothing has changed.
pub fn take_over(environment: &Environment, fd: c_int) -> bool {
    let (Some((listener, _)), Some(entry)) = (under(fd), table::entry(fd)) else {
        return false;
    };
    listener.locked(|| {
        if entry.kind() == GATED {
            return true;
        }
        let taken = exchange_with_gate(environment, listener, fd);
        if taken.is_none() {
            // What the gate may have got of it is not served here.
            listener.hold_by(-1);
            listener
                .next_try_ns
                .store(now_ns() + AGAIN_NS, Ordering::Relaxed);
            return false;
        }
        entry.kind.store(GATED, Ordering::Release);
        register::expire();
        true
    })
}

fn exchange_with_gate(environment: &Environment, listener: &Listener, fd: c_int) -> Option<()> {
    // SAFETY: the table knows it as a listener.
    let own = unsafe { borrow(fd) }?;
    let port = u16::try_from(listener.port.load(Ordering::Relaxed)).ok()?;
    let known = listener.blocking.load(Ordering::Relaxed);
    let wish = match known {
        // Never gated by this process: the flag is still the server's own, or a gate has set it already.
        0 => fcntl_getfl(own).ok()? & OFlags::NONBLOCK,
        1 => OFlags::empty(),
        _ => OFlags::NONBLOCK,
    };
    let cloexec = fcntl_getfd(own).ok()?.contains(FdFlags::CLOEXEC);
    // First: once the gate has the listener it empties it, whether or not this process can go on.
    let is_new = listener.hidden.load(Ordering::Relaxed) < 0;
    if is_new {
        listener
            .hidden
            .store(kept::keep(own, fd)?, Ordering::Release);
    }
    let Some((worker, generation, hold)) = register::as_listener(environment, own, port) else {
        if is_new {
            // SAFETY: it is taken from where it was kept.
            unsafe { register::lower(listener.hidden.swap(-1, Ordering::AcqRel)) };
        }
        return None;
    };
    // Where its place is beyond the limit it stays where it is: without it the gate would take the listener for closed.
    let hold = register::raise(&hold, kept::place_of_hold(fd), true)
        .unwrap_or_else(|_| register::hide(hold));
    listener.hold_by(hold);
    // The flags belong to the pair's end, which the server's other processes share: they wish the same. A new one does not block.
    let flags = fcntl_getfl(&worker).ok()?;
    let wish = if known == 0 { wish & flags } else { wish };
    let wanted = (flags - OFlags::NONBLOCK) | wish;
    if wanted != flags {
        fcntl_setfl(&worker, wanted).ok()?;
    }
    kept::wait_alike(&worker, own);
    replace(listener, fd, worker, cloexec).ok()?;
    listener.close_kept_alike();
    let blocking = if wish.is_empty() { 1 } else { 2 };
    listener.blocking.store(blocking, Ordering::Relaxed);
    listener.generation.store(generation, Ordering::Relaxed);
    Some(())
}

/// Puts the TCP listener back under a number, because the gate has gone.
pub fn fall_back(fd: c_int) {
    let (Some((listener, _)), Some(entry)) = (under(fd), table::entry(fd)) else {
        return;
    };
    listener.locked(|| {
        if entry.kind() != GATED {
            return;
        }
        listener.end_arming();
        listener.hold_by(-1);
        let hidden = listener.hidden.load(Ordering::Relaxed);
        // SAFETY: the table knows the one as a listener, and the other is the shim's own.
        let (Some(worker), Some(own)) = (unsafe { (borrow(fd), borrow(hidden)) }) else {
            return;
        };
        let nonblocking = fcntl_getfl(worker).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        listener
            .blocking
            .store(if nonblocking { 2 } else { 1 }, Ordering::Relaxed);
        let cloexec = fcntl_getfd(worker).is_ok_and(|flags| flags.contains(FdFlags::CLOEXEC));
        if nonblocking {
            // The next program finds it only where accept is to block: see `inherit_alone`.
            let _ = fcntl_setfd(own, FdFlags::CLOEXEC);
        }
        if replace(listener, fd, own, cloexec).is_ok() {
            entry.kind.store(OWN, Ordering::Release);
            HOT.alone.store(1, Ordering::Relaxed);
        }
    });
}

/// A descriptor of the shim's own has another number now, and its old one is about to be overwritten.
pub fn moved(from: c_int, to: c_int) {
    for listener in places() {
        let hold = &listener.hold;
        let _ = hold.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        let [keeps, waits] = [&listener.hidden, &listener.waiter]
            .map(|number| number.load(Ordering::Relaxed) == from);
        if keeps || waits {
            listener.locked(|| {
                // Registrations know the number that they were made with.
                listener.end_arming();
                if keeps {
                    listener.hidden.store(to, Ordering::Release);
                } else {
                    // SAFETY: it was just made, and the waiter has been taken away by `end_arming`.
                    unsafe { register::lower(to) };
                }
            });
        }
    }
}

/// Puts another file under a number and keeps its epoll registrations.
fn replace(
    listener: &Listener,
    fd: c_int,
    file: impl AsFd,
    cloexec: bool,
) -> rustix::io::Result<()> {
    let flags = if cloexec {
        DupFlags::CLOEXEC
    } else {
        DupFlags::empty()
    };
    listener.epolls.kept(fd, || {
        // SAFETY: the number is open and stays the server's: it is not closed here.
        let mut onto = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
        rustix::io::dup3(file, &mut onto, flags)
    })
}

/// Remembers what the server registers for the number of a gated listener, after epoll_ctl has succeeded.
pub fn remember(epoll: c_int, operation: c_int, fd: c_int, event: Option<&libc::epoll_event>) {
    if let Some((listener, _)) = under(fd) {
        listener.locked(|| {
            let tcp = listener.hidden.load(Ordering::Relaxed);
            listener.epolls.remove_beside(tcp, Some(epoll));
            listener.epolls.remember(epoll, operation, fd, event);
            // The next accept adds what is missing.
            if listener.waiter.load(Ordering::Relaxed) < 0 {
                listener.armed.store(0, Ordering::Relaxed);
            }
        });
    }
}
