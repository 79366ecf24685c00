//! The hand-off: fixed little-endian structs and descriptors over SOCK_SEQPACKET Unix sockets, between the shim and the gate.
//!
//! The socket is in the run directory, which nobody may list, under a name that only those learn who can read the mapped file
//! ([`name`]). There a process says [`Hello`] first, once for each connection and without a descriptor. The gate compares the token and
//! the process id, which must be the peer's own as the kernel tells it, and answers [`GO_ON`]; before that it takes no descriptor, where
//! the kernel can be told so (`SO_PASSRIGHTS`): the close of one can block. Then
//!
//! - a LISTENER sends [`LISTENER`] with the listening TCP socket; the gate answers [`Welcome`] with the worker end of the dispatch socket
//!   pair of that listener (the same pair for every process that shows the same listener). At first that end has O_NONBLOCK, which the one
//!   takes away who shows a listener at which accept blocks: on the TCP socket the gate sets it, and whoever shows that later cannot see
//!   any more what the server wants. The conversation stays open as long as some process has the listener by what was shown: children
//!   inherit it with the listener, and who closes the one closes the other. Its end tells the gate so; nothing is said on it any more;
//! - of a WORKER the connection stays open: its end tells the gate that the process
//!   has died, and the gate may send [`Reclaim`] on it. A worker reads it only while `FLAG_PREEMPTIVE` is set in the mapped file.
//!   The worker may send [`OVER_BUDGET`] with a connection on it, which it has accepted for itself and found no slot for.
//!
//! On the dispatch socket pair the gate sends [`Dispatch`] with the connection, whose O_NONBLOCK it leaves clear; the workers send
//! single wake bytes. A Hello with another token or process id, or a message of another length, is answered by closing.

// The shim carries this into the server, which a panic would end.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rand::rngs::StdRng;
use rand::{RngCore as _, SeedableRng as _};
use rustix::io::Result;
use rustix::net::{
    recvmsg, sendmsg, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

// The high byte is the version of the protocol, counted from 0x74.
const HELLO: u32 = 0x7601;
const WELCOME: u32 = 0x7602;
const DISPATCH: u32 = 0x7603;
const RECLAIM: u32 = 0x7604;

/// The whole message that goes with a connection from a worker to the gate.
pub const OVER_BUDGET: [u8; 4] = 0x7605_u32.to_le_bytes();
/// The gate's whole answer to a Hello that it believes.
pub const GO_ON: [u8; 4] = 0x7606_u32.to_le_bytes();
/// The whole message that goes with a listening socket to the gate.
pub const LISTENER: [u8; 4] = 0x7607_u32.to_le_bytes();

/// Room for any message.
pub const LONGEST: usize = Dispatch::LEN;

/// What a process at the hand-off socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It passes a listening socket.
    Listener,
    /// It takes connections.
    Worker,
}

/// The first message of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// From the mapped file.
    pub token: [u8; 16],
    /// Process id: of a WORKER its own; of a LISTENER that of the socket's owner, itself or one that it descends from.
    pub pid: u32,
    /// What it is.
    pub role: Role,
    /// Port of the listener; 0 for a worker.
    pub port: u16,
    /// The generation of the gate that it means to reach.
    pub generation: u32,
}

/// The answer to a LISTENER; carries the worker end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The gate's generation.
    pub generation: u32,
}

/// A connection for whichever worker takes it; carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    /// Its slot, or `NO_SLOT`.
    pub slot: u32,
    /// Index of its class.
    pub class: u32,
    /// The use of the slot.
    pub sequence: u64,
    /// When the gate accepted it, CLOCK_MONOTONIC.
    pub arrival_ns: u64,
    /// The client's address, a `sockaddr` as accept(2) gives it.
    pub peer: [u8; 28],
    /// How much of it is used.
    pub peer_len: u32,
}

/// The wish to end an idle connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reclaim {
    /// Its slot.
    pub slot: u32,
    /// The use of the slot that is meant.
    pub sequence: u64,
}

/// The name of the hand-off socket in the run directory of a mapped file with this token.
///
/// It follows from the token by a stream cipher, so whoever sees the name does not know the token. It has 64 bits: trying a million names
/// a second takes half a million years.
#[must_use]
pub fn name(token: [u8; 16]) -> String {
    let mut seed = [0; 32];
    let (key, _) = seed.split_at_mut(token.len());
    key.copy_from_slice(&token);
    format!("handoff-{:016x}", StdRng::from_seed(seed).next_u64())
}

