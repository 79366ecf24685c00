//! Executing other programs.

use std::ffi::{c_char, c_int};

use super::hooks;
use crate::{real, successor};

hooks! {
    fn execve(path: *const c_char, arguments: *const *const c_char, variables: *const *const c_char) -> c_int {
        |call()| {
            // SAFETY: `variables` is null or a list of strings that ends with a null pointer, as execve(2) asks for.
            match unsafe { successor::environment(variables) } {
                // SAFETY: such a list too, which lives until the call returns.
                Some(ours) => unsafe { real::execve(path, arguments, ours.as_ptr()) },
                None => call(),
            }
        }
    }
}
