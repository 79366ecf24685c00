//! Wrong values in a start line or an order.

use std::fmt::{Display, Formatter, Result};
use std::net::SocketAddr;

/// Longest time that is accepted for anything, in seconds.
pub const LONGEST_S: f64 = 86_400.0;

/// A wrong value. Its text is one line: the value, and what is allowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Wrong {
    /// A number outside of its range.
    Number {
        /// Its name.
        name: String,
        /// Itself.
        value: i64,
        /// The least that is allowed.
        least: i64,
        /// The most that is allowed.
        most: i64,
    },
    /// A time that is not above 0, or above [`LONGEST_S`].
    Time {
        /// Its name.
        name: &'static str,
        /// Itself.
        value_s: f64,
    },
    /// No name for a class.
    ClassName(String),
    /// The name of two classes.
    SameName(String),
    /// An address for metrics that others can reach.
    Metrics(SocketAddr),
    /// The rules of the classes; in words.
    Rules(String),
    /// No knob has this name.
    Knob(String),
}

impl Wrong {
    /// A number, when it is in its range.
    pub fn within(name: &str, value: i64, least: i64, most: i64) -> std::result::Result<i64, Self> {
        let fits = (least..=most).contains(&value);
        fits.then_some(value).ok_or_else(|| Self::Number {
            name: name.to_owned(),
            value,
            least,
            most,
        })
    }
}

impl Display for Wrong {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Number {
                name,
                value,
                least,
                most,
            } => write!(f, "{name} {value} is not allowed: {least} to {most}"),
            Self::Time { name, value_s } => write!(
                f,
                "{name} {value_s} is not allowed: more than 0 and at most {LONGEST_S}"
            ),
            Self::ClassName(name) => write!(
                f,
                "class name {name:?} is not 1 to 64 letters, digits, - and _"
            ),
            Self::SameName(name) => write!(f, "two classes have the name {name:?}"),
            Self::Metrics(address) => write!(f, "metrics {address} is not on loopback"),
            Self::Rules(why) => f.write_str(why),
            Self::Knob(name) => write!(f, "unknown knob {name:?}"),
        }
    }
}

impl std::error::Error for Wrong {}
