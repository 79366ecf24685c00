//! What the gate does for connections: budgets, queues, peeking, refusals, reclaiming.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::process::{setrlimit, Resource, Rlimit};
use serde_json::json;
use trimtab_wire::shared::NO_SLOT;

use crate::bench::{all_of, client, two_classes, until, Bench, Server};

const FIRST: [u8; 4] = [127, 0, 1, 1];
const REST: [u8; 4] = [127, 0, 2, 1];

#[test]
fn a_connection_goes_to_a_worker_at_once_and_is_counted() {
    let bench = Bench::start("once", two_classes());
    let server = Server::start(&bench);
    let began = Instant::now();
    let mut user = client(FIRST, server.address);
    let mut held = server.take(&bench);
    let waited_s = began.elapsed().as_secs_f64();
    assert_eq!(held.class, 0);
    held.stream.write_all(b"hello").unwrap();
    server.release(&bench, held);
    let mut got = Vec::new();
    user.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"hello");
    until("the slot is free", || bench.class(0)["in_service"] == 0);
    let class = bench.class(0);
    assert_eq!(
        (&class["arrivals"], &class["dispatched"]),
        (&json!(1), &json!(1))
    );
    assert!(class["delay_sum_s"].as_f64().unwrap() <= waited_s);
    assert_eq!(bench.class(1)["arrivals"], 0);
}

#[test]
fn a_class_waits_at_its_budget_and_the_first_of_its_queue_goes_first() {
    let bench = Bench::start("budget", two_classes());
    let server = Server::start(&bench);
    let mut users: Vec<_> = (0..4).map(|_| client(REST, server.address)).collect();
    let held: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    until("two wait", || bench.class(1)["queue"] == 2);
    assert!(server.takes_nothing(&bench));
    // The other class is not in their way, nor they in its.
    let _other = client(FIRST, server.address);
    assert_eq!(server.take(&bench).class, 0);
    for (index, held) in held.into_iter().enumerate() {
        server.release(&bench, held);
        let mut next = server.take(&bench);
        next.stream.write_all(b"x").unwrap();
        users[2 + index].read_exact(&mut [0]).unwrap();
    }
}

#[test]
fn budgets_change_at_one_instant_and_wrong_changes_change_nothing() {
    let bench = Bench::start("apply", two_classes());
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..6).map(|_| client(REST, server.address)).collect();
    let _held: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    let mut control = bench.control();
    for changes in [
        json!({"process_budget@rest": 9}),
        json!({"process_budget@rest": 4, "process_budget@nobody": 1}),
        json!({"process_budget@rest": -1}),
        json!({"max_request_workers": 0}),
        json!({"other": 1}),
    ] {
        let answer = control.ask(&json!({"type": "apply", "changes": changes}));
        assert_eq!(answer["type"], "refused", "{changes}");
    }
    assert!(server.takes_nothing(&bench));
    let changes =
        json!({"process_budget@rest": 4, "process_budget@first": 0, "max_request_workers": 4});
    let answer = control.ask(&json!({"type": "apply", "changes": changes}));
    assert_eq!(answer["configuration"], changes);
    let more: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    assert_eq!(more.len(), 2);
    assert!(server.takes_nothing(&bench));
}

#[test]
fn a_budget_that_lay_beyond_a_lowered_limit_can_be_put_back() {
    let bench = Bench::start("lowered", two_classes());
    let mut control = bench.control();
    for changes in [
        json!({"max_request_workers": 1}),
        json!({"process_budget@first": 1}),
        json!({"process_budget@first": 2}),
    ] {
        let answer = control.ask(&json!({"type": "apply", "changes": changes}));
        assert_eq!(answer["type"], "done", "{answer}");
    }
}

#[test]
fn a_client_that_gives_up_leaves_the_queue() {
    let bench = Bench::start("abort", two_classes());
    let server = Server::start(&bench);
    let mut users: Vec<_> = (0..5).map(|_| client(REST, server.address)).collect();
    let held = server.take(&bench);
    let _other = server.take(&bench);
    until("three wait", || bench.class(1)["queue"] == 3);
    drop(users.remove(2));
    until("it is counted", || bench.class(1)["aborted"] == 1);
    assert_eq!(bench.class(1)["queue"], 2);
    server.release(&bench, held);
    let mut next = server.take(&bench);
    next.stream.write_all(b"x").unwrap();
    users[2].read_exact(&mut [0]).unwrap();
}

