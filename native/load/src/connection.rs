//! Non-blocking connections to the server.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::arena::Id;
use crate::http::Reply;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The handshake is not complete.
    Connecting,
    /// No request is under way.
    Idle,
    /// A request is under way.
    Busy,
}

/// One connection.
#[derive(Debug)]
pub struct Link {
    /// The socket.
    pub socket: OwnedFd,
    /// Whose it is.
    pub session: Id,
    /// What it is doing.
    pub stage: Stage,
    /// When the handshake began.
    pub opened_ns: u64,
    /// Complete replies so far.
    pub replies: u32,
    /// Bytes of the request under way that are sent.
    pub sent: usize,
    /// The reply under way.
    pub reply: Reply,
}

/// Begins to connect.
///
/// # Errors
/// The system refuses the socket, the source address or the connection.
pub fn open(target: SocketAddr, source: Option<Ipv4Addr>) -> Result<OwnedFd, Errno> {
    let family = if target.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(source) = source {
        choose_port_on_connect(&socket)?;
        net::bind(&socket, &SocketAddrV4::new(source, 0))?;
    }
    match net::connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Lets the kernel choose the source port when it knows the target, so that each target has all ports (ip(7)).
fn choose_port_on_connect(socket: &OwnedFd) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open, and the option value is a c_int that outlives the call, given with its size.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            std::ptr::from_ref(&on).cast(),
            std::mem::size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
    }
}

/// The error is this machine's own: no port or descriptor or memory left.
pub fn is_local(error: Errno) -> bool {
    matches!(
        error,
        Errno::ADDRNOTAVAIL
            | Errno::ADDRINUSE
            | Errno::MFILE
            | Errno::NFILE
            | Errno::NOBUFS
            | Errno::NOMEM
            | Errno::AGAIN
    )
}

impl Link {
    /// Sends what is left of a request.
    ///
    /// # Returns
    /// True when all of it is sent.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn send(&mut self, request: &[u8]) -> Result<bool, Errno> {
        while self.sent < request.len() {
            match net::send(
                &self.socket,
                &request[self.sent..],
                net::SendFlags::NOSIGNAL,
            ) {
                Ok(sent) => self.sent += sent,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Receives into a buffer; None when there is nothing now, Some(0) when the server has closed.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            match rustix::io::read(&self.socket, &mut *buffer) {
                Ok(received) => return Ok(Some(received)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }
}
