//! Accepting: from the gate while there is one, from the kernel otherwise.

use std::cell::OnceCell;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::{sockaddr, socklen_t};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::Timeout;
use rustix::net::{sockopt, AddressFamily, RecvFlags, SocketType};
use trimtab_wire::handoff::{receive, Dispatch, LONGEST};
use trimtab_wire::shared::{DISPATCHED, FLAG_PREEMPTIVE, FLAG_SENSE, HELD, NO_SLOT};

use crate::clock::now_ns;
use crate::environment::{self, Environment};
use crate::lanes::{self, Woken};
use crate::register::{self, borrow, Number};
use crate::switch::{self, Listener};
use crate::table::{self, FOREIGN, GATED, OWN, UNKNOWN};
use crate::{connection, interrupted, kept, numbers, real, reclaim, tcp, wake};

/// A process without its gate looks for one at this distance.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Where the caller of accept wants the client's address.
#[derive(Clone, Copy)]
pub struct Peer {
    /// As in accept(2).
    pub address: *mut sockaddr,
    /// As in accept(2).
    pub length: *mut socklen_t,
}

/// The server has begun to listen on a descriptor.
pub fn opened(fd: c_int) {
    let Some(environment) = environment::get() else {
        return;
    };
    if matches!(table::kind(fd), UNKNOWN | FOREIGN)
        && look_at(environment, fd)
        && environment.handoff.is_some()
    {
        wake::this_process_listens();
        switch::take_over(environment, fd);
    }
}

/// The server waits for a number of which nothing is known: it may be a listener that it was given, such as by systemd, and at which
/// it does not call listen.
pub fn registered(fd: c_int) {
    // SAFETY: the server has named it in this call.
    let (Some(environment), Some(socket)) = (environment::get(), unsafe { borrow(fd) }) else {
        return;
    };
    if environment.handoff.is_some() {
        if let Some(port) = gated_port(environment, socket) {
            switch::adopt(fd, port);
        }
    }
}

/// Another process has passed a descriptor: a listener goes to the gate at once, as `passed` says why.
pub fn received(fd: c_int) {
    if !matches!(table::kind(fd), UNKNOWN | FOREIGN) || table::is_borrowed() {
        return;
    }
    registered(fd);
    if let (Some(environment), OWN) = (environment::get(), table::kind(fd)) {
        switch::take_over(environment, fd);
    }
}

/// accept4 of any descriptor.
///
/// # Arguments
/// - `flags`: as accept4(2) has them.
/// - `call`: accepts at the descriptor with libc's function.
///
/// # Safety
/// `peer` is as accept(2) asks for: null, or address and length are there, and the length says how many bytes the address has.
pub unsafe fn accept(fd: c_int, peer: Peer, flags: c_int, call: impl Fn() -> c_int) -> c_int {
    let (Some(environment), Some(_)) = (environment::get(), table::entry(fd)) else {
        return call();
    };
    if table::kind(fd) == UNKNOWN {
        look_at(environment, fd);
    }
    let began = OnceCell::new();
    loop {
        let done = match switch::under(fd) {
            // SAFETY: `peer` is as accept(2) asks for.
            Some((listener, GATED)) => unsafe { from_gate(environment, listener, fd, peer, flags) },
            Some((listener, _)) => from_kernel(environment, listener, fd, &began, &call),
            None => return call(),
        };
        if let Some(done) = done {
            return done;
        }
    }
}

/// Finds the listeners that a program left which has executed this one, without its table.
pub fn inherited() -> Option<()> {
    let environment = environment::get().filter(|e| e.handoff.is_some())?;
    for name in std::fs::read_dir("/proc/self/fd")
        .ok()?
        .flatten()
        .map(|e| e.file_name())
    {
        let Some(hidden) = name.to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let fd = kept::number_of(hidden);
        // SAFETY: nothing else runs in the process yet: a number is open all the while, or gives EBADF.
        let (hidden_one, one) = unsafe { (borrow(hidden)?, borrow(fd)) };
        let (Some(port), Some(one)) = (gated_port(environment, hidden_one), one) else {
            continue;
        };
        if is_worker_end(one) {
            switch::inherit(fd, hidden, port);
        } else if hidden != fd && kept::is_same(one, hidden_one) {
            switch::inherit_alone(fd, hidden, port);
        }
    }
    Some(())
}

fn is_worker_end(socket: Number) -> bool {
    sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
}

/// Finds out whether an unknown descriptor is a listener on a gated port, and follows it when it is.
fn look_at(environment: &Environment, fd: c_int) -> bool {
    // SAFETY: the server has named it in this call.
    let Some(socket) = (unsafe { borrow(fd) }) else {
        return false;
    };
    let gated = gated_port(environment, socket);
    if let Some(port) = gated {
        return switch::adopt(fd, port);
    }
    table::become_kind(fd, FOREIGN, 0);
    false
}

