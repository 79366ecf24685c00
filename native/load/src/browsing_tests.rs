//! What browsers do on sites that follow a script.

use std::io::Read as _;
use std::sync::{Arc, Mutex};

use trimtab_wire::graph::{Condition, Field, Graph, Memory, Method, Value};
use trimtab_wire::load::{Browsing, Class, Span};
use trimtab_wire::workload::{Distribution, Population};

use crate::scripted::{browser, order, page, run, site, Server};

/// A request: number of its connection, its first line without the version, its Cookie header, its body.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    connection: usize,
    line: String,
    cookie: String,
    body: String,
}

type Notes = Arc<Mutex<Vec<Seen>>>;

/// A server that notes every request and answers its path as told.
fn shop(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Server, Notes) {
    let notes = Notes::default();
    let kept = Arc::clone(&notes);
    let server = Server::new(move |connection, mut client| {
        while let Some(lines) = client.lines() {
            let field = |name: &str| {
                let found = lines.iter().find_map(|line| line.strip_prefix(name));
                found.unwrap_or_default().trim().to_owned()
            };
            let mut body = vec![0; field("Content-Length:").parse().unwrap_or(0)];
            client.body().read_exact(&mut body).expect("body");
            let line = lines[0].trim_end().trim_end_matches(" HTTP/1.1").to_owned();
            let path = line.split(' ').nth(1).expect("path").to_owned();
            kept.lock().expect("notes").push(Seen {
                connection,
                line,
                cookie: field("Cookie:"),
                body: String::from_utf8(body).expect("text"),
            });
            client.send(&answer(&path));
        }
    });
    (server, notes)
}

