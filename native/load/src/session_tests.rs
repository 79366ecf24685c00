use trimtab_wire::workload::{Distribution, Url};

use super::*;
use crate::plan::Plan;
use crate::scripted::{population, start};

fn liu2003() -> Plan {
    let mut wagon = population("wagon");
    wagon.session_pages = Distribution::Lognormal {
        mean: 8.0,
        sigma: 3.0,
    };
    wagon.burst_requests = Distribution::Gaussian {
        mean: 7.0,
        sigma: 3.0,
    };
    wagon.think_s = Distribution::Lognormal {
        mean: 30.0,
        sigma: 30.0,
    };
    wagon.pages = (0..9)
        .map(|n| Url {
            path: format!("/{n}"),
            weight: 1.0,
            cpu_s: 0.0,
        })
        .collect();
    Plan::new(&start(
        "127.0.0.1:80".parse().expect("address"),
        vec![wagon],
    ))
    .expect("plan")
}

/// Everything that a session does, when each reply takes `delay_ns`.
fn trace(plan: &Plan, seed: u64, number: u64, delay_ns: u64) -> Vec<(Vec<u8>, Next)> {
    let crowd = &plan.crowds[0];
    let mut session = Session::new(seed, 0, number, crowd);
    let mut trace = Vec::new();
    session.click(crowd, 0, delay_ns);
    loop {
        let request = session.request_bytes(crowd).to_vec();
        let next = session.replied(crowd);
        trace.push((request, next));
        let now_ns = trace.len() as u64 * delay_ns;
        match next {
            Next::Object(_) => session.fetch(crowd, now_ns, now_ns),
            Next::Click(_) => session.click(crowd, now_ns, now_ns),
            Next::Over => return trace,
        }
    }
}

#[test]
fn a_session_depends_on_seed_and_number_and_not_on_time() {
    let plan = liu2003();
    assert_eq!(trace(&plan, 1, 5, 0), trace(&plan, 1, 5, 1_000_000_000));
    assert_ne!(trace(&plan, 1, 5, 0), trace(&plan, 1, 6, 0));
    assert_ne!(trace(&plan, 1, 5, 0), trace(&plan, 2, 5, 0));
}

#[test]
fn sessions_have_the_lengths_bursts_and_think_times_of_liu2003_table_ii() {
    let plan = liu2003();
    let (mut pages, mut requests, mut clicks, mut think_s) = (0.0, 0.0, 0.0, 0.0);
    for number in 0..20_000 {
        for (_, next) in trace(&plan, 3, number, 0) {
            requests += 1.0;
            match next {
                Next::Object(gap_ns) => assert_eq!(gap_ns, 0),
                Next::Click(think_ns) => {
                    pages += 1.0;
                    clicks += 1.0;
                    think_s += think_ns as f64 * 1e-9;
                }
                Next::Over => pages += 1.0,
            }
        }
    }
    assert!(
        (pages / 20_000.0_f64 - 8.0).abs() < 0.1,
        "{} pages in a session",
        pages / 20_000.0
    );
    // Cutting N(7, 3) off at 1 moves its mean to 7.02.
    assert!(
        (requests / pages - 7.02_f64).abs() < 0.05,
        "{} requests in a page",
        requests / pages
    );
    assert!(
        (think_s / clicks - 30.0_f64).abs() < 0.5,
        "{} s of think time",
        think_s / clicks
    );
}

#[test]
fn a_page_begins_with_a_page_and_goes_on_with_objects() {
    let plan = Plan::new(&start(
        "127.0.0.1:80".parse().expect("address"),
        vec![population("a")],
    ))
    .expect("plan");
    let paths: Vec<String> = trace(&plan, 1, 0, 0)
        .iter()
        .map(|(request, _)| {
            String::from_utf8_lossy(request)
                .split(' ')
                .nth(1)
                .expect("path")
                .to_owned()
        })
        .collect();
    assert_eq!(
        paths,
        ["/page", "/object", "/page", "/object", "/page", "/object"]
    );
}
