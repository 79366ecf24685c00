//! What the generator does against servers that follow a script.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::{bind, getsockname, socket, AddressFamily, SocketType};
use trimtab_wire::load::{Class, Start};
use trimtab_wire::workload::{Arrivals, Connection, Distribution, Population, Step};

use crate::arena::Arena;
use crate::connection::{Link, Stage};
use crate::scripted::{one_session, order, population, run, run_in, start, summary, Server};
use crate::virtual_time::{nothing_under_way, Now};

/// Connection, path and "asks to close" of every request.
type Notes = Arc<Mutex<Vec<(usize, String, bool)>>>;

/// A server that notes every request.
fn recording() -> (Server, Notes) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let server = Server::new(move |number, mut client| {
        while let Some((path, close)) = client.request() {
            notes.lock().expect("notes").push((number, path, close));
            client.reply();
        }
    });
    (server, seen)
}

pub(crate) fn errors(class: &Class) -> Vec<(&str, u64)> {
    class
        .errors
        .iter()
        .map(|(kind, n)| (kind.as_str(), *n))
        .collect()
}

fn connections_of_one_session(policy: Connection) -> Vec<usize> {
    let (server, seen) = recording();
    let one = Population {
        arrivals: Arrivals::Constant { rate_hz: 0.001 },
        connection: policy,
        ..population("a")
    };
    let class = summary(&server, one, 0.2);
    assert_eq!((class.sessions, class.pages, class.requests), (1, 3, 6));
    assert_eq!(
        (class.outstanding, class.unsent, errors(&class)),
        (0, 0, vec![])
    );
    let seen = seen.lock().expect("notes");
    let paths: Vec<&str> = seen.iter().map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(
        paths,
        ["/page", "/object", "/page", "/object", "/page", "/object"]
    );
    assert!(seen
        .iter()
        .all(|(_, _, close)| *close == (policy == Connection::PerRequest)));
    seen.iter().map(|(number, _, _)| *number).collect()
}

