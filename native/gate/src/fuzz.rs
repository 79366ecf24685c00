//! The gate's readers of what others write, as functions of bytes for the fuzz targets; each panics when something is wrong.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_wire::gate::{Class, Full, Order, Rule, Start};
use trimtab_wire::shared::Layout;

use crate::client_hello::{self, Hello};
use crate::gate::hostile::{Bench, Ground};
use crate::head::Head;
use crate::line::Input;
use crate::rules::{Bytes, Classifier, Ends};

/// Most steps of a case.
const STEPS: usize = 200;
/// Process that holds slots in a case; nobody has this number.
const DEAD: u32 = 1 << 23;

/// A request head, and what its class is by it: once it is told, more bytes do not change it.
pub fn request(bytes: &[u8]) {
    if let Head::Request(request) = Head::read(bytes) {
        let within = |part: &[u8]| assert!(part.len() <= bytes.len());
        within(request.path());
        request.host().into_iter().for_each(within);
        request.cookies().for_each(within);
        request.is_complete();
    }
    classify(bytes);
}

/// A ClientHello, as `request`.
pub fn client_hello(bytes: &[u8]) {
    if let Hello::Name(name) = client_hello::read(bytes) {
        assert!(name.len() <= bytes.len());
    }
    classify(bytes);
}

fn classify(bytes: &[u8]) {
    thread_local!(static CLASSIFIER: Classifier = classifier());
    let ends = Ends {
        source: [127, 0, 0, 1].into(),
        local: ([127, 0, 0, 1], 80).into(),
    };
    CLASSIFIER.with(|classifier| {
        let by = |seen, last| classifier.by_request(&ends, Bytes { seen, last });
        let (half, _) = bytes.split_at(bytes.len() / 2);
        let (early, late) = (by(half, false), by(bytes, false));
        assert!(
            early.is_none() || early == late,
            "{early:?} became {late:?}"
        );
        assert!(by(bytes, true).is_some(), "no class for what is all");
    });
}

fn classifier() -> Classifier {
    let rule = |set: fn(&mut Rule)| {
        let mut rule = Rule::default();
        set(&mut rule);
        rule
    };
    let rules = [
        vec![rule(|r| r.host = Some("shop".into()))],
        vec![rule(|r| r.path_prefix = Some("/vip".into()))],
        vec![rule(|r| r.cookie = Some("paid=1".into()))],
        vec![rule(|r| r.header = Some("X-Class: gold".into()))],
        vec![rule(|r| r.server_name = Some("shop".into()))],
        vec![],
    ];
    let class = |rules| Class {
        name: "c".to_owned(),
        rules,
        budget: 1,
        minimum: 0,
        queue_limit: 1,
        full: Full::RefuseNewest,
    };
    match Classifier::new(&rules.map(class)) {
        Ok(classifier) => classifier,
        Err(error) => panic!("{error}"),
    }
}

/// Lines, in two pieces: none is lost or made up, however they are cut.
fn lines(bytes: &[u8], mut each: impl FnMut(&[u8])) {
    let mut input = Input::default();
    let (first, second) = bytes.split_at(bytes.len() / 2);
    for piece in [first, second] {
        input.push(piece);
        while let Ok(Some(line)) = input.line() {
            each(line);
        }
        assert!(input.held() <= bytes.len());
    }
}

/// A request of Prometheus.
pub fn metrics(bytes: &[u8]) {
    let mut input = Input::default();
    for piece in bytes.chunks(bytes.len() / 3 + 1) {
        input.push(piece);
        if let Some(crate::metrics::Request::Other(status)) = crate::metrics::request(&mut input) {
            assert!((400..500).contains(&status));
        }
    }
}

/// The start line: what is allowed makes a gate.
pub fn start(bytes: &[u8]) {
    let Ok(start) = serde_json::from_slice::<Start>(bytes) else {
        return;
    };
    if crate::check::start(&start).is_ok() {
        assert!(Classifier::new(&start.classes).is_ok(), "{start:?}");
    }
}

/// Orders of a controller, obeyed.
pub fn orders(bytes: &[u8]) {
    on_bench(|bench, _| {
        let mut lease_ns = None;
        lines(bytes, |line| {
            if let Ok(order) = serde_json::from_slice::<Order>(line) {
                bench.gate.obey(order, &mut lease_ns);
                bench.arrives(line.len()).unwrap_or_default();
                bench.gate.pump();
                bench.passes(line.len() as u64 * 1_000_000);
            }
        });
    });
}

