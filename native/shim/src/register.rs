//! The conversation with the gate at the hand-off socket.
//!
//! Both descriptors that a process keeps for it lie high, out of the server's way, and are closed by exec.

use std::ffi::c_int;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use rustix::net::sockopt::{set_socket_timeout, Timeout};
use rustix::net::{
    connect, socket_with, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType,
};
use trimtab_wire::handoff::{
    receive, send, Hello, Role, Welcome, GO_ON, LISTENER, LONGEST, OVER_BUDGET,
};

use crate::environment::Environment;
use crate::{numbers, switch, table, wake};

/// Longest wait for the gate's answer.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Lowest number of a descriptor of the shim's own; low enough for the usual limit of 1024.
const HIGH: c_int = 512;

/// The worker's connection to the gate; -1 when there is none.
static CONVERSATION: AtomicI32 = AtomicI32::new(-1);
/// A worker end of a dispatch socket pair, for wake bytes.
static WAKE: AtomicI32 = AtomicI32::new(-1);
/// Process for which both were made.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

/// The number of a descriptor, of the server's or of ours. It owns nothing and keeps nothing open: who borrows from it does so for a
/// call, not for longer than the number itself is at hand.
#[derive(Clone, Copy)]
pub struct Number(c_int);

impl AsFd for Number {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: not negative, as `borrow` has seen, and at hand, as its caller has promised.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// A number to borrow from; None for one that no descriptor has.
///
/// # Safety
/// The number is at hand for as long as the result is used: the server has named it in the call that is under way, the table knows
/// it as a connection or a listener of the server's, or it is the shim's own. Should the server close it in another thread
/// meanwhile, it is to the shim as to libc in that call: EBADF, or the next file of that number.
pub unsafe fn borrow(fd: c_int) -> Option<Number> {
    (fd >= 0).then_some(Number(fd))
}

/// Lowest number of a descriptor of the shim's own, under the limit of this process.
pub fn lowest() -> c_int {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = limit.and_then(|l| c_int::try_from(l / 2).ok());
    HIGH.min(most.unwrap_or(HIGH))
}

/// Lowest number of those that have no place of their own: below lie the listeners', which the next program looks for there.
pub fn lowest_spare() -> c_int {
    lowest() + lowest() / 2
}

/// Duplicates a descriptor to a high number, from this one up; closed by exec when asked.
pub fn raise(fd: impl AsFd, from: c_int, cloexec: bool) -> rustix::io::Result<c_int> {
    let high = rustix::io::fcntl_dupfd_cloexec(fd, from)?;
    if !cloexec {
        rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty())?;
    }
    Ok(hide(high))
}

/// Keeps a descriptor as the shim's own, under the number that it has.
pub fn hide(fd: OwnedFd) -> c_int {
    let number = fd.into_raw_fd();
    table::become_kind(number, table::HIDDEN, 0);
    number
}

/// Moves a descriptor of the shim's own to another number, because the server is about to put something else under its number.
pub fn make_way(fd: c_int) {
    if table::kind(fd) != table::HIDDEN {
        return;
    }
    // SAFETY: it is the shim's own.
    let Some(own) = (unsafe { borrow(fd) }) else {
        return;
    };
    let cloexec = rustix::io::fcntl_getfd(own)
        .is_ok_and(|flags| flags.contains(rustix::io::FdFlags::CLOEXEC));
    let moved = raise(own, lowest_spare(), cloexec).unwrap_or(-1);
    for kept in [&CONVERSATION, &WAKE] {
        let _ = kept.compare_exchange(fd, moved, Ordering::AcqRel, Ordering::Relaxed);
    }
    switch::moved(fd, moved);
}

/// Closes a descriptor of the shim's own; no other number, such as that of none.
///
/// # Safety
/// The caller has taken the number from where the shim kept it, so that nobody finds it there any more.
pub unsafe fn lower(fd: c_int) {
    if table::kind(fd) == table::HIDDEN {
        table::become_kind(fd, table::UNKNOWN, 0);
        // SAFETY: the number is ours, and nobody else has it.
        unsafe { rustix::io::close(fd) };
    }
}

/// Passes a listener to the gate.
///
/// # Returns
/// The worker end to take connections from, the gate's generation, and the conversation: while it is open the gate keeps the listener.
pub fn as_listener(
    environment: &Environment,
    listener: Number,
    port: u16,
) -> Option<(OwnedFd, u32, OwnedFd)> {
    let conversation = talk(environment, Role::Listener, port)?;
    let socket = conversation.as_fd();
    send(
        socket,
        &LISTENER,
        Some(listener.as_fd()),
        SendFlags::empty(),
    )
    .ok()?;
    let mut bytes = [0; LONGEST];
    let (length, worker) = receive(socket, &mut bytes, RecvFlags::CMSG_CLOEXEC).ok()?;
    let welcome = Welcome::decode(bytes.get(..length)?)?;
    Some((worker?, welcome.generation, conversation))
}

