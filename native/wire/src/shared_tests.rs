use std::collections::BTreeSet;
use std::mem::offset_of;

use proptest::prelude::*;

use super::*;

fn with_file(name: &str, check: impl FnOnce(&std::path::Path, &Shared)) {
    let path = std::env::temp_dir().join(format!("trimtab-shared-{}-{name}", std::process::id()));
    let shared = Shared::create(&path).expect("made");
    check(&path, &shared);
    std::fs::remove_file(path).expect("removed");
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"))
}

#[test]
fn the_layout_is_the_golden_one() {
    with_file("golden", |path, shared| {
        let header = &shared.header;
        for (word, value) in [
            (&header.generation, 11),
            (&header.gate_pid, 12),
            (&header.wake_source, 13),
            (&header.flags, 14),
            (&header.gate_waiting, 15),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        header.released_head.store(16, Ordering::Relaxed);
        let sense = &header.sense;
        for (word, value) in [
            (&sense.connections, 21),
            (&sense.accept_delay_ns_sum, 22),
            (&sense.requests, 23),
            (&sense.service_ns_sum, 24),
            (&sense.bytes_written, 25),
            (&sense.clipped, 26),
            (&shared.accept_delay[1], 31),
            (&shared.service_time[2], 32),
            (&shared.intervals_50ms[3], 33),
            (&shared.intervals[4], 34),
            (&shared.ended[5], 35),
            (&shared.left[6], 36),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        let keep_alive = &header.keep_alive;
        keep_alive.time_ns.store(61, Ordering::Relaxed);
        keep_alive.trial_ns.store(62, Ordering::Relaxed);
        keep_alive.trial_every.store(63, Ordering::Relaxed);
        keep_alive.mode.store(64, Ordering::Relaxed);
        let idle = &header.idle;
        for (word, value) in [
            (&idle.intervals, 71),
            (&idle.interval_ns_sum, 72),
            (&idle.idle_ns_sum, 73),
            (&idle.held_ns_sum, 74),
            (&idle.cut, 75),
            (&idle.expired, 76),
            (&idle.left, 77),
            (&idle.server_ms, 78),
            (&idle.spared, 79),
            (&idle.firsts, 80),
            (&idle.first_wait_ns_sum, 81),
            (&idle.first_service_ns_sum, 82),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        let slot = &shared.slots[3];
        slot.class.store(42, Ordering::Relaxed);
        slot.era.store(43, Ordering::Relaxed);
        for (word, value) in [(&slot.state, 41), (&slot.pid, 44)] {
            word.store(value, Ordering::Relaxed);
        }
        slot.fd.store(45, Ordering::Relaxed);
        for (word, value) in [
            (&slot.arrival_ns, 46),
            (&slot.dispatched_ns, 47),
            (&slot.received_ns, 48),
            (&slot.idle_since_ns, 49),
            (&slot.sequence, 52),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        slot.next.store(50, Ordering::Relaxed);
        slot.requests.store(51, Ordering::Relaxed);

        let bytes = std::fs::read(path).expect("readable");
        assert_eq!(bytes.len(), 4_227_072 + 286_784);
        assert_eq!(&bytes[..8], b"TRIMTAB\0");
        let words: Vec<u32> = (8..24).step_by(4).map(|at| u32_at(&bytes, at)).collect();
        assert_eq!(words, [3, 32_768, 65_536, 64]);
        assert_eq!(bytes[24..40], shared.token());
        let words: Vec<u32> = (40..56).step_by(4).map(|at| u32_at(&bytes, at)).collect();
        assert_eq!(words, [11, 12, 13, 14]);
        assert_eq!((u64_at(&bytes, 64), u32_at(&bytes, 128)), (16, 15));
        let words: Vec<u64> = (192..240).step_by(8).map(|at| u64_at(&bytes, at)).collect();
        assert_eq!(words, [21, 22, 23, 24, 25, 26]);
        assert_eq!((u64_at(&bytes, 256), u64_at(&bytes, 264)), (61, 62));
        assert_eq!((u32_at(&bytes, 272), u32_at(&bytes, 276)), (63, 64));
        let words: Vec<u64> = (320..416).step_by(8).map(|at| u64_at(&bytes, at)).collect();
        assert_eq!(words, (71..83).collect::<Vec<u64>>());
        let counts = [
            (4096 + 8, 31),
            (8192 + 16, 32),
            (12_288 + 24, 33),
            (20_480 + 32, 34),
            (24_576 + 40, 35),
            (28_672 + 48, 36),
        ];
        for (at, count) in counts {
            assert_eq!(u64_at(&bytes, at), count, "at {at}");
        }
        let base = 32_768 + 3 * 64;
        let words: Vec<u32> = (0..16)
            .step_by(4)
            .map(|at| u32_at(&bytes, base + at))
            .collect();
        assert_eq!(words, [41, 43 << 16 | 42, 44, 45]);
        let words: Vec<u64> = (16..48)
            .step_by(8)
            .map(|at| u64_at(&bytes, base + at))
            .collect();
        assert_eq!(words, [46, 47, 48, 49]);
        assert_eq!(
            (u32_at(&bytes, base + 48), u32_at(&bytes, base + 52)),
            (50, 51)
        );
        assert_eq!(u64_at(&bytes, base + 56), 52);
    });
    assert_eq!(offset_of!(Layout, slots), 32_768);
}

#[test]
fn who_comes_second_sees_the_same_file_and_another_version_is_refused() {
    with_file("second", |path, first| {
        let second = Shared::create(path).expect("opened");
        assert_eq!(first.token(), second.token());
        assert_ne!(first.token(), [0; 16]);
        first.header.generation.store(7, Ordering::Relaxed);
        assert_eq!(second.header.generation.load(Ordering::Relaxed), 7);
        assert_eq!(
            first.header.wake_source.load(Ordering::Relaxed) >> 23,
            0x7f80_0000 >> 23
        );

        first.header.version.store(VERSION + 1, Ordering::Relaxed);
        let refused = Shared::open(path).err().expect("another version");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidData);
    });
}

#[test]
fn the_file_has_all_its_memory_from_the_start_so_a_full_file_system_ends_no_worker() {
    use std::os::unix::fs::MetadataExt as _;
    with_file("whole", |path, _| {
        let found = path.metadata().expect("there");
        assert!(found.blocks() * 512 >= found.len(), "{found:?}");
    });
}

#[test]
fn a_slot_is_closed_by_one_party_and_only_when_a_worker_holds_it() {
    with_file("close", |_, shared| {
        let slot = shared.slot(0).expect("slot");
        for (state, closes) in [
            (FREE, false),
            (DISPATCHED, false),
            (HELD, true),
            (IDLE, true),
            (CLOSED, false),
        ] {
            slot.state.store(state, Ordering::Relaxed);
            assert_eq!(slot.close(|| false), closes, "state {state}");
            assert!(!slot.close(|| false));
        }
        assert!(shared.slot(SLOTS as u32).is_none() && shared.slot(NO_SLOT).is_none());
    });
}

#[test]
fn a_close_waits_for_the_end_of_a_cut() {
    with_file("cut", |_, shared| {
        let slot = shared.slot(9).expect("slot");
        slot.state.store(CUTTING, Ordering::Relaxed);
        let cut = AtomicU32::new(1);
        std::thread::scope(|scope| {
            let closer = scope.spawn(|| slot.close(|| cut.load(Ordering::Acquire) != 0));
            std::thread::yield_now();
            assert_eq!(slot.state.load(Ordering::Relaxed), CUTTING);
            assert!(slot.advance(CUTTING, HELD));
            cut.store(0, Ordering::Release);
            assert!(closer.join().expect("ended"));
        });
    });
}

#[test]
fn a_state_that_says_cutting_where_nobody_cuts_keeps_no_worker_waiting() {
    with_file("uncut", |_, shared| {
        let slot = shared.slot(9).expect("slot");
        slot.state.store(CUTTING, Ordering::Relaxed);
        assert!(slot.close(|| false));
        assert_eq!(slot.state.load(Ordering::Relaxed), CLOSED);
    });
}

#[test]
fn a_circle_on_the_stack_is_followed_no_more_often_than_there_are_slots() {
    with_file("circle", |_, shared| {
        for (from, to) in [(3_u32, 4_u32), (4, 3)] {
            let slot = shared.slot(from).expect("slot");
            slot.next.store(to + 1, Ordering::Relaxed);
        }
        shared.header.released_head.store(4, Ordering::Relaxed);
        assert_eq!(shared.take_released().take(SLOTS + 1).count(), SLOTS);
        for outside in [SLOTS as u64 + 1, u64::MAX, 1 << 32] {
            shared
                .header
                .released_head
                .store(outside, Ordering::Relaxed);
            assert_eq!(shared.take_released().count(), 0, "{outside}");
        }
    });
}

#[test]
fn the_gate_gets_each_released_slot_once_whoever_releases_it() {
    with_file("stack", |_, shared| {
        let mut taken = Vec::new();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4_u32)
                .map(|w| {
                    scope.spawn(move || {
                        for i in 0..2000 {
                            shared.release(w * 2000 + i);
                        }
                    })
                })
                .collect();
            while workers.iter().any(|w| !w.is_finished()) {
                taken.extend(shared.take_released());
            }
        });
        taken.extend(shared.take_released());
        assert_eq!(taken.len(), 8000);
        assert_eq!(taken.into_iter().collect::<BTreeSet<_>>().len(), 8000);
    });
}

