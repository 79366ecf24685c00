//! The ledger's entry of one descriptor.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The kinds of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Nothing that the gate knows.
    Unknown = 0,
    /// A connection whose request is awaited to tell its class.
    Peeking = 1,
    /// A connection in the queue of its class.
    Queued = 2,
    /// A connection that is being given to a worker in a slot.
    Sending = 3,
    /// A refused connection whose client still reads.
    Refused = 4,
    /// A listening socket of the server; `with` is its pair's gate end.
    Listener = 5,
    /// The gate's end of a dispatch pair; `with` is the workers' end.
    GateEnd = 6,
    /// The workers' end of a dispatch pair; `with` is the listener's owner.
    WorkerEnd = 7,
    /// A process of the server; `with` is its pid.
    Worker = 8,
    /// Belongs to this gate alone; the next one closes it.
    Passing = 9,
    /// Belongs to the guardian and all its gates.
    Lasting = 10,
    /// A conversation that lasts as long as some process has a listener; `with` is the listener.
    Hold = 11,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Unknown,
        Self::Peeking,
        Self::Queued,
        Self::Sending,
        Self::Refused,
        Self::Listener,
        Self::GateEnd,
        Self::WorkerEnd,
        Self::Worker,
        Self::Passing,
        Self::Lasting,
        Self::Hold,
    ];
}

/// All that is known of one descriptor; one cache line.
#[repr(C, align(64))]
pub struct Entry {
    kind: AtomicU32,
    /// Tells this use of the number from earlier ones.
    pub(crate) use_number: AtomicU32,
    /// Class of a queued connection; times that a peeking one was looked at.
    pub(crate) class: AtomicU32,
    /// As its kind says; for connections that wait, the listener they came from.
    pub(crate) with: AtomicU32,
    /// Links of the chain that it is in.
    pub(crate) previous: AtomicU32,
    pub(crate) next: AtomicU32,
    /// When it was accepted, or refused.
    pub(crate) since_ns: AtomicU64,
    peer: [AtomicU64; 3],
    /// The last four bytes of the longest address.
    peer_end: AtomicU32,
    /// The slot of a connection that is being sent.
    pub(crate) slot: AtomicU32,
}

/// An address as accept(2) gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peer {
    /// `sockaddr_in` or `sockaddr_in6`.
    pub bytes: [u8; 28],
    /// How much of it is used.
    pub len: u32,
}

impl Entry {
    /// The kind of the descriptor.
    pub fn kind(&self) -> Kind {
        let kind = self.kind.load(Relaxed) as usize;
        Kind::ALL.get(kind).copied().unwrap_or(Kind::Unknown)
    }

    /// Says what the descriptor is from now on.
    pub fn set_kind(&self, kind: Kind) {
        self.kind.store(kind as u32, Relaxed);
    }

    /// The client's address.
    pub fn peer(&self) -> Peer {
        let mut peer = Peer::default();
        let (start, end) = peer.bytes.split_at_mut(24);
        for (bytes, word) in start.chunks_exact_mut(8).zip(&self.peer) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        end.copy_from_slice(&self.peer_end.load(Relaxed).to_ne_bytes());
        peer.len = match i32::from(u16::from_ne_bytes([peer.bytes[0], peer.bytes[1]])) {
            libc::AF_INET => 16,
            libc::AF_INET6 => 28,
            _ => 0,
        };
        peer
    }

    /// Notes the client's address.
    pub fn set_peer(&self, peer: &Peer) {
        let (start, end) = peer.bytes.split_at(24);
        for (bytes, word) in start.chunks_exact(8).zip(&self.peer) {
            let mut eight = [0; 8];
            eight.copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(eight), Relaxed);
        }
        let mut four = [0; 4];
        four.copy_from_slice(end);
        self.peer_end.store(u32::from_ne_bytes(four), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    #[test]
    fn an_entry_is_one_cache_line_so_100_000_connections_take_6_mb() {
        assert_eq!(std::mem::size_of::<Entry>(), 64);
    }

    #[test]
    fn a_peer_comes_back_as_it_was_noted() {
        let ledger = Ledger::new(4).unwrap();
        for text in ["127.1.2.3:81", "[2001:db8::7]:8080"] {
            let peer = crate::sockets::peer(text.parse().unwrap());
            ledger.entry(3).set_peer(&peer);
            assert_eq!(ledger.entry(3).peer(), peer);
        }
    }

    #[test]
    fn kinds_are_read_as_they_were_written() {
        let ledger = Ledger::new(1).unwrap();
        for kind in Kind::ALL {
            ledger.entry(0).set_kind(kind);
            assert_eq!(ledger.entry(0).kind(), kind);
        }
    }
}
