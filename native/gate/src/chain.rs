//! A FIFO queue of descriptors, chained through their entries in the ledger: no memory of its own, removal anywhere.

use std::sync::atomic::Ordering::Relaxed;

use crate::ledger::Ledger;

const NONE: u32 = u32::MAX;

/// First and last of a chain; a descriptor is in one chain at most.
#[derive(Debug, Clone, Copy)]
pub struct Chain {
    first: u32,
    last: u32,
    len: u32,
}

impl Default for Chain {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
            len: 0,
        }
    }
}

impl Chain {
    /// Members.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The one that has been in it longest.
    pub fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// All of them, first to last.
    pub fn members(&self, ledger: &Ledger) -> Vec<u32> {
        let next = |&number: &u32| {
            let next = ledger.entry(number).next.load(Relaxed);
            (next != NONE).then_some(next)
        };
        std::iter::successors(self.first(), next).collect()
    }

    /// Puts a descriptor at the end.
    pub fn push(&mut self, ledger: &Ledger, number: u32) {
        let entry = ledger.entry(number);
        entry.previous.store(self.last, Relaxed);
        entry.next.store(NONE, Relaxed);
        match self.last {
            NONE => self.first = number,
            last => ledger.entry(last).next.store(number, Relaxed),
        }
        self.last = number;
        self.len += 1;
    }

    /// Puts a descriptor back at the front.
    pub fn push_first(&mut self, ledger: &Ledger, number: u32) {
        let entry = ledger.entry(number);
        entry.previous.store(NONE, Relaxed);
        entry.next.store(self.first, Relaxed);
        match self.first {
            NONE => self.last = number,
            first => ledger.entry(first).previous.store(number, Relaxed),
        }
        self.first = number;
        self.len += 1;
    }

    /// Takes out a descriptor, which must be in it.
    pub fn remove(&mut self, ledger: &Ledger, number: u32) {
        let entry = ledger.entry(number);
        let (previous, next) = (entry.previous.load(Relaxed), entry.next.load(Relaxed));
        match previous {
            NONE => self.first = next,
            _ => ledger.entry(previous).next.store(next, Relaxed),
        }
        match next {
            NONE => self.last = previous,
            _ => ledger.entry(next).previous.store(previous, Relaxed),
        }
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_keeps_the_order_of_arrival_whoever_leaves(steps in proptest::collection::vec(0u32..16, 0..100)) {
            let ledger = Ledger::new(16).unwrap();
            let mut chain = Chain::default();
            let mut model: Vec<u32> = Vec::new();
            for number in steps {
                match model.iter().position(|&member| member == number) {
                    Some(at) => {
                        model.remove(at);
                        chain.remove(&ledger, number);
                    }
                    None if number % 5 == 0 => {
                        model.insert(0, number);
                        chain.push_first(&ledger, number);
                    }
                    None => {
                        model.push(number);
                        chain.push(&ledger, number);
                    }
                }
                prop_assert_eq!(&chain.members(&ledger), &model);
                prop_assert_eq!(chain.len() as usize, model.len());
            }
        }
    }
}
