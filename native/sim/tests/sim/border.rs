//! The border: every bad order is refused with one line, and the conversation goes on.

use crate::common::{population, server, users};
use trimtab_sim::{answer, Model, System};
use trimtab_wire::sim::{Answer, Order, Server};
use trimtab_wire::workload::{Arrivals, Population, Step};

fn say(system: &mut Option<Model>, order: &Order) -> Answer {
    answer(system, &serde_json::to_string(order).unwrap())
}

fn refusal(answer: Answer) -> String {
    match answer {
        Answer::Refused { message } => message,
        other => panic!("{other:?}"),
    }
}

fn start(server: Server, population: Population) -> Order {
    Order::Start {
        server,
        populations: vec![population],
        seed: 1,
    }
}

fn apply(name: &str, value: i64) -> Order {
    Order::Apply {
        changes: [(name.to_owned(), value)].into(),
    }
}

#[test]
fn an_order_before_the_start_is_refused() {
    let mut system = None;
    for order in [
        Order::Read {},
        Order::Begin {},
        Order::Advance { duration_s: 1.0 },
    ] {
        assert!(refusal(say(&mut system, &order)).contains("start"));
    }
}

#[test]
fn what_is_not_an_order_is_refused() {
    let mut system = None;
    for line in [
        "",
        "{",
        "[]",
        r#"{"type":"stop"}"#,
        r#"{"type":"read","x":1}"#,
    ] {
        assert!(refusal(answer(&mut system, line)).contains("not an order"));
    }
}

#[test]
fn a_server_outside_its_domain_is_refused_by_name() {
    let good = server(1, 1.0);
    let broken = [
        (
            "cores",
            Server {
                cores: 0.0,
                ..good.clone()
            },
        ),
        (
            "other_s",
            Server {
                other_s: -1.0,
                ..good.clone()
            },
        ),
        (
            "swap_bytes_hz",
            Server {
                swap_bytes_hz: f64::INFINITY,
                ..good.clone()
            },
        ),
        (
            "memory_limit_bytes",
            Server {
                memory_limit_bytes: 0.0,
                ..good.clone()
            },
        ),
        (
            "max_request_workers",
            Server {
                max_request_workers: 0,
                ..good
            },
        ),
    ];
    for (name, server) in broken {
        let error = System::new(server, &[users(1, 1.0, 0.1)], 1).unwrap_err();
        assert!(error.0.contains(name), "{error}");
    }
}

#[test]
fn a_population_outside_its_domain_is_refused_by_name() {
    let good = users(1, 1.0, 0.1);
    let at = |at_s, factor| {
        vec![
            Step {
                at_s: 5.0,
                factor: 1.0,
            },
            Step { at_s, factor },
        ]
    };
    let broken = [
        (
            "pages",
            Population {
                pages: vec![],
                ..good.clone()
            },
        ),
        ("cpu_s", users(1, 1.0, 0.0)),
        ("cpu_s", users(1, 1.0, f64::NAN)),
        (
            "rate_hz",
            population(Arrivals::Poisson { rate_hz: 0.0 }, 0.1),
        ),
        ("users", users(u32::MAX, 1.0, 0.1)),
        (
            "timeout_s",
            Population {
                timeout_s: 0.0,
                ..good.clone()
            },
        ),
        (
            "round_trip_s",
            Population {
                round_trip_s: 0.1,
                ..good.clone()
            },
        ),
        (
            "schedule",
            Population {
                schedule: at(4.0, 1.0),
                ..good.clone()
            },
        ),
        (
            "factor",
            Population {
                schedule: at(6.0, -1.0),
                ..good
            },
        ),
    ];
    for (name, clients) in broken {
        let error = System::new(server(1, 1.0), &[clients], 1).unwrap_err();
        assert!(
            error.0.contains(name) && error.0.contains("all"),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_refused_change_or_advance_changes_nothing() {
    let mut system = None;
    say(&mut system, &start(server(7, 1.0), users(2, 1.0, 0.1)));
    for order in [
        apply("max_request_workers", 0),
        apply("max_request_workers", i64::MAX),
        apply("keep_alive_timeout_ms", -1),
        apply("max_clients", 5),
        Order::Advance { duration_s: -1.0 },
    ] {
        refusal(say(&mut system, &order));
    }
    let answer = say(&mut system, &Order::Advance { duration_s: 1.5 });
    let expected = Answer::Done {
        now_s: 1.5,
        configuration: [
            ("max_request_workers".to_owned(), 7),
            ("keep_alive_timeout_ms".to_owned(), 0),
        ]
        .into(),
    };
    assert_eq!(answer, expected);
}

#[test]
fn a_reading_without_a_sample_is_absent() {
    let mut system = None;
    say(&mut system, &start(server(7, 1.0), users(2, 1.0, 0.1)));
    say(&mut system, &Order::Begin {});
    let Answer::Readings { readings, .. } = say(&mut system, &Order::Read {}) else {
        panic!("no readings");
    };
    assert!(readings.is_empty());
    let idle = population(Arrivals::Poisson { rate_hz: 1e-6 }, 0.1);
    say(&mut system, &start(server(7, 1.0), idle));
    say(&mut system, &Order::Advance { duration_s: 1.0 });
    let Answer::Readings { readings, .. } = say(&mut system, &Order::Read {}) else {
        panic!("no readings");
    };
    assert_eq!(readings["request_rate_hz"], 0.0);
    for absent in [
        "response_time_s",
        "service_time_s",
        "accept_queue_delay_s",
        "client_page_time_s",
    ] {
        assert!(!readings.contains_key(absent), "{absent}");
    }
}

#[test]
fn too_many_sessions_are_refused_and_not_a_crash() {
    let flood = Population {
        arrivals: Arrivals::Constant { rate_hz: 1e6 },
        ..population(Arrivals::Closed { users: 1 }, 1.0)
    };
    let mut system = System::new(server(1, 1.0), &[flood], 1).unwrap();
    assert!(system
        .advance(10.0)
        .unwrap_err()
        .0
        .contains("sessions in progress"));
}
