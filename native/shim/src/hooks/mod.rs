//! The libc functions that the library stands before. Each does its part around the real one and keeps `errno`.
//!
//! The server calls a hook as it would call libc's function. So its pointers are what that function's manual page asks for, from
//! the call until it returns; this is the contract that each hook's `# Safety` names, and nothing more is believed of them. What the
//! kernel would refuse with EFAULT is first given to the kernel, and looked at only when that has taken it.
//!
//! Some calls must be understood before they are made. Of these a pointer is looked at first, unless it is null, and one that leads
//! nowhere ends the server:
//!
//! - the descriptor of a poll of just one;
//! - the event that is to be set for a connection in an epoll;
//! - a timeout in nanoseconds, where a gate may have to be looked for or idle connections may have to be ended;
//! - the address to connect to, in a process that has a gated listener of its own;
//! - the environment of a program that is executed, where a gated listener stays open in it;
//! - a message that is sent, and its control data, under a gate: a gated listener may be passed in it.
//!
//! And the client's address of a connection that the gate has sent is written by the shim.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod by_number;
mod input;
mod output;
mod programs;
mod sockets;
mod waiting;

use std::ffi::{c_int, c_void};

use libc::{iovec, msghdr};

use crate::follower::Sent;
use crate::{connection, phase, real, table};

/// Hooks by their libc functions. In the body the name between the bars calls the real one with the server's own arguments, but for those that
/// it takes itself: they may be any number.
macro_rules! hooks {
    ($($(#[$attribute:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty {
        |$call:ident($($own:ident: $own_type:ty),*)| $body:expr
    })*) => {$(
        #[doc = concat!("libc's `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// The pointers are what the manual page of this function asks for.
        $(#[$attribute])*
        // Miri has these functions itself.
        #[cfg_attr(not(miri), no_mangle)]
        #[cfg_attr(miri, allow(dead_code))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            // SAFETY: the pointers are the server's own, which are what this function asks for.
            let $call = |$($own: $own_type),*| unsafe { $crate::real::$name($($arg),*) };
            $body
        }
    )*};
}
use hooks;

/// Bytes that a call reads or writes, as the server names them.
#[derive(Clone, Copy)]
enum Bytes {
    /// The kernel throws them away.
    Discarded,
    /// In one part.
    At(iovec),
    /// In so many parts.
    Parts(*const iovec, c_int),
    /// In the parts of a message.
    Of(*const msghdr),
}

impl Bytes {
    #[inline]
    fn at(start: *const c_void, length: usize) -> Self {
        Self::At(iovec {
            iov_base: start.cast_mut(),
            iov_len: length,
        })
    }

    /// Whether the call asks for none.
    #[inline]
    fn are_none(&self) -> bool {
        matches!(self, Self::At(one) if one.iov_len == 0)
    }

    /// Their parts; none when the call failed.
    ///
    /// # Safety
    /// A call that named these bytes has returned this count: one above 0 says that vector and message are there.
    #[inline]
    unsafe fn parts(&self, count: isize) -> &[iovec] {
        let (first, number) = match *self {
            _ if count <= 0 => return &[],
            Self::Discarded => return &[],
            Self::At(ref one) => return std::slice::from_ref(one),
            Self::Parts(first, number) => (first, usize::try_from(number).unwrap_or(0)),
            // SAFETY: the kernel has read the message from there.
            Self::Of(message) => unsafe {
                ((*message).msg_iov.cast_const(), (*message).msg_iovlen)
            },
        };
        if first.is_null() || number == 0 {
            return &[];
        }
        // SAFETY: the kernel has read so many parts from there.
        unsafe { std::slice::from_raw_parts(first, number) }
    }

    /// The first of them, as many as the call has said; none when it failed.
    ///
    /// # Safety
    /// As `parts`, and they do not change before the server goes on.
    #[inline]
    unsafe fn first(&self, count: isize) -> impl Iterator<Item = &[u8]> + Clone {
        let mut left = usize::try_from(count).unwrap_or(0);
        // SAFETY: the call has returned this count.
        let parts = unsafe { self.parts(count) };
        parts.iter().map_while(move |part| {
            let length = part.iov_len.min(left);
            left -= length;
            let is_there = length > 0 && !part.iov_base.is_null();
            // SAFETY: the kernel has read them from there or written them there.
            is_there.then(|| unsafe { std::slice::from_raw_parts(part.iov_base.cast(), length) })
        })
    }

    /// How many the call names; 0 when it failed.
    ///
    /// # Safety
    /// As `parts`.
    #[inline]
    unsafe fn length(&self, count: isize) -> usize {
        // SAFETY: the call has returned this count.
        let parts = unsafe { self.parts(count) };
        parts
            .iter()
            .fold(0, |all, part| usize::saturating_add(all, part.iov_len))
    }
}

/// Reads from a descriptor and notes it.
///
/// # Safety
/// `read` reads into these bytes and returns how many, or what is not more than 0.
#[inline]
unsafe fn reading(fd: c_int, bytes: Bytes, read: impl FnOnce() -> isize) -> isize {
    let Some(entry) = table::connection(fd).filter(|_| !bytes.are_none()) else {
        return read();
    };
    connection::wants_input(entry);
    if !phase::may_read(entry) {
        return 0;
    }
    let count = read();
    // SAFETY: the call has returned this count for them.
    connection::has_read(entry, count, unsafe { bytes.first(count) });
    count
}

/// Writes to a descriptor and notes it.
///
/// # Safety
/// `write` writes these bytes and returns how many, or what is not more than 0.
#[inline]
unsafe fn writing(fd: c_int, bytes: Bytes, write: impl FnOnce() -> isize) -> isize {
    let count = write();
    let Some(entry) = table::connection(fd) else {
        return count;
    };
    // SAFETY: the call has returned this count for them.
    let written = || unsafe { bytes.first(count) };
    let sent = entry.follow(|follower| follower.sent(written()));
    let interim = (1..=connection::INTERIM_MOST).contains(&count)
        && written()
            .next()
            .is_some_and(|start| start.starts_with(connection::INTERIM));
    if !interim {
        // SAFETY: the call has returned this count for them.
        let wanted = unsafe { bytes.length(count) };
        connection::has_written(entry, wanted, count, sent.unwrap_or(Sent::UNKNOWN));
    }
    count
}

/// Runs what a hook does besides the call, with `errno` as the call left it.
#[inline]
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let errno = real::errno();
    let done = work();
    real::set_errno(errno);
    done
}
