//! Waiting for input. With a gate, or without anything of ours, these are libc's; a process that has lost its gate waits in steps, because
//! the gate that comes back takes the connections that the process waits for. A poll for the next request of one connection
//! lasts as long as `patience` says.

use std::ffi::c_int;

use libc::{epoll_event, nfds_t, pollfd, sigset_t, size_t, timespec};

use super::{hooks, quietly};
use crate::clock::now_ns;
use crate::{expiry, patience, switch};

/// Length of a step towards a gate.
const STEP_MS: c_int = 100;
/// Length of a step towards a keep-alive time.
const LOOK_MS: c_int = 1000;
const SECOND_NS: i64 = 1_000_000_000;

/// Waits as long as the server wants (forever when negative), and looks for a gate at the beginning and after each step.
#[inline]
fn waiting(timeout_ms: c_int, wait: impl Fn(c_int) -> c_int) -> c_int {
    if switch::alone() {
        stepwise(timeout_ms, STEP_MS, switch::attend, wait)
    } else {
        wait(timeout_ms)
    }
}

/// As `waiting`, for many descriptors at once, and looks whether idle connections among them are to be ended.
#[inline]
fn multiplexing(timeout_ms: c_int, wait: impl Fn(c_int) -> c_int) -> c_int {
    if expiry::looks() {
        stepwise(timeout_ms, LOOK_MS, expiry::attend, |ms| waiting(ms, &wait))
    } else {
        waiting(timeout_ms, wait)
    }
}

/// Waits in steps for as long as there is something to look for.
#[cold]
fn stepwise(
    timeout_ms: c_int,
    step_ms: c_int,
    look: impl Fn() -> bool,
    wait: impl Fn(c_int) -> c_int,
) -> c_int {
    let mut start = None;
    loop {
        let left_ms = match (u64::try_from(timeout_ms), start) {
            (Err(_), _) => -1,
            (Ok(_), None) => timeout_ms,
            (Ok(all), Some(start)) => {
                let passed = now_ns().saturating_sub(start) / 1_000_000;
                c_int::try_from(all.saturating_sub(passed)).unwrap_or(0)
            }
        };
        if !quietly(&look) || (0..=step_ms).contains(&left_ms) {
            return wait(left_ms);
        }
        start = start.or_else(|| Some(now_ns()));
        let ready = wait(step_ms);
        if ready != 0 {
            return ready;
        }
    }
}

/// As `waiting`, when it is a poll of these descriptors.
///
/// # Safety
/// `fds` is null or, when `count` is 1, points to one; `wait` polls `count` of them.
#[inline]
unsafe fn polling(
    fds: *const pollfd,
    count: nfds_t,
    timeout_ms: c_int,
    wait: impl Fn(c_int) -> c_int,
) -> c_int {
    if count == 1 && !fds.is_null() {
        // SAFETY: there is one.
        let one = unsafe { fds.read_unaligned() };
        return match patience::wait_of(one, timeout_ms) {
            Some(one) => one.run(|ms| waiting(ms, &wait)),
            None => waiting(timeout_ms, wait),
        };
    }
    let ready = waiting(timeout_ms, wait);
    if ready >= 0 {
        for at in 0..count as usize {
            // SAFETY: the kernel has read so many.
            patience::waits_among_others(unsafe { (*fds.add(at)).fd });
        }
    }
    ready
}

/// Waits with a timeout of nanoseconds, by way of one of milliseconds when there is something to look for; only then is it looked at.
///
/// # Arguments
/// - `looks`: there is something to look for.
/// - `by_ms`: waits as long as the milliseconds say, with the function that it is given for each step.
/// - `wait`: the wait itself.
///
/// # Safety
/// `timeout` points to one or is null, which waits forever.
unsafe fn waiting_ns(
    timeout: *const timespec,
    looks: bool,
    by_ms: impl FnOnce(c_int, &dyn Fn(c_int) -> c_int) -> c_int,
    wait: impl Fn(*const timespec) -> c_int,
) -> c_int {
    if !looks {
        return wait(timeout);
    }
    // SAFETY: null, or one is there.
    let wanted = unsafe { timeout.as_ref() };
    // Neither longer than milliseconds can say nor one that the kernel refuses.
    let fits = |t: &timespec| {
        (0..i64::from(c_int::MAX) / 1000).contains(&t.tv_sec) && (0..SECOND_NS).contains(&t.tv_nsec)
    };
    if !wanted.is_none_or(fits) {
        return wait(timeout);
    }
    // Rounded up: a wait may take longer than asked for, not less.
    let timeout_ms = wanted.map_or(-1, |t| {
        t.tv_sec
            .saturating_mul(1000)
            .saturating_add(t.tv_nsec.saturating_add(999_999) / 1_000_000)
    });
    by_ms(c_int::try_from(timeout_ms).unwrap_or(c_int::MAX), &|ms| {
        let step = timespec {
            tv_sec: i64::from(ms) / 1000,
            tv_nsec: i64::from(ms) % 1000 * 1_000_000,
        };
        wait(if ms < 0 {
            std::ptr::null()
        } else {
            std::ptr::from_ref(&step)
        })
    })
}

/// Looks for an end among what epoll_wait has given: it may be the gate's.
///
/// # Safety
/// There are `ready` events, unless it is negative.
#[inline]
unsafe fn watch_events(events: *const epoll_event, ready: c_int) {
    let count = usize::try_from(ready).unwrap_or(0);
    // SAFETY: below the count there is one; the structure is packed, so only its fields are read.
    let hung_up =
        (0..count).any(|at| unsafe { (*events.add(at)).events } & libc::EPOLLHUP as u32 != 0);
    if hung_up {
        switch::suspect();
    }
}

hooks! {
    #[link_section = ".text.hot"]
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int {
        |call(timeout_ms: c_int)| {
            let ready = multiplexing(timeout_ms, call);
            // SAFETY: the call has filled in as many.
            unsafe { watch_events(events, ready) };
            ready
        }
    }

    fn epoll_pwait(
        epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t,
    ) -> c_int {
        |call(timeout_ms: c_int)| {
            let ready = multiplexing(timeout_ms, call);
            // SAFETY: the call has filled in as many.
            unsafe { watch_events(events, ready) };
            ready
        }
    }

    fn epoll_pwait2(
        epoll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t,
    ) -> c_int {
        |call(timeout: *const timespec)| {
            let looks = switch::alone() || expiry::looks();
            // SAFETY: null, or epoll_pwait2(2) asks for one.
            let ready = unsafe { waiting_ns(timeout, looks, |ms, wait| multiplexing(ms, wait), call) };
            // SAFETY: the call has filled in as many.
            unsafe { watch_events(events, ready) };
            ready
        }
    }

    #[link_section = ".text.hot"]
    fn poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
        // SAFETY: poll(2) asks for as many, and the call polls them.
        |call(timeout_ms: c_int)| unsafe { polling(fds, count, timeout_ms, call) }
    }

    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int {
        // SAFETY: poll(2) asks for as many, and the call polls them.
        |call(timeout_ms: c_int)| unsafe { polling(fds, count, timeout_ms, call) }
    }

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int {
        |call(timeout: *const timespec)| {
            let step = |ms, wait: &dyn Fn(c_int) -> c_int| stepwise(ms, STEP_MS, switch::attend, wait);
            // SAFETY: null, or ppoll(2) asks for one.
            unsafe { waiting_ns(timeout, switch::alone(), step, call) }
        }
    }
}
