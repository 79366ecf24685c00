use super::*;
use proptest::prelude::*;

fn figures() -> Figures {
    Figures {
        mode: Mode::Budgets,
        limit: 128,
        workers: 4,
        budgets: vec![64],
        classes: vec![ClassReadings {
            class: "premium".to_owned(),
            arrivals: 9,
            dispatched: 5,
            refused: 2,
            aborted: 1,
            delay_sum_s: 1.5,
            delay_buckets: vec![(99, 2), (1_003_519, 3)],
            queue: 1,
            in_service: 3,
            queue_connection_s: 4.0,
            in_service_connection_s: 2.5,
            oldest_wait_s: 0.25,
        }],
    }
}

fn ask(bytes: &[u8]) -> Option<Request> {
    let mut input = Input::default();
    input.push(bytes);
    request(&mut input)
}

#[test]
fn every_figure_has_its_line() {
    let page = page(&figures());
    for line in [
        "# TYPE trimtab_gate_arrivals_total counter",
        "trimtab_gate_arrivals_total{class=\"premium\"} 9",
        "trimtab_gate_refused_total{class=\"premium\"} 2",
        "trimtab_gate_aborted_total{class=\"premium\"} 1",
        "trimtab_gate_budget_connections{class=\"premium\"} 64",
        "trimtab_gate_in_service_connections{class=\"premium\"} 3",
        "trimtab_gate_oldest_wait_seconds{class=\"premium\"} 0.25",
        "trimtab_gate_limit_connections 128",
        "trimtab_gate_delay_seconds_bucket{class=\"premium\",le=\"0.0001\"} 2",
        "trimtab_gate_delay_seconds_bucket{class=\"premium\",le=\"1\"} 2",
        "trimtab_gate_delay_seconds_bucket{class=\"premium\",le=\"2.5\"} 5",
        "trimtab_gate_delay_seconds_bucket{class=\"premium\",le=\"+Inf\"} 5",
        "trimtab_gate_delay_seconds_sum{class=\"premium\"} 1.5",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}\n{page}");
    }
}

#[test]
fn only_the_figures_are_given_and_only_to_a_whole_request() {
    assert_eq!(ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
    assert_eq!(
        ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
        Some(Request::Metrics)
    );
    assert_eq!(ask(b"GET /metrics HTTP/1.0\n\n"), Some(Request::Metrics));
    assert_eq!(ask(b"GET / HTTP/1.1\r\n\r\n"), Some(Request::Other(404)));
    assert_eq!(
        ask(b"POST /metrics HTTP/1.1\r\n\r\n"),
        Some(Request::Other(405))
    );
    assert_eq!(ask(b"\n\n\n"), Some(Request::Other(400)));
    assert_eq!(ask(&vec![b'x'; MOST_HEAD + 1]), Some(Request::Other(431)));
}

proptest! {
    #[test]
    fn no_request_whatever_breaks_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = ask(&bytes);
    }
}
