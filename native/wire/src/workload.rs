//! The traffic, as data: what the Python workloads describe, the load generator sends and the simulator plays.
//!
//! All times are seconds, already scaled by the Python side.

use serde::{Deserialize, Serialize};

use crate::graph::Graph;

/// A distribution of a real number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// Always the same value.
    Constant {
        /// The value.
        value: f64,
    },
    /// Exponential.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// Exponential, with every longer value made the longest: min(X, most).
    ClippedExponential {
        /// Mean before that.
        mean: f64,
        /// Longest value.
        most: f64,
    },
    /// Lognormal, by the mean and standard deviation of the value itself (not of its logarithm).
    Lognormal {
        /// Mean of the value.
        mean: f64,
        /// Standard deviation of the value.
        sigma: f64,
    },
    /// Normal; the user of the value truncates it.
    Gaussian {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sigma: f64,
    },
    /// Pareto: P(X > x) = (scale / x)^shape for x >= scale.
    Pareto {
        /// Smallest value.
        scale: f64,
        /// Tail index.
        shape: f64,
    },
    /// Pareto cut off at its largest value, X given that X <= most, and moved by an offset.
    BoundedPareto {
        /// Smallest value before the offset.
        scale: f64,
        /// Tail index.
        shape: f64,
        /// Largest value before the offset.
        most: f64,
        /// Added to every value.
        offset: f64,
    },
    /// Weibull: P(X > x) = exp(-(x / scale)^shape).
    Weibull {
        /// Scale.
        scale: f64,
        /// Shape.
        shape: f64,
    },
    /// Weibull cut off at its largest value: X given that X <= most.
    BoundedWeibull {
        /// Scale.
        scale: f64,
        /// Shape.
        shape: f64,
        /// Largest value.
        most: f64,
    },
}

/// One URL of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Url {
    /// Path and query.
    pub path: String,
    /// Relative frequency; Python expands Zipf popularity into weights.
    pub weight: f64,
    /// CPU seconds that one request costs a worker: used by the simulator only.
    #[serde(default)]
    pub cpu_s: f64,
}

/// When the connection of a session is given up by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// Kept until the server closes it or the session ends.
    UntilServerCloses,
    /// Closed by the client when the page is complete.
    PerPage,
    /// Closed after every request.
    PerRequest,
}

/// How load enters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Arrivals {
    /// Sessions arrive in a Poisson stream (exponential gaps).
    Poisson {
        /// Sessions per second.
        rate_hz: f64,
    },
    /// Sessions arrive at equal distances.
    Constant {
        /// Sessions per second.
        rate_hz: f64,
    },
    /// A fixed number of users; each starts a new session when its last one ends.
    Closed {
        /// Users.
        users: u32,
    },
}

/// A change of a population's intensity in mid-run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// Factor on the arrival rate or the number of users from then on; 0 stops the population.
    pub factor: f64,
}

/// One population of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Class name under which it is reported.
    pub class: String,
    /// How load enters.
    pub arrivals: Arrivals,
    /// Pages in a session, at least 1 after rounding.
    pub session_pages: Distribution,
    /// Requests in a page (the first one and its embedded objects), at least 1 after rounding.
    pub burst_requests: Distribution,
    /// Time from a page's completion to the user's next click.
    pub think_s: Distribution,
    /// Time between a reply and the next request of the same page.
    pub object_gap_s: Distribution,
    /// The mix of the first requests of pages.
    pub pages: Vec<Url>,
    /// The mix of the embedded objects; empty: the same as `pages`.
    pub objects: Vec<Url>,
    /// When the client closes.
    pub connection: Connection,
    /// A request without a complete reply after this time has failed, and its session ends.
    pub timeout_s: f64,
    /// Changes of intensity, in order of time; before the first one the factor is 1.
    pub schedule: Vec<Step>,
    /// Source address to bind, in 127.0.0.0/8; None lets the kernel choose.
    pub source: Option<std::net::Ipv4Addr>,
    /// Round trip of the network that the generator stands in for, in seconds: a request and its reply take one, and a
    /// new connection one more. 0 is loopback as it is; the simulator takes nothing else.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub round_trip_s: f64,
    /// The site that its users walk, in place of `session_pages`, `burst_requests`, `object_gap_s`, `pages` and
    /// `objects`; the arrivals are closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<Graph>,
}

/// What does not ask for a network looks as it did before there was one.
fn is_zero(value: &f64) -> bool {
    *value == 0.0
}