impl Hello {
    /// Bytes on the wire.
    pub const LEN: usize = 36;

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let role = match self.role {
            Role::Listener => 1,
            Role::Worker => 2,
        };
        let mut write = Writer::new(HELLO);
        write.u32(role);
        write.u32(self.pid);
        write.u32(self.generation);
        write.u32(u32::from(self.port));
        write.bytes(&self.token);
        write.out
    }

    /// Reads one; None when it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut read = Reader::new(bytes, Self::LEN, HELLO)?;
        let role = match read.u32()? {
            1 => Role::Listener,
            2 => Role::Worker,
            _ => return None,
        };
        let (pid, generation) = (read.u32()?, read.u32()?);
        let port = u16::try_from(read.u32()?).ok()?;
        let token = read.array()?;
        Some(Self {
            token,
            pid,
            role,
            port,
            generation,
        })
    }
}

impl Welcome {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut write = Writer::new(WELCOME);
        write.u32(self.generation);
        write.out
    }

    /// Reads one; None when it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let generation = Reader::new(bytes, Self::LEN, WELCOME)?.u32()?;
        Some(Self { generation })
    }
}

impl Dispatch {
    /// Bytes on the wire.
    pub const LEN: usize = 60;

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut write = Writer::new(DISPATCH);
        write.u32(self.slot);
        write.u32(self.class);
        write.u32(self.peer_len);
        write.u64(self.sequence);
        write.u64(self.arrival_ns);
        write.bytes(&self.peer);
        write.out
    }

    /// Reads one; None when it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut read = Reader::new(bytes, Self::LEN, DISPATCH)?;
        let (slot, class, peer_len) = (read.u32()?, read.u32()?, read.u32()?);
        let (sequence, arrival_ns) = (read.u64()?, read.u64()?);
        let peer = read.array()?;
        (peer_len as usize <= peer.len()).then_some(Self {
            slot,
            class,
            sequence,
            arrival_ns,
            peer,
            peer_len,
        })
    }
}

impl Reclaim {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// As it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut write = Writer::new(RECLAIM);
        write.u32(self.slot);
        write.u64(self.sequence);
        write.out
    }

    /// Reads one; None when it is not one.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut read = Reader::new(bytes, Self::LEN, RECLAIM)?;
        let (slot, sequence) = (read.u32()?, read.u64()?);
        Some(Self { slot, sequence })
    }
}

/// Sends one message, with a descriptor or without; never raises SIGPIPE.
///
/// # Errors
/// As sendmsg(2).
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    passed: Option<BorrowedFd<'_>>,
    flags: SendFlags,
) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let rights = passed.as_slice();
    if !rights.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(rights));
    }
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags | SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Receives one message: its length (0 at the end of the conversation) and the descriptor that came with it.
///
/// # Errors
/// As recvmsg(2).
pub fn receive(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let mut passed = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            // There is room for one; should there be another, it is closed here.
            passed = descriptors.last().or(passed);
        }
    }
    Ok((received.bytes, passed))
}

/// Puts little-endian fields into a message, one behind the other.
struct Writer<const LEN: usize> {
    out: [u8; LEN],
    at: usize,
}

impl<const LEN: usize> Writer<LEN> {
    #[inline]
    fn new(kind: u32) -> Self {
        let mut write = Self {
            out: [0; LEN],
            at: 0,
        };
        write.u32(kind);
        write
    }

    #[inline]
    fn bytes(&mut self, from: &[u8]) {
        let end = self.at + from.len();
        if let Some(to) = self.out.get_mut(self.at..end) {
            to.copy_from_slice(from);
        }
        self.at = end;
    }

    #[inline]
    fn u32(&mut self, word: u32) {
        self.bytes(&word.to_le_bytes());
    }

    #[inline]
    fn u64(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }
}

/// Takes little-endian fields off a message.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], len: usize, kind: u32) -> Option<Self> {
        let mut read = Self(bytes);
        (bytes.len() == len && read.u32()? == kind).then_some(read)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
#[path = "handoff_tests.rs"]
mod tests;
