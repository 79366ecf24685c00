//! The protocol of a connection, told by its first bytes, and what follows from it.

use crate::http1::{State, Tracker};
use crate::tls::{Records, Seen};

/// Turns from reading to writing after which the handshake of a TLS connection is over for certain.
const HANDSHAKE_TURNS: u32 = 2;

/// A connection's protocol. The first one is all zeros, so that the table lies in zero pages.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Follower {
    /// None that is followed, or nobody needs to know; only its turns are known.
    Other,
    /// HTTP/1 in clear, or what looks like it at first.
    Http(Tracker),
    /// TLS: what was read and what was written.
    Tls {
        /// From the client.
        read: Records,
        /// To it.
        written: Records,
    },
}

/// The meaning of bytes that were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Of a request.
    Request,
    /// Of none: a part of a record, or an alert.
    Nothing,
    /// The client's word that it goes.
    Farewell,
}

/// The meaning of bytes that were written, and what is known after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// They are nothing but the server's word that it closes.
    pub farewell: bool,
    /// How far requests and answers are.
    pub state: State,
}

impl Sent {
    /// When nothing is followed.
    pub const UNKNOWN: Self = Self {
        farewell: false,
        state: State::Doubt,
    };
}

impl Read {
    /// Their meaning together with that of more bytes.
    pub fn or(self, more: Self) -> Self {
        match (self, more) {
            (Self::Request, _) | (_, Self::Request) => Self::Request,
            (Self::Farewell, _) | (_, Self::Farewell) => Self::Farewell,
            _ => Self::Nothing,
        }
    }
}

/// Whether a request of HTTP/1 may begin with this byte.
#[inline]
pub const fn may_be_http(first: u8) -> bool {
    matches!(first, b'A'..=b'Z' | b'\r' | b'\n')
}

impl Follower {
    /// The follower of a connection, or of a request on it, that begins with this byte.
    pub fn of(first: u8) -> Self {
        match first {
            _ if may_be_http(first) => Self::Http(Tracker::new()),
            22 => Self::Tls {
                read: Records::new(),
                written: Records::new(),
            },
            _ => Self::Other,
        }
    }

    /// Takes what the server has read.
    #[inline]
    pub fn received(&mut self, bytes: &[u8]) -> Read {
        match self {
            Self::Http(tracker) => {
                tracker.received(bytes);
                Read::Request
            }
            Self::Tls { read, .. } => match read.feed(bytes) {
                Seen { foreign: true, .. } => {
                    *self = Self::Other;
                    Read::Request
                }
                Seen { data: true, .. } => Read::Request,
                Seen { alert: true, .. } => Read::Farewell,
                _ => Read::Nothing,
            },
            Self::Other => Read::Request,
        }
    }

    /// Takes what the server has written.
    #[inline]
    pub fn sent<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Sent {
        let (mut some, mut farewell) = (false, true);
        for piece in pieces {
            some = true;
            farewell &= self.sent_piece(piece);
        }
        Sent {
            farewell: some && farewell,
            state: self.state(),
        }
    }

    fn sent_piece(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Http(tracker) => tracker.sent(bytes),
            Self::Tls { written, .. } => {
                let seen = written.feed(bytes);
                return seen.alert && !seen.data && !seen.foreign;
            }
            Self::Other => {}
        }
        false
    }

    /// Takes that the server has written so many bytes that cannot be seen.
    #[inline]
    pub fn sent_unseen(&mut self, count: u64) -> Sent {
        match self {
            Self::Http(tracker) => tracker.sent_unseen(count),
            // Of TLS, the kernel makes the records now.
            _ => *self = Self::Other,
        }
        Sent {
            farewell: false,
            state: self.state(),
        }
    }

    /// How far requests and answers are.
    #[inline]
    pub fn state(&self) -> State {
        match self {
            Self::Http(tracker) => tracker.state(),
            _ => State::Doubt,
        }
    }

    /// Turns from reading to writing before the first one that can be a request's.
    #[inline]
    pub fn turns_before_requests(&self) -> u32 {
        match self {
            Self::Tls { .. } => HANDSHAKE_TURNS,
            _ => 0,
        }
    }
}