/// A hostile process writes into the mapped file between whatever the gate and honest workers do.
pub fn mapped(bytes: &[u8]) {
    on_bench(|bench, layout| {
        let mut numbers = bytes.iter().map(|&byte| u64::from(byte));
        for _ in 0..STEPS {
            let Some(step) = numbers.next() else { break };
            act(bench, layout, step, &mut numbers);
        }
        bench.passes(1_000_000_000);
        bench.gate.figures();
    });
}

fn act(bench: &mut Bench<'_>, layout: &Layout, step: u64, numbers: &mut dyn Iterator<Item = u64>) {
    let mut next = || numbers.next().unwrap_or(0);
    let pid = if step & 16 == 0 {
        std::process::id()
    } else {
        DEAD
    };
    match step % 13 {
        0 => bench.arrives(next() as usize).unwrap_or_default(),
        1 => drop(bench.receives(pid)),
        2 => drop(bench.takes(next() as u32 % 3, pid)),
        3 => {
            if let Some(&slot) = bench.held.get(next() as usize) {
                bench.closes(slot);
            }
        }
        4 => bench.gate.pump(),
        5 => bench.passes((next() + 1) * 100_000_000),
        6 => bench.gate.sweep(&[pid]),
        7 => bench.gate.close_bound_lanes(),
        8 => bench.gate.open_lanes(),
        9 => drop(bench.gate.collect()),
        10 => write(layout, 8 + next() % 56, value(next(), next())),
        11 => {
            let lanes = std::mem::offset_of!(Layout, lanes) as u64 / 8;
            let lane = std::mem::size_of::<trimtab_wire::lanes::Lane>() as u64 / 8;
            let heads = std::mem::size_of::<trimtab_wire::lanes::Lanes>() as u64 / 8 - 64 * lane;
            let at = [next() % 4, heads + next() % 3 * lane + next() % 12];
            write(
                layout,
                lanes + at[(step >> 7) as usize],
                value(next(), next()),
            );
        }
        _ => {
            let slots = std::mem::offset_of!(Layout, slots) as u64 / 8;
            let slot = next() % 24;
            write(layout, slots + slot * 8 + next() % 8, value(next(), next()));
        }
    }
}

/// Small numbers, largest ones, and what fits two fields of 32 bits.
fn value(how: u64, small: u64) -> u64 {
    match how % 6 {
        0 => small,
        1 => u64::MAX - small,
        2 => small << 32 | how >> 3,
        3 => u64::from(std::process::id()) << 32 | small,
        4 => 65_530 + small,
        _ => small << 48 | small << 17 | how >> 3,
    }
}

/// Writes a word of the file.
fn write(layout: &Layout, word: u64, value: u64) {
    let words = std::mem::size_of::<Layout>() / 8;
    let base = std::ptr::from_ref(layout).cast::<AtomicU64>();
    if (word as usize) < words {
        // SAFETY: inside the mapping, aligned, and nothing there is anything but atomic integers.
        unsafe { &*base.add(word as usize) }.store(value, Relaxed);
    }
}

/// A gate that starts on what the last case has left of the file, cleared where a case writes.
fn on_bench(work: impl FnOnce(&mut Bench<'_>, &Layout)) {
    thread_local!(static GROUND: RefCell<Option<Ground>> = const { RefCell::new(None) });
    GROUND.with_borrow_mut(|kept| {
        let made = kept.take().map_or_else(|| Ground::new("fuzz"), Ok);
        let ground = kept.insert(made.unwrap_or_else(|error| panic!("{error:#}")));
        clear(ground.layout());
        let mut bench = Bench::new(ground).unwrap_or_else(|error| panic!("{error:#}"));
        work(&mut bench, ground.layout());
        assert_eq!(bench.flaw(), None);
        bench.end();
    });
}

fn clear(layout: &Layout) {
    let slots = std::mem::offset_of!(Layout, slots) as u64 / 8;
    let lanes = std::mem::offset_of!(Layout, lanes) as u64 / 8;
    let end = std::mem::size_of::<Layout>() as u64 / 8;
    for word in (8..64).chain(slots..slots + 64 * 8).chain(lanes..end) {
        write(layout, word, 0);
    }
}
