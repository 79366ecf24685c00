//! A population of clients, ready to play.

use rand::rngs::SmallRng;
use trimtab_wire::sample::{arrival_rng, Mix, Sampler};
use trimtab_wire::workload::{Arrivals, Connection, Population, Step, Url};
use trimtab_wire::BadInput;

/// Most users or sessions in progress.
pub const MAX_SESSIONS: u32 = 1 << 22;

/// A population with its distributions prepared and its state.
#[derive(Debug)]
pub struct Clients {
    /// Index of its class; 0 where there are none.
    pub class: usize,
    /// How sessions arrive.
    pub arrivals: Arrivals,
    /// Pages in a session.
    pub session_pages: Sampler,
    /// Requests in a page.
    pub burst_requests: Sampler,
    /// Time from a page's end to the next click.
    pub think_s: Sampler,
    /// Time from a reply to the next request of the page.
    pub object_gap_s: Sampler,
    /// First requests of pages.
    pub pages: Urls,
    /// The other requests of pages.
    pub objects: Urls,
    /// When the client closes.
    pub connection: Connection,
    /// Patience with one request.
    pub timeout_s: f64,
    /// Changes of intensity.
    pub schedule: Vec<Step>,
    /// Factor on the arrival rate or the users now.
    pub factor: f64,
    /// Counts the changes of intensity: an arrival that was set up before the last one is void.
    pub epoch: u32,
    /// Sessions started so far.
    pub sessions: u64,
    /// Sessions in progress.
    pub active: u32,
    /// Randomness of the arrivals.
    pub rng: SmallRng,
}

/// A mix of URLs with the CPU time that each costs.
#[derive(Debug)]
pub struct Urls {
    /// The choice.
    pub mix: Mix,
    /// CPU seconds by index.
    pub cpu_s: Vec<f64>,
}

impl Clients {
    /// Prepares the population of this index; `other_s` is the server's service time off the cores.
    ///
    /// # Errors
    /// A parameter is outside its domain; the message names the population and the parameter.
    pub fn new(
        population: &Population,
        index: u32,
        seed: u64,
        other_s: f64,
    ) -> Result<Self, BadInput> {
        let named = |field: &str, bad: BadInput| {
            bad.within(format_args!("population {:?}: {field}", population.class))
        };
        let sampler =
            |field: &str, distribution| Sampler::new(distribution).map_err(|bad| named(field, bad));
        let objects = if population.objects.is_empty() {
            &population.pages
        } else {
            &population.objects
        };
        check_arrivals(&population.arrivals).map_err(|bad| named("arrivals", bad))?;
        check_schedule(&population.schedule).map_err(|bad| named("schedule", bad))?;
        if !(population.timeout_s > 0.0 && population.timeout_s.is_finite()) {
            let bad = BadInput(format!("{} must be greater than 0", population.timeout_s));
            return Err(named("timeout_s", bad));
        }
        if population.round_trip_s != 0.0 {
            let bad = BadInput(format!(
                "{} must be 0: no network is simulated",
                population.round_trip_s
            ));
            return Err(named("round_trip_s", bad));
        }
        if population.graph.is_some() {
            let bad = BadInput("no sites are simulated".to_owned());
            return Err(named("graph", bad));
        }
        Ok(Self {
            class: 0,
            arrivals: population.arrivals,
            session_pages: sampler("session_pages", &population.session_pages)?,
            burst_requests: sampler("burst_requests", &population.burst_requests)?,
            think_s: sampler("think_s", &population.think_s)?,
            object_gap_s: sampler("object_gap_s", &population.object_gap_s)?,
            pages: Urls::new(&population.pages, other_s).map_err(|bad| named("pages", bad))?,
            objects: Urls::new(objects, other_s).map_err(|bad| named("objects", bad))?,
            connection: population.connection,
            timeout_s: population.timeout_s,
            schedule: population.schedule.clone(),
            factor: 1.0,
            epoch: 0,
            sessions: 0,
            active: 0,
            rng: arrival_rng(seed, index),
        })
    }

    /// Time to the next arrival of an open population; None when it is closed or stopped.
    pub fn next_gap_s(&mut self) -> Option<f64> {
        let sampler = match self.arrivals {
            Arrivals::Poisson { rate_hz } => Sampler::Exponential(1.0 / rate_hz),
            Arrivals::Constant { rate_hz } => Sampler::Constant(1.0 / rate_hz),
            Arrivals::Closed { .. } => return None,
        };
        (self.factor > 0.0).then(|| sampler.draw(&mut self.rng) / self.factor)
    }

    /// Users that a closed population has now; 0 for an open one.
    pub fn users(&self) -> u32 {
        match self.arrivals {
            Arrivals::Closed { users } => (f64::from(users) * self.factor).round() as u32,
            Arrivals::Poisson { .. } | Arrivals::Constant { .. } => 0,
        }
    }
}

impl Urls {
    fn new(urls: &[Url], other_s: f64) -> Result<Self, BadInput> {
        for url in urls {
            let demand = url.cpu_s + other_s;
            if !(url.cpu_s >= 0.0 && demand.is_finite() && demand > 0.0) {
                return Err(BadInput(format!(
                    "url {:?}: cpu_s {} with other_s {other_s}: a simulated request must take some time",
                    url.path, url.cpu_s
                )));
            }
        }
        Ok(Self {
            mix: Mix::new(urls)?,
            cpu_s: urls.iter().map(|url| url.cpu_s).collect(),
        })
    }
}

fn check_arrivals(arrivals: &Arrivals) -> Result<(), BadInput> {
    match *arrivals {
        Arrivals::Poisson { rate_hz } | Arrivals::Constant { rate_hz } => {
            if rate_hz > 0.0 && rate_hz <= 1e6 {
                return Ok(());
            }
            Err(BadInput(format!(
                "rate_hz {rate_hz} must be greater than 0 and at most 1e6"
            )))
        }
        Arrivals::Closed { users } if users > MAX_SESSIONS => {
            Err(BadInput(format!("{users} users, at most {MAX_SESSIONS}")))
        }
        Arrivals::Closed { .. } => Ok(()),
    }
}

fn check_schedule(schedule: &[Step]) -> Result<(), BadInput> {
    let mut last_s = 0.0;
    for step in schedule {
        if !(step.at_s >= last_s && step.at_s.is_finite()) {
            return Err(BadInput(format!(
                "step at {} s after one at {last_s} s: times must not decrease",
                step.at_s
            )));
        }
        if !(0.0..=1e3).contains(&step.factor) {
            return Err(BadInput(format!(
                "factor {} is outside 0..1000",
                step.factor
            )));
        }
        last_s = step.at_s;
    }
    Ok(())
}
