//! The library that `trimtab run` loads into an unmodified server with LD_PRELOAD.
//!
//! It may only ever make things no worse: without its environment, with a mapped file of another version, for a descriptor that it does
//! not know and on any doubt it calls libc as if it were not there. It has three jobs:
//!
//! - hand-off (`listener`): the server's listening socket goes to the gate, and `accept` takes connections from the gate, or
//!   for itself as long as the gate lets it (`lanes`); when the gate has died the process accepts for itself, and when it is back, takes from it again;
//! - sense (`connection`): queueing delay, service time and idle periods of connections on the gated ports, and the state of
//!   their slots;
//! - keep-alive (`patience` where the server waits in poll, `expiry` where it waits in epoll): idle connections end after the
//!   time that the mapped file says. Only those of which `http1` knows for certain that nothing is under way.
//!
//! `hooks` holds the libc functions that are replaced: thin, and the only place besides `real` where C is spoken. Nothing on the
//! path of a request allocates, locks or prints, and `errno` is what libc left. The library itself makes its system calls
//! through rustix, which goes neither through its own hooks nor through `errno`.

// A panic would end the server. Arithmetic does not panic in what is shipped, but for divisions by zero.
#![deny(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::todo,
    clippy::unimplemented,
    clippy::unreachable
)]

mod answers;
mod chunks;
mod clock;
mod connection;
mod environment;
mod epolls;
mod expiry;
mod follower;
mod fork;
mod head;
mod hooks;
mod hot;
mod http1;
mod idle;
mod interrupted;
mod kept;
mod lanes;
mod listener;
mod numbers;
mod passed;
mod patience;
mod phase;
mod real;
mod rebind;
mod reclaim;
mod register;
mod successor;
mod switch;
mod table;
mod tcp;
mod thread;
mod tls;
mod wake;

/// Runs when the library is loaded, before the server's `main`.
extern "C" fn loaded() {
    real::resolve();
    if environment::load() {
        clock::find();
        fork::watch();
        listener::inherited();
    }
}

#[used]
#[cfg_attr(not(miri), link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
