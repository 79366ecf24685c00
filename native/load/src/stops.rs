//! What ends a run early: a `Control` line, the end of the input, a signal.

use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use anyhow::Context as _;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use trimtab_wire::load::Control;
use trimtab_wire::BadInput;

const INPUT: u64 = u64::MAX;
const SIGNAL: u64 = u64::MAX - 1;
/// Longest line that is accepted.
const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// A stream of lines, read without waiting for more than there is.
#[derive(Debug)]
pub struct Lines {
    input: std::fs::File,
    pending: Vec<u8>,
    ended: bool,
}

impl Lines {
    /// Lines of a descriptor.
    pub fn new(input: OwnedFd) -> Self {
        Self {
            input: input.into(),
            pending: Vec::new(),
            ended: false,
        }
    }

    /// The next line, waiting for it; None at the end of the input.
    ///
    /// # Errors
    /// The input cannot be read, or a line is too long.
    pub fn next_line(&mut self) -> anyhow::Result<Option<String>> {
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(None);
            }
            self.read_once()?;
        }
    }

    fn read_once(&mut self) -> anyhow::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        match self.input.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(n) => self.pending.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("standard input"),
        }
        if self.pending.len() > MAX_LINE_BYTES {
            return Err(BadInput(format!("a line of more than {MAX_LINE_BYTES} bytes")).into());
        }
        Ok(())
    }

    fn take_line(&mut self) -> anyhow::Result<Option<String>> {
        let end = self.pending.iter().position(|&b| b == b'\n');
        let rest = match end {
            Some(end) => self.pending.split_off(end + 1),
            None if self.ended && !self.pending.is_empty() => Vec::new(),
            None => return Ok(None),
        };
        let line = String::from_utf8(std::mem::replace(&mut self.pending, rest));
        line.map(Some)
            .map_err(|_| BadInput("a line is not UTF-8".to_owned()).into())
    }
}

/// Where orders to stop come from.
#[derive(Debug, Default)]
pub struct Stops {
    /// Lines of [`Control`].
    pub input: Option<Lines>,
    /// Readable after a signal.
    pub signals: Option<UnixStream>,
}

impl Stops {
    /// Watches them with an epoll descriptor.
    ///
    /// # Returns
    /// False when the input is one that cannot be waited for (a file, /dev/null) and therefore has ended.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn watch(&self, poll: &OwnedFd) -> anyhow::Result<bool> {
        let add = |source: BorrowedFd<'_>, bits| {
            epoll::add(poll, source, EventData::new_u64(bits), EventFlags::IN)
        };
        if let Some(signals) = &self.signals {
            add(signals.as_fd(), SIGNAL)?;
        }
        match self
            .input
            .as_ref()
            .map(|lines| (lines.ended, add(lines.input.as_fd(), INPUT)))
        {
            Some((true, _) | (_, Err(Errno::PERM))) => Ok(false),
            Some((_, Err(error))) => Err(error.into()),
            Some((_, Ok(()))) | None => Ok(true),
        }
    }

    /// The token is one of [`Stops::watch`].
    pub fn is_stop(bits: u64) -> bool {
        bits >= SIGNAL
    }

    /// Reads what has come.
    ///
    /// # Returns
    /// True when the run is to end.
    ///
    /// # Errors
    /// The input cannot be read or is not a [`Control`].
    pub fn heard(&mut self, bits: u64) -> anyhow::Result<bool> {
        let Some(lines) = self.input.as_mut().filter(|_| bits == INPUT) else {
            return Ok(bits == SIGNAL);
        };
        lines.read_once()?;
        self.came_early()
    }

    /// Takes an order that was read together with the line before it, which no descriptor tells of any more.
    ///
    /// # Returns
    /// True when the run is to end.
    ///
    /// # Errors
    /// It is not a [`Control`].
    pub fn came_early(&mut self) -> anyhow::Result<bool> {
        let Some(lines) = self.input.as_mut() else {
            return Ok(false);
        };
        if let Some(line) = lines.take_line()? {
            let Control::Stop {} = serde_json::from_str(&line)
                .map_err(|error| BadInput(format!("load: control: {error}")))?;
            return Ok(true);
        }
        Ok(lines.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_stop_that_came_together_with_the_start_is_heard() {
        let (reader, mut writer) = UnixStream::pair().expect("pair");
        writer
            .write_all(b"start\n{\"type\":\"stop\"}\n")
            .expect("write");
        let mut lines = Lines::new(reader.into());
        assert_eq!(lines.next_line().expect("line").as_deref(), Some("start\n"));
        let mut stops = Stops {
            input: Some(lines),
            signals: None,
        };
        assert!(stops.came_early().expect("control"));
    }

    #[test]
    fn an_open_input_that_says_nothing_does_not_stop_the_run() {
        let (reader, _writer) = UnixStream::pair().expect("pair");
        let mut stops = Stops {
            input: Some(Lines::new(reader.into())),
            signals: None,
        };
        assert!(!stops.came_early().expect("silence"));
    }
}
