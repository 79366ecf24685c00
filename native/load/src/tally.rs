//! What is counted of one class: since the last interval, and in the whole run.

use std::collections::BTreeMap;

use trimtab_wire::load::Class;

use crate::journal::Journal;
use crate::meter::Meter;

/// Why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// The connection was refused or could not be established.
    Connect,
    /// The server closed or reset the connection before the reply was complete.
    Reset,
    /// No complete reply in time.
    Timeout,
    /// The reply is not HTTP/1.x.
    Malformed,
    /// A complete reply with a status of 400 to 499.
    Http4xx,
    /// A complete reply with a status of 500 or more.
    Http5xx,
    /// A complete reply that is not the page that was asked for.
    WrongPage,
    /// This machine ran out of ports or descriptors.
    Local,
}

impl Failure {
    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Http4xx => "http_4xx",
            Self::Http5xx => "http_5xx",
            Self::WrongPage => "wrong_page",
            Self::Local => "local",
        }
    }
}

/// Counts and meters of one stretch of time.
#[derive(Debug)]
pub struct Stretch {
    /// Successful requests.
    pub requests: u64,
    /// Pages of successful requests.
    pub pages: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Connections established.
    pub connections: u64,
    /// Bytes of reply bodies.
    pub body_bytes: u64,
    /// Requests sent again.
    pub resent: u64,
    /// Redirects among the successful requests.
    pub redirected: u64,
    /// Failures by kind.
    pub failures: BTreeMap<Failure, u64>,
    /// Patience left to them, in sum.
    pub patience_left_ns: u64,
    /// Requests that visits given up would still have asked for.
    pub unasked: u64,
    /// Page time from the click.
    pub page_intended: Meter,
    /// Page time from its actual start.
    pub page_actual: Meter,
    /// Request time from its intended send.
    pub request_intended: Meter,
    /// Request time from its actual send.
    pub request_actual: Meter,
    /// Time to connect.
    pub connect: Meter,
    /// Time from the actual send to the first byte.
    pub first_byte: Meter,
}

impl Stretch {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            requests: 0,
            pages: 0,
            sessions: 0,
            connections: 0,
            body_bytes: 0,
            resent: 0,
            redirected: 0,
            failures: BTreeMap::new(),
            patience_left_ns: 0,
            unasked: 0,
            page_intended: Meter::new()?,
            page_actual: Meter::new()?,
            request_intended: Meter::new()?,
            request_actual: Meter::new()?,
            connect: Meter::new()?,
            first_byte: Meter::new()?,
        })
    }

    fn counts(&self, class: &str) -> Class {
        Class {
            class: class.to_owned(),
            requests: self.requests,
            pages: self.pages,
            sessions: self.sessions,
            connections: self.connections,
            body_bytes: self.body_bytes,
            resent: self.resent,
            redirected: self.redirected,
            errors: self
                .failures
                .iter()
                .map(|(kind, n)| (kind.name().to_owned(), *n))
                .collect(),
            patience_left_s: self.patience_left_ns as f64 * 1e-9,
            unasked: self.unasked,
            ..Class::default()
        }
    }

    fn drain(&mut self, other: &mut Self) {
        self.requests += std::mem::take(&mut other.requests);
        self.pages += std::mem::take(&mut other.pages);
        self.sessions += std::mem::take(&mut other.sessions);
        self.connections += std::mem::take(&mut other.connections);
        self.body_bytes += std::mem::take(&mut other.body_bytes);
        self.resent += std::mem::take(&mut other.resent);
        self.redirected += std::mem::take(&mut other.redirected);
        for (kind, n) in std::mem::take(&mut other.failures) {
            *self.failures.entry(kind).or_default() += n;
        }
        self.patience_left_ns = self
            .patience_left_ns
            .saturating_add(std::mem::take(&mut other.patience_left_ns));
        self.unasked = self
            .unasked
            .saturating_add(std::mem::take(&mut other.unasked));
        self.page_intended.drain(&mut other.page_intended);
        self.page_actual.drain(&mut other.page_actual);
        self.request_intended.drain(&mut other.request_intended);
        self.request_actual.drain(&mut other.request_actual);
        self.connect.drain(&mut other.connect);
        self.first_byte.drain(&mut other.first_byte);
    }
}

/// One class.
#[derive(Debug)]
pub struct Tally {
    name: String,
    /// Since the last interval's end.
    pub now: Stretch,
    total: Stretch,
    /// Requests begun and without a reply.
    outstanding: u64,
    /// When they were due, in sum.
    due_ns: u128,
    /// For how long those waited that have ended, in sum.
    ended_ns: u128,
    /// For how long all had waited at the last interval's end, in sum.
    told_ns: u128,
    /// Requests begun and not yet sent.
    pub unsent: u64,
    /// What its browsers do, if it has any.
    pub journal: Option<Journal>,
}

