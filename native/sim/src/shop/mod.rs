//! A shop of three tiers in virtual time: browsers, proxy, application, database, disk.
//!
//! A page goes through
//!
//! ```text
//! proxy -> thread [ application -> connection [ queries -> disk -> application ] ] -> proxy: images -> thread [ application ] for those
//! that the proxy has not -> the user thinks -> the next page of the graph
//! ```
//!
//! Each browser draws for itself all that its pages cost, in the order of its pages, so that it walks and asks for the same under all
//! settings: they are compared on the same load. Work of a page at application and database is its mean by a half to three halves, uniform; all else is constant. What the
//! proxy and the database hold is known by Che's approximation (`cache.rs`), so that a run begins warm. Left out are the
//! network, connections' handshakes, patience, and locks between transactions. A page's queries are one piece of work, its images
//! one request to each tier; a job alone on half a core takes twice its work, where a real one runs at full speed until its share of
//! the period is used up.

mod browser;
mod cache;
mod check;
mod images;
mod meter;
mod permits;
mod tier;

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::Rng as _;
use trimtab_wire::shop::{Demand, Shop as Description};
use trimtab_wire::sim::Totals;
use trimtab_wire::workload::Population;
use trimtab_wire::BadInput;

use crate::calendar::{Calendar, Event, Kind};
use crate::cores::Cores;
use browser::{Crowd, Stage};
use cache::Zipf;
use images::Images;
use meter::Levels;
pub use meter::Meter;
use permits::Permits;
use tier::Tier;

/// How long a user waits at least after a page that failed, as in the load generator.
const PAUSE_S: f64 = 0.1;

/// Where something happens next.
#[derive(Debug, Clone, Copy)]
enum Next {
    Click,
    Proxy,
    Application,
    Database,
    Disk,
}

/// The simulated shop.
#[derive(Debug)]
pub struct Shop {
    settings: Description,
    demands: Vec<Demand>,
    crowd: Crowd,
    images: Images,
    /// Share of the blocks that must be read.
    miss_ratio: f64,
    now_s: f64,
    events: u64,
    calendar: Calendar,
    proxy: Tier,
    application: Tier,
    database: Tier,
    disk: Cores,
    threads: Permits,
    pool: Permits,
    running: Permits,
    under_way: u32,
    meter: Meter,
    earlier: Totals,
}

impl Shop {
    /// Builds the shop; virtual time is 0 and the browsers come.
    ///
    /// # Errors
    /// A parameter is outside its domain; nothing is built.
    pub fn new(settings: Description, browsers: &Population, seed: u64) -> Result<Self, BadInput> {
        check::shop(&settings)?;
        let crowd = Crowd::new(browsers, settings.catalogue.items, seed)?;
        let graph = browsers
            .graph
            .as_ref()
            .ok_or_else(|| BadInput("a shop needs a graph".to_owned()))?;
        let demands = check::demands(&settings, graph)?;
        let visits = browser::visits(graph);
        let mean = |of: fn(&Demand) -> u32| -> f64 {
            let each = demands.iter().zip(&visits);
            each.map(|(demand, share)| share * f64::from(of(demand)))
                .sum()
        };
        let (small, large) = (mean(|d| d.thumbnails), mean(|d| d.covers));
        let images = Images::new(&settings.catalogue, &settings.proxy, small, large);
        let base = &settings.database;
        let blocks = (base.data_bytes / base.block_bytes).ceil();
        let zipf = Zipf::new(blocks as u32, base.popularity);
        let miss_ratio =
            1.0 - cache::hit_ratio(&zipf, (base.buffer_bytes / base.block_bytes).floor());
        let mut shop = Self {
            images,
            miss_ratio: miss_ratio.max(0.0),
            now_s: 0.0,
            events: 0,
            calendar: Calendar::default(),
            proxy: Tier::new(settings.proxy.host),
            application: Tier::new(settings.application.host),
            database: Tier::new(settings.database.host),
            disk: Cores::new(settings.database.disk_width),
            threads: Permits::new(settings.application.threads),
            pool: Permits::new(settings.application.pool),
            running: Permits::new(settings.database.running),
            under_way: 0,
            meter: Meter::default(),
            earlier: Totals::default(),
            settings,
            demands,
            crowd,
        };
        for slot in 0..shop.crowd.browsers.len() as u32 {
            let at_s = shop.crowd.first_click_s(slot);
            shop.click_after(at_s, slot);
        }
        shop.press();
        Ok(shop)
    }

