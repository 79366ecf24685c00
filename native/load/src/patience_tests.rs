//! What is lost to clients that a server turns away: the patience of a request, and the rest of a visit.

use trimtab_wire::workload::{Arrivals, Distribution, Population};

use crate::scripted::{one_session, order, run, run_in, start, summary, Server};
use crate::traffic_tests::{connected, errors, near, over_a_network, population_with_gaps};
use crate::virtual_time::Now;

/// A server that answers each of a page's two requests with this status.
fn answering(status: &'static str) -> Server {
    Server::new(move |_, mut client| {
        while client.request().is_some() {
            client.send(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        }
    })
}

#[test]
fn a_request_that_fails_at_once_leaves_all_of_its_patience_and_one_that_does_not_leaves_none() {
    let one = Population {
        burst_requests: Distribution::Constant { value: 2.0 },
        ..one_session(1.0, 0.0)
    };
    for (status, left_s) in [
        ("500 Broken", 10.0),
        ("404 Not Found", 10.0),
        ("200 OK", 0.0),
    ] {
        let class = summary(&answering(status), one.clone(), 0.2);
        assert!(
            (class.patience_left_s - left_s).abs() < 1e-9,
            "{status}: {class:?}"
        );
    }
}

#[test]
fn what_a_failed_request_has_waited_is_no_patience_left() {
    let one = Population {
        timeout_s: 0.5,
        ..over_a_network(0.1)
    };
    let class = summary(&answering("500 Broken"), one, 0.6);
    assert_eq!(errors(&class), [("http_5xx", 2)]);
    // 0.2 s with a handshake, 0.1 s without one.
    near(Some(class.patience_left_s), 0.3 + 0.4);
}

#[test]
fn patience_left_in_intervals_adds_up_to_that_of_the_summary() {
    let users = Population {
        arrivals: Arrivals::Closed { users: 4 },
        ..population_with_gaps("a")
    };
    let (intervals, summary) = run(&start(answering("500 Broken").address, vec![users]));
    let lefts = intervals.iter().map(|classes| classes[0].patience_left_s);
    assert!(lefts.clone().filter(|left_s| *left_s > 0.0).count() >= 2);
    near(Some(lefts.sum()), summary[0].patience_left_s);
    near(
        Some(summary[0].patience_left_s),
        5.0 * summary[0].errors["http_5xx"] as f64,
    );
}

#[test]
fn a_visit_given_up_tells_what_it_would_still_have_asked_for_and_a_user_who_stays_does_not() {
    let server = Server::new(|_, mut client| while client.request().is_some() {});
    let visit = Population {
        timeout_s: 0.1,
        session_pages: Distribution::Constant { value: 4.0 },
        burst_requests: Distribution::Constant { value: 3.0 },
        ..one_session(1.0, 0.0)
    };
    let user = Population {
        arrivals: Arrivals::Closed { users: 1 },
        ..visit.clone()
    };
    // The first of three requests fails on the first of four pages.
    for (who, unasked) in [(visit, 2 + 3 * 3), (user, 0)] {
        let order = order(&server, who, 0.15);
        let class = run_in(Now::default(), Box::new(connected), &order)
            .1
            .remove(0);
        assert_eq!(
            (errors(&class), class.unasked),
            (vec![("timeout", 1)], unasked)
        );
    }
}
