//! The head of an HTTP/1 message, as far as the length of the message and the end of the connection follow from it (RFC 9112, 6 and 9).
//!
//! It comes in pieces of any size. Of a line that is cut by the end of a piece the beginning and the end are kept; when
//! that is too little to tell what an important field says, the head is doubtful.

use memchr::arch::all::memchr::One;

/// Bytes kept of a line that has begun.
const KEPT: usize = 64;
/// Those of its beginning; the others are of its end.
const BEGINNING: usize = 24;
/// Bytes that are looked at at once.
const BLOCK: usize = 32;

/// Which message it is the head of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A request.
    Request,
    /// An answer.
    Response,
}

/// How a request asks, as far as the answer's length depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Any other.
    #[default]
    Other,
    /// The answer has no body.
    Head,
    /// A successful answer makes a tunnel.
    Connect,
}

/// The facts in a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Of a request.
    pub method: Method,
    /// Of an answer.
    pub status: u16,
    /// HTTP/1.0.
    pub old: bool,
    /// Content-Length.
    pub length: Option<u64>,
    /// There is a Transfer-Encoding.
    pub coded: bool,
    /// Its last coding is chunked.
    pub chunked: bool,
    /// Connection: close.
    pub close: bool,
    /// Connection: keep-alive.
    pub keep: bool,
}

/// The head is not one, or cannot be told.
#[derive(Debug, PartialEq, Eq)]
pub struct Doubtful;

/// A head under way.
#[derive(Clone, Copy)]
pub struct Head {
    begun: bool,
    facts: Facts,
    line: Line,
}

impl Head {
    /// Before its first byte.
    pub const fn new() -> Self {
        Self {
            facts: Facts {
                method: Method::Other,
                status: 0,
                old: false,
                length: None,
                coded: false,
                chunked: false,
                close: false,
                keep: false,
            },
            begun: false,
            line: Line::new(),
        }
    }

    /// Takes bytes; when the head is complete, what it says and the bytes after it.
    ///
    /// # Errors
    /// It is doubtful.
    pub fn feed<'a>(
        &mut self,
        side: Side,
        mut bytes: &'a [u8],
    ) -> Result<Option<(Facts, &'a [u8])>, Doubtful> {
        loop {
            if self.begun && self.line.length == 0 {
                bytes = skip(bytes);
            }
            let Some(end) = line_feed().find(bytes) else {
                break;
            };
            let (part, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            let ended = if self.line.length == 0 {
                self.whole(side, part, false)?
            } else {
                self.line.push(part);
                let line = std::mem::replace(&mut self.line, Line::new());
                self.whole(side, line.kept(), line.cut)?
            };
            if ended {
                self.begun = false;
                return Ok(Some((std::mem::take(&mut self.facts), bytes)));
            }
        }
        self.line.push(bytes);
        Ok(None)
    }

    /// Takes a line without its line feed; true for the empty line that ends the head.
    fn whole(&mut self, side: Side, line: &[u8], cut: bool) -> Result<bool, Doubtful> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !self.begun {
            // A client may send an empty line before a request (RFC 9112, 2.2).
            self.begun = !(line.is_empty() && side == Side::Request);
            return if self.begun {
                self.start(side, line).map(|()| false)
            } else {
                Ok(false)
            };
        }
        match line.first() {
            None => return Ok(true),
            // A folded line goes on with the field before.
            Some(b' ' | b'\t') => return Err(Doubtful),
            Some(_) => self.field(line, cut)?,
        }
        Ok(false)
    }

    fn start(&mut self, side: Side, line: &[u8]) -> Result<(), Doubtful> {
        let version = match side {
            Side::Request => {
                self.facts.method = match line {
                    [b'H', b'E', b'A', b'D', b' ', ..] => Method::Head,
                    [b'C', b'O', b'N', b'N', b'E', b'C', b'T', b' ', ..] => Method::Connect,
                    _ => Method::Other,
                };
                line.last_chunk::<9>()
                    .and_then(|end| end.strip_prefix(b" "))
            }
            Side::Response => {
                let digits = line.get(9..12).filter(|d| d.iter().all(u8::is_ascii_digit));
                self.facts.status = digits
                    .ok_or(Doubtful)?
                    .iter()
                    .fold(0, |all, digit| all * 10 + u16::from(digit - b'0'));
                line.get(..8)
            }
        };
        self.facts.old = match version {
            Some(b"HTTP/1.1") => false,
            Some(b"HTTP/1.0") => true,
            _ => return Err(Doubtful),
        };
        Ok(())
    }

    #[inline]
    fn field(&mut self, line: &[u8], cut: bool) -> Result<(), Doubtful> {
        if let Some(value) = value(line, b"content-length") {
            let length = decimal(value?).filter(|_| !cut).ok_or(Doubtful)?;
            if self.facts.length.is_some_and(|before| before != length) {
                return Err(Doubtful);
            }
            self.facts.length = Some(length);
        } else if let Some(value) = value(line, b"connection") {
            if cut {
                return Err(Doubtful);
            }
            self.options(value?);
        } else if let Some(value) = value(line, b"transfer-encoding") {
            if cut {
                return Err(Doubtful);
            }
            self.facts.coded = true;
            let last = value?.rsplit(|&b| b == b',').next().unwrap_or_default();
            self.facts.chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        }
        Ok(())
    }

    /// The options of Connection; nearly always there is but one.
    #[inline]
    fn options(&mut self, value: &[u8]) {
        match value {
            b"keep-alive" | b"Keep-Alive" => self.facts.keep = true,
            b"close" => self.facts.close = true,
            _ => {
                for option in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
                    self.facts.close |= option.eq_ignore_ascii_case(b"close");
                    self.facts.keep |= option.eq_ignore_ascii_case(b"keep-alive");
                }
            }
        }
    }
}

