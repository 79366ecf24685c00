//! Reading.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::{discarding, many, one, reading};
use crate::real;

/// A peek takes nothing, and asking for no bytes is not waiting for any.
#[inline]
fn takes(flags: c_int) -> bool {
    flags & (libc::MSG_PEEK | libc::MSG_OOB) == 0
}

/// As `reading`, with the flags of recv(2).
///
/// # Safety
/// As `reading`.
#[inline]
unsafe fn receiving(
    fd: c_int,
    flags: c_int,
    parts: &[iovec],
    receive: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if !takes(flags) {
        return receive();
    }
    // SAFETY: as the caller promises.
    unsafe {
        if flags & libc::MSG_TRUNC == 0 {
            reading(fd, parts, receive)
        } else {
            discarding(fd, receive)
        }
    }
}

/// read(2).
///
/// # Safety
/// As read(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn read(fd: c_int, to: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe { reading(fd, &one(to, count), || real::read(fd, to, count)) }
}

/// readv(2).
///
/// # Safety
/// As readv(2).
#[no_mangle]
pub unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe {
        let all = many(parts, usize::try_from(count).unwrap_or(0));
        reading(fd, all, || real::readv(fd, parts, count))
    }
}

/// recv(2).
///
/// # Safety
/// As recv(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn recv(fd: c_int, to: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    let call = || unsafe { real::recv(fd, to, count, flags) };
    // SAFETY: as the caller promises.
    unsafe { receiving(fd, flags, &one(to, count), call) }
}

/// recvfrom(2).
///
/// # Safety
/// As recvfrom(2).
#[no_mangle]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    count: size_t,
    flags: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    let call = || unsafe { real::recvfrom(fd, to, count, flags, address, length) };
    // SAFETY: as the caller promises.
    unsafe { receiving(fd, flags, &one(to, count), call) }
}

/// recvmsg(2).
///
/// # Safety
/// As recvmsg(2).
#[no_mangle]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    let call = || unsafe { real::recvmsg(fd, message, flags) };
    if message.is_null() {
        return call();
    }
    // SAFETY: as the caller promises.
    unsafe {
        receiving(
            fd,
            flags,
            many((*message).msg_iov, (*message).msg_iovlen),
            call,
        )
    }
}

/// read(2) as fortified programs call it.
///
/// # Safety
/// As read(2).
#[no_mangle]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    to: *mut c_void,
    count: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe {
        reading(fd, &one(to, count), || {
            real::__read_chk(fd, to, count, room)
        })
    }
}

/// recv(2) as fortified programs call it.
///
/// # Safety
/// As recv(2).
#[no_mangle]
pub unsafe extern "C" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    count: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as the caller promises.
    let call = || unsafe { real::__recv_chk(fd, to, count, room, flags) };
    // SAFETY: as the caller promises.
    unsafe { receiving(fd, flags, &one(to, count), call) }
}
