//! Which class is served next: the adaptive proportional share policy of lu2001, Section 4.1.
//!
//! A class k has a budget B_k and R_k connections in service. A free worker goes to the class of the highest priority
//! among those that wait and have R_k < B_k. When the budgets of all classes add up to more than the limit M (control
//! saturation) they are cut so that they are satisfied in the order of priority.
//!
//! | paper | here         | unit        |
//! |-------|--------------|-------------|
//! | B_k   | `budget`     | connections |
//! | R_k   | `in_service` | connections |
//!
//! Departures from the paper: each class has a reserved minimum that saturation leaves to it; borrowing, when it is
//! switched on, gives a worker that would idle to a class over its budget; the preemptive policy, future work there,
//! takes back idle connections; when nobody decides about the budgets any more the gate is open: who came first is
//! served first, as without a gate, and only M counts.

/// What one class may have, has, and waits for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// B_k as it was set.
    pub budget: u32,
    /// Reserved minimum.
    pub minimum: u32,
    /// B_k after saturation.
    pub allotted: u32,
    /// R_k.
    pub in_service: u32,
    /// Connections that wait.
    pub waiting: u32,
}

/// The classes in order of priority, and what holds for all of them.
#[derive(Debug, Clone, Default)]
pub struct Budgets {
    /// M.
    pub limit: u32,
    /// An idle worker may serve a class over its budget.
    borrow: bool,
    /// Only the order of arrival and M count.
    pub open: bool,
    shares: Vec<Share>,
    in_service: u32,
    waiting: u32,
}

impl Budgets {
    /// Classes without connections.
    ///
    /// # Arguments
    /// * `limit` - M.
    /// * `classes` - budget and minimum of each class, highest priority first.
    pub fn new(limit: u32, borrow: bool, classes: impl Iterator<Item = (u32, u32)>) -> Self {
        let share = |(budget, minimum)| Share {
            budget,
            minimum,
            ..Share::default()
        };
        let mut budgets = Self {
            limit,
            borrow,
            shares: classes.map(share).collect(),
            ..Self::default()
        };
        budgets.allot();
        budgets
    }

    /// The classes, highest priority first.
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// Connections in service of all classes.
    pub fn in_service(&self) -> u32 {
        self.in_service
    }

    /// Connections that wait in all queues.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Moves budgets and the limit at one instant.
    pub fn set(&mut self, limit: u32, budgets: impl Iterator<Item = u32>) {
        self.limit = limit;
        for (share, budget) in self.shares.iter_mut().zip(budgets) {
            share.budget = budget;
        }
        self.allot();
    }

    /// A connection begins to wait.
    pub fn joined(&mut self, class: usize) {
        self.shares[class].waiting += 1;
        self.waiting += 1;
    }

    /// A connection waits no more.
    pub fn left(&mut self, class: usize) {
        self.shares[class].waiting -= 1;
        self.waiting -= 1;
    }

    /// A connection was given to a worker.
    pub fn served(&mut self, class: usize) {
        self.shares[class].in_service += 1;
        self.in_service += 1;
    }

    /// A worker is done with a connection.
    pub fn released(&mut self, class: usize) {
        self.shares[class].in_service -= 1;
        self.in_service -= 1;
    }

    /// A connection of this class, were it the only one that waits, would be served now.
    pub fn admits(&self, class: usize) -> bool {
        self.in_service < self.limit
            && (self.open || self.is_under(class) || (self.borrow && self.may_borrow(class)))
    }

    /// The class to serve next.
    ///
    /// # Arguments
    /// * `blocked` - classes that cannot be served for another reason, one bit each of the first 64.
    /// * `since` - when the first that waits in a class came, on any clock; asked for while open.
    pub fn next(&self, blocked: u64, since: impl Fn(usize) -> u64) -> Option<usize> {
        if self.in_service >= self.limit || self.waiting == 0 {
            return None;
        }
        let is_blocked = |class| blocked.checked_shr(class).is_some_and(|bits| bits & 1 != 0);
        let waits = |&class: &usize| self.shares[class].waiting > 0 && !is_blocked(class as u32);
        let mut classes = (0..self.shares.len()).filter(waits);
        if self.open {
            return classes.min_by_key(|&class| since(class));
        }
        let under = classes.clone().find(|&class| self.is_under(class));
        under.or_else(|| {
            self.borrow
                .then(|| classes.find(|&class| self.may_borrow(class)))
                .flatten()
        })
    }

    /// Connections that classes under their budget wait for and that no free worker can serve: as many the preemptive
    /// policy takes back from classes [over](Self::over) their budget.
    pub fn short_of(&self) -> u32 {
        if self.open {
            return 0;
        }
        let wanted = |share: &Share| {
            let under = share.allotted.saturating_sub(share.in_service);
            share.waiting.min(under)
        };
        let free = self.limit.saturating_sub(self.in_service);
        let wanted: u32 = self.shares.iter().map(wanted).sum();
        wanted.saturating_sub(free)
    }

    /// Connections that a class has in service beyond its budget.
    pub fn over(&self, class: usize) -> u32 {
        let share = self.shares[class];
        share.in_service.saturating_sub(share.allotted)
    }

    fn is_under(&self, class: usize) -> bool {
        self.shares[class].in_service < self.shares[class].allotted
    }

    /// Enough workers stay free for what the other classes have reserved and do not use.
    fn may_borrow(&self, class: usize) -> bool {
        let reserved: u32 = self
            .shares
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != class)
            .map(|(_, share)| share.minimum.saturating_sub(share.in_service))
            .sum();
        self.limit.saturating_sub(self.in_service) > reserved
    }

    /// Control saturation: minima first, then budgets, both in order of priority, until M is used up.
    fn allot(&mut self) {
        let mut left = self.limit;
        for share in &mut self.shares {
            share.allotted = share.minimum.min(share.budget).min(left);
            left -= share.allotted;
        }
        for share in &mut self.shares {
            let more = (share.budget - share.allotted).min(left);
            share.allotted += more;
            left -= more;
        }
    }
}

#[cfg(test)]
#[path = "budgets_tests.rs"]
mod tests;
