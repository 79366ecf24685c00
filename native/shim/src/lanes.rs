//! Accepting for itself under a gate, within what the gate has lent: see `trimtab_wire::lanes`.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::{sockaddr, socklen_t};
use rustix::event::{epoll, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{socket_timeout, Timeout};
use trimtab_wire::ends::Ends;
use trimtab_wire::shared::Layout;
use trimtab_wire::wake;

use crate::clock::now_ns;
use crate::environment::Environment;
use crate::listener::{waited_ns, Peer};
use crate::register::{self, borrow, Number};
use crate::switch::Listener;
use crate::{connection, epolls, numbers, real, table};

/// The reason why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// There may be a connection at the TCP listener.
    Client,
    /// There may be something from the gate, or its end.
    Gate,
}

/// Accepts at the kept TCP listener, which does not block.
///
/// # Returns
/// The result of accept(2); None when there was nothing for this process.
///
/// # Safety
/// `peer` is as accept(2) asks for.
pub unsafe fn accept(
    environment: &Environment,
    listener: &Listener,
    peer: Peer,
    flags: c_int,
) -> Option<c_int> {
    let tcp = listener.hidden.load(Ordering::Relaxed);
    let mut bytes = [0_u8; 128];
    loop {
        let mut length = bytes.len() as socklen_t;
        // SAFETY: there are `length` bytes.
        let fd = unsafe {
            real::accept4(
                tcp,
                bytes.as_mut_ptr().cast::<sockaddr>(),
                &mut length,
                flags,
            )
        };
        if fd < 0 {
            let error = real::errno();
            if error == libc::EMFILE {
                numbers::ran_out();
            }
            return (error != libc::EAGAIN).then_some(fd);
        }
        if keep(environment, listener, fd, &bytes) {
            let known = bytes.get(..length as usize).unwrap_or(&bytes);
            // SAFETY: `peer` is as accept(2) asks for.
            unsafe { peer.fill(known, length) };
            return Some(fd);
        }
        // SAFETY: it was just accepted, and nobody else knows of it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

/// Waits where accept would, for either, and as long as accept would.
///
/// # Errors
/// As accept(2): `AGAIN` after the listener's time.
pub fn wait(waiter: Number, worker: Number) -> rustix::io::Result<Woken> {
    let longest = socket_timeout(worker, Timeout::Recv)?;
    let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
    let mut room = [std::mem::MaybeUninit::<epoll::Event>::uninit(); 2];
    let (ready, _) = epoll::wait(waiter, &mut room, longest.as_ref())?;
    if ready.is_empty() {
        return Err(Errno::AGAIN);
    }
    let from_gate = |event: &epoll::Event| {
        let epoll::Event { data, .. } = *event;
        data.u64() == epolls::FIRST
    };
    Ok(match ready.iter().any(from_gate) {
        true => Woken::Gate,
        false => Woken::Client,
    })
}

/// Begins a connection in a slot of its class; false when the gate has it now.
fn keep(environment: &Environment, listener: &Listener, fd: c_int, client: &[u8]) -> bool {
    let shared: &Layout = &environment.shared;
    let Some(source) = source(client) else {
        connection::begin(fd, None, None);
        return true;
    };
    if wake::is_wake(shared, source) {
        // SAFETY: it was just accepted.
        if let Some(socket) = unsafe { borrow(fd) } {
            wake::end(socket.as_fd());
        }
        connection::begin(fd, None, None);
        return true;
    }
    let class = shared.lanes.class_of(&ends(shared, listener, fd, source));
    let slot = shared.take_for_itself(class, table::pid(), fd, now_ns());
    // SAFETY: it was just accepted.
    if slot.is_none() && unsafe { borrow(fd) }.is_some_and(register::hand_over) {
        return false;
    }
    let delay_ns = waited_ns(fd);
    if let (Some(_), Some(lane)) = (slot, shared.lanes.lanes.get(class as usize)) {
        lane.count(delay_ns.unwrap_or(0));
    }
    connection::begin(fd, slot, delay_ns);
    true
}

fn ends(shared: &Layout, listener: &Listener, fd: c_int, source: IpAddr) -> Ends {
    let port = listener.port.load(Ordering::Relaxed) as u16;
    let asked = || {
        // SAFETY: it was just accepted.
        let local = rustix::net::getsockname(unsafe { borrow(fd) }?).ok()?;
        SocketAddr::try_from(local).ok()
    };
    let asks = shared.lanes.asks_address.load(Ordering::Relaxed) != 0;
    let local = asks.then(asked).flatten();
    let local = local.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    Ends { source, local }
}

/// The internet address in what accept(2) has written.
fn source(client: &[u8]) -> Option<IpAddr> {
    let (family, rest) = client.split_first_chunk::<2>()?;
    match c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let octets: [u8; 4] = rest.get(2..6)?.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = rest.get(6..22)?.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}
