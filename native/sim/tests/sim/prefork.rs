//! A prefork pool, its memory, a lock and a status page, with numbers that can be followed by hand.

use std::collections::BTreeMap;

use crate::common::{agrees, population, server, users};
use proptest::prelude::*;
use trimtab_sim::System;
use trimtab_wire::sim::Server;
use trimtab_wire::workload::{Arrivals, Distribution, Population};

/// Debian's own pool, which serves with constant times.
fn debian(limit: u32) -> Server {
    Server {
        start_workers: 5,
        min_spare_workers: 5,
        spare_workers: 10,
        exponential_service: false,
        ..server(limit, 64.0)
    }
}

fn level(system: &mut System, name: &str, length_s: f64) -> f64 {
    system.begin();
    system.advance(length_s).unwrap();
    system.readings()[name]
}

fn workers(system: &mut System) -> f64 {
    level(system, "busy_workers", 1e-6) + level(system, "idle_workers", 1e-6)
}

fn change(name: &str, value: i64) -> BTreeMap<String, i64> {
    [(name.to_owned(), value)].into()
}

fn close(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() < 1e-3 * expected.abs().max(1.0),
        "{value} instead of {expected}"
    );
}

/// Workers in the middle of each of these seconds, under clients who keep all of them busy.
fn growth(limit: u32, seconds: usize, reload_at: Option<usize>) -> Vec<f64> {
    let server = Server {
        reload_s: 0.1,
        ..debian(limit)
    };
    let mut system = System::new(server, &[users(500, 1e-3, 1e3)], 1).unwrap();
    (0..seconds)
        .map(|second| {
            if reload_at == Some(second) {
                system.apply(&change("keep_alive_timeout_ms", 1)).unwrap();
            }
            system.advance(0.5).unwrap();
            let found = workers(&mut system);
            system.advance(0.5 - 2e-6).unwrap();
            found
        })
        .collect()
}

#[test]
fn a_pool_grows_by_one_two_four_up_to_thirty_two_a_second() {
    let expected = [5, 6, 8, 12, 20, 36, 68, 100, 132, 150, 150].map(f64::from);
    for (found, expected) in growth(150, 11, None).into_iter().zip(expected) {
        close(found, expected);
    }
}

#[test]
fn a_pool_after_a_reload_grows_by_one_a_second_for_ten_seconds() {
    // The requests in hand outlast the test: the old workers stay, and as many start.
    let found = growth(400, 19, Some(3));
    let expected = [
        5, 6, 8, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 37, 41, 49, 65,
    ];
    for (found, expected) in found.into_iter().zip(expected.map(f64::from)) {
        close(found, expected);
    }
}

#[test]
fn an_idle_pool_shrinks_by_one_a_second_to_its_most_spare_ones() {
    let full = Server {
        start_workers: 20,
        ..debian(50)
    };
    let mut system = System::new(full, &[], 1).unwrap();
    for expected in [20.0, 19.0, 18.0] {
        system.advance(0.5).unwrap();
        close(workers(&mut system), expected);
        system.advance(0.5 - 2e-6).unwrap();
    }
    system.advance(30.0).unwrap();
    close(workers(&mut system), 10.0);
}

#[test]
fn a_reload_ends_workers_with_an_idle_connection_and_starts_as_many_as_ran_and_may() {
    let keeping = Server {
        keep_alive_timeout_ms: 1_000_000,
        reload_s: 0.25,
        ..debian(150)
    };
    let mut system = System::new(keeping, &[users(60, 1e5, 0.01)], 1).unwrap();
    system.advance(60.0).unwrap();
    close(level(&mut system, "idle_held_workers", 1.0), 60.0);
    for (limit, started) in [(100, 68.0), (20, 20.0)] {
        system.apply(&change("max_request_workers", limit)).unwrap();
        system.advance(0.1).unwrap();
        close(workers(&mut system), 0.0);
        system.advance(0.2).unwrap();
        close(workers(&mut system), started);
    }
}

#[test]
fn while_a_server_reloads_nobody_is_accepted() {
    let slow = Server {
        reload_s: 2.0,
        ..debian(150)
    };
    let clients = population(Arrivals::Constant { rate_hz: 10.0 }, 0.001);
    let mut system = System::new(slow, &[clients], 1).unwrap();
    system.advance(5.0).unwrap();
    system.apply(&change("max_request_workers", 100)).unwrap();
    system.begin();
    system.advance(1.9).unwrap();
    assert_eq!((system.meter().accepted, system.meter().entered), (0, 19));
    system.advance(0.2).unwrap();
    assert!(system.meter().accepted > 0);
}

#[test]
fn workers_are_small_until_they_have_served() {
    let full = Server {
        start_workers: 10,
        min_spare_workers: 10,
        worker_memory_bytes: 1e7,
        ..debian(10)
    };
    let mut system = System::new(full.clone(), &[], 1).unwrap();
    close(level(&mut system, "memory_bytes", 1.0), 10.0 * 1e6);
    let clients = population(Arrivals::Constant { rate_hz: 1.0 }, 0.001);
    let mut system = System::new(full, &[clients], 1).unwrap();
    system.advance(3.5).unwrap();
    close(
        level(&mut system, "memory_bytes", 0.1),
        3.0 * 1e7 + 7.0 * 1e6,
    );
    system.advance(60.0).unwrap();
    close(level(&mut system, "memory_bytes", 0.1), 10.0 * 1e7);
}

/// Ten workers of 1 MB in 5 MB.
fn tight(cold_ratio: f64) -> Server {
    Server {
        start_workers: 10,
        min_spare_workers: 10,
        worker_memory_bytes: 1e6,
        memory_limit_bytes: 5e6,
        swap_bytes_hz: 1e8,
        cold_ratio,
        ..debian(10)
    }
}

