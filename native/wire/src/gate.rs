//! The conversation with `trimtab-native gate`.
//!
//! Python writes one [`Start`] line on standard input. Everything after that goes over `control.sock` in the run
//! directory: one [`Order`] per line, one [`Answer`] line for each, from any number of clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The knob M: connections that the server may hold at once.
pub const LIMIT: &str = "max_request_workers";
/// What stands before the name of a class in the knob of its budget B_k.
pub const BUDGET: &str = "process_budget@";

/// What happens to a connection when the queue of its class is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Full {
    /// It is refused.
    RefuseNewest,
    /// The one that waited longest is refused in its place.
    RefuseOldest,
}

/// What happens when a class may have more workers than are free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// It waits until other classes release theirs, as in lu2001.
    NonPreemptive,
    /// Idle keep-alive connections of classes over their budget are ended.
    Preemptive,
}

/// One way into a class: a connection must have all the parts that are given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Network of the client: `127.0.1.0/24`, `::1/128`, or one address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Address of the server that was connected to: `127.0.0.1:8080` or `:8080`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// Host of the request without its port, compared without case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What the path of the request begins with, once it is resolved as servers do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_prefix: Option<String>,
    /// A cookie by `name` or by `name=value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// A header field by `Name` or by `Name: value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Server name of a TLS ClientHello, compared without case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// A class of connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Any of these leads into it; no rules: it takes what no other class takes.
    pub rules: Vec<Rule>,
    /// B_k at the start.
    pub budget: u32,
    /// Workers that neither saturation nor borrowing takes from it.
    pub minimum: u32,
    /// Connections that may wait.
    pub queue_limit: u32,
    /// What happens to one more.
    pub full: Full,
}

/// A user of this machine, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Its id.
    pub uid: u32,
    /// Id of its group.
    pub gid: u32,
}

/// The order to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// The run directory.
    pub directory: PathBuf,
    /// M at the start.
    pub limit: u32,
    /// Classes in order of priority, highest first; exactly one has no rules.
    pub classes: Vec<Class>,
    /// What happens when a class may have more workers than are free.
    pub policy: Policy,
    /// True lets an otherwise idle worker serve a class over its budget.
    pub borrow: bool,
    /// Most bytes of a request that are looked at.
    pub peek_bytes: u32,
    /// Longest time that is waited for them.
    pub peek_timeout_s: f64,
    /// Where Prometheus may ask, on loopback.
    pub metrics: Option<SocketAddr>,
    /// How long a lease lasts that does not say it.
    pub controller_timeout_s: f64,
    /// Whom the gate becomes once its sockets are open; absent: it stays who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
}

/// An order on `control.sock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Moves knobs, all at one instant.
    Apply {
        /// Knob name to value.
        changes: BTreeMap<String, i64>,
    },
    /// Asks for readings; braces, because serde lets unknown keys pass in a unit variant.
    Read {},
    /// This connection is the controller's: each of its orders renews the lease, and when it runs out the gate opens.
    Lease {
        /// How long without an order; absent: the start line's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_s: Option<f64>,
    },
    /// The controller ends in good order: the budgets stay as they are, and no lease runs out.
    EndLease {},
    /// Ends the gate; the workers accept for themselves.
    Stop {},
}

/// Who decides about a waiting connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The budgets.
    Budgets,
    /// The controller's lease ran out: only the order of arrival and M.
    Open,
}

/// What a class has seen, cumulative since the first gate of this run directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassReadings {
    /// Class name.
    pub class: String,
    /// Connections classified.
    pub arrivals: u64,
    /// Connections given to a worker.
    pub dispatched: u64,
    /// Connections refused because the queue was full.
    pub refused: u64,
    /// Clients that gave up while they waited.
    pub aborted: u64,
    /// Sum of delays (accepted by the gate until given to a worker) over `dispatched`.
    pub delay_sum_s: f64,
    /// Delays by bucket: its largest delay in microseconds and its count; empty buckets are absent.
    pub delay_buckets: Vec<(u64, u64)>,
    /// Connections that wait now.
    pub queue: u32,
    /// R_k now: connections that a worker has, or that are on their way to one.
    pub in_service: u32,
    /// Integral of `queue`.
    pub queue_connection_s: f64,
    /// Integral of `in_service`.
    pub in_service_connection_s: f64,
    /// How long the first of the queue has waited; 0 when nothing waits.
    pub oldest_wait_s: f64,
}

/// An answer on `control.sock`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Done; what is in force now.
    Done {
        /// Knob name to value in force.
        configuration: BTreeMap<String, i64>,
        /// Who decides.
        mode: Mode,
        /// Tells this gate from all that were before it in this run directory.
        generation: u32,
    },
    /// Readings.
    Readings {
        /// CLOCK_MONOTONIC.
        now_s: f64,
        /// Who decides.
        mode: Mode,
        /// In order of priority.
        classes: Vec<ClassReadings>,
    },
    /// The order could not be carried out; nothing changed.
    Refused {
        /// Why, in one line.
        message: String,
    },
}
