//! Calls on sockets that several parts of the gate make.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::net::{
    recv, send, socketpair, sockopt, AddressFamily, RecvFlags, SendFlags, SocketAddrAny,
    SocketFlags, SocketType,
};

use crate::entry::Peer;

/// Whether a Unix socket takes descriptors (Linux 6.16), which the C library does not name yet; its accepted sockets inherit it.
const SO_PASSRIGHTS: libc::c_int = 83;
/// Dispatches that may lie between gate and workers, in bytes of the kernel's memory.
const PAIR_BYTES: usize = 4 << 20;

/// An address as accept(2) gives it.
pub fn peer(address: SocketAddr) -> Peer {
    let mut peer = Peer::default();
    match address {
        SocketAddr::V4(v4) => {
            peer.bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            peer.bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
            peer.bytes[4..8].copy_from_slice(&v4.ip().octets());
            peer.len = 16;
        }
        SocketAddr::V6(v6) => {
            peer.bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            peer.bytes[2..4].copy_from_slice(&v6.port().to_be_bytes());
            peer.bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            peer.bytes[8..24].copy_from_slice(&v6.ip().octets());
            peer.bytes[24..].copy_from_slice(&v6.scope_id().to_ne_bytes());
            peer.len = 28;
        }
    }
    peer
}

/// The address in a [`Peer`]; None when it is no internet address.
pub fn address(peer: &Peer) -> Option<SocketAddr> {
    let b = &peer.bytes;
    let port = u16::from_be_bytes([b[2], b[3]]);
    match (i32::from(u16::from_ne_bytes([b[0], b[1]])), peer.len) {
        (libc::AF_INET, 16) => Some(([b[4], b[5], b[6], b[7]], port).into()),
        (libc::AF_INET6, 28) => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&b[8..24]);
            Some((octets, port).into())
        }
        _ => None,
    }
}

/// The internet address that a call gave; None when it is another kind.
pub fn internet(address: SocketAddrAny) -> Option<SocketAddr> {
    address.try_into().ok()
}

/// A dispatch pair: the gate's end and the workers' end, which does not block until somebody whose accept blocks has said so.
pub fn pair() -> Result<(OwnedFd, OwnedFd)> {
    let (gate, workers) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::io::ioctl_fionbio(&workers, true)?;
    // Only root may exceed the system's limit; others get as much as that.
    if sockopt::set_socket_send_buffer_size_force(&gate, PAIR_BYTES).is_err() {
        sockopt::set_socket_send_buffer_size(&gate, PAIR_BYTES)?;
    }
    Ok((gate, workers))
}

/// Says whether a Unix socket takes descriptors; where the kernel cannot be told it takes them.
pub fn take_descriptors(socket: BorrowedFd<'_>, take: bool) {
    let value = libc::c_int::from(take);
    let length = std::mem::size_of_val(&value) as libc::socklen_t;
    let number = socket.as_raw_fd();
    let value = (&raw const value).cast();
    // SAFETY: the option is an int, and `value` points to one. Where it is not known nothing has changed.
    unsafe { libc::setsockopt(number, libc::SOL_SOCKET, SO_PASSRIGHTS, value, length) };
}

/// A descriptor that another process has passed, whose close does not wait for what its socket has to send (SO_LINGER).
///
/// Who sets it again later has the socket open himself, and then the close here is not the last one.
pub fn tamed(passed: OwnedFd) -> OwnedFd {
    // It fails for what is no socket.
    let _ = sockopt::set_socket_linger(&passed, None);
    passed
}

/// Nothing that was sent on a socket waits to be received.
pub fn is_drained(socket: BorrowedFd<'_>) -> bool {
    let mut waiting: libc::c_int = 0;
    // SAFETY: SIOCOUTQ (TIOCOUTQ) writes one int, and `waiting` is one.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) };
    done == 0 && waiting == 0
}

/// Receives what there is, and throws it away.
///
/// # Returns
/// True at the end of the stream or after an error: nothing can follow.
pub fn discard(socket: BorrowedFd<'_>, most_reads: u32, scratch: &mut [u8]) -> bool {
    for _ in 0..most_reads {
        match recv(socket, &mut *scratch, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return true,
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => return true,
        }
    }
    false
}

/// Looks at the first bytes that have come, and leaves them.
///
/// # Returns
/// How many there are; 0 at the end of the stream.
pub fn peek(socket: impl AsFd, into: &mut [u8]) -> Result<usize> {
    let (count, _) = recv(socket, into, RecvFlags::PEEK | RecvFlags::DONTWAIT)?;
    Ok(count)
}

/// Sends as much as goes at once.
pub fn send_now(socket: impl AsFd, bytes: &[u8]) -> Result<usize> {
    send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_goes_through_a_peer_unchanged() {
        for text in ["127.1.2.3:81", "[2001:db8::7]:8080"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(super::address(&peer(address)), Some(address));
        }
        assert_eq!(super::address(&Peer::default()), None);
    }

    #[test]
    fn a_pair_is_drained_when_all_was_received() {
        let (gate, workers) = pair().unwrap();
        assert!(is_drained(gate.as_fd()));
        send_now(&gate, b"x").unwrap();
        assert!(!is_drained(gate.as_fd()));
        let mut scratch = [0; 8];
        assert!(!discard(workers.as_fd(), 4, &mut scratch));
        assert!(is_drained(gate.as_fd()));
        drop(gate);
        assert!(discard(workers.as_fd(), 4, &mut scratch));
    }
}
