//! One user's browser: where it is, its cookies and cache, and what it took from the page before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use rand::rngs::SmallRng;
use trimtab_wire::sample::session_rng;

use crate::arena::Id;
use crate::form::{self, Filled};
use crate::http::Kept;
use crate::page::Page;
use crate::plan::ns;
use crate::site::Site;
use crate::tally::Failure;

/// Most cookies, and longest cookie with its name, that are kept (RFC 6265, 6.1, asks for 50 and 4096 at least).
const MOST_COOKIES: usize = 50;
const LONGEST_COOKIE: usize = 4096;
/// Most images that a cache holds.
const MOST_CACHED: usize = 4096;

/// What requests are filled in from.
#[derive(Debug, Default)]
pub struct State {
    /// The page before; None at the session's first.
    pub before: Option<usize>,
    memories: Vec<(Box<str>, String)>,
    cookies: Vec<(Box<str>, Box<str>)>,
    marked: Vec<Vec<Box<str>>>,
}

impl State {
    /// What is remembered under a name.
    pub fn remembered(&self, name: &str) -> Option<&str> {
        let found = self.memories.iter().find(|(known, _)| **known == *name);
        found.map(|(_, text)| text.as_str())
    }

    /// Remembers a text.
    pub fn remember(&mut self, name: &str, text: String) {
        match self.memories.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, there)) => *there = text,
            None => self.memories.push((name.into(), text)),
        }
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let found = self.cookies.iter().find(|(known, _)| **known == *name);
        found.map(|(_, value)| &**value)
    }

    /// A marker's values on the page before.
    pub fn marked(&self, site: &Site, marker: &str) -> &[Box<str>] {
        let found = site.marker(marker).and_then(|index| self.marked.get(index));
        found.map_or(&[], Vec::as_slice)
    }

    /// Takes the markers of the page that has come.
    pub fn take_marked(&mut self, marked: Vec<Vec<Box<str>>>) {
        self.marked = marked;
    }

    /// Obeys a Set-Cookie header; domain and path are not looked at, for a browser knows one site.
    fn set_cookie(&mut self, header: &[u8]) {
        let mut parts = header.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        let Some(Ok(pair)) = parts.next().map(std::str::from_utf8) else {
            return;
        };
        let Some((name, value)) = pair.split_once('=') else {
            return;
        };
        let (name, value) = (name.trim(), value.trim());
        let plain = |text: &str| text.bytes().all(|b| (b' '..0x7f).contains(&b));
        if name.is_empty() || !plain(pair) || pair.len() > LONGEST_COOKIE {
            return;
        }
        self.cookies.retain(|(known, _)| **known != *name);
        let gone = parts.any(|part| {
            let (key, value) =
                part.split_at(part.iter().position(|&b| b == b'=').unwrap_or(part.len()));
            key.eq_ignore_ascii_case(b"max-age") && matches!(value.get(1), Some(b'0' | b'-'))
        });
        if !gone && self.cookies.len() < MOST_COOKIES {
            self.cookies.push((name.into(), value.into()));
        }
    }
}

/// One user's browser, for one session.
#[derive(Debug)]
pub struct Browser {
    rng: SmallRng,
    state: State,
    cache: HashMap<u64, u64>,
    /// Its number within the population, also its user.
    pub number: u64,
    /// Its population.
    pub crowd: u32,
    /// The page that it is on, or asks for.
    pub page: usize,
    /// When its session began, once it has.
    pub began_ns: Option<u64>,
    /// How long its session lasts, at least.
    pub session_ns: u64,
    /// Its requests at one time; the first is the page's.
    pub lanes: Vec<Id>,
    /// Path of the page, for its links.
    pub path: String,
    /// Images of the page that are to be fetched.
    pub images: Vec<String>,
    /// Requests for images under way, and the one that counts for starting them.
    pub under_way: u32,
    /// Redirects followed for the page.
    pub redirects: u32,
    /// Why the page has failed.
    pub failed: Option<Failure>,
    /// The page itself did not come.
    pub lost: bool,
    /// When the page was due.
    pub intended_ns: u64,
    /// When the page began.
    pub actual_ns: u64,
}

