//! Writing.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t};

use super::{hooks, writing, Bytes};
use crate::follower::Sent;
use crate::{connection, passed, table};

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

hooks! {
    #[link_section = ".text.hot"]
    fn write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t {
        // SAFETY: it writes these bytes.
        |call()| unsafe { writing(fd, Bytes::at(from, count), call) }
    }

    #[link_section = ".text.hot"]
    fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: it writes these bytes.
        |call()| unsafe { writing(fd, Bytes::Parts(parts, count), call) }
    }

    fn send(fd: c_int, from: *const c_void, count: size_t, flags: c_int) -> ssize_t {
        // SAFETY: it writes these bytes.
        |call()| unsafe { writing(fd, Bytes::at(from, count), call) }
    }

    fn sendto(
        fd: c_int, from: *const c_void, count: size_t, flags: c_int, address: *const sockaddr, length: socklen_t,
    ) -> ssize_t {
        // SAFETY: it writes these bytes.
        |call()| unsafe { writing(fd, Bytes::at(from, count), call) }
    }

    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        |call(message: *const msghdr)| {
            // SAFETY: the message is what sendmsg(2) asks for.
            let write = || unsafe { passed::sending(message, call) };
            // SAFETY: it writes these bytes.
            unsafe { writing(fd, Bytes::Of(message), write) }
        }
    }

    #[link_section = ".text.hot"]
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        |call()| unseen(to, count, call)
    }

    #[link_section = ".text.hot"]
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
        |call()| unseen(to, count, call)
    }
}
