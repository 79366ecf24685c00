//! Which class a connection belongs to: by where it comes from and goes to, and, only when that does not tell, by the
//! first bytes of its request.
//!
//! Classes are asked in order of priority and the one without rules last. A part of a rule that the bytes so far do not
//! settle leaves the question open; when no more bytes are waited for, what is not settled does not hold.

use std::net::SocketAddr;

pub use trimtab_wire::ends::Ends;
use trimtab_wire::ends::{EndsRule, Network};
use trimtab_wire::gate::{Class, Rule};
use trimtab_wire::BadInput;

use crate::client_hello::{self, Hello};
use crate::head::{Head, Request};
use crate::path;

/// The rules of all classes.
#[derive(Debug, Clone)]
pub struct Classifier {
    /// Class and one way into it, in the order in which they are asked.
    ways: Vec<(usize, Way)>,
    rest: usize,
    asks_address: bool,
}

/// One match of a class: all that it gives must hold.
#[derive(Debug, Clone, Default)]
struct Way {
    ends: EndsRule,
    host: Option<Vec<u8>>,
    path_prefix: Option<Vec<u8>>,
    cookie: Option<Pair>,
    header: Option<Pair>,
    server_name: Option<Vec<u8>>,
}

/// A name, and a value when that is asked for.
#[derive(Debug, Clone)]
struct Pair {
    name: Vec<u8>,
    value: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Open,
}

/// The first bytes of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a> {
    /// As many as there are.
    pub seen: &'a [u8],
    /// No more are waited for.
    pub last: bool,
}

impl Classifier {
    /// The rules of these classes.
    ///
    /// # Errors
    /// A rule is wrong, or not exactly one class has none.
    pub fn new(classes: &[Class]) -> Result<Self, BadInput> {
        let mut rest = classes
            .iter()
            .enumerate()
            .filter(|(_, c)| c.rules.is_empty());
        let (Some((rest, _)), None) = (rest.next(), rest.next()) else {
            return Err(BadInput(
                "exactly one class must have no rules: it takes the rest".to_owned(),
            ));
        };
        let mut ways = Vec::new();
        for (index, class) in classes.iter().enumerate() {
            for rule in &class.rules {
                let way = Way::new(rule)
                    .map_err(|bad| bad.within(format_args!("class {:?}", class.name)))?;
                ways.push((index, way));
            }
        }
        let asks_address = ways.iter().any(|(_, way)| way.ends.local_address.is_some());
        Ok(Self {
            ways,
            rest,
            asks_address,
        })
    }

    /// The class that takes what no other takes.
    pub fn rest(&self) -> usize {
        self.rest
    }

    /// Some rule asks for the server's address, not only for its port.
    pub fn asks_address(&self) -> bool {
        self.asks_address
    }

    /// The rules with their classes, when no request must ever be looked at.
    pub fn of_ends(&self) -> Option<Vec<(EndsRule, u32)>> {
        let rule = |(class, way): &(usize, Way)| {
            (!way.asks_request()).then_some((way.ends, *class as u32))
        };
        self.ways.iter().map(rule).collect()
    }

    /// The class by the ends alone; None when the request must be looked at.
    pub fn by_ends(&self, ends: &Ends) -> Option<usize> {
        self.decide(|way| match way.ends(ends) {
            Answer::Yes if way.asks_request() => Answer::Open,
            answer => answer,
        })
    }

    /// The class by ends and request; None when more bytes must be waited for.
    pub fn by_request(&self, ends: &Ends, bytes: Bytes<'_>) -> Option<usize> {
        self.decide(|way| match way.ends(ends) {
            Answer::Yes => match way.request(bytes.seen) {
                Answer::Open if bytes.last => Answer::No,
                answer => answer,
            },
            answer => answer,
        })
    }

    fn decide(&self, ask: impl Fn(&Way) -> Answer) -> Option<usize> {
        let mut open = None;
        for (class, way) in &self.ways {
            if open.is_some_and(|open| open != *class) {
                return None;
            }
            match ask(way) {
                Answer::Yes => return Some(*class),
                Answer::No => {}
                // Another rule of the same class may still settle it.
                Answer::Open => open = Some(*class),
            }
        }
        match open {
            Some(_) => None,
            None => Some(self.rest),
        }
    }
}

