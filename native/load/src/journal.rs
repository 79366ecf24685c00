//! What is counted of browsers, page by page: since the last interval, and in the measured part of the run.

use std::collections::BTreeMap;

use trimtab_wire::load::{Browsing, Interaction, Latency};

use crate::meter::Meter;
use crate::tally::Failure;

/// One page of a graph.
#[derive(Debug)]
struct Visits {
    time: Meter,
    failures: BTreeMap<Failure, u64>,
}

#[derive(Debug)]
struct Figures {
    visits: Vec<Visits>,
    think: Meter,
    session: Meter,
    cache_hits: u64,
}

impl Figures {
    fn new(pages: usize) -> anyhow::Result<Self> {
        let visits = (0..pages).map(|_| {
            Ok(Visits {
                time: Meter::new()?,
                failures: BTreeMap::new(),
            })
        });
        Ok(Self {
            visits: visits.collect::<anyhow::Result<_>>()?,
            think: Meter::new()?,
            session: Meter::new()?,
            cache_hits: 0,
        })
    }

    fn report(
        &self,
        names: &[String],
        duration_s: f64,
        latency: impl Fn(&Meter) -> anyhow::Result<Latency>,
    ) -> anyhow::Result<Browsing> {
        let interactions = self.visits.iter().zip(names).map(|(visits, name)| {
            Ok(Interaction {
                page: name.clone(),
                time: latency(&visits.time)?,
                p90_s: visits.time.quantile_s(0.90),
                errors: visits
                    .failures
                    .iter()
                    .map(|(kind, n)| (kind.name().to_owned(), *n))
                    .collect(),
            })
        });
        Ok(Browsing {
            duration_s,
            interactions: interactions.collect::<anyhow::Result<_>>()?,
            think: latency(&self.think)?,
            session: latency(&self.session)?,
            cache_hits: self.cache_hits,
        })
    }

    fn clear(&mut self) {
        for visits in &mut self.visits {
            visits.time.clear();
            visits.failures.clear();
        }
        self.think.clear();
        self.session.clear();
        self.cache_hits = 0;
    }
}

/// The browsers of one class.
#[derive(Debug)]
pub struct Journal {
    names: Vec<String>,
    now: Figures,
    measured: Figures,
    from_ns: u64,
    until_ns: u64,
    began_ns: u64,
}

impl Journal {
    /// A journal of these pages, which measures from a moment until another.
    ///
    /// # Errors
    /// A meter cannot be made.
    pub fn new(names: &[String], (from_ns, until_ns): (u64, u64)) -> anyhow::Result<Self> {
        Ok(Self {
            names: names.to_vec(),
            now: Figures::new(names.len())?,
            measured: Figures::new(names.len())?,
            from_ns,
            until_ns,
            began_ns: 0,
        })
    }

    fn note(&mut self, now_ns: u64, write: impl Fn(&mut Figures)) {
        write(&mut self.now);
        if (self.from_ns..=self.until_ns).contains(&now_ns) {
            write(&mut self.measured);
        }
    }

    /// An interaction is complete.
    pub fn interaction(
        &mut self,
        page: usize,
        taken_ns: u64,
        failed: Option<Failure>,
        now_ns: u64,
    ) {
        self.note(now_ns, |figures| match failed {
            None => figures.visits[page].time.record(taken_ns),
            Some(kind) => *figures.visits[page].failures.entry(kind).or_default() += 1,
        });
    }

    /// A user thinks for so long.
    pub fn think(&mut self, think_ns: u64, now_ns: u64) {
        self.note(now_ns, |figures| figures.think.record(think_ns));
    }

    /// A session has lasted for so long.
    pub fn session(&mut self, lasted_ns: u64, now_ns: u64) {
        self.note(now_ns, |figures| figures.session.record(lasted_ns));
    }

    /// The cache had an image.
    pub fn cache_hit(&mut self, now_ns: u64) {
        self.note(now_ns, |figures| figures.cache_hits += 1);
    }

    /// Ends an interval.
    pub fn interval(&mut self, now_ns: u64) -> Browsing {
        let duration_s = (now_ns - self.began_ns) as f64 * 1e-9;
        self.began_ns = now_ns;
        let report = self
            .now
            .report(&self.names, duration_s, |meter| Ok(meter.figures()));
        self.now.clear();
        report.unwrap_or_default()
    }

    /// Ends the run.
    ///
    /// # Errors
    /// A histogram cannot be serialised.
    pub fn summary(&self, now_ns: u64) -> anyhow::Result<Browsing> {
        let measured_ns = now_ns.min(self.until_ns).saturating_sub(self.from_ns);
        self.measured
            .report(&self.names, measured_ns as f64 * 1e-9, Meter::summary)
    }
}
