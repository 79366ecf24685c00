use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::ends::Network;
use crate::shared::{Shared, DISPATCHED};

fn with_file(name: &str, check: impl FnOnce(&Shared)) {
    let path = std::env::temp_dir().join(format!("trimtab-lanes-{}-{name}", std::process::id()));
    let shared = Shared::create(&path).unwrap();
    check(&shared);
    std::fs::remove_file(path).unwrap();
}

fn lend(shared: &Shared, class: u32, era: u16, slots: std::ops::Range<u32>) {
    shared.open_lane(class, era);
    for index in slots {
        shared.lend(index, class, era);
    }
}

/// What a worker does when its connection ends.
fn end(shared: &Shared, index: u32) -> bool {
    assert!(shared.slot(index).unwrap().close(|| false));
    shared.give_to_lane(index)
}

#[test]
fn a_lane_gives_as_many_slots_as_were_lent_and_takes_them_back() {
    with_file("some", |shared| {
        assert_eq!(shared.pop(1), None);
        lend(shared, 1, 7, 4..6);
        assert_eq!(shared.pop(0), None);
        let taken: BTreeSet<_> = (0..2)
            .map(|fd| shared.take_for_itself(1, 99, fd, 1000).unwrap())
            .collect();
        assert_eq!(taken, BTreeSet::from([4, 5]));
        assert_eq!(shared.take_for_itself(1, 99, 3, 1000), None);
        let slot = shared.slot(4).unwrap();
        assert_eq!(
            (slot.state.load(Relaxed), slot.pid.load(Relaxed)),
            (HELD, 99)
        );
        assert!(end(shared, 4));
        assert!(shared.lanes.lanes[1].held_ns.load(Relaxed) > 0);
        assert_eq!(shared.close_lane(1), [4]);
    });
}

#[test]
fn what_ends_after_the_lane_was_closed_goes_back_to_the_gate() {
    with_file("closed", |shared| {
        lend(shared, 0, 1, 0..2);
        let first = shared.take_for_itself(0, 99, 3, 1000).unwrap();
        assert_eq!(shared.close_lane(0).len(), 1);
        assert!(!end(shared, first));
        assert_eq!(shared.slot(first).unwrap().state.load(Relaxed), CLOSED);
        // Nor does it come into a later lending.
        lend(shared, 0, 2, 10..11);
        assert!(!shared.give_to_lane(first));
        assert_eq!(shared.close_lane(0), [10]);
    });
}

#[test]
fn a_slot_that_a_next_gate_has_given_is_not_taken() {
    with_file("given", |shared| {
        lend(shared, 0, 1, 0..1);
        shared.slot(0).unwrap().state.store(DISPATCHED, Relaxed);
        assert_eq!(shared.take_for_itself(0, 99, 3, 1000), None);
        assert_eq!(shared.slot(0).unwrap().state.load(Relaxed), DISPATCHED);
    });
}

#[test]
fn a_chain_that_somebody_has_spoilt_ends() {
    with_file("spoilt", |shared| {
        lend(shared, 0, 1, 0..2);
        shared.slot(0).unwrap().next.store(2, Relaxed);
        assert_eq!(shared.close_lane(0).len(), SLOTS);
        lend(shared, 0, 2, 0..1);
        shared.slot(0).unwrap().next.store(u32::MAX, Relaxed);
        assert_eq!(shared.close_lane(0), [0]);
    });
}

#[test]
fn workers_never_share_a_slot_and_lose_none() {
    with_file("race", |shared| {
        let slots = 8;
        lend(shared, 0, 1, 0..slots);
        std::thread::scope(|scope| {
            for worker in 1..5 {
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let Some(index) = shared.take_for_itself(0, worker, 1, 1) else {
                            std::thread::yield_now();
                            continue;
                        };
                        assert_eq!(shared.slot(index).unwrap().pid.load(Relaxed), worker);
                        assert!(end(shared, index));
                    }
                });
            }
        });
        let left: BTreeSet<_> = shared.close_lane(0).into_iter().collect();
        assert_eq!(left, (0..slots).collect());
    });
}

#[test]
fn a_connection_has_the_class_of_the_first_rule_that_holds() {
    with_file("rules", |shared| {
        let ends = |source: &str| Ends {
            source: source.parse().unwrap(),
            local: "0.0.0.0:80".parse().unwrap(),
        };
        let from = |text| EndsRule {
            source: Some(Network::parse(text).unwrap()),
            ..EndsRule::default()
        };
        let lanes = &shared.lanes;
        assert_eq!(lanes.class_of(&ends("10.0.0.1")), 0);
        lanes.show(&[(from("10.0.0.1"), 2), (from("10.0.0.0/8"), 0)], 1);
        assert_eq!(lanes.class_of(&ends("10.0.0.1")), 2);
        assert_eq!(lanes.class_of(&ends("10.0.0.2")), 0);
        assert_eq!(lanes.class_of(&ends("11.0.0.2")), 1);
        assert_eq!(lanes.asks_address.load(Relaxed), 0);
    });
}

#[test]
fn what_was_sent_is_noted_by_listener() {
    with_file("sent", |shared| {
        let lanes = &shared.lanes;
        lanes.note_sent(8080);
        assert!(lanes.may_have_sent(8080));
        assert!(!lanes.may_have_sent(8081));
        lanes.nothing_sent(8080);
        assert!(!lanes.may_have_sent(8080));
    });
}
