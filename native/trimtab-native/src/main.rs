//! `trimtab-native`: the one native program of trimtab; each room of the workspace is a subcommand.
//!
//! The program speaks newline-delimited JSON on standard input and output with the Python side.
//! It exits with 0 when done, 1 when it could not, 2 when it was used wrongly.

use std::process::ExitCode;

const USAGE: &str =
    "usage: trimtab-native load|sim|gate  (newline-delimited JSON on standard input and output)";

fn main() -> ExitCode {
    let verb = std::env::args().nth(1);
    let outcome = match verb.as_deref() {
        Some("load") => trimtab_load::run_stdio(),
        Some("sim") => trimtab_sim::run_stdio(),
        Some("gate") => trimtab_gate::run_stdio(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trimtab-native: {error:#}");
            let misused = error.is::<trimtab_wire::BadInput>();
            ExitCode::from(if misused { 2 } else { 1 })
        }
    }
}
