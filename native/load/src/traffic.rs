//! What sessions do: click, fetch, think, end; `exchange.rs` has their connections.

use trimtab_wire::workload::{Arrivals, Connection};

use crate::arena::Id;
use crate::connection::Stage;
use crate::engine::Engine;
use crate::http::Reply;
use crate::plan::Crowd;
use crate::session::{Next, Phase, Session};
use crate::tally::{Failure, Tally};
use crate::timer::Due;
use crate::users::Users;

/// A closed user whose session failed begins the next one after this pause, so that a dead server is not hammered.
pub(crate) const PAUSE_NS: u64 = 100_000_000;

impl<'a> Engine<'a> {
    /// The user of a closed population begins a session, if still wanted.
    pub(crate) fn start_user(&mut self, index: u32, user: u32, due_ns: u64, now_ns: u64) {
        let users = &mut self.users[index as usize];
        if users.is_wanted(user) {
            let number = users.next_session(user);
            self.start_session(index, number, due_ns, now_ns);
        } else {
            users.ended(user);
        }
    }

    /// A session arrives and clicks.
    pub(crate) fn start_session(&mut self, index: u32, number: u64, due_ns: u64, now_ns: u64) {
        let crowd = &self.plan.crowds[index as usize];
        self.tallies[crowd.class].now.sessions += 1;
        if crowd.site.is_some() {
            return self.start_browser(index, number, due_ns, now_ns);
        }
        let id = self
            .sessions
            .insert(Session::new(self.plan.seed, index, number, crowd));
        self.click(id, due_ns, now_ns);
    }

    /// A session's think time or object gap is over.
    pub(crate) fn on_wake(&mut self, id: Id, due_ns: u64, now_ns: u64) {
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        match session.phase {
            Phase::Gap => self.fetch(id, due_ns, now_ns),
            Phase::Thinking if session.lane.is_some() => {
                if let Some(browser) = session.lane.as_ref().map(|lane| lane.browser) {
                    self.browser_wakes(browser, due_ns, now_ns);
                }
            }
            Phase::Thinking if self.is_unwanted(id) => self.end_session(id, now_ns, false),
            Phase::Thinking => self.click(id, due_ns, now_ns),
            Phase::Unsent => self.go_on(id, now_ns),
            Phase::Awaiting => {}
        }
    }

