//! What a server and its clients do, one small case each, with times that can be followed by hand.

use std::collections::BTreeMap;

use crate::common::{population, server, users};
use trimtab_sim::System;
use trimtab_wire::sim::Server;
use trimtab_wire::workload::{Arrivals, Connection, Distribution, Population, Step};

/// One session, which arrives at 1 s.
fn one_session(cpu_s: f64) -> Population {
    Population {
        schedule: vec![Step {
            at_s: 1.5,
            factor: 0.0,
        }],
        ..population(Arrivals::Constant { rate_hz: 1.0 }, cpu_s)
    }
}

fn constant(value: f64) -> Distribution {
    Distribution::Constant { value }
}

fn exact(workers: u32) -> Server {
    Server {
        exponential_service: false,
        ..server(workers, 8.0)
    }
}

fn after(server: Server, populations: &[Population], length_s: f64) -> System {
    let mut system = System::new(server, populations, 1).unwrap();
    system.advance(length_s).unwrap();
    system
}

fn close(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() < 1e-9,
        "{value} instead of {expected}"
    );
}

#[test]
fn a_lost_connection_request_is_repeated_after_1_3_and_7_s() {
    for (service_s, retried_after_s) in [(0.5, 1.0), (2.5, 3.0), (5.0, 7.0)] {
        let full = Server {
            accept_queue: 0,
            ..exact(1)
        };
        let both = [one_session(service_s), one_session(service_s)];
        let system = after(full, &both, 30.0);
        assert_eq!(system.meter().pages, 2);
        close(
            system.meter().page_s,
            service_s + retried_after_s + service_s,
        );
    }
}

#[test]
fn a_connection_waits_in_the_queue_for_a_worker() {
    let both = [one_session(0.5), one_session(0.5)];
    let system = after(exact(1), &both, 10.0);
    let meter = system.meter();
    close(meter.waited_s, 0.5);
    close(meter.integral.waiting, 0.5);
    close(meter.page_s, 0.5 + 1.0);
    assert_eq!((meter.entered, meter.accepted, meter.overflows), (2, 2, 0));
}

#[test]
fn a_worker_is_held_for_the_lesser_of_think_and_keep_alive_time() {
    for (think_s, held_s, connections) in [(0.2, 0.1 + 0.2 + 0.1, 1), (2.0, 0.1 + 0.5 + 0.1, 2)] {
        let keeping = Server {
            keep_alive_timeout_ms: 500,
            ..exact(1)
        };
        let clients = [Population {
            session_pages: constant(2.0),
            think_s: constant(think_s),
            ..one_session(0.1)
        }];
        let system = after(keeping, &clients, 10.0);
        close(system.meter().integral.busy, held_s);
        assert_eq!(system.meter().accepted, connections);
        close(system.meter().page_s, 0.2);
    }
}

#[test]
fn the_client_closes_as_its_policy_says() {
    for (policy, connections) in [
        (Connection::UntilServerCloses, 1),
        (Connection::PerPage, 2),
        (Connection::PerRequest, 6),
    ] {
        let keeping = Server {
            keep_alive_timeout_ms: 5000,
            ..exact(1)
        };
        let clients = [Population {
            session_pages: constant(2.0),
            burst_requests: constant(3.0),
            think_s: constant(0.2),
            connection: policy,
            ..one_session(0.1)
        }];
        let meter = *after(keeping, &clients, 10.0).meter();
        assert_eq!((meter.accepted, meter.served), (connections, 6));
    }
}

#[test]
fn time_off_the_cores_is_part_of_the_service_time_and_not_of_the_cpu() {
    let slow = Server {
        other_s: 0.3,
        ..exact(1)
    };
    let meter = *after(slow, &[one_session(0.1)], 10.0).meter();
    close(meter.service_s, 0.4);
    close(meter.integral.cores, 0.1);
}

#[test]
fn past_the_memory_limit_work_takes_longer() {
    let tight = Server {
        memory_limit_bytes: 1e6,
        base_memory_bytes: 5e5,
        worker_memory_bytes: 1e6,
        spare_workers: 1,
        swap_bytes_hz: 1e7,
        ..exact(1)
    };
    let clients = [Population {
        burst_requests: constant(2.0),
        ..one_session(0.1)
    }];
    let mut system = after(tight, &clients, 10.0);
    // Half a megabyte does not fit: room is made for it once, four times as fast as it comes back. It comes back whole for the first
    // request of the connection, and half of it for the second, because one request needs half as much again as there is.
    let (evicted_s, back_s) = (0.0125, 0.05);
    close(system.meter().service_s, 0.2 + evicted_s + 1.5 * back_s);
    system.begin();
    system.advance(1.0).unwrap();
    close(system.readings()["memory_ratio"], 1.5);
}