#[test]
fn one_wake_byte_is_owed_to_a_gate_that_waits_and_none_to_one_that_does_not() {
    with_file("wake", |_, shared| {
        assert!(!shared.release(1));
        assert!(!shared.announce_wait(), "a slot lies on the stack");
        assert_eq!(shared.take_released().collect::<Vec<_>>(), [1]);
        assert!(shared.announce_wait());
        assert!(shared.release(2));
        assert!(!shared.release(3));
        assert_eq!(shared.take_released().collect::<Vec<_>>(), [3, 2]);
    });
}

#[test]
fn a_step_holds_50_ms_and_the_last_one_the_rest() {
    assert_eq!(
        [0, STEP_NS - 1, STEP_NS, 1023 * STEP_NS, u64::MAX].map(step),
        [0, 0, 1, 1023, 1023]
    );
}

proptest! {
    #[test]
    fn a_duration_lies_between_the_floors_of_its_bucket_and_the_next(ns in any::<u64>(), shift in 0..64_u32) {
        let ns = ns >> shift;
        let index = bucket(ns);
        prop_assert!(index < BUCKETS);
        prop_assert!(bucket_floor_ns(index) <= ns);
        prop_assert!(ns < bucket_floor_ns(index + 1) || bucket_floor_ns(index + 1) == u64::MAX);
        prop_assert!(bucket_floor_ns(index + 1) - bucket_floor_ns(index) <= 1 + bucket_floor_ns(index) / 8 || ns > 1 << 62);
    }
}
