//! Connections that the server makes to itself, to wake a worker: known by their source address, and worth nothing to anybody else.

// The shim carries this into the server, which a panic would end.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use rustix::net::{recv, shutdown, RecvFlags, Shutdown};

use crate::shared::Layout;

/// Reads of at most 4096 bytes before the rest is left: no more than a client's first window fits into them.
const READS: usize = 64;

/// A connection from this address was made by the server itself, or by somebody on this machine who has seen it do so.
pub fn is_wake(layout: &Layout, source: IpAddr) -> bool {
    let own = layout.header.wake_source.load(Relaxed);
    matches!(source.to_canonical(), IpAddr::V4(source) if source.to_bits() == own)
}

/// Ends a connection in both directions and drops what its client has sent: accepting it wakes a worker, and that is all it does.
pub fn end(socket: BorrowedFd<'_>) {
    // First: what comes from now on is answered with a reset. It fails when the client has gone already.
    let _ = shutdown(socket, Shutdown::Both);
    let mut scratch = [0_u8; 4096];
    for _ in 0..READS {
        if !matches!(recv(socket, &mut scratch, RecvFlags::DONTWAIT), Ok((count, _)) if count > 0) {
            return;
        }
    }
}
