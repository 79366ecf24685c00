//! System calls by their numbers. libuv closes so, in Node as in uvloop: at libc's close a thread may be cancelled.
//!
//! And it sets io_uring up so, by which it then tells its epoll what to wait for. The shim would not see that a listener is among it, which is
//! to follow the file under the number. So under a gate it is told that this kernel has no io_uring, and does without, as all must that run
//! where it is forbidden.
//!
//! The call is made here and not by libc's function, which would have to be looked up: allocators call this one before they can give the memory
//! that a look-up may take.

use std::arch::asm;
use std::ffi::{c_int, c_long};

use super::sockets::close_any;
use crate::{environment, real};

/// libc's `syscall`.
///
/// # Safety
/// The arguments are what the system call of this number asks for.
#[cfg_attr(not(miri), no_mangle)]
#[cfg_attr(miri, allow(dead_code))]
pub unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    // Those that the server has not given are whatever lies in their places, as in libc.
    let arguments = [first, second, third, fourth, fifth, sixth];
    // SAFETY: the arguments are the server's own.
    let call = || unsafe { made(number, arguments) };
    if number == libc::SYS_close {
        return close_any(first as c_int, || call() as c_int).into();
    }
    if number == libc::SYS_io_uring_setup && environment::is_gated() {
        real::set_errno(libc::ENOSYS);
        return -1;
    }
    call()
}

/// Makes a system call; -1 with `errno` where it fails.
///
/// # Safety
/// As `syscall`.
#[inline]
unsafe fn made(
    number: c_long,
    [first, second, third, fourth, fifth, sixth]: [c_long; 6],
) -> c_long {
    let result: c_long;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel keeps all other registers and the stack; what it does in memory is what the caller asks for.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth, in("r9") sixth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second, in("x2") third, in("x3") fourth, in("x4") fifth, in("x5") sixth,
            options(nostack)
        );
    }
    if (-4095..0).contains(&result) {
        real::set_errno(-result as c_int);
        return -1;
    }
    result
}
