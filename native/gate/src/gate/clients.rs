//! The gate's own clients, controllers and Prometheus: never waited for, bounded in number and in what they hold.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{accept_with, recv, RecvFlags, SocketFlags};
use trimtab_wire::gate::Answer;

use super::pending_handshakes::BATCH;
use super::Gate;
use crate::ledger::Kind;
use crate::line::{Input, TooLong};
use crate::{metrics, sockets};

/// Clients of a kind; of more the oldest is closed.
const MOST: usize = 32;
/// Bytes of answers that a peer may leave unread.
const MOST_UNREAD: usize = 4 << 20;
/// Time for Prometheus to ask and to read its answer.
const METRICS_NS: u64 = 5_000_000_000;

/// One of them.
#[derive(Debug)]
pub struct Client {
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
    pub(super) fn accept_clients(&mut self, listener: u32, metrics: bool) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..BATCH {
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
                .clients
                .iter()
                .filter(|(_, client)| client.metrics == metrics);
            if same.clone().count() >= MOST {
                let oldest = same
                    .min_by_key(|(_, client)| client.since_ns)
                    .map(|(&number, _)| number);
                if let Some(oldest) = oldest {
                    self.end_client(oldest);
                }
            }
            let client = Client {
                metrics,
                input: Input::default(),
                output: Vec::new(),
                lease_ns: None,
                since_ns: self.now_ns,
                over: false,
            };
            self.clients.insert(number, client);
        }
    }

    /// A peer has sent something, reads again, or has gone.
    pub(super) fn on_client(&mut self, number: u32, flags: EventFlags) {
        let Some(mut client) = self.clients.remove(&number) else {
            return;
        };
        let alive = (!flags.contains(EventFlags::IN) || self.hear(number, &mut client))
            && self.say(number, &mut client);
        let hung_up =
            flags.intersects(EventFlags::HUP | EventFlags::ERR) && !flags.contains(EventFlags::IN);
        if alive && !hung_up {
            self.clients.insert(number, client);
        } else {
            self.close(number);
        }
    }

    /// Closes the connections of Prometheus that take too long.
    pub(super) fn end_late_clients(&mut self) {
        let late = |client: &Client| {
            client.metrics && self.now_ns.saturating_sub(client.since_ns) > METRICS_NS
        };
        let late: Vec<u32> = self
            .clients
            .iter()
            .filter(|(_, client)| late(client))
            .map(|(&number, _)| number)
            .collect();
        for number in late {
            self.end_client(number);
        }
    }

    fn end_client(&mut self, number: u32) {
        self.clients.remove(&number);
        self.close(number);
    }

    /// Reads once and answers what is whole; false at the end of the stream.
    fn hear(&mut self, number: u32, client: &mut Client) -> bool {
        let mut scratch = [0; 16 * 1024];
        match recv(
            self.ledger.borrow(number),
            &mut scratch,
            RecvFlags::DONTWAIT,
        ) {
            Ok((0, _)) => return false,
            Ok(_) if client.over => return true,
            Ok((count, _)) => client.input.push(&scratch[..count]),
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => return false,
        }
        if client.metrics {
            self.hear_request(client);
            return true;
        }
        while client.output.len() <= MOST_UNREAD && !client.over {
            let answer = match client.input.line() {
                Ok(None) => break,
                Ok(Some(line)) => match serde_json::from_slice(line) {
                    Ok(order) => self.obey(order, &mut client.lease_ns),
                    Err(error) => refused(format!("order: {error}")),
                },
                Err(TooLong) => {
                    client.over = true;
                    refused(format!("a line of more than {} bytes", Input::MOST))
                }
            };
            if let Ok(line) = serde_json::to_string(&answer) {
                client.output.extend_from_slice(line.as_bytes());
                client.output.push(b'\n');
            }
        }
        // Who sends orders and does not read the answers is not served.
        client.output.len() <= MOST_UNREAD
    }

    fn hear_request(&mut self, client: &mut Client) {
        match metrics::request(&mut client.input) {
            None => {}
            Some(metrics::Request::Metrics) => {
                client.over = true;
                client.output = metrics::reply(200, &metrics::page(&self.figures()));
            }
            Some(metrics::Request::Other(status)) => {
                client.over = true;
                client.output = metrics::reply(status, "");
            }
        }
    }

    /// Sends what goes at once; false when the conversation is over.
    fn say(&mut self, number: u32, client: &mut Client) -> bool {
        while !client.output.is_empty() {
            match sockets::send_now(self.ledger.borrow(number), &client.output) {
                Ok(count) => {
                    client.output.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.rewatch(number, EventFlags::IN | EventFlags::OUT);
                    return true;
                }
                Err(_) => return false,
            }
        }
        if client.over {
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
