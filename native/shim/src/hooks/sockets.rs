//! Sockets: listening, accepting, closing, and what the server asks its listener.

use std::ffi::{c_int, c_uint, c_void};

use libc::{epoll_event, sockaddr, socklen_t, FILE};

use super::{hooks, quietly};
use crate::listener::{self, Peer};
use crate::{connection, expiry, real, rebind, register, switch, table, wake};

/// Closes a number of which something is known, and gives back the slot of its connection.
fn closing(fd: c_int, close: impl FnOnce() -> c_int) -> c_int {
    let slot = quietly(|| listener::closing(fd));
    let done = close();
    if let Some(slot) = slot {
        quietly(|| connection::release(slot));
    }
    if table::kind(fd) == table::GATED {
        // In a child of vfork, which closes a number of a listener that its parent keeps.
        quietly(|| switch::flagged(fd));
    }
    done
}

/// Closes a number, whatever is known of it.
#[inline]
pub fn close_any(fd: c_int, close: impl FnOnce() -> c_int) -> c_int {
    match table::kind(fd) {
        table::UNKNOWN => close(),
        table::HIDDEN => {
            // A server that closes every number does not mean ours, of which it knows nothing.
            real::set_errno(libc::EBADF);
            -1
        }
        _ => closing(fd, close),
    }
}

/// Closes numbers but for the shim's own, of which a server that closes every number knows nothing.
///
/// # Arguments
/// - `close`: closes one number.
/// - `close_all`: closes the numbers from one to another.
fn closing_range(
    first: c_uint,
    last: c_uint,
    close: impl Fn(c_int) -> c_int,
    close_all: impl Fn(c_uint, c_uint) -> c_int,
) -> c_int {
    let signed = |number: c_uint| c_int::try_from(number).unwrap_or(c_int::MAX);
    let mut from = first;
    for (fd, kind) in table::known(signed(first), signed(last)) {
        if kind != table::HIDDEN {
            // Closed again with the range, which is none the worse for it.
            closing(fd, || close(fd));
            continue;
        }
        let own = fd.unsigned_abs();
        if from < own && close_all(from, own - 1) < 0 {
            return -1;
        }
        from = own + 1;
    }
    if from > last {
        return 0;
    }
    close_all(from, last)
}

/// Closes the numbers from one to another, as closefrom(3) does: whatever the kernel can do.
///
/// # Arguments
/// - `close_from`: closes a number and all above it.
fn close_each(first: c_uint, last: c_uint, close_from: impl Fn(c_int)) -> c_int {
    // SAFETY: any number may be closed that the server asks to close.
    if unsafe { real::close_range(first, last, 0) } == 0 {
        return 0;
    }
    let Ok(first) = c_int::try_from(first) else {
        return 0;
    };
    match c_int::try_from(last) {
        Ok(last) => (first..=last).for_each(|fd| {
            // SAFETY: as above.
            unsafe { real::close(fd) };
        }),
        Err(_) => close_from(first),
    }
    0
}

/// A number has got a copy: of a listener it is served alike, and a connection that has two is not followed.
fn copied(fd: c_int, copy: c_int) {
    if copy < 0 || table::kind(fd) == table::UNKNOWN || table::is_borrowed() {
        return;
    }
    if let Some(entry) = table::connection(fd) {
        entry.give_up();
    }
    switch::share(fd, copy);
}

/// A call of fcntl(2), which by some commands copies the descriptor, or says whether exec closes it.
fn controlling(fd: c_int, command: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let done = call();
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        quietly(|| copied(fd, done));
    } else if command == libc::F_SETFD && done == 0 {
        quietly(|| switch::flagged(fd));
    }
    done
}

/// Puts one number over another, with what the shim knows of both.
fn over(fd: c_int, onto: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let known = |fd| table::kind(fd) != table::UNKNOWN;
    if fd == onto || !(known(fd) || known(onto)) || table::is_borrowed() {
        return call();
    }
    quietly(|| register::make_way(onto));
    let done = closing(onto, call);
    if done >= 0 {
        quietly(|| copied(fd, onto));
    }
    done
}

