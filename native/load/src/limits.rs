//! What this machine lets one process have.

use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Descriptors that are asked for where the process may raise its own hard limit.
const WANTED: u64 = 1_048_576;

/// Raises the limit of descriptors as far as this process may; a limit that stays too low shows as `local` failures.
pub fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let hard = limit.maximum.unwrap_or(WANTED);
    let wanted = hard.max(WANTED);
    if setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        },
    )
    .is_err()
    {
        // Raising the soft limit to the hard one needs no right; if even that fails, the limit stays as it is.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(hard),
                maximum: Some(hard),
            },
        );
    }
}

/// The limit of descriptors in force.
pub fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