    /// Lets virtual time pass.
    ///
    /// # Errors
    /// The duration is negative or not finite.
    pub fn advance(&mut self, duration_s: f64) -> Result<(), BadInput> {
        let end_s = self.now_s + duration_s;
        if !(duration_s >= 0.0 && end_s.is_finite()) {
            return Err(BadInput(format!(
                "duration_s {duration_s} must be at least 0"
            )));
        }
        loop {
            let (next_s, next) = self.next();
            if next_s > end_s {
                break;
            }
            self.pass(next_s);
            self.events += 1;
            let now_s = self.now_s;
            let slot = match next {
                Next::Click => self.calendar.pop().map(|event| event.slot),
                Next::Proxy => self.proxy.leave(now_s),
                Next::Application => self.application.leave(now_s),
                Next::Database => self.database.leave(now_s),
                Next::Disk => self.disk.leave(now_s),
            };
            if let Some(slot) = slot {
                match next {
                    Next::Click => self.click(slot),
                    Next::Proxy => self.proxied(slot),
                    Next::Application => self.applied(slot),
                    Next::Database => self.queried(slot),
                    Next::Disk => self.answered(slot),
                }
            }
            self.press();
        }
        self.pass(end_s);
        Ok(())
    }

    /// Starts a new measuring interval.
    pub fn begin(&mut self) {
        self.earlier = self.totals();
        self.meter = Meter::default();
    }

    /// What was measured since `begin`.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Readings since `begin` by metric name; those of a tier carry its name.
    pub fn readings(&self) -> BTreeMap<String, f64> {
        let cores = [&self.proxy, &self.application, &self.database].map(Tier::cores);
        self.meter
            .readings(cores, self.settings.database.disk_width)
    }

    /// What clients had since the start: pages for replies.
    pub fn totals(&self) -> Totals {
        Totals {
            waited_s: self.earlier.waited_s + self.meter.integral.under_way,
            replies: self.earlier.replies + self.meter.pages,
            given_up: self.earlier.given_up + self.meter.refused,
            unsent: 0,
        }
    }