fn gated_port(environment: &Environment, socket: Number) -> Option<u16> {
    let stream = sockopt::socket_type(socket) == Ok(SocketType::STREAM);
    if !stream || sockopt::socket_acceptconn(socket) != Ok(true) {
        return None;
    }
    let address = rustix::net::getsockname(socket).ok()?;
    let port = match address.address_family() {
        AddressFamily::INET => std::net::SocketAddrV4::try_from(address).ok()?.port(),
        AddressFamily::INET6 => std::net::SocketAddrV6::try_from(address).ok()?.port(),
        _ => return None,
    };
    environment.gates(port).then_some(port)
}

/// One attempt through the gate; None when the state of the listener has changed.
///
/// # Safety
/// `peer` is as accept(2) asks for.
unsafe fn from_gate(
    environment: &Environment,
    listener: &Listener,
    fd: c_int,
    peer: Peer,
    flags: c_int,
) -> Option<c_int> {
    // SAFETY: the server has named it in this call.
    let worker = unsafe { borrow(fd) }?;
    register::as_worker(environment, worker);
    if environment.shared.has(FLAG_PREEMPTIVE) {
        reclaim::ensure();
    }
    let mut how = if flags & libc::SOCK_CLOEXEC == 0 {
        RecvFlags::empty()
    } else {
        RecvFlags::CMSG_CLOEXEC
    };
    let open = &environment.shared.lanes;
    let port = listener.port.load(Ordering::Relaxed);
    let lent = open.are_open();
    let waiter = if lent {
        open.note_armed(port);
        listener.arm(worker)
    } else {
        listener.disarm();
        None
    };
    if lent && open.may_have_sent(port) {
        // What the gate has sent came before.
        how |= RecvFlags::DONTWAIT;
    } else if lent {
        // SAFETY: `peer` is as accept(2) asks for.
        if let Some(accepted) = unsafe { lanes::accept(environment, listener, peer, flags) } {
            return Some(accepted);
        }
        if let Some(waiter) = waiter {
            match lanes::wait(waiter, worker) {
                Err(Errno::INTR) if interrupted::goes_on() => return None,
                Err(error) => return Some(failed(error)),
                Ok(Woken::Client) => return None,
                Ok(Woken::Gate) => how |= RecvFlags::DONTWAIT,
            }
        }
    }
    if !numbers::has_room_for_next(worker) {
        return Some(failed(Errno::MFILE));
    }
    let mut bytes = [0; LONGEST];
    let (length, received) = match receive(worker.as_fd(), &mut bytes, how) {
        Err(Errno::AGAIN) if how.contains(RecvFlags::DONTWAIT) => {
            open.nothing_sent(port);
            return None;
        }
        // The gate died with wake bytes unread: said once, and what it had dispatched comes after it.
        Err(Errno::CONNRESET) => return None,
        Err(error) => return Some(failed(error)),
        Ok((0, _)) => {
            switch::fall_back(fd);
            return None;
        }
        Ok(received) => received,
    };
    if lent {
        open.received.fetch_add(1, Ordering::Relaxed);
    }
    let dispatch = Dispatch::decode(bytes.get(..length)?)?;
    let Some(received) = received else {
        // No room for a descriptor in this process: the kernel has dropped it. It does not happen again.
        numbers::ran_out();
        if hold(environment, &dispatch, -1, now_ns()) {
            connection::release(dispatch.slot);
        }
        return Some(failed(Errno::MFILE));
    };
    if flags & libc::SOCK_NONBLOCK != 0 {
        if let Err(error) = rustix::io::ioctl_fionbio(&received, true) {
            return Some(failed(error));
        }
    }
    // SAFETY: `peer` is as accept(2) asks for.
    unsafe { peer.fill(&dispatch.peer, dispatch.peer_len) };
    Some(deliver(environment, &dispatch, received))
}

fn deliver(environment: &Environment, dispatch: &Dispatch, received: OwnedFd) -> c_int {
    let now_ns = now_ns();
    let held = hold(environment, dispatch, received.as_raw_fd(), now_ns);
    let fd = received.into_raw_fd();
    numbers::note(fd);
    let delay_ns = (dispatch.slot != NO_SLOT).then(|| now_ns.saturating_sub(dispatch.arrival_ns));
    connection::begin(fd, held.then_some(dispatch.slot), delay_ns);
    fd
}

