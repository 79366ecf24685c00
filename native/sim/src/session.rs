//! The sessions in progress, in a slab: no allocation per session once the slab has grown.

use rand::rngs::SmallRng;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The slot is free.
    Free,
    /// Between a reply and the next request.
    Between,
    /// Its connection request was lost; it waits to send it again.
    Retrying,
    /// Its connection waits to be accepted.
    Queued,
    /// A worker serves its request.
    Served,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    /// Its traffic; nothing of the server's draws from it.
    pub rng: SmallRng,
    /// Intended start of the page under way.
    pub click_s: f64,
    /// When it entered the accept queue, then when its request began to be served.
    pub since_s: f64,
    /// When the client gives up the request under way; infinite when there is none.
    pub deadline_s: f64,
    /// When the server closes the idle connection; infinite when it will not.
    pub expiry_s: f64,
    /// Time off the cores that follows the work under way, in seconds.
    pub off_s: f64,
    /// Work and time off the cores after the lock is given back, in seconds.
    pub rest_s: (f64, f64),
    /// Which use of the slot this is.
    pub stamp: u32,
    /// Pages to come, with the one under way.
    pub pages_left: u32,
    /// Requests of this page.
    pub page_requests: u32,
    /// Requests of this page to come, with the one under way.
    pub requests_left: u32,
    /// Whose it is.
    pub population: u16,
    /// What it is doing.
    pub stage: Stage,
    /// Lost connection requests in a row.
    pub losses: u8,
    /// True for the first request of a page.
    pub first: bool,
    /// True while a worker holds its connection.
    pub connected: bool,
    /// True while its worker waits for the next request.
    pub held: bool,
    /// True while it holds the lock.
    pub locking: bool,
    /// True when its worker closes it after the request under way, because of a reload.
    pub closing: bool,
    /// True when the client has given up and the server does not know.
    pub abandoned: bool,
    /// True while a timeout event is in the calendar.
    pub timer: bool,
}

/// The sessions.
#[derive(Debug, Default)]
pub struct Slab {
    slots: Vec<Session>,
    free: Vec<u32>,
}

impl Slab {
    /// Slots in use.
    pub fn active(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Slots, used or free.
    pub fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Puts a new session into a slot.
    pub fn insert(&mut self, rng: SmallRng, population: u16, pages: u32) -> u32 {
        let fresh = |stamp| Session {
            rng,
            click_s: 0.0,
            since_s: 0.0,
            deadline_s: f64::INFINITY,
            expiry_s: f64::INFINITY,
            off_s: 0.0,
            rest_s: (0.0, 0.0),
            stamp,
            pages_left: pages,
            page_requests: 0,
            requests_left: 0,
            population,
            stage: Stage::Between,
            losses: 0,
            first: true,
            connected: false,
            held: false,
            locking: false,
            closing: false,
            abandoned: false,
            timer: false,
        };
        if let Some(slot) = self.free.pop() {
            let session = &mut self.slots[slot as usize];
            *session = fresh(session.stamp);
            return slot;
        }
        self.slots.push(fresh(0));
        self.slots.len() as u32 - 1
    }

    /// Frees a slot; events that name it are void from now on.
    pub fn remove(&mut self, slot: u32) {
        let session = &mut self.slots[slot as usize];
        session.stage = Stage::Free;
        session.stamp = session.stamp.wrapping_add(1);
        self.free.push(slot);
    }

    /// The session in a slot.
    pub fn at(&mut self, slot: u32) -> &mut Session {
        &mut self.slots[slot as usize]
    }
}
