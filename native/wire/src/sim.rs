//! The conversation with `trimtab-native sim`.
//!
//! Python writes [`Order`] lines and reads one [`Answer`] line for each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::shop::Shop;
use crate::workload::Population;

/// A class of clients: the populations of its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Process budget B_k at the start: most of its connections that workers hold at once.
    pub budget: u32,
}

/// The simulated server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Worker limit m at the start (`max_request_workers`).
    pub max_request_workers: u32,
    /// Keep-alive time at the start, in milliseconds.
    pub keep_alive_timeout_ms: u32,
    /// Length K of the accept queue; a connection beyond it is retried by the client as TCP does.
    pub accept_queue: u32,
    /// Cores c, shared by processor sharing.
    pub cores: f64,
    /// Memory limit in bytes.
    pub memory_limit_bytes: f64,
    /// Memory of the server without workers.
    pub base_memory_bytes: f64,
    /// Memory per worker that has served, busy or idle.
    pub worker_memory_bytes: f64,
    /// Share of it that no request touches again once it was made.
    #[serde(default)]
    pub cold_ratio: f64,
    /// Workers that are started with the server, as with Apache's StartServers; from then on its prefork rules hold. 0: workers are there
    /// the moment they are needed.
    #[serde(default)]
    pub start_workers: u32,
    /// Idle workers below which more are started, as with Apache's MinSpareServers.
    #[serde(default)]
    pub min_spare_workers: u32,
    /// Idle workers that stay; of more, one ends each second, as with Apache's MaxSpareServers.
    pub spare_workers: u32,
    /// Bytes per second that one core brings back from swap, or puts there.
    pub swap_bytes_hz: f64,
    /// Service time not spent on a core (disk, network), per request.
    pub other_s: f64,
    /// Share of a request, on a core and off it, under a lock that one worker holds at a time.
    #[serde(default)]
    pub lock_ratio: f64,
    /// Wait in the accept queue from which the status page does not answer, as it waits there too; 0: it always does.
    #[serde(default)]
    pub status_timeout_s: f64,
    /// True draws each request's CPU demand from an exponential distribution; false makes it constant.
    pub exponential_service: bool,
    /// Time a change takes to come into force.
    pub reload_s: f64,
    /// Classes of clients in order of priority, highest first: a connection scheduler with a queue for each stands in place of
    /// the accept queue. With none the workers accept for themselves.
    #[serde(default)]
    pub classes: Vec<Class>,
}

/// An order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Build the system; virtual time is 0.
    Start {
        /// The server.
        server: Server,
        /// Its clients.
        populations: Vec<Population>,
        /// Source of all randomness.
        seed: u64,
    },
    /// Build a shop of three tiers; virtual time is 0, and its settings stay.
    StartShop {
        /// The shop.
        shop: Box<Shop>,
        /// Its browsers: closed users who walk a graph.
        browsers: Box<Population>,
        /// Source of all randomness.
        seed: u64,
    },
    /// Move knobs.
    Apply {
        /// Knob name to value.
        changes: BTreeMap<String, i64>,
    },
    /// Let virtual time pass.
    Advance {
        /// How much.
        duration_s: f64,
    },
    /// Readings since the last `Begin`; braces, because serde lets unknown keys pass in a unit variant.
    Read {},
    /// Start a new measuring interval.
    Begin {},
}

/// What clients had since the start of the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Time that all of them together waited for a reply, in seconds.
    pub waited_s: f64,
    /// Replies that they waited for.
    pub replies: u64,
    /// Requests that they gave up.
    pub given_up: u64,
    /// Requests that a visit would still have made that ended with one given up; every page counted like its last.
    pub unsent: u64,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Done; the virtual time and the configuration in force.
    Done {
        /// Virtual time.
        now_s: f64,
        /// Knob name to value in force.
        configuration: BTreeMap<String, i64>,
    },
    /// Readings by metric name, with the names and units that the real sensors use.
    Readings {
        /// Virtual time.
        now_s: f64,
        /// Metric name to value; what had no sample is absent.
        readings: BTreeMap<String, f64>,
        /// Requests completed.
        samples: u64,
        /// What clients had since the start.
        totals: Totals,
        /// Events processed since the start.
        events: u64,
    },
    /// The order could not be carried out.
    Refused {
        /// Why, in one line.
        message: String,
    },
}
