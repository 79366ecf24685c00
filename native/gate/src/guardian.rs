//! The guardian: it starts a gate, and another when that one dies, without losing what the first one had.
//!
//! Guardian and gate are two processes with one table of descriptors and one ledger. A process that is killed takes
//! nothing with it as long as the other lives. A gate whose guardian dies starts the next gate and becomes its guardian.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{bail, Context as _};
use rustix::process::{kill_process, waitpid, Pid, Signal, WaitOptions};
use trimtab_wire::gate::Start;

use crate::gate::{End, Gate};
use crate::ledger::{open_descriptors, Kind, Ledger};
use crate::run_directory::RunDirectory;
use crate::signals;

/// More gates than this within the window do not die by accident.
const MOST_STARTS: usize = 20;
const WINDOW: Duration = Duration::from_secs(60);
/// Distance of looks at a gate.
const LOOK: Duration = Duration::from_secs(1);
/// Looks in a row at which a gate that has not moved is taken for stopped. It moves at each event and at least twice a second, as no wait
/// is longer; between two moves lies one batch of accepts or one survey of all slots, a few milliseconds. So four looks are what only a
/// call that blocks reaches; looks are counted and not time, so that a machine that stood still itself is no reason. A gate that is
/// replaced needlessly loses nothing.
const STANDS_STILL: u32 = 4;
/// Time for a gate to end when it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs gates until one ends as it should.
///
/// # Errors
/// Gates die one after another, or none can be started.
pub fn run(start: &Start, run_directory: &RunDirectory, ledger: Ledger) -> anyhow::Result<()> {
    for number in open_descriptors().context("/proc/self/fd")? {
        ledger.describe(number, Kind::Lasting, 0);
    }
    signals::hold();
    let mut starts = VecDeque::new();
    loop {
        let now = Instant::now();
        starts.retain(|&start| now.duration_since(start) < WINDOW);
        if starts.len() >= MOST_STARTS {
            bail!(
                "the gate died {MOST_STARTS} times within {} s",
                WINDOW.as_secs()
            );
        }
        starts.push_back(now);
        let ended = match split().context("a process for the gate")? {
            Some(child) => watch(child, ledger)?,
            None => match work(start, run_directory, ledger) {
                Ok(End::Done) => std::process::exit(0),
                Ok(End::Orphaned) => false,
                Err(error) => {
                    crate::say(format_args!("{error:#}"));
                    std::process::exit(1);
                }
            },
        };
        if ended {
            return Ok(());
        }
    }
}

/// A gate's whole life. What it had stays open after it: the table of descriptors is not its own.
fn work(start: &Start, run_directory: &RunDirectory, ledger: Ledger) -> anyhow::Result<End> {
    let mut gate = ManuallyDrop::new(Gate::new(start, run_directory, ledger)?);
    gate.recover()?;
    gate.run()
}

/// Waits for the end of a gate, passes on the wish that it end, and ends one that has stopped.
///
/// # Returns
/// True when it ended as it should.
fn watch(child: Pid, ledger: Ledger) -> anyhow::Result<bool> {
    let mut asked: Option<Instant> = None;
    let mut pulse = Pulse::new(ledger);
    loop {
        match signals::wait(LOOK) {
            Some(libc::SIGCHLD) | None => {}
            Some(_) => {
                asked.get_or_insert_with(Instant::now);
                // It fails only when the gate has ended.
                let _ = kill_process(child, Signal::TERM);
            }
        }
        // Gates that were left to die, too.
        while let Some((pid, status)) = waitpid(None, WaitOptions::NOHANG).context("waitpid")? {
            if pid == child {
                return Ok(status.exit_status() == Some(0) || asked.is_some());
            }
        }
        if asked.is_some_and(|since| since.elapsed() > PATIENCE) {
            let _ = kill_process(child, Signal::KILL);
        }
        match pulse.look() {
            STANDS_STILL => {
                crate::say("it has stopped answering; starting another");
                let _ = kill_process(child, Signal::KILL);
            }
            // A call that nothing interrupts: should it ever return, the gate does not.
            looks if looks > STANDS_STILL => return Ok(asked.is_some()),
            _ => {}
        }
    }
}

/// Whether a gate gets on.
struct Pulse {
    ledger: Ledger,
    beats: u64,
    /// Looks at which nothing had happened since the one before.
    still: u32,
    last: Instant,
}

impl Pulse {
    fn new(ledger: Ledger) -> Self {
        Self {
            ledger,
            beats: 0,
            still: 0,
            last: Instant::now(),
        }
    }

    /// Looks, unless it has just been done.
    ///
    /// # Returns
    /// For how many looks the gate has stood still.
    fn look(&mut self) -> u32 {
        if self.last.elapsed() < LOOK {
            return 0;
        }
        self.last = Instant::now();
        let beats = self.ledger.settings().beats.load(Relaxed);
        let stands = beats == std::mem::replace(&mut self.beats, beats);
        self.still = if stands { self.still + 1 } else { 0 };
        self.still
    }
}

/// Splits this process in two that share the table of descriptors.
///
/// # Returns
/// The child in the parent; None in the child.
fn split() -> std::io::Result<Option<Pid>> {
    let flags = (libc::CLONE_FILES | libc::SIGCHLD) as libc::c_ulong;
    let none: libc::c_ulong = 0;
    // SAFETY: without a stack of its own the child goes on here on a copy of this one, as after fork(2); this process
    // has one thread, so no lock can be held by another; nothing but the descriptors is shared.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    match pid {
        0 => Ok(None),
        -1 => Err(std::io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid as i32)),
    }
}
