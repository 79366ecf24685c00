//! Follows the records of a TLS connection, which tell of application data without a key (RFC 8446, 5.1).
//!
//! In TLS 1.3 all that is encrypted looks like application data, an alert too: it is told by its length, because
//! no request fits into so few bytes.

/// Application data.
const DATA: u8 = 23;
/// An alert in clear, or of TLS 1.2.
const ALERT: u8 = 21;
/// Longest record of application data that is an alert or an update of keys: no request is shorter.
const SHORT: u16 = 31;
/// Bytes before a record's contents.
const HEADER: usize = 5;
/// Longest contents.
const LONGEST: u16 = 16_384 + 2_048;

/// The news in some bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// A record of application data began that may hold a request.
    pub data: bool,
    /// A record began that may be an alert: one side is about to close.
    pub alert: bool,
    /// This is not TLS.
    pub foreign: bool,
}

/// One direction.
#[derive(Clone, Copy)]
pub struct Records {
    header: [u8; HEADER],
    known: usize,
    left: usize,
}

impl Records {
    /// Before the first record.
    pub const fn new() -> Self {
        Self {
            header: [0; HEADER],
            known: 0,
            left: 0,
        }
    }

    /// Takes bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Seen {
        let mut seen = Seen::default();
        while !bytes.is_empty() {
            let inside = self.left.min(bytes.len());
            self.left -= inside;
            bytes = bytes.get(inside..).unwrap_or_default();
            let Some((&byte, rest)) = bytes.split_first() else {
                break;
            };
            bytes = rest;
            if let Some(place) = self.header.get_mut(self.known) {
                *place = byte;
                self.known += 1;
            }
            if self.known == HEADER {
                self.begins(&mut seen);
            }
        }
        seen
    }

    fn begins(&mut self, seen: &mut Seen) {
        let [kind, major, _, high, low] = self.header;
        let length = u16::from_be_bytes([high, low]);
        seen.foreign |= !(20..=24).contains(&kind) || major != 3 || length > LONGEST;
        seen.data |= kind == DATA && length > SHORT;
        seen.alert |= kind == ALERT || (kind == DATA && length <= SHORT);
        (self.known, self.left) = (0, usize::from(length));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u8, length: u16) -> Vec<u8> {
        let mut made = vec![kind, 3, 3];
        made.extend(length.to_be_bytes());
        made.extend(vec![b'x'; usize::from(length)]);
        made
    }

    #[test]
    fn a_request_is_told_from_an_alert_by_kind_and_length() {
        let seen = |kind, length| Records::new().feed(&record(kind, length));
        let (data, alert, foreign) = (true, true, true);
        assert_eq!(
            seen(23, 60),
            Seen {
                data,
                ..Seen::default()
            }
        );
        assert_eq!(
            seen(23, 19),
            Seen {
                alert,
                ..Seen::default()
            }
        );
        assert_eq!(
            seen(21, 26),
            Seen {
                alert,
                ..Seen::default()
            }
        );
        assert_eq!(seen(22, 400), Seen::default());
        assert!(seen(b'G', 400).foreign && foreign);
        assert!(Records::new().feed(b"\x17\x03\x03\xff\xff").foreign);
    }

    proptest! {
        #[test]
        fn records_are_found_however_the_bytes_come(
            records in prop::collection::vec((20..24_u8, 0..200_u16), 1..12),
            pieces in prop::collection::vec(1..40_usize, 1..40),
        ) {
            let bytes: Vec<u8> = records.iter().flat_map(|&(kind, length)| record(kind, length)).collect();
            let (mut rest, mut all, mut follower) = (&bytes[..], Seen::default(), Records::new());
            for &piece in pieces.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (now, later) = rest.split_at(piece.min(rest.len()));
                let seen = follower.feed(now);
                all.data |= seen.data;
                all.alert |= seen.alert;
                all.foreign |= seen.foreign;
                rest = later;
            }
            prop_assert_eq!(all.data, records.iter().any(|&(kind, length)| kind == 23 && length > 31));
            prop_assert_eq!(all.alert, records.iter().any(|&(kind, length)| kind == 21 || kind == 23 && length <= 31));
            prop_assert!(!all.foreign);
        }
    }
}
