//! The processes of the server: they pass their listening sockets, take connections, and die.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{accept_with, getsockname, sockopt, RecvFlags, SendFlags, SocketFlags};
use trimtab_wire::handoff::{self, Hello, Role, Welcome};

use crate::gate::{Gate, Listener};
use crate::ledger::Kind;
use crate::sockets;

/// Conversations that have not begun; of more the oldest is closed.
const STRANGERS: usize = 256;
/// Time for a process to say who it is.
const HELLO_NS: u64 = 1_000_000_000;
/// Conversations accepted before others get their turn.
const BATCH: usize = 64;

impl Gate<'_> {
    /// Processes connect.
    pub(crate) fn accept_strangers(&mut self) {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let Ok(fd) = accept_with(self.ledger.borrow(self.place.handoff), flags) else {
                break;
            };
            let number = self.ledger.keep(fd, Kind::Passing, 0);
            if self.watch(number, EventFlags::IN).is_err() {
                self.close(number);
                continue;
            }
            if self.strangers.len() >= STRANGERS {
                let (oldest, _) = self.strangers.remove(0);
                self.close(oldest);
            }
            self.strangers.push((number, self.now_ns + HELLO_NS));
        }
    }

    /// A process says who it is.
    pub(crate) fn on_stranger(&mut self, number: u32) {
        self.strangers.retain(|&(stranger, _)| stranger != number);
        let mut bytes = [0; handoff::LONGEST];
        let received = handoff::receive(
            self.ledger.borrow(number),
            &mut bytes,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        );
        let (hello, passed) = match received {
            Ok((length, passed)) => (Hello::decode(&bytes[..length]), passed),
            Err(_) => (None, None),
        };
        let known = hello.filter(|hello| hello.token == self.place.shared.token());
        match (known, passed) {
            (Some(hello), None) if hello.role == Role::Worker => {
                self.worker_came(number, hello.pid)
            }
            (Some(hello), Some(socket)) if hello.role == Role::Listener => {
                if let Some(index) = self.listener_of(socket, hello.pid) {
                    self.welcome(number, index);
                }
                self.close(number);
            }
            _ => self.close(number),
        }
    }

    /// Closes conversations that did not begin in time.
    pub(crate) fn end_strangers(&mut self) {
        while let Some(&(number, deadline_ns)) = self.strangers.first() {
            if deadline_ns > self.now_ns {
                break;
            }
            self.strangers.remove(0);
            self.close(number);
        }
    }

    /// A process of the server has died, or hands over a connection.
    pub(crate) fn on_worker(&mut self, number: u32) {
        let mut bytes = [0; handoff::LONGEST];
        let how = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match handoff::receive(self.ledger.borrow(number), &mut bytes, how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((length, passed)) if length > 0 => match passed {
                Some(fd) if bytes[..length] == handoff::OVER_BUDGET => self.handed_over(fd),
                _ => {}
            },
            _ => {
                let pid = self.ledger.entry(number).with.load(Relaxed);
                if self.workers.get(&pid) == Some(&number) {
                    self.workers.remove(&pid);
                }
                self.close(number);
                self.sweep(&[pid]);
            }
        }
    }

    /// Frees what dead processes held.
    ///
    /// # Arguments
    /// * `pids` - the processes, in rising order.
    pub(crate) fn sweep(&mut self, pids: &[u32]) {
        self.collect();
        // Should one have died with a slot in its hands.
        self.close_lanes();
        for slot in self.slots.of_dead(&self.place.shared, pids) {
            self.free(slot);
        }
    }

    /// Frees what processes held that died while no gate could see it.
    pub(crate) fn check_processes(&mut self) {
        let mut dead = self.slots.holders(&self.place.shared);
        dead.retain(|pid| !self.workers.contains_key(pid) && !lives(*pid));
        if !dead.is_empty() {
            self.sweep(&dead);
        }
    }

    /// Lets the listeners go whose owners are dead.
    pub(crate) fn forget_dead_owners(&mut self) {
        while let Some(index) = self.listeners.iter().position(|one| !lives(one.owner)) {
            self.forget(index);
            // Should there be somebody after all, he accepts for himself now, and may come again.
            let generation = &self.place.shared.header.generation;
            generation.fetch_add(1, SeqCst);
        }
    }

    /// Takes a listener as one of those that are waited on.
    pub(crate) fn serve_listener(&mut self, listener: Listener) -> rustix::io::Result<()> {
        self.watch(listener.number, self.listening())?;
        self.watch(listener.gate_end, EventFlags::IN)?;
        self.listeners.push(listener);
        Ok(())
    }

    fn worker_came(&mut self, number: u32, pid: u32) {
        self.ledger.describe(number, Kind::Worker, pid);
        self.rewatch(number, EventFlags::IN);
        if let Some(before) = self.workers.insert(pid, number) {
            self.close(before);
        }
    }

    fn welcome(&self, number: u32, index: usize) {
        let generation = self.place.shared.header.generation.load(Relaxed);
        let worker_end = self.ledger.borrow(self.listeners[index].worker_end);
        let message = Welcome { generation }.encode();
        // A process that has gone meanwhile needs no answer.
        let _ = handoff::send(
            self.ledger.borrow(number),
            &message,
            Some(worker_end),
            SendFlags::DONTWAIT,
        );
    }

    /// The listener with this socket, new or known; None when it is not a listening socket of the internet.
    fn listener_of(&mut self, socket: OwnedFd, owner: u32) -> Option<usize> {
        let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
        let inode = rustix::fs::fstat(&socket).ok()?.st_ino;
        let local = getsockname(&socket).ok().and_then(sockets::internet)?;
        if let Some(index) = self.listeners.iter().position(|one| one.inode == inode) {
            return Some(index);
        }
        let (gate_end, worker_end) = sockets::pair().ok()?;
        if !listens || rustix::io::ioctl_fionbio(socket.as_fd(), true).is_err() {
            return None;
        }
        let worker_end = self.ledger.keep(worker_end, Kind::WorkerEnd, owner);
        let gate_end = self.ledger.keep(gate_end, Kind::GateEnd, worker_end);
        let number = self.ledger.keep(socket, Kind::Listener, gate_end);
        let listener = Listener {
            number,
            gate_end,
            worker_end,
            inode,
            local,
            owner,
            full: false,
            paused: false,
        };
        self.serve_listener(listener).ok()?;
        Some(self.listeners.len() - 1)
    }

    /// The server of a listener is gone: nobody will serve what came to it.
    fn forget(&mut self, index: usize) {
        let listener = self.listeners.remove(index);
        for number in [listener.number, listener.gate_end, listener.worker_end] {
            self.close(number);
        }
        // Its connections end as they would in the kernel's queue of a listener that is closed.
        let from = |gate: &Self, number: u32| {
            gate.ledger.entry(number).with.load(Relaxed) == listener.number
        };
        for class in 0..self.queues.len() {
            for number in self.queues[class].members(&self.ledger) {
                if from(self, number) {
                    self.abandoned(number);
                }
            }
        }
        for number in self.peeking.members(&self.ledger) {
            if from(self, number) {
                self.peeking.remove(&self.ledger, number);
                self.close(number);
            }
        }
    }
}

/// A process with this id exists.
fn lives(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    else {
        return false;
    };
    !matches!(rustix::process::test_kill_process(pid), Err(Errno::SRCH))
}