/// Core seconds of a request where that many workers of a megabyte serve one each, in a megabyte.
fn crowded_s(workers: u32) -> f64 {
    let tight = Server {
        memory_limit_bytes: 1e6,
        base_memory_bytes: 0.0,
        worker_memory_bytes: 1e6,
        spare_workers: workers,
        swap_bytes_hz: 1e8,
        ..exact(workers)
    };
    let clients = vec![one_session(0.1); workers as usize];
    after(tight, &clients, 1e4).meter().integral.cores / f64::from(workers)
}

#[test]
fn a_request_faults_no_more_however_many_others_need_memory_too() {
    let (some_s, more_s) = (crowded_s(10), crowded_s(40));
    assert!(
        more_s > some_s && more_s < 1.1 * some_s,
        "{some_s} and {more_s}"
    );
}

#[test]
fn a_client_gives_up_and_the_server_serves_its_request_in_vain() {
    let clients = [Population {
        timeout_s: 0.25,
        ..one_session(1.0)
    }];
    let system = after(exact(1), &clients, 10.0);
    let meter = system.meter();
    assert_eq!((meter.errors, meter.served, meter.pages), (1, 1, 0));
    let census = system.census();
    assert_eq!((census.started, census.failed, census.active), (1, 1, 0));
}

#[test]
fn idle_workers_beyond_the_spare_ones_end_one_per_second() {
    let clients: Vec<Population> = (0..20).map(|_| one_session(0.5)).collect();
    let mut system = after(exact(50), &clients, 2.3);
    system.begin();
    system.advance(0.5).unwrap();
    let early = system.readings()["idle_workers"];
    system.advance(9.2).unwrap();
    system.begin();
    system.advance(1.0).unwrap();
    close(early, 20.0);
    close(system.readings()["idle_workers"], 10.0);
}

#[test]
fn a_change_is_in_force_after_the_reload_time_and_closes_idle_connections() {
    let keeping = Server {
        keep_alive_timeout_ms: 60_000,
        reload_s: 0.5,
        ..exact(10)
    };
    let mut system = System::new(keeping, &[users(8, 1e6, 0.01)], 1).unwrap();
    system.advance(10.0).unwrap();
    let changes: BTreeMap<String, i64> = [
        ("max_request_workers".to_owned(), 3),
        ("keep_alive_timeout_ms".to_owned(), 100),
    ]
    .into();
    system.apply(&changes).unwrap();
    system.advance(0.4).unwrap();
    assert_eq!(system.configuration().max_request_workers, 10);
    system.advance(0.1).unwrap();
    assert_eq!(system.configuration().max_request_workers, 3);
    assert_eq!(system.configuration().keep_alive_timeout_ms, 100);
    system.begin();
    system.advance(1.0).unwrap();
    close(system.readings()["busy_workers"], 0.0);
}

#[test]
fn busy_workers_finish_their_request_when_the_limit_is_lowered() {
    let clients: Vec<Population> = (0..4).map(|_| one_session(2.0)).collect();
    let mut system = after(exact(4), &clients, 1.5);
    let changes = [("max_request_workers".to_owned(), 1)].into();
    system.apply(&changes).unwrap();
    system.begin();
    system.advance(1.0).unwrap();
    close(system.readings()["busy_workers"], 4.0);
    system.advance(10.0).unwrap();
    assert_eq!(system.census().ended, 4);
    assert_eq!(system.meter().errors, 0);
}

#[test]
fn a_closed_population_follows_its_schedule() {
    let clients = [Population {
        schedule: vec![
            Step {
                at_s: 10.0,
                factor: 2.0,
            },
            Step {
                at_s: 20.0,
                factor: 0.0,
            },
        ],
        session_pages: constant(2.0),
        ..users(5, 0.1, 0.01)
    }];
    let mut system = after(exact(50), &clients, 5.0);
    assert_eq!(system.census().active, 5);
    system.advance(10.0).unwrap();
    assert_eq!(system.census().active, 10);
    system.advance(20.0).unwrap();
    assert_eq!(system.census().active, 0);
}