/// Tells the gate once that this process takes connections.
///
/// # Arguments
/// - `worker`: a worker end of a dispatch socket pair.
#[inline]
pub fn as_worker(environment: &Environment, worker: Number) {
    let before = REGISTERED.load(Ordering::Relaxed);
    if before != table::pid() {
        register(environment, worker, before);
    }
}

#[cold]
fn register(environment: &Environment, worker: Number, before: u32) {
    let swapped =
        REGISTERED.compare_exchange(before, table::pid(), Ordering::AcqRel, Ordering::Relaxed);
    if swapped.is_err() {
        return;
    }
    wake::this_process_accepts();
    numbers::learn_limit();
    let wake = raise(worker, lowest_spare(), true).ok();
    // Kept without a conversation too, such as a worker cannot have that has changed its root directory: else the gate would sleep on.
    // SAFETY: what was there is taken from where it was kept.
    unsafe { lower(WAKE.swap(wake.unwrap_or(-1), Ordering::AcqRel)) };
    let conversation = wake
        .and_then(|_| talk(environment, Role::Worker, 0))
        .and_then(|c| raise(c.as_fd(), lowest_spare(), true).ok());
    // The one before ends after this one has begun: a gate that sees it end without takes the process for dead.
    // SAFETY: as above.
    unsafe { lower(CONVERSATION.swap(conversation.unwrap_or(-1), Ordering::AcqRel)) };
    if conversation.is_none() {
        // The next accept tries again.
        REGISTERED.store(0, Ordering::Release);
    }
}

/// Ends what the process has with an earlier gate, or a child with its parent's.
pub fn forget() {
    for kept in [&CONVERSATION, &WAKE] {
        // SAFETY: it is taken from where it was kept.
        unsafe { lower(kept.swap(-1, Ordering::AcqRel)) };
    }
}

/// The process must register again before its next accept.
pub fn expire() {
    REGISTERED.store(0, Ordering::Release);
}

/// The connection on which the gate speaks to this process.
pub fn conversation() -> Option<Number> {
    // SAFETY: it is the shim's own.
    unsafe { borrow(CONVERSATION.load(Ordering::Acquire)) }
}

/// Writes the wake byte that a released slot may owe.
pub fn wake_gate() {
    // SAFETY: it is the shim's own.
    if let Some(worker) = unsafe { borrow(WAKE.load(Ordering::Acquire)) } {
        // A gate that is gone, or whose buffer is full of wake bytes, needs none.
        let _ = send(worker.as_fd(), &[1], None, SendFlags::DONTWAIT);
    }
}

/// Has the gate take care of a connection; false when it cannot.
pub fn hand_over(fd: Number) -> bool {
    let passed = Some(fd.as_fd());
    conversation()
        .is_some_and(|gate| send(gate.as_fd(), &OVER_BUDGET, passed, SendFlags::DONTWAIT).is_ok())
}

/// Connects, says who this process is, and waits until the gate wants to hear more.
fn talk(environment: &Environment, role: Role, port: u16) -> Option<OwnedFd> {
    let address = environment.handoff.as_ref()?;
    let conversation = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .ok()?;
    for timeout in [Timeout::Recv, Timeout::Send] {
        // The timeout of sending bounds connect(2) too.
        set_socket_timeout(&conversation, timeout, Some(PATIENCE)).ok()?;
    }
    connect(&conversation, address).ok()?;
    let hello = Hello {
        token: environment.shared.token(),
        pid: match role {
            Role::Listener => wake::listening_process(),
            Role::Worker => table::pid(),
        },
        role,
        port,
        generation: environment.shared.header.generation.load(Ordering::Relaxed),
    };
    let socket = conversation.as_fd();
    send(socket, &hello.encode(), None, SendFlags::empty()).ok()?;
    let mut bytes = [0; LONGEST];
    let (length, _) = receive(socket, &mut bytes, RecvFlags::CMSG_CLOEXEC).ok()?;
    if bytes.get(..length)? != GO_ON {
        return None;
    }
    if role == Role::Worker {
        // It stays open, and the reclaiming thread waits on it without end.
        set_socket_timeout(&conversation, Timeout::Recv, None).ok()?;
    }
    Some(conversation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_closed_only_where_it_is_the_shims_own() {
        let servers = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty()).unwrap();
        let own = raise(&servers, 900, true).unwrap();
        // SAFETY: nobody else knows of these.
        let is_open =
            |fd| unsafe { borrow(fd) }.is_some_and(|fd| rustix::io::fcntl_getfd(fd).is_ok());
        let numbers = [std::os::fd::AsRawFd::as_raw_fd(&servers), own, -1];
        assert_eq!(numbers.map(is_open), [true, true, false]);
        for fd in numbers {
            // SAFETY: as above.
            unsafe { lower(fd) };
        }
        assert_eq!(numbers.map(is_open), [true, false, false]);
        assert_eq!(table::kind(own), table::UNKNOWN);
    }
}
