//! CLOCK_MONOTONIC, by the function that the kernel maps into every process.
//!
//! Whatever would lead there, such as libc, has pages of its own in each process: here one pointer does, beside all else that
//! a request needs.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use libc::{c_int, clockid_t, timespec};

use crate::hot::HOT;

type Clock = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// The time in nanoseconds.
#[inline]
pub fn now_ns() -> u64 {
    let found = HOT.clock.load(Ordering::Relaxed);
    if found.is_null() {
        return trimtab_wire::shared::now_ns();
    }
    let mut now = MaybeUninit::<timespec>::uninit();
    // SAFETY: the kernel's function of this name has this signature, and fills in the time.
    let now = unsafe {
        let clock: Clock = std::mem::transmute(found);
        clock(libc::CLOCK_MONOTONIC, now.as_mut_ptr());
        now.assume_init()
    };
    (now.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec as u64)
}

/// Finds the function; without one the way is longer.
pub fn find() {
    // SAFETY: the names end with a zero byte; nothing is loaded, and what the kernel has mapped is never unmapped.
    let found = unsafe {
        let kernels = libc::dlopen(
            c"linux-vdso.so.1".as_ptr(),
            libc::RTLD_LAZY | libc::RTLD_NOLOAD,
        );
        if kernels.is_null() {
            return;
        }
        libc::dlsym(kernels, c"__vdso_clock_gettime".as_ptr())
    };
    HOT.clock.store(found, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_clock_that_the_gate_reads() {
        find();
        let before = trimtab_wire::shared::now_ns();
        let here = now_ns();
        assert!((before..=trimtab_wire::shared::now_ns()).contains(&here));
    }
}
