use rustix::event::{epoll, Timespec};
use trimtab_wire::shared::{CLOSED, FREE, SLOTS};

use super::super::pending_handshakes::BATCH;
use super::*;

const S: u64 = 1_000_000_000;
/// Nobody has this one: it is above the kernel's largest.
const DEAD: u32 = 1 << 23;

fn with(name: &str, check: impl FnOnce(&mut Bench<'_>, &Layout)) {
    let ground = Ground::new(name).unwrap();
    let mut bench = Bench::new(&ground).unwrap();
    check(&mut bench, ground.layout());
    assert_eq!(bench.flaw(), None);
}

/// As many connections of a class as its budget allows go to a worker of this process.
fn fill(bench: &mut Bench<'_>, class: usize) {
    bench.gate.close_bound_lanes();
    for _ in 0..BUDGET {
        bench.arrives(class).unwrap();
        bench.receives(std::process::id()).unwrap();
    }
}

/// Does to every slot as a broken worker can.
fn scribble(layout: &Layout, slots: std::ops::Range<u32>, state: u32, pid: u32) {
    for slot in slots.filter_map(|index| layout.slot(index)) {
        slot.pid.store(pid, Relaxed);
        slot.state.store(state, Relaxed);
    }
}

fn serves(bench: &mut Bench<'_>, class: usize) -> bool {
    bench.arrives(class).unwrap();
    bench.gate.pump();
    bench.receives(std::process::id()).is_some()
}

#[test]
fn a_stack_of_released_slots_that_is_a_circle_is_left_after_one_round() {
    with("circle", |bench, layout| {
        fill(bench, 0);
        bench.arrives(0).unwrap();
        let [one, other] = bench.held[..2] else {
            panic!("two are held")
        };
        for (from, to) in [(one, other), (other, one)] {
            layout.slot(from).unwrap().next.store(to + 1, Relaxed);
        }
        layout
            .header
            .released_head
            .store(u64::from(one) + 1, Relaxed);
        bench.gate.collect();
        bench.gate.pump();
    });
}

#[test]
fn what_lies_on_the_stack_again_and_again_does_not_keep_the_gate_from_its_sockets() {
    with("again", |bench, layout| {
        fill(bench, 0);
        bench.arrives(0).unwrap();
        layout.slot(60_000).unwrap().next.store(60_001, Relaxed);
        layout.header.released_head.store(60_001, Relaxed);
        assert!(!bench.gate.collect(), "nothing has come back");
    });
}

#[test]
fn free_slots_that_were_written_off_by_one_who_lives_or_in_no_state_are_found_again() {
    for (state, owner) in [(HELD, std::process::id()), (77, 0)] {
        with(&format!("written-off-{state}"), |bench, layout| {
            bench.gate.close_bound_lanes();
            scribble(layout, 0..SLOTS as u32, state, owner);
            assert!(!serves(bench, 0));
            for _ in 0..4 {
                bench.passes(S);
            }
            bench.gate.close_bound_lanes();
            bench.gate.pump();
            assert!(bench.receives(std::process::id()).is_some() || serves(bench, 0));
        });
    }
}

#[test]
fn a_budget_comes_back_whose_slots_were_written_free_or_closed_under_the_workers() {
    for state in [FREE, CLOSED, 77, u32::MAX] {
        with(&format!("under-{state}"), |bench, layout| {
            fill(bench, 0);
            scribble(layout, 0..BUDGET, state, std::process::id());
            for held in bench.held.clone() {
                bench.closes(held);
            }
            // Long enough for lanes not to be opened: they would hide what is looked for.
            for _ in 0..3 {
                bench.passes(S);
                bench.gate.close_bound_lanes();
            }
            assert_eq!(
                bench.gate.budgets.shares()[0].in_service,
                0,
                "state {state}"
            );
        });
    }
}

#[test]
fn a_dispatch_time_in_the_future_does_not_keep_a_lost_dispatch_for_ever() {
    with("future", |bench, layout| {
        bench.gate.close_bound_lanes();
        bench.arrives(0).unwrap();
        let slot = bench.receives(std::process::id()).unwrap();
        let slot = layout.slot(slot).unwrap();
        slot.dispatched_ns.store(u64::MAX, Relaxed);
        slot.state.store(DISPATCHED, Relaxed);
        for _ in 0..8 {
            bench.passes(S);
            bench.gate.close_bound_lanes();
        }
        assert_eq!(bench.gate.budgets.shares()[0].in_service, 0);
    });
}

#[test]
fn slots_of_as_many_dead_processes_as_there_are_slots_are_free_after_one_sweep() {
    with("dead", |bench, layout| {
        bench.gate.close_bound_lanes();
        for (slot, pid) in layout.slots.iter().zip(DEAD..) {
            slot.pid.store(pid, Relaxed);
            slot.state.store(HELD, Relaxed);
        }
        assert!(!serves(bench, 0));
        bench.passes(S);
        bench.gate.close_bound_lanes();
        bench.gate.pump();
        assert!(bench.receives(std::process::id()).is_some() || serves(bench, 0));
    });
}

#[test]
fn counters_that_a_worker_has_written_full_do_not_overflow() {
    with("full", |bench, layout| {
        bench.arrives(0).unwrap();
        let lane = &layout.lanes.lanes[0];
        for counter in [&lane.taken, &lane.delay_ns, &lane.held_ns] {
            counter.store(u64::MAX, Relaxed);
        }
        for count in &lane.delays {
            count.store(u64::MAX, Relaxed);
        }
        let figures = bench.gate.figures();
        crate::metrics::page(&figures);
        assert!(figures.classes[0].arrivals >= 1);
    });
}

#[test]
fn an_era_that_a_worker_has_written_is_not_taken_over() {
    with("era", |bench, layout| {
        bench.gate.open_lanes();
        assert!(bench.gate.lanes_are_open());
        layout.lanes.era.store(0, Relaxed);
        let twice = [2 * BUDGET; CLASSES].into_iter();
        bench.gate.budgets.set(4 * BUDGET, twice);
        bench.gate.look_after_lanes();
        for _ in 0..2 * BUDGET {
            assert!(bench.takes(0, std::process::id()).is_some());
        }
    });
}

#[test]
fn a_flood_of_clients_at_its_own_doors_is_accepted_in_turns() {
    with("flood", |bench, _| {
        let door = bench.gate.run_directory.control;
        let path = bench.gate.start.directory.join("control.sock");
        let more = 36;
        let flood: Vec<_> = (0..BATCH + more)
            .map(|_| std::os::unix::net::UnixStream::connect(&path).unwrap())
            .collect();
        bench.gate.accept_clients(door, false);
        let accept = || rustix::net::accept(bench.gate.ledger.borrow(door));
        let left = std::iter::from_fn(|| accept().ok()).count();
        assert_eq!((left, flood.len()), (more, BATCH + more));
    });
}

#[test]
fn a_listener_that_was_let_go_does_not_wake_the_gate_although_another_process_has_it() {
    with("let-go", |bench, _| {
        let (socket, client) = pair().unwrap();
        let _others = socket.try_clone().unwrap();
        let (gate_end, worker_end) = sockets::pair().unwrap();
        let ledger = bench.gate.ledger;
        let gate_end = ledger.keep(gate_end, Kind::GateEnd, 0);
        let listener = Listener {
            number: ledger.keep(socket, Kind::Listener, gate_end),
            gate_end,
            worker_end: ledger.keep(worker_end, Kind::WorkerEnd, DEAD),
            inode: 1,
            local: ([127, 0, 0, 1], 81).into(),
            owner: DEAD,
            holds: Vec::new(),
            full: false,
            paused: false,
            shut: false,
        };
        bench.gate.serve_listener(listener).unwrap();
        bench.gate.forget_dead_owners();
        drop(client);
        let mut events = Vec::with_capacity(4);
        let (waiter, room) = (ledger.borrow(bench.gate.epoll), &mut events);
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        epoll::wait(waiter, rustix::buffer::spare_capacity(room), Some(&at_once)).unwrap();
        assert_eq!(events.len(), 0);
    });
}

#[test]
fn a_connection_that_a_worker_hands_over_goes_to_the_listener_of_its_address() {
    with("addresses", |bench, _| {
        let at = |local: &str| Listener {
            number: 0,
            gate_end: 0,
            worker_end: 0,
            inode: 0,
            local: local.parse().unwrap(),
            owner: 0,
            holds: Vec::new(),
            full: false,
            paused: false,
            shut: false,
        };
        let all = [
            "127.0.0.1:80",
            "192.0.2.1:80",
            "[::]:80",
            "0.0.0.0:80",
            "192.0.2.1:81",
        ];
        bench.gate.listeners = all.map(at).into();
        let serving = |local: &str| {
            let found = bench.gate.serving(local.parse().unwrap());
            found.map(|index| all[index])
        };
        for one in all {
            assert_eq!(serving(one), Some(one), "of this very address");
        }
        assert_eq!(serving("192.0.2.9:80"), Some("0.0.0.0:80"));
        assert_eq!(serving("[2001:db8::1]:80"), Some("[::]:80"));
        // A client by IPv4 of a listener of both families.
        assert_eq!(serving("[::ffff:192.0.2.9]:80"), Some("[::]:80"));
        assert_eq!(
            serving("192.0.2.9:81"),
            Some("192.0.2.1:81"),
            "of a transparent proxy"
        );
        assert_eq!(serving("192.0.2.1:82"), None);
    });
}

#[test]
fn the_conversation_of_a_dead_process_ends_although_another_one_has_it() {
    with("kept", |bench, layout| {
        let (conversation, _others) = pair().unwrap();
        let number = bench.gate.ledger.keep(conversation, Kind::Passing, 0);
        bench.gate.worker_came(number, DEAD);
        fill(bench, 0);
        scribble(layout, 0..BUDGET, HELD, DEAD);
        bench.passes(S);
        bench.gate.close_bound_lanes();
        assert_eq!(bench.gate.budgets.shares()[0].in_service, 0);
        assert!(bench.gate.workers.is_empty());
        bench.held.clear();
    });
}

#[test]
fn a_listener_that_the_gate_cannot_wait_for_leaves_nothing_open() {
    with("unwaited", |bench, _| {
        let gate = &mut bench.gate;
        let ledger = gate.ledger;
        let is_known = |&number: &u32| ledger.entry(number).kind() != Kind::Unknown;
        let known = || (0..DESCRIPTORS as u32).filter(is_known).count();
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let before = known();
        // By what is no epoll nothing can be waited for.
        let epoll = std::mem::replace(&mut gate.epoll, gate.listeners[0].number);
        let index = gate.listener_of(listener.into(), std::process::id());
        gate.epoll = epoll;
        assert_eq!((index, known()), (None, before));
    });
}

#[test]
fn what_a_process_shows_takes_a_quarter_of_all_descriptors_at_most() {
    with("shows", |bench, _| {
        let (gate, own) = (&mut bench.gate, std::process::id());
        let mut shows = || {
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            gate.listener_of(listener.into(), own).is_some()
        };
        let taken = 1 + (0..=DESCRIPTORS / 16).filter(|_| shows()).count();
        assert_eq!(taken, DESCRIPTORS / 16);
        gate.listeners[0].holds = vec![0; DESCRIPTORS / 4 - 1];
        assert!(!gate.has_all_holds());
        gate.listeners[1].holds.push(0);
        assert!(gate.has_all_holds());
        gate.listeners[1].holds.clear();
        while gate.listeners.len() > 1 {
            gate.forget(1);
        }
    });
}
