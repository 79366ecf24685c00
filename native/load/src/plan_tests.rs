use trimtab_wire::workload::{Distribution, Step};

use super::*;
use crate::scripted::{population, start};

fn refusal(change: impl FnOnce(&mut Start)) -> String {
    let mut order = start(
        "127.0.0.1:80".parse().expect("address"),
        vec![population("a")],
    );
    change(&mut order);
    Plan::new(&order).expect_err("refused").to_string()
}

#[test]
fn a_good_order_is_accepted() {
    let order = start(
        "127.0.0.1:80".parse().expect("address"),
        vec![population("a"), population("b"), population("a")],
    );
    let plan = Plan::new(&order).expect("accepted");
    assert_eq!(plan.classes, ["a", "b"]);
    assert_eq!(
        plan.crowds
            .iter()
            .map(|crowd| crowd.class)
            .collect::<Vec<_>>(),
        [0, 1, 0]
    );
    let request = String::from_utf8_lossy(plan.crowds[0].pages.bytes(0)).into_owned();
    assert_eq!(
        request,
        "GET /page HTTP/1.1\r\nHost: test\r\nUser-Agent: trimtab\r\n\r\n"
    );
}

#[test]
fn a_target_outside_this_machine_needs_permission() {
    let remote = |start: &mut Start| start.target = "192.0.2.1:80".parse().expect("address");
    assert!(refusal(remote).contains("192.0.2.1:80"));
    let mut order = start(
        "192.0.2.1:80".parse().expect("address"),
        vec![population("a")],
    );
    order.allow_remote = true;
    assert!(Plan::new(&order).is_ok());
}

#[test]
fn every_wrong_value_is_named() {
    assert!(refusal(|s| s.duration_s = 0.0).contains("duration_s is 0"));
    assert!(refusal(|s| s.interval_s = f64::NAN).contains("interval_s is NaN"));
    // Rounded to nanoseconds it would be none.
    assert!(refusal(|s| s.interval_s = 1e-10).contains("must be between 0.001 and"));
    assert!(refusal(|s| s.host = "a\r\nb".to_owned()).contains("host"));
    assert!(refusal(|s| s.populations.clear()).contains("populations is empty"));
    assert!(refusal(|s| s.populations[0].class.clear()).contains("class is empty"));
    assert!(refusal(|s| s.populations[0].timeout_s = -1.0).contains("timeout_s is -1"));
    assert!(refusal(|s| s.populations[0].round_trip_s = -1.0).contains("round_trip_s is -1"));
    assert!(refusal(|s| s.populations[0].pages.clear()).contains("pages: no urls"));
    assert!(refusal(|s| s.populations[0].pages[0].weight = 0.0).contains("weight is 0"));
    assert!(refusal(|s| s.populations[0].pages[0].path = "/a b".to_owned()).contains("/a b"));
    assert!(refusal(|s| s.populations[0].objects[0].path = "a".to_owned()).contains("objects"));
    assert!(
        refusal(|s| s.populations[0].arrivals = Arrivals::Closed { users: 0 })
            .contains("users is 0")
    );
    assert!(
        refusal(|s| s.populations[0].arrivals = Arrivals::Poisson { rate_hz: 0.0 })
            .contains("rate_hz is 0")
    );
    assert!(
        refusal(|s| s.populations[0].think_s = Distribution::Constant { value: -1.0 })
            .contains("think_s")
    );
}

#[test]
fn a_schedule_is_in_order_of_time() {
    let steps = |times: [f64; 2], factor: f64| {
        move |s: &mut Start| {
            s.populations[0].schedule = times.map(|at_s| Step { at_s, factor }).to_vec()
        }
    };
    assert!(refusal(steps([2.0, 1.0], 1.0)).contains("at_s is 1, must be at least 2"));
    assert!(refusal(steps([1.0, 2.0], -1.0)).contains("factor is -1"));
}

#[test]
fn a_source_is_on_this_machine() {
    assert!(refusal(|s| s.populations[0].source = Some([10, 0, 0, 1].into())).contains("10.0.0.1"));
    let to_v6 = |s: &mut Start| {
        s.target = "[::1]:80".parse().expect("address");
        s.populations[0].source = Some([127, 0, 0, 2].into());
    };
    assert!(refusal(to_v6).contains("127.0.0.2"));
}

#[test]
fn a_refusal_is_one_line_that_names_place_value_and_what_is_allowed() {
    let closed =
        |users| move |s: &mut Start| s.populations[0].arrivals = Arrivals::Closed { users };
    let span = |from_s, until_s| move |s: &mut Start| s.measured = Some(Span { from_s, until_s });
    let said = [
        refusal(|s| s.duration_s = 0.0),
        refusal(|s| s.host = "a b".to_owned()),
        refusal(|s| s.populations.clear()),
        refusal(span(2.0, 1.0)),
        refusal(closed(0)),
        refusal(|s| s.populations[0].arrivals = Arrivals::Constant { rate_hz: 2e7 }),
        refusal(|s| s.populations[0].round_trip_s = -0.5),
        refusal(|s| s.populations[0].pages[0].path = "a".to_owned()),
        refusal(|s| s.populations[0].source = Some([10, 0, 0, 1].into())),
        refusal(|s| s.target = "192.0.2.1:80".parse().expect("address")),
    ];
    let texts = [
        "duration_s is 0, must be greater than 0 and at most 100000000",
        "host \"a b\" is not a host name",
        "populations is empty; at least one is needed",
        "measured is 2 to 1 s, must be at least 0 and rise",
        "population \"a\": users is 0, must be at least 1",
        "population \"a\": rate_hz is 20000000, must be greater than 0 and at most 1e7",
        "population \"a\": round_trip_s is -0.5, must be between 0 and 100000000",
        "population \"a\": pages: url \"a\" is not a path of printable characters that begins with '/'",
        "population \"a\": source 10.0.0.1 is not in 127.0.0.0/8",
        "target 192.0.2.1:80 is outside this machine; it needs allow_remote",
    ];
    assert_eq!(said, texts);
}
