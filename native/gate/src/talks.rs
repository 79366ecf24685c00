//! Conversations with controllers and with Prometheus: never waited for, bounded in number and in what they hold.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{accept_with, recv, RecvFlags, SocketFlags};
use trimtab_wire::gate::Answer;

use crate::gate::Gate;
use crate::ledger::Kind;
use crate::line::{Input, TooLong};
use crate::{metrics, sockets};

/// Conversations of a kind; of more the oldest is closed.
const MOST: usize = 32;
/// Bytes of answers that a peer may leave unread.
const MOST_UNREAD: usize = 4 << 20;
/// Time for Prometheus to ask and to read its answer.
const METRICS_NS: u64 = 5_000_000_000;

/// One conversation.
#[derive(Debug)]
pub struct Talk {
    /// Prometheus, not a controller.
    metrics: bool,
    input: Input,
    output: Vec<u8>,
    /// Its lease, while it is a controller's.
    pub lease_ns: Option<u64>,
    since_ns: u64,
    /// Nothing more is read; it is closed when the output is gone.
    over: bool,
}

impl Gate<'_> {
    /// Somebody connects.
    pub(crate) fn accept_talks(&mut self, listener: u32, metrics: bool) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let fd = match accept_with(self.ledger.borrow(listener), flags) {
                Ok(fd) => fd,
                Err(error) => return self.pause_door(listener, error),
            };
            let number = self.ledger.keep(fd, Kind::Passing, 0);
            if self.watch(number, EventFlags::IN).is_err() {
                self.close(number);
                continue;
            }
            let same = self
                .talks
                .iter()
                .filter(|(_, talk)| talk.metrics == metrics);
            if same.clone().count() >= MOST {
                let oldest = same
                    .min_by_key(|(_, talk)| talk.since_ns)
                    .map(|(&number, _)| number);
                if let Some(oldest) = oldest {
                    self.end_talk(oldest);
                }
            }
            let talk = Talk {
                metrics,
                input: Input::default(),
                output: Vec::new(),
                lease_ns: None,
                since_ns: self.now_ns,
                over: false,
            };
            self.talks.insert(number, talk);
        }
    }

    /// A peer has sent something, reads again, or has gone.
    pub(crate) fn on_talk(&mut self, number: u32, flags: EventFlags) {
        let Some(mut talk) = self.talks.remove(&number) else {
            return;
        };
        let alive = (!flags.contains(EventFlags::IN) || self.hear(number, &mut talk))
            && self.say(number, &mut talk);
        let hung_up =
            flags.intersects(EventFlags::HUP | EventFlags::ERR) && !flags.contains(EventFlags::IN);
        if alive && !hung_up {
            self.talks.insert(number, talk);
        } else {
            self.close(number);
        }
    }

    /// Closes conversations with Prometheus that take too long.
    pub(crate) fn end_talks(&mut self) {
        let late =
            |talk: &Talk| talk.metrics && self.now_ns.saturating_sub(talk.since_ns) > METRICS_NS;
        let late: Vec<u32> = self
            .talks
            .iter()
            .filter(|(_, talk)| late(talk))
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            self.end_talk(number);
        }
    }

    fn end_talk(&mut self, number: u32) {
        self.talks.remove(&number);
        self.close(number);
    }

    /// Reads once and answers what is whole; false at the end of the stream.
    fn hear(&mut self, number: u32, talk: &mut Talk) -> bool {
        let mut scratch = [0; 16 * 1024];
        match recv(
            self.ledger.borrow(number),
            &mut scratch,
            RecvFlags::DONTWAIT,
        ) {
            Ok((0, _)) => return false,
            Ok(_) if talk.over => return true,
            Ok((count, _)) => talk.input.push(&scratch[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        }
        if talk.metrics {
            self.hear_request(talk);
            return true;
        }
        while talk.output.len() <= MOST_UNREAD && !talk.over {
            let answer = match talk.input.line() {
                Ok(None) => break,
                Ok(Some(line)) => match serde_json::from_slice(line) {
                    Ok(order) => self.obey(order, &mut talk.lease_ns),
                    Err(error) => refused(format!("order: {error}")),
                },
                Err(TooLong) => {
                    talk.over = true;
                    refused(format!("a line of more than {} bytes", Input::MOST))
                }
            };
            if let Ok(line) = serde_json::to_string(&answer) {
                talk.output.extend_from_slice(line.as_bytes());
                talk.output.push(b'\n');
            }
        }
        // Who sends orders and does not read the answers is not served.
        talk.output.len() <= MOST_UNREAD
    }

    fn hear_request(&mut self, talk: &mut Talk) {
        match metrics::request(&mut talk.input) {
            None => {}
            Some(metrics::Request::Metrics) => {
                talk.over = true;
                talk.output = metrics::reply(200, &metrics::page(&self.figures()));
            }
            Some(metrics::Request::Other(status)) => {
                talk.over = true;
                talk.output = metrics::reply(status, "");
            }
        }
    }

    /// Sends what goes at once; false when the conversation is over.
    fn say(&mut self, number: u32, talk: &mut Talk) -> bool {
        while !talk.output.is_empty() {
            match sockets::send_now(self.ledger.borrow(number), &talk.output) {
                Ok(count) => {
                    talk.output.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.rewatch(number, EventFlags::IN | EventFlags::OUT);
                    return true;
                }
                Err(_) => return false,
            }
        }
        if talk.over {
            // What is unread at the close would make the kernel reset the connection under the answer.
            sockets::discard(self.ledger.borrow(number), 16, &mut self.buffer);
            return false;
        }
        self.rewatch(number, EventFlags::IN);
        true
    }
}

/// A refusal.
pub fn refused(message: String) -> Answer {
    Answer::Refused { message }
}
