//! The server name of a TLS ClientHello as far as it has come (RFC 8446, 4.1.2; RFC 6066, 3).

/// Content type of a handshake record.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Longest TLS record (2^14 bytes and what encryption may add).
const LONGEST_RECORD: usize = (1 << 14) + 256;

/// The server name that the first bytes of a connection tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// More bytes are needed.
    More,
    /// The name that the client asks for.
    Name(Vec<u8>),
    /// There is none, or this is no ClientHello.
    Nothing,
}

/// Reads the first bytes of a connection.
pub fn read(bytes: &[u8]) -> Hello {
    let (message, more) = handshake(bytes);
    match name(&message) {
        Ok(Some(name)) => Hello::Name(name.to_vec()),
        Ok(None) => Hello::Nothing,
        Err(End) if more => Hello::More,
        Err(End) => Hello::Nothing,
    }
}

/// The bytes of the handshake message, out of as many records as have come, and whether more of it can follow.
///
/// Bytes that are no record end it and take nothing back: what was told before it came stays told.
fn handshake(mut bytes: &[u8]) -> (Vec<u8>, bool) {
    let mut message = Vec::new();
    loop {
        if message.len() >= 4 {
            let length = usize::from(message[1]) << 16 | usize::from(message[2]) << 8;
            if message.len() - 4 >= length | usize::from(message[3]) {
                return (message, false);
            }
        }
        match bytes {
            [HANDSHAKE, 3, _, high, low, rest @ ..] => {
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length == 0 || length > LONGEST_RECORD {
                    return (message, false);
                }
                let (now, after) = rest.split_at(length.min(rest.len()));
                message.extend_from_slice(now);
                if now.len() < length {
                    return (message, true);
                }
                bytes = after;
            }
            [] | [HANDSHAKE] | [HANDSHAKE, 3] | [HANDSHAKE, 3, _] | [HANDSHAKE, 3, _, _] => {
                return (message, true);
            }
            _ => return (message, false),
        }
    }
}

/// The bytes end here.
struct End;

/// Bytes that are taken from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], End> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(End)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, End> {
        Ok(self.take(1)?[0])
    }

    fn word(&mut self) -> Result<u16, End> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

/// The host name in a ClientHello; None when it has none.
fn name(message: &[u8]) -> Result<Option<&[u8]>, End> {
    let mut cursor = Cursor(message);
    if cursor.byte()? != CLIENT_HELLO {
        return Ok(None);
    }
    // Length, version and random.
    cursor.take(3 + 2 + 32)?;
    let session = cursor.byte()?;
    cursor.take(usize::from(session))?;
    let ciphers = cursor.word()?;
    cursor.take(usize::from(ciphers))?;
    let compressions = cursor.byte()?;
    cursor.take(usize::from(compressions))?;
    let mut left = usize::from(cursor.word()?);
    while left >= 4 {
        let (kind, length) = (cursor.word()?, cursor.word()?);
        let value = cursor.take(usize::from(length))?;
        if kind == SERVER_NAME {
            return Ok(host_name(value));
        }
        left = left.saturating_sub(4 + value.len());
    }
    Ok(None)
}

fn host_name(extension: &[u8]) -> Option<&[u8]> {
    match extension {
        [_, _, HOST_NAME, high, low, name @ ..] => {
            name.get(..usize::from(u16::from_be_bytes([*high, *low])))
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "client_hello_tests.rs"]
mod tests;
