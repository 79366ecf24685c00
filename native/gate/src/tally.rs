//! Counts and times of the connections of a class, cumulative, in the ledger.

use std::sync::atomic::Ordering::Relaxed;

use trimtab_wire::delays;
use trimtab_wire::gate::ClassReadings;
use trimtab_wire::lanes::Lane;
use trimtab_wire::shared::bucket_floor_ns;

use crate::ledger::{add, Cell};

const NS: f64 = 1e-9;

/// Brings the integrals up to an instant; call it before the queue or R_k changes.
pub fn pass(cell: &Cell, now_ns: u64, queue: u32, in_service: u32) {
    let elapsed_ns = now_ns.saturating_sub(cell.until_ns.load(Relaxed));
    add(&cell.queue_ns, elapsed_ns * u64::from(queue));
    add(&cell.in_service_ns, elapsed_ns * u64::from(in_service));
    cell.until_ns.store(now_ns, Relaxed);
}

/// A connection that counted as in service until now had ended before.
pub fn closed_earlier(cell: &Cell, ns: u64) {
    let counted_ns = cell.in_service_ns.load(Relaxed);
    cell.in_service_ns
        .store(counted_ns.saturating_sub(ns), Relaxed);
}

/// A connection was given to a worker after a delay.
pub fn dispatched(cell: &Cell, delay_ns: u64) {
    add(&cell.dispatched, 1);
    add(&cell.delay_ns, delay_ns);
    add(&cell.delays[delays::bucket(delay_ns)], 1);
}

/// Connections that workers have taken for themselves in a class.
pub struct OnLoan<'a> {
    /// Their own counts.
    pub lane: &'a Lane,
    /// Sum of the times of the connections that they have now.
    pub used_ns: u64,
}

/// The readings of a class.
///
/// # Arguments
/// * `now_ns` - the integrals have been brought up to it.
/// * `oldest_ns` - when the first of the queue was accepted.
pub fn readings(
    cell: &Cell,
    loan: OnLoan<'_>,
    class: &str,
    now_ns: u64,
    queue: u32,
    in_service: u32,
    oldest_ns: Option<u64>,
) -> ClassReadings {
    let oldest_ns = oldest_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
    let taken = loan.lane.taken.load(Relaxed);
    // The workers' counts are whatever one of them has written last.
    let more =
        |own: &std::sync::atomic::AtomicU64, lent: u64| own.load(Relaxed).saturating_add(lent);
    let delay_ns = more(&cell.delay_ns, loan.lane.delay_ns.load(Relaxed));
    let lent_ns = more(&loan.lane.held_ns, loan.used_ns);
    ClassReadings {
        class: class.to_owned(),
        arrivals: more(&cell.arrivals, taken),
        dispatched: more(&cell.dispatched, taken),
        refused: cell.refused.load(Relaxed),
        aborted: cell.aborted.load(Relaxed),
        delay_sum_s: delay_ns as f64 * NS,
        delay_buckets: buckets(cell, loan.lane),
        queue,
        in_service,
        queue_connection_s: cell.queue_ns.load(Relaxed) as f64 * NS,
        in_service_connection_s: more(&cell.in_service_ns, lent_ns) as f64 * NS,
        oldest_wait_s: oldest_ns as f64 * NS,
    }
}

fn buckets(cell: &Cell, lane: &Lane) -> Vec<(u64, u64)> {
    let mut counts: Vec<u64> = cell
        .delays
        .iter()
        .map(|count| count.load(Relaxed))
        .collect();
    for (index, count) in lane.delays.iter().enumerate() {
        let sum = &mut counts[delays::bucket(bucket_floor_ns(index))];
        *sum = sum.saturating_add(count.load(Relaxed));
    }
    counts
        .into_iter()
        .enumerate()
        .map(|(index, count)| (delays::upper_us(index), count))
        .filter(|&(_, count)| count > 0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    fn loan(lane: &Lane, used_ns: u64) -> OnLoan<'_> {
        OnLoan { lane, used_ns }
    }

    #[test]
    fn what_workers_took_for_themselves_counts_too() {
        let (ledger, lane) = (Ledger::new(0).unwrap(), Lane::default());
        let cell = ledger.cell(0);
        dispatched(cell, 5_000);
        lane.count(0);
        lane.count(500_000_000);
        lane.held_ns.store(2_000_000_000, Relaxed);
        let seen = readings(cell, loan(&lane, 1_000_000_000), "a", 0, 0, 1, None);
        assert_eq!((seen.arrivals, seen.dispatched), (2, 3));
        assert_eq!(seen.delay_buckets.iter().map(|&(_, n)| n).sum::<u64>(), 3);
        assert_eq!(seen.delay_buckets[0], (0, 1));
        assert!((seen.delay_sum_s - 0.500005).abs() < 1e-12);
        assert_eq!((seen.in_service_connection_s, seen.in_service), (3.0, 1));
    }

    #[test]
    fn integrals_are_counts_times_the_time_they_held() {
        let ledger = Ledger::new(0).unwrap();
        let cell = ledger.cell(0);
        cell.until_ns.store(1_000_000_000, Relaxed);
        pass(cell, 3_000_000_000, 2, 1);
        pass(cell, 4_000_000_000, 0, 3);
        let seen = readings(
            cell,
            loan(&Lane::default(), 0),
            "a",
            4_000_000_000,
            0,
            3,
            None,
        );
        assert_eq!(
            (seen.queue_connection_s, seen.in_service_connection_s),
            (4.0, 5.0)
        );
        assert_eq!(seen.oldest_wait_s, 0.0);
    }

    #[test]
    fn delays_are_summed_and_counted_by_bucket() {
        let ledger = Ledger::new(0).unwrap();
        let cell = ledger.cell(1);
        dispatched(cell, 5_000);
        dispatched(cell, 5_900);
        dispatched(cell, 500_000_000);
        let seen = readings(
            cell,
            loan(&Lane::default(), 0),
            "a",
            2_000_000_000,
            1,
            0,
            Some(1_500_000_000),
        );
        assert_eq!(seen.delay_buckets, [(5, 2), (501_759, 1)]);
        assert!((seen.delay_sum_s - 0.5000109).abs() < 1e-12);
        assert_eq!((seen.dispatched, seen.oldest_wait_s), (3, 0.5));
    }
}
