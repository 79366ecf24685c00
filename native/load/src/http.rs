//! The replies of an HTTP/1.1 server, read in whatever pieces they come (RFC 9112).
//!
//! The parser keeps a line only when it was cut in two by a read, so an idle connection holds no buffer.

use memchr::memchr;

/// Longest header section that is accepted, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Longest body that is kept, in bytes; what comes after it is read and forgotten.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// What a browser keeps of a reply; nothing of it is believed.
#[derive(Debug, Default)]
pub struct Kept {
    with_body: bool,
    /// Values of Set-Cookie, in order.
    pub cookies: Vec<Box<[u8]>>,
    /// Value of Location.
    pub location: Option<Box<[u8]>>,
    /// Value of Cache-Control.
    pub cache_control: Option<Box<[u8]>>,
    /// The body, of a page.
    pub body: Vec<u8>,
}

/// What is wrong with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Status,
    Headers,
    Body { left: u64 },
    ChunkSize,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
}

/// The reading of one reply.
#[derive(Debug)]
pub struct Reply {
    state: State,
    line: Vec<u8>,
    header_bytes: usize,
    status: u16,
    http_1_0: bool,
    close: bool,
    keep_alive: bool,
    chunked: bool,
    length: Option<u64>,
    body_bytes: u64,
    kept: Option<Box<Kept>>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            state: State::Status,
            line: Vec::new(),
            header_bytes: 0,
            status: 0,
            http_1_0: false,
            close: false,
            keep_alive: false,
            chunked: false,
            length: None,
            body_bytes: 0,
            kept: None,
        }
    }
}

impl Reply {
    /// A reply of which a browser keeps what it needs.
    pub fn keeping(with_body: bool) -> Self {
        Self {
            kept: Some(Box::new(Kept {
                with_body,
                ..Kept::default()
            })),
            ..Self::default()
        }
    }

    /// What was kept.
    pub fn into_kept(self) -> Kept {
        self.kept.map(|kept| *kept).unwrap_or_default()
    }

