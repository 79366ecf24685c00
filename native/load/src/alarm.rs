//! Wakes the loop when a timer is due, to the microsecond: epoll_wait(2) counts in milliseconds, timerfd_create(2) does not.

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::Timespec;
use rustix::time::{
    timerfd_create, timerfd_settime, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags,
};

/// One kernel timer.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
    set_ns: Option<u64>,
}

impl Alarm {
    /// An alarm that shows in an epoll descriptor under a token.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(poll: &OwnedFd, token: u64) -> anyhow::Result<Self> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        epoll::add(
            poll,
            &timer,
            EventData::new_u64(token),
            EventFlags::IN | EventFlags::ET,
        )?;
        Ok(Self {
            timer,
            set_ns: None,
        })
    }

    /// Sets it to a time after now; nothing is done when it is set to that already.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set(&mut self, at_ns: u64, now_ns: u64) -> anyhow::Result<()> {
        if self.set_ns == Some(at_ns) {
            return Ok(());
        }
        let wait_ns = at_ns.saturating_sub(now_ns).max(1);
        let once = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: (wait_ns / 1_000_000_000) as i64,
                tv_nsec: (wait_ns % 1_000_000_000) as i64,
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.set_ns = Some(at_ns);
        Ok(())
    }

    /// It has gone off.
    pub fn expired(&mut self) {
        self.set_ns = None;
    }
}
