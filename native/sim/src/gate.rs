//! The connection scheduler of lu2001 (Section 4.1): for each class a FIFO queue Q_k, a process budget B_k and a counter R_k.
//!
//! It accepts every connection at once. While a worker is free it gives it the head of the queue of the highest-priority class
//! among those with R_k < B_k that have one waiting. It is not preemptive: a budget below R_k takes nothing back.

use std::collections::{BTreeMap, VecDeque};

use trimtab_wire::sim::Class as Description;

use crate::delays::Delays;

/// The classes in order of priority, highest first; none when the server accepts for itself.
#[derive(Debug)]
pub struct Gate {
    classes: Vec<Class>,
    waiting: usize,
}

/// One class of clients.
#[derive(Debug)]
struct Class {
    name: String,
    budget: u32,
    in_service: u32,
    queue: VecDeque<Waiting>,
    /// When the integrals were last brought up to date.
    since_s: f64,
    meter: Meter,
}

/// A connection in a queue.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    slot: u32,
    since_s: f64,
}

/// Sums of a class since the start of the measuring interval.
#[derive(Debug, Default)]
struct Meter {
    arrivals: u64,
    dispatched: u64,
    aborted: u64,
    delay_s: f64,
    delays: Delays,
    queue_s: f64,
    in_service_s: f64,
}

impl Gate {
    /// Empty queues for these classes.
    pub fn new(classes: &[Description]) -> Self {
        let class = |description: &Description| Class {
            name: description.name.clone(),
            budget: description.budget,
            in_service: 0,
            queue: VecDeque::new(),
            since_s: 0.0,
            meter: Meter::default(),
        };
        Self {
            classes: classes.iter().map(class).collect(),
            waiting: 0,
        }
    }

    /// True when there are classes.
    pub fn is_there(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Index of the class of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.name == name)
    }

    /// Names and budgets B_k in order of priority.
    pub fn budgets(&self) -> impl Iterator<Item = (&str, u32)> {
        self.classes
            .iter()
            .map(|class| (class.name.as_str(), class.budget))
    }

    /// Connections in service R_k in order of priority.
    pub fn in_service(&self) -> impl Iterator<Item = u32> + '_ {
        self.classes.iter().map(|class| class.in_service)
    }

    /// Connections in all queues.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives a class another budget; who is dispatched next follows from it, nobody is called back.
    pub fn set_budget(&mut self, class: usize, budget: u32) {
        self.classes[class].budget = budget;
    }

    /// A connection arrives.
    pub fn enqueue(&mut self, now_s: f64, class: usize, slot: u32) {
        let class = &mut self.classes[class];
        class.pass(now_s);
        class.meter.arrivals += 1;
        class.queue.push_back(Waiting {
            slot,
            since_s: now_s,
        });
        self.waiting += 1;
    }

    /// The connection that gets the worker that is free now.
    pub fn dispatch(&mut self, now_s: f64) -> Option<u32> {
        if self.waiting == 0 {
            return None;
        }
        let eligible =
            |class: &&mut Class| class.in_service < class.budget && !class.queue.is_empty();
        let class = self.classes.iter_mut().find(eligible)?;
        class.pass(now_s);
        let Waiting { slot, since_s } = class.queue.pop_front()?;
        class.in_service += 1;
        class.meter.dispatched += 1;
        class.meter.delay_s += now_s - since_s;
        class.meter.delays.record(now_s - since_s);
        self.waiting -= 1;
        Some(slot)
    }

    /// A worker has closed its connection.
    pub fn leave(&mut self, now_s: f64, class: usize) {
        let class = &mut self.classes[class];
        class.pass(now_s);
        class.in_service -= 1;
    }

    /// A client in the queue has given up.
    pub fn abort(&mut self, now_s: f64, class: usize, slot: u32) {
        let class = &mut self.classes[class];
        // Clients of one population give up in the order in which they came, so this looks at the head first.
        if let Some(index) = class.queue.iter().position(|one| one.slot == slot) {
            class.pass(now_s);
            class.queue.remove(index);
            class.meter.aborted += 1;
            self.waiting -= 1;
        }
    }

    /// Starts a new measuring interval.
    pub fn begin(&mut self, now_s: f64) {
        for class in &mut self.classes {
            class.since_s = now_s;
            class.meter = Meter::default();
        }
    }

    /// Enters the readings of every class under `METRIC@CLASS`; what had no sample is absent.
    pub fn read(&self, now_s: f64, elapsed_s: f64, readings: &mut BTreeMap<String, f64>) {
        for class in &self.classes {
            class.read(now_s, elapsed_s, readings);
        }
    }

    /// For every class the time that the connections in its queue have waited so far, from their own clocks.
    pub fn waiting_s(&self, now_s: f64) -> impl Iterator<Item = f64> + '_ {
        self.classes
            .iter()
            .map(move |class| class.queue.iter().map(|one| now_s - one.since_s).sum())
    }
}

impl Class {
    fn pass(&mut self, now_s: f64) {
        let elapsed_s = now_s - self.since_s;
        self.meter.queue_s += elapsed_s * self.queue.len() as f64;
        self.meter.in_service_s += elapsed_s * f64::from(self.in_service);
        self.since_s = now_s;
    }

