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

/// What a worker does when it receives a connection.
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
    assert!(mapped.shared.slot(3).unwrap().close());
    assert_eq!(slots.of_dead(&mapped.shared, 7), [0, 1, 3]);
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
