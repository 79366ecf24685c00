//! Listeners that the server closes, and those who wait because of it.

use std::io::{ErrorKind, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use rustix::net::{sockopt, AddressFamily, SendFlags, Shutdown, SocketType};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::json;
use trimtab_wire::handoff;

use crate::bench::{client, register, two_classes, until, Bench, Server};
use crate::faults::cpu_s;

const REST: [u8; 4] = [127, 0, 2, 1];
const USERS: usize = 6;

/// A listener of a process that opens its port for itself.
fn listener(port: u16) -> TcpListener {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseport(&socket, true).unwrap();
    sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    rustix::net::listen(&socket, 64).unwrap();
    socket.into()
}

/// Clients of whom two are given to the server and four wait.
fn users(bench: &Bench, to: SocketAddr) -> Vec<TcpStream> {
    let users = (0..USERS).map(|_| client(REST, to)).collect();
    until("all have come", || bench.class(1)["arrivals"] == USERS);
    users
}

/// A server serves all of them, two at a time at most.
fn serves_all(server: &Server, bench: &Bench) {
    for _ in 0..USERS {
        let held = server.take(bench);
        server.release(bench, held);
    }
}

#[test]
fn a_listener_whose_last_process_closes_it_is_closed_by_the_gate() {
    let bench = Bench::start("closed", two_classes());
    let server = Server::start(&bench);
    let other = register(&bench, &server.listener);
    let address = server.address;
    drop(server);
    assert!(TcpStream::connect(address).is_ok(), "another one has it");
    drop(other);
    until("nobody listens", || TcpStream::connect(address).is_err());
    let anew = Server::with(&bench, listener(address.port()));
    let _user = client(REST, address);
    anew.take(&bench);
}

#[test]
fn a_next_gate_knows_whether_somebody_has_a_listener() {
    let bench = Bench::start("closed-next", two_classes());
    let server = Server::start(&bench);
    let gate = bench.gate_pid();
    let pid = Pid::from_raw(gate as i32).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    until("another gate", || ![0, gate].contains(&bench.gate_pid()));
    let _user = client(REST, server.address);
    server.take(&bench);
    let address = server.address;
    drop(server);
    until("nobody listens", || TcpStream::connect(address).is_err());
}

#[test]
fn who_waits_at_a_closed_listener_is_served_at_the_other_one_of_its_address() {
    let bench = Bench::start("closed-heir", two_classes());
    let first = Server::with(&bench, listener(0));
    let second = Server::with(&bench, listener(first.address.port()));
    let _users = users(&bench, first.address);
    drop(first);
    serves_all(&second, &bench);
    assert_eq!(bench.class(1)["aborted"], 0);
    until("all slots are free", || bench.class(1)["in_service"] == 0);
}

#[test]
fn who_waits_at_a_closed_listener_is_served_when_it_is_opened_anew() {
    let bench = Bench::start("closed-anew", two_classes());
    let first = Server::start(&bench);
    let address = first.address;
    let _users = users(&bench, address);
    drop(first);
    let mut anew = None;
    until("the address is free", || {
        anew = anew.take().or_else(|| TcpListener::bind(address).ok());
        anew.is_some()
    });
    serves_all(&Server::with(&bench, anew.unwrap()), &bench);
    assert_eq!(bench.class(1)["aborted"], 0);
}

#[test]
fn who_waits_at_a_closed_listener_that_is_not_opened_anew_is_not_kept() {
    let bench = Bench::start("closed-nobody", two_classes());
    let closed = Server::start(&bench);
    let users = users(&bench, closed.address);
    drop(closed);
    let other = Server::start(&bench);
    for mut user in users {
        let end = user.read(&mut [0; 9]).map_err(|error| error.kind());
        assert!(
            matches!(end, Ok(0) | Err(ErrorKind::ConnectionReset)),
            "{end:?}"
        );
    }
    let _user = client(REST, other.address);
    other.take(&bench);
}

#[test]
fn a_listener_is_not_closed_by_what_a_process_says_that_has_it() {
    let bench = Bench::start("closed-said", two_classes());
    let server = Server::start(&bench);
    for _ in 0..3 {
        handoff::send(server.hold.as_fd(), b"closed", None, SendFlags::empty()).unwrap();
    }
    let _user = client(REST, server.address);
    server.take(&bench);
    assert_eq!(bench.class(1)["in_service"], 1);
    assert!(!server.sees_the_end());
}

#[test]
fn a_listener_that_is_shut_down_costs_the_gate_nothing_and_may_listen_again() {
    let bench = Bench::start("shut-down", two_classes());
    let first = listener(0);
    // One that was bound to a number keeps it.
    let server = Server::with(&bench, listener(first.local_addr().unwrap().port()));
    drop(first);
    rustix::net::shutdown(&server.listener, Shutdown::Both).unwrap();
    let gate = Pid::from_raw(bench.gate_pid() as i32).unwrap();
    let began = (cpu_s(gate), Instant::now());
    std::thread::sleep(Duration::from_millis(1000));
    let share = (cpu_s(gate) - began.0) / began.1.elapsed().as_secs_f64();
    assert!(share < 0.06, "it took {share} of a core");
    rustix::net::listen(&server.listener, 64).unwrap();
    let _user = client(REST, server.address);
    server.take(&bench);
}

#[test]
fn a_listener_whose_workers_are_shut_down_with_it_is_let_go_and_served_when_it_is_shown_again() {
    let bench = Bench::start("pair-shut", two_classes());
    let generation = || bench.shared.header.generation.load(Relaxed);
    let same_gate = || {
        bench
            .control()
            .ask(&json!({"type": "apply", "changes": {}}))["generation"]
            .clone()
    };
    let gate = same_gate();
    // As the shim does; the other direction is for a process that was broken into.
    for how in [Shutdown::Read, Shutdown::Write] {
        let server = Server::start(&bench);
        let before = generation();
        rustix::net::shutdown(&server.workers, how).unwrap();
        let _user = client(REST, server.address);
        until("it is let go", || generation() > before);
        let again = Server::with(&bench, server.listener.try_clone().unwrap());
        let held = again.take(&bench);
        again.release(&bench, held);
    }
    // To a controller another gate would be a reason to put its budgets over an operator's.
    assert_eq!(same_gate(), gate);
}

#[test]
fn who_has_a_listener_that_nobody_holds_any_more_is_told_to_show_it_again() {
    let bench = Bench::start("hold-ended", two_classes());
    let server = Server::start(&bench);
    let before = bench.shared.header.generation.load(Relaxed);
    drop(server.hold);
    until("it is let go", || {
        bench.shared.header.generation.load(Relaxed) > before
    });
}
