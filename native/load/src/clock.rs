//! The time of a run: the machine's, or in tests one that moves only when nothing is under way.

use std::time::Instant;

/// Where the loop takes the time from.
pub enum Clock {
    /// The machine's monotonic clock, from the start of the run.
    Machine(Instant),
    /// One that a test owns.
    #[cfg(test)]
    Virtual(crate::virtual_time::Virtual),
}

impl Clock {
    /// The machine's, from now on.
    pub fn machine() -> Self {
        Self::Machine(Instant::now())
    }

    /// The run begins.
    pub fn start(&mut self) {
        match self {
            Self::Machine(began) => *began = Instant::now(),
            #[cfg(test)]
            Self::Virtual(_) => {}
        }
    }

    /// Nanoseconds since the start of the run.
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Machine(began) => began.elapsed().as_nanos() as u64,
            #[cfg(test)]
            Self::Virtual(time) => time.now.ns(),
        }
    }
}
