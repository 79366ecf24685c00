//! Writing.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

use super::{start, writing};
use crate::{real, table};

/// Bytes of a vector, and its first part's beginning; nothing for descriptors that are not followed.
///
/// # Safety
/// `parts` points to `count` parts, each readable.
#[inline]
unsafe fn sum<'a>(fd: c_int, parts: *const iovec, count: usize) -> (usize, &'a [u8]) {
    if table::connection(fd).is_none() || parts.is_null() {
        return (0, &[]);
    }
    // SAFETY: as the caller promises.
    let parts = unsafe { std::slice::from_raw_parts(parts, count) };
    let wanted = parts.iter().map(|part| part.iov_len).sum();
    let first = parts.iter().find(|part| part.iov_len > 0);
    // SAFETY: as the caller promises.
    (
        wanted,
        first.map_or(&[], |part| unsafe { start(part.iov_base, part.iov_len) }),
    )
}

/// write(2).
///
/// # Safety
/// As write(2).
#[no_mangle]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t {
    if table::connection(fd).is_none() {
        // SAFETY: as the caller promises.
        return unsafe { real::write(fd, from, count) };
    }
    // SAFETY: as the caller promises.
    unsafe {
        writing(fd, count, start(from, count), || {
            real::write(fd, from, count)
        })
    }
}

/// writev(2).
///
/// # Safety
/// As writev(2).
#[no_mangle]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe {
        let (wanted, first) = sum(fd, parts, usize::try_from(count).unwrap_or(0));
        writing(fd, wanted, first, || real::writev(fd, parts, count))
    }
}

/// send(2).
///
/// # Safety
/// As send(2).
#[no_mangle]
pub unsafe extern "C" fn send(
    fd: c_int,
    from: *const c_void,
    count: size_t,
    flags: c_int,
) -> ssize_t {
    if table::connection(fd).is_none() {
        // SAFETY: as the caller promises.
        return unsafe { real::send(fd, from, count, flags) };
    }
    // SAFETY: as the caller promises.
    unsafe {
        writing(fd, count, start(from, count), || {
            real::send(fd, from, count, flags)
        })
    }
}

/// sendto(2).
///
/// # Safety
/// As sendto(2).
#[no_mangle]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    from: *const c_void,
    count: size_t,
    flags: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> ssize_t {
    if table::connection(fd).is_none() {
        // SAFETY: as the caller promises.
        return unsafe { real::sendto(fd, from, count, flags, address, length) };
    }
    // SAFETY: as the caller promises.
    unsafe {
        writing(fd, count, start(from, count), || {
            real::sendto(fd, from, count, flags, address, length)
        })
    }
}

/// sendmsg(2).
///
/// # Safety
/// As sendmsg(2).
#[no_mangle]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if table::connection(fd).is_none() || message.is_null() {
        // SAFETY: as the caller promises.
        return unsafe { real::sendmsg(fd, message, flags) };
    }
    // SAFETY: as the caller promises.
    unsafe {
        let (wanted, first) = sum(fd, (*message).msg_iov, (*message).msg_iovlen);
        writing(fd, wanted, first, || real::sendmsg(fd, message, flags))
    }
}

/// sendfile(2).
///
/// # Safety
/// As sendfile(2).
#[no_mangle]
pub unsafe extern "C" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    writing(to, count, &[], || unsafe {
        real::sendfile(to, from, offset, count)
    })
}

/// sendfile(2) with offsets of 64 bits.
///
/// # Safety
/// As sendfile(2).
#[no_mangle]
pub unsafe extern "C" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    writing(to, count, &[], || unsafe {
        real::sendfile64(to, from, offset, count)
    })
}