impl Tally {
    /// A class of which nothing is known yet.
    ///
    /// # Errors
    /// A meter cannot be made.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            now: Stretch::new()?,
            total: Stretch::new()?,
            outstanding: 0,
            due_ns: 0,
            ended_ns: 0,
            told_ns: 0,
            unsent: 0,
            journal: None,
        })
    }

    /// Counts a request as begun, which was due at `due_ns` or is now.
    pub fn begin(&mut self, due_ns: u64) {
        self.outstanding += 1;
        self.unsent += 1;
        self.due_ns += u128::from(due_ns);
    }

    /// Counts a request as over, answered or not, which was due at `due_ns`.
    pub fn end(&mut self, due_ns: u64, now_ns: u64) {
        self.outstanding -= 1;
        self.due_ns -= u128::from(due_ns);
        self.ended_ns += u128::from(now_ns - due_ns);
    }

    /// For how long all requests begun have waited since they were due, in sum.
    fn waited_ns(&self, now_ns: u64) -> u128 {
        self.ended_ns + u128::from(now_ns) * u128::from(self.outstanding) - self.due_ns
    }

    /// Counts a failed request.
    ///
    /// # Arguments
    /// `left_ns`: the rest of its patience: a client whom a server turns away at once is served no sooner.
    pub fn fail(&mut self, kind: Failure, left_ns: u64) {
        *self.now.failures.entry(kind).or_default() += 1;
        self.now.patience_left_ns = self.now.patience_left_ns.saturating_add(left_ns);
    }

    /// Ends an interval.
    ///
    /// # Arguments
    /// `overdue`: requests that the generator should have begun and has not.
    pub fn interval(&mut self, overdue: u64, now_ns: u64) -> Class {
        let waited_ns = self.waited_ns(now_ns);
        let class = Class {
            waited_s: (waited_ns - self.told_ns) as f64 * 1e-9,
            page_intended: self.now.page_intended.figures(),
            page_actual: self.now.page_actual.figures(),
            request_intended: self.now.request_intended.figures(),
            request_actual: self.now.request_actual.figures(),
            connect: self.now.connect.figures(),
            first_byte: self.now.first_byte.figures(),
            outstanding: self.outstanding + overdue,
            unsent: self.unsent + overdue,
            browsing: self
                .journal
                .as_mut()
                .map(|journal| journal.interval(now_ns)),
            ..self.now.counts(&self.name)
        };
        self.told_ns = waited_ns;
        self.total.drain(&mut self.now);
        class
    }

    /// Ends the run.
    ///
    /// # Errors
    /// A histogram cannot be serialised.
    pub fn summary(&mut self, overdue: u64, now_ns: u64) -> anyhow::Result<Class> {
        self.total.drain(&mut self.now);
        Ok(Class {
            waited_s: self.waited_ns(now_ns) as f64 * 1e-9,
            page_intended: self.total.page_intended.summary()?,
            page_actual: self.total.page_actual.summary()?,
            request_intended: self.total.request_intended.summary()?,
            request_actual: self.total.request_actual.summary()?,
            connect: self.total.connect.summary()?,
            first_byte: self.total.first_byte.summary()?,
            outstanding: self.outstanding + overdue,
            unsent: self.unsent + overdue,
            browsing: self
                .journal
                .as_ref()
                .map(|journal| journal.summary(now_ns))
                .transpose()?,
            ..self.total.counts(&self.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_generator_owes_is_outstanding_and_unsent() {
        let mut tally = Tally::new("a").expect("tally");
        (0..5).for_each(|_| tally.begin(0));
        tally.unsent = 2;
        let interval = tally.interval(10, 0);
        assert_eq!((interval.outstanding, interval.unsent), (15, 12));
        let summary = tally.summary(3, 0).expect("summary");
        assert_eq!((summary.outstanding, summary.unsent), (8, 5));
    }

    #[test]
    fn what_requests_waited_is_theirs_from_when_they_were_due_however_intervals_lie() {
        const SECOND: u64 = 1_000_000_000;
        let mut tally = Tally::new("a").expect("tally");
        tally.begin(SECOND); // answered within the first interval
        tally.end(SECOND, SECOND * 3 / 2);
        tally.begin(2 * SECOND); // answered in the second
        assert_eq!(tally.interval(0, 3 * SECOND).waited_s, 0.5 + 1.0);
        tally.end(2 * SECOND, 5 * SECOND);
        tally.begin(2 * SECOND); // begun late, and never answered
        assert_eq!(tally.interval(0, 6 * SECOND).waited_s, 2.0 + 4.0);
        let summary = tally.summary(0, 7 * SECOND).expect("summary");
        assert_eq!(summary.waited_s, 0.5 + 3.0 + 5.0);
    }
}
