//! A graph, checked and made ready to walk.

use rand::rngs::SmallRng;
use trimtab_wire::graph::{Ask, Condition, Field, Graph, Memory, Page, Value};
use trimtab_wire::sample::Sampler;
use trimtab_wire::BadInput;

/// Longest random text.
const LONGEST: u32 = 10_000;
/// Greatest number: sums of two stay within 64 bits.
const GREATEST: u64 = 1 << 60;
/// Days from 1970-01-01 to the years 0 and 9999, nearly.
const DAYS: std::ops::RangeInclusive<i64> = -700_000..=2_900_000;

/// A site and how it is walked.
#[derive(Debug)]
pub struct Site {
    /// The pages.
    pub pages: Vec<Page>,
    /// Index of the first page of a session.
    pub start: usize,
    /// Attributes whose values are wanted; the pages' names first, where they are looked at.
    pub markers: Vec<String>,
    /// The first marker is that of the pages' names.
    pub named: bool,
    /// How long a session lasts, at least.
    pub session_s: Sampler,
    /// When a user's first click comes.
    pub first_click_s: [f64; 2],
    /// What a session remembers from its start.
    pub memories: Vec<Memory>,
    /// Connections for images.
    pub image_connections: usize,
}

impl Site {
    /// Checks a graph.
    ///
    /// # Errors
    /// The first wrong value.
    pub fn new(graph: &Graph) -> Result<Self, BadInput> {
        let start = position(graph, &graph.start)?;
        let [least_s, most_s] = graph.first_click_s;
        if !(least_s >= 0.0 && least_s <= most_s && most_s <= 1e8) {
            return Err(BadInput(format!(
                "first_click_s is {least_s} to {most_s}, must be at least 0 and rise"
            )));
        }
        if !(1..=64).contains(&graph.image_connections) {
            return Err(BadInput(format!(
                "image_connections is {}, must be 1 to 64",
                graph.image_connections
            )));
        }
        let mut site = Self {
            pages: graph.pages.clone(),
            start,
            markers: Vec::new(),
            named: graph.name_marker.is_some(),
            session_s: Sampler::new(&graph.session_s).map_err(|bad| bad.within("session_s"))?,
            first_click_s: graph.first_click_s,
            memories: graph.memories.clone(),
            image_connections: graph.image_connections as usize,
        };
        if let Some(marker) = &graph.name_marker {
            site.mark(marker)?;
        }
        site.check_memories(&graph.memories)?;
        for page in &graph.pages {
            site.check_page(graph, page)
                .map_err(|bad| bad.within(format_args!("page {:?}", page.name)))?;
        }
        Ok(site)
    }

    /// The page after this one.
    pub fn next(&self, page: usize, rng: &mut SmallRng) -> usize {
        self.pages[page].next(rng).unwrap_or(self.start)
    }

    /// Index of a marker among those wanted.
    pub fn marker(&self, name: &str) -> Option<usize> {
        self.markers.iter().position(|marker| marker == name)
    }

