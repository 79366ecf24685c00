//! Wrong values in an order.

use std::fmt::{Display, Formatter, Result};
use std::net::{Ipv4Addr, SocketAddr};

/// A wrong value. Its text is one line: the value, and what is allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A number that is not as it must be.
    Number {
        /// Its name.
        name: &'static str,
        /// Itself.
        value: f64,
        /// How it must be.
        allowed: String,
    },
    /// The part of the run that is measured.
    Measured {
        /// Its beginning.
        from_s: f64,
        /// Its end.
        until_s: f64,
    },
    /// A server on another machine.
    Target(SocketAddr),
    /// No name of a host.
    Host(String),
    /// Nobody sends.
    NoPopulations,
    /// A population without the name of a class.
    NoClass,
    /// A site, and pages beside it.
    GraphAndPages,
    /// A site for users who come and go.
    GraphNotClosed,
    /// An address to send from that does not reach the server.
    Unreachable {
        /// To send from.
        source: Ipv4Addr,
        /// The server.
        target: SocketAddr,
    },
    /// An address to send from that is not this machine's own.
    Source(Ipv4Addr),
    /// No path.
    Path(String),
    /// A distribution, a mix or a site; in words.
    Described(String),
    /// In some part of the order.
    In(String, Box<Wrong>),
}

impl Wrong {
    /// The same, in some part of the order.
    pub fn within(self, part: impl Into<String>) -> Self {
        Self::In(part.into(), Box::new(self))
    }
}

impl From<String> for Wrong {
    fn from(why: String) -> Self {
        Self::Described(why)
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Number {
                name,
                value,
                allowed,
            } => write!(f, "{name} is {value}, must be {allowed}"),
            Self::Measured { from_s, until_s } => write!(
                f,
                "measured is {from_s} to {until_s} s, must be at least 0 and rise"
            ),
            Self::Target(target) => write!(
                f,
                "target {target} is outside this machine; it needs allow_remote"
            ),
            Self::Host(host) => write!(f, "host {host:?} is not a host name"),
            Self::NoPopulations => f.write_str("populations is empty; at least one is needed"),
            Self::NoClass => f.write_str("class is empty"),
            Self::GraphAndPages => f.write_str("it has a graph and pages or objects of its own"),
            Self::GraphNotClosed => f.write_str("it has a graph, and its arrivals are not closed"),
            Self::Unreachable { source, target } => {
                write!(f, "source {source} cannot reach {target}")
            }
            Self::Source(source) => write!(f, "source {source} is not in 127.0.0.0/8"),
            Self::Path(path) => write!(
                f,
                "url {path:?} is not a path of printable characters that begins with '/'"
            ),
            Self::Described(why) => f.write_str(why),
            Self::In(part, why) => write!(f, "{part}: {why}"),
        }
    }
}

impl std::error::Error for Wrong {}
