//! Whatever reads what others write, as functions of bytes that must not panic, hang or contradict themselves.
//!
//! `tests/short.rs` runs each on mutated seeds, always the same ones; `run.sh` runs them guided by coverage for as long as wanted.

use trimtab_gate::fuzz as gate;

mod exchanges;
mod messages;
mod pieces;

// The shim is a library that stands before libc's functions: what it parses with is read in here, not linked.
#[path = "../../shim/src/chunks.rs"]
#[allow(dead_code)]
mod chunks;
#[path = "../../shim/src/follower.rs"]
#[allow(dead_code)]
mod follower;
#[path = "../../shim/src/head.rs"]
#[allow(dead_code)]
mod head;
#[path = "../../load/src/http.rs"]
#[allow(dead_code)]
mod http;
#[path = "../../shim/src/http1.rs"]
#[allow(dead_code)]
mod http1;
#[path = "../../load/src/page.rs"]
#[allow(dead_code)]
mod page;
#[path = "../../shim/src/tls.rs"]
#[allow(dead_code)]
mod tls;

/// A function of bytes, and how many cases of it a short run takes.
pub struct Target {
    /// Its name, and that of the directory of its seeds.
    pub name: &'static str,
    /// What it does with them; it panics when something is wrong.
    pub run: fn(&[u8]),
    /// Cases in a short run.
    pub cases: u32,
}

const fn target(name: &'static str, run: fn(&[u8]), cases: u32) -> Target {
    Target { name, run, cases }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("request", gate::request, 20_000),
    target("client_hello", gate::client_hello, 20_000),
    target("metrics", gate::metrics, 20_000),
    target("orders", gate::orders, 2_000),
    target("start", gate::start, 20_000),
    target("mapped", gate::mapped, 300),
    target("handoff", messages::handoff, 20_000),
    target("rules", messages::rules, 20_000),
    target("http1", exchanges::http1, 20_000),
    target("tls", exchanges::tls, 20_000),
    target("reply", exchanges::reply, 20_000),
    target("page", exchanges::page, 20_000),
];
