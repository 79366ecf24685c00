//! The libc functions that the library stands before. Each does its part around the real one and keeps `errno`.

mod input;
mod output;
mod sockets;
mod waiting;

use std::ffi::c_int;

use crate::{connection, real, table};

/// Reads from a descriptor and notes it.
#[inline]
fn reading(fd: c_int, read: impl FnOnce() -> isize) -> isize {
    match table::connection(fd) {
        None => read(),
        Some(entry) => {
            connection::wants_input(entry);
            let count = read();
            connection::has_read(entry, count);
            count
        }
    }
}

/// Writes to a descriptor and notes it.
#[inline]
fn writing(fd: c_int, wanted: usize, start: &[u8], write: impl FnOnce() -> isize) -> isize {
    let count = write();
    if let Some(entry) = table::connection(fd) {
        if count != connection::INTERIM_LEN || !start.starts_with(connection::INTERIM) {
            connection::has_written(entry, wanted, count);
        }
    }
    count
}

/// Bytes at a pointer that the server passed, as far as the interim answer is told by.
///
/// # Safety
/// `from` points to `count` readable bytes.
#[inline]
unsafe fn start<'a>(from: *const libc::c_void, count: usize) -> &'a [u8] {
    let length = count.min(connection::INTERIM.len());
    if from.is_null() || length < connection::INTERIM.len() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(from.cast(), length) }
}

/// Runs what a hook does besides the call, with `errno` as the call left it.
#[inline]
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let errno = real::errno();
    let done = work();
    real::set_errno(errno);
    done
}