    /// A session's request may have taken too long.
    pub(crate) fn on_deadline(&mut self, id: Id, now_ns: u64) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        session.deadline_armed = false;
        if !session.is_waiting() {
            return;
        }
        if session.deadline_ns <= now_ns {
            self.fail(id, Failure::Timeout, now_ns);
        } else {
            self.arm_deadline(id);
        }
    }

    fn click(&mut self, id: Id, intended_ns: u64, now_ns: u64) {
        let Some((session, crowd, tally)) = self.parts(id) else {
            return;
        };
        session.click(crowd, intended_ns, now_ns);
        tally.begin(intended_ns);
        self.dispatch(id, now_ns);
    }

    fn fetch(&mut self, id: Id, intended_ns: u64, now_ns: u64) {
        let Some((session, crowd, tally)) = self.parts(id) else {
            return;
        };
        session.fetch(crowd, intended_ns, now_ns);
        tally.begin(intended_ns);
        self.dispatch(id, now_ns);
    }

    /// Lets the current request go: it reaches the server after a round trip, or after a handshake and that.
    ///
    /// A reply is with the client as soon as it is here, so the server lives half a round trip behind: what it does is
    /// seen here when the client would see it, a close too, and the times between two of its acts are as they would be.
    pub(crate) fn dispatch(&mut self, id: Id, now_ns: u64) {
        self.arm_deadline(id);
        let Some((session, crowd, _)) = self.parts(id) else {
            return;
        };
        if crowd.round_trip_ns == 0 {
            return self.go_on(id, now_ns);
        }
        session.greeted = session.connection.is_none();
        let trips = if session.greeted { 2 } else { 1 };
        let way_ns = trips * crowd.round_trip_ns;
        self.timers.push(now_ns + way_ns, Due::Wake(id));
    }

    /// The current request has reached the server: sends it on the session's connection, or opens one.
    ///
    /// Without a connection and without a handshake so far, the client has sent into a connection that the server had
    /// closed before the request came: it has heard of that by now, and shakes hands.
    pub(crate) fn go_on(&mut self, id: Id, now_ns: u64) {
        let Some((session, crowd, _)) = self.parts(id) else {
            return;
        };
        let reply = session.reply();
        match session.connection {
            Some(link_id) => {
                if let Some(link) = self.links.get_mut(link_id) {
                    link.stage = Stage::Busy;
                    link.reply = reply;
                    link.sent = 0;
                    self.send_at(link_id, now_ns);
                }
            }
            None if session.greeted || crowd.round_trip_ns == 0 => self.open(id, now_ns),
            None => {
                session.greeted = true;
                let way_ns = 2 * crowd.round_trip_ns;
                self.timers.push(now_ns + way_ns, Due::Wake(id));
            }
        }
    }

    /// A session has at most one deadline in the queue: the queue stays as short as the list of sessions.
    fn arm_deadline(&mut self, id: Id) {
        if let Some(session) = self.sessions.get_mut(id) {
            if !session.deadline_armed {
                session.deadline_armed = true;
                self.timers.push(session.deadline_ns, Due::Deadline(id));
            }
        }
    }

    /// The reply is complete: counts it and goes on with the session.
    pub(crate) fn on_reply(&mut self, link_id: Id, closing: bool, now_ns: u64) {
        let Some(link) = self.links.get_mut(link_id) else {
            return;
        };
        let id = link.session;
        let reply = std::mem::take(&mut link.reply);
        link.replies += 1;
        link.stage = Stage::Idle;
        let Some((session, crowd, tally)) = self.parts(id) else {
            return;
        };
        // A server that answers before it has the whole request leaves the rest of it on the connection.
        let closing = closing || session.phase == Phase::Unsent;
        let taken_ns = session
            .actual_ns
            .map_or(0, |sent_ns| now_ns - sent_ns + crowd.round_trip_ns);
        count_reply(session, tally, &reply, now_ns, taken_ns);
        if session.lane.is_some() {
            session.phase = Phase::Gap;
            if closing || crowd.connection == Connection::PerRequest || reply.closes() {
                self.close(link_id);
            }
            return self.browser_hears(id, reply, now_ns);
        }
        let next = session.replied(crowd);
        if !matches!(next, Next::Object(_)) {
            count_page(session, tally, now_ns);
        }
        let closes = match crowd.connection {
            Connection::PerRequest => true,
            Connection::PerPage => !matches!(next, Next::Object(_)),
            Connection::UntilServerCloses => false,
        };
        if closing || closes || reply.closes() {
            self.close(link_id);
        }
        match next {
            Next::Object(0) => self.fetch(id, now_ns, now_ns),
            Next::Object(gap_ns) => self.timers.push(now_ns + gap_ns, Due::Wake(id)),
            Next::Over => self.end_session(id, now_ns, false),
            Next::Click(_) if self.is_unwanted(id) => self.end_session(id, now_ns, false),
            Next::Click(0) => self.click(id, now_ns, now_ns),
            Next::Click(think_ns) => self.timers.push(now_ns + think_ns, Due::Wake(id)),
        }
    }

    /// The request has failed, and its session ends.
    pub(crate) fn fail(&mut self, id: Id, kind: Failure, now_ns: u64) {
        let Some((session, _, tally)) = self.parts(id) else {
            return;
        };
        tally.fail(kind, session.left_ns(now_ns));
        tally.end(session.intended_ns, now_ns);
        if session.phase == Phase::Unsent {
            tally.unsent -= 1;
        }
        if session.lane.is_some() {
            return self.lane_failed(id, kind, now_ns);
        }
        self.end_session(id, now_ns, true);
    }

    fn end_session(&mut self, id: Id, now_ns: u64, failed: bool) {
        let Some(session) = self.sessions.remove(id) else {
            return;
        };
        if let Some(link) = session.connection {
            self.links.remove(link);
        }
        let crowd = &self.plan.crowds[session.crowd as usize];
        if let Arrivals::Closed { .. } = crowd.arrivals {
            let user = Users::of_session(session.number);
            if self.users[session.crowd as usize].ended(user) {
                let pause_ns = if failed { PAUSE_NS } else { 0 };
                self.timers
                    .push(now_ns + pause_ns, Due::User(session.crowd, user));
            }
        } else if failed {
            let now = &mut self.tallies[crowd.class].now;
            now.unasked = now.unasked.saturating_add(session.unasked(crowd));
        }
    }

    /// The session's user is one too many since the last step.
    fn is_unwanted(&self, id: Id) -> bool {
        self.sessions.get(id).is_some_and(|session| {
            let closed = matches!(
                self.plan.crowds[session.crowd as usize].arrivals,
                Arrivals::Closed { .. }
            );
            closed
                && !self.users[session.crowd as usize].is_wanted(Users::of_session(session.number))
        })
    }

    /// A session with its population and its class's counts.
    pub(crate) fn parts(&mut self, id: Id) -> Option<(&mut Session, &'a Crowd, &mut Tally)> {
        let session = self.sessions.get_mut(id)?;
        let crowd = &self.plan.crowds[session.crowd as usize];
        Some((session, crowd, &mut self.tallies[crowd.class]))
    }
}

/// Counts a reply that came `taken_ns` after the client sent the request.
fn count_reply(
    session: &mut Session,
    tally: &mut Tally,
    reply: &Reply,
    now_ns: u64,
    taken_ns: u64,
) {
    tally.end(session.intended_ns, now_ns);
    if session.phase == Phase::Unsent {
        tally.unsent -= 1;
    }
    tally.now.body_bytes += reply.body_bytes();
    match reply.status() {
        400..=499 => tally.fail(Failure::Http4xx, session.left_ns(now_ns)),
        500.. => tally.fail(Failure::Http5xx, session.left_ns(now_ns)),
        status => {
            tally.now.requests += 1;
            tally.now.redirected += u64::from(status >= 300);
            tally
                .now
                .request_intended
                .record(now_ns - session.intended_ns);
            tally.now.request_actual.record(taken_ns);
            return;
        }
    }
    session.page_failed = true;
}

fn count_page(session: &Session, tally: &mut Tally, now_ns: u64) {
    if !session.page_failed {
        tally.now.pages += 1;
        tally
            .now
            .page_intended
            .record(now_ns - session.page_intended_ns);
        tally
            .now
            .page_actual
            .record(now_ns - session.page_actual_ns);
    }
}
