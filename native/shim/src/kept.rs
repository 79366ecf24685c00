//! Where the TCP listener of a gated number is kept, and what holds it: at places that the next program knows when this one executes it.

use std::ffi::c_int;
use std::os::fd::AsFd;

use rustix::fs::fstat;
use rustix::io::{fcntl_getfd, fcntl_setfd, FdFlags};
use rustix::net::sockopt::{set_socket_timeout, socket_timeout, Timeout};
use rustix::net::{getpeername, SocketAddrUnix};

use crate::register::{self, Number};

/// Keeps the listener of a number; None when its place is taken, or beyond the limit.
pub fn keep(listener: Number, fd: c_int) -> Option<c_int> {
    let place = register::lowest() + fd;
    let kept = register::raise(listener, place, true).ok()?;
    if kept != place {
        // SAFETY: it was just made.
        unsafe { register::lower(kept) };
        return None;
    }
    Some(kept)
}

/// The number whose listener is kept at a place.
pub fn number_of(place: c_int) -> c_int {
    place - register::lowest()
}

/// Where the conversation that holds the listener of a number is kept, unless something else is there.
pub fn place_of_hold(fd: c_int) -> c_int {
    register::lowest_spare() + fd
}

/// The number of the conversation that a program before has kept for the listener of a number; None when there is none.
pub fn hold_of(fd: c_int, handoff: &SocketAddrUnix) -> Option<c_int> {
    let place = place_of_hold(fd);
    // SAFETY: nothing else runs in the process yet: a number is open all the while, or gives EBADF.
    let there = getpeername(unsafe { register::borrow(place) }?).ok()??;
    let there = SocketAddrUnix::try_from(there).ok()?;
    // It was bound under another name there.
    (directory(&there)? == directory(handoff)?).then_some(place)
}

fn directory(address: &SocketAddrUnix) -> Option<&[u8]> {
    let path = address.path_bytes()?;
    let end = path.iter().rposition(|&byte| byte == b'/')?;
    path.get(..end)
}

/// Has exec close what is kept exactly when it closes all numbers of the listener: without it the next program could not accept there,
/// and with it a program that is to have nothing of the listener would keep the port.
pub fn close_with(kept: Number, mut numbers: impl Iterator<Item = Number>) {
    let closes = |number| match fcntl_getfd(number) {
        Ok(flags) => flags.contains(FdFlags::CLOEXEC),
        // A child of vfork has closed it already.
        Err(_) => true,
    };
    let flags = match numbers.all(closes) {
        true => FdFlags::CLOEXEC,
        false => FdFlags::empty(),
    };
    // It fails only when it is not open.
    let _ = fcntl_setfd(kept, flags);
}

/// Has accept wait at the one no longer than at the other.
pub fn wait_alike(worker: impl AsFd, listener: Number) {
    if let Ok(Some(longest)) = socket_timeout(listener, Timeout::Recv) {
        // It fails for a time that the kernel has not given itself.
        let _ = set_socket_timeout(worker, Timeout::Recv, Some(longest));
    }
}

/// Whether two numbers are of one socket.
pub fn is_same(one: Number, other: Number) -> bool {
    let identity = |number| fstat(number).map(|status| (status.st_dev, status.st_ino));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
