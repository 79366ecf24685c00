//! Lines out of whatever pieces they come in, of bounded length.

use memchr::memchr;

/// Bytes that a peer has sent and nobody has read yet.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    read: usize,
}

/// A line is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

impl Input {
    /// Longest line.
    pub const MOST: usize = 64 * 1024;

    /// Takes more bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole line, without its end; None when there is none yet.
    ///
    /// # Errors
    /// The part of it that has come is too long already.
    pub fn line(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = &self.bytes[self.read..];
        match memchr(b'\n', rest) {
            Some(end) if end <= Self::MOST => {
                self.read += end + 1;
                let line = &rest[..end];
                Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
            }
            None if rest.len() <= Self::MOST => Ok(None),
            _ => Err(TooLong),
        }
    }

    /// The bytes that have not been read.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_they_are_cut(
            lines in proptest::collection::vec("[a-z]{0,20}", 0..20),
            cuts in proptest::collection::vec(1usize..9, 1..200),
        ) {
            let bytes: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
            let (mut input, mut found, mut at) = (Input::default(), Vec::new(), 0);
            for cut in cuts.into_iter().cycle() {
                let end = (at + cut).min(bytes.len());
                input.push(&bytes[at..end]);
                at = end;
                while let Ok(Some(line)) = input.line() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
                if at == bytes.len() {
                    break;
                }
            }
            prop_assert_eq!(found, lines);
        }
    }

    #[test]
    fn a_line_that_does_not_end_is_held_up_to_a_bound_and_then_an_error() {
        let mut input = Input::default();
        input.push(&vec![b'x'; Input::MOST]);
        assert_eq!(input.line(), Ok(None));
        input.push(b"x");
        assert_eq!(input.line(), Err(TooLong));
        let mut input = Input::default();
        input.push(&[vec![b'x'; Input::MOST + 1], b"\n".to_vec()].concat());
        assert_eq!(input.line(), Err(TooLong));
    }

    #[test]
    fn what_was_read_is_not_held() {
        let mut input = Input::default();
        for _ in 0..100 {
            input.push(&[b'\n'; 1000]);
            while let Ok(Some(_)) = input.line() {}
        }
        assert!(input.held() <= 1000);
    }
}
