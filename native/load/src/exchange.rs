//! What connections do: handshake, request, reply, and the server's closing of an idle one.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use crate::arena::Id;
use crate::connection::{self, Link, Stage};
use crate::engine::Engine;
use crate::session::Phase;
use crate::tally::Failure;

/// The other side has closed its half, or all of the connection.
const CLOSED: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

/// The kernel tells once of each of these.
const NEWS: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

impl Engine<'_> {
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

    /// Opens a connection for the session's current request.
    pub(crate) fn open(&mut self, id: Id, now_ns: u64) {
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
                reply: session.reply(),
            });
            session.connection = Some(link_id);
            let link = self.links.get(link_id).ok_or(Errno::BADF)?;
            let data = EventData::new_u64(link_id.to_bits());
            epoll::add(&self.epoll, &link.socket, data, NEWS)
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
        if let Some((_, crowd, tally)) = self.parts(session_id) {
            tally.now.connections += 1;
            tally.now.connect.record(connect_ns + crowd.round_trip_ns);
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

    /// Sends the current request, or what is left of it.
    pub(crate) fn send_at(&mut self, link_id: Id, now_ns: u64) {
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

    /// Takes what one read gives; of more the kernel tells again, when others have had their turn.
    fn receive(&mut self, id: Id, flags: EventFlags) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let received = link.receive(&mut self.buffer);
        let now_ns = self.now_ns();
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        match received {
            Ok(None) => {}
            Ok(Some(0)) if link.reply.end_of_stream() => self.on_reply(id, true, now_ns),
            Ok(Some(0)) | Err(_) => self.on_broken(id, now_ns),
            Ok(Some(n)) => {
                let first = link.reply.is_untouched();
                let fed = link.reply.feed(&self.buffer[..n]);
                let (done, session_id) = (link.reply.is_done(), link.session);
                if first {
                    self.on_first_byte(session_id, now_ns);
                }
                match fed {
                    Err(_) => self.fail(session_id, Failure::Malformed, now_ns),
                    // More bytes than the reply has: the connection cannot be trusted any more.
                    Ok(used) if done => {
                        self.on_reply(id, used < n || flags.intersects(CLOSED), now_ns)
                    }
                    // A short read has emptied the socket; the kernel tells of what comes later (epoll(7)).
                    Ok(_) if n < self.buffer.len() && !flags.intersects(CLOSED) => {}
                    Ok(_) => self.ask_for_more(id, now_ns),
                }
            }
        }
    }

    /// Has the kernel tell again what it has told, because not all of it was taken.
    fn ask_for_more(&mut self, id: Id, now_ns: u64) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        let data = EventData::new_u64(id.to_bits());
        if epoll::modify(&self.epoll, &link.socket, data, NEWS).is_err() {
            self.on_broken(id, now_ns);
        }
    }

    fn on_first_byte(&mut self, id: Id, now_ns: u64) {
        if let Some((session, crowd, tally)) = self.parts(id) {
            let sent_ns = session.actual_ns.unwrap_or(now_ns);
            let taken_ns = now_ns - sent_ns + crowd.round_trip_ns;
            tally.now.first_byte.record(taken_ns);
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
            self.go_on(id, now_ns);
        }
    }

    /// Closes a connection; its session goes on without.
    pub(crate) fn close(&mut self, link_id: Id) {
        if let Some(link) = self.links.remove(link_id) {
            if let Some(session) = self.sessions.get_mut(link.session) {
                session.connection = None;
            }
        }
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
