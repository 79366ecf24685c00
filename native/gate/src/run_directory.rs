//! The gate's files and sockets in its run directory, which outlive each of its processes but the last.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use rustix::fs::{chmod, flock, FlockOperation, Mode};
use rustix::net::{
    bind, listen, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
};
use trimtab_wire::gate::Start;
use trimtab_wire::shared::Shared;

use crate::sockets;

const BACKLOG: i32 = 1024;
/// Dispatch pairs that are made in advance, because only root may give them large buffers; a server seldom has more listeners. Those of
/// further ones have what the system allows everybody.
const PAIRS: usize = 8;

/// The mapped file and the sockets that are waited on.
pub struct RunDirectory {
    /// Counters and slots that the server's processes share.
    pub shared: Shared,
    /// Where they come.
    pub handoff: u32,
    /// Where orders come.
    pub control: u32,
    /// Where Prometheus comes.
    pub metrics: Option<u32>,
    /// Dispatch pairs for the first listeners, the gate's end and the workers'; the ledger says which are still unused.
    pub pairs: Vec<(u32, u32)>,
    _held: Vec<OwnedFd>,
}

impl RunDirectory {
    /// Makes what is missing in the directory.
    ///
    /// # Errors
    /// Another gate runs there, or something cannot be made.
    pub fn make(start: &Start) -> anyhow::Result<Self> {
        let directory = &start.directory;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            // Who can open it could hold the lock.
            .mode(0o600)
            .open(directory.join("lock"))
            .with_context(|| format!("{}", directory.display()))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .with_context(|| format!("another gate runs in {}", directory.display()))?;
        let shared = directory.join("shared");
        let shared = Shared::create(&shared).with_context(|| format!("{}", shared.display()))?;
        // Only who can read the mapped file, which is its owner's alone, knows the name, and the token that must be shown there.
        let name = trimtab_wire::handoff::name(shared.token());
        let handoff = unix(directory, "handoff", &name, SocketType::SEQPACKET, 0o666)?;
        sockets::take_descriptors(handoff.as_fd(), false);
        let control = unix(
            directory,
            "control",
            "control.sock",
            SocketType::STREAM,
            0o600,
        )?;
        let metrics = start.metrics.map(|address| {
            let listener =
                TcpListener::bind(address).with_context(|| format!("metrics on {address}"))?;
            listener.set_nonblocking(true)?;
            anyhow::Ok(OwnedFd::from(listener))
        });
        let metrics = metrics.transpose()?;
        let pairs = (0..PAIRS).map(|_| {
            let (gate, workers) = sockets::pair()?;
            Ok((gate.into_raw_fd() as u32, workers.into_raw_fd() as u32))
        });
        let pairs = pairs
            .collect::<rustix::io::Result<_>>()
            .context("sockets")?;
        let number = |fd: &OwnedFd| fd.as_raw_fd() as u32;
        Ok(Self {
            shared,
            handoff: number(&handoff),
            control: number(&control),
            metrics: metrics.as_ref().map(number),
            pairs,
            _held: [handoff, control, lock.into()]
                .into_iter()
                .chain(metrics)
                .collect(),
        })
    }
}

/// A listening socket under its name from the moment on that it can be connected to.
///
/// It is bound under another one, which /proc/net/unix shows everybody for ever, and there its owner alone may connect.
fn unix(
    directory: &Path,
    shown: &str,
    name: &str,
    kind: SocketType,
    mode: u32,
) -> anyhow::Result<OwnedFd> {
    let path = directory.join(name);
    let made = || -> anyhow::Result<OwnedFd> {
        let new = directory.join(format!("{shown}.new"));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, kind, flags, None)?;
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        bind(socket.as_fd(), &SocketAddrUnix::new(&new)?)?;
        chmod(&new, Mode::from_raw_mode(0o600))?;
        listen(socket.as_fd(), BACKLOG)?;
        std::fs::rename(&new, &path)?;
        chmod(&path, Mode::from_raw_mode(mode))?;
        Ok(socket)
    };
    made().with_context(|| format!("{shown} socket in {}", directory.display()))
}