/// Takes the slot for this process; false when there is none, or it is no longer this connection's.
fn hold(environment: &Environment, dispatch: &Dispatch, fd: c_int, now_ns: u64) -> bool {
    let Some(slot) = environment.shared.slot(dispatch.slot) else {
        return false;
    };
    if slot.sequence.load(Ordering::Relaxed) != dispatch.sequence {
        return false;
    }
    slot.pid.store(table::pid(), Ordering::Relaxed);
    slot.fd.store(fd, Ordering::Relaxed);
    slot.received_ns.store(now_ns, Ordering::Relaxed);
    slot.advance(DISPATCHED, HELD)
}

/// One attempt at the kernel; None when the state of the listener has changed or there was nothing after all.
///
/// # Arguments
/// - `began`: when the first of the attempts began that wait.
fn from_kernel(
    environment: &Environment,
    listener: &Listener,
    fd: c_int,
    began: &OnceCell<u64>,
    call: impl Fn() -> c_int,
) -> Option<c_int> {
    if listener.may_take_over(environment) && switch::take_over(environment, fd) {
        return None;
    }
    // The gate made the listener non-blocking, for every process that has it.
    let emulate = listener.blocking.load(Ordering::Relaxed) == 1;
    if emulate {
        // SAFETY: the server has named it in this call.
        let own = unsafe { borrow(fd) }?;
        let began = began.get_or_init(now_ns);
        let mut waiting = [PollFd::new(&own, PollFlags::IN)];
        match poll(&mut waiting, Some(&LOOK)) {
            Err(Errno::INTR) if interrupted::goes_on() => return None,
            Err(error) => return Some(failed(error)),
            Ok(0) if is_over(own, *began) => return Some(failed(Errno::AGAIN)),
            Ok(0) => return None,
            Ok(_) if listener.may_take_over(environment) => return None,
            Ok(_) => {}
        }
    }
    let accepted = call();
    if accepted >= 0 {
        let delay_ns = environment
            .shared
            .has(FLAG_SENSE)
            .then(|| waited_ns(accepted))
            .flatten();
        connection::begin(accepted, None, delay_ns);
    } else if emulate && real::errno() == libc::EAGAIN {
        return None;
    }
    Some(accepted)
}

/// Whether accept has waited for as long as the server wants at this listener.
fn is_over(listener: Number, began: u64) -> bool {
    let longest = sockopt::socket_timeout(listener, Timeout::Recv);
    let waited = u128::from(now_ns().saturating_sub(began));
    matches!(longest, Ok(Some(longest)) if waited >= longest.as_nanos())
}

/// How long a connection has waited in the accept queue, in steps of the kernel's clock (1 to 10 ms).
///
/// Of a socket that has sent nothing the kernel gives the time since the handshake as the time since the last send: a difference of
/// two readings of one clock, so it is not biased.
pub fn waited_ns(fd: c_int) -> Option<u64> {
    tcp::info(fd).map(|info| u64::from(info.last_data_sent_ms) * 1_000_000)
}

fn failed(error: Errno) -> c_int {
    real::set_errno(error.raw_os_error());
    -1
}

impl Peer {
    /// Writes the client's address as accept(2) does: cut to the room there is, with its full length.
    ///
    /// # Safety
    /// It is as accept(2) asks for.
    pub unsafe fn fill(self, address: &[u8], length: u32) {
        if self.address.is_null() || self.length.is_null() {
            return;
        }
        // SAFETY: it is not null, so the length is there.
        let room = unsafe { *self.length } as usize;
        let count = room.min(length as usize).min(address.len());
        // SAFETY: the address has `room` bytes, which is what the length said, and `count` is neither more than these nor than there are.
        unsafe {
            std::ptr::copy_nonoverlapping(address.as_ptr(), self.address.cast(), count);
            *self.length = length;
        }
    }
}

/// Ends for the shim whatever a number was that the server closes or overwrites, before libc does.
///
/// Returns the slot to give back after libc has closed.
pub fn closing(fd: c_int) -> Option<u32> {
    let kind = table::kind(fd);
    if kind == UNKNOWN {
        return None;
    }
    if let Some(entry) = table::connection(fd).filter(|entry| connection::is_settled(entry)) {
        // Without a gate most end here. Should it be a child of vfork that closes it, which to find out takes a system call, nothing
        // is lost; a slot would be given back while the parent still has the connection.
        return connection::end(fd, entry);
    }
    if table::is_borrowed() {
        return None;
    }
    match kind {
        table::CONNECTION => {
            return table::connection(fd).and_then(|entry| connection::end(fd, entry))
        }
        GATED | OWN => switch::leave(fd),
        _ => table::become_kind(fd, UNKNOWN, 0),
    }
    None
}