#[test]
fn the_connection_policy_decides_which_requests_share_a_connection() {
    assert_eq!(
        connections_of_one_session(Connection::UntilServerCloses),
        [0, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        connections_of_one_session(Connection::PerPage),
        [0, 0, 1, 1, 2, 2]
    );
    assert_eq!(
        connections_of_one_session(Connection::PerRequest),
        [0, 1, 2, 3, 4, 5]
    );
}

#[test]
fn a_request_that_met_an_idle_close_is_sent_again_and_is_no_error() {
    let server = Server::new(|number, mut client| {
        client.request();
        client.reply();
        // The second request on the first connection finds it closed.
        client.request();
        if number > 0 {
            client.reply();
            client.serve();
        }
    });
    let class = summary(&server, one_session(3.0, 0.02), 0.3);
    assert_eq!((class.resent, class.requests, class.connections), (1, 3, 2));
    assert_eq!(
        (errors(&class), class.outstanding, class.unsent),
        (vec![], 0, 0)
    );
}

#[test]
fn a_request_is_sent_again_once_only() {
    let server = Server::new(|number, mut client| {
        client.request();
        if number == 0 {
            client.reply();
            client.request();
        }
    });
    let class = summary(&server, one_session(3.0, 0.02), 0.3);
    assert_eq!((class.resent, class.requests), (1, 1));
    assert_eq!(errors(&class), [("reset", 1)]);
}

#[test]
fn a_new_connection_that_closes_without_a_reply_is_an_error() {
    let server = Server::new(|_, mut client| {
        client.request();
    });
    let class = summary(&server, one_session(3.0, 0.0), 0.2);
    assert_eq!(
        (class.resent, class.requests, errors(&class)),
        (0, 0, vec![("reset", 1)])
    );
}

#[test]
fn a_reply_cut_in_two_is_an_error_even_on_a_used_connection() {
    let server = Server::new(|_, mut client| {
        client.request();
        client.reply();
        client.request();
        client.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    });
    let class = summary(&server, one_session(3.0, 0.0), 0.2);
    assert_eq!(
        (class.resent, class.requests, errors(&class)),
        (0, 1, vec![("reset", 1)])
    );
}

#[test]
fn an_idle_connection_that_the_server_closes_is_closed_here_too() {
    let server = Server::new(|_, mut client| {
        client.request();
        client.reply();
    });
    // Time passes only once the connection is gone.
    let (_, classes) = run_in(
        Now::default(),
        Box::new(|links| links.iter().next().is_none()),
        &order(&server, one_session(3.0, 0.05), 0.3),
    );
    let class = &classes[0];
    assert_eq!((class.resent, class.requests, class.connections), (0, 3, 3));
    assert_eq!(errors(class), []);
}

/// No handshake is under way; what is asked may stay unanswered.
pub(crate) fn connected(links: &Arena<Link>) -> bool {
    links.iter().all(|link| link.stage != Stage::Connecting)
}

#[test]
fn a_silent_server_is_a_timeout_and_ends_the_session() {
    let server = Server::new(|_, mut client| while client.request().is_some() {});
    let silent = Population {
        timeout_s: 0.1,
        ..one_session(3.0, 0.0)
    };
    let class = run_in(
        Now::default(),
        Box::new(connected),
        &order(&server, silent, 0.3),
    )
    .1
    .remove(0);
    assert_eq!((class.requests, errors(&class)), (0, vec![("timeout", 1)]));
    assert!(class.patience_left_s.abs() < 1e-9);
    assert_eq!((class.outstanding, class.unsent), (0, 0));
}

#[test]
fn requests_without_a_reply_at_the_end_are_censored_not_lost() {
    let server = Server::new(|_, mut client| while client.request().is_some() {});
    let users = Population {
        arrivals: Arrivals::Closed { users: 7 },
        ..population("a")
    };
    let class = run_in(
        Now::default(),
        Box::new(connected),
        &order(&server, users, 0.2),
    )
    .1
    .remove(0);
    assert_eq!(
        (
            class.requests,
            errors(&class),
            class.outstanding,
            class.unsent
        ),
        (0, vec![], 7, 0)
    );
}

#[test]
fn a_refused_connection_is_an_error() {
    // Bound and not listening: nobody else is given the port.
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("socket");
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("bind");
    let address = SocketAddr::try_from(getsockname(&socket).expect("name")).expect("address");
    let class = run(&start(address, vec![one_session(3.0, 0.0)]))
        .1
        .remove(0);
    assert_eq!(
        (class.connections, errors(&class)),
        (0, vec![("connect", 1)])
    );
    near(Some(class.patience_left_s), 5.0);
}

#[test]
fn what_is_not_http_is_an_error() {
    let server = Server::new(|_, mut client| {
        client.request();
        client.send("220 mail ready\r\n");
        client.request();
    });
    let class = summary(&server, one_session(3.0, 0.0), 0.2);
    assert_eq!(errors(&class), [("malformed", 1)]);
}

#[test]
fn error_replies_are_counted_by_kind_and_the_session_goes_on() {
    let server = Server::new(|_, mut client| {
        for status in ["404 Not Found", "503 Busy", "200 OK"] {
            client.request();
            client.send(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        }
        client.request();
    });
    let class = summary(&server, one_session(3.0, 0.0), 0.2);
    assert_eq!(errors(&class), [("http_4xx", 1), ("http_5xx", 1)]);
    assert_eq!((class.requests, class.pages, class.connections), (1, 1, 1));
}

#[test]
fn redirects_are_counted_among_the_replies() {
    let server = Server::new(|_, mut client| {
        for status in ["301 Moved Permanently", "200 OK", "307 Temporary Redirect"] {
            client.request();
            client.send(&format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let class = summary(&server, one_session(3.0, 0.0), 0.2);
    assert_eq!((class.requests, class.redirected), (3, 2));
    assert_eq!(errors(&class), []);
}

#[test]
fn chunked_and_close_delimited_bodies_are_read() {
    let server = Server::new(|_, mut client| {
        client.request();
        client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe");
        std::thread::sleep(Duration::from_millis(5));
        client.send("llo\r\n0\r\n\r\n");
        client.request();
        client.send("HTTP/1.1 200 OK\r\n\r\nto the end");
    });
    let class = summary(&server, one_session(4.0, 0.0), 0.3);
    assert_eq!(
        (class.requests, class.connections, class.body_bytes),
        (4, 2, 2 * (5 + 10))
    );
    assert_eq!(errors(&class), []);
}

#[test]
fn a_stalled_server_shows_in_full_in_the_intended_times() {
    const STALL: std::ops::Range<f64> = 0.5..1.0;
    let now = Now::default();
    let time = now.clone();
    let server = Server::new(move |_, mut client| {
        while client.request().is_some() {
            while STALL.contains(&time.s()) {
                std::thread::sleep(Duration::from_millis(1));
            }
            client.reply();
        }
    });
    let visitors = Population {
        arrivals: Arrivals::Constant { rate_hz: 200.0 },
        ..one_session(1.0, 0.0)
    };
    let time = now.clone();
    let settled = move |links: &Arena<Link>| {
        links.iter().all(|link| match link.stage {
            Stage::Connecting => false,
            Stage::Busy => STALL.contains(&time.s()),
            Stage::Idle => true,
        })
    };
    let (_, classes) = run_in(now, Box::new(settled), &order(&server, visitors, 1.5));
    let class = &classes[0];
    assert_eq!(
        (class.requests + class.outstanding, errors(class)),
        (300, vec![])
    );
    // A third of 300 arrivals fall into the stall and wait 0 to 0.5 s: the 95th percentile is their 85th, 0.425 s.
    near(class.request_intended.p95_s, 0.425);
    near(class.request_intended.max_s, 0.5);
    assert!(class.page_intended.max_s >= class.page_actual.max_s);
}

/// Users that let time pass.
pub(crate) fn population_with_gaps(class: &str) -> Population {
    Population {
        object_gap_s: Distribution::Constant { value: 0.01 },
        ..population(class)
    }
}

#[test]
fn intervals_add_up_to_the_summary() {
    let (server, _) = recording();
    let users = Population {
        arrivals: Arrivals::Closed { users: 4 },
        ..population_with_gaps("a")
    };
    let (intervals, summary) = run(&start(server.address, vec![users]));
    let sum = |count: fn(&Class) -> u64| {
        intervals
            .iter()
            .map(|classes| count(&classes[0]))
            .sum::<u64>()
    };
    assert!(intervals.len() >= 3, "{} intervals", intervals.len());
    assert!(summary[0].requests > 0);
    assert_eq!(sum(|class| class.requests), summary[0].requests);
    assert_eq!(
        sum(|class| class.request_actual.count),
        summary[0].request_actual.count
    );
    assert_eq!(sum(|class| class.sessions), summary[0].sessions);
    assert_eq!(sum(|class| class.body_bytes), summary[0].body_bytes);
}

#[test]
fn a_schedule_starts_and_stops_populations() {
    let (server, _) = recording();
    let steps =
        |factors: [(f64, f64); 2]| factors.map(|(at_s, factor)| Step { at_s, factor }).to_vec();
    let late = Population {
        schedule: steps([(0.0, 0.0), (0.25, 1.0)]),
        ..population_with_gaps("late")
    };
    let early = Population {
        schedule: steps([(0.0, 1.0), (0.25, 0.0)]),
        ..population_with_gaps("early")
    };
    let order = Start {
        duration_s: 0.5,
        interval_s: 0.05,
        ..start(server.address, vec![late, early])
    };
    let (intervals, _) = run(&order);
    let requests = |classes: &[Vec<Class>], index: usize| {
        classes.iter().map(|c| c[index].requests).sum::<u64>()
    };
    // The page under way at the step is finished in the interval after it.
    let (before, after) = (&intervals[..5], &intervals[6..]);
    assert_eq!((requests(before, 0), requests(after, 1)), (0, 0));
    assert!(requests(before, 1) > 0 && requests(after, 0) > 0);
}

/// One session of a page of two requests over a network with this round trip.
pub(crate) fn over_a_network(round_trip_s: f64) -> Population {
    Population {
        burst_requests: Distribution::Constant { value: 2.0 },
        round_trip_s,
        ..one_session(1.0, 0.0)
    }
}

/// As far as a histogram's bins tell times apart.
pub(crate) fn near(found_s: Option<f64>, expected_s: f64) {
    let found_s = found_s.expect("a sample");
    assert!(
        (found_s - expected_s).abs() <= 0.005 * expected_s,
        "{found_s} is not {expected_s}"
    );
}

#[test]
fn a_request_takes_a_round_trip_and_a_new_connection_one_more() {
    let (server, _) = recording();
    let class = summary(&server, over_a_network(0.1), 0.6);
    assert_eq!((class.requests, class.connections), (2, 1));
    near(class.request_intended.max_s, 0.2);
    near(class.request_intended.mean_s, 0.15);
    near(class.request_actual.max_s, 0.1);
    near(class.first_byte.mean_s, 0.1);
    near(class.connect.mean_s, 0.1);
    near(class.page_intended.mean_s, 0.3);
    assert_eq!((class.outstanding, class.unsent), (0, 0));
}

#[test]
fn the_server_sees_the_gap_and_a_round_trip_between_two_requests() {
    let (now, times) = (Now::default(), Arc::new(Mutex::new(Vec::new())));
    let (time, notes) = (now.clone(), Arc::clone(&times));
    let server = Server::new(move |_, mut client| {
        while client.request().is_some() {
            notes.lock().expect("notes").push(time.s());
            client.reply();
        }
    });
    let one = Population {
        object_gap_s: Distribution::Constant { value: 0.05 },
        ..over_a_network(0.1)
    };
    run_in(now, Box::new(nothing_under_way), &order(&server, one, 0.6));
    let times = times.lock().expect("notes");
    near(Some(times[1] - times[0]), 0.15);
}

#[test]
fn a_request_that_travels_to_a_closed_connection_comes_back_and_shakes_hands() {
    let (travels, close) = channel();
    let close = Mutex::new(close);
    let server = Server::new(move |number, mut client| {
        client.request();
        client.reply();
        if number > 0 {
            return client.serve();
        }
        // The client has the reply, and its next request is under way.
        close.lock().expect("close").recv().expect("a word");
    });
    // Time passes only without a connection: before the first one, and once the server has closed it.
    let mut replied = false;
    let settled = move |links: &Arena<Link>| {
        let Some(link) = links.iter().next() else {
            return true;
        };
        if link.stage == Stage::Idle && !replied {
            replied = true;
            travels.send(()).expect("the server");
        }
        false
    };
    let (_, classes) = run_in(
        Now::default(),
        Box::new(settled),
        &order(&server, over_a_network(0.1), 0.8),
    );
    let class = &classes[0];
    assert_eq!((class.requests, class.connections), (2, 2));
    near(class.request_intended.max_s, 0.3);
    assert_eq!(errors(class), []);
}

#[test]
fn a_client_that_knows_of_the_close_shakes_hands_at_once() {
    let server = Server::new(|_, mut client| {
        client.request();
        client.reply_and_close();
    });
    let class = summary(&server, over_a_network(0.1), 0.8);
    assert_eq!((class.requests, class.connections), (2, 2));
    near(class.request_intended.max_s, 0.2);
}
