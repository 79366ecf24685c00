//! The browsers: where they are on the site, and which images they have.

use rand::rngs::SmallRng;
use rand::Rng as _;
use trimtab_wire::graph::{Graph, Page};
use trimtab_wire::sample::{session_rng, Sampler};
use trimtab_wire::workload::{Arrivals, Population};
use trimtab_wire::BadInput;

/// Most browsers.
const MOST_BROWSERS: u32 = 100_000;
/// Rounds after which the shares of the pages have come to rest.
const ROUNDS: u32 = 400;

/// What a browser's page is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The user thinks.
    Thinking,
    /// The proxy has the request, or the page waits for a thread.
    Asking,
    /// The application works before it needs its connection.
    Preparing,
    /// It waits for a connection, or for its queries' turn, or the database works.
    Querying,
    /// The disk works.
    Reading,
    /// The application makes the page.
    Rendering,
    /// The proxy has the images, or those that it has not wait for a thread.
    Serving,
    /// The application sends images.
    Fetching,
}

/// One browser.
#[derive(Debug)]
pub struct Browser {
    /// What it draws for each page.
    pub rng: SmallRng,
    /// What it draws for each session, of which there are more under one setting than under another.
    sessions: SmallRng,
    /// The page that it is on, or asks for.
    pub page: usize,
    /// When its session may end; None before its first click.
    pub session_end_s: Option<f64>,
    /// The page did not come: the next one is the start page.
    pub lost: bool,
    /// It has none of the images that all pages share.
    pub fresh: bool,
    /// When it clicked.
    pub click_s: f64,
    /// What its page is at.
    pub stage: Stage,
    /// Work of the application that is left.
    pub after_s: f64,
    /// Work of the disk.
    pub disk_s: f64,
    /// Images that the proxy has not, and their bytes.
    pub missed: (u32, f64),
    seen: Vec<u64>,
}

impl Browser {
    /// A browser before its first click, on a site with so many items.
    fn new(seed: u64, number: u64, items: u32) -> Self {
        Self {
            rng: session_rng(seed, 0, number),
            sessions: session_rng(seed, 1, number),
            page: 0,
            session_end_s: None,
            lost: false,
            fresh: true,
            click_s: 0.0,
            stage: Stage::Thinking,
            after_s: 0.0,
            disk_s: 0.0,
            missed: (0, 0.0),
            seen: vec![0; (2 * items as usize).div_ceil(64)],
        }
    }

    /// Notes an image; false where it was there already.
    pub fn sees(&mut self, image: u32) -> bool {
        let (word, bit) = (image as usize / 64, 1 << (image % 64));
        let unseen = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        unseen
    }
}

/// All browsers and how they walk.
#[derive(Debug)]
pub struct Crowd {
    /// They.
    pub browsers: Vec<Browser>,
    pages: Vec<Page>,
    start: usize,
    think_s: Sampler,
    session_s: Sampler,
    first_click_s: [f64; 2],
}

impl Crowd {
    /// Closed users who walk a graph.
    ///
    /// # Errors
    /// They are of another kind, or a parameter is outside its domain; one line says which.
    pub fn new(population: &Population, items: u32, seed: u64) -> Result<Self, BadInput> {
        let named = |bad: BadInput| bad.within(format_args!("population {:?}", population.class));
        let refused = |why: String| Err(named(BadInput(why)));
        let (Arrivals::Closed { users }, Some(graph)) = (population.arrivals, &population.graph)
        else {
            return refused("a shop's browsers are closed and walk a graph".to_owned());
        };
        if !(1..=MOST_BROWSERS).contains(&users) {
            return refused(format!("{users} users are outside 1..{MOST_BROWSERS}"));
        }
        if !population.schedule.is_empty() || population.round_trip_s != 0.0 {
            return refused("a shop's browsers have no schedule and no network".to_owned());
        }
        let [least_s, most_s] = graph.first_click_s;
        if !(least_s >= 0.0 && least_s <= most_s && most_s <= 1e8) {
            return refused(format!(
                "first_click_s is {least_s} to {most_s}, must be at least 0 and rise"
            ));
        }
        let sampler = |name: &str, distribution| {
            Sampler::new(distribution).map_err(|bad| named(bad.within(name)))
        };
        for page in &graph.pages {
            page.check_thresholds(graph.pages.len())
                .map_err(|bad| named(bad.within(format_args!("page {:?}", page.name))))?;
        }
        Ok(Self {
            browsers: (0..users)
                .map(|number| Browser::new(seed, u64::from(number), items))
                .collect(),
            start: start_of(graph).map_err(named)?,
            pages: graph.pages.clone(),
            think_s: sampler("think_s", &population.think_s)?,
            session_s: sampler("session_s", &graph.session_s)?,
            first_click_s: graph.first_click_s,
        })
    }

    /// When a browser clicks for the first time.
    pub fn first_click_s(&mut self, slot: u32) -> f64 {
        let [least_s, most_s] = self.first_click_s;
        let browser = &mut self.browsers[slot as usize];
        browser.page = self.start;
        least_s + (most_s - least_s) * browser.rng.random::<f64>()
    }

    /// How long a browser's user thinks.
    pub fn think_s(&mut self, slot: u32) -> f64 {
        let browser = &mut self.browsers[slot as usize];
        self.think_s.draw_s(&mut browser.rng)
    }

    /// The user clicks: the page is the next one, and the session a new one where the last has lasted long enough.
    pub fn click(&mut self, slot: u32, now_s: f64) {
        let browser = &mut self.browsers[slot as usize];
        browser.click_s = now_s;
        if let Some(end_s) = browser.session_end_s {
            browser.page = if browser.lost {
                self.start
            } else {
                let next = self.pages[browser.page].next(&mut browser.rng);
                next.unwrap_or(self.start)
            };
            browser.lost = false;
            if browser.page != self.start || now_s < end_s {
                return;
            }
            browser.seen.fill(0);
            browser.fresh = true;
        }
        browser.session_end_s = Some(now_s + self.session_s.draw_s(&mut browser.sessions));
    }
}

fn start_of(graph: &Graph) -> Result<usize, BadInput> {
    let found = graph.pages.iter().position(|page| page.name == graph.start);
    found.ok_or_else(|| BadInput(format!("there is no page {:?}", graph.start)))
}

/// The share of each page among all, in a long walk.
pub fn visits(graph: &Graph) -> Vec<f64> {
    let count = graph.pages.len();
    let mut shares = vec![1.0 / count as f64; count];
    for _ in 0..ROUNDS {
        let mut next = vec![0.0; count];
        for (page, share) in graph.pages.iter().zip(&shares) {
            let mut before = 0;
            let highest = f64::from(page.thresholds.iter().max().copied().unwrap_or(1));
            for (to, &threshold) in page.thresholds.iter().enumerate() {
                if threshold > before {
                    next[to] += share * f64::from(threshold - before) / highest;
                    before = threshold;
                }
            }
        }
        // The mean with the round before: a walk that goes round in circles comes to rest too.
        for (share, new) in shares.iter_mut().zip(next) {
            *share = f64::midpoint(*share, new);
        }
    }
    shares
}
