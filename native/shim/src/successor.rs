//! The program that a server executes to take over its listeners, such as the next version of nginx: it gets the shim as the
//! server did, also where the server makes it an environment of its own. Under the number of a gated listener it could not accept
//! without.

use std::ffi::{c_char, CStr};
use std::ptr::null;

use crate::{environment, switch};

/// Variables that a program may be given, ours and the end of the list included; one with more is left as it is.
const MOST: usize = 512;
/// Without this one the shim does nothing in a program.
const MARK: &[u8] = b"TRIMTAB_SHARED=";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// The environment for a program that is about to be executed, in place of the one given; None to leave that.
///
/// Between fork and exec: it neither allocates nor locks.
///
/// # Safety
/// `given` is null, or a list of strings that ends with a null pointer, as execve(2) asks for.
pub unsafe fn environment(given: *const *const c_char) -> Option<[*const c_char; MOST]> {
    let ours = &environment::get()?.variables;
    if given.is_null() || !switch::leaves_listeners() {
        return None;
    }
    let mut list = [null(); MOST];
    let mut places = list.iter_mut();
    for at in 0.. {
        // SAFETY: it is within the list, which goes on up to a null pointer.
        let one = unsafe { *given.add(at) };
        if one.is_null() {
            break;
        }
        // SAFETY: what is not null is a string.
        let text = unsafe { CStr::from_ptr(one) }.to_bytes();
        if text.starts_with(MARK) {
            return None;
        }
        if !text.starts_with(PRELOAD) {
            *places.next()? = one;
        }
    }
    for variable in ours {
        *places.next()? = variable.as_ptr();
    }
    places.next().is_some().then_some(list)
}
