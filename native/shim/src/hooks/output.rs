//! Writing.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

use super::{many, one, writing};
use crate::follower::Sent;
use crate::{connection, real, table};

/// write(2).
///
/// # Safety
/// As write(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe { writing(fd, &one(from, count), || real::write(fd, from, count)) }
}

/// writev(2).
///
/// # Safety
/// As writev(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as the caller promises.
    unsafe {
        let all = many(parts, usize::try_from(count).unwrap_or(0));
        writing(fd, all, || real::writev(fd, parts, count))
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
    // SAFETY: as the caller promises.
    unsafe { writing(fd, &one(from, count), || real::send(fd, from, count, flags)) }
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
    // SAFETY: as the caller promises.
    unsafe {
        writing(fd, &one(from, count), || {
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
        let all = many((*message).msg_iov, (*message).msg_iovlen);
        writing(fd, all, || real::sendmsg(fd, message, flags))
    }
}

/// Has the kernel write what the process does not see, and notes it.
#[inline]
fn unseen(fd: c_int, wanted: usize, write: impl FnOnce() -> isize) -> isize {
    let count = write();
    if let Some(entry) = table::connection(fd) {
        let sent =
            entry.follow(|follower| follower.sent_unseen(count.max(0).unsigned_abs() as u64));
        connection::has_written(entry, wanted, count, sent.unwrap_or(Sent::UNKNOWN));
    }
    count
}

/// sendfile(2).
///
/// # Safety
/// As sendfile(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    unseen(to, count, || unsafe {
        real::sendfile(to, from, offset, count)
    })
}

/// sendfile(2) with offsets of 64 bits.
///
/// # Safety
/// As sendfile(2).
#[no_mangle]
#[link_section = ".text.hot"]
pub unsafe extern "C" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    unseen(to, count, || unsafe {
        real::sendfile64(to, from, offset, count)
    })
}
