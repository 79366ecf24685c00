//! The head of an HTTP/1.x request as far as it has come (RFC 9112), to tell the class of its connection.
//!
//! Nothing is copied and nothing is refused here: what is not understood is passed over, and the server judges it.

use memchr::memchr;

/// The first bytes of a connection, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head<'a> {
    /// Not enough to tell.
    Unknown,
    /// No HTTP/1.x request.
    Other,
    /// A request line and what followed it so far.
    Request(Request<'a>),
}

/// A request whose first line is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    target: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the first bytes of a connection.
    pub fn read(bytes: &'a [u8]) -> Self {
        let bytes = skip_empty_lines(bytes);
        let Some(&first) = bytes.first() else {
            return Self::Unknown;
        };
        if !first.is_ascii_alphabetic() {
            return Self::Other;
        }
        let Some(end) = memchr(b'\n', bytes) else {
            return Self::Unknown;
        };
        let mut words = trim_end(&bytes[..end]).split(|&b| b == b' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some(_), Some(target), Some(version), None) if version.starts_with(b"HTTP/1.") => {
                Self::Request(Request {
                    target,
                    fields: &bytes[end + 1..],
                })
            }
            _ => Self::Other,
        }
    }
}

impl<'a> Request<'a> {
    /// Path and query: what follows the authority when the target has one.
    pub fn path(&self) -> &'a [u8] {
        match self.authority() {
            Some(authority) => {
                let after = &after_scheme(self.target)[authority.len()..];
                if after.is_empty() {
                    b"/"
                } else {
                    after
                }
            }
            None => self.target,
        }
    }

    /// The host without its port: from the target when it has one, else from the Host field; None when not seen yet.
    pub fn host(&self) -> Option<&'a [u8]> {
        let host = || {
            self.fields()
                .find(|(name, _)| name.eq_ignore_ascii_case(b"host"))
                .map(|(_, value)| value)
        };
        self.authority().or_else(host).map(without_port)
    }

    /// Values of the fields of this name that have come so far.
    pub fn values<'n>(&self, name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        self.fields()
            .filter(move |(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The cookies that have come so far.
    pub fn cookies(&self) -> impl Iterator<Item = &'a [u8]> {
        self.values(b"cookie")
            .flat_map(|value| value.split(|&b| b == b';').map(<[u8]>::trim_ascii))
    }

    /// The empty line after the last field has come.
    pub fn is_complete(&self) -> bool {
        Lines(self.fields).any(<[u8]>::is_empty)
    }

    /// Whole fields so far.
    fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        Lines(self.fields)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| {
                let colon = memchr(b':', line)?;
                Some((&line[..colon], line[colon + 1..].trim_ascii()))
            })
    }

    fn authority(&self) -> Option<&'a [u8]> {
        let rest = after_scheme(self.target);
        if rest.len() == self.target.len() {
            return None;
        }
        let end = rest.iter().position(|&b| b == b'/' || b == b'?');
        Some(&rest[..end.unwrap_or(rest.len())])
    }
}

/// Lines that have ended, without their ends.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr(b'\n', self.0)?;
        let line = trim_end(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Some(line)
    }
}

/// Servers ignore empty lines before a request (RFC 9112, 2.2).
fn skip_empty_lines(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|&b| b != b'\r' && b != b'\n');
    &bytes[start.unwrap_or(bytes.len())..]
}

fn trim_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The target of absolute form after `http://` or `https://`; any other target as it is.
fn after_scheme(target: &[u8]) -> &[u8] {
    for scheme in [&b"http://"[..], b"https://"] {
        if let Some((start, rest)) = target.split_at_checked(scheme.len()) {
            if start.eq_ignore_ascii_case(scheme) {
                return rest;
            }
        }
    }
    target
}

fn without_port(host: &[u8]) -> &[u8] {
    let digits = host.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    host[..host.len() - digits]
        .strip_suffix(b":")
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8]) -> Request<'_> {
        match Head::read(bytes) {
            Head::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_request_line_is_waited_for_and_fields_are_read_as_they_come() {
        assert_eq!(Head::read(b""), Head::Unknown);
        assert_eq!(Head::read(b"\r\nGET /a HTTP/1.1\r"), Head::Unknown);
        let seen = request(b"GET /a?b HTTP/1.1\r\nHost: Shop:80\r\nCookie: a=1; b=2\r\nX-T");
        assert_eq!(seen.path(), b"/a?b");
        assert_eq!(seen.host(), Some(&b"Shop"[..]));
        assert_eq!(seen.cookies().collect::<Vec<_>>(), [b"a=1", b"b=2"]);
        assert!(!seen.is_complete());
        assert_eq!(seen.values(b"x-t").count(), 0);
        assert!(request(b"GET / HTTP/1.0\n\n").is_complete());
    }

    #[test]
    fn a_target_of_absolute_form_has_its_own_host() {
        let seen = request(b"GET HTTP://one.example:81/x HTTP/1.1\r\nHost: two\r\n");
        assert_eq!(
            (seen.host(), seen.path()),
            (Some(&b"one.example"[..]), &b"/x"[..])
        );
        assert_eq!(request(b"GET http://[::1]:8 HTTP/1.1\n").path(), b"/");
        assert_eq!(
            request(b"GET http://[::1]:8 HTTP/1.1\n").host(),
            Some(&b"[::1]"[..])
        );
    }

    #[test]
    fn what_is_no_request_is_left_to_the_server() {
        for bytes in [
            &b"\x16\x03\x01"[..],
            b"\0",
            b"PRI * HTTP/2.0\r\n",
            b"GET /\r\n",
            b"hello\n",
        ] {
            assert_eq!(Head::read(bytes), Head::Other, "{bytes:?}");
        }
    }

    #[test]
    fn fields_after_the_empty_line_are_not_of_the_head() {
        let seen = request(b"POST / HTTP/1.1\r\n\r\nHost: body\r\n\r\n");
        assert_eq!(seen.host(), None);
    }
}