    fn mark(&mut self, name: &str) -> Result<(), BadInput> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(BadInput(format!(
                "marker {name:?} is not an attribute's name in lower case"
            )));
        }
        if self.marker(name).is_none() {
            self.markers.push(name.to_owned());
        }
        Ok(())
    }

    fn check_page(&mut self, graph: &Graph, page: &Page) -> Result<(), BadInput> {
        if page.name.is_empty() || graph.pages.iter().filter(|p| p.name == page.name).count() > 1 {
            return Err(BadInput(
                "its name is empty, or that of another page too".to_owned(),
            ));
        }
        page.check_thresholds(graph.pages.len())?;
        if page.asks.last().is_none_or(|ask| !ask.when.is_empty()) {
            return Err(BadInput(
                "its last request has conditions; it must have none".to_owned(),
            ));
        }
        page.asks
            .iter()
            .try_for_each(|ask| self.check_ask(graph, ask))
    }

    fn check_ask(&mut self, graph: &Graph, ask: &Ask) -> Result<(), BadInput> {
        if !ask.path.starts_with('/')
            || !ask.path.bytes().all(|b| b.is_ascii_graphic() && b != b'?')
        {
            return Err(BadInput(format!(
                "path {:?} is not a path of printable characters without a query that begins with '/'",
                ask.path
            )));
        }
        for condition in &ask.when {
            match condition {
                Condition::After { page } => position(graph, page).map(|_| ())?,
                Condition::Marked { marker } => self.mark(marker)?,
                Condition::Chance { ratio } => check_ratio(*ratio)?,
                Condition::First {} | Condition::Remembers { .. } | Condition::HasCookie { .. } => {
                }
            }
        }
        self.check_memories(&ask.remember)?;
        for field in &ask.fields {
            match field {
                Field::One { value, .. } => self.check_value(value)?,
                Field::Rows {
                    key_marker,
                    number_marker,
                    only,
                    several,
                    ..
                } => {
                    self.mark(key_marker)?;
                    self.mark(number_marker)?;
                    check_range(only[0], only[1])?;
                    check_range(several[0], several[1])?;
                }
            }
        }
        Ok(())
    }

    fn check_memories(&mut self, memories: &[Memory]) -> Result<(), BadInput> {
        memories.iter().try_for_each(|memory| {
            check_ratio(memory.ratio)?;
            self.check_value(&memory.value)
        })
    }

    fn check_value(&mut self, value: &Value) -> Result<(), BadInput> {
        match value {
            Value::Text { .. } | Value::Remembered { .. } | Value::Cookie { .. } => Ok(()),
            Value::OneOf { texts } if texts.is_empty() => {
                Err(BadInput("texts is empty".to_owned()))
            }
            Value::OneOf { .. } => Ok(()),
            Value::Uniform { low, high, places } => {
                check_range(*low, *high)?;
                check_range(u64::from(*places), 9)
            }
            Value::NuRand { a, low, high } => {
                check_range(*a, GREATEST)?;
                check_range(*low, *high)
            }
            Value::Letters { least, most } | Value::Digits { least, most } => {
                check_range(u64::from(*most), u64::from(LONGEST))?;
                check_range(u64::from(*least), u64::from(*most))
            }
            Value::Date {
                first_day,
                last_day,
            } => {
                if DAYS.contains(first_day) && DAYS.contains(last_day) && first_day <= last_day {
                    return Ok(());
                }
                Err(BadInput(format!(
                    "days {first_day} to {last_day} must rise, within {DAYS:?}"
                )))
            }
            Value::Marked { marker, otherwise } => {
                self.mark(marker)?;
                self.check_value(otherwise)
            }
            Value::Joined { parts } => parts.iter().try_for_each(|part| self.check_value(part)),
            Value::Syllables {
                of,
                syllables,
                width,
                ..
            } => {
                if syllables.len() != 10 {
                    return Err(BadInput(format!(
                        "syllables are {}, must be 10",
                        syllables.len()
                    )));
                }
                check_range(u64::from(*width), 100)?;
                self.check_value(of)
            }
        }
    }
}

fn position(graph: &Graph, name: &str) -> Result<usize, BadInput> {
    let found = graph.pages.iter().position(|page| page.name == name);
    found.ok_or_else(|| BadInput(format!("there is no page {name:?}")))
}

fn check_range(low: u64, high: u64) -> Result<(), BadInput> {
    if low <= high && high <= GREATEST {
        Ok(())
    } else {
        Err(BadInput(format!(
            "{low} to {high} must rise, to {GREATEST} at most"
        )))
    }
}

fn check_ratio(ratio: f64) -> Result<(), BadInput> {
    if (0.0..=1.0).contains(&ratio) {
        Ok(())
    } else {
        Err(BadInput(format!("ratio is {ratio}, must be 0 to 1")))
    }
}

#[cfg(test)]
#[path = "site_tests.rs"]
mod tests;
