//! The gate: it accepts the connections of an unmodified server, tells their classes, lets them wait in one queue for
//! each class, and hands them to the server's workers as the classes' budgets allow (lu2001, Section 4.1).
//!
//! One thread. What is decided is pure and in files of its own (`rules`, `chain`, and `budgets` and `delays` of `trimtab_wire`); what a killed
//! gate leaves to the next one is in the `ledger`.

#![deny(unsafe_op_in_unsafe_fn)]

mod ancestors;
mod chain;
mod check;
mod client_hello;
mod confine;
mod entry;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod gate;
mod guardian;
mod head;
mod ledger;
mod line;
mod metrics;
mod path;
mod rules;
mod run_directory;
mod signals;
mod slots;
mod sockets;
mod sources;
mod tally;

use std::io::Write as _;

use anyhow::Context as _;
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
use trimtab_wire::gate::Start;
use trimtab_wire::BadInput;

use crate::ledger::Ledger;
use crate::run_directory::RunDirectory;

/// Descriptors that are asked for, and that the ledger has room for.
const DESCRIPTORS: u64 = 1_048_576;

/// Runs the subcommand: one [`Start`] line on standard input, orders on `control.sock` in the run directory.
///
/// # Errors
/// [`BadInput`] when the start line is wrong; anything else when the gate could not be run.
pub fn run_stdio() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .context("standard input")?;
    let start: Start =
        serde_json::from_str(&line).map_err(|error| BadInput(format!("gate: start: {error}")))?;
    check::start(&start).map_err(|bad| bad.within("gate"))?;
    close_inherited().context("/proc/self/fd")?;
    let descriptors = limit_descriptors().context("limit of descriptors")?;
    let run_directory = RunDirectory::make(&start)?;
    let ledger = Ledger::new(descriptors as usize).context("shared memory")?;
    confine::enter(start.user)?;
    guardian::run(&start, &run_directory, ledger)
}

/// Says one line on standard error. Whoever started the gate may be gone, and what nobody reads is no reason to end.
fn say(text: impl std::fmt::Display) {
    let line = format!("trimtab-native: gate: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Closes what the program was started with but for its standard streams: it could lie beyond the ledger, and nobody could close it later.
fn close_inherited() -> std::io::Result<()> {
    for number in ledger::open_descriptors()? {
        if number > 2 {
            // SAFETY: nothing has been opened yet that this process uses.
            unsafe { rustix::io::close(number as i32) };
        }
    }
    Ok(())
}

/// Raises the limit of descriptors as far as this process may, to the ledger's bound at most, and returns it: each has an entry.
fn limit_descriptors() -> rustix::io::Result<u64> {
    let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(DESCRIPTORS);
    let limit = |wanted| {
        let limit = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        setrlimit(Resource::Nofile, limit).map(|()| wanted)
    };
    limit(DESCRIPTORS).or_else(|_| limit(hard.min(DESCRIPTORS)))
}