    fn read(&self, now_s: f64, elapsed_s: f64, readings: &mut BTreeMap<String, f64>) {
        let mut put = |metric: &str, value: f64| {
            readings.insert(format!("{metric}@{}", self.name), value);
        };
        let meter = &self.meter;
        let since_s = now_s - self.since_s;
        let queue_s = meter.queue_s + since_s * self.queue.len() as f64;
        let in_service_s = meter.in_service_s + since_s * f64::from(self.in_service);
        put("queue_length", queue_s / elapsed_s);
        put("in_service", in_service_s / elapsed_s);
        put("arrival_rate_hz", meter.arrivals as f64 / elapsed_s);
        put("dispatch_rate_hz", meter.dispatched as f64 / elapsed_s);
        put("aborted_rate_hz", meter.aborted as f64 / elapsed_s);
        if let Some(first) = self.queue.front() {
            put("oldest_wait_s", now_s - first.since_s);
        }
        if meter.dispatched > 0 {
            put(
                "connection_delay_s",
                meter.delay_s / meter.dispatched as f64,
            );
        }
        if let Some(delay_s) = meter.delays.quantile_s(0.95) {
            put("connection_delay_p95_s", delay_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn gate(budgets: &[u32]) -> Gate {
        let classes: Vec<Description> = budgets
            .iter()
            .enumerate()
            .map(|(index, &budget)| Description {
                name: format!("c{index}"),
                budget,
            })
            .collect();
        Gate::new(&classes)
    }

    fn in_service(gate: &Gate) -> Vec<u32> {
        gate.in_service().collect()
    }

    #[test]
    fn the_highest_class_with_room_goes_first_and_each_class_in_order_of_arrival() {
        let mut gate = gate(&[1, 2]);
        for (slot, class) in [(0, 1), (1, 1), (2, 0), (3, 0), (4, 1)] {
            gate.enqueue(0.0, class, slot);
        }
        let order: Vec<u32> = std::iter::from_fn(|| gate.dispatch(1.0)).collect();
        assert_eq!(order, [2, 0, 1]);
        gate.leave(2.0, 1);
        assert_eq!(gate.dispatch(2.0), Some(4));
        assert_eq!(gate.dispatch(2.0), None);
        gate.leave(3.0, 0);
        assert_eq!(gate.dispatch(3.0), Some(3));
        assert_eq!(gate.waiting(), 0);
    }

    #[test]
    fn a_client_that_gave_up_is_counted_and_takes_no_worker() {
        let mut gate = gate(&[5]);
        gate.enqueue(0.0, 0, 7);
        gate.enqueue(1.0, 0, 8);
        gate.abort(3.0, 0, 7);
        assert_eq!(gate.dispatch(4.0), Some(8));
        assert_eq!(gate.dispatch(4.0), None);
        let mut readings = BTreeMap::new();
        gate.read(4.0, 4.0, &mut readings);
        assert_eq!(readings["aborted_rate_hz@c0"], 0.25);
        assert_eq!(readings["connection_delay_s@c0"], 3.0);
        assert_eq!(readings["queue_length@c0"], (3.0 + 3.0) / 4.0);
        assert!(!readings.contains_key("oldest_wait_s@c0"));
    }

    #[test]
    fn a_class_that_dispatched_nothing_has_no_delay() {
        let mut gate = gate(&[0]);
        gate.enqueue(1.0, 0, 7);
        assert_eq!(gate.dispatch(2.0), None);
        let mut readings = BTreeMap::new();
        gate.read(5.0, 5.0, &mut readings);
        assert_eq!(readings["oldest_wait_s@c0"], 4.0);
        assert_eq!(readings["dispatch_rate_hz@c0"], 0.0);
        assert!(!readings.contains_key("connection_delay_s@c0"));
        assert!(!readings.contains_key("connection_delay_p95_s@c0"));
    }

    #[derive(Debug, Clone, Copy)]
    enum Happens {
        Arrive(usize),
        Leave(usize),
        Budget(usize, u32),
    }

    fn anything() -> impl Strategy<Value = Happens> {
        prop_oneof![
            4 => (0..3_usize).prop_map(Happens::Arrive),
            3 => (0..3_usize).prop_map(Happens::Leave),
            1 => (0..3_usize, 0..9_u32).prop_map(|(class, budget)| Happens::Budget(class, budget)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// R_k grows only below B_k, falls only when a worker closes, and no free worker is kept from a class with room.
        #[test]
        fn budgets_hold_at_every_instant(workers in 1..12_u32, story in prop::collection::vec(anything(), 1..300)) {
            let mut gate = gate(&[3, 3, 3]);
            for (slot, happens) in (0..).zip(story) {
                let before = in_service(&gate);
                match happens {
                    Happens::Arrive(class) => gate.enqueue(f64::from(slot), class, slot),
                    Happens::Leave(class) if before[class] > 0 => gate.leave(f64::from(slot), class),
                    Happens::Leave(_) => {}
                    Happens::Budget(class, budget) => {
                        gate.set_budget(class, budget);
                        prop_assert_eq!(in_service(&gate), before.clone());
                    }
                }
                loop {
                    let (held, budgets) = (in_service(&gate), gate.budgets().map(|(_, b)| b).collect::<Vec<_>>());
                    let room = held.iter().sum::<u32>() < workers;
                    let waits: Vec<bool> = gate.classes.iter().map(|c| !c.queue.is_empty()).collect();
                    let first = (0..3).find(|&k| waits[k] && held[k] < budgets[k]);
                    if !room {
                        break;
                    }
                    let sent = gate.dispatch(f64::from(slot));
                    prop_assert_eq!(sent.is_some(), first.is_some());
                    let Some(class) = first else { break };
                    let mut expected = held;
                    expected[class] += 1;
                    prop_assert_eq!(in_service(&gate), expected);
                }
            }
        }
    }
}
