//! The hooks, as a process with the library in it calls them.
#![allow(
    clippy::expect_used,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)]

mod calls;
mod gated;
mod idle;
mod inside;
mod listeners;
mod unseen;
mod unusual;
