//! A site as its visitors' browsers walk it: pages, what is asked of each, and where one goes from there.
//!
//! Python describes it, the load generator plays it. What is drawn, remembered, taken from a cookie or from the page
//! before is a [`Value`]; which of a page's requests is sent is decided by [`Condition`]s.

use rand::rngs::SmallRng;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use crate::workload::Distribution;
use crate::BadInput;

/// Greatest threshold.
const MOST: u32 = 1_000_000;

/// A text that a browser sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Value {
    /// Always the same.
    Text {
        /// It.
        text: String,
    },
    /// One of several, all equally likely.
    OneOf {
        /// They.
        texts: Vec<String>,
    },
    /// A whole number, uniform, written with so many decimal places (1234 with 2 is 12.34).
    Uniform {
        /// Least.
        low: u64,
        /// Greatest.
        high: u64,
        /// Decimal places.
        places: u32,
    },
    /// TPC-W's skewed number: ((uniform(0, a) | uniform(low, high)) % (high - low + 1)) + low.
    NuRand {
        /// Which bits are skewed.
        a: u64,
        /// Least.
        low: u64,
        /// Greatest.
        high: u64,
    },
    /// Random letters.
    Letters {
        /// Least length.
        least: u32,
        /// Greatest length.
        most: u32,
    },
    /// Random digits.
    Digits {
        /// Least length.
        least: u32,
        /// Greatest length.
        most: u32,
    },
    /// A day, uniform, as YYYY-MM-DD.
    Date {
        /// First, in days since 1970-01-01.
        first_day: i64,
        /// Last.
        last_day: i64,
    },
    /// What the session remembers under a name; empty where it remembers nothing.
    Remembered {
        /// The name.
        name: String,
    },
    /// The value of a cookie; empty where there is none.
    Cookie {
        /// Its name.
        name: String,
    },
    /// One of the values that `marker="..."` has on the page before, all equally likely.
    Marked {
        /// Name of the attribute.
        marker: String,
        /// In place of it where the page has none.
        otherwise: Box<Value>,
    },
    /// Several, one after the other.
    Joined {
        /// They.
        parts: Vec<Value>,
    },
    /// A number's decimal digits as syllables; what is no number stays as it is.
    Syllables {
        /// The number.
        of: Box<Value>,
        /// Ten syllables.
        syllables: Vec<String>,
        /// Digits at least, filled with zeros from the left.
        width: u32,
        /// In lower case.
        lower: bool,
    },
}

/// What must hold for a request to be the one that is sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Condition {
    /// It is the session's first page.
    First {},
    /// The page before was this one.
    After {
        /// Its name.
        page: String,
    },
    /// The session remembers something under this name.
    Remembers {
        /// The name.
        name: String,
    },
    /// There is a cookie of this name.
    HasCookie {
        /// Its name.
        name: String,
    },
    /// The page before has this marker.
    Marked {
        /// Name of the attribute.
        marker: String,
    },
    /// A draw of chance.
    Chance {
        /// Probability.
        ratio: f64,
    },
}

/// How a page is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Fields stand in the query.
    Get,
    /// Fields stand in the body, as a form sends them.
    Post,
}

/// A part of a query or form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Field {
    /// A name and its value.
    One {
        /// The name.
        name: String,
        /// The value.
        value: Value,
    },
    /// The rows of a table on the page before, of which some get another number: for each row its key and its number.
    Rows {
        /// Name of the key's field.
        key: String,
        /// Marker of the keys.
        key_marker: String,
        /// Name of the number's field.
        number: String,
        /// Marker of the numbers, in the order of the keys.
        number_marker: String,
        /// Least and greatest new number of an only row.
        only: [u64; 2],
        /// Least and greatest new number of each of 1 to n rows, another than it has.
        several: [u64; 2],
    },
}

/// Something that a session remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Under which name.
    pub name: String,
    /// What.
    pub value: Value,
    /// Probability that it does.
    pub ratio: f64,
}

/// One way to ask for a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// All must hold; the first request of a page of which they do is sent.
    pub when: Vec<Condition>,
    /// Remembered before the fields are filled in.
    pub remember: Vec<Memory>,
    /// GET or POST.
    pub method: Method,
    /// Path without a query.
    pub path: String,
    /// Query or form.
    pub fields: Vec<Field>,
}

/// One page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    /// Its name; it also stands in the page, see [`Graph::name_marker`].
    pub name: String,
    /// How it is asked for; the last one has no conditions.
    pub asks: Vec<Ask>,
    /// Where one goes from here: a draw of 1 to the last threshold goes to the first page, in the order of the pages,
    /// whose threshold is at least the draw; 0 is never.
    pub thresholds: Vec<u32>,
}

impl Page {
    /// Checks the thresholds for a site of so many pages.
    ///
    /// # Errors
    /// They are not one for each page, or do not rise.
    pub fn check_thresholds(&self, pages: usize) -> Result<(), BadInput> {
        let thresholds = &self.thresholds;
        if thresholds.len() != pages {
            return Err(BadInput(format!(
                "it has {} thresholds, must be {pages}",
                thresholds.len()
            )));
        }
        let used: Vec<u32> = thresholds.iter().copied().filter(|&t| t > 0).collect();
        if used.is_empty()
            || used.iter().any(|&t| t > MOST)
            || used.windows(2).any(|w| w[0] >= w[1])
        {
            return Err(BadInput(format!(
                "thresholds {thresholds:?} must rise where they are not 0, to {MOST} at most"
            )));
        }
        Ok(())
    }

    /// Index of the page that follows by this draw; None beyond the last threshold.
    pub fn chosen(&self, draw: u32) -> Option<usize> {
        self.thresholds
            .iter()
            .position(|&threshold| threshold >= draw)
    }

    /// Index of the page that follows; None where there is no threshold.
    pub fn next(&self, rng: &mut SmallRng) -> Option<usize> {
        let highest = self.thresholds.iter().max().copied().unwrap_or(1);
        self.chosen(rng.random_range(1..=highest.max(1)))
    }
}

/// A site and how it is walked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The pages.
    pub pages: Vec<Page>,
    /// The page on which a session begins.
    pub start: String,
    /// Attribute of a page that holds its name; a page with another name in it, or none, has failed. None: not looked at.
    pub name_marker: Option<String>,
    /// After so many seconds a session ends at the next move to the start page, where the next one begins.
    pub session_s: Distribution,
    /// A user's first click comes after least to greatest seconds, uniform.
    pub first_click_s: [f64; 2],
    /// What a session remembers from its start.
    pub memories: Vec<Memory>,
    /// Most connections at once for the images of a page.
    pub image_connections: u32,
}
