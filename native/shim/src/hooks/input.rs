//! Reading.

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::{hooks, quietly, reading, Bytes};
use crate::{passed, table};

/// None of these takes bytes of the connection: a peek, the urgent byte, and what the kernel tells of bytes that were sent.
const TAKES_NONE: c_int = libc::MSG_PEEK | libc::MSG_OOB | libc::MSG_ERRQUEUE;

/// As `reading`, with the flags of recv(2).
///
/// # Safety
/// As `reading`.
#[inline]
unsafe fn receiving(
    fd: c_int,
    flags: c_int,
    mut bytes: Bytes,
    receive: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if flags & TAKES_NONE != 0 {
        return receive();
    }
    if flags & libc::MSG_TRUNC != 0 {
        // On TCP they are thrown away unseen: nothing is in the buffer, which may be null.
        bytes = Bytes::Discarded;
        if let Some(entry) = table::connection(fd) {
            entry.give_up();
        }
    }
    // SAFETY: `receive` reads into these bytes, or into none.
    unsafe { reading(fd, bytes, receive) }
}

hooks! {
    #[link_section = ".text.hot"]
    fn read(fd: c_int, to: *mut c_void, count: size_t) -> ssize_t {
        // SAFETY: it reads into these bytes.
        |call()| unsafe { reading(fd, Bytes::at(to, count), call) }
    }

    fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
        // SAFETY: it reads into these bytes.
        |call()| unsafe { reading(fd, Bytes::Parts(parts, count), call) }
    }

    #[link_section = ".text.hot"]
    fn recv(fd: c_int, to: *mut c_void, count: size_t, flags: c_int) -> ssize_t {
        // SAFETY: it reads into these bytes.
        |call()| unsafe { receiving(fd, flags, Bytes::at(to, count), call) }
    }

    fn recvfrom(
        fd: c_int, to: *mut c_void, count: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t,
    ) -> ssize_t {
        // SAFETY: it reads into these bytes.
        |call()| unsafe { receiving(fd, flags, Bytes::at(to, count), call) }
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        |call()| {
            let receive = || {
                let count = call();
                if count >= 0 {
                    // SAFETY: the kernel has written the message there.
                    quietly(|| unsafe { passed::received(message) });
                }
                count
            };
            // SAFETY: it reads into these bytes.
            unsafe { receiving(fd, flags, Bytes::Of(message), receive) }
        }
    }

    fn __read_chk(fd: c_int, to: *mut c_void, count: size_t, room: size_t) -> ssize_t {
        // SAFETY: it reads into these bytes.
        |call()| unsafe { reading(fd, Bytes::at(to, count), call) }
    }

    fn __recv_chk(fd: c_int, to: *mut c_void, count: size_t, room: size_t, flags: c_int) -> ssize_t {
        // SAFETY: it reads into these bytes.
        |call()| unsafe { receiving(fd, flags, Bytes::at(to, count), call) }
    }
}
