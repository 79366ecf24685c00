//! An order, checked and made ready to run.

use std::net::{IpAddr, SocketAddr};

use trimtab_wire::load::{Span, Start};
use trimtab_wire::sample::{Mix, Sampler};
use trimtab_wire::workload::{Arrivals, Connection, Population, Url};
use trimtab_wire::BadInput;

use crate::arrivals::Schedule;
use crate::site::Site;

/// Longest time that is accepted for anything, in seconds: keeps nanoseconds within 64 bits.
const LONGEST_S: f64 = 1e8;
/// Shortest distance of the reports.
const SHORTEST_INTERVAL_S: f64 = 1e-3;

/// URLs of one kind with their requests, rendered once.
#[derive(Debug)]
pub struct Requests {
    mix: Mix,
    rendered: Vec<Box<[u8]>>,
}

impl Requests {
    /// Chooses one, by its index.
    pub fn choose(&self, rng: &mut rand::rngs::SmallRng) -> u32 {
        self.mix.choose(rng) as u32
    }

    /// The bytes of one.
    pub fn bytes(&self, index: u32) -> &[u8] {
        &self.rendered[index as usize]
    }
}

/// One population, ready to run.
#[derive(Debug)]
pub struct Crowd {
    /// Index of its class in the plan.
    pub class: usize,
    /// How load enters.
    pub arrivals: Arrivals,
    /// Factor on it over time.
    pub schedule: Schedule,
    /// Pages in a session.
    pub session_pages: Sampler,
    /// Requests in a page.
    pub burst_requests: Sampler,
    /// Seconds from page to click.
    pub think_s: Sampler,
    /// Seconds from reply to next object.
    pub object_gap_s: Sampler,
    /// First requests of pages.
    pub pages: Requests,
    /// Embedded objects; None: as the pages.
    pub objects: Option<Requests>,
    /// When the client closes.
    pub connection: Connection,
    /// Longest wait for a reply.
    pub timeout_ns: u64,
    /// Round trip of the network that is stood in for.
    pub round_trip_ns: u64,
    /// The site that is walked, in place of pages drawn one by one.
    pub site: Option<Site>,
    /// Index of its first page among those of its class.
    pub pages_at: usize,
    /// Value of the Host header.
    pub host: String,
    /// Address to send from.
    pub source: Option<std::net::Ipv4Addr>,
}

impl Crowd {
    /// The requests for embedded objects.
    pub fn objects(&self) -> &Requests {
        self.objects.as_ref().unwrap_or(&self.pages)
    }
}

/// A checked order.
#[derive(Debug)]
pub struct Plan {
    /// The server.
    pub target: SocketAddr,
    /// Names of the classes, in order of first appearance.
    pub classes: Vec<String>,
    /// Names of the pages of each class's sites.
    pub page_names: Vec<Vec<String>>,
    /// From when until when the pages of sites are measured.
    pub measured_ns: (u64, u64),
    /// Who sends.
    pub crowds: Vec<Crowd>,
    /// Length of the run.
    pub duration_ns: u64,
    /// Distance of the reports.
    pub interval_ns: u64,
    /// Source of all randomness.
    pub seed: u64,
}

impl Plan {
    /// Checks an order.
    ///
    /// # Errors
    /// The first wrong value.
    pub fn new(start: &Start) -> Result<Self, BadInput> {
        if !start.allow_remote && !is_loopback(start.target.ip()) {
            return Err(BadInput(format!(
                "target {} is outside this machine; it needs allow_remote",
                start.target
            )));
        }
        if start.host.is_empty() || !start.host.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(BadInput(format!(
                "host {:?} is not a host name",
                start.host
            )));
        }
        if start.populations.is_empty() {
            return Err(BadInput(
                "populations is empty; at least one is needed".to_owned(),
            ));
        }
        let mut plan = Self {
            target: start.target,
            classes: Vec::new(),
            page_names: Vec::new(),
            measured_ns: measured_ns(start)?,
            crowds: Vec::new(),
            duration_ns: ns(positive_s("duration_s", start.duration_s)?),
            interval_ns: ns(interval_s(start.interval_s)?),
            seed: start.seed,
        };
        for population in &start.populations {
            let crowd = plan
                .crowd(start, population)
                .map_err(|bad| bad.within(format_args!("population {:?}", population.class)))?;
            plan.crowds.push(crowd);
        }
        Ok(plan)
    }

    fn crowd(&mut self, start: &Start, population: &Population) -> Result<Crowd, BadInput> {
        check(population, start)?;
        let close = population.connection == Connection::PerRequest;
        let requests = |urls: &[Url]| render(urls, &start.host, close);
        let sampler = |name: &str, d| Sampler::new(d).map_err(|bad| bad.within(name));
        let class = self
            .classes
            .iter()
            .position(|name| *name == population.class)
            .unwrap_or_else(|| {
                self.classes.push(population.class.clone());
                self.page_names.push(Vec::new());
                self.classes.len() - 1
            });
        // A site's requests are made as they are sent.
        let unused = [Url {
            path: "/".to_owned(),
            weight: 1.0,
            cpu_s: 0.0,
        }];
        let pages = match &population.graph {
            Some(_) => &unused[..],
            None => &population.pages,
        };
        let site = population.graph.as_ref().map(Site::new).transpose();
        let site = site.map_err(|bad| bad.within("graph"))?;
        let names = &mut self.page_names[class];
        let own: Vec<String> = site
            .iter()
            .flat_map(|site| &site.pages)
            .map(|page| page.name.clone())
            .collect();
        // Populations of one class that walk the same site are counted together.
        let there = names
            .chunks(own.len().max(1))
            .position(|known| known == own);
        let pages_at = there.map_or(names.len(), |chunk| chunk * own.len());
        if there.is_none() {
            names.extend(own);
        }
        Ok(Crowd {
            class,
            site,
            pages_at,
            host: start.host.clone(),
            arrivals: population.arrivals,
            schedule: Schedule::new(&population.schedule),
            session_pages: sampler("session_pages", &population.session_pages)?,
            burst_requests: sampler("burst_requests", &population.burst_requests)?,
            think_s: sampler("think_s", &population.think_s)?,
            object_gap_s: sampler("object_gap_s", &population.object_gap_s)?,
            pages: requests(pages).map_err(|bad| bad.within("pages"))?,
            objects: if population.objects.is_empty() {
                None
            } else {
                Some(requests(&population.objects).map_err(|bad| bad.within("objects"))?)
            },
            connection: population.connection,
            timeout_ns: ns(positive_s("timeout_s", population.timeout_s)?),
            round_trip_ns: ns(population.round_trip_s),
            source: population.source,
        })
    }
}

