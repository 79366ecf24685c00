//! Classes of clients: queues, budgets, and what becomes of a change of them.

use std::collections::BTreeMap;

use crate::common::{population, run, server, users, ENDLESS};
use proptest::prelude::*;
use trimtab_sim::{answer, System};
use trimtab_wire::sim::{Answer, Class, Order, Server};
use trimtab_wire::workload::{Arrivals, Connection, Distribution, Population};

fn class(name: &str, budget: u32) -> Class {
    Class {
        name: name.to_owned(),
        budget,
    }
}

fn classed(workers: u32, budgets: &[u32]) -> Server {
    let classes = "abcdefgh".chars().zip(budgets);
    Server {
        accept_queue: 0,
        classes: classes
            .map(|(name, &budget)| class(&name.to_string(), budget))
            .collect(),
        ..server(workers, 8.0)
    }
}

fn of(name: &str, clients: Population) -> Population {
    Population {
        class: name.to_owned(),
        ..clients
    }
}

fn budgets<const N: usize>(changes: [(&str, i64); N]) -> BTreeMap<String, i64> {
    changes.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Users whose idle connections hold their workers, as under HTTP/1.1 in lu2001.
fn surfers(name: &str, count: u32) -> Population {
    Population {
        burst_requests: Distribution::Constant { value: 3.0 },
        think_s: Distribution::Pareto {
            scale: 1.0,
            shape: 1.5,
        },
        ..of(name, users(count, 1.0, 0.01))
    }
}

/// Such users, 150 of them in class b, on 64 workers that keep connections for 2 s.
fn surfed(in_a: u32, budgets: &[u32], seed: u64) -> System {
    let server = Server {
        keep_alive_timeout_ms: 2000,
        ..classed(64, budgets)
    };
    let clients = [surfers("a", in_a), surfers("b", 150)];
    System::new(server, &clients, seed).unwrap()
}

fn delays_after(system: &mut System, warm_s: f64, length_s: f64) -> (f64, f64) {
    system.advance(warm_s).unwrap();
    system.begin();
    system.advance(length_s).unwrap();
    let readings = system.readings();
    (
        readings["connection_delay_s@a"],
        readings["connection_delay_s@b"],
    )
}

#[test]
fn more_budget_means_less_delay_and_the_other_class_pays() {
    for seed in 0..3 {
        let mut system = surfed(150, &[32, 32], seed);
        let (a, b) = delays_after(&mut system, 100.0, 1000.0);
        assert!((a / b - 1.0).abs() < 0.15, "equal budgets, {a} and {b} s");
        let changes = budgets([("process_budget@a", 48), ("process_budget@b", 16)]);
        system.apply(&changes).unwrap();
        let (a_after, b_after) = delays_after(&mut system, 100.0, 1000.0);
        assert!(
            a_after < 0.7 * a && b_after > 1.7 * b,
            "{a} to {a_after}, {b} to {b_after}"
        );
    }
}

#[test]
fn budgets_beyond_the_workers_are_served_in_order_of_priority() {
    let mut system = surfed(60, &[64, 64], 1);
    let (a, b) = delays_after(&mut system, 100.0, 1000.0);
    assert!(b > 5.0 * a, "{a} and {b}");
}

#[test]
fn a_budget_that_falls_takes_no_worker_back_and_is_reached_as_they_close() {
    let mut system = surfed(150, &[32, 32], 3);
    system.advance(50.0).unwrap();
    assert_eq!(system.in_service(), [32, 32]);
    let changes = budgets([("process_budget@a", 60), ("process_budget@b", 4)]);
    system.apply(&changes).unwrap();
    assert_eq!(system.in_service(), [32, 32]);
    let mut before = 32;
    for _ in 0..4000 {
        system.advance(0.005).unwrap();
        let held = system.in_service();
        assert!(held[1] <= before && held[0] <= 60 && held[0] + held[1] <= 64);
        before = held[1].max(4);
    }
    assert_eq!(system.in_service(), [60, 4]);
}

#[test]
fn budgets_and_the_worker_limit_change_at_one_instant_without_a_reload() {
    let mut system = surfed(150, &[32, 32], 3);
    system.advance(50.0).unwrap();
    let changes = budgets([
        ("process_budget@a", 40),
        ("process_budget@b", 40),
        ("max_request_workers", 80),
    ]);
    system.apply(&changes).unwrap();
    assert_eq!(system.in_service(), [40, 40]);
    assert_eq!(system.configuration().max_request_workers, 80);
}

#[test]
fn a_refused_change_changes_no_budget() {
    let mut system = surfed(150, &[32, 32], 3);
    for (name, value) in [
        ("process_budget@b", -1),
        ("process_budget@z", 5),
        ("max_request_workers", 0),
    ] {
        let changes = budgets([("process_budget@a", 40), (name, value)]);
        let error = system.apply(&changes).unwrap_err();
        assert!(error.0.contains(name.trim_start_matches("process_budget@")));
        let now: Vec<i64> = system.budgets().map(|(_, budget)| budget).collect();
        assert_eq!(now, [32, 32]);
    }
}

#[test]
fn a_server_that_must_reload_keeps_the_budgets_that_came_meanwhile() {
    let slow = Server {
        reload_s: 2.0,
        ..classed(4, &[2, 2])
    };
    let mut system = System::new(slow, &[surfers("a", 9), surfers("b", 9)], 1).unwrap();
    let both = budgets([("keep_alive_timeout_ms", 700), ("max_request_workers", 5)]);
    system.apply(&both).unwrap();
    assert_eq!(system.configuration().max_request_workers, 5);
    assert_eq!(system.configuration().keep_alive_timeout_ms, 0);
    system.advance(1.0).unwrap();
    system
        .apply(&budgets([("max_request_workers", 6)]))
        .unwrap();
    system.advance(1.0).unwrap();
    assert_eq!(system.configuration().max_request_workers, 6);
    assert_eq!(system.configuration().keep_alive_timeout_ms, 700);
}

#[test]
fn a_client_that_gives_up_in_the_queue_leaves_it_and_nothing_is_served_in_vain() {
    let clients = Population {
        timeout_s: 0.25,
        ..of("a", population(Arrivals::Constant { rate_hz: 10.0 }, 10.0))
    };
    let mut system = System::new(classed(1, &[0]), &[clients], 1).unwrap();
    system.advance(10.05).unwrap();
    let readings = system.readings();
    assert_eq!(system.meter().served, 0);
    assert!((readings["queue_length@a"] - 2.5).abs() < 0.1);
    assert!((readings["aborted_rate_hz@a"] - 9.8).abs() < 0.2);
    assert!(readings["oldest_wait_s@a"] <= 0.25);
    assert!(!readings.contains_key("connection_delay_s@a"));
}

#[test]
fn classes_without_sense_are_refused() {
    let clients = [users(1, 1.0, 0.1)];
    for (classes, says) in [
        (vec![class("all", 1), class("all", 2)], "all"),
        (vec![class(" ", 1)], "name"),
        (vec![class("all", u32::MAX)], "budget"),
        (vec![class("some", 1)], "\"all\" belongs to no class"),
    ] {
        let server = Server {
            classes,
            ..server(1, 1.0)
        };
        let error = System::new(server, &clients, 1).unwrap_err();
        assert!(error.0.contains(says), "{error}");
    }
}

#[test]
fn the_answer_carries_the_budgets_and_a_start_without_classes_is_still_understood() {
    let start = Order::Start {
        server: classed(7, &[3, 4]),
        populations: vec![surfers("b", 2)],
        seed: 1,
    };
    let mut line = serde_json::to_value(&start).unwrap();
    let Answer::Done { configuration, .. } = answer(&mut None, &line.to_string()) else {
        panic!("refused");
    };
    let expected = budgets([
        ("keep_alive_timeout_ms", 0),
        ("max_request_workers", 7),
        ("process_budget@a", 3),
        ("process_budget@b", 4),
    ]);
    assert_eq!(configuration, expected);
    line["server"].as_object_mut().unwrap().remove("classes");
    let Answer::Done { configuration, .. } = answer(&mut None, &line.to_string()) else {
        panic!("refused");
    };
    assert_eq!(configuration.len(), 2);
}

prop_compose! {
    fn any_clients()(
        count in 1_u32..60, burst in 1.0..6.0_f64, think in 0.01..2.0_f64, gap in prop_oneof![Just(0.0), 0.01..0.5_f64],
        timeout_s in prop_oneof![Just(ENDLESS), 0.1..9.0_f64], cpu_s in 0.001..0.1_f64,
        connection in prop_oneof![
            Just(Connection::UntilServerCloses), Just(Connection::PerPage), Just(Connection::PerRequest),
        ],
    ) -> Population {
        Population {
            session_pages: Distribution::Lognormal { mean: 9.0, sigma: 5.0 },
            burst_requests: Distribution::Gaussian { mean: burst, sigma: 2.0 },
            object_gap_s: Distribution::Constant { value: gap },
            timeout_s,
            connection,
            ..users(count, think, cpu_s)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// L = lambda W for each class: its queue's time average against the single waits of those dispatched.
    #[test]
    fn little_holds_in_every_queue_and_no_class_exceeds_its_budget(
        clients in prop::collection::vec(any_clients(), 3), budget in prop::collection::vec(1_u32..20, 3),
        workers in 1_u32..40, keep_ms in 0_u32..3000, seed in any::<u64>(),
    ) {
        let server = Server { keep_alive_timeout_ms: keep_ms, ..classed(workers, &budget) };
        let patient = clients.iter().map(|c| Population { timeout_s: ENDLESS, ..c.clone() });
        let named: Vec<Population> = ["a", "b", "c"].iter().zip(patient).map(|(n, c)| of(n, c)).collect();
        let mut system = System::new(server, &named, seed).unwrap();
        let (parts, length_s) = (300, 300.0);
        for _ in 0..parts {
            system.advance(length_s / f64::from(parts)).unwrap();
            let held = system.in_service();
            prop_assert!(held.iter().zip(&budget).all(|(held, budget)| held <= budget));
            prop_assert!(held.iter().sum::<u32>() <= workers);
        }
        let readings = system.readings();
        for (name, waiting_s) in ["a", "b", "c"].iter().zip(system.waiting_by_class_s()) {
            let get = |metric: &str| readings.get(&format!("{metric}@{name}")).copied().unwrap_or(0.0);
            let by_littles_law = get("dispatch_rate_hz") * get("connection_delay_s") + waiting_s / length_s;
            let average = get("queue_length");
            prop_assert!((average - by_littles_law).abs() <= 1e-6 * (1.0 + average), "{name}: {average}, {by_littles_law}");
        }
        let total: f64 = ["a", "b", "c"].iter().map(|name| readings[&format!("in_service@{name}")]).sum();
        prop_assert!((total - readings["busy_workers"]).abs() < 1e-6 * (1.0 + total));
    }

    /// One class that may have every worker is no class at all, bit for bit.
    #[test]
    fn one_class_with_all_workers_is_the_plain_server(
        clients in any_clients(), workers in 1_u32..40, keep_ms in 0_u32..3000, seed in any::<u64>(),
    ) {
        let clients = [Population { timeout_s: ENDLESS, ..of("a", clients) }];
        let one = Server { accept_queue: u32::MAX, keep_alive_timeout_ms: keep_ms, ..classed(workers, &[workers]) };
        let plain = Server { classes: vec![], ..one.clone() };
        let (with, without) = (run(&one, &clients, seed, 10.0, 60.0), run(&plain, &clients, seed, 10.0, 60.0));
        prop_assert_eq!((with.events(), with.census()), (without.events(), without.census()));
        let readings = with.readings();
        for (name, value) in without.readings() {
            prop_assert_eq!(value.to_bits(), readings[&name].to_bits(), "{}", name);
        }
    }

    #[test]
    fn every_session_ends_fails_or_is_active_with_classes_too(
        clients in prop::collection::vec(any_clients(), 2), changes in prop::collection::vec((0_i64..20, 0_i64..20, 1_i64..30), 5),
        seed in any::<u64>(),
    ) {
        let named: Vec<Population> = ["a", "b"].iter().zip(clients).map(|(n, c)| of(n, c)).collect();
        let mut system = System::new(classed(20, &[10, 10]), &named, seed).unwrap();
        for (a, b, workers) in changes {
            system.advance(20.0).unwrap();
            let census = system.census();
            prop_assert_eq!(census.started, census.ended + census.failed + census.active);
            let changes = [("process_budget@a", a), ("process_budget@b", b), ("max_request_workers", workers)];
            system.apply(&budgets(changes)).unwrap();
        }
        for (name, value) in system.readings() {
            prop_assert!(value.is_finite() && value >= 0.0, "{name} is {value}");
        }
    }
}
