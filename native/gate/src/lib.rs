//! The gate: it accepts the connections of an unmodified server, tells their classes, lets them wait in one queue for
//! each class, and hands them to the server's workers as the classes' budgets allow (lu2001, Section 4.1).
//!
//! One thread. What is decided is pure and in files of its own (`rules`, `budgets`, `chain`, `delays`); what a killed
//! gate leaves to the next one is in the `ledger`.

#![deny(unsafe_op_in_unsafe_fn)]

mod arrivals;
mod budgets;
mod chain;
mod check;
mod client_hello;
mod clockwork;
mod delays;
mod dispatch;
mod entry;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod gate;
mod guardian;
mod head;
#[cfg(any(test, feature = "fuzzing"))]
mod hostile;
mod lanes;
mod ledger;
mod line;
mod metrics;
mod orders;
mod place;
mod queues;
mod reclaim;
mod recover;
mod refuse;
mod rules;
mod server;
mod signals;
mod slots;
mod sockets;
mod talks;
mod tally;

use anyhow::Context as _;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use trimtab_wire::gate::Start;
use trimtab_wire::Misuse;

use crate::ledger::Ledger;
use crate::place::Place;

/// Descriptors that are asked for where the process may raise its own hard limit.
const DESCRIPTORS: u64 = 1_048_576;

/// Runs the subcommand: one [`Start`] line on standard input, orders on `control.sock` in the run directory.
///
/// # Errors
/// [`Misuse`] when the start line is wrong; anything else when the gate could not be run.
pub fn run_stdio() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .context("standard input")?;
    let start: Start =
        serde_json::from_str(&line).map_err(|error| Misuse(format!("gate: start: {error}")))?;
    check::start(&start).map_err(|error| Misuse(format!("gate: {error}")))?;
    let descriptors = raise_descriptors();
    let place = Place::make(&start)?;
    let ledger = Ledger::new(descriptors as usize).context("shared memory")?;
    guardian::run(&start, &place, ledger)
}

/// Raises the limit of descriptors as far as this process may, and returns it.
fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(DESCRIPTORS);
    for wanted in [hard.max(DESCRIPTORS), hard] {
        let limit = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return wanted.min(DESCRIPTORS);
        }
    }
    limit.current.unwrap_or(DESCRIPTORS).min(DESCRIPTORS)
}