#[test]
fn a_full_queue_refuses_the_newest_or_the_oldest_with_503_that_the_client_reads() {
    for (full, refused) in [("refuse_newest", 2), ("refuse_oldest", 1)] {
        let mut start = two_classes();
        start["classes"][1]["queue_limit"] = json!(1);
        start["classes"][1]["budget"] = json!(1);
        start["classes"][1]["full"] = json!(full);
        let bench = Bench::start(full, start);
        let server = Server::start(&bench);
        let mut users = Vec::new();
        for waiting in [0, 1, 1] {
            let mut user = client(REST, server.address);
            user.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            users.push(user);
            until("it has come", || {
                let class = bench.class(1);
                class["arrivals"] == users.len() && class["queue"] == waiting
            });
        }
        let reply = all_of(users.remove(refused));
        assert!(reply.starts_with("HTTP/1.1 503 "), "{reply:?}");
        assert!(reply.contains("\r\nRetry-After: "), "{reply:?}");
        assert_eq!(bench.class(1)["refused"], 1);
    }
}

#[test]
fn the_request_tells_the_class_and_who_says_nothing_holds_up_nobody() {
    let mut start = two_classes();
    start["classes"][0]["rules"] = json!([{"path_prefix": "/buy"}]);
    start["peek_timeout_s"] = json!(30.0);
    let bench = Bench::start("peek", start.clone());
    let server = Server::start(&bench);
    let _silent: Vec<_> = (0..50).map(|_| client(REST, server.address)).collect();
    let mut slow = client(REST, server.address);
    slow.write_all(b"GET /b").unwrap();
    let mut user = client(REST, server.address);
    user.write_all(b"GET /buy HTTP/1.1\r\n\r\n").unwrap();
    let mut held = server.take(&bench);
    assert_eq!(held.class, 0);
    // What was looked at is still there for the worker.
    let mut got = [0; 21];
    held.stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"GET /buy HTTP/1.1\r\n\r\n");
    slow.write_all(b"uy HTTP/1.1\r\n").unwrap();
    assert_eq!(server.take(&bench).class, 0);
    // After the time to speak a silent one is of the rest, and its delay counts from its arrival.
    start["peek_timeout_s"] = json!(0.3);
    let bench = Bench::start("silent-peek", start);
    let server = Server::start(&bench);
    let _silent = client(REST, server.address);
    assert_eq!(server.take(&bench).class, 1);
    assert!(bench.class(1)["delay_sum_s"].as_f64().unwrap() >= 0.3);
}

#[test]
fn a_connection_of_the_server_to_itself_is_outside_all_budgets() {
    let mut start = two_classes();
    start["classes"][1]["budget"] = json!(1);
    let bench = Bench::start("wake", start);
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..2).map(|_| client(REST, server.address)).collect();
    let _held = server.take(&bench);
    let wake = bench
        .shared
        .header
        .wake_source
        .load(std::sync::atomic::Ordering::Relaxed);
    let mut wake = client(wake.to_be_bytes(), server.address);
    let mut woken = server.take(&bench);
    assert_eq!(woken.slot, NO_SLOT);
    assert_eq!(bench.class(1)["in_service"], 1);
    // Somebody else at the same address gets nothing by it.
    let _ = wake.write_all(b"GET / HTTP/1.1\r\n\r\n");
    assert!(!matches!(woken.stream.read(&mut [0; 64]), Ok(1..)));
    let _ = woken.stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
    assert!(!matches!(wake.read(&mut [0; 64]), Ok(1..)));
}

#[test]
fn the_same_path_in_another_spelling_is_of_the_same_class() {
    let mut start = two_classes();
    start["classes"][0]["rules"] = json!([{"path_prefix": "/vip"}]);
    start["classes"][0]["budget"] = json!(4);
    let bench = Bench::start("spelling", start);
    let server = Server::start(&bench);
    for path in ["/vip", "/./vip", "//vip", "/x/../vip", "/%76ip"] {
        let mut user = client(REST, server.address);
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        user.write_all(request.as_bytes()).unwrap();
        let held = server.take(&bench);
        assert_eq!(held.class, 0, "{path}");
        server.release(&bench, held);
    }
}

#[test]
fn who_says_nothing_from_one_address_without_end_is_of_the_rest_at_once() {
    let most = rustix::process::getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut start = two_classes();
    start["peek_timeout_s"] = json!(60.0);
    start["classes"][0]["rules"] = json!([{"path_prefix": "/buy"}]);
    start["classes"][1]["queue_limit"] = json!(10_000);
    let bench = Bench::start("one-source", start);
    let server = Server::start(&bench);
    let mut other = client(FIRST, server.address);
    other.write_all(b"GET /b").unwrap();
    let _silent: Vec<_> = (0..1100).map(|_| client(REST, server.address)).collect();
    until("the oldest are classified", || {
        bench.class(1)["arrivals"].as_u64() >= Some(1100 - 1024)
    });
    // Those of others are left alone.
    other.write_all(b"uy HTTP/1.1\r\n").unwrap();
    until("it is of its class", || bench.class(0)["arrivals"] == 1);
}

