//! Handshakes at the hand-off socket: who connects there is a process of the server once it has shown the token and its own process id.
//!
//! Until then nothing of it is believed and no descriptor of it is taken.

use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{accept_with, recv, sockopt, RecvFlags, SendFlags, SocketFlags};
use trimtab_wire::handoff::{self, Hello, Role, Welcome};

use super::Gate;
use crate::ledger::Kind;
use crate::{ancestors, sockets};

/// Pending handshakes; of more the oldest is closed.
const MOST: usize = 256;
/// Time for a process to say who it is, and for a listener to follow.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Conversations accepted at a door before others get their turn.
pub(super) const BATCH: usize = 64;

/// Of somebody who has connected.
#[derive(Debug)]
pub struct PendingHandshake {
    number: u32,
    /// When it must be over.
    deadline_ns: u64,
    /// The owner of the listener that it is about to pass; None before its token was seen.
    owner: Option<u32>,
}

impl Gate<'_> {
    /// Processes connect.
    pub(super) fn accept_handshakes(&mut self) {
        for _ in 0..BATCH {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = match accept_with(self.ledger.borrow(self.run_directory.handoff), flags) {
                Ok(fd) => fd,
                Err(error) => return self.pause_door(self.run_directory.handoff, error),
            };
            let number = self.ledger.keep(fd, Kind::Passing, 0);
            if self.watch(number, EventFlags::IN).is_err() {
                self.close(number);
                continue;
            }
            if self.pending_handshakes.len() >= MOST {
                let oldest = self.pending_handshakes.remove(0).number;
                self.close(oldest);
            }
            self.pending_handshakes.push(PendingHandshake {
                number,
                deadline_ns: self.now_ns + PATIENCE_NS,
                owner: None,
            });
        }
    }

    /// A process says who it is, or passes its listener.
    pub(super) fn on_handshake(&mut self, number: u32) {
        let at = self
            .pending_handshakes
            .iter()
            .position(|one| one.number == number);
        let Some(handshake) = at.map(|at| self.pending_handshakes.remove(at)) else {
            return self.close(number);
        };
        match handshake.owner {
            None => self.on_hello(handshake),
            Some(owner) => {
                if self.on_passed_listener(number, owner).is_none() {
                    self.close(number);
                }
            }
        }
    }

    /// Closes those that did not end in time.
    pub(super) fn end_late_handshakes(&mut self) {
        while let Some(&PendingHandshake {
            number,
            deadline_ns,
            ..
        }) = self.pending_handshakes.first()
        {
            if deadline_ns > self.now_ns {
                break;
            }
            self.pending_handshakes.remove(0);
            self.close(number);
        }
    }

    fn on_hello(&mut self, handshake: PendingHandshake) {
        let number = handshake.number;
        let socket = self.ledger.borrow(number);
        let mut bytes = [0; handoff::LONGEST];
        // Without room for a descriptor: one that comes all the same is dropped by the kernel.
        let length = recv(socket, &mut bytes, RecvFlags::DONTWAIT).map_or(0, |(length, _)| length);
        let token = self.shared.token();
        let hello = Hello::decode(&bytes[..length]).filter(|hello| hello.token == token);
        let (Some(hello), Ok(peer)) = (hello, sockopt::socket_peercred(socket)) else {
            return self.close(number);
        };
        let peer = peer.pid.as_raw_nonzero().get() as u32;
        // Slots are given back by the process id: who could say another's would free what that one holds.
        if hello.role == Role::Worker && hello.pid != peer {
            return self.close(number);
        }
        sockets::take_descriptors(socket, true);
        let flags = SendFlags::DONTWAIT;
        if handoff::send(socket, &handoff::GO_ON, None, flags).is_err() {
            return self.close(number);
        }
        match hello.role {
            Role::Worker => self.worker_came(number, peer),
            Role::Listener => {
                let known = ancestors::descends(peer, hello.pid);
                let owner = Some(if known { hello.pid } else { peer });
                self.pending_handshakes
                    .push(PendingHandshake { owner, ..handshake });
                self.pending_handshakes.sort_by_key(|one| one.deadline_ns);
            }
        }
    }

    /// None when it is not taken.
    fn on_passed_listener(&mut self, number: u32, owner: u32) -> Option<()> {
        let mut bytes = [0; handoff::LONGEST];
        let how = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = handoff::receive(self.ledger.borrow(number), &mut bytes, how);
        let Ok((length, Some(socket))) = received else {
            return None;
        };
        let socket = sockets::tamed(socket);
        if bytes[..length] != handoff::LISTENER || self.has_all_holds() {
            return None;
        }
        let index = self.listener_of(socket, owner)?;
        let generation = self.shared.header.generation.load(Relaxed);
        let worker_end = self.ledger.borrow(self.listeners[index].worker_end);
        let (socket, welcome) = (self.ledger.borrow(number), Welcome { generation }.encode());
        // A process that has gone meanwhile needs no answer, and its hold ends at once.
        let _ = handoff::send(socket, &welcome, Some(worker_end), SendFlags::DONTWAIT);
        sockets::take_descriptors(socket, false);
        self.hold(number, index);
        Some(())
    }

    /// Waits at a door no more, until the next regular work, when no descriptor is left for who comes there.
    pub(super) fn pause_door(&mut self, door: u32, error: Errno) {
        if matches!(
            error,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM
        ) {
            self.unwatch(door);
            self.paused_doors.push(door);
        }
    }

    /// Waits at the doors again.
    pub(super) fn resume_doors(&mut self) {
        for door in std::mem::take(&mut self.paused_doors) {
            if self.watch(door, EventFlags::IN).is_err() {
                self.paused_doors.push(door);
            }
        }
    }
}
