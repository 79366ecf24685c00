//! Sockets: listening, accepting, closing, and what the server asks its listener.

use std::ffi::{c_int, c_uint, c_void};

use libc::{epoll_event, sockaddr, socklen_t};

use super::quietly;
use crate::listener::{self, Peer};
use crate::{connection, expiry, real, switch, table, wake};

/// listen(2).
///
/// # Safety
/// As listen(2).
#[no_mangle]
pub unsafe extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let done = unsafe { real::listen(switch::tcp(fd), backlog) };
    if done == 0 {
        quietly(|| listener::opened(fd));
    }
    done
}

/// accept(2).
///
/// # Safety
/// As accept(2).
#[no_mangle]
pub unsafe extern "C" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { listener::accept(fd, Peer { address, length }, 0) }
}

/// accept4(2).
///
/// # Safety
/// As accept4(2).
#[no_mangle]
pub unsafe extern "C" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { listener::accept(fd, Peer { address, length }, flags) }
}

/// close(2).
///
/// # Safety
/// As close(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let kind = table::kind(fd);
    if kind == table::UNKNOWN {
        // SAFETY: as the caller promises.
        return unsafe { real::close(fd) };
    }
    if kind == table::HIDDEN && !table::is_borrowed() {
        // A server that closes every number does not mean ours, of which it knows nothing.
        real::set_errno(libc::EBADF);
        return -1;
    }
    let slot = quietly(|| listener::closing(fd));
    // SAFETY: as the caller promises.
    let done = unsafe { real::close(fd) };
    if let Some(slot) = slot {
        quietly(|| connection::release(slot));
    }
    done
}

/// close_range(2). As with close, numbers of the shim's own stay open.
///
/// # Safety
/// As close_range(2).
#[no_mangle]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let closes = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
    if !closes || first > last || table::is_borrowed() {
        // SAFETY: as the caller promises.
        return unsafe { real::close_range(first, last, flags) };
    }
    let signed = |number: c_uint| c_int::try_from(number).unwrap_or(c_int::MAX);
    let mut from = first;
    for (fd, kind) in table::known(signed(first), signed(last)) {
        if kind != table::HIDDEN {
            // SAFETY: as the caller promises; one that is closed already is none the worse for it.
            unsafe { close(fd) };
            continue;
        }
        let own = fd.unsigned_abs();
        // SAFETY: as the caller promises.
        if from < own && unsafe { real::close_range(from, own - 1, flags) } < 0 {
            return -1;
        }
        from = own + 1;
    }
    if from > last {
        return 0;
    }
    // SAFETY: as the caller promises.
    unsafe { real::close_range(from, last, flags) }
}

/// A number has got a copy: of a listener it is served alike, and a connection that has two is not followed.
fn copied(fd: c_int, copy: c_int) {
    if copy < 0 || table::kind(fd) == table::UNKNOWN || table::is_borrowed() {
        return;
    }
    if let Some(entry) = table::connection(fd) {
        entry.give_up();
    }
    switch::share(fd, copy);
}

/// dup(2).
///
/// # Safety
/// As dup(2).
#[no_mangle]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let copy = unsafe { real::dup(fd) };
    quietly(|| copied(fd, copy));
    copy
}

/// Whether a command of fcntl(2) copies the descriptor.
fn copies(command: c_int) -> bool {
    matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

/// fcntl(2). Its third argument, where there is one, fits a register and comes in the one that it has here.
///
/// # Safety
/// As fcntl(2).
#[no_mangle]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let done = unsafe { real::fcntl(fd, command, argument) };
    if copies(command) {
        quietly(|| copied(fd, done));
    }
    done
}

/// fcntl(2) with offsets of 64 bits.
///
/// # Safety
/// As fcntl(2).
#[no_mangle]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let done = unsafe { real::fcntl64(fd, command, argument) };
    if copies(command) {
        quietly(|| copied(fd, done));
    }
    done
}

