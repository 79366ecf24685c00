//! The conversation with `trimtab-native load`.
//!
//! Python writes one [`Start`] line; the program answers with one [`Report`] per line: intervals while it runs,
//! a summary at the end. A [`Control`] line, or the end of standard input, ends the run early; the summary still comes.

use serde::{Deserialize, Serialize};

use crate::workload::Population;

/// The order to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Address and port of the server.
    pub target: std::net::SocketAddr,
    /// Value of the Host header.
    pub host: String,
    /// Who sends.
    pub populations: Vec<Population>,
    /// Length of the run.
    pub duration_s: f64,
    /// Distance of the interval reports.
    pub interval_s: f64,
    /// Source of all randomness.
    pub seed: u64,
    /// True lets the target be outside this machine.
    #[serde(default)]
    pub allow_remote: bool,
    /// The part of the run of which the summary of the pages of a graph speaks; None: the whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Span>,
}

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Seconds since the start of the run.
    pub from_s: f64,
    /// Seconds since the start of the run.
    pub until_s: f64,
}

/// An order in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Control {
    /// End the run now.
    Stop {},
}

/// Figures of one duration, in seconds; absent values were not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean_s: Option<f64>,
    /// Median.
    pub p50_s: Option<f64>,
    /// 95th percentile.
    pub p95_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
    /// Largest.
    pub max_s: Option<f64>,
    /// HDR histogram in microseconds, V2 compressed, base64; only in the summary.
    pub histogram: Option<String>,
}

/// What one class did in an interval or in the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Class name.
    pub class: String,
    /// Requests with a complete reply and a status below 400; the others are in `errors`.
    pub requests: u64,
    /// Pages completed, all of whose requests are in `requests`.
    pub pages: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Connections established.
    pub connections: u64,
    /// Bytes of reply bodies.
    pub body_bytes: u64,
    /// Page time from the intended start.
    pub page_intended: Latency,
    /// Page time from when the generator acted on the click: connecting is part of it.
    pub page_actual: Latency,
    /// Request time from the intended send.
    pub request_intended: Latency,
    /// Request time from the actual (first) send: connecting is not part of it.
    pub request_actual: Latency,
    /// Time to connect.
    pub connect: Latency,
    /// Time from the actual send to the first byte of the reply.
    pub first_byte: Latency,
    /// Failed requests by kind: connect, reset, timeout, malformed, http_4xx, http_5xx, wrong_page (not the
    /// page that was asked for; such a request is in `requests` too), local (out of ports or descriptors).
    pub errors: std::collections::BTreeMap<String, u64>,
    /// Patience that was left to the requests in `errors` when they failed, in sum; 0 for one that timed out. One
    /// with the wrong page counts as the others: it is in `requests`, but its patience is nowhere else.
    pub patience_left_s: f64,
    /// Requests that visits given up after a failure would still have asked for. Users who are always there have none:
    /// they make another visit instead.
    pub unasked: u64,
    /// Requests sent again on a new connection because the server had closed the idle one; not errors.
    pub resent: u64,
    /// For how long requests were due and without a reply, in sum; a request that the generator begins late counts from
    /// when it was due, once it is begun.
    pub waited_s: f64,
    /// Requests due and without a reply at the end of the interval: censored.
    pub outstanding: u64,
    /// Those of `outstanding` that are not yet sent (waiting for a connection or the generator): censored.
    pub unsent: u64,
    /// Those of `requests` that were answered by a redirect (300 to 399): no more than where the page is.
    #[serde(default, skip_serializing_if = "is_none")]
    pub redirected: u64,
    /// What its browsers did; only of classes that walk a graph, who follow redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browsing: Option<Browsing>,
}

/// A class without redirects looks as it did before they were counted.
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// What browsers did in an interval, or in the measured part of the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Browsing {
    /// Length of it.
    pub duration_s: f64,
    /// By page, in the order of the graph.
    pub interactions: Vec<Interaction>,
    /// Think times drawn.
    pub think: Latency,
    /// Lengths of the sessions that ended.
    pub session: Latency,
    /// Images that the browsers' caches had.
    pub cache_hits: u64,
}

/// What browsers did with one page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interaction {
    /// Its name.
    pub page: String,
    /// From the click to the last byte of the page and its images; those that failed are not in it.
    pub time: Latency,
    /// 90th percentile of it.
    pub p90_s: Option<f64>,
    /// Interactions that failed, by kind: as the requests', and `wrong_page`.
    pub errors: std::collections::BTreeMap<String, u64>,
}

/// What the program reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Report {
    /// One interval.
    Interval {
        /// Seconds since the start at its end.
        at_s: f64,
        /// Its length.
        duration_s: f64,
        /// By class, in the order of the populations.
        classes: Vec<Class>,
        /// Sessions in progress at its end.
        active_sessions: u64,
        /// How late the generator itself acted against its own schedule.
        lateness: Latency,
    },
    /// The whole run.
    Summary {
        /// Length of the run.
        duration_s: f64,
        /// By class.
        classes: Vec<Class>,
        /// The generator's own lateness.
        lateness: Latency,
        /// CPU time that the generator used.
        cpu_s: f64,
        /// True when it was stopped before its duration.
        stopped_early: bool,
    },
}
