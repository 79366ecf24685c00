//! What browsers do: click, fetch a page and its images, think, move on; each request runs as a session of its own.

use trimtab_wire::workload::Connection;

use crate::arena::Id;
use crate::browser::Browser;
use crate::engine::Engine;
use crate::form::Filled;
use crate::http::Reply;
use crate::page;
use crate::plan::{ns, Crowd};
use crate::session::{Lane, Phase, Session};
use crate::site::Site;
use crate::tally::{Failure, Tally};
use crate::timer::Due;
use crate::traffic::PAUSE_NS;
use crate::users::Users;

/// Most redirects that lead to one page.
const MOST_REDIRECTS: u32 = 10;

impl<'a> Engine<'a> {
    /// A browser's session begins: with a click now, or a user's first one a little later.
    pub(crate) fn start_browser(&mut self, index: u32, number: u64, due_ns: u64, now_ns: u64) {
        let crowd = &self.plan.crowds[index as usize];
        let Some(site) = &crowd.site else {
            return;
        };
        let mut browser = Browser::new(self.plan.seed, index, number, site);
        let [least_s, most_s] = site.first_click_s;
        let first = least_s + (most_s - least_s) * rand::Rng::random::<f64>(browser.rng());
        let id = self.browsers.insert(browser);
        let lane = self.add_lane(id, index, number, crowd);
        // A user's later sessions follow each other as pages do.
        if number as u32 == 0 && first > 0.0 {
            self.timers.push(now_ns + ns(first), Due::Wake(lane));
        } else {
            self.browser_clicks(id, due_ns, now_ns);
        }
    }

    fn add_lane(&mut self, id: Id, index: u32, number: u64, crowd: &Crowd) -> Id {
        let mut session = Session::new(self.plan.seed, index, number, crowd);
        session.lane = Some(Lane::new(id));
        let lane = self.sessions.insert(session);
        if let Some(browser) = self.browsers.get_mut(id) {
            browser.lanes.push(lane);
        }
        lane
    }

    /// The think time is over.
    pub(crate) fn browser_wakes(&mut self, id: Id, due_ns: u64, now_ns: u64) {
        let Some((browser, site, _, tally)) = self.browsing(id) else {
            return;
        };
        let mut over = false;
        if let Some(began_ns) = browser.began_ns {
            browser.move_on(site);
            let lasted_ns = now_ns - began_ns;
            over = browser.page == site.start && lasted_ns >= browser.session_ns;
            if let Some(journal) = tally.journal.as_mut().filter(|_| over) {
                journal.session(lasted_ns, now_ns);
            }
        }
        let (crowd, number) = (browser.crowd, browser.number);
        let user = Users::of_session(number);
        if over || !self.users[crowd as usize].is_wanted(user) {
            self.close_browser(id);
            if self.users[crowd as usize].ended(user) {
                self.timers.push(now_ns, Due::User(crowd, user));
            }
        } else {
            self.browser_clicks(id, due_ns, now_ns);
        }
    }

    fn browser_clicks(&mut self, id: Id, due_ns: u64, now_ns: u64) {
        let Some((browser, site, _, _)) = self.browsing(id) else {
            return;
        };
        let filled = browser.click(site, due_ns, now_ns);
        let lane = browser.lanes.first().copied();
        if let Some(lane) = lane {
            self.ask(id, lane, &filled, None, now_ns);
        }
    }

    /// Sends a request on a lane.
    fn ask(&mut self, id: Id, lane: Id, filled: &Filled, image: Option<String>, now_ns: u64) {
        let Some((browser, _, crowd, tally)) = self.browsing(id) else {
            return;
        };
        let intended_ns = if image.is_none() && browser.redirects == 0 {
            browser.intended_ns
        } else {
            now_ns
        };
        let close = crowd.connection == Connection::PerRequest;
        let bytes = browser.request(&crowd.host, close, filled);
        tally.begin(intended_ns);
        if let Some(session) = self.sessions.get_mut(lane) {
            session.ask(crowd, bytes, image, intended_ns, now_ns);
            self.dispatch(lane, now_ns);
        }
    }

    /// A lane has a complete reply, which is counted already.
    pub(crate) fn browser_hears(&mut self, lane: Id, reply: Reply, now_ns: u64) {
        let Some(session) = self.sessions.get_mut(lane) else {
            return;
        };
        let left_ns = session.left_ns(now_ns);
        let Some(state) = session.lane.as_mut() else {
            return;
        };
        let (id, image) = (state.browser, state.image.take());
        let status = reply.status();
        let kept = reply.into_kept();
        let failed = match status {
            400..=499 => Some(Failure::Http4xx),
            500.. => Some(Failure::Http5xx),
            _ => None,
        };
        let Some((browser, site, crowd, tally)) = self.browsing(id) else {
            return;
        };
        browser.take_cookies(&kept);
        if let Some(path) = image {
            if failed.is_none() && status < 300 {
                browser.cache(&path, &kept, now_ns);
            }
            browser.failed = browser.failed.or(failed);
            return self.next_image(id, lane, now_ns);
        }
        if failed.is_some() {
            return self.page_lost(id, failed, now_ns);
        }
        if let (301..=303, Some(location)) = (status, &kept.location) {
            let path = std::str::from_utf8(location)
                .ok()
                .and_then(|link| page::local_path(link, &browser.path, &crowd.host));
            browser.redirects += 1;
            match path {
                Some(path) if browser.redirects <= MOST_REDIRECTS => {
                    browser.path.clone_from(&path);
                    return self.ask(id, lane, &Filled { path, form: None }, None, now_ns);
                }
                _ => {
                    tally.fail(Failure::WrongPage, left_ns);
                    return self.page_lost(id, Some(Failure::WrongPage), now_ns);
                }
            }
        }
        let found = page::read(&kept.body, &site.markers);
        let links = found.images.clone();
        if !browser.take_page(site, found) {
            tally.fail(Failure::WrongPage, left_ns);
            return self.page_lost(id, Some(Failure::WrongPage), now_ns);
        }
        for link in links {
            match page::local_path(&link, &browser.path, &crowd.host) {
                Some(path) if browser.has_cached(&path, now_ns) => {
                    if let Some(journal) = &mut tally.journal {
                        journal.cache_hit(now_ns);
                    }
                }
                Some(path) => browser.images.push(path),
                None => {}
            }
        }
        browser.images.reverse();
        self.start_images(id, now_ns);
    }

