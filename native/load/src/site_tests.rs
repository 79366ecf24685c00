use trimtab_wire::graph::Method;
use trimtab_wire::workload::Distribution;

use super::*;
use crate::scripted::{page, site};

#[test]
fn a_row_is_used_exactly_as_its_thresholds_say() {
    let mut graph = site(vec![page("a"), page("b"), page("c"), page("d")]);
    graph.pages[1].thresholds = vec![0, 4100, 0, 9999];
    let site = Site::new(&graph).expect("site");
    let mut counts = [0; 4];
    for draw in 1..=9999 {
        counts[site.pages[1].chosen(draw).expect("a page")] += 1;
    }
    assert_eq!(counts, [0, 4100, 0, 5899]);
}

#[test]
fn what_cannot_be_played_is_refused_with_its_place() {
    let refused = |change: fn(&mut Graph)| {
        let mut graph = site(vec![page("a"), page("b")]);
        change(&mut graph);
        Site::new(&graph).expect_err("refused").to_string()
    };
    for (said, change) in [
        (
            "no page \"z\"",
            (|g| g.start = "z".to_owned()) as fn(&mut Graph),
        ),
        ("2", |g| g.pages[0].thresholds = vec![1]),
        ("must rise", |g| g.pages[0].thresholds = vec![5, 5]),
        ("must rise", |g| g.pages[0].thresholds = vec![0, 0]),
        ("another page too", |g| g.pages[1].name = "a".to_owned()),
        ("last request", |g| g.pages[0].asks.clear()),
        ("path", |g| g.pages[0].asks[0].path = "/a b".to_owned()),
        ("path", |g| g.pages[0].asks[0].path = "/a?b".to_owned()),
        ("first_click_s", |g| g.first_click_s = [2.0, 1.0]),
        ("image_connections", |g| g.image_connections = 0),
        ("session_s", |g| {
            g.session_s = Distribution::Constant { value: -1.0 }
        }),
        ("marker", |g| g.name_marker = Some("a b".to_owned())),
        ("ratio", |g| {
            g.memories = vec![Memory {
                name: String::new(),
                value: Value::Text {
                    text: String::new(),
                },
                ratio: 2.0,
            }];
        }),
        ("page \"b\": texts is empty", |g| {
            g.pages[1].asks[0].fields = vec![Field::One {
                name: "f".to_owned(),
                value: Value::OneOf { texts: vec![] },
            }];
        }),
    ] {
        let error = refused(change);
        assert!(error.contains(said), "{error:?} does not say {said:?}");
    }
    assert_eq!(page("a").asks[0].method, Method::Get);
}