/// Finds the ends of lines, which are short: what is chosen at run time for long texts costs more to reach.
#[inline]
fn line_feed() -> One {
    One::new(b'\n')
}

/// Whether a line that begins so may matter: a field of ours, a folded line, or the end of the head.
#[inline]
const fn matters(first: u8) -> bool {
    matches!(first | 0x20, b'c' | b't') | (first <= b' ')
}

/// Passes over lines that do not matter.
///
/// Nearly all of a head are such lines; looked at in blocks, which compilers do at once, they cost a fraction of what they
/// cost one by one.
///
/// # Returns
/// The bytes from the first line that matters, or from the last one when that is not complete.
#[inline]
fn skip(bytes: &[u8]) -> &[u8] {
    if bytes.first().is_none_or(|&first| matters(first)) {
        return bytes;
    }
    let mut at = 0;
    while let Some(block) = bytes.get(at..at + BLOCK + 1) {
        let ([this @ .., _], [_, next @ ..]) = (block, block) else {
            break;
        };
        let found = this.iter().zip(next).fold(0, |found, (&end, &first)| {
            found | (u8::from(end == b'\n') & u8::from(matters(first)))
        });
        if found != 0 {
            break;
        }
        at += BLOCK;
    }
    while let Some(end) = bytes.get(at..).and_then(|rest| line_feed().find(rest)) {
        at += end + 1;
        if bytes.get(at).is_some_and(|&first| matters(first)) {
            return bytes.get(at..).unwrap_or_default();
        }
    }
    let last = line_feed().rfind(bytes).map_or(0, |end| end + 1);
    bytes.get(last..).unwrap_or_default()
}

/// The value of a field, when the line is of the field with this name.
///
/// # Errors
/// White space before the colon, which some take for a part of the name and others do not.
#[inline]
fn value<'a>(line: &'a [u8], name: &[u8]) -> Option<Result<&'a [u8], Doubtful>> {
    let (after, rest) = line.get(name.len()..)?.split_first()?;
    if !matches!(after, b':' | b' ' | b'\t') || !line.get(..name.len())?.eq_ignore_ascii_case(name)
    {
        return None;
    }
    Some(if *after == b':' {
        Ok(rest.trim_ascii())
    } else {
        Err(Doubtful)
    })
}

/// A number as Content-Length has it.
fn decimal(text: &[u8]) -> Option<u64> {
    // Shorter than u64::MAX, so it cannot overflow.
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(
        text.iter()
            .fold(0, |all, digit| all * 10 + u64::from(digit - b'0')),
    )
}

/// The part so far of a line.
#[derive(Clone, Copy)]
struct Line {
    length: usize,
    cut: bool,
    bytes: [u8; KEPT],
}

impl Line {
    const fn new() -> Self {
        Self {
            bytes: [0; KEPT],
            length: 0,
            cut: false,
        }
    }

    fn kept(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    fn push(&mut self, part: &[u8]) {
        for &byte in part {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            } else {
                self.cut = true;
                self.bytes.copy_within(BEGINNING + 1.., BEGINNING);
                self.bytes[KEPT - 1] = byte;
            }
        }
    }
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
