//! The kernel's figures of a TCP connection.

use std::ffi::c_int;
use std::mem::{size_of, MaybeUninit};

use libc::socklen_t;

use crate::real;

/// The beginning of struct tcp_info, as Linux has it since 4.1.
#[repr(C)]
pub struct Info {
    _states: [u8; 8],
    _words: [u32; 9],
    /// Time since the last byte was sent.
    pub last_data_sent_ms: u32,
    _more_words: [u32; 14],
    _rates: [u64; 2],
    _bytes_acked: u64,
    /// Bytes that have come in order, and one more after the last.
    pub bytes_received: u64,
}

const _: () = assert!(std::mem::offset_of!(Info, bytes_received) == 128);

/// Reads it; None when this is not TCP, or the kernel is older.
pub fn info(fd: c_int) -> Option<Info> {
    let mut info = MaybeUninit::<Info>::zeroed();
    let mut length = size_of::<Info>() as socklen_t;
    let before = real::errno();
    // SAFETY: info has `length` bytes.
    let done = unsafe {
        real::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut length,
        )
    };
    real::set_errno(before);
    // SAFETY: it is all numbers, and began as zeros.
    let info = unsafe { info.assume_init() };
    (done == 0 && length as usize == size_of::<Info>()).then_some(info)
}
