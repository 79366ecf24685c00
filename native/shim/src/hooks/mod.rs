//! The libc functions that the library stands before. Each does its part around the real one and keeps `errno`.

mod input;
mod output;
mod programs;
mod sockets;
mod waiting;

use std::ffi::{c_int, c_void};

use libc::iovec;

use crate::follower::Sent;
use crate::{connection, phase, real, table};

/// Reads from a descriptor and notes it.
///
/// # Safety
/// After `read` has returned a count, so many bytes of the parts may be read.
#[inline]
unsafe fn reading(fd: c_int, parts: &[iovec], read: impl FnOnce() -> isize) -> isize {
    let Some(entry) = table::connection(fd) else {
        return read();
    };
    connection::wants_input(entry);
    if !phase::may_read(entry) {
        return 0;
    }
    let count = read();
    // SAFETY: as the caller promises.
    connection::has_read(entry, count, unsafe { pieces(parts, count) });
    count
}

/// Has bytes thrown away unseen, as recv(2) with MSG_TRUNC does on TCP: nothing is in the buffer, which may be null.
fn discarding(fd: c_int, receive: impl FnOnce() -> isize) -> isize {
    if let Some(entry) = table::connection(fd) {
        entry.give_up();
    }
    // SAFETY: of no parts no bytes are read.
    unsafe { reading(fd, &[], receive) }
}

/// Writes to a descriptor and notes it.
///
/// # Safety
/// The parts may be read.
#[inline]
unsafe fn writing(fd: c_int, parts: &[iovec], write: impl FnOnce() -> isize) -> isize {
    let count = write();
    let Some(entry) = table::connection(fd) else {
        return count;
    };
    // SAFETY: as the caller promises.
    let sent = entry.follow(|follower| follower.sent(unsafe { pieces(parts, count) }));
    // SAFETY: as the caller promises.
    let interim = count == connection::INTERIM_LEN
        && unsafe { pieces(parts, count) }
            .next()
            .is_some_and(|start| start.starts_with(connection::INTERIM));
    if !interim {
        let wanted = parts.iter().map(|part| part.iov_len).sum();
        connection::has_written(entry, wanted, count, sent.unwrap_or(Sent::UNKNOWN));
    }
    count
}

/// The first bytes of the parts of a vector, as many as a call has said; none when it failed.
///
/// # Safety
/// So many may be read.
#[inline]
unsafe fn pieces(parts: &[iovec], count: isize) -> impl Iterator<Item = &[u8]> + Clone {
    let mut left = usize::try_from(count).unwrap_or(0);
    parts.iter().map_while(move |part| {
        let length = part.iov_len.min(left);
        left -= length;
        let is_there = length > 0 && !part.iov_base.is_null();
        // SAFETY: as the caller promises.
        is_there.then(|| unsafe { std::slice::from_raw_parts(part.iov_base.cast(), length) })
    })
}

/// A vector with this one part.
#[inline]
fn one(base: *const c_void, length: usize) -> [iovec; 1] {
    [iovec {
        iov_base: base.cast_mut(),
        iov_len: length,
    }]
}

/// The parts of a vector that the server passed.
///
/// # Safety
/// `parts` is null or points to `count` of them.
#[inline]
unsafe fn many<'a>(parts: *const iovec, count: usize) -> &'a [iovec] {
    if parts.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(parts, count) }
}

/// Runs what a hook does besides the call, with `errno` as the call left it.
#[inline]
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let errno = real::errno();
    let done = work();
    real::set_errno(errno);
    done
}
