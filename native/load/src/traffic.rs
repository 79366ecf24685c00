//! What sessions and connections do: the transitions of the engine.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use trimtab_wire::workload::{Arrivals, Connection};

use crate::arena::Id;
use crate::connection::{self, Link, Stage};
use crate::engine::Engine;
use crate::http::Reply;
use crate::plan::Crowd;
use crate::session::{Next, Phase, Session};
use crate::tally::{Failure, Tally};
use crate::timer::Due;
use crate::users::Users;

/// A closed user whose session failed begins the next one after this pause, so that a dead server is not hammered.
const PAUSE_NS: u64 = 10_000_000;

/// The other side has closed its half, or all of the connection.
const CLOSED: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

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
            Phase::Thinking if self.is_unwanted(id) => self.end_session(id, now_ns, false),
            Phase::Thinking => self.click(id, due_ns, now_ns),
            Phase::Unsent | Phase::Awaiting => {}
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

    /// The kernel has news of a connection.
    pub(crate) fn on_socket(&mut self, id: Id, flags: EventFlags) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        match link.stage {
            Stage::Connecting => self.on_handshake(id, flags),
            Stage::Idle => {
                // Bytes that nobody asked for end the connection too (Apache's 408 comes like that).
                let heard = link.receive(&mut self.buffer);
                if !matches!(heard, Ok(None)) {
                    self.close(id);
                }
            }
            Stage::Busy => {
                if flags.contains(EventFlags::OUT) {
                    self.send(id);
                }
                self.receive(id, flags);
            }
        }
    }

    fn click(&mut self, id: Id, intended_ns: u64, now_ns: u64) {
        let Some((session, crowd, tally)) = self.parts(id) else {
            return;
        };
        session.click(crowd, intended_ns, now_ns);
        tally.outstanding += 1;
        tally.unsent += 1;
        self.dispatch(id, now_ns);
    }

    fn fetch(&mut self, id: Id, intended_ns: u64, now_ns: u64) {
        let Some((session, crowd, tally)) = self.parts(id) else {
            return;
        };
        session.fetch(crowd, intended_ns, now_ns);
        tally.outstanding += 1;
        tally.unsent += 1;
        self.dispatch(id, now_ns);
    }

    /// Sends the current request on the session's connection, or opens one.
    fn dispatch(&mut self, id: Id, now_ns: u64) {
        self.arm_deadline(id);
        let Some(session) = self.sessions.get(id) else {
            return;
        };
        let Some(link_id) = session.connection else {
            return self.open(id, now_ns);
        };
        if let Some(link) = self.links.get_mut(link_id) {
            link.stage = Stage::Busy;
            link.sent = 0;
            self.send_at(link_id, now_ns);
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

    fn open(&mut self, id: Id, now_ns: u64) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let crowd = &self.plan.crowds[session.crowd as usize];
        let opened = connection::open(self.target, crowd.source).and_then(|socket| {
            let link_id = self.links.insert(Link {
                socket,
                session: id,
                stage: Stage::Connecting,
                opened_ns: now_ns,
                replies: 0,
                sent: 0,
                reply: Reply::default(),
            });
            session.connection = Some(link_id);
            let link = self.links.get(link_id).ok_or(Errno::BADF)?;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(
                &self.epoll,
                &link.socket,
                EventData::new_u64(link_id.to_bits()),
                flags,
            )
        });
        if let Err(error) = opened {
            self.fail_to_connect(id, error, now_ns);
        }
    }

    fn fail_to_connect(&mut self, id: Id, error: Errno, now_ns: u64) {
        if connection::is_local(error) {
            self.local_error.get_or_insert((error, self.links.len()));
            self.fail(id, Failure::Local, now_ns);
        } else {
            self.fail(id, Failure::Connect, now_ns);
        }
    }

    fn on_handshake(&mut self, id: Id, flags: EventFlags) {
        let now_ns = self.now_ns();
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let session_id = link.session;
        if let Ok(Err(error)) | Err(error) = socket_error(&link.socket) {
            return self.fail_to_connect(session_id, error, now_ns);
        }
        if !flags.contains(EventFlags::OUT) {
            return;
        }
        link.stage = Stage::Busy;
        let connect_ns = now_ns - link.opened_ns;
        if let Some((_, _, tally)) = self.parts(session_id) {
            tally.now.connections += 1;
            tally.now.connect.record(connect_ns);
        }
        self.send_at(id, now_ns);
        if flags.intersects(EventFlags::IN | CLOSED) {
            self.receive(id, flags);
        }
    }

    fn send(&mut self, id: Id) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        if self
            .sessions
            .get(link.session)
            .is_some_and(|session| session.phase == Phase::Unsent)
        {
            let now_ns = self.now_ns();
            self.send_at(id, now_ns);
        }
    }

    fn send_at(&mut self, link_id: Id, now_ns: u64) {
        let Some(link) = self.links.get_mut(link_id) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(link.session) else {
            return;
        };
        let crowd = &self.plan.crowds[session.crowd as usize];
        match link.send(session.request_bytes(crowd)) {
            Ok(complete) => {
                session.actual_ns.get_or_insert(now_ns);
                if complete {
                    session.phase = Phase::Awaiting;
                    self.tallies[crowd.class].unsent -= 1;
                }
            }
            Err(_) => self.on_broken(link_id, now_ns),
        }
    }

    fn receive(&mut self, id: Id, flags: EventFlags) {
        loop {
            let Some(link) = self.links.get_mut(id) else {
                return;
            };
            let received = link.receive(&mut self.buffer);
            let now_ns = self.now_ns();
            let Some(link) = self.links.get_mut(id) else {
                return;
            };
            match received {
                Ok(None) => return,
                Ok(Some(0)) if link.reply.end_of_stream() => {
                    return self.on_reply(id, true, now_ns)
                }
                Ok(Some(0)) | Err(_) => return self.on_broken(id, now_ns),
                Ok(Some(n)) => {
                    let first = link.reply.is_untouched();
                    let fed = link.reply.feed(&self.buffer[..n]);
                    let (done, session_id) = (link.reply.is_done(), link.session);
                    if first {
                        self.on_first_byte(session_id, now_ns);
                    }
                    match fed {
                        Err(_) => return self.fail(session_id, Failure::Malformed, now_ns),
                        // More bytes than the reply has: the connection cannot be trusted any more.
                        Ok(used) if done => {
                            return self.on_reply(id, used < n || flags.intersects(CLOSED), now_ns)
                        }
                        // A short read has emptied the socket; the kernel tells of what comes later (epoll(7)).
                        Ok(_) if n < self.buffer.len() && !flags.intersects(CLOSED) => return,
                        Ok(_) => {}
                    }
                }
            }
        }
    }

    fn on_first_byte(&mut self, id: Id, now_ns: u64) {
        if let Some((session, _, tally)) = self.parts(id) {
            let sent_ns = session.actual_ns.unwrap_or(now_ns);
            tally.now.first_byte.record(now_ns - sent_ns);
        }
    }

    /// The reply is complete: counts it and goes on with the session.
    fn on_reply(&mut self, link_id: Id, closing: bool, now_ns: u64) {
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
        count_reply(session, tally, &reply, now_ns);
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

    /// The connection broke while a request was under way.
    fn on_broken(&mut self, link_id: Id, now_ns: u64) {
        let Some(link) = self.links.get(link_id) else {
            return;
        };
        let id = link.session;
        // The server closed the idle connection while the request was on its way (RFC 9112, 9.3.1). The new connection
        // has no reply yet, so this happens once.
        if link.replies == 0 || !link.reply.is_untouched() {
            return self.fail(id, Failure::Reset, now_ns);
        }
        self.close(link_id);
        if let Some((session, _, tally)) = self.parts(id) {
            tally.now.resent += 1;
            if session.phase == Phase::Awaiting {
                session.phase = Phase::Unsent;
                tally.unsent += 1;
            }
            self.open(id, now_ns);
        }
    }

    /// The request has failed, and its session ends.
    fn fail(&mut self, id: Id, kind: Failure, now_ns: u64) {
        let Some((session, _, tally)) = self.parts(id) else {
            return;
        };
        tally.fail(kind);
        tally.outstanding -= 1;
        if session.phase == Phase::Unsent {
            tally.unsent -= 1;
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

    /// Closes a connection; its session goes on without.
    fn close(&mut self, link_id: Id) {
        if let Some(link) = self.links.remove(link_id) {
            if let Some(session) = self.sessions.get_mut(link.session) {
                session.connection = None;
            }
        }
    }

    fn parts(&mut self, id: Id) -> Option<(&mut Session, &'a Crowd, &mut Tally)> {
        let session = self.sessions.get_mut(id)?;
        let crowd = &self.plan.crowds[session.crowd as usize];
        Some((session, crowd, &mut self.tallies[crowd.class]))
    }
}

fn count_reply(session: &mut Session, tally: &mut Tally, reply: &Reply, now_ns: u64) {
    tally.outstanding -= 1;
    if session.phase == Phase::Unsent {
        // The server answered before it had read the request.
        tally.unsent -= 1;
    }
    tally.now.body_bytes += reply.body_bytes();
    match reply.status() {
        400..=499 => tally.fail(Failure::Http4xx),
        500.. => tally.fail(Failure::Http5xx),
        _ => {
            tally.now.requests += 1;
            tally
                .now
                .request_intended
                .record(now_ns - session.intended_ns);
            tally
                .now
                .request_actual
                .record(now_ns - session.actual_ns.unwrap_or(now_ns));
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