impl Way {
    fn new(rule: &Rule) -> Result<Self, BadInput> {
        let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
        let mut way = Self {
            host: bytes(&rule.host),
            path_prefix: rule.path_prefix.as_deref().map(path::prefix).transpose()?,
            server_name: bytes(&rule.server_name),
            cookie: rule.cookie.as_deref().map(|text| Pair::new(text, '=')),
            header: rule.header.as_deref().map(|text| Pair::new(text, ':')),
            ..Self::default()
        };
        if let Some(source) = &rule.source {
            way.ends.source =
                Some(Network::parse(source).map_err(|bad| BadInput(format!("source {bad}")))?);
        }
        if let Some(local) = &rule.local {
            let wrong = || BadInput(format!("local {local:?} is not address:port or :port"));
            let port = match local.strip_prefix(':') {
                Some(port) => port.parse().map_err(|_| wrong())?,
                None => {
                    let both: SocketAddr = local.parse().map_err(|_| wrong())?;
                    way.ends.local_address = Some(both.ip());
                    both.port()
                }
            };
            way.ends.local_port = Some(port);
        }
        if rule == &Rule::default() {
            return Err(BadInput("a rule asks for nothing".to_owned()));
        }
        Ok(way)
    }

    fn asks_request(&self) -> bool {
        self.asks_head() || self.server_name.is_some()
    }

    fn asks_head(&self) -> bool {
        let pairs = self.cookie.is_some() || self.header.is_some();
        pairs || self.host.is_some() || self.path_prefix.is_some()
    }

    fn ends(&self, ends: &Ends) -> Answer {
        settled(self.ends.holds(ends), true)
    }

    fn request(&self, bytes: &[u8]) -> Answer {
        let name = match &self.server_name {
            None => Answer::Yes,
            Some(wanted) => match client_hello::read(bytes) {
                Hello::More => Answer::Open,
                Hello::Name(name) => settled(name.eq_ignore_ascii_case(wanted), true),
                Hello::Nothing => Answer::No,
            },
        };
        if name == Answer::No || !self.asks_head() {
            return name;
        }
        match Head::read(bytes) {
            Head::Unknown => Answer::Open,
            Head::Other => Answer::No,
            Head::Request(request) => name.and(self.head(request)),
        }
    }

    fn head(&self, request: Request<'_>) -> Answer {
        let complete = request.is_complete();
        let path = self.path_prefix.as_ref().is_none_or(|prefix| {
            path::resolved(request.path()).is_some_and(|path| path.starts_with(prefix))
        });
        let host = match (&self.host, request.host()) {
            (None, _) => Answer::Yes,
            (Some(wanted), Some(host)) => settled(host.eq_ignore_ascii_case(wanted), true),
            (Some(_), None) => settled(false, complete),
        };
        let cookie = self
            .cookie
            .as_ref()
            .is_none_or(|pair| request.cookies().any(|cookie| pair.is_cookie(cookie)));
        let header = self
            .header
            .as_ref()
            .is_none_or(|pair| request.values(&pair.name).any(|value| pair.has(value)));
        settled(path, true)
            .and(host)
            .and(settled(cookie, complete))
            .and(settled(header, complete))
    }
}

impl Pair {
    fn new(text: &str, separator: char) -> Self {
        let bytes = |text: &str| text.trim().as_bytes().to_vec();
        match text.split_once(separator) {
            Some((name, value)) => Self {
                name: bytes(name),
                value: Some(bytes(value)),
            },
            None => Self {
                name: bytes(text),
                value: None,
            },
        }
    }

    fn has(&self, value: &[u8]) -> bool {
        self.value.as_ref().is_none_or(|wanted| wanted == value)
    }

    fn is_cookie(&self, cookie: &[u8]) -> bool {
        let mut parts = cookie.splitn(2, |&b| b == b'=');
        let name = parts.next().unwrap_or_default();
        name == self.name && self.has(parts.next().unwrap_or_default())
    }
}

impl Answer {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Yes, Self::Yes) => Self::Yes,
            _ => Self::Open,
        }
    }
}

/// Yes when it holds; No when it does not and nothing more can come; otherwise still open.
fn settled(holds: bool, complete: bool) -> Answer {
    match (holds, complete) {
        (true, _) => Answer::Yes,
        (false, true) => Answer::No,
        (false, false) => Answer::Open,
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
