//! What crosses the border between Python and Rust: message types, one module per conversation.
//!
//! Every message is one line of JSON. Unknown keys are errors on both sides.

pub mod load;
pub mod sample;
pub mod sim;
pub mod workload;

/// A program was used wrongly: it did nothing and exits with 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misuse(pub String);

impl std::fmt::Display for Misuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}
