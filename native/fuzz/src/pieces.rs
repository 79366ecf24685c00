//! How input is cut up.

/// Takes numbers and pieces from the front of an input.
pub struct Pieces<'a>(pub &'a [u8]);

impl<'a> Pieces<'a> {
    /// The next byte; None at the end.
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    /// The next so many bytes, or all that there are.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