fn reply(status: u32, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn ok(body: &str) -> String {
    reply(200, "", body)
}

fn walk(server: &Server, one: Population, duration_s: f64) -> (Class, Browsing) {
    let mut class = run(&order(server, one, duration_s)).1.remove(0);
    let browsing = class.browsing.take().expect("browsing");
    (class, browsing)
}

fn lines(notes: &Notes) -> Vec<String> {
    notes
        .lock()
        .expect("notes")
        .iter()
        .map(|seen| seen.line.clone())
        .collect()
}

fn counts(browsing: &Browsing) -> Vec<u64> {
    browsing
        .interactions
        .iter()
        .map(|one| one.time.count)
        .collect()
}

#[test]
fn a_page_ends_with_its_last_image_over_at_most_so_many_connections() {
    let (server, notes) = shop(|path| {
        match path {
        "/a" => ok("<img src=1.png><img src='/2.png'><img src=3.png><img src=1.png><img src=http://other/4.png>"),
        _ => ok("image"),
    }
    });
    let graph = Graph {
        image_connections: 2,
        ..site(vec![page("a")])
    };
    let (class, browsing) = walk(&server, browser(graph), 0.5);
    let mut seen = lines(&notes);
    seen[1..].sort();
    assert_eq!(seen, ["GET /a", "GET /1.png", "GET /2.png", "GET /3.png"]);
    assert_eq!(
        (
            class.requests,
            class.pages,
            class.connections,
            class.outstanding
        ),
        (4, 1, 2, 0)
    );
    assert_eq!(counts(&browsing), [1]);
}

#[test]
fn an_image_is_fetched_again_when_it_is_stale_or_may_not_be_kept() {
    let (server, notes) = shop(|path| match path {
        "/a" => ok("<img src=/kept><img src=/short><img src=/not>"),
        "/kept" => reply(200, "Cache-Control: public, max-age=3600\r\n", "x"),
        "/short" => reply(200, "Cache-Control: max-age=2\r\n", "x"),
        _ => reply(200, "Cache-Control: no-store\r\n", "x"),
    });
    let (_, browsing) = walk(&server, browser(site(vec![page("a")])), 3.5);
    let times = |line| lines(&notes).iter().filter(|seen| **seen == line).count();
    // Pages at 0, 1, 2 and 3 s.
    assert_eq!(times("GET /a"), 4);
    assert_eq!(
        (times("GET /kept"), times("GET /short"), times("GET /not")),
        (1, 2, 4)
    );
    assert_eq!(browsing.cache_hits, 3 + 2);
}

#[test]
fn cookies_and_the_cache_are_those_of_a_session() {
    let (server, notes) = shop(|path| match path {
        "/a" => reply(200, "Set-Cookie: cart=7; Path=/\r\n", "<img src=/i>"),
        _ => reply(200, "Cache-Control: max-age=3600\r\n", "x"),
    });
    let graph = Graph {
        session_s: Distribution::Constant { value: 1.5 },
        ..site(vec![page("a")])
    };
    // Pages at 0, 1 s; at 2 s the session is old enough, and the next one begins.
    let (class, browsing) = walk(&server, browser(graph), 3.5);
    let cookies: Vec<(String, String)> = notes
        .lock()
        .expect("notes")
        .iter()
        .map(|s| (s.line.clone(), s.cookie.clone()))
        .collect();
    let row = |line: &str, cookie: &str| (line.to_owned(), cookie.to_owned());
    let once = [
        row("GET /a", ""),
        row("GET /i", "cart=7"),
        row("GET /a", "cart=7"),
    ];
    assert_eq!(cookies, [once.clone(), once].concat());
    assert_eq!(
        (
            class.sessions,
            browsing.session.count,
            browsing.session.mean_s
        ),
        (2, 1, Some(2.0))
    );
}

#[test]
fn what_a_page_marks_is_what_the_next_request_sends() {
    let (server, notes) = shop(|path| match path.split('?').next() {
        Some("/a") => ok("<a data-item='4 2'>"),
        _ => ok("nothing"),
    });
    let mut pages = vec![page("a"), page("b"), page("c")];
    let item = |name: &str| Field::One {
        name: name.to_owned(),
        value: Value::Marked {
            marker: "data-item".to_owned(),
            otherwise: Box::new(Value::Text {
                text: "none".to_owned(),
            }),
        },
    };
    pages[1].asks[0].fields = vec![item("i")];
    pages[1].asks[0].method = Method::Post;
    pages[2].asks[0].fields = vec![item("i")];
    let mut first = pages[0].asks[0].clone();
    first.when = vec![
        Condition::First {},
        Condition::Remembers {
            name: "me".to_owned(),
        },
    ];
    first.fields = vec![Field::One {
        name: "me".to_owned(),
        value: Value::Remembered {
            name: "me".to_owned(),
        },
    }];
    pages[0].asks.insert(0, first);
    let me = Memory {
        name: "me".to_owned(),
        value: Value::Text {
            text: "7".to_owned(),
        },
        ratio: 1.0,
    };
    let graph = Graph {
        memories: vec![me],
        ..site(pages)
    };
    walk(&server, browser(graph), 3.5);
    assert_eq!(
        lines(&notes),
        ["GET /a?me=7", "POST /b", "GET /c?i=none", "GET /a"]
    );
    assert_eq!(notes.lock().expect("notes")[1].body, "i=4+2");
}

#[test]
fn a_page_that_fails_is_no_interaction_and_the_session_begins_anew_at_its_start() {
    for (broken, kind) in [
        (reply(500, "", "<body data-page=b>"), "http_5xx"),
        (reply(404, "", ""), "http_4xx"),
        (ok("<body data-page=a>"), "wrong_page"),
        (ok("no name"), "wrong_page"),
        ("nonsense\r\n\r\n".to_owned(), "malformed"),
        (
            reply(302, "Location: https://elsewhere/\r\n", ""),
            "wrong_page",
        ),
        (reply(302, "Location: /b\r\n", ""), "wrong_page"),
    ] {
        let (server, notes) = shop(move |path| match path {
            "/b" => broken.clone(),
            _ => reply(
                200,
                "Set-Cookie: c=1\r\n",
                &format!("<body data-page={}>", &path[1..]),
            ),
        });
        let graph = Graph {
            name_marker: Some("data-page".to_owned()),
            ..site(vec![page("a"), page("b"), page("c")])
        };
        let (class, browsing) = walk(&server, browser(graph), 2.5);
        let mut seen = lines(&notes);
        seen.dedup();
        assert_eq!(seen, ["GET /a", "GET /b", "GET /a"], "{kind}");
        assert_eq!(
            notes.lock().expect("notes").last().expect("last").cookie,
            "c=1"
        );
        assert_eq!(counts(&browsing), [2, 0, 0]);
        assert_eq!(
            browsing.interactions[1].errors,
            [(kind.to_owned(), 1)].into()
        );
        assert_eq!((class.pages, class.sessions), (2, 1));
        assert_eq!(class.errors, [(kind.to_owned(), 1)].into());
        assert!((class.patience_left_s - 5.0).abs() < 1e-9, "{kind}");
    }
}

#[test]
fn a_page_whose_image_fails_has_failed_and_the_session_goes_on() {
    for broken in [reply(404, "", ""), "nonsense\r\n\r\n".to_owned()] {
        let (server, notes) = shop(move |path| match path {
            "/a" => ok("<img src=/i><img src=/j>"),
            "/i" => broken.clone(),
            _ => ok("b"),
        });
        let (class, browsing) = walk(&server, browser(site(vec![page("a"), page("b")])), 1.5);
        assert_eq!(lines(&notes).last().expect("last"), "GET /b");
        assert_eq!(counts(&browsing), [0, 1]);
        assert_eq!((class.pages, class.outstanding), (1, 0));
    }
}

#[test]
fn a_redirect_is_followed_and_the_page_it_leads_to_is_the_page() {
    let (server, notes) = shop(|path| match path {
        "/a" => reply(303, "Location: /shop/home\r\nSet-Cookie: c=1\r\n", ""),
        _ => ok("<body data-page=a><img src=i>"),
    });
    let graph = Graph {
        name_marker: Some("data-page".to_owned()),
        ..site(vec![page("a")])
    };
    let (_, browsing) = walk(&server, browser(graph), 0.5);
    assert_eq!(lines(&notes), ["GET /a", "GET /shop/home", "GET /shop/i"]);
    assert_eq!(notes.lock().expect("notes")[1].cookie, "c=1");
    assert_eq!(counts(&browsing), [1]);
}

#[test]
fn only_the_measured_part_of_a_run_is_in_its_summary() {
    let (server, _) = shop(|_| ok(""));
    let mut start = order(&server, browser(site(vec![page("a")])), 10.5);
    start.interval_s = 1.0;
    start.measured = Some(Span {
        from_s: 2.5,
        until_s: 6.5,
    });
    let (intervals, mut summary) = run(&start);
    let class = summary.remove(0);
    let browsing = class.browsing.expect("browsing");
    assert_eq!((browsing.duration_s, counts(&browsing)), (4.0, vec![4]));
    assert_eq!(class.pages, 11);
    let shown: u64 = intervals
        .iter()
        .flatten()
        .flat_map(|one| one.browsing.as_ref().map(counts))
        .flatten()
        .sum();
    assert_eq!(shown, 11);
}

#[test]
fn a_server_that_is_gone_is_asked_again_after_the_thought() {
    let (server, _) = shop(|_| ok(""));
    let mut start = order(&server, browser(site(vec![page("a"), page("b")])), 3.5);
    start.target.set_port(1);
    let class = run(&start).1.remove(0);
    assert_eq!(class.errors, [("connect".to_owned(), 4)].into());
    assert_eq!((class.pages, class.outstanding, class.unsent), (0, 0, 0));
}

#[test]
fn browsers_think_and_stay_for_as_long_as_they_are_told() {
    let (server, _) = shop(|_| ok(""));
    let mut graph = site(vec![page("home"), page("other")]);
    graph.pages[0].thresholds = vec![5000, 9999];
    graph.pages[1].thresholds = vec![5000, 9999];
    graph.session_s = Distribution::ClippedExponential {
        mean: 100.0,
        most: 400.0,
    };
    graph.first_click_s = [0.1, 20.1];
    let one = Population {
        arrivals: trimtab_wire::workload::Arrivals::Closed { users: 20 },
        think_s: Distribution::ClippedExponential {
            mean: 7.0,
            most: 70.0,
        },
        ..browser(graph)
    };
    let (class, browsing) = walk(&server, one, 5_000.0);
    let total: u64 = counts(&browsing).iter().sum();
    assert!(total > 13_000, "{total}");
    // Standard errors: of the think time 7 s / sqrt(14 000), of the share 1/2 / sqrt(14 000).
    let think_s = browsing.think.mean_s.expect("think");
    assert!((think_s - 7.0).abs() < 4.0 * 7.0 / 118.0, "{think_s}");
    let share = counts(&browsing)[0] as f64 / total as f64;
    assert!((share - 0.5).abs() < 4.0 * 0.5 / 118.0, "{share}");
    // The mean of min(X, 400 s) is 98 s; then as long until the next move home as two thoughts, less the one under way.
    let session_s = browsing.session.mean_s.expect("session");
    assert!(
        (session_s - 112.0).abs() < 4.0 * 95.0 / (browsing.session.count as f64).sqrt() + 1.0,
        "{session_s}"
    );
    assert_eq!(class.errors.len(), 0);
}
