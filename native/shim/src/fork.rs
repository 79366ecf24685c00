//! Children: they inherit the listeners, not the connections.

use crate::{register, switch, table};

extern "C" fn in_child() {
    // A connection belongs to the process that accepted it: entries of the parent no longer name this process.
    table::remember_pid();
    // The gate must see the end of the parent's conversation when the parent dies.
    register::forget();
    switch::forked();
}

/// Has every fork noticed.
pub fn watch() {
    table::remember_pid();
    // SAFETY: the handler touches atomics and makes system calls, nothing else. Without memory for it nothing is installed;
    // then `is_borrowed` keeps children from closing what is their parent's.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
