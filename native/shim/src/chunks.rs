//! The chunked transfer coding (RFC 9112, 7.1), followed to its end.

use crate::head::Doubtful;

/// Where in it the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunks {
    /// In the size of a chunk: the digits so far and their value.
    Size {
        /// Digits seen.
        digits: u8,
        /// The size that they give.
        size: u64,
    },
    /// After the size, before the end of its line.
    Extension {
        /// Size of the chunk.
        size: u64,
    },
    /// In the data.
    Data {
        /// Bytes to come.
        left: u64,
    },
    /// Before the end of the line that follows the data.
    Gap,
    /// At the beginning of a line of the trailer.
    Trailer,
    /// Within one.
    TrailerLine,
}

impl Chunks {
    /// Before the first chunk.
    pub const START: Self = Self::Size { digits: 0, size: 0 };

    /// Takes bytes; when the end is among them, those after it.
    ///
    /// # Errors
    /// They are not chunked.
    pub fn feed<'a>(&mut self, mut bytes: &'a [u8]) -> Result<Option<&'a [u8]>, Doubtful> {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let Self::Data { left } = *self {
                let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.skip(taken as u64)?;
                bytes = bytes.get(taken..).unwrap_or_default();
                continue;
            }
            bytes = rest;
            if byte == b'\r' {
                continue;
            }
            if self.step(byte)? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    /// Takes bytes of the data that were not seen.
    ///
    /// # Errors
    /// There are not so many to come.
    pub fn skip(&mut self, count: u64) -> Result<(), Doubtful> {
        match *self {
            Self::Data { left } if count < left => *self = Self::Data { left: left - count },
            Self::Data { left } if count == left => *self = Self::Gap,
            _ => return Err(Doubtful),
        }
        Ok(())
    }

    /// Takes a byte outside the data; true for the last one.
    fn step(&mut self, byte: u8) -> Result<bool, Doubtful> {
        *self = match (*self, byte) {
            (Self::Size { digits: 1.., size } | Self::Extension { size }, b'\n') => match size {
                0 => Self::Trailer,
                left => Self::Data { left },
            },
            (Self::Size { digits, size }, _) => match (char::from(byte).to_digit(16), digits) {
                // Fifteen digits cannot overflow.
                (Some(digit), 0..15) => Self::Size {
                    digits: digits + 1,
                    size: size << 4 | u64::from(digit),
                },
                (None, 1..) if matches!(byte, b';' | b' ' | b'\t') => Self::Extension { size },
                _ => return Err(Doubtful),
            },
            (Self::Extension { size }, _) => Self::Extension { size },
            (Self::Gap, b'\n') => Self::START,
            (Self::Trailer, b'\n') => return Ok(true),
            (Self::TrailerLine, b'\n') => Self::Trailer,
            (Self::Trailer | Self::TrailerLine, _) => Self::TrailerLine,
            (Self::Gap | Self::Data { .. }, _) => return Err(Doubtful),
        };
        Ok(false)
    }
}