hooks! {
    fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        // SAFETY: the address is what bind(2) asks for, and the call's.
        |call()| unsafe { rebind::bind(fd, address, length, call) }
    }

    fn listen(fd: c_int, backlog: c_int) -> c_int {
        |call(fd: c_int)| {
            let done = call(switch::tcp(fd));
            if done == 0 {
                quietly(|| listener::opened(fd));
            }
            done
        }
    }

    fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int {
        // SAFETY: the call is what accept(2) asks for, with this address and length.
        |call()| unsafe { listener::accept(fd, Peer { address, length }, flags, call) }
    }

    fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        // SAFETY: the call is what accept(2) asks for, with this address and length.
        |call()| unsafe { listener::accept(fd, Peer { address, length }, 0, call) }
    }

    #[link_section = ".text.hot"]
    fn close(fd: c_int) -> c_int {
        |call()| close_any(fd, call)
    }

    fn fclose(stream: *mut FILE) -> c_int {
        |call()| {
            // SAFETY: fclose(3) asks for an open stream.
            let fd = quietly(|| unsafe { libc::fileno(stream) });
            match table::kind(fd) {
                // The stream closes its number by a call of libc's own.
                table::CONNECTION => closing(fd, call),
                _ => call(),
            }
        }
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        |call(first: c_uint, last: c_uint)| {
            if flags & libc::CLOSE_RANGE_CLOEXEC as c_int != 0 || first > last {
                let done = call(first, last);
                // The range may hold the number of a listener without what is kept of it, or the other way round.
                quietly(switch::flagged_in_part);
                return done;
            }
            if flags & libc::CLOSE_RANGE_UNSHARE as c_int != 0 && call(c_uint::MAX, c_uint::MAX) < 0 {
                // Its table is made its own before anything is closed: nobody else loses what is closed here.
                return -1;
            }
            // SAFETY: any number may be closed that the server asks to close.
            closing_range(first, last, |fd| unsafe { real::close(fd) }, call)
        }
    }

    fn closefrom(first: c_int) -> () {
        |call(first: c_int)| {
            // It reports nothing, and where the kernel lacks close_range(2) it does without.
            quietly(|| closing_range(
                first.max(0).unsigned_abs(),
                c_uint::MAX,
                // SAFETY: any number may be closed that the server asks to close.
                |fd| unsafe { real::close(fd) },
                |first, last| close_each(first, last, call),
            ));
        }
    }

    fn dup(fd: c_int) -> c_int {
        |call()| {
            let copy = call();
            quietly(|| copied(fd, copy));
            copy
        }
    }

    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        // Where there is a third argument it fits a register and comes in the one that it has here.
        |call()| controlling(fd, command, call)
    }

    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        |call()| controlling(fd, command, call)
    }

    fn ioctl(fd: c_int, request: libc::Ioctl, argument: *mut c_void) -> c_int {
        // As of fcntl.
        |call()| {
            let done = call();
            // By these Python has exec close a number, or leave it open.
            if matches!(request, libc::FIOCLEX | libc::FIONCLEX) && done == 0 {
                quietly(|| switch::flagged(fd));
            }
            done
        }
    }

    fn dup2(fd: c_int, onto: c_int) -> c_int {
        |call()| over(fd, onto, call)
    }

    fn dup3(fd: c_int, onto: c_int, flags: c_int) -> c_int {
        |call()| over(fd, onto, call)
    }

    fn shutdown(fd: c_int, how: c_int) -> c_int {
        // A gated listener is shut down for all who share it, as the TCP listener would be.
        |call(fd: c_int, how: c_int)| {
            let tcp = switch::tcp(fd);
            if how != libc::SHUT_RD {
                if let Some(entry) = table::connection(fd) {
                    quietly(|| connection::shut(entry));
                }
            }
            let done = call(tcp, how);
            if tcp != fd && done == 0 && how != libc::SHUT_WR {
                // Wakes whoever waits at the worker end; the attempt at the TCP listener then gives what it gives without a gate.
                quietly(|| call(fd, libc::SHUT_RD));
            }
            done
        }
    }

    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
        // SAFETY: connect(2) asks for an address of this length, or refuses a null one.
        |call(fd: c_int)| match quietly(|| unsafe { wake::mark(fd, address, length) }) {
            // SAFETY: the address lives until the call returns.
            Some(to) => unsafe { real::connect(fd, to.as_ptr().cast(), to.addr_len()) },
            // To no address, by which HAProxy has a listener rest until it listens there again.
            None => call(switch::tcp(fd)),
        }
    }

    fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        |call(fd: c_int)| call(switch::tcp(fd))
    }

    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        |call(fd: c_int)| call(switch::tcp(fd))
    }

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int {
        |call(fd: c_int)| call(switch::tcp(fd))
    }

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int {
        |call(fd: c_int)| {
            let tcp = switch::tcp(fd);
            let done = call(tcp);
            if tcp != fd && done == 0 && (level, name) == (libc::SOL_SOCKET, libc::SO_RCVTIMEO) {
                // By this accept waits no longer, and it waits here.
                quietly(|| call(fd));
            }
            done
        }
    }

    #[link_section = ".text.hot"]
    fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> c_int {
        |call()| {
            let adds = operation != libc::EPOLL_CTL_DEL && !event.is_null();
            if operation == libc::EPOLL_CTL_ADD && table::kind(fd) == table::UNKNOWN {
                // Before it accepts: what is registered now is to follow the file under the number.
                quietly(|| listener::registered(fd));
            }
            if let Some(entry) = table::connection(fd).filter(|_| adds) {
                // Before the call: after it another thread may have the next request already.
                let waits = libc::EPOLLIN | libc::EPOLLOUT;
                expiry::multiplexed(entry);
                // SAFETY: it is not null, and epoll_ctl(2) asks for an event there; the structure is packed, so only its field is read.
                if unsafe { (*event).events } & waits as u32 == libc::EPOLLIN as u32 {
                    connection::wants_input(entry);
                }
            }
            let done = call();
            if done == 0 && switch::under(fd).is_some() {
                // SAFETY: the kernel has read it from there.
                let wanted = adds.then(|| unsafe { event.read_unaligned() });
                switch::remember(epoll, operation, fd, wanted.as_ref());
            }
            done
        }
    }
}
