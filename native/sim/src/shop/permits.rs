//! A number of permits; who finds none free waits in order.

use std::collections::VecDeque;

/// Threads, pooled connections, or statements that may run at once.
#[derive(Debug)]
pub struct Permits {
    limit: u32,
    held: u32,
    queue: VecDeque<u32>,
}

impl Permits {
    /// So many free permits.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            held: 0,
            queue: VecDeque::new(),
        }
    }

    /// True when the slot has a permit now; else it waits.
    pub fn take(&mut self, slot: u32) -> bool {
        if self.held < self.limit {
            self.held += 1;
            return true;
        }
        self.queue.push_back(slot);
        false
    }

    /// Gives a permit back; who has waited longest has it now.
    pub fn give_back(&mut self) -> Option<u32> {
        let next = self.queue.pop_front();
        if next.is_none() {
            self.held -= 1;
        }
        next
    }

    /// Permits that are held.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Those that wait.
    pub fn waiting(&self) -> u32 {
        self.queue.len() as u32
    }
}
