//! One user's session: pages of bursts, with think time between them (liu2003, Fig. 3 and Table II).
//!
//! Everything that a session does is drawn from random numbers of its own, in the order in which it does it, so neither
//! the server's speed nor other sessions can change it.

use rand::rngs::SmallRng;
use trimtab_wire::sample::session_rng;

use crate::arena::Id;
use crate::http::Reply;
use crate::plan::{ns, Crowd};

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The user reads the page.
    Thinking,
    /// The browser has not asked for the next object yet.
    Gap,
    /// The request waits for its connection, or is on its way through the network.
    Unsent,
    /// The request is sent, its reply is not complete.
    Awaiting,
}

/// What a session does after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The next request of the page, after so many nanoseconds.
    Object(u64),
    /// The page is complete; the next click comes after so many nanoseconds.
    Click(u64),
    /// The page and the session are complete.
    Over,
}

/// What a session is that carries one request of a browser at a time.
#[derive(Debug)]
pub struct Lane {
    /// Its browser.
    pub browser: Id,
    /// Path of the image that it fetches; None for a page.
    pub image: Option<String>,
    request: Vec<u8>,
}

impl Lane {
    /// A lane without a request.
    pub fn new(browser: Id) -> Self {
        Self {
            browser,
            image: None,
            request: Vec::new(),
        }
    }
}

/// One session in progress.
#[derive(Debug)]
pub struct Session {
    rng: SmallRng,
    /// Its number within the population; of a closed population also its user.
    pub number: u64,
    /// Its population.
    pub crowd: u32,
    /// What it is doing.
    pub phase: Phase,
    /// A timer for its deadline is in the queue.
    pub deadline_armed: bool,
    /// A request of the page has failed.
    pub page_failed: bool,
    /// The current request is one for an embedded object.
    object: bool,
    pages_left: u32,
    requests_left: u32,
    url: u32,
    /// Its connection, if it has one.
    pub connection: Option<Id>,
    /// The browser's request that it carries; None for a user of its own.
    pub lane: Option<Lane>,
    /// When the page was due.
    pub page_intended_ns: u64,
    /// When the page began.
    pub page_actual_ns: u64,
    /// When the request was due.
    pub intended_ns: u64,
    /// The handshake of the current request's connection has taken its round trip.
    pub greeted: bool,
    /// When the request was sent for the first time; None before.
    pub actual_ns: Option<u64>,
    /// When the request has failed.
    pub deadline_ns: u64,
}

impl Session {
    /// A session that has not clicked yet.
    pub fn new(seed: u64, crowd_index: u32, number: u64, crowd: &Crowd) -> Self {
        let mut rng = session_rng(seed, crowd_index, number);
        let pages_left = crowd.session_pages.draw_count(&mut rng);
        Self {
            rng,
            number,
            crowd: crowd_index,
            phase: Phase::Thinking,
            deadline_armed: false,
            page_failed: false,
            object: false,
            pages_left,
            requests_left: 0,
            url: 0,
            connection: None,
            lane: None,
            page_intended_ns: 0,
            page_actual_ns: 0,
            intended_ns: 0,
            greeted: false,
            actual_ns: None,
            deadline_ns: 0,
        }
    }

    /// The user clicks: begins a page with its first request.
    pub fn click(&mut self, crowd: &Crowd, intended_ns: u64, now_ns: u64) {
        self.pages_left -= 1;
        self.requests_left = crowd.burst_requests.draw_count(&mut self.rng);
        self.page_failed = false;
        self.page_intended_ns = intended_ns;
        self.page_actual_ns = now_ns;
        self.url = crowd.pages.choose(&mut self.rng);
        self.object = false;
        self.request(crowd, intended_ns, now_ns);
    }

    /// The browser asks for the next object.
    pub fn fetch(&mut self, crowd: &Crowd, intended_ns: u64, now_ns: u64) {
        self.url = crowd.objects().choose(&mut self.rng);
        self.object = true;
        self.request(crowd, intended_ns, now_ns);
    }

    /// A lane's browser asks for a page or an image.
    pub fn ask(
        &mut self,
        crowd: &Crowd,
        request: Vec<u8>,
        image: Option<String>,
        intended_ns: u64,
        now_ns: u64,
    ) {
        if let Some(lane) = &mut self.lane {
            (lane.request, lane.image) = (request, image);
        }
        self.requests_left = 1;
        self.request(crowd, intended_ns, now_ns);
    }

    fn request(&mut self, crowd: &Crowd, intended_ns: u64, now_ns: u64) {
        self.requests_left -= 1;
        self.intended_ns = intended_ns;
        self.greeted = false;
        self.actual_ns = None;
        self.deadline_ns = now_ns + crowd.timeout_ns;
        self.phase = Phase::Unsent;
    }

    /// The reply is complete: decides what comes next.
    pub fn replied(&mut self, crowd: &Crowd) -> Next {
        if self.requests_left > 0 {
            self.phase = Phase::Gap;
            Next::Object(ns(crowd.object_gap_s.draw_s(&mut self.rng)))
        } else if self.pages_left > 0 {
            self.phase = Phase::Thinking;
            Next::Click(ns(crowd.think_s.draw_s(&mut self.rng)))
        } else {
            Next::Over
        }
    }

    /// The bytes of the current request.
    pub fn request_bytes<'a>(&'a self, crowd: &'a Crowd) -> &'a [u8] {
        if let Some(lane) = &self.lane {
            &lane.request
        } else if self.object {
            crowd.objects().bytes(self.url)
        } else {
            crowd.pages.bytes(self.url)
        }
    }

    /// The reading of the current request's reply.
    pub fn reply(&self) -> Reply {
        match &self.lane {
            Some(lane) => Reply::keeping(lane.image.is_none()),
            None => Reply::default(),
        }
    }

    /// Requests that the visit would still have asked for after the current one, as if all its pages were alike.
    pub fn unasked(mut self, crowd: &Crowd) -> u64 {
        let of_a_page = crowd.burst_requests.draw_count(&mut self.rng);
        u64::from(self.requests_left) + u64::from(self.pages_left) * u64::from(of_a_page)
    }

    /// Patience left for the current request.
    pub fn left_ns(&self, now_ns: u64) -> u64 {
        self.deadline_ns.saturating_sub(now_ns)
    }

    /// A request is due and has no reply.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Unsent | Phase::Awaiting)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
