//! A full queue: the client is told so in HTTP, and has time to read it.
//!
//! Closing a socket with unread bytes makes the kernel reset it, and the client may lose the reply; so the gate ends only
//! its own direction, and throws away what comes until the client has ended too or has had its time.

use std::sync::atomic::Ordering::Relaxed;

use rustix::event::epoll::EventFlags;
use rustix::net::Shutdown;

use super::Gate;
use crate::ledger::{add, Kind};
use crate::sockets;

/// Time for a client to read its refusal.
const LINGER_NS: u64 = 2_000_000_000;
/// Refused connections that are kept open; of more the oldest is closed.
const MOST: u32 = 1024;
/// Reads of what a refused client still sends, each time that something comes, and in all.
const READS: u32 = 4;
const ALL_READS: u32 = 256;
/// Longest time after which a client is asked to come back.
const LONGEST_RETRY_S: u64 = 120;

impl Gate<'_> {
    /// Refuses a connection of a class.
    ///
    /// # Arguments
    /// * `watched` - the connection is waited on.
    pub(super) fn refuse(&mut self, number: u32, class: usize, watched: bool) {
        add(&self.ledger.cell(class).refused, 1);
        let entry = self.ledger.entry(number);
        let waited_ns = self
            .now_ns
            .saturating_sub(match self.queues[class].first() {
                Some(first) => self.ledger.entry(first).since_ns.load(Relaxed),
                None => self.now_ns,
            });
        entry.set_kind(Kind::Refused);
        entry.class.store(0, Relaxed);
        entry.since_ns.store(self.now_ns, Relaxed);
        let socket = self.ledger.borrow(number);
        let mut first = [0; 1];
        // A client that has said something else than the beginning of a request could not read the reply.
        let speaks_http = match sockets::peek(socket, &mut first) {
            Ok(1) => first[0].is_ascii_alphabetic() || first[0].is_ascii_whitespace(),
            Ok(_) => false,
            Err(error) => error == rustix::io::Errno::AGAIN,
        };
        let told = speaks_http && sockets::send_now(socket, reply(waited_ns).as_bytes()).is_ok();
        let ended = rustix::net::shutdown(socket, Shutdown::Write).is_err();
        if !told || ended || sockets::discard(socket, READS, &mut self.buffer) {
            return self.close(number);
        }
        if watched {
            self.rewatch(number, EventFlags::IN);
        } else if self.watch(number, EventFlags::IN).is_err() {
            return self.close(number);
        }
        self.refused.push(&self.ledger, number);
        if self.refused.len() > MOST {
            self.end_first_refused();
        }
    }

    /// A refused client sends, or has read its reply and ends.
    pub(super) fn on_refused(&mut self, number: u32) {
        let entry = self.ledger.entry(number);
        let reads = entry.class.load(Relaxed) + READS;
        entry.class.store(reads, Relaxed);
        let ended = sockets::discard(self.ledger.borrow(number), READS, &mut self.buffer);
        if ended || reads > ALL_READS {
            self.refused.remove(&self.ledger, number);
            self.close(number);
        }
    }

    /// Closes the connections of refused clients that have had their time.
    pub(super) fn end_refused(&mut self) {
        while let Some(number) = self.refused.first() {
            let since_ns = self.ledger.entry(number).since_ns.load(Relaxed);
            if self.now_ns.saturating_sub(since_ns) < LINGER_NS {
                break;
            }
            self.end_first_refused();
        }
    }

    fn end_first_refused(&mut self) {
        if let Some(number) = self.refused.first() {
            self.refused.remove(&self.ledger, number);
            self.close(number);
        }
    }
}

/// The reply; a client may come back when as much time has passed as the first of the queue has waited.
fn reply(waited_ns: u64) -> String {
    const BODY: &str = "The server is busy; please try again later.\n";
    let retry_s = waited_ns.div_ceil(1_000_000_000).clamp(1, LONGEST_RETRY_S);
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: {retry_s}\r\nConnection: close\r\n\
         Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_asks_back_after_the_wait_of_the_queue_within_bounds() {
        assert!(reply(0).contains("\r\nRetry-After: 1\r\n"));
        assert!(reply(2_100_000_000).contains("\r\nRetry-After: 3\r\n"));
        assert!(reply(u64::MAX).contains("\r\nRetry-After: 120\r\n"));
    }

    #[test]
    fn the_reply_is_as_long_as_it_says() {
        let reply = reply(0);
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }
}