#[test]
fn the_preemptive_policy_asks_back_the_longest_idle_connection_of_a_class_over_its_budget() {
    let mut start = two_classes();
    start["policy"] = json!("preemptive");
    start["classes"][0]["budget"] = json!(0);
    start["classes"][0]["minimum"] = json!(0);
    start["classes"][1]["budget"] = json!(4);
    let bench = Bench::start("preempt", start);
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..4).map(|_| client(REST, server.address)).collect();
    let held: Vec<_> = (0..4).map(|_| server.take(&bench)).collect();
    for (held, since_ns) in held.iter().zip([30, 10, 20]) {
        server.set_idle(&bench, held, since_ns);
    }
    let changes = json!({"process_budget@first": 1, "process_budget@rest": 3});
    bench
        .control()
        .ask(&json!({"type": "apply", "changes": changes}));
    let _user = client(FIRST, server.address);
    assert_eq!(server.asked_back(), held[1].slot);
    let mut held = held;
    server.release(&bench, held.remove(1));
    assert_eq!(server.take(&bench).class, 0);
}

#[test]
fn when_the_lease_runs_out_the_gate_opens_and_an_order_closes_it_again() {
    let bench = Bench::start("lease", two_classes());
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..6).map(|_| client(REST, server.address)).collect();
    let _held: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    assert!(server.takes_nothing(&bench));
    let mut control = bench.control();
    let (ordered, lease) = (Instant::now(), Duration::from_millis(300));
    let answer = control.ask(&json!({"type": "lease", "timeout_s": lease.as_secs_f64()}));
    assert_eq!(answer["mode"], "budgets");
    // Nothing is ordered any more: two more go, as M allows.
    let mut more: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    assert!(ordered.elapsed() >= lease);
    let read = json!({"type": "read"});
    assert_eq!(bench.control().ask(&read)["mode"], "open");
    // Who came first goes first: no class can keep the workers from another that waits longer.
    let _late = client(FIRST, server.address);
    until("it waits", || bench.class(0)["queue"] == 1);
    server.release(&bench, more.remove(0));
    assert_eq!(server.take(&bench).class, 1);
    // Both at once: the lease that the first renews does not run out before the second.
    control.say(format!("{read}\n{read}\n").as_bytes());
    control.hear();
    assert_eq!(control.hear()["mode"], "budgets");
}

#[test]
fn a_controller_that_ends_its_lease_leaves_the_budgets_as_they_are() {
    let bench = Bench::start("lease-ended", two_classes());
    let mut control = bench.control();
    let lease = Duration::from_millis(200);
    control.ask(&json!({"type": "lease", "timeout_s": lease.as_secs_f64()}));
    // Like every order of a controller it finds the budgets in force, also when the lease has run out meanwhile.
    let answer = control.ask(&json!({"type": "end_lease"}));
    assert_eq!(answer["mode"], "budgets");
    std::thread::sleep(2 * lease);
    assert_eq!(control.ask(&json!({"type": "read"}))["mode"], "budgets");
}

#[test]
fn the_time_in_service_ends_when_the_worker_closes_not_when_the_gate_looks() {
    let bench = Bench::start("integral", two_classes());
    let server = Server::start(&bench);
    let mut held_s = 0.0;
    for _ in 0..4 {
        let began = Instant::now();
        let _user = client(REST, server.address);
        let held = server.take(&bench);
        server.release(&bench, held);
        held_s += began.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_millis(150));
    }
    let class = bench.class(1);
    let counted_s = class["in_service_connection_s"].as_f64().unwrap();
    assert!(
        counted_s > 0.0 && counted_s <= held_s,
        "{counted_s} {held_s}"
    );
}

#[test]
fn a_client_that_ends_before_its_request_is_whole_costs_no_worker() {
    let mut start = two_classes();
    start["peek_timeout_s"] = json!(30.0);
    start["classes"][0]["rules"] = json!([{"header": "X-Tier"}]);
    let bench = Bench::start("partial", start);
    let server = Server::start(&bench);
    for said in [&b"GET / HTTP/1.1\r\n"[..], b""] {
        let mut user = client(REST, server.address);
        user.write_all(said).unwrap();
        assert!(server.takes_nothing(&bench));
    }
    until("both are counted", || bench.class(1)["aborted"] == 2);
    // One that has asked for all it wants may end its own direction.
    let mut user = client(REST, server.address);
    user.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    user.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(server.take(&bench).class, 1);
}
