//! What the loop reports of itself.

use trimtab_wire::load::{Latency, Report, Start};
use trimtab_wire::workload::{Arrivals, Population};

use crate::scripted::{execute, one_session, order, Server};
use crate::virtual_time::{nothing_under_way, Now};

const HELD_UP_S: f64 = 0.12;

/// Runs 200 arrivals per second and holds the generator itself up once, at its first report.
fn held_up() -> Vec<Report> {
    let server = Server::new(|_, mut client| client.serve());
    let visitors = Population {
        arrivals: Arrivals::Constant { rate_hz: 200.0 },
        ..one_session(1.0, 0.0)
    };
    let now = Now::default();
    let mut reports = Vec::new();
    let mut emit = |report| {
        if reports.is_empty() {
            now.advance_s(HELD_UP_S);
        }
        reports.push(report);
        true
    };
    execute(
        now.clone(),
        Box::new(nothing_under_way),
        &order(&server, visitors, 0.6),
        &mut emit,
    );
    reports
}

#[test]
fn a_generator_that_is_late_says_so_and_counts_it_in_the_intended_times() {
    let reports = held_up();
    let Some(Report::Summary {
        classes, lateness, ..
    }) = reports.last()
    else {
        panic!("no summary")
    };
    let late_s = lateness.max_s.expect("lateness");
    // The arrival after the report is due 5 ms later.
    assert!(
        (HELD_UP_S - 0.005..=HELD_UP_S).contains(&late_s),
        "late by {late_s}"
    );
    // Every session is one request, so what is late in all is the difference of the two sums.
    let sum_s = |latency: &Latency| latency.mean_s.expect("mean") * latency.count as f64;
    let counted_s = sum_s(&classes[0].request_intended) - sum_s(&classes[0].request_actual);
    assert!(
        counted_s > 0.9 * sum_s(lateness),
        "{counted_s} of {} counted",
        sum_s(lateness)
    );
    assert_eq!(lateness.count, classes[0].sessions);
    assert_eq!(classes[0].sessions, 120);
}

#[test]
fn requests_that_the_generator_owes_are_reported_as_unsent() {
    let reports = held_up();
    let [Report::Interval { classes: first, .. }, Report::Interval {
        classes: second,
        at_s,
        ..
    }, ..] = &reports[..]
    else {
        panic!("no intervals")
    };
    // The second report is due 0.02 s before the generator is free again: what it began since the first has no connection
    // yet, and what became due after the report is not even begun.
    assert!(
        second[0].unsent > second[0].sessions,
        "{} unsent",
        second[0].unsent
    );
    let accounted = first[0].requests + second[0].requests + second[0].outstanding;
    assert!(
        accounted >= (200.0 * at_s) as u64,
        "{accounted} requests accounted for at {at_s} s"
    );
}

#[test]
fn a_reader_that_has_gone_ends_the_run() {
    let server = Server::new(|_, mut client| client.serve());
    let order = Start {
        interval_s: 0.02,
        ..order(&server, one_session(1.0, 0.0), 60.0)
    };
    let now = Now::default();
    execute(
        now.clone(),
        Box::new(nothing_under_way),
        &order,
        &mut |_| false,
    );
    assert_eq!(now.ns(), 20_000_000);
}
