//! The functions that the hooks stand before: those of the next library, which is libc unless another one is preloaded too.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::atomic::Ordering;

use libc::{
    epoll_event, iovec, msghdr, nfds_t, off_t, pollfd, sigset_t, size_t, sockaddr, socklen_t,
    ssize_t, timespec, FILE,
};

use crate::hot::HOT;

/// The result of a function.
trait Returned {
    /// Of one that this libc lacks.
    const FAILED: Self;
}

impl Returned for c_int {
    const FAILED: Self = -1;
}

impl Returned for ssize_t {
    const FAILED: Self = -1;
}

impl Returned for () {
    const FAILED: Self = ();
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        #[allow(non_camel_case_types)]
        enum Which { $($name),* }

        const NAMES: &[&str] = &[$(concat!(stringify!($name), "\0")),*];
        /// How many there are.
        pub const FUNCTIONS: usize = NAMES.len();

        $(
            /// libc's function of this name.
            ///
            /// # Safety
            /// The pointers are what its manual page asks for.
            #[inline]
            pub unsafe fn $name($($arg: $type),*) -> $result {
                let found = find(Which::$name as usize);
                if found.is_null() {
                    set_errno(libc::ENOSYS);
                    return <$result>::FAILED;
                }
                // SAFETY: libc's function of this name has this signature.
                let function: unsafe extern "C" fn($($type),*) -> $result = unsafe { std::mem::transmute(found) };
                // SAFETY: the pointers are what its manual page asks for, as `# Safety` says.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

functions! {
    read(fd: c_int, to: *mut c_void, count: size_t) -> ssize_t;
    writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    poll(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int;
    close(fd: c_int) -> c_int;
    epoll_wait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int) -> c_int;
    epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    shutdown(fd: c_int, how: c_int) -> c_int;
    recv(fd: c_int, to: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t;
    sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    listen(fd: c_int, backlog: c_int) -> c_int;
    accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    dup(fd: c_int) -> c_int;
    execve(path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char) -> c_int;
    dup2(fd: c_int, onto: c_int) -> c_int;
    fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int;
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom(first: c_int) -> ();
    dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int;
    fclose(stream: *mut FILE) -> c_int;
    connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int;
    setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int;
    epoll_pwait(epoll: c_int, events: *mut epoll_event, most: c_int, timeout_ms: c_int, mask: *const sigset_t) -> c_int;
    epoll_pwait2(epoll: c_int, events: *mut epoll_event, most: c_int, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    __poll_chk(fds: *mut pollfd, count: nfds_t, timeout_ms: c_int, room: size_t) -> c_int;
    ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t) -> c_int;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    recvfrom(fd: c_int, to: *mut c_void, count: size_t, flags: c_int, address: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    __read_chk(fd: c_int, to: *mut c_void, count: size_t, room: size_t) -> ssize_t;
    __recv_chk(fd: c_int, to: *mut c_void, count: size_t, room: size_t, flags: c_int) -> ssize_t;
    send(fd: c_int, from: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    sendto(fd: c_int, from: *const c_void, count: size_t, flags: c_int, address: *const sockaddr, length: socklen_t) -> ssize_t;
    sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    ioctl(fd: c_int, request: libc::Ioctl, argument: *mut c_void) -> c_int;
}

#[inline]
fn find(index: usize) -> *mut c_void {
    match HOT.functions.get(index) {
        Some(cell) => {
            let found = cell.load(Ordering::Relaxed);
            if found.is_null() {
                look_up(index)
            } else {
                found
            }
        }
        None => std::ptr::null_mut(),
    }
}

/// Called before the constructor has run, or for a function that this libc lacks.
#[cold]
fn look_up(index: usize) -> *mut c_void {
    let (Some(cell), Some(name)) = (HOT.functions.get(index), NAMES.get(index)) else {
        return std::ptr::null_mut();
    };
    let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else {
        return std::ptr::null_mut();
    };
    // SAFETY: name ends with a zero byte.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
    cell.store(found, Ordering::Relaxed);
    found
}

/// Looks all of them up, so that none is looked up in a signal handler or between vfork and exec.
pub fn resolve() {
    for index in 0..NAMES.len() {
        look_up(index);
    }
}

/// Sets the thread's `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: libc gives the address of a live thread-local.
    unsafe { *libc::__errno_location() = value };
}

/// The thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: libc gives the address of a live thread-local.
    unsafe { *libc::__errno_location() }
}
