//! The loop: waits for sockets and the clock, and lets each part do what is due.
//!
//! Each part is in a file of its own: `arrivals` (accept, classify, peek), `dispatch` (queues, budgets, slots),
//! `lanes` (what the workers accept for themselves), `refuse`, `pending_handshakes` (who comes to the hand-off socket), `server`
//! (processes of the server), `clients` (control and metrics), `recover` (after another gate).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context as _;
use rustix::event::{epoll, Timespec};
use rustix::io::Errno;
use trimtab_wire::budgets::Budgets;
use trimtab_wire::gate::Start;
use trimtab_wire::shared::{now_ns, Shared};

use crate::chain::Chain;
use crate::clients::Client;
use crate::lanes::{self, Lanes};
use crate::ledger::{add, Kind, Ledger};
use crate::pending_handshakes::PendingHandshake;
use crate::reclaim::Asked;
use crate::rules::Classifier;
use crate::run_directory::RunDirectory;
use crate::slots::Slots;
use crate::sources::Sources;

/// Events taken at once.
const BATCH: usize = 256;
/// Standard input, whose end says that whoever started the gate is gone.
const STDIN: u32 = 0;

/// Why a gate's loop has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was told to, or nobody needs it any more.
    Done,
    /// Its guardian has died.
    Orphaned,
}

/// A listening socket of the server.
#[derive(Debug)]
pub struct Listener {
    /// Its number.
    pub number: u32,
    /// The gate's end of its dispatch pair.
    pub gate_end: u32,
    /// The workers' end.
    pub worker_end: u32,
    /// Identifies the socket.
    pub inode: u64,
    /// Its address.
    pub local: SocketAddr,
    /// The process that passed it.
    pub owner: u32,
    /// The dispatch pair takes no more now.
    pub full: bool,
    /// It is not waited on, because descriptors ran out.
    pub paused: bool,
}

/// A gate at work.
pub struct Gate<'a> {
    pub(crate) start: &'a Start,
    pub(crate) run_directory: &'a RunDirectory,
    /// Its mapped file.
    pub(crate) shared: &'a Shared,
    pub(crate) ledger: Ledger,
    pub(crate) classifier: Classifier,
    pub(crate) budgets: Budgets,
    pub(crate) queues: Vec<Chain>,
    pub(crate) peeking: Chain,
    /// The same connections by where they come from.
    pub(crate) sources: Sources,
    pub(crate) refused: Chain,
    pub(crate) slots: Slots,
    pub(crate) lanes: Lanes,
    pub(crate) listeners: Vec<Listener>,
    /// Pid to the descriptor of its conversation.
    pub(crate) workers: HashMap<u32, u32>,
    /// At the hand-off socket, oldest first.
    pub(crate) pending_handshakes: Vec<PendingHandshake>,
    /// Sockets of the run directory that are not waited at, because descriptors ran out.
    pub(crate) paused_doors: Vec<u32>,
    pub(crate) clients: HashMap<u32, Client>,
    pub(crate) asked: HashMap<u32, Asked>,
    /// Connections that a killed gate was about to send.
    pub(crate) unsure: Vec<u32>,
    pub(crate) buffer: Vec<u8>,
    pub(crate) now_ns: u64,
    pub(crate) end: Option<End>,
    epoll: u32,
    pub(crate) guardian: Option<rustix::process::Pid>,
    pub(crate) ticked_ns: u64,
    pub(crate) surveyed_ns: u64,
    /// Since when no worker is there.
    pub(crate) unattended_ns: Option<u64>,
    /// Since when nobody needs the gate.
    pub(crate) deserted_ns: Option<u64>,
    pub(crate) stdin_ended: bool,
    pub(crate) reclaimed_ns: u64,
}

impl<'a> Gate<'a> {
    /// A gate that has nothing yet.
    ///
    /// # Errors
    /// The classes are wrong, or the kernel gives no epoll descriptor.
    pub fn new(
        start: &'a Start,
        run_directory: &'a RunDirectory,
        ledger: Ledger,
    ) -> anyhow::Result<Self> {
        let classes = start
            .classes
            .iter()
            .map(|class| (class.budget, class.minimum));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        // Before the slots are looked at.
        let shared = &run_directory.shared;
        lanes::close_all(shared, start.classes.len());
        Ok(Self {
            start,
            run_directory,
            shared,
            ledger,
            classifier: Classifier::new(&start.classes)?,
            budgets: Budgets::new(start.limit, start.borrow, classes),
            queues: vec![Chain::default(); start.classes.len()],
            peeking: Chain::default(),
            sources: Sources::default(),
            refused: Chain::default(),
            slots: Slots::find(shared),
            lanes: Lanes::default(),
            listeners: Vec::new(),
            workers: HashMap::new(),
            pending_handshakes: Vec::new(),
            paused_doors: Vec::new(),
            clients: HashMap::new(),
            asked: HashMap::new(),
            unsure: Vec::new(),
            buffer: vec![0; (start.peek_bytes as usize).max(4096)],
            now_ns: now_ns(),
            end: None,
            epoll: ledger.keep(epoll, Kind::Passing, 0),
            guardian: rustix::process::getppid(),
            ticked_ns: 0,
            surveyed_ns: 0,
            unattended_ns: None,
            deserted_ns: None,
            stdin_ended: false,
            reclaimed_ns: 0,
        })
    }

