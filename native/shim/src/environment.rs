//! What the environment asks of the shim; read once, before the server starts.

use std::path::Path;
use std::sync::OnceLock;

use rustix::net::SocketAddrUnix;
use trimtab_wire::shared::Shared;

/// What was asked for.
pub struct Environment {
    /// The mapped file.
    pub shared: Shared,
    /// The hand-off socket; None to sense only.
    pub handoff: Option<SocketAddrUnix>,
    ports: Vec<u16>,
}

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Reads the environment; false when the shim has nothing to do in this process.
pub fn load() -> bool {
    read().is_some_and(|found| ENVIRONMENT.set(found).is_ok())
}

/// What was asked for; None leaves everything to libc.
#[inline]
pub fn get() -> Option<&'static Environment> {
    ENVIRONMENT.get()
}

impl Environment {
    /// Whether listeners on this port are gated.
    pub fn gates(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }
}

fn read() -> Option<Environment> {
    let ports = std::env::var("TRIMTAB_PORTS").ok()?;
    let ports: Vec<u16> = ports
        .split(',')
        .map(|p| p.trim().parse().ok())
        .collect::<Option<_>>()?;
    let shared = Shared::open(Path::new(&std::env::var_os("TRIMTAB_SHARED")?)).ok()?;
    let handoff = match std::env::var_os("TRIMTAB_HANDOFF") {
        None => None,
        Some(path) => Some(SocketAddrUnix::new(path.as_os_str()).ok()?),
    };
    Some(Environment {
        shared,
        handoff,
        ports,
    })
}
