//! The simulator as a library, by what it promises: one program, since each is linked by itself.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod behaviour;
mod border;
mod classes;
mod common;
mod laws;
mod prefork;
mod shop;
mod theory;
