//! What holds for every server and every traffic: Little's law, conservation, determinism.

use std::collections::BTreeMap;

use crate::common::{population, ENDLESS};
use proptest::prelude::*;
use trimtab_sim::System;
use trimtab_wire::sim::Server;
use trimtab_wire::workload::{Arrivals, Connection, Distribution, Population, Step};

prop_compose! {
    fn any_server()(
        workers in 1_u32..40, keep_ms in prop_oneof![Just(0_u32), 1_u32..2000], accept_queue in 0_u32..60,
        cores in 0.3..4.0_f64, worker_memory in 1e6..3e7_f64, spare in 0_u32..12, start in prop_oneof![Just(0_u32), 1_u32..12], cold_ratio in 0.0..1.0_f64,
        lock_ratio in prop_oneof![Just(0.0), 0.0..1.0_f64],
        other_s in prop_oneof![Just(0.0), 0.001..0.05_f64], exponential in any::<bool>(), reload_s in 0.0..1.0_f64,
    ) -> Server {
        Server {
            max_request_workers: workers,
            keep_alive_timeout_ms: keep_ms,
            accept_queue,
            cores,
            memory_limit_bytes: 4e8,
            base_memory_bytes: 4e7,
            worker_memory_bytes: worker_memory,
            spare_workers: spare,
            cold_ratio,
            start_workers: start,
            min_spare_workers: spare / 2,
            swap_bytes_hz: 1.4e9,
            lock_ratio,
            status_timeout_s: 0.0,
            other_s,
            exponential_service: exponential,
            reload_s,
            classes: vec![],
        }
    }
}

prop_compose! {
    fn any_population()(
        arrivals in prop_oneof![
            (1_u32..60).prop_map(|users| Arrivals::Closed { users }),
            (0.1..3.0_f64).prop_map(|rate_hz| Arrivals::Poisson { rate_hz }),
            (0.1..3.0_f64).prop_map(|rate_hz| Arrivals::Constant { rate_hz }),
        ],
        pages in 1.0..9.0_f64, burst in 1.0..8.0_f64, think in 0.01..2.0_f64,
        gap in prop_oneof![Just(0.0), 0.001..1.0_f64], cpu_s in 0.001..0.02_f64,
        connection in prop_oneof![
            Just(Connection::UntilServerCloses), Just(Connection::PerPage), Just(Connection::PerRequest),
        ],
        timeout_s in prop_oneof![Just(ENDLESS), 0.05..5.0_f64], at_s in 0.0..50.0_f64, factor in 0.0..2.0_f64,
    ) -> Population {
        Population {
            session_pages: Distribution::Lognormal { mean: pages, sigma: 3.0 },
            burst_requests: Distribution::Gaussian { mean: burst, sigma: 2.0 },
            think_s: Distribution::Exponential { mean: think },
            object_gap_s: Distribution::Constant { value: gap },
            connection,
            timeout_s,
            schedule: vec![Step { at_s, factor }],
            ..population(arrivals, cpu_s)
        }
    }
}

fn change(workers: u32) -> BTreeMap<String, i64> {
    [("max_request_workers".to_owned(), i64::from(workers))].into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// L = lambda W: the time average of the queue against the waits of the single connections, whose clocks know nothing of it.
    #[test]
    fn little_holds_in_the_accept_queue(server in any_server(), mut clients in any_population(), seed in any::<u64>()) {
        clients.schedule.clear();
        let mut system = System::new(server, &[clients], seed).unwrap();
        let length_s = 600.0;
        system.advance(length_s).unwrap();
        let meter = *system.meter();
        let average = meter.integral.waiting / length_s;
        let by_littles_law = meter.accepted as f64 / length_s * (meter.waited_s / meter.accepted.max(1) as f64);
        // Connections that wait at the end have no finished wait.
        let open = system.waiting_s() / length_s;
        prop_assert!((average - by_littles_law - open).abs() <= 1e-6 * (1.0 + average),
            "L = {average}, lambda W = {by_littles_law}, still waiting {open}");
    }

    #[test]
    fn every_session_ends_fails_or_is_active(
        server in any_server(), clients in prop::collection::vec(any_population(), 1..3), seed in any::<u64>(),
        limits in prop::collection::vec(1_u32..60, 0..4),
    ) {
        let mut system = System::new(server, &clients, seed).unwrap();
        for limit in limits.into_iter().chain([5]) {
            system.advance(20.0).unwrap();
            system.apply(&change(limit)).unwrap();
            let census = system.census();
            prop_assert_eq!(census.started, census.ended + census.failed + census.active);
        }
        system.advance(20.0).unwrap();
        prop_assert_eq!(system.configuration().max_request_workers, 5);
        for (name, value) in system.readings() {
            prop_assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_run_bit_for_bit(
        server in any_server(), clients in any_population(), seed in any::<u64>(), halvings in 0_u32..7,
    ) {
        let run = |parts: u32| {
            let mut system = System::new(server.clone(), std::slice::from_ref(&clients), seed).unwrap();
            for _ in 0..parts {
                system.begin();
                system.advance(64.0 / f64::from(parts)).unwrap();
            }
            system
        };
        let parts = 1 << halvings;
        let (first, second) = (run(parts), run(parts));
        let readings = second.readings();
        for (name, value) in first.readings() {
            prop_assert_eq!(value.to_bits(), readings[&name].to_bits(), "{}", name);
        }
        // Looking on in mid-run disturbs nothing.
        let whole = run(1);
        prop_assert_eq!((first.events(), first.census()), (whole.events(), whole.census()));
        prop_assert!(first.events() >= 64);
    }
}