    /// Reads on.
    ///
    /// # Returns
    /// How many bytes belonged to this reply: all of them unless it is done.
    ///
    /// # Errors
    /// The bytes are not an HTTP/1.x reply.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < bytes.len() && self.state != State::Done {
            let rest = &bytes[at..];
            at += match self.state {
                State::Body { left } => {
                    self.body(rest, left, |left| State::Body { left }, State::Done)
                }
                State::ChunkData { left } => self.body(
                    rest,
                    left,
                    |left| State::ChunkData { left },
                    State::ChunkEnd,
                ),
                State::UntilClose => {
                    self.body_bytes += rest.len() as u64;
                    self.keep(rest);
                    rest.len()
                }
                _ => self.take_line(rest)?,
            };
        }
        Ok(at)
    }

    /// The server has closed.
    ///
    /// # Returns
    /// True when that completes the reply.
    pub fn end_of_stream(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.is_done()
    }

    /// The reply is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// No byte has come yet.
    pub fn is_untouched(&self) -> bool {
        self.state == State::Status && self.header_bytes == 0
    }

    /// Status code of the final reply; 0 before it is known.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Bytes of the body, without chunk framing.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// The server will close the connection after this reply.
    pub fn closes(&self) -> bool {
        self.close || (self.http_1_0 && !self.keep_alive)
    }

    fn body(&mut self, rest: &[u8], left: u64, more: impl Fn(u64) -> State, then: State) -> usize {
        let taken = left.min(rest.len() as u64);
        self.body_bytes += taken;
        self.keep(&rest[..taken as usize]);
        self.state = if taken == left {
            then
        } else {
            more(left - taken)
        };
        taken as usize
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.with_body) {
            let room = MAX_KEPT_BYTES - kept.body.len();
            kept.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn take_line(&mut self, rest: &[u8]) -> Result<usize, Malformed> {
        let end = memchr(b'\n', rest);
        let taken = end.map_or(rest.len(), |end| end + 1);
        self.header_bytes += taken;
        if self.header_bytes > MAX_HEADER_BYTES {
            return Err(Malformed("header section too long"));
        }
        if end.is_none() {
            self.line.extend_from_slice(rest);
        } else if self.line.is_empty() {
            self.on_line(trim_end(&rest[..taken]))?;
        } else {
            let mut line = std::mem::take(&mut self.line);
            line.extend_from_slice(&rest[..taken]);
            self.on_line(trim_end(&line))?;
        }
        Ok(taken)
    }

    fn on_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        match self.state {
            State::Status => self.on_status(line)?,
            State::Headers if line.is_empty() => self.on_headers_end(),
            State::Headers => self.on_header(line)?,
            State::ChunkSize => {
                self.header_bytes = 0;
                self.state = match chunk_size(line)? {
                    0 => State::Trailers,
                    left => State::ChunkData { left },
                };
            }
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkSize,
            State::ChunkEnd => return Err(Malformed("chunk longer than its size")),
            State::Trailers if line.is_empty() => self.state = State::Done,
            _ => {}
        }
        Ok(())
    }

    fn on_status(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let rest = line
            .strip_prefix(b"HTTP/1.")
            .ok_or(Malformed("no HTTP/1.x status line"))?;
        let (minor, code) = match rest {
            [minor @ (b'0' | b'1'), b' ', code @ ..] if code.len() >= 3 => (*minor, code),
            _ => return Err(Malformed("no HTTP/1.x status line")),
        };
        self.status = decimal(&code[..3]).ok_or(Malformed("status is not a number"))? as u16;
        if self.status < 100 || !matches!(code.get(3), None | Some(b' ')) {
            return Err(Malformed("status is not a number of three digits"));
        }
        self.http_1_0 = minor == b'0';
        self.state = State::Headers;
        Ok(())
    }

    fn on_header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let colon = memchr(b':', line).ok_or(Malformed("header without a colon"))?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let length = decimal(value).ok_or(Malformed("content-length is not a number"))?;
                if self
                    .length
                    .replace(length)
                    .is_some_and(|before| before != length)
                {
                    return Err(Malformed("two different content-lengths"));
                }
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                self.chunked = tokens(value)
                    .last()
                    .is_some_and(|t| t.eq_ignore_ascii_case(b"chunked"));
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.close |= tokens(value).any(|t| t.eq_ignore_ascii_case(b"close"));
                self.keep_alive |= tokens(value).any(|t| t.eq_ignore_ascii_case(b"keep-alive"));
            }
            8 | 10 | 13 => self.keep_header(name, value),
            _ => {}
        }
        Ok(())
    }

    fn keep_header(&mut self, name: &[u8], value: &[u8]) {
        let Some(kept) = self.kept.as_mut() else {
            return;
        };
        if name.eq_ignore_ascii_case(b"set-cookie") {
            kept.cookies.push(value.into());
        } else if name.eq_ignore_ascii_case(b"location") {
            kept.location = Some(value.into());
        } else if name.eq_ignore_ascii_case(b"cache-control") {
            kept.cache_control = Some(value.into());
        }
    }

    fn on_headers_end(&mut self) {
        match self.status {
            // An interim reply: the final one follows.
            100..=199 => {
                *self = Self {
                    header_bytes: self.header_bytes,
                    kept: self.kept.take(),
                    ..Self::default()
                }
            }
            204 | 304 => self.state = State::Done,
            _ if self.chunked => self.state = State::ChunkSize,
            _ => {
                self.state = match self.length {
                    Some(0) => State::Done,
                    Some(left) => State::Body { left },
                    None => State::UntilClose,
                };
                self.close |= self.length.is_none();
            }
        }
    }
}

fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    number(digits, 10)
}

fn chunk_size(line: &[u8]) -> Result<u64, Malformed> {
    let size = line
        .split(|&b| b == b';')
        .next()
        .unwrap_or(line)
        .trim_ascii();
    number(size, 16).ok_or(Malformed("chunk size is not a number"))
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &digit| {
        let digit = char::from(digit).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?
            .checked_add(u64::from(digit))
    })
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