/// Seconds as nanoseconds.
pub fn ns(seconds: f64) -> u64 {
    (seconds.min(LONGEST_S) * 1e9).round() as u64
}

/// The distance of the reports: one that is shorter would be work that no run is asked for.
fn interval_s(value: f64) -> Result<f64, BadInput> {
    let fits = (SHORTEST_INTERVAL_S..=LONGEST_S).contains(&value);
    must(fits, "interval_s", value, || {
        format!("between {SHORTEST_INTERVAL_S} and {LONGEST_S}")
    })?;
    Ok(value)
}

/// The part of the run that is measured.
fn measured_ns(start: &Start) -> Result<(u64, u64), BadInput> {
    let Some(Span { from_s, until_s }) = start.measured else {
        return Ok((0, u64::MAX));
    };
    if !(from_s >= 0.0 && from_s < until_s && until_s <= LONGEST_S) {
        return Err(BadInput(format!(
            "measured is {from_s} to {until_s} s, must be at least 0 and rise"
        )));
    }
    Ok((ns(from_s), ns(until_s)))
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn check(population: &Population, start: &Start) -> Result<(), BadInput> {
    if population.class.is_empty() {
        return Err(BadInput("class is empty".to_owned()));
    }
    if population.graph.is_some() {
        if !population.pages.is_empty() || !population.objects.is_empty() {
            return Err(BadInput(
                "it has a graph and pages or objects of its own".to_owned(),
            ));
        }
        if !matches!(population.arrivals, Arrivals::Closed { .. }) {
            return Err(BadInput(
                "it has a graph, and its arrivals are not closed".to_owned(),
            ));
        }
    }
    match population.arrivals {
        Arrivals::Poisson { rate_hz } | Arrivals::Constant { rate_hz } => {
            let fits = rate_hz > 0.0 && rate_hz <= 1e7;
            must(fits, "rate_hz", rate_hz, || {
                "greater than 0 and at most 1e7".to_owned()
            })?;
        }
        Arrivals::Closed { users } => {
            must(users > 0, "users", users.into(), || "at least 1".to_owned())?;
        }
    }
    let round_trip_s = population.round_trip_s;
    let fits = (0.0..=LONGEST_S).contains(&round_trip_s);
    must(fits, "round_trip_s", round_trip_s, || {
        format!("between 0 and {LONGEST_S}")
    })?;
    let mut before_s = 0.0;
    for step in &population.schedule {
        let fits = step.at_s >= before_s && step.at_s <= LONGEST_S;
        must(fits, "schedule: at_s", step.at_s, || {
            format!("at least {before_s}")
        })?;
        let fits = step.factor >= 0.0 && step.factor <= 1e6;
        must(fits, "schedule: factor", step.factor, || {
            "between 0 and 1e6".to_owned()
        })?;
        before_s = step.at_s;
    }
    match population.source {
        Some(source) if !start.target.is_ipv4() => Err(BadInput(format!(
            "source {source} cannot reach {}",
            start.target
        ))),
        Some(source) if !source.is_loopback() => {
            Err(BadInput(format!("source {source} is not in 127.0.0.0/8")))
        }
        _ => Ok(()),
    }
}

fn positive_s(name: &str, value: f64) -> Result<f64, BadInput> {
    must(value > 0.0 && value <= LONGEST_S, name, value, || {
        format!("greater than 0 and at most {LONGEST_S}")
    })?;
    Ok(value)
}

fn must(
    fits: bool,
    name: &str,
    value: f64,
    allowed: impl FnOnce() -> String,
) -> Result<(), BadInput> {
    fits.then_some(())
        .ok_or_else(|| BadInput(format!("{name} is {value}, must be {}", allowed())))
}

fn render(urls: &[Url], host: &str, close: bool) -> Result<Requests, BadInput> {
    let mix = Mix::new(urls)?;
    let connection = if close { "Connection: close\r\n" } else { "" };
    let rendered = urls.iter().map(|url| {
        if !url.path.starts_with('/') || !url.path.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(BadInput(format!(
                "url {:?} is not a path of printable characters that begins with '/'",
                url.path
            )));
        }
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: trimtab\r\n{connection}\r\n",
            url.path
        );
        Ok(request.into_bytes().into_boxed_slice())
    });
    Ok(Requests {
        mix,
        rendered: rendered.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