    /// Works until it is told to end.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn run(&mut self) -> anyhow::Result<End> {
        self.show_lanes();
        self.listen()?;
        let mut events = Vec::with_capacity(BATCH);
        loop {
            self.beat();
            self.now_ns = now_ns();
            if self.is_due() {
                self.tick();
            }
            self.end_rest();
            self.pump();
            if let Some(end) = self.end {
                self.leave(end);
                return Ok(end);
            }
            let wait_ns = self.wait_ns();
            events.clear();
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: wait_ns as i64,
            };
            let fetched = epoll::wait(
                self.ledger.borrow(self.epoll),
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            );
            self.shared.header.gate_waiting.store(0, Relaxed);
            match fetched {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("epoll"),
            }
            for event in &events {
                self.beat();
                let epoll::Event { flags, data } = *event;
                self.on_event(data.u64(), flags);
            }
        }
    }

    /// Tells the guardian that the gate gets on.
    pub(crate) fn beat(&self) {
        add(&self.ledger.settings().beats, 1);
    }

    /// Waits on a descriptor that the ledger keeps.
    pub(crate) fn watch(&self, number: u32, flags: epoll::EventFlags) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(self.ledger.token(number));
        let (epoll, fd) = (self.ledger.borrow(self.epoll), self.ledger.borrow(number));
        epoll::add(epoll, fd, data, flags)
    }

    /// Waits for other things of a descriptor that is waited on already.
    pub(crate) fn rewatch(&self, number: u32, flags: epoll::EventFlags) {
        let data = epoll::EventData::new_u64(self.ledger.token(number));
        let (epoll, fd) = (self.ledger.borrow(self.epoll), self.ledger.borrow(number));
        // It fails only when it is not waited on; then it is not to be.
        let _ = epoll::modify(epoll, fd, data, flags);
    }

    /// Waits on a descriptor no more; needed before it is closed when another process has it too.
    pub(crate) fn unwatch(&self, number: u32) {
        let (epoll, fd) = (self.ledger.borrow(self.epoll), self.ledger.borrow(number));
        // It fails only when it is not waited on.
        let _ = epoll::delete(epoll, fd);
    }

    /// A connection that is waited on, or was refused, or speaks: all that its kind has in chains and tables is gone.
    pub(crate) fn close(&mut self, number: u32) {
        self.ledger.close(number);
    }

    /// Index of a listener.
    pub(crate) fn listener(&self, number: u32) -> Option<usize> {
        self.listeners
            .iter()
            .position(|listener| listener.number == number)
    }

    /// Closes what this gate waits with.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn end_waiting(&mut self) {
        self.close(self.epoll);
    }

    /// The descriptor is what this gate waits with.
    pub(crate) fn is_epoll(&self, number: u32) -> bool {
        number == self.epoll
    }

    fn listen(&mut self) -> anyhow::Result<()> {
        let header = &self.shared.header;
        self.set_preemptive_flag();
        header.gate_pid.store(std::process::id(), Relaxed);
        let readable = epoll::EventFlags::IN;
        let sockets = [
            Some(self.run_directory.handoff),
            Some(self.run_directory.control),
            self.run_directory.metrics,
        ];
        for number in sockets.into_iter().flatten() {
            self.watch(number, readable).context("epoll")?;
        }
        match self.watch(STDIN, readable) {
            Ok(()) => {}
            // A file: it has been read to its end.
            Err(Errno::PERM) => self.stdin_ended = true,
            Err(error) => return Err(error).context("standard input"),
        }
        header
            .generation
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }

    fn on_event(&mut self, token: u64, flags: epoll::EventFlags) {
        let Some(number) = self.ledger.by_token(token) else {
            return;
        };
        match self.ledger.entry(number).kind() {
            Kind::Listener => self.accept_all(number),
            Kind::GateEnd => self.on_gate_end(number, flags),
            Kind::Worker => self.on_worker(number),
            Kind::Peeking => self.look_again(number, flags),
            Kind::Queued => self.abandoned(number),
            Kind::Refused => self.on_refused(number),
            Kind::Passing => self.on_passing(number, flags),
            Kind::Lasting => self.on_lasting(number),
            Kind::Unknown | Kind::Sending | Kind::WorkerEnd => {}
        }
    }

    fn on_passing(&mut self, number: u32, flags: epoll::EventFlags) {
        if self.clients.contains_key(&number) {
            self.on_client(number, flags);
        } else {
            self.on_handshake(number);
        }
    }

    fn on_lasting(&mut self, number: u32) {
        if number == self.run_directory.handoff {
            self.accept_handshakes();
        } else if number == self.run_directory.control {
            self.accept_clients(number, false);
        } else if Some(number) == self.run_directory.metrics {
            self.accept_clients(number, true);
        } else if number == STDIN {
            let mut scratch = [0; 4096];
            match rustix::io::read(self.ledger.borrow(STDIN), &mut scratch) {
                Ok(0) | Err(_) => {
                    self.stdin_ended = true;
                    self.unwatch(STDIN);
                }
                Ok(_) => {}
            }
        }
    }

    fn leave(&mut self, end: End) {
        self.close_lanes();
        if end == End::Done {
            self.give_all();
            self.shared.header.gate_pid.store(0, Relaxed);
        }
    }
}
