use super::*;
use proptest::prelude::*;

fn budgets(limit: u32, classes: &[(u32, u32)]) -> Budgets {
    Budgets::new(limit, false, classes.iter().copied())
}

fn allotted(budgets: &Budgets) -> Vec<u32> {
    budgets
        .shares()
        .iter()
        .map(|share| share.allotted)
        .collect()
}

/// Serves as many as it may and returns the classes in the order in which they were served.
fn drain(budgets: &mut Budgets) -> Vec<usize> {
    let mut order = Vec::new();
    while let Some(class) = budgets.next(0, |_| 0) {
        budgets.left(class);
        budgets.served(class);
        order.push(class);
    }
    order
}

fn join(budgets: &mut Budgets, class: usize, count: u32) {
    (0..count).for_each(|_| budgets.joined(class));
}

#[test]
fn the_highest_priority_among_classes_under_their_budget_is_served_first() {
    let mut budgets = budgets(4, &[(2, 0), (2, 0)]);
    join(&mut budgets, 1, 3);
    join(&mut budgets, 0, 3);
    assert_eq!(drain(&mut budgets), [0, 0, 1, 1]);
    budgets.released(1);
    assert_eq!(drain(&mut budgets), [1]);
}

#[test]
fn budgets_beyond_the_limit_are_satisfied_in_order_of_priority() {
    assert_eq!(
        allotted(&budgets(128, &[(100, 0), (60, 0), (30, 0)])),
        [100, 28, 0]
    );
    assert_eq!(allotted(&budgets(128, &[(64, 0), (32, 0)])), [64, 32]);
}

#[test]
fn saturation_leaves_each_class_its_minimum() {
    assert_eq!(
        allotted(&budgets(128, &[(128, 1), (60, 5), (30, 10)])),
        [113, 5, 10]
    );
    assert_eq!(allotted(&budgets(128, &[(128, 1), (3, 5)])), [125, 3]);
}

#[test]
fn a_class_whose_budget_grew_waits_until_another_releases() {
    let mut budgets = budgets(4, &[(1, 0), (3, 0)]);
    join(&mut budgets, 0, 4);
    join(&mut budgets, 1, 4);
    assert_eq!(drain(&mut budgets), [0, 1, 1, 1]);
    budgets.set(4, [3, 1].into_iter());
    assert_eq!(drain(&mut budgets), Vec::<usize>::new());
    budgets.released(1);
    budgets.released(1);
    assert_eq!(drain(&mut budgets), [0, 0]);
}

#[test]
fn without_borrowing_a_worker_beyond_the_budget_idles() {
    let mut budgets = budgets(4, &[(2, 0), (2, 0)]);
    join(&mut budgets, 1, 4);
    assert_eq!(drain(&mut budgets), [1, 1]);
    budgets.borrow = true;
    assert_eq!(drain(&mut budgets), [1, 1]);
}

#[test]
fn borrowing_leaves_the_reserved_minimum_of_the_others_free() {
    let mut budgets = Budgets::new(8, true, [(4, 3), (4, 0)].into_iter());
    join(&mut budgets, 1, 9);
    assert_eq!(drain(&mut budgets).len(), 5);
    join(&mut budgets, 0, 9);
    assert_eq!(drain(&mut budgets), [0, 0, 0]);
}

#[test]
fn an_open_gate_knows_only_who_came_first_and_the_limit() {
    let mut budgets = budgets(3, &[(1, 0), (1, 0)]);
    budgets.open = true;
    join(&mut budgets, 1, 2);
    join(&mut budgets, 0, 2);
    let rest_first = |class| [20, 10][class];
    assert_eq!(budgets.next(0, rest_first), Some(1));
    assert_eq!(budgets.next(0, |class| [10, 20][class]), Some(0));
    assert_eq!(budgets.next(0b10, rest_first), Some(0));
    assert_eq!(drain(&mut budgets).len(), 3);
    assert_eq!(budgets.next(0, rest_first), None);
    assert_eq!(budgets.short_of(), 0);
}

