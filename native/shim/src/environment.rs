//! The environment's orders to the shim; read once, before the server starts.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;

use rustix::net::SocketAddrUnix;
use trimtab_wire::shared::{Layout, Shared, FLAG_PREEMPTIVE};

use crate::hot::HOT;

/// The orders.
pub struct Environment {
    /// The mapped file.
    pub shared: Shared,
    /// The hand-off socket; None to sense only.
    pub handoff: Option<SocketAddrUnix>,
    /// The variables that say so, as a program is given them.
    pub variables: Vec<CString>,
    /// None for all.
    ports: Option<Vec<u16>>,
}

const VARIABLES: [&str; 4] = [
    "LD_PRELOAD",
    "TRIMTAB_SHARED",
    "TRIMTAB_PORTS",
    "TRIMTAB_HANDOFF",
];

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Reads the environment; false when the shim has nothing to do in this process.
pub fn load() -> bool {
    let set = read().is_some_and(|found| ENVIRONMENT.set(found).is_ok());
    if let Some(environment) = get() {
        let layout: &Layout = &environment.shared;
        HOT.shared
            .store(std::ptr::from_ref(layout).cast_mut(), Ordering::Release);
    }
    set
}

/// The mapped file; None leaves everything to libc.
#[inline]
pub fn shared() -> Option<&'static Layout> {
    // SAFETY: null, or that of ENVIRONMENT, which is mapped as long as the process lives.
    unsafe { HOT.shared.load(Ordering::Acquire).as_ref() }
}

/// Whether idle connections are ended, or may be from now on: then it matters that nothing is under way on them.
#[inline]
pub fn ends_connections() -> bool {
    shared().is_some_and(|shared| {
        shared.header.keep_alive.mode.load(Ordering::Relaxed) != 0 || shared.has(FLAG_PREEMPTIVE)
    })
}

/// The orders of this process; None leaves everything to libc.
#[inline]
pub fn get() -> Option<&'static Environment> {
    ENVIRONMENT.get()
}

/// Whether there is a gate, or may be one again.
#[inline]
pub fn is_gated() -> bool {
    get().is_some_and(|environment| environment.handoff.is_some())
}

impl Environment {
    /// Whether listeners on this port are gated, or their connections sensed.
    pub fn gates(&self, port: u16) -> bool {
        self.ports
            .as_ref()
            .is_none_or(|ports| ports.contains(&port))
    }
}

fn read() -> Option<Environment> {
    let ports = match std::env::var("TRIMTAB_PORTS").ok()?.as_str() {
        "*" => None,
        listed => {
            let ports = listed.split(',').map(|port| port.trim().parse().ok());
            Some(ports.collect::<Option<_>>()?)
        }
    };
    let path = std::env::var_os("TRIMTAB_SHARED")?;
    // SAFETY: only `load` gets here, once, before the server's `main`.
    let shared = unsafe { Shared::open_in(&HOT.room, Path::new(&path)) }.ok()?;
    let handoff = match std::env::var_os("TRIMTAB_HANDOFF") {
        None => None,
        Some(directory) => {
            let name = trimtab_wire::handoff::name(shared.token());
            Some(SocketAddrUnix::new(Path::new(&directory).join(name)).ok()?)
        }
    };
    Some(Environment {
        shared,
        handoff,
        variables: VARIABLES.iter().filter_map(|name| variable(name)).collect(),
        ports,
    })
}

/// A variable as a program is given it; None when it is not set.
fn variable(name: &str) -> Option<CString> {
    let value = std::env::var_os(name)?;
    CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()
}
