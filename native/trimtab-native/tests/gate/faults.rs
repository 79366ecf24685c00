//! What dies, and what must outlive it.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{kill_process, prlimit, Pid, Resource, Rlimit, Signal};
use serde_json::json;

use crate::bench::{client, register, two_classes, until, Bench, Server, PROGRAM};

const REST: [u8; 4] = [127, 0, 2, 1];

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn a_killed_gate_loses_no_connection_no_count_and_no_order_of_the_queue() {
    let bench = Bench::start("killed", two_classes());
    let server = Server::start(&bench);
    let mut users: Vec<_> = (0..6).map(|_| client(REST, server.address)).collect();
    let mut held: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    until("four wait", || bench.class(1)["queue"] == 4);
    bench
        .control()
        .ask(&json!({"type": "apply", "changes": {"process_budget@first": 1}}));
    for _ in 0..3 {
        let before = bench.gate_pid();
        kill(before);
        until("another gate works", || bench.gate_pid() != before);
        until("it knows the queue", || bench.class(1)["queue"] == 4);
        let class = bench.class(1);
        assert_eq!(
            (&class["arrivals"], &class["in_service"]),
            (&json!(6), &json!(2))
        );
    }
    let done = bench
        .control()
        .ask(&json!({"type": "apply", "changes": {}}));
    assert_eq!(done["configuration"]["process_budget@first"], 1);
    for user in &mut users[2..] {
        server.release(&bench, held.remove(0));
        let mut next = server.take(&bench);
        next.stream.write_all(b"x").unwrap();
        user.read_exact(&mut [0]).unwrap();
        held.push(next);
    }
    let _late = client(REST, server.address);
    until("new ones are accepted", || bench.class(1)["arrivals"] == 7);
}

#[test]
fn connections_that_were_being_looked_at_survive_a_killed_gate() {
    let mut start = two_classes();
    start["peek_timeout_s"] = json!(30.0);
    start["classes"][0]["rules"] = json!([{"path_prefix": "/buy"}]);
    let bench = Bench::start("killed-peek", start);
    let server = Server::start(&bench);
    let mut user = client(REST, server.address);
    user.write_all(b"GET /bu").unwrap();
    assert!(server.takes_nothing(&bench));
    kill(bench.gate_pid());
    user.write_all(b"y HTTP/1.1\r\n").unwrap();
    assert_eq!(server.take(&bench).class, 0);
}

#[test]
fn a_gate_whose_guardian_is_killed_guards_the_next_one() {
    let bench = Bench::start("orphan", two_classes());
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..3).map(|_| client(REST, server.address)).collect();
    let held = server.take(&bench);
    let orphan = bench.gate_pid();
    kill(bench.guardian_pid());
    until("the orphan has started another", || {
        bench.gate_pid() != orphan
    });
    kill(bench.gate_pid());
    until("it is replaced too", || bench.class(1)["queue"] == 1);
    server.release(&bench, held);
    server.take(&bench);
    server.take(&bench);
    // What is left is ended here: the bench knows only the guardian that it started.
    kill(orphan);
}

#[test]
fn a_gate_whose_words_nobody_hears_any_more_opens_all_the_same() {
    let bench = Bench::start_by("unheard", two_classes(), || {
        let (_, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(PROGRAM);
        command.stderr(OwnedFd::from(theirs));
        command
    });
    let gate = bench.gate_pid();
    let lease = json!({"type": "lease", "timeout_s": 0.2});
    assert_eq!(bench.control().ask(&lease)["mode"], "budgets");
    until("it is open", || {
        bench.control().ask(&json!({"type": "read"}))["mode"] == "open"
    });
    assert_eq!(bench.gate_pid(), gate);
}

#[test]
fn when_both_die_the_workers_see_the_end() {
    let bench = Bench::start("both", two_classes());
    let server = Server::start(&bench);
    kill(bench.guardian_pid());
    kill(bench.gate_pid());
    until("the workers see the end", || server.sees_the_end());
}

#[test]
fn a_dead_process_gives_its_slots_back() {
    let bench = Bench::start("dead", two_classes());
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..4).map(|_| client(REST, server.address)).collect();
    let mut other = bench.other_process();
    let held: Vec<_> = (0..2).map(|_| server.take(&bench)).collect();
    for held in &held {
        let slot = bench.shared.slot(held.slot).unwrap();
        slot.pid
            .store(other.id(), std::sync::atomic::Ordering::Relaxed);
    }
    assert!(server.takes_nothing(&bench));
    drop(other.stdin.take());
    other.wait().unwrap();
    server.take(&bench);
    server.take(&bench);
    assert_eq!(bench.class(1)["in_service"], 2);
}

