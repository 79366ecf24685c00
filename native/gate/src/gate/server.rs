//! The processes of the server and their listeners: they take connections, and die. Who may say that he is one: `pending_handshakes`.

use std::os::fd::{AsFd as _, IntoRawFd as _, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{getsockname, sockopt, RecvFlags};
use trimtab_wire::handoff;

use super::{Gate, Listener};
use crate::ledger::Kind;
use crate::sockets;

/// Listeners of a gate, which take a quarter of all descriptors at most. nginx with `reuseport` opens one for each port and worker; each
/// takes four descriptors, and a process that was broken into could show new ones for ever.
const LISTENERS: usize = 512;

impl Gate<'_> {
    /// A process of the server has died, or hands over a connection.
    pub(super) fn on_worker(&mut self, number: u32) {
        let mut bytes = [0; handoff::LONGEST];
        let how = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match handoff::receive(self.ledger.borrow(number), &mut bytes, how) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok((length, passed)) if length > 0 => {
                if let Some(fd) = passed.map(sockets::tamed) {
                    if bytes[..length] == handoff::OVER_BUDGET {
                        self.handed_over(fd);
                    }
                }
            }
            _ => self.worker_went(number),
        }
    }

    fn worker_went(&mut self, number: u32) {
        let pid = self.ledger.entry(number).with.load(Relaxed);
        if self.workers.get(&pid) == Some(&number) {
            self.workers.remove(&pid);
        }
        self.close(number);
        self.sweep(&[pid]);
    }

    /// Frees what dead processes held.
    ///
    /// # Arguments
    /// * `pids` - the processes, in rising order.
    pub(crate) fn sweep(&mut self, pids: &[u32]) {
        self.collect();
        // Should one have died with a slot in its hands.
        self.close_lanes();
        for slot in self.slots.of_dead(self.shared, pids) {
            self.free(slot);
        }
    }

    /// Frees what processes held that died while no gate could see it.
    pub(super) fn check_processes(&mut self) {
        // Another process can have the conversation of a dead one, such as a child that the shim does not know of, or one that was broken into
        // and keeps those of all its children.
        let dead = self.workers.iter().filter(|(&pid, _)| !lives(pid));
        for number in dead.map(|(_, &number)| number).collect::<Vec<_>>() {
            self.worker_went(number);
        }
        let mut dead = self.slots.holders(self.shared);
        dead.retain(|pid| !self.workers.contains_key(pid) && !lives(*pid));
        if !dead.is_empty() {
            self.sweep(&dead);
        }
    }

    /// Lets the listeners go whose owners are dead.
    pub(super) fn forget_dead_owners(&mut self) {
        self.let_go(|one| !lives(one.owner));
    }

    /// Lets the listeners go to whose workers nothing can be sent any more, because one of them has shut the pair down. The shim does so with
    /// the listener, at which the server may listen again.
    pub(super) fn forget_shut(&mut self) {
        self.let_go(|one| one.shut);
    }

    fn let_go(&mut self, is_over: impl Fn(&Listener) -> bool) {
        while let Some(index) = self.listeners.iter().position(&is_over) {
            self.forget(index);
        }
    }

    /// Takes a listener as one of those that are waited on.
    pub(super) fn serve_listener(&mut self, listener: Listener) -> rustix::io::Result<()> {
        self.watch(listener.number, self.listening())?;
        self.watch(listener.gate_end, EventFlags::IN)?;
        // Last: at one that is not taken the server's own accept waits as before.
        rustix::io::ioctl_fionbio(self.ledger.borrow(listener.number), true)?;
        self.listeners.push(listener);
        Ok(())
    }

    /// A process takes connections from now on.
    pub(super) fn worker_came(&mut self, number: u32, pid: u32) {
        self.ledger.describe(number, Kind::Worker, pid);
        self.rewatch(number, EventFlags::IN);
        if let Some(before) = self.workers.insert(pid, number) {
            self.close(before);
        }
    }

    /// The listener with this socket, new or known; None when it is not a listening socket of the internet, or one too many.
    pub(super) fn listener_of(&mut self, socket: OwnedFd, owner: u32) -> Option<usize> {
        let listens = sockopt::socket_acceptconn(&socket).unwrap_or(false);
        let inode = rustix::fs::fstat(&socket).ok()?.st_ino;
        let local = getsockname(&socket).ok().and_then(sockets::internet)?;
        if let Some(index) = self.listeners.iter().position(|one| one.inode == inode) {
            // Whoever has it could have said otherwise meanwhile. It fails for nothing that listens.
            let _ = rustix::io::ioctl_fionbio(socket.as_fd(), true);
            return Some(index);
        }
        let most = (self.ledger.descriptors() / 16).min(LISTENERS);
        if !listens || self.listeners.len() >= most {
            return None;
        }
        let (gate_end, worker_end) = self.pair().ok()?;
        self.ledger.describe(worker_end, Kind::WorkerEnd, owner);
        self.ledger.describe(gate_end, Kind::GateEnd, worker_end);
        let number = self.ledger.keep(socket, Kind::Listener, gate_end);
        let listener = Listener {
            number,
            gate_end,
            worker_end,
            inode,
            local,
            owner,
            holds: Vec::new(),
            full: false,
            paused: false,
            shut: false,
        };
        if self.serve_listener(listener).is_err() {
            // The process has it too, so that closing it here would not end a wait for it.
            self.unwatch(number);
            for one in [number, gate_end, worker_end] {
                self.close(one);
            }
            return None;
        }
        Some(self.listeners.len() - 1)
    }

    /// A dispatch pair: one of those made in advance while there are any.
    fn pair(&self) -> rustix::io::Result<(u32, u32)> {
        let unused = |&&(gate, _): &&(u32, u32)| self.ledger.entry(gate).kind() == Kind::Lasting;
        if let Some(&pair) = self.run_directory.pairs.iter().find(unused) {
            return Ok(pair);
        }
        let (gate, workers) = sockets::pair()?;
        Ok((gate.into_raw_fd() as u32, workers.into_raw_fd() as u32))
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
