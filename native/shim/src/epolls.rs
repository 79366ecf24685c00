//! The epoll registrations of a listener's numbers.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::epoll_event;
use rustix::event::epoll;

use crate::real;
use crate::register::{lowest_spare, raise, Number};

const MOST: usize = 32;

/// Those of one listener; beyond 32 none is remembered. Changed under the listener's lock.
pub struct Registrations([Registration; MOST]);

struct Registration {
    epoll: AtomicI32,
    number: AtomicI32,
    events: AtomicU32,
    data: AtomicU64,
    /// 1: the kept TCP listener is registered beside it.
    beside: AtomicU32,
}

impl Registrations {
    /// None yet.
    pub const fn new() -> Self {
        Self(
            [const {
                Registration {
                    epoll: AtomicI32::new(-1),
                    number: AtomicI32::new(-1),
                    events: AtomicU32::new(0),
                    data: AtomicU64::new(0),
                    beside: AtomicU32::new(0),
                }
            }; MOST],
        )
    }

    /// Notes what epoll_ctl(2) has done.
    pub fn remember(&self, epoll: c_int, operation: c_int, fd: c_int, event: Option<&epoll_event>) {
        let known = self
            .0
            .iter()
            .find(|r| r.is_of(fd) && r.epoll.load(Ordering::Relaxed) == epoll);
        let entry = known.or_else(|| self.0.iter().find(|r| r.epoll.load(Ordering::Relaxed) < 0));
        match (entry, event) {
            (Some(entry), Some(event)) if operation != libc::EPOLL_CTL_DEL => {
                entry.number.store(fd, Ordering::Relaxed);
                entry.events.store(event.events, Ordering::Relaxed);
                entry.data.store(event.u64, Ordering::Relaxed);
                entry.epoll.store(epoll, Ordering::Relaxed);
            }
            _ => {
                if let Some(known) = known {
                    known.epoll.store(-1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Registers the kept TCP listener beside the numbers, for one process to be woken by each connection.
    pub fn add_beside(&self, tcp: c_int) {
        for one in &self.0 {
            let events = one.events.load(Ordering::Relaxed);
            let there = one.epoll.load(Ordering::Relaxed) >= 0;
            if there
                && one.beside.load(Ordering::Relaxed) == 0
                && events & libc::EPOLLIN as u32 != 0
                && events & libc::EPOLLONESHOT as u32 == 0
            {
                let kept = events & (libc::EPOLLIN | libc::EPOLLET) as u32;
                let events = kept | libc::EPOLLEXCLUSIVE as u32;
                if one.control(libc::EPOLL_CTL_ADD, tcp, events) {
                    one.beside.store(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Takes the kept TCP listener out again: of this epoll, or of all.
    pub fn remove_beside(&self, tcp: c_int, epoll: Option<c_int>) {
        for one in &self.0 {
            let meant = epoll.is_none_or(|epoll| one.epoll.load(Ordering::Relaxed) == epoll);
            if meant && one.beside.swap(0, Ordering::Relaxed) != 0 {
                one.control(libc::EPOLL_CTL_DEL, tcp, 0);
            }
        }
    }

    /// Those beside are another process's.
    pub fn forget_beside(&self) {
        for one in &self.0 {
            one.beside.store(0, Ordering::Relaxed);
        }
    }

    /// Drops those of a number that is closed.
    pub fn forget(&self, fd: c_int) {
        for registration in self.0.iter().filter(|r| r.is_of(fd)) {
            registration.epoll.store(-1, Ordering::Relaxed);
        }
    }

    /// Takes those of a number out, lets the file under it change, and puts them in again.
    pub fn kept<T>(&self, fd: c_int, change: impl FnOnce() -> T) -> T {
        let mut removed = [false; MOST];
        for (registration, removed) in self.0.iter().zip(&mut removed) {
            // One that fails belongs to an epoll that has been closed.
            *removed = registration.is_of(fd) && registration.restore(libc::EPOLL_CTL_DEL, fd);
        }
        let done = change();
        for (registration, _) in self.0.iter().zip(removed).filter(|(_, removed)| *removed) {
            registration.restore(libc::EPOLL_CTL_ADD, fd);
        }
        done
    }
}

/// Data of the first descriptor's events in the epoll of `both`.
pub const FIRST: u64 = 1;

/// An epoll of our own that waits for two descriptors, for one process to be woken by each event.
pub fn both(one: Number, other: Number) -> Option<c_int> {
    let waiter = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
    for (fd, data) in [(one, FIRST), (other, FIRST + 1)] {
        let data = epoll::EventData::new_u64(data);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        epoll::add(&waiter, fd, data, flags).ok()?;
    }
    raise(waiter, lowest_spare(), true).ok()
}

impl Registration {
    fn is_of(&self, fd: c_int) -> bool {
        self.epoll.load(Ordering::Relaxed) >= 0 && self.number.load(Ordering::Relaxed) == fd
    }

    fn restore(&self, operation: c_int, fd: c_int) -> bool {
        self.control(operation, fd, self.events.load(Ordering::Relaxed))
    }

    fn control(&self, operation: c_int, fd: c_int, events: u32) -> bool {
        let mut event = epoll_event {
            events,
            u64: self.data.load(Ordering::Relaxed),
        };
        let epoll = self.epoll.load(Ordering::Relaxed);
        let before = real::errno();
        // SAFETY: event is a live epoll_event; an epoll that has been closed gives an error.
        let done = unsafe { real::epoll_ctl(epoll, operation, fd, &mut event) };
        real::set_errno(before);
        done == 0
    }
}