#[test]
fn a_connection_that_was_received_and_never_held_gives_its_slot_back() {
    let bench = Bench::start("lost", two_classes());
    let server = Server::start(&bench);
    let _user = client(REST, server.address);
    // A process takes the message and dies before it can say so.
    until("it was sent", || bench.class(1)["in_service"] == 1);
    let lost = server.receive_and_die();
    until("the slot is free again", || {
        bench.class(1)["in_service"] == 0
    });
    drop(lost);
}

#[test]
fn processes_that_show_the_same_listener_share_one_dispatch_pair() {
    let bench = Bench::start("share", two_classes());
    let server = Server::start(&bench);
    let (again, _hold) = register(&bench, &server.listener);
    let _user = client(REST, server.address);
    let mut bytes = [0; trimtab_wire::handoff::LONGEST];
    let flags = rustix::net::RecvFlags::empty();
    let (_, passed) = trimtab_wire::handoff::receive(again.as_fd(), &mut bytes, flags).unwrap();
    assert!(passed.is_some());
}

#[test]
fn told_to_stop_the_gate_gives_all_that_waits_to_the_workers_first() {
    let mut bench = Bench::start("stop", two_classes());
    let server = Server::start(&bench);
    let _users: Vec<_> = (0..8).map(|_| client(REST, server.address)).collect();
    until("six wait", || bench.class(1)["queue"] == 6);
    assert_eq!(
        bench.control().ask(&json!({"type": "stop"}))["type"],
        "done"
    );
    for _ in 0..8 {
        server.take(&bench);
    }
    until("the workers see the end", || server.sees_the_end());
    assert_eq!(bench.exit_code(), Some(0));
}

#[test]
fn the_pair_ends_by_itself_when_nobody_is_there_any_more() {
    let mut bench = Bench::start("alone", two_classes());
    bench.close_stdin();
    assert_eq!(bench.exit_code(), Some(0));
}

#[test]
fn a_gate_that_stands_still_is_replaced() {
    let bench = Bench::start("stopped", two_classes());
    let server = Server::start(&bench);
    let stopped = bench.gate_pid();
    kill_process(Pid::from_raw(stopped as i32).unwrap(), Signal::STOP).unwrap();
    let _user = client(REST, server.address);
    until("another gate works", || bench.gate_pid() != stopped);
    server.take(&bench);
}

#[test]
fn a_next_gate_does_not_wait_in_accept_at_a_listener_that_somebody_has_made_blocking() {
    let bench = Bench::start("blocking", two_classes());
    let server = Server::start(&bench);
    rustix::io::ioctl_fionbio(&server.listener, false).unwrap();
    let killed = bench.gate_pid();
    kill(killed);
    until("another gate works", || bench.gate_pid() != killed);
    let next = bench.gate_pid();
    let _user = client(REST, server.address);
    server.take(&bench);
    assert_eq!(bench.class(1)["arrivals"], 1);
    assert_eq!(bench.gate_pid(), next, "it stood still and was replaced");
}

#[test]
fn a_gate_without_free_descriptors_waits_for_one_and_does_not_spin() {
    let bench = Bench::start("no-descriptors", two_classes());
    let pid = Pid::from_raw(bench.gate_pid() as i32).unwrap();
    let none = Rlimit {
        current: Some(3),
        maximum: None,
    };
    let before = prlimit(Some(pid), Resource::Nofile, none_of(pid, none)).unwrap();
    let mut control = bench.control();
    let began = (cpu_s(pid), std::time::Instant::now());
    std::thread::sleep(std::time::Duration::from_millis(600));
    let share = (cpu_s(pid) - began.0) / began.1.elapsed().as_secs_f64();
    assert!(share < 0.4, "it took {share} of a core");
    prlimit(Some(pid), Resource::Nofile, before).unwrap();
    assert_eq!(control.ask(&json!({"type": "read"}))["type"], "readings");
}

#[test]
fn descriptors_that_it_was_started_with_beyond_its_limit_do_not_end_the_gate() {
    let bench = Bench::start_by("inherited", two_classes(), || {
        let mut bash = Command::new("bash");
        let text = "exec 500</dev/null; ulimit -n 128; exec \"$0\"";
        bash.args(["-c", &format!("{text} gate"), PROGRAM]);
        bash
    });
    let open = format!("/proc/{}/fd/500", bench.gate_pid());
    assert!(std::fs::symlink_metadata(open).is_err());
    assert_eq!(bench.class(0)["arrivals"], 0);
}

/// The limit with the hard one of a process left as it is.
fn none_of(pid: Pid, limit: Rlimit) -> Rlimit {
    let text = std::fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files"));
    let hard = line.unwrap().split_whitespace().nth(4).unwrap();
    Rlimit {
        maximum: hard.parse().ok(),
        ..limit
    }
}

/// CPU time of a process.
pub fn cpu_s(pid: Pid) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    let words: Vec<_> = text
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: u64 = words[11..13]
        .iter()
        .map(|word| word.parse::<u64>().unwrap())
        .sum();
    ticks as f64 / 100.0
}