    fn start_images(&mut self, id: Id, now_ns: u64) {
        let Some((browser, site, crowd, _)) = self.browsing(id) else {
            return;
        };
        let wanted = browser.images.len().min(site.image_connections);
        let (index, number) = (browser.crowd, browser.number);
        // One more than there are, so that the page is not complete before all have been started.
        browser.under_way = 1 + wanted as u32;
        for place in 0..wanted {
            let there = self
                .browsers
                .get(id)
                .and_then(|browser| browser.lanes.get(place));
            let lane = match there.copied() {
                Some(lane) => lane,
                None => self.add_lane(id, index, number, crowd),
            };
            self.next_image(id, lane, now_ns);
        }
        self.image_lane_done(id, now_ns);
    }

    fn next_image(&mut self, id: Id, lane: Id, now_ns: u64) {
        let Some(browser) = self.browsers.get_mut(id) else {
            return;
        };
        match browser.images.pop() {
            Some(path) => {
                let filled = Filled {
                    path: path.clone(),
                    form: None,
                };
                self.ask(id, lane, &filled, Some(path), now_ns);
            }
            None => self.image_lane_done(id, now_ns),
        }
    }

    fn image_lane_done(&mut self, id: Id, now_ns: u64) {
        if let Some(browser) = self.browsers.get_mut(id) {
            browser.under_way -= 1;
            if browser.under_way == 0 {
                self.page_done(id, now_ns);
            }
        }
    }

    fn page_lost(&mut self, id: Id, failed: Option<Failure>, now_ns: u64) {
        if let Some(browser) = self.browsers.get_mut(id) {
            browser.failed = failed;
            browser.lost = true;
            self.page_done(id, now_ns);
        }
    }

    /// The page and its images have come, or have failed: the user thinks, and then moves on.
    fn page_done(&mut self, id: Id, now_ns: u64) {
        let Some((browser, _, crowd, tally)) = self.browsing(id) else {
            return;
        };
        browser.leave();
        let taken_ns = now_ns - browser.intended_ns;
        if browser.failed.is_none() {
            tally.now.pages += 1;
            tally.now.page_intended.record(taken_ns);
            tally.now.page_actual.record(now_ns - browser.actual_ns);
        }
        let mut think_ns = ns(crowd.think_s.draw_s(browser.rng()));
        if let Some(journal) = &mut tally.journal {
            journal.interaction(
                crowd.pages_at + browser.page,
                taken_ns,
                browser.failed,
                now_ns,
            );
            journal.think(think_ns, now_ns);
        }
        if browser.failed.is_some() {
            think_ns = think_ns.max(PAUSE_NS);
        }
        let lanes = browser.lanes.clone();
        if crowd.connection == Connection::PerPage {
            for lane in &lanes {
                if let Some(link) = self.sessions.get(*lane).and_then(|s| s.connection) {
                    self.close(link);
                }
            }
        }
        if let Some(&lane) = lanes.first() {
            if let Some(session) = self.sessions.get_mut(lane) {
                session.phase = Phase::Thinking;
            }
            self.timers.push(now_ns + think_ns, Due::Wake(lane));
        }
    }

    /// A lane's request has failed, which is counted already: another lane takes its place, for a timer may still know it.
    pub(crate) fn lane_failed(&mut self, lane: Id, kind: Failure, now_ns: u64) {
        let Some(session) = self.sessions.remove(lane) else {
            return;
        };
        if let Some(link) = session.connection {
            self.links.remove(link);
        }
        let Some(state) = session.lane else {
            return;
        };
        let id = state.browser;
        let mut next = Session::new(
            self.plan.seed,
            session.crowd,
            session.number,
            &self.plan.crowds[session.crowd as usize],
        );
        next.lane = Some(Lane::new(id));
        let next = self.sessions.insert(next);
        if let Some(browser) = self.browsers.get_mut(id) {
            for place in &mut browser.lanes {
                if *place == lane {
                    *place = next;
                }
            }
            if state.image.is_none() {
                return self.page_lost(id, Some(kind), now_ns);
            }
            browser.failed = Some(kind);
            browser.images.clear();
            self.image_lane_done(id, now_ns);
        }
    }

    fn close_browser(&mut self, id: Id) {
        let Some(browser) = self.browsers.remove(id) else {
            return;
        };
        for lane in browser.lanes {
            if let Some(link) = self.sessions.remove(lane).and_then(|s| s.connection) {
                self.links.remove(link);
            }
        }
    }

    /// A browser with its site, its population and its class's counts.
    fn browsing(&mut self, id: Id) -> Option<(&mut Browser, &'a Site, &'a Crowd, &mut Tally)> {
        let browser = self.browsers.get_mut(id)?;
        let crowd = &self.plan.crowds[browser.crowd as usize];
        Some((
            browser,
            crowd.site.as_ref()?,
            crowd,
            &mut self.tallies[crowd.class],
        ))
    }
}
