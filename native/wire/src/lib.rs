//! What crosses the border between Python and Rust: message types, one module per conversation.
//!
//! Every message between Python and Rust is one line of JSON; unknown keys are errors on both sides. The gate and the shim, both
//! Rust, share a mapped file ([`shared`], which Python reads too) and pass descriptors with small fixed structs ([`handoff`]). What gate
//! and simulator decide and count alike is here too ([`budgets`], [`delays`]).

pub mod budgets;
pub mod delays;
pub mod ends;
pub mod gate;
pub mod graph;
pub mod handoff;
pub mod lanes;
pub mod load;
pub mod sample;
pub mod shared;
mod shared_file;
pub mod shop;
pub mod sim;
pub mod wake;
pub mod workload;

/// What was asked for is wrong: one line that names the value and says what is allowed. A program that ends for it exits with 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadInput(pub String);

impl BadInput {
    /// The same, of a part of what was asked for.
    #[must_use]
    pub fn within(self, part: impl std::fmt::Display) -> Self {
        Self(format!("{part}: {self}"))
    }
}

impl std::fmt::Display for BadInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}