#[test]
fn cold_memory_that_does_not_fit_costs_its_eviction_only() {
    let clients = population(Arrivals::Constant { rate_hz: 1.0 }, 0.001);
    let mut system = System::new(tight(0.6), std::slice::from_ref(&clients), 1).unwrap();
    system.advance(30.0).unwrap();
    system.begin();
    system.advance(100.0).unwrap();
    let readings = system.readings();
    close(readings["memory_ratio"], 2.0);
    close(readings["service_time_s"], 0.001);
    close(readings["memory_pressure_ratio"], 0.0);
    close(readings["swap_in_rate_hz"], 0.0);
    // Hot memory of which half fits: each request brings half of its worker's back.
    let mut system = System::new(tight(0.0), &[clients], 1).unwrap();
    system.advance(30.0).unwrap();
    system.begin();
    system.advance(100.0).unwrap();
    let readings = system.readings();
    close(readings["service_time_s"], 0.001 + 0.5e6 / 1e8);
    close(readings["swap_in_rate_hz"], 0.5e6 / 4096.0);
    close(readings["memory_pressure_ratio"], 0.006 * 5.0 / 6.0);
    close(readings["cpu_ratio"], 6.0 * readings["cpu_user_ratio"]);
}

#[test]
fn requests_that_spend_half_their_time_under_a_lock_complete_two_in_that_time() {
    let locked = Server {
        lock_ratio: 0.5,
        other_s: 0.1,
        ..server(50, 50.0)
    };
    let served = Server {
        exponential_service: false,
        ..locked
    };
    let mut system = System::new(served, &[users(40, 1e-3, 0.1)], 1).unwrap();
    system.advance(100.0).unwrap();
    close(level(&mut system, "request_rate_hz", 1000.0), 10.0);
}

#[test]
fn a_lock_for_the_whole_request_makes_one_server_of_many() {
    let one = Server {
        lock_ratio: 1.0,
        ..server(100_000, 64.0)
    };
    let rho: f64 = 0.7;
    let clients = population(Arrivals::Poisson { rate_hz: 70.0 }, 0.01);
    let theory = [
        ("service_time_s", 0.01 / (1.0 - rho)),
        ("client_outstanding_requests", rho / (1.0 - rho)),
    ];
    agrees(&one, &clients, 100.0, 2000.0, &theory);
}

#[test]
fn what_clients_waited_counts_those_who_gave_up_at_their_patience() {
    let clients = Population {
        timeout_s: 0.25,
        session_pages: Distribution::Constant { value: 3.0 },
        burst_requests: Distribution::Constant { value: 2.0 },
        ..population(Arrivals::Constant { rate_hz: 1.0 }, 0.75)
    };
    let mut system = System::new(debian(10), &[clients], 1).unwrap();
    system.advance(10.0).unwrap();
    close(
        level(&mut system, "client_outstanding_requests", 20.0),
        0.25,
    );
    close(system.readings()["client_error_rate_hz"], 1.0);
    // All of it, whatever interval is measured.
    close(system.totals().waited_s, 29.0 * 0.25);
    assert_eq!(
        (system.totals().given_up, system.totals().unsent),
        (29, 29 * 5)
    );
}

#[test]
fn the_status_page_is_silent_while_its_wait_exceeds_its_patience() {
    for (status_timeout_s, there) in [(0.0, true), (1.0, false), (1e3, true)] {
        let blind = Server {
            status_timeout_s,
            ..debian(5)
        };
        let mut system = System::new(blind, &[users(200, 1e-3, 0.1)], 1).unwrap();
        system.advance(20.0).unwrap();
        system.begin();
        system.advance(10.0).unwrap();
        let readings = system.readings();
        assert_eq!(readings.contains_key("idle_workers"), there);
        assert!(readings.contains_key("busy_workers"));
        assert_eq!(readings.contains_key("request_time_s"), there);
        assert!(readings["accept_queue_delay_s"] > 2.0 && readings.contains_key("cpu_ratio"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is changed under load, workers that hold a connection exist, and every request is answered, given up or waited for.
    #[test]
    fn no_request_is_lost_and_no_worker_made_up(
        start in 1_u32..40, least in 0_u32..10, more in 0_u32..10, lock_ratio in prop_oneof![Just(0.0), 0.0..1.0_f64],
        changes in prop::collection::vec((1_i64..60, 0_i64..2000), 0..6), rate_hz in 1.0..60.0_f64, seed in any::<u64>(),
    ) {
        let server = Server {
            start_workers: start,
            min_spare_workers: least,
            spare_workers: least + more,
            lock_ratio,
            other_s: 0.02,
            reload_s: 0.3,
            memory_limit_bytes: 2e7,
            ..server(30, 1.0)
        };
        let clients = Population {
            session_pages: Distribution::Constant { value: 3.0 },
            think_s: Distribution::Exponential { mean: 0.5 },
            timeout_s: 2.0,
            ..population(Arrivals::Poisson { rate_hz }, 0.01)
        };
        let mut system = System::new(server, &[clients], seed).unwrap();
        for (workers, keep_ms) in changes {
            system.advance(3.0).unwrap();
            system.apply(&change("max_request_workers", workers)).unwrap();
            system.apply(&change("keep_alive_timeout_ms", keep_ms)).unwrap();
        }
        system.advance(5.0).unwrap();
        let census = system.census();
        prop_assert_eq!(census.started, census.ended + census.failed + census.active);
        let (meter, waiting) = (*system.meter(), system.outstanding());
        prop_assert_eq!(meter.requests, meter.replies + meter.errors + u64::from(waiting));
        system.begin();
        system.advance(1.0).unwrap();
        for (name, value) in system.readings() {
            prop_assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        }
    }
}