impl Browser {
    /// A browser before its first click.
    pub fn new(seed: u64, crowd: u32, number: u64, site: &Site) -> Self {
        let mut rng = session_rng(seed, crowd, number);
        let mut state = State::default();
        form::remember(&site.memories, site, &mut state, &mut rng);
        let session_ns = ns(site.session_s.draw_s(&mut rng));
        Self {
            rng,
            state,
            cache: HashMap::new(),
            number,
            crowd,
            page: site.start,
            began_ns: None,
            session_ns,
            lanes: Vec::new(),
            path: String::new(),
            images: Vec::new(),
            under_way: 0,
            redirects: 0,
            failed: None,
            lost: false,
            intended_ns: 0,
            actual_ns: 0,
        }
    }

    /// Its random numbers.
    pub fn rng(&mut self) -> &mut SmallRng {
        &mut self.rng
    }

    /// Moves on to the next page; after one that did not come, to the start page.
    pub fn move_on(&mut self, site: &Site) {
        self.page = if self.lost {
            site.start
        } else {
            site.next(self.page, &mut self.rng)
        };
    }

    /// Clicks: the page's request.
    pub fn click(&mut self, site: &Site, intended_ns: u64, now_ns: u64) -> Filled {
        self.began_ns.get_or_insert(now_ns);
        self.intended_ns = intended_ns;
        self.actual_ns = now_ns;
        self.failed = None;
        self.lost = false;
        self.redirects = 0;
        self.images.clear();
        let filled = form::fill(
            &site.pages[self.page].asks,
            site,
            &mut self.state,
            &mut self.rng,
        );
        self.path.clone_from(&filled.path);
        filled
    }

    /// The bytes of a request with this browser's cookies.
    pub fn request(&self, host: &str, close: bool, filled: &Filled) -> Vec<u8> {
        let method = if filled.form.is_some() { "POST" } else { "GET" };
        let mut text = format!(
            "{method} {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: trimtab\r\n",
            filled.path
        );
        for (index, (name, value)) in self.state.cookies.iter().enumerate() {
            text.push_str(if index == 0 { "Cookie: " } else { "; " });
            text.push_str(name);
            text.push('=');
            text.push_str(value);
        }
        if !self.state.cookies.is_empty() {
            text.push_str("\r\n");
        }
        if close {
            text.push_str("Connection: close\r\n");
        }
        if let Some(form) = &filled.form {
            text.push_str(&format!(
                "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
                form.len()
            ));
        } else {
            text.push_str("\r\n");
        }
        text.into_bytes()
    }

    /// Takes the cookies of a reply.
    pub fn take_cookies(&mut self, kept: &Kept) {
        for header in &kept.cookies {
            self.state.set_cookie(header);
        }
    }

    /// The page has come: what it has for the next request; false when it is another one than was asked for.
    pub fn take_page(&mut self, site: &Site, page: Page) -> bool {
        let right = !site.named
            || page.marked[0]
                .first()
                .is_some_and(|name| **name == *site.pages[self.page].name);
        self.state.take_marked(page.marked);
        right
    }

    /// The page is complete, or given up.
    pub fn leave(&mut self) {
        // A session whose first page was lost is still to make its first one.
        if !self.lost || self.state.before.is_some() {
            self.state.before = Some(self.page);
        }
        if self.lost {
            self.state.marked.clear();
        }
    }

    /// The cache has this image, and it is fresh.
    pub fn has_cached(&self, path: &str, now_ns: u64) -> bool {
        self.cache
            .get(&key(path))
            .is_some_and(|&until_ns| now_ns < until_ns)
    }

    /// Keeps an image for as long as the server allows.
    pub fn cache(&mut self, path: &str, kept: &Kept, now_ns: u64) {
        let fresh_s = kept.cache_control.as_deref().map_or(0, fresh_s);
        if fresh_s > 0 && self.cache.len() < MOST_CACHED {
            self.cache
                .insert(key(path), now_ns.saturating_add(ns(fresh_s as f64)));
        }
    }
}

/// Images are known by the hash of their path: two that collide cost one request less.
fn key(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// Seconds for which a reply may be used again without asking (RFC 9111, 5.2.2); without max-age none.
fn fresh_s(cache_control: &[u8]) -> u64 {
    let mut fresh_s = 0;
    for part in cache_control.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
        let Ok(part) = std::str::from_utf8(part) else {
            continue;
        };
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
            return 0;
        }
        if name.eq_ignore_ascii_case("max-age") {
            fresh_s = value.trim_matches('"').parse().unwrap_or(0);
        }
    }
    fresh_s
}

#[cfg(test)]
#[path = "browser_tests.rs"]
mod tests;
