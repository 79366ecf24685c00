//! A gate whose mapped file a hostile process of the server writes into: for tests and for fuzzing.
//!
//! Everything happens in one thread and in virtual time, so a case is the same each time it runs. Workers here are what a server's
//! processes with the shim do: they receive, hold, release and accept for themselves.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use rustix::net::{socketpair, AddressFamily, RecvFlags, SocketFlags, SocketType};
use trimtab_wire::gate::{Class, Full, Policy, Rule, Start};
use trimtab_wire::handoff::{self, Dispatch};
use trimtab_wire::shared::{Layout, DISPATCHED, HELD};

use super::{Gate, Listener};
use crate::ledger::{Kind, Ledger};
use crate::run_directory::RunDirectory;
use crate::slots::NO_CLASS;
use crate::sockets;

/// Classes of the gate here.
pub const CLASSES: usize = 2;
/// Connections that it may have in service, of each class and of all.
pub const BUDGET: u32 = 4;
/// Descriptors that its ledger has room for.
const DESCRIPTORS: usize = 1024;

/// The directory, the mapped file and the ledger, which outlive gates.
pub struct Ground {
    start: Start,
    run_directory: RunDirectory,
    ledger: Ledger,
}

/// A gate with one listener, and its workers.
pub struct Bench<'a> {
    /// The gate.
    pub gate: Gate<'a>,
    /// Slots that honest workers hold.
    pub held: Vec<u32>,
    workers: OwnedFd,
    listener: u32,
    /// How far time has come: what the gate does by itself sets it to the real one.
    latest_ns: u64,
}

impl Ground {
    /// A fresh one below the directory for temporary files.
    ///
    /// # Errors
    /// Something cannot be made there.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let name = format!("trimtab-hostile-{}-{name}", std::process::id());
        let start = start(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&start.directory)?;
        let run_directory = RunDirectory::make(&start)?;
        let ledger = Ledger::new(DESCRIPTORS)?;
        Ok(Self {
            start,
            run_directory,
            ledger,
        })
    }

    /// The mapped file.
    pub fn layout(&self) -> &Layout {
        &self.run_directory.shared
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What cannot be removed stays below the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.start.directory);
    }
}

impl<'a> Bench<'a> {
    /// A gate that has just started there.
    ///
    /// # Errors
    /// The kernel gives no descriptors.
    pub fn new(ground: &'a Ground) -> anyhow::Result<Self> {
        let mut gate = Gate::new(&ground.start, &ground.run_directory, ground.ledger)?;
        let given: Vec<u32> = gate.slots.given().collect();
        for class in given {
            if (class as usize) < CLASSES {
                gate.budgets.served(class as usize);
            }
        }
        gate.show_lanes();
        let (gate_end, workers) = sockets::pair()?;
        let (socket, _) = pair()?;
        let gate_end = ground.ledger.keep(gate_end, Kind::GateEnd, 0);
        let number = ground.ledger.keep(socket, Kind::Listener, gate_end);
        ground.ledger.describe(number, Kind::Listener, gate_end);
        gate.listeners.push(Listener {
            number,
            gate_end,
            worker_end: gate_end,
            inode: 0,
            local: ([127, 0, 0, 1], 80).into(),
            owner: std::process::id(),
            holds: vec![number],
            full: false,
            paused: false,
            shut: false,
        });
        Ok(Self {
            latest_ns: gate.now_ns,
            gate,
            held: Vec::new(),
            workers,
            listener: number,
        })
    }

    /// A connection of a class comes.
    ///
    /// # Errors
    /// The kernel gives no descriptor.
    pub fn arrives(&mut self, class: usize) -> anyhow::Result<()> {
        let (socket, _) = pair()?;
        let number = self.gate.ledger.keep(socket, Kind::Peeking, self.listener);
        let entry = self.gate.ledger.entry(number);
        entry.since_ns.store(self.gate.now_ns, Relaxed);
        entry.set_peer(&sockets::peer(([127, 0, 0, 1], 9).into()));
        self.gate.join(number, class % CLASSES, false);
        Ok(())
    }

