//! The orders of a controller: readings, other budgets, a lease, the end.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use trimtab_wire::gate::{Answer, Mode, Order, BUDGET, LIMIT};
use trimtab_wire::BadInput;

use super::clients::refused;
use super::{End, Gate};
use crate::check;
use crate::metrics::Figures;
use crate::tally;

/// Largest value of a knob: there are no more slots.
const MOST: i64 = trimtab_wire::shared::SLOTS as i64;

impl Gate<'_> {
    /// Carries out an order.
    ///
    /// # Arguments
    /// * `lease_ns` - the lease of the conversation that it came in.
    pub(crate) fn obey(&mut self, order: Order, lease_ns: &mut Option<u64>) -> Answer {
        self.now_ns = trimtab_wire::shared::now_ns();
        let answer = match order {
            Order::Read {} => self.readings(),
            Order::Apply { changes } => match self.apply(&changes) {
                Ok(()) => self.done(),
                Err(BadInput(why)) => refused(why),
            },
            Order::Lease { timeout_s } => {
                let timeout_s = timeout_s.unwrap_or(self.start.controller_timeout_s);
                if let Err(BadInput(why)) = check::positive("timeout_s", timeout_s) {
                    return refused(why);
                }
                *lease_ns = Some((timeout_s * 1e9) as u64);
                self.renew(*lease_ns);
                return self.done();
            }
            Order::EndLease {} => {
                self.renew(lease_ns.take());
                self.ledger.settings().lease_ends_ns.store(0, Relaxed);
                self.done()
            }
            Order::Stop {} => {
                self.end = Some(End::Done);
                return self.done();
            }
        };
        self.renew(*lease_ns);
        answer
    }

    /// Opens the gate when the controller's lease has run out.
    pub(super) fn end_lease(&mut self) {
        let settings = self.ledger.settings();
        let ends_ns = settings.lease_ends_ns.load(Relaxed);
        if ends_ns == 0 || ends_ns > self.now_ns || self.budgets.open {
            return;
        }
        crate::say("no order from the controller in time: open, in order of arrival");
        self.close_lanes();
        settings.open.store(1, Relaxed);
        self.budgets.open = true;
    }

    /// Figures for Prometheus.
    pub(crate) fn figures(&mut self) -> Figures {
        Figures {
            mode: self.mode(),
            limit: self.budgets.limit,
            workers: self.workers.len() as u32,
            budgets: self
                .budgets
                .shares()
                .iter()
                .map(|share| share.budget)
                .collect(),
            classes: self.class_readings(),
        }
    }

    fn renew(&mut self, lease_ns: Option<u64>) {
        let Some(lease_ns) = lease_ns else {
            return;
        };
        let settings = self.ledger.settings();
        settings
            .lease_ends_ns
            .store(self.now_ns + lease_ns, Relaxed);
        settings.open.store(0, Relaxed);
        self.budgets.open = false;
    }

    /// Checks all changes, then makes them at one instant.
    fn apply(&mut self, changes: &BTreeMap<String, i64>) -> Result<(), BadInput> {
        let mut limit = self.budgets.limit;
        let mut budgets: Vec<u32> = self
            .budgets
            .shares()
            .iter()
            .map(|share| share.budget)
            .collect();
        if let Some(&wanted) = changes.get(LIMIT) {
            limit = check::within(LIMIT, wanted, 1, MOST)? as u32;
        }
        for (name, &wanted) in changes.iter().filter(|(name, _)| *name != LIMIT) {
            let class = name
                .strip_prefix(BUDGET)
                .and_then(|class| self.start.classes.iter().position(|one| one.name == class))
                .ok_or_else(|| BadInput(format!("unknown knob {name:?}")))?;
            // Of an M that was lowered live the budgets from before may lie beyond, and have to be put back.
            let most = limit.max(self.start.limit);
            budgets[class] = check::within(name, wanted, 0, i64::from(most))? as u32;
        }
        self.close_lanes();
        self.collect();
        self.budgets.set(limit, budgets.iter().copied());
        self.ledger.settings().limit.store(limit, Relaxed);
        for (class, &budget) in budgets.iter().enumerate() {
            self.ledger
                .cell(class)
                .budget
                .store(u64::from(budget), Relaxed);
        }
        self.open_lanes();
        Ok(())
    }

    fn done(&self) -> Answer {
        let classes = self.start.classes.iter().zip(self.budgets.shares());
        let budgets = classes
            .map(|(class, share)| (format!("{BUDGET}{}", class.name), i64::from(share.budget)));
        let limit = (LIMIT.to_owned(), i64::from(self.budgets.limit));
        Answer::Done {
            configuration: budgets.chain([limit]).collect(),
            mode: self.mode(),
            generation: self.began,
        }
    }

    fn readings(&mut self) -> Answer {
        Answer::Readings {
            now_s: self.now_ns as f64 * 1e-9,
            mode: self.mode(),
            classes: self.class_readings(),
        }
    }

    fn class_readings(&mut self) -> Vec<trimtab_wire::gate::ClassReadings> {
        self.collect();
        let readings = |class: usize| {
            self.pass(class);
            let share = self.budgets.shares()[class];
            let (used, used_ns) = self.on_loan(class);
            let first = self.queues[class].first();
            tally::readings(
                self.ledger.cell(class),
                tally::OnLoan {
                    lane: &self.shared.lanes.lanes[class],
                    used_ns,
                },
                &self.start.classes[class].name,
                self.now_ns,
                share.waiting,
                share.in_service - self.lent(class) + used,
                first.map(|number| self.ledger.entry(number).since_ns.load(Relaxed)),
            )
        };
        (0..self.queues.len()).map(readings).collect()
    }

    fn mode(&self) -> Mode {
        match self.budgets.open {
            true => Mode::Open,
            false => Mode::Budgets,
        }
    }
}
