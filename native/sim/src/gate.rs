//! The connection scheduler of lu2001 (Section 4.1) in virtual time: a FIFO queue Q_k for each class, and the gate's own
//! [`Budgets`] that say which is served next.
//!
//! It accepts every connection at once. It is not preemptive: a budget below R_k takes nothing back.

use std::collections::{BTreeMap, VecDeque};

use trimtab_wire::budgets::Budgets;
use trimtab_wire::delays::{bucket, upper_us};
use trimtab_wire::sim::Class as Description;

/// The classes in order of priority, highest first; none when the server accepts for itself.
#[derive(Debug)]
pub struct Gate {
    classes: Vec<Class>,
    budgets: Budgets,
}

/// One class of clients.
#[derive(Debug)]
struct Class {
    name: String,
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
    /// Connections dispatched, by the bucket of their delay.
    delays: BTreeMap<usize, u64>,
    queue_s: f64,
    in_service_s: f64,
}

impl Gate {
    /// Empty queues for these classes.
    pub fn new(classes: &[Description]) -> Self {
        let class = |description: &Description| Class {
            name: description.name.clone(),
            queue: VecDeque::new(),
            since_s: 0.0,
            meter: Meter::default(),
        };
        // The workers are the only limit of all classes together.
        let budgets = classes.iter().map(|class| (class.budget, 0));
        Self {
            classes: classes.iter().map(class).collect(),
            budgets: Budgets::new(u32::MAX, false, budgets),
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
        let names = self.classes.iter().map(|class| class.name.as_str());
        names.zip(self.budgets.shares().iter().map(|share| share.budget))
    }

    /// Connections in service R_k in order of priority.
    pub fn in_service(&self) -> impl Iterator<Item = u32> + '_ {
        self.budgets.shares().iter().map(|share| share.in_service)
    }

    /// Connections in all queues.
    pub fn waiting(&self) -> usize {
        self.budgets.waiting() as usize
    }

    /// Gives a class another budget; who is dispatched next follows from it, nobody is called back.
    pub fn set_budget(&mut self, class: usize, budget: u32) {
        let mut budgets: Vec<u32> = self.budgets().map(|(_, budget)| budget).collect();
        budgets[class] = budget;
        self.budgets.set(u32::MAX, budgets.into_iter());
    }

    /// A connection arrives.
    pub fn enqueue(&mut self, now_s: f64, class: usize, slot: u32) {
        self.pass(now_s, class);
        let Class { queue, meter, .. } = &mut self.classes[class];
        meter.arrivals += 1;
        queue.push_back(Waiting {
            slot,
            since_s: now_s,
        });
        self.budgets.joined(class);
    }

    /// The connection that gets the worker that is free now.
    pub fn dispatch(&mut self, now_s: f64) -> Option<u32> {
        let class = self.budgets.next(0, |_| 0)?;
        self.pass(now_s, class);
        let Class { queue, meter, .. } = &mut self.classes[class];
        let Waiting { slot, since_s } = queue.pop_front()?;
        meter.dispatched += 1;
        meter.delay_s += now_s - since_s;
        *meter
            .delays
            .entry(bucket(((now_s - since_s) * 1e9) as u64))
            .or_default() += 1;
        self.budgets.left(class);
        self.budgets.served(class);
        Some(slot)
    }

    /// A worker has closed its connection.
    pub fn leave(&mut self, now_s: f64, class: usize) {
        self.pass(now_s, class);
        self.budgets.released(class);
    }

    /// A client in the queue has given up.
    pub fn abort(&mut self, now_s: f64, class: usize, slot: u32) {
        let queue = &self.classes[class].queue;
        // Clients of one population give up in the order in which they came, so this looks at the head first.
        if let Some(index) = queue.iter().position(|one| one.slot == slot) {
            self.pass(now_s, class);
            self.classes[class].queue.remove(index);
            self.classes[class].meter.aborted += 1;
            self.budgets.left(class);
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
        for (class, in_service) in self.classes.iter().zip(self.in_service()) {
            class.read(now_s, elapsed_s, in_service, readings);
        }
    }

    /// For every class the time that the connections in its queue have waited so far, from their own clocks.
    pub fn waiting_s(&self, now_s: f64) -> impl Iterator<Item = f64> + '_ {
        self.classes
            .iter()
            .map(move |class| class.queue.iter().map(|one| now_s - one.since_s).sum())
    }

    /// Brings the integrals of a class up to now; before its queue or R_k changes.
    fn pass(&mut self, now_s: f64, class: usize) {
        let in_service = self.budgets.shares()[class].in_service;
        let class = &mut self.classes[class];
        let elapsed_s = now_s - class.since_s;
        class.meter.queue_s += elapsed_s * class.queue.len() as f64;
        class.meter.in_service_s += elapsed_s * f64::from(in_service);
        class.since_s = now_s;
    }
}

impl Meter {
    /// The delay of this quantile by nearest rank, at most 1 in 128 too long; None when nothing was dispatched.
    fn delay_s(&self, quantile: f64) -> Option<f64> {
        let rank = ((quantile * self.dispatched as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let mut delays = self.delays.iter();
        let (&bucket, _) = delays.find(|&(_, &count)| {
            seen += count;
            seen >= rank
        })?;
        Some(upper_us(bucket) as f64 / 1e6)
    }
}

impl Class {
    fn read(
        &self,
        now_s: f64,
        elapsed_s: f64,
        in_service: u32,
        readings: &mut BTreeMap<String, f64>,
    ) {
        let mut put = |metric: &str, value: f64| {
            readings.insert(format!("{metric}@{}", self.name), value);
        };
        let meter = &self.meter;
        let since_s = now_s - self.since_s;
        let queue_s = meter.queue_s + since_s * self.queue.len() as f64;
        let in_service_s = meter.in_service_s + since_s * f64::from(in_service);
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
        if let Some(delay_s) = meter.delay_s(0.95) {
            put("connection_delay_p95_s", delay_s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_quantile_of_the_delays_is_that_of_their_ranks() {
        let mut gate = gate(&[100]);
        for slot in 0..100 {
            gate.enqueue(0.0, 0, slot);
        }
        for slot in 1..=100 {
            gate.dispatch(f64::from(slot));
        }
        let delay_s = |quantile| gate.classes[0].meter.delay_s(quantile).unwrap();
        for (quantile, expected_s) in [(0.0, 1.0), (0.5, 50.0), (0.95, 95.0), (1.0, 100.0)] {
            let found = delay_s(quantile) / expected_s;
            assert!(
                (1.0..1.0 + 1.0 / 128.0).contains(&found),
                "{quantile}: {found}"
            );
        }
    }
}
