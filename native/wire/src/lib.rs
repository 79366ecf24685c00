//! What crosses the border between Python and Rust: message types, one module per conversation.
//!
//! Every message is one line of JSON. Unknown keys are errors on both sides.

pub mod load;
pub mod sample;
pub mod sim;
pub mod workload;