#[test]
fn the_preemptive_policy_asks_back_what_under_budget_classes_wait_for_and_no_more() {
    let mut budgets = budgets(6, &[(1, 0), (1, 0), (4, 0)]);
    join(&mut budgets, 0, 3);
    join(&mut budgets, 2, 9);
    assert_eq!(drain(&mut budgets), [0, 2, 2, 2, 2]);
    budgets.set(6, [4, 1, 1].into_iter());
    // Class 0 waits for two, one worker is free, and class 2 has three beyond its budget.
    assert_eq!((budgets.short_of(), budgets.over(2)), (1, 3));
    assert_eq!((budgets.over(0), budgets.over(1)), (0, 0));
}

#[test]
fn nothing_is_asked_back_for_a_class_that_does_not_wait() {
    let mut budgets = budgets(2, &[(0, 0), (2, 0)]);
    join(&mut budgets, 1, 3);
    drain(&mut budgets);
    budgets.set(2, [2, 0].into_iter());
    assert_eq!(budgets.short_of(), 0);
    budgets.joined(0);
    assert_eq!((budgets.short_of(), budgets.over(1)), (1, 2));
}

#[derive(Debug, Clone)]
enum Event {
    Join(usize),
    Leave(usize),
    Release(usize),
    Set(u32, [u32; 3]),
    Serve,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0usize..3).prop_map(Event::Join),
        1 => (0usize..3).prop_map(Event::Leave),
        2 => (0usize..3).prop_map(Event::Release),
        1 => (0u32..20, [0u32..20, 0u32..20, 0u32..20]).prop_map(|(m, b)| Event::Set(m, b)),
        4 => Just(Event::Serve),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_shares_keep_their_laws(
        borrow: bool,
        minima in [0u32..4, 0u32..4, 0u32..4],
        events in proptest::collection::vec(event(), 0..200),
    ) {
        let mut b = Budgets::new(12, borrow, minima.into_iter().map(|minimum| (4, minimum)));
        for event in events {
            match event {
                Event::Join(class) => b.joined(class),
                Event::Leave(class) if b.shares()[class].waiting > 0 => b.left(class),
                Event::Release(class) if b.shares()[class].in_service > 0 => b.released(class),
                Event::Set(limit, budgets) => b.set(limit, budgets.into_iter()),
                Event::Serve => serve(&mut b, borrow)?,
                _ => {}
            }
            let total: u32 = b.shares().iter().map(|share| share.allotted).sum();
            prop_assert!(total <= b.limit);
            prop_assert!(b.shares().iter().all(|share| share.allotted <= share.budget));
            let sum: u32 = b.shares().iter().map(|share| share.in_service).sum();
            prop_assert_eq!(sum, b.in_service());
        }
    }
}

/// Serves one connection and checks that it was the right one.
fn serve(b: &mut Budgets, borrow: bool) -> Result<(), TestCaseError> {
    let under = |b: &Budgets| {
        let eligible = |s: &Share| s.waiting > 0 && s.in_service < s.allotted;
        b.shares().iter().position(eligible)
    };
    let Some(class) = b.next(0, |_| 0) else {
        prop_assert!(b.in_service() >= b.limit || under(b).is_none());
        return Ok(());
    };
    prop_assert!(b.in_service() < b.limit && b.admits(class));
    prop_assert!(under(b) == Some(class) || (borrow && under(b).is_none()));
    let free = b.limit - b.in_service() - 1;
    if under(b).is_none() {
        let others = b.shares().iter().enumerate().filter(|(k, _)| *k != class);
        let reserved: u32 = others
            .map(|(_, s)| s.minimum.saturating_sub(s.in_service))
            .sum();
        prop_assert!(free >= reserved);
    }
    b.left(class);
    b.served(class);
    Ok(())
}
