//! Executing other programs.

use std::ffi::{c_char, c_int};

use crate::{real, successor};

/// execve(2).
///
/// # Safety
/// As execve(2).
#[no_mangle]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    variables: *const *const c_char,
) -> c_int {
    // SAFETY: as the caller promises.
    let ours = unsafe { successor::environment(variables) };
    let variables = ours.as_ref().map_or(variables, |list| list.as_ptr());
    // SAFETY: as the caller promises; the list lives until the call returns.
    unsafe { real::execve(path, arguments, variables) }
}
