//! The session load generator: one thread, many sessions, latencies that count from when a request was due.
//!
//! A session is a compact record, a connection holds no buffer between replies, and everything that is to happen waits
//! in one queue of timers.

mod alarm;
mod arena;
mod arrivals;
mod browser;
mod browsing;
mod clock;
mod connection;
mod engine;
mod exchange;
mod form;
mod http;
mod journal;
mod limits;
mod meter;
mod page;
mod plan;
mod session;
mod site;
mod stops;
mod tally;
mod timer;
mod traffic;
mod users;

#[cfg(test)]
mod browsing_tests;
#[cfg(test)]
mod engine_tests;
#[cfg(test)]
mod patience_tests;
#[cfg(test)]
mod scripted;
#[cfg(test)]
mod traffic_tests;
#[cfg(test)]
mod virtual_time;

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use anyhow::Context as _;
use trimtab_wire::load::{Report, Start};
use trimtab_wire::BadInput;

use crate::clock::Clock;
use crate::engine::Engine;
use crate::plan::Plan;
use crate::stops::{Lines, Stops};

/// Runs the subcommand on standard input and output: one [`Start`] line in, [`Report`] lines out.
///
/// # Errors
/// [`BadInput`] when the order is wrong; anything else when the run could not be done.
pub fn run_stdio() -> anyhow::Result<()> {
    let mut lines = Lines::new(
        std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .context("standard input")?,
    );
    let line = lines
        .next_line()?
        .ok_or_else(|| BadInput("load: no start line on standard input".to_owned()))?;
    let start: Start =
        serde_json::from_str(&line).map_err(|error| BadInput(format!("load: start: {error}")))?;
    let plan = Plan::new(&start).map_err(|bad| bad.within("load"))?;
    limits::raise_descriptors();
    let mut stops = Stops {
        input: Some(lines),
        signals: Some(signals()?),
    };
    let mut engine = Engine::new(&plan, Clock::machine())?;
    with_writer(|emit| engine.run(&mut stops, emit))?;
    if let Some((error, connections)) = engine.local_error {
        let limit = limits::descriptors();
        eprintln!(
            "trimtab-native: load: requests failed on this machine with {connections} connections open: {error} \
             (limit of descriptors {limit}; ports: net.ipv4.ip_local_port_range for each source address)"
        );
    }
    Ok(())
}

/// A stream that becomes readable at SIGTERM or SIGINT.
fn signals() -> anyhow::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Writes reports from a thread of their own, so that a slow reader does not stop the traffic.
fn with_writer(
    run: impl FnOnce(&mut engine::Emit<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (sender, receiver) = mpsc::channel::<Report>();
    let writer = std::thread::spawn(move || -> anyhow::Result<()> {
        for report in receiver {
            let mut line = serde_json::to_string(&report)?;
            line.push('\n');
            let mut output = std::io::stdout().lock();
            output
                .write_all(line.as_bytes())
                .and_then(|()| output.flush())
                .context("standard output")?;
        }
        Ok(())
    });
    let outcome = run(&mut |report| sender.send(report).is_ok());
    drop(sender);
    let written = writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer of reports failed"))?;
    outcome.and(written)
}
