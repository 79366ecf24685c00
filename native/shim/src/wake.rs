//! Connections that the server makes to its own listener, as Apache does to wake idle children.
//!
//! They must reach a worker whatever the budgets are: they are bound to a source address that the gate knows. Only the
//! process that listens and does not accept, Apache's parent, makes them; a script that asks its own server is a client as any, and so
//! is a server of one process that asks itself.

use std::ffi::c_int;
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{sockaddr, socklen_t};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use rustix::process::{test_kill_process, Pid};

use crate::environment::{self, Environment};
use crate::register::borrow;
use crate::{switch, table};

/// The process that has called listen on a gated port.
static LISTENS: AtomicU32 = AtomicU32::new(0);
/// The process that accepts, when it has begun to.
static ACCEPTS: AtomicU32 = AtomicU32::new(0);

/// This process owns a gated listener.
pub fn this_process_listens() {
    LISTENS.store(table::pid(), Ordering::Relaxed);
}

/// This process takes connections.
pub fn this_process_accepts() {
    ACCEPTS.store(table::pid(), Ordering::Relaxed);
}

/// Who owns the listeners that this process has: the one that called listen while it lives, such as Apache's parent.
pub fn listening_process() -> u32 {
    let known = LISTENS.load(Ordering::Relaxed);
    let lives = i32::try_from(known)
        .ok()
        .and_then(Pid::from_raw)
        .is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH));
    if lives {
        known
    } else {
        table::pid()
    }
}

/// Marks a socket that is about to be connected, when it goes to the process's own listener.
///
/// Returns the address to connect to in place of the given one: a source 127.x.y.z reaches an IPv6 listener only by its IPv4
/// address.
///
/// # Safety
/// `address` is null, or `length` bytes are there, as connect(2) asks for.
#[inline]
pub unsafe fn mark(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> Option<SocketAddrAny> {
    let environment = environment::get()?;
    let is_this = |process: &AtomicU32| process.load(Ordering::Relaxed) == table::pid();
    if !is_this(&LISTENS) || is_this(&ACCEPTS) || address.is_null() {
        return None;
    }
    // SAFETY: it is not null, and connect(2) asks for so many bytes there.
    bind_source(environment, fd, unsafe { target(address, length) }?)
}

/// The Internet address that connect was given; None for another family.
///
/// # Safety
/// `length` bytes are at `address`.
pub unsafe fn target(address: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    let has = |size| length as usize >= size;
    if !has(size_of::<libc::sa_family_t>()) {
        return None;
    }
    // SAFETY: there is room for a family; the structure may lie at any address.
    match c_int::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() }) {
        libc::AF_INET if has(size_of::<libc::sockaddr_in>()) => {
            // SAFETY: there is room for it.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddr::from((ip, u16::from_be(v4.sin_port))))
        }
        libc::AF_INET6 if has(size_of::<libc::sockaddr_in6>()) => {
            // SAFETY: there is room for it.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddr::from((ip, u16::from_be(v6.sin6_port))))
        }
        _ => None,
    }
}

fn bind_source(environment: &Environment, fd: c_int, target: SocketAddr) -> Option<SocketAddrAny> {
    if !environment.gates(target.port()) || !is_at(target) {
        return None;
    }
    // SAFETY: the server has named it in this call.
    let socket = unsafe { borrow(fd) }?;
    let source = Ipv4Addr::from(
        environment
            .shared
            .header
            .wake_source
            .load(Ordering::Relaxed),
    );
    if target.is_ipv4() {
        // An address of this machine can be reached from a loopback source. A socket that is bound already stays as it is.
        let _ = rustix::net::bind(socket, &SocketAddrV4::new(source, 0));
        return None;
    }
    let mapped = |ip: Ipv4Addr, port| SocketAddrV6::new(ip.to_ipv6_mapped(), port, 0, 0);
    rustix::net::bind(socket, &mapped(source, 0)).ok()?;
    Some(mapped(Ipv4Addr::LOCALHOST, target.port()).into())
}

/// Whether connecting to this address reaches a gated listener of this process, by IPv4 where the address is IPv6.
fn is_at(target: SocketAddr) -> bool {
    switch::all()
        .filter(|listener| listener.port.load(Ordering::Relaxed) == u32::from(target.port()))
        // SAFETY: it is the shim's own.
        .filter_map(|listener| unsafe { borrow(listener.hidden.load(Ordering::Relaxed)) })
        .any(|tcp| {
            let here = target.ip().is_loopback() || target.ip().is_unspecified();
            let bound = rustix::net::getsockname(tcp)
                .ok()
                .and_then(|a| SocketAddr::try_from(a).ok());
            match bound {
                Some(SocketAddr::V4(v4)) => target.is_ipv4() && (here || target.ip() == *v4.ip()),
                // From an IPv4 source only a listener on all addresses of both families is reached.
                Some(SocketAddr::V6(v6)) => {
                    here && v6.ip().is_unspecified()
                        && rustix::net::sockopt::ipv6_v6only(tcp) == Ok(false)
                }
                None => false,
            }
        })
}
