//! Follows an HTTP/1 connection in clear, so that it is known for certain when nothing is under way on it.
//!
//! It sees the bytes that the server reads and writes, in pieces of any size. Certain is what RFC 9112, 6.3 makes so: a request whose
//! body has a Content-Length or is absent, an answer with a Content-Length, chunked or without a body. Whatever else there
//! is leads to doubt, which lasts as long as the connection: a chunked request, pipelining, an answer before the request is
//! complete or to none, one that ends with the connection, an upgrade, a tunnel, the preface of HTTP/2, no HTTP at all.

use crate::chunks::Chunks;
use crate::head::{Doubtful, Facts, Head, Method, Side};

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is under way, and another request may come.
    Idle,
    /// A request or an answer is under way.
    Busy,
    /// Nothing is under way, and the server is about to close.
    Last,
    /// It is not known.
    Doubt,
    /// It speaks another protocol from some answer on.
    Upgraded,
}

/// Where one side's message is.
#[derive(Clone, Copy)]
enum Part {
    /// None is under way.
    None,
    Head,
    Body {
        left: u64,
    },
    Chunked(Chunks),
}

/// A connection.
#[derive(Clone, Copy)]
pub struct Tracker {
    state: State,
    method: Method,
    last: bool,
    request: Part,
    response: Part,
    head: Head,
}

impl Tracker {
    /// Before the first request.
    pub const fn new() -> Self {
        Self {
            state: State::Idle,
            request: Part::None,
            response: Part::None,
            method: Method::Other,
            last: false,
            head: Head::new(),
        }
    }

    /// How far it is.
    pub fn state(&self) -> State {
        self.state
    }

    /// From here on nothing is certain.
    pub fn doubt(&mut self) {
        self.state = State::Doubt;
    }

    /// The server has read these.
    #[inline]
    pub fn received(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Doubt | State::Upgraded) || bytes.is_empty() {
            return;
        }
        if self.request(bytes).is_err() {
            self.doubt();
        }
    }

    /// The server has written these.
    #[inline]
    pub fn sent(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Doubt | State::Upgraded) || bytes.is_empty() {
            return;
        }
        if self.response(bytes).is_err() {
            self.doubt();
        }
    }

    /// The server has written so many bytes that cannot be seen, such as by sendfile(2).
    #[inline]
    pub fn sent_unseen(&mut self, count: u64) {
        if matches!(self.state, State::Doubt | State::Upgraded) || count == 0 {
            return;
        }
        let fits = match &mut self.response {
            Part::Body { left } if count < *left => {
                *left -= count;
                Ok(())
            }
            Part::Body { left } if count == *left => self.answered(),
            Part::Chunked(chunks) => chunks.skip(count),
            _ => Err(Doubtful),
        };
        if fits.is_err() {
            self.doubt();
        }
    }

    fn request(&mut self, mut bytes: &[u8]) -> Result<(), Doubtful> {
        if matches!(self.request, Part::None) {
            if self.state != State::Idle {
                return Err(Doubtful);
            }
            self.state = State::Busy;
            self.request = Part::Head;
        }
        if matches!(self.request, Part::Head) {
            let Some((facts, rest)) = self.head.feed(Side::Request, bytes)? else {
                return Ok(());
            };
            if facts.coded {
                return Err(Doubtful);
            }
            self.method = facts.method;
            self.last = facts.close || (facts.old && !facts.keep);
            self.response = Part::Head;
            self.request = Part::Body {
                left: facts.length.unwrap_or(0),
            };
            bytes = rest;
        }
        if let Part::Body { left } = &mut self.request {
            *left = left.checked_sub(bytes.len() as u64).ok_or(Doubtful)?;
            if *left == 0 {
                self.request = Part::None;
            }
        }
        Ok(())
    }

    fn response(&mut self, mut bytes: &[u8]) -> Result<(), Doubtful> {
        while !bytes.is_empty() {
            match &mut self.response {
                Part::None => return Err(Doubtful),
                Part::Head => {
                    let Some((facts, rest)) = self.head.feed(Side::Response, bytes)? else {
                        return Ok(());
                    };
                    bytes = rest;
                    self.answer(&facts)?;
                    if self.state == State::Upgraded {
                        return Ok(());
                    }
                }
                Part::Body { left } => {
                    *left = left.checked_sub(bytes.len() as u64).ok_or(Doubtful)?;
                    if *left > 0 {
                        return Ok(());
                    }
                    bytes = &[];
                    self.answered()?;
                }
                Part::Chunked(chunks) => match chunks.feed(bytes)? {
                    None => return Ok(()),
                    Some(rest) => {
                        bytes = rest;
                        self.answered()?;
                    }
                },
            }
        }
        Ok(())
    }

    /// The head of an answer is complete: how long is its body?
    fn answer(&mut self, facts: &Facts) -> Result<(), Doubtful> {
        let tunnel = self.method == Method::Connect && matches!(facts.status, 200..300);
        if facts.status == 101 || tunnel {
            self.state = State::Upgraded;
            return Ok(());
        }
        if matches!(facts.status, 100..200) {
            return Ok(());
        }
        self.last |= facts.close || (facts.old && !facts.keep);
        let bodiless = self.method == Method::Head || matches!(facts.status, 204 | 304);
        self.response = match (bodiless, facts.coded, facts.length) {
            (true, ..) | (false, false, Some(0)) => return self.answered(),
            (false, true, _) if facts.chunked => Part::Chunked(Chunks::START),
            (false, false, Some(left)) => Part::Body { left },
            _ => return Err(Doubtful),
        };
        Ok(())
    }

    /// The answer is complete.
    fn answered(&mut self) -> Result<(), Doubtful> {
        if !matches!(self.request, Part::None) {
            return Err(Doubtful);
        }
        self.response = Part::None;
        self.state = if self.last { State::Last } else { State::Idle };
        Ok(())
    }
}

#[cfg(test)]
#[path = "http1_tests.rs"]
mod tests;
