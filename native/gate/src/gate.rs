//! The loop: waits for sockets and the clock, and lets each part do what is due.
//!
//! Each part is in a file of its own below this one, and nothing else sees what the gate holds: `arrivals` (accept, classify, peek),
//! `queues` (who waits, who is next), `dispatch` (connections out, slots back), `lanes` (what the workers accept for themselves), `refuse`,
//! `reclaim` (idle connections asked back), `pending_handshakes` (who comes to the hand-off socket), `server` (processes of the server),
//! `closed` (listeners that nobody has any more), `clients` (control and metrics) with `orders`, `clockwork` (what is due when), `recover` (after another gate).

mod arrivals;
mod clients;
mod clockwork;
mod closed;
mod dispatch;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod hostile;
mod lanes;
mod orders;
mod pending_handshakes;
mod queues;
mod reclaim;
mod recover;
mod refuse;
mod server;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use anyhow::Context as _;
use rustix::event::{epoll, Timespec};
use rustix::io::Errno;
use trimtab_wire::budgets::Budgets;
use trimtab_wire::gate::Start;
use trimtab_wire::shared::{now_ns, Shared};

use crate::chain::Chain;
use crate::ledger::{add, Kind, Ledger};
use crate::rules::Classifier;
use crate::run_directory::RunDirectory;
use crate::slots::Slots;
use crate::sources::Sources;
use clients::Client;
use clockwork::Clockwork;
use lanes::Lanes;
use pending_handshakes::PendingHandshake;
use reclaim::Reclaims;

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
    /// Conversations of those who have it: when the last one ends, the server has closed it.
    pub holds: Vec<u32>,
    /// The dispatch pair takes no more now.
    pub full: bool,
    /// It is not waited on, because descriptors ran out or the server has shut it down.
    pub paused: bool,
    /// The dispatch pair was shut down: nothing goes through it any more.
    pub shut: bool,
}

/// A gate at work.
pub struct Gate<'a> {
    start: &'a Start,
    run_directory: &'a RunDirectory,
    /// Its mapped file.
    shared: &'a Shared,
    ledger: Ledger,
    classifier: Classifier,
    budgets: Budgets,
    queues: Vec<Chain>,
    peeking: Chain,
    /// The same connections by where they come from.
    sources: Sources,
    refused: Chain,
    slots: Slots,
    lanes: Lanes,
    listeners: Vec<Listener>,
    /// Pid to the descriptor of its conversation.
    workers: HashMap<u32, u32>,
    /// At the hand-off socket, oldest first.
    pending_handshakes: Vec<PendingHandshake>,
    /// Sockets of the run directory that are not waited at, because descriptors ran out.
    paused_doors: Vec<u32>,
    clients: HashMap<u32, Client>,
    reclaims: Reclaims,
    /// Connections that a killed gate was about to send.
    unsure: Vec<u32>,
    /// Until when connections wait whose listener was closed.
    astray_until_ns: u64,
    buffer: Vec<u8>,
    now_ns: u64,
    end: Option<End>,
    epoll: u32,
    clockwork: Clockwork,
    /// The generation that it began, which no other gate has.
    began: u32,
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
            reclaims: Reclaims::default(),
            unsure: Vec::new(),
            astray_until_ns: 0,
            buffer: vec![0; (start.peek_bytes as usize).max(4096)],
            now_ns: now_ns(),
            end: None,
            epoll: ledger.keep(epoll, Kind::Passing, 0),
            clockwork: Clockwork::new(),
            began: 0,
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
    fn beat(&self) {
        add(&self.ledger.settings().beats, 1);
    }

    /// Waits on a descriptor that the ledger keeps.
    fn watch(&self, number: u32, flags: epoll::EventFlags) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(self.ledger.token(number));
        let (epoll, fd) = (self.ledger.borrow(self.epoll), self.ledger.borrow(number));
        epoll::add(epoll, fd, data, flags)
    }

    /// Waits for other things of a descriptor that is waited on already.
    fn rewatch(&self, number: u32, flags: epoll::EventFlags) {
        let data = epoll::EventData::new_u64(self.ledger.token(number));
        let (epoll, fd) = (self.ledger.borrow(self.epoll), self.ledger.borrow(number));
        // It fails only when it is not waited on; then it is not to be.
        let _ = epoll::modify(epoll, fd, data, flags);
    }

    /// Waits on a descriptor no more; needed before it is closed when another process has it too.
    fn unwatch(&self, number: u32) {
        let (epoll, fd) = (self.ledger.borrow(self.epoll), self.ledger.borrow(number));
        // It fails only when it is not waited on.
        let _ = epoll::delete(epoll, fd);
    }

    /// A connection that is waited on, or was refused, or speaks: all that its kind has in chains and tables is gone.
    fn close(&mut self, number: u32) {
        self.ledger.close(number);
    }

    /// Index of a listener.
    fn listener(&self, number: u32) -> Option<usize> {
        self.listeners
            .iter()
            .position(|listener| listener.number == number)
    }

    /// Closes what this gate waits with.
    #[cfg(any(test, feature = "fuzzing"))]
    fn end_waiting(&mut self) {
        self.close(self.epoll);
    }

    /// The descriptor is what this gate waits with.
    fn is_epoll(&self, number: u32) -> bool {
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
            Err(Errno::PERM) => self.clockwork.stdin_ended = true,
            Err(error) => return Err(error).context("standard input"),
        }
        let before = header.generation.fetch_add(1, SeqCst);
        self.began = before.wrapping_add(1);
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
            Kind::Hold => self.on_hold(number),
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
                    self.clockwork.stdin_ended = true;
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
