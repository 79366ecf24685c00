use super::*;
use trimtab_wire::shared::Shared;

/// A mapped file that is gone with the test.
struct Mapped {
    path: std::path::PathBuf,
    shared: Shared,
}

impl Mapped {
    fn new(name: &str) -> Self {
        let name = format!("trimtab-slots-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let shared = Shared::create(&path).unwrap();
        Self { path, shared }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Does as a worker that receives a connection.
fn hold(layout: &Layout, index: u32, pid: u32) {
    let slot = layout.slot(index).unwrap();
    slot.pid.store(pid, Relaxed);
    assert!(slot.advance(DISPATCHED, HELD));
}

fn idle(layout: &Layout, index: u32, since_ns: u64) {
    let slot = layout.slot(index).unwrap();
    slot.idle_since_ns.store(since_ns, Relaxed);
    assert!(slot.advance(HELD, IDLE));
}

#[test]
fn each_use_of_a_slot_has_its_own_number_and_low_slots_come_first() {
    let mapped = Mapped::new("uses");
    let mut slots = Slots::find(&mapped.shared);
    assert_eq!(slots.take(&mapped.shared, 1, 10, 20), Some((0, 1)));
    assert_eq!(slots.take(&mapped.shared, 2, 10, 20), Some((1, 1)));
    assert_eq!(slots.give_back(&mapped.shared, 0), Some(1));
    assert_eq!(slots.take(&mapped.shared, 2, 10, 20), Some((0, 2)));
    assert_eq!(slots.given().collect::<Vec<_>>(), [2, 2]);
    assert_eq!(slots.give_back(&mapped.shared, 0), Some(2));
    assert_eq!(slots.give_back(&mapped.shared, 0), None);
}

#[test]
fn slots_end_and_a_next_gate_finds_the_same_ones_free() {
    let mapped = Mapped::new("all");
    let mut slots = Slots::find(&mapped.shared);
    let taken = (0..SLOTS).filter_map(|_| slots.take(&mapped.shared, 0, 0, 0));
    assert_eq!(taken.count(), SLOTS);
    assert_eq!(slots.take(&mapped.shared, 0, 0, 0), None);
    slots.give_back(&mapped.shared, 7);
    let mut next = Slots::find(&mapped.shared);
    assert_eq!(next.take(&mapped.shared, 0, 0, 0), Some((7, 2)));
    assert_eq!(next.take(&mapped.shared, 0, 0, 0), None);
}

#[test]
fn a_dead_process_leaves_what_it_held_and_what_it_closed_and_did_not_release() {
    let mapped = Mapped::new("dead");
    let mut slots = Slots::find(&mapped.shared);
    for index in 0..4 {
        slots.take(&mapped.shared, 0, 0, 0).unwrap();
        hold(&mapped.shared, index, if index == 2 { 8 } else { 7 });
    }
    idle(&mapped.shared, 1, 5);
    assert!(mapped.shared.slot(3).unwrap().close(|| false));
    assert_eq!(slots.of_dead(&mapped.shared, &[7]), [0, 1, 3]);
    assert_eq!(slots.holders(&mapped.shared), [7, 8]);
}

#[test]
fn idle_connections_are_listed_longest_first_and_only_of_the_wanted_classes() {
    let mapped = Mapped::new("idle");
    let mut slots = Slots::find(&mapped.shared);
    for (index, class) in [(0, 1), (1, 1), (2, 0), (3, 1)] {
        slots.take(&mapped.shared, class, 0, 0).unwrap();
        hold(&mapped.shared, index, 7);
    }
    idle(&mapped.shared, 0, 30);
    idle(&mapped.shared, 1, 20);
    idle(&mapped.shared, 2, 10);
    let order: Vec<u32> = slots
        .idle(&mapped.shared, |class| class == 1)
        .iter()
        .map(|i| i.slot)
        .collect();
    assert_eq!(order, [1, 0]);
}

#[test]
fn lent_slots_are_the_workers_until_they_are_taken_back() {
    let mapped = Mapped::new("lent");
    let layout: &Layout = &mapped.shared;
    let mut slots = Slots::find(layout);
    assert_eq!(slots.lend(1, 2), [0, 1]);
    layout.open_lane(1, 5);
    for index in [0, 1] {
        layout.lend(index, 1, 5);
    }
    // The gate gives from the same, and from nobody else's.
    assert_eq!(slots.take_lent(layout, 0, 10, 20), None);
    let (given, _) = slots.take_lent(layout, 1, 10, 20).unwrap();
    let own = layout.take_for_itself(1, 99, 3, 30).unwrap();
    assert_eq!(slots.take_lent(layout, 1, 10, 20), None);
    hold(layout, given, 98);
    assert_eq!(slots.of_dead(layout, &[99]), [own]);
    assert_eq!(slots.on_loan(layout).count(), 2);
    slots.end_loan(own);
    assert!(slots.is_lent_to(given, 1) && !slots.is_lent_to(given, 0) && !slots.is_lent(own));
    assert_eq!(slots.take(layout, 0, 10, 20), Some((2, 1)));
}

#[test]
fn a_slot_that_comes_back_to_a_gate_that_found_it_free_can_be_given() {
    let mapped = Mapped::new("back");
    let layout: &Layout = &mapped.shared;
    let mut slots = Slots::find(layout);
    layout.slot(0).unwrap().state.store(CLOSED, Relaxed);
    assert_eq!(slots.give_back(layout, 0), None);
    assert_eq!(slots.take(layout, 0, 10, 20), Some((0, 1)));
}

#[test]
fn a_free_slot_that_a_worker_has_taken_meanwhile_is_not_given() {
    let mapped = Mapped::new("raced");
    let layout: &Layout = &mapped.shared;
    let mut slots = Slots::find(layout);
    layout.slot(0).unwrap().state.store(HELD, Relaxed);
    assert_eq!(slots.take(layout, 0, 10, 20), Some((1, 1)));
    assert_eq!(slots.class(0), Some(NO_CLASS));
    assert_eq!(slots.give_back(layout, 0), Some(NO_CLASS));
    assert_eq!(slots.take(layout, 0, 10, 20), Some((0, 1)));
}
