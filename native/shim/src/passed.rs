//! Listeners that processes of the server pass to each other over Unix sockets, as Python's fork server and HAProxy do.
//!
//! Under the number of a gated listener lies the worker end, at which another program could not accept: so the TCP listener is passed in
//! its place, and who receives it shows it to the gate, by which it gets the worker end itself. At once: the gate accepts at the TCP
//! listener without blocking, which it would not if the other program said otherwise of what it takes for its own.

use std::ffi::c_int;

use libc::{cmsghdr, msghdr};

use crate::{environment, listener, switch};

/// Longest control data that are looked at: as many descriptors as one message can carry (253), and some room for what goes with them.
const ROOM: usize = 2048;

/// A place for control data.
#[repr(C, align(8))]
struct Control([u8; ROOM]);

const _: () = assert!(std::mem::align_of::<Control>() >= std::mem::align_of::<cmsghdr>());

/// Sends a message, with the TCP listener in place of each number of a gated one in it.
///
/// # Safety
/// `message` is as sendmsg(2) asks for, and `send` sends the one that it is given.
pub unsafe fn sending(message: *const msghdr, send: impl FnOnce(*const msghdr) -> isize) -> isize {
    if message.is_null() || !environment::is_gated() {
        return send(message);
    }
    // SAFETY: it is not null.
    let copy = unsafe { message.read_unaligned() };
    if copy.msg_control.is_null() || !(1..=ROOM).contains(&copy.msg_controllen) {
        return send(message);
    }
    // SAFETY: it is the message.
    unsafe { sending_control(message, copy, send) }
}

/// As `sending`, of a message with control data that fit.
///
/// # Safety
/// `copy` is what stands at `message`.
#[cold]
unsafe fn sending_control(
    message: *const msghdr,
    mut copy: msghdr,
    send: impl FnOnce(*const msghdr) -> isize,
) -> isize {
    let mut control = Control([0; ROOM]);
    let (from, to) = (copy.msg_control.cast::<u8>(), control.0.as_mut_ptr());
    // SAFETY: sendmsg(2) asks for so many bytes there, and there is room for as many.
    unsafe { std::ptr::copy_nonoverlapping(from, to, copy.msg_controllen) };
    copy.msg_control = to.cast();
    let mut is_other = false;
    // SAFETY: the control data are in `control`.
    unsafe {
        each(&copy, |place| {
            let fd = place.read_unaligned();
            let tcp = switch::tcp(fd);
            place.write_unaligned(tcp);
            is_other |= tcp != fd;
        });
    }
    send(if is_other { &raw const copy } else { message })
}

/// A message has been received: shows the listeners in it to the gate.
///
/// # Safety
/// The kernel has written it there.
pub unsafe fn received(message: *const msghdr) {
    if !environment::is_gated() {
        return;
    }
    // SAFETY: it is there.
    let message = unsafe { message.read_unaligned() };
    // SAFETY: the kernel has written the control data.
    unsafe { each(&message, |place| listener::received(place.read_unaligned())) };
}

/// Does something with the place of each descriptor in the control data of a message.
///
/// # Safety
/// The control data are there, in their whole length.
unsafe fn each(message: &msghdr, mut with: impl FnMut(*mut c_int)) {
    let start = message.msg_control as usize;
    if start % std::mem::align_of::<cmsghdr>() != 0 {
        return;
    }
    let end = start.saturating_add(message.msg_controllen);
    // SAFETY: it looks at no more than the control data, which are aligned.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: what is not null lies in the control data.
    while let Some(one) = unsafe { header.as_ref() } {
        // SAFETY: as above; it only adds to the address.
        let data = unsafe { libc::CMSG_DATA(header) };
        let ends = (header as usize).saturating_add(one.cmsg_len).min(end);
        if (one.cmsg_level, one.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let count = ends.saturating_sub(data as usize) / size_of::<c_int>();
            for at in 0..count {
                // SAFETY: it ends before the control data and the header do.
                with(unsafe { data.cast::<c_int>().add(at) });
            }
        }
        // SAFETY: as above.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}