    /// An honest worker receives what lies there; the slot when it came with one.
    pub fn receives(&mut self, pid: u32) -> Option<u32> {
        let mut bytes = [0; handoff::LONGEST];
        let (length, _) =
            handoff::receive(self.workers.as_fd(), &mut bytes, RecvFlags::DONTWAIT).ok()?;
        let dispatch = Dispatch::decode(bytes.get(..length)?)?;
        let slot = self.gate.shared.slot(dispatch.slot)?;
        slot.pid.store(pid, Relaxed);
        if slot.sequence.load(Relaxed) != dispatch.sequence || !slot.advance(DISPATCHED, HELD) {
            return None;
        }
        self.held.push(dispatch.slot);
        Some(dispatch.slot)
    }

    /// An honest worker accepts for itself; the slot when it may.
    pub fn takes(&mut self, class: u32, pid: u32) -> Option<u32> {
        let shared = self.gate.shared;
        let slot = shared.take_for_itself(class, pid, 3, self.gate.now_ns)?;
        self.held.push(slot);
        Some(slot)
    }

    /// An honest worker closes the connection in a slot.
    pub fn closes(&mut self, index: u32) {
        self.held.retain(|&held| held != index);
        let shared = self.gate.shared;
        if shared.slot(index).is_some_and(|slot| slot.close(|| false))
            && !shared.give_to_lane(index)
        {
            shared.release(index);
        }
    }

    /// Time passes, and the regular work is done.
    pub fn passes(&mut self, ns: u64) {
        self.latest_ns = self.latest_ns.max(self.gate.now_ns) + ns;
        self.gate.now_ns = self.latest_ns;
        self.gate.tick();
    }

    /// The first error in the gate's own books; None when they hold.
    pub fn flaw(&self) -> Option<String> {
        let gate = &self.gate;
        let shares = gate.budgets.shares();
        let mut counted = [0_u32; CLASSES];
        for class in gate.slots.given().filter(|&class| class != NO_CLASS) {
            if let Some(count) = counted.get_mut(class as usize) {
                *count += 1;
            }
        }
        let booked: Vec<u32> = shares.iter().map(|share| share.in_service).collect();
        let lent: Vec<u32> = (0..CLASSES).map(|class| gate.lent(class)).collect();
        if booked != counted || gate.budgets.in_service() != counted.iter().sum::<u32>() {
            return Some(format!("in service {booked:?}, slots given {counted:?}"));
        }
        if lent.iter().zip(&booked).any(|(lent, booked)| lent > booked) {
            return Some(format!("lent {lent:?} of {booked:?}"));
        }
        gate.slots.flaw()
    }

    /// The gate ends, and nothing of it is left but the mapped file.
    pub fn end(mut self) {
        while let Some(class) = (0..CLASSES).find(|&class| self.gate.queues[class].len() > 0) {
            if let Some(number) = self.gate.queues[class].first() {
                self.gate.abandoned(number);
            }
        }
        self.gate.close_lanes();
        for listener in std::mem::take(&mut self.gate.listeners) {
            self.gate.close(listener.number);
            self.gate.close(listener.gate_end);
        }
        self.gate.end_waiting();
    }
}

fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
}

fn start(directory: PathBuf) -> Start {
    let class = |name: &str, rules| Class {
        name: name.to_owned(),
        rules,
        budget: BUDGET,
        minimum: 0,
        queue_limit: 64,
        full: Full::RefuseNewest,
    };
    let inside = Rule {
        source: Some("127.0.1.0/24".to_owned()),
        ..Rule::default()
    };
    Start {
        directory,
        limit: 2 * BUDGET,
        classes: vec![class("first", vec![inside]), class("rest", Vec::new())],
        policy: Policy::NonPreemptive,
        borrow: false,
        peek_bytes: 4096,
        peek_timeout_s: 1.0,
        metrics: None,
        user: None,
        controller_timeout_s: 10.0,
    }
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod tests;
