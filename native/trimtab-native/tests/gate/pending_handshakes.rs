//! Who is believed at the hand-off socket, and what he can do who is not.

use std::sync::atomic::Ordering::Relaxed;

use serde_json::json;
use trimtab_wire::handoff::Role;

use crate::bench::{client, greet, is_believed, two_classes, until, Bench, Server};

const REST: [u8; 4] = [127, 0, 2, 1];

#[test]
fn who_does_not_show_the_token_is_not_believed() {
    let bench = Bench::start("token", two_classes());
    let mut wrong = bench.shared.token();
    wrong[0] ^= 1;
    for role in [Role::Listener, Role::Worker] {
        let stranger = greet(&bench.directory, wrong, std::process::id(), role);
        assert!(!is_believed(&stranger), "{role:?}");
    }
}

#[test]
fn a_worker_that_says_it_is_another_process_frees_nothing_of_that_ones() {
    let bench = Bench::start("other-pid", two_classes());
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..3).map(|_| client(REST, server.address)).collect();
    let mut other = bench.other_process();
    for _ in 0..2 {
        let slot = server.take(&bench).slot;
        let slot = bench.shared.slot(slot).unwrap();
        slot.pid.store(other.id(), Relaxed);
    }
    let liar = greet(
        &bench.directory,
        bench.shared.token(),
        other.id(),
        Role::Worker,
    );
    let _ = is_believed(&liar);
    drop(liar);
    assert!(server.takes_nothing(&bench));
    assert_eq!(bench.class(1)["in_service"], 2);
    drop(other.stdin.take());
    other.wait().unwrap();
    server.take(&bench);
}

#[test]
fn listeners_without_end_are_not_taken() {
    let bench = Bench::start("listeners", two_classes());
    let mut kept = Vec::new();
    let mut taken = 0;
    for _ in 0..600 {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let talk = bench.hello(Some(&listener));
        taken += usize::from(crate::bench::is_welcome(&talk));
        kept.push((listener, talk));
    }
    assert_eq!(taken, 512);
    // The server's accept waits at one that was not taken as it did.
    let (not_taken, _) = kept.last().unwrap();
    let flags = rustix::fs::fcntl_getfl(not_taken).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    until("the gate answers", || {
        bench.control().ask(&json!({"type": "read"}))["type"] == "readings"
    });
}