/// Puts one number over another, with what the shim knows of both.
fn over(fd: c_int, onto: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let known = |fd| table::kind(fd) != table::UNKNOWN;
    if fd == onto || !(known(fd) || known(onto)) || table::is_borrowed() {
        return call();
    }
    let slot = quietly(|| listener::closing(onto));
    let done = call();
    quietly(|| {
        if let Some(slot) = slot {
            connection::release(slot);
        }
        if done >= 0 {
            copied(fd, onto);
        }
    });
    done
}

/// dup2(2).
///
/// # Safety
/// As dup2(2).
#[no_mangle]
pub unsafe extern "C" fn dup2(fd: c_int, onto: c_int) -> c_int {
    // SAFETY: as the caller promises.
    over(fd, onto, || unsafe { real::dup2(fd, onto) })
}

/// dup3(2).
///
/// # Safety
/// As dup3(2).
#[no_mangle]
pub unsafe extern "C" fn dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int {
    // SAFETY: as the caller promises.
    over(fd, onto, || unsafe { real::dup3(fd, onto, flags) })
}

/// shutdown(2). A gated listener is shut down for all who share it, as the TCP listener would be.
///
/// # Safety
/// As shutdown(2).
#[no_mangle]
pub unsafe extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let tcp = switch::tcp(fd);
    if how != libc::SHUT_RD {
        if let Some(entry) = table::connection(fd) {
            quietly(|| connection::shut(entry));
        }
    }
    // SAFETY: as the caller promises.
    let done = unsafe { real::shutdown(tcp, how) };
    if tcp != fd && done == 0 {
        // Wakes whoever waits at the worker end; the attempt at the TCP listener then gives what it gives without a gate.
        // SAFETY: as the caller promises.
        quietly(|| unsafe { real::shutdown(fd, libc::SHUT_RD) });
    }
    done
}

/// connect(2).
///
/// # Safety
/// As connect(2).
#[no_mangle]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: as the caller promises.
    match quietly(|| unsafe { wake::mark(fd, address, length) }) {
        // SAFETY: the address lives until the call returns.
        Some(to) => unsafe { real::connect(fd, to.as_ptr().cast(), to.addr_len()) },
        // SAFETY: as the caller promises.
        None => unsafe { real::connect(fd, address, length) },
    }
}

/// getsockname(2).
///
/// # Safety
/// As getsockname(2).
#[no_mangle]
pub unsafe extern "C" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { real::getsockname(switch::tcp(fd), address, length) }
}

/// getpeername(2).
///
/// # Safety
/// As getpeername(2).
#[no_mangle]
pub unsafe extern "C" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { real::getpeername(switch::tcp(fd), address, length) }
}

/// getsockopt(2).
///
/// # Safety
/// As getsockopt(2).
#[no_mangle]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { real::getsockopt(switch::tcp(fd), level, name, value, length) }
}

/// setsockopt(2).
///
/// # Safety
/// As setsockopt(2).
#[no_mangle]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { real::setsockopt(switch::tcp(fd), level, name, value, length) }
}

/// epoll_ctl(2).
///
/// # Safety
/// As epoll_ctl(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: null, or as the caller promises.
    let wanted = unsafe { event.as_ref() };
    if let (Some(entry), Some(wanted)) = (table::connection(fd), wanted) {
        let waits = libc::EPOLLIN | libc::EPOLLOUT;
        if operation != libc::EPOLL_CTL_DEL {
            expiry::multiplexed(entry);
            if wanted.events & waits as u32 == libc::EPOLLIN as u32 {
                connection::wants_input(entry);
            }
        }
    }
    // SAFETY: as the caller promises.
    let done = unsafe { real::epoll_ctl(epoll, operation, fd, event) };
    if done == 0 && switch::under(fd).is_some() {
        switch::remember(epoll, operation, fd, wanted);
    }
    done
}