    /// Virtual time.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Events processed since the start.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn next(&self) -> (f64, Next) {
        let mut first = (self.calendar.next_s(), Next::Click);
        for other in [
            (self.proxy.next_s(), Next::Proxy),
            (self.application.next_s(), Next::Application),
            (self.database.next_s(), Next::Database),
            (self.disk.next_s(), Next::Disk),
        ] {
            if other.0 < first.0 {
                first = other;
            }
        }
        first
    }

    fn pass(&mut self, until_s: f64) {
        let levels = Levels {
            busy: [&self.proxy, &self.application, &self.database].map(Tier::busy),
            disk: self.disk.busy(),
            threads: f64::from(self.threads.held()),
            pooled: f64::from(self.pool.held()),
            waiting: f64::from(self.threads.waiting()),
            pooling: f64::from(self.pool.waiting() + self.running.waiting()),
            under_way: f64::from(self.under_way),
        };
        self.meter.pass(until_s - self.now_s, levels);
        self.now_s = until_s;
    }

    /// Brings the pace of each tier up to date with what runs there and the memory that it takes.
    fn press(&mut self) {
        let (now_s, settings) = (self.now_s, &self.settings);
        let held = self.images.held_bytes * settings.proxy.held_ratio;
        self.proxy.press(now_s, held);
        let of = &settings.application;
        let threads = f64::from(self.threads.held().max(of.spare_threads));
        let requests = f64::from(self.threads.held() + self.threads.waiting());
        let memory = threads * of.thread_bytes + requests * of.connection_bytes;
        self.application.press(now_s, memory);
        let of = &settings.database;
        let connections = self.pool.held().max(settings.application.idle_pool);
        let memory = of.buffer_bytes.min(of.data_bytes) * of.held_ratio
            + f64::from(connections) * of.connection_bytes
            + f64::from(self.running.held()) * of.query_bytes;
        self.database.press(now_s, memory);
    }

    fn click_after(&mut self, after_s: f64, slot: u32) {
        self.calendar.push(Event {
            at_s: self.now_s + after_s,
            kind: Kind::Click,
            slot,
            stamp: 0,
        });
    }

    fn stage(&mut self, slot: u32, stage: Stage) {
        self.crowd.browsers[slot as usize].stage = stage;
    }

    fn click(&mut self, slot: u32) {
        self.crowd.click(slot, self.now_s);
        self.under_way += 1;
        self.stage(slot, Stage::Asking);
        let work_s = self.settings.proxy.page_s;
        self.proxy.enter(self.now_s, slot, work_s);
    }

    /// The proxy has passed a page on, or sent its images.
    fn proxied(&mut self, slot: u32) {
        let browser = &self.crowd.browsers[slot as usize];
        if browser.stage == Stage::Serving && browser.missed.0 == 0 {
            return self.done(slot);
        }
        if self.threads.held() + self.threads.waiting() >= self.settings.application.places {
            return self.refuse(slot);
        }
        if self.threads.take(slot) {
            self.serve_by_thread(slot);
        }
    }

    /// A thread has the request, of a page or of images.
    fn serve_by_thread(&mut self, slot: u32) {
        let of = &self.settings.application;
        let browser = &mut self.crowd.browsers[slot as usize];
        let work_s = if browser.stage == Stage::Serving {
            browser.stage = Stage::Fetching;
            let (images, bytes) = browser.missed;
            f64::from(images) * of.image_s + bytes * of.byte_s
        } else {
            browser.stage = Stage::Preparing;
            let mean_s = self.demands[browser.page].application_s;
            let work_s = mean_s * spread(&mut browser.rng);
            browser.after_s = work_s * (1.0 - of.before_ratio);
            work_s * of.before_ratio
        };
        self.application.enter(self.now_s, slot, work_s);
    }

    /// The application has done a piece of work.
    fn applied(&mut self, slot: u32) {
        match self.crowd.browsers[slot as usize].stage {
            Stage::Preparing => self.connect(slot),
            Stage::Rendering => {
                if let Some(next) = self.pool.give_back() {
                    self.query(next);
                }
                self.leave_thread();
                self.serve_images(slot);
            }
            _ => {
                self.leave_thread();
                self.done(slot);
            }
        }
    }

    fn leave_thread(&mut self) {
        if let Some(next) = self.threads.give_back() {
            self.serve_by_thread(next);
        }
    }

    /// The page needs a connection; where the pool would open one more than the database has, it fails.
    fn connect(&mut self, slot: u32) {
        let open = self.pool.held();
        if open < self.settings.application.pool && open >= self.settings.database.connections {
            self.leave_thread();
            return self.refuse(slot);
        }
        self.stage(slot, Stage::Querying);
        if self.pool.take(slot) {
            self.query(slot);
        }
    }

    /// The page has its connection.
    fn query(&mut self, slot: u32) {
        let page = self.crowd.browsers[slot as usize].page;
        if self.demands[page].database_s <= 0.0 {
            self.render(slot);
        } else if self.running.take(slot) {
            self.run(slot);
        }
    }

    /// The page's queries run.
    fn run(&mut self, slot: u32) {
        let of = &self.settings.database;
        let browser = &mut self.crowd.browsers[slot as usize];
        let demand = &self.demands[browser.page];
        // Rounded by chance, so that the mean is kept.
        let reads = (demand.blocks * self.miss_ratio + browser.rng.random::<f64>()).floor();
        self.meter.blocks += demand.blocks;
        self.meter.reads += reads;
        browser.disk_s = reads * of.read_s + demand.commits * of.commit_s;
        let cpu_s = demand.database_s * spread(&mut browser.rng);
        self.database
            .enter(self.now_s, slot, cpu_s + reads * of.read_cpu_s);
    }

    /// The database has done its work; the disk may have some.
    fn queried(&mut self, slot: u32) {
        let browser = &mut self.crowd.browsers[slot as usize];
        if browser.disk_s > 0.0 {
            browser.stage = Stage::Reading;
            let work_s = browser.disk_s;
            self.disk.enter(self.now_s, slot, work_s);
        } else {
            self.answered(slot);
        }
    }

    /// The queries are answered.
    fn answered(&mut self, slot: u32) {
        if let Some(next) = self.running.give_back() {
            self.run(next);
        }
        self.render(slot);
    }

    fn render(&mut self, slot: u32) {
        let browser = &mut self.crowd.browsers[slot as usize];
        browser.stage = Stage::Rendering;
        let work_s = browser.after_s;
        self.application.enter(self.now_s, slot, work_s);
    }

    /// The page is there; its images are asked for.
    fn serve_images(&mut self, slot: u32) {
        let browser = &mut self.crowd.browsers[slot as usize];
        let demand = &self.demands[browser.page];
        let (small, large) = (demand.thumbnails, demand.covers);
        let wanted = self.images.fetch(browser, small, large);
        if wanted.images == 0 {
            return self.done(slot);
        }
        browser.stage = Stage::Serving;
        browser.missed = (wanted.missed, wanted.missed_bytes);
        self.meter.images += u64::from(wanted.images);
        self.meter.image_hits += u64::from(wanted.images - wanted.missed);
        let of = &self.settings.proxy;
        let work_s = f64::from(wanted.images) * of.image_s
            + f64::from(wanted.missed) * of.miss_s
            + wanted.bytes * of.byte_s;
        self.proxy.enter(self.now_s, slot, work_s);
    }

    fn done(&mut self, slot: u32) {
        let taken_s = self.now_s - self.crowd.browsers[slot as usize].click_s;
        self.meter.page(taken_s);
        self.think(slot, 0.0);
    }

    fn refuse(&mut self, slot: u32) {
        let browser = &mut self.crowd.browsers[slot as usize];
        browser.lost = browser.stage != Stage::Serving;
        self.meter.refused += 1;
        self.think(slot, PAUSE_S);
    }

    fn think(&mut self, slot: u32, least_s: f64) {
        self.under_way -= 1;
        self.stage(slot, Stage::Thinking);
        let think_s = self.crowd.think_s(slot).max(least_s);
        self.click_after(think_s, slot);
    }
}

/// A page's work by its mean.
fn spread(rng: &mut SmallRng) -> f64 {
    0.5 + rng.random::<f64>()
}
