//! The share of accesses that a cache of the least-recently-used kind answers: Che's approximation under Zipf's law.
//!
//! An object that is asked for at rate r_i is held while its last access is less than t ago, with one t for all of them, such that
//! what is held fills the cache (Che, Tung and Wang, IEEE JSAC 20(7), 2002; with sizes as in Fricker, Robert and Roberts, ITC 24, 2012):
//!
//! ```text
//! h_i = 1 - exp(-r_i t)        sum_i s_i h_i = C
//! ```
//!
//! Of n objects the one of rank k is asked for with a probability proportional to k^-a (Zipf; Breslau et al., INFOCOM 1999, have
//! a of 0.64 to 0.83 for the web). Ranks that differ by less than 3 % are taken together.

use rand::rngs::SmallRng;
use rand::Rng as _;

/// Ranks are in one group up to this many times the first one.
const GROUP_RATIO: f64 = 1.03;
/// Halvings after which the characteristic time is known to all digits.
const HALVINGS: u32 = 60;

/// Ranks that are taken together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Group {
    /// First rank, from 0.
    pub first: u32,
    /// Ranks.
    pub count: u32,
    /// Probability of each of them.
    pub each: f64,
}

/// Zipf's law over some ranks.
#[derive(Debug)]
pub struct Zipf {
    groups: Vec<Group>,
    cumulative: Vec<f64>,
}

impl Zipf {
    /// The law with this exponent; there must be a rank.
    pub fn new(ranks: u32, exponent: f64) -> Self {
        let (mut groups, mut first) = (Vec::new(), 0);
        while first < ranks {
            let last = f64::from(first + 1) * GROUP_RATIO;
            let count = (last as u32 - first).clamp(1, ranks - first);
            let middle = f64::from(first) + f64::from(count + 1) / 2.0;
            groups.push(Group {
                first,
                count,
                each: middle.powf(-exponent),
            });
            first += count;
        }
        let total: f64 = groups.iter().map(|g| g.each * f64::from(g.count)).sum();
        let mut sum = 0.0;
        let mut cumulative = Vec::with_capacity(groups.len());
        for group in &mut groups {
            group.each /= total;
            sum += group.each * f64::from(group.count);
            cumulative.push(sum);
        }
        Self { groups, cumulative }
    }

    /// The groups, most popular first.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A rank and the group that it is in.
    pub fn draw(&self, rng: &mut SmallRng) -> (u32, usize) {
        let u: f64 = rng.random();
        let last = self.groups.len() - 1;
        let index = self.cumulative.partition_point(|&sum| sum <= u).min(last);
        let group = self.groups[index];
        let within = if group.count > 1 {
            rng.random_range(0..group.count)
        } else {
            0
        };
        (group.first + within, index)
    }
}

/// Objects that are asked for alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alike {
    /// Rate at which each of them is asked for.
    pub rate: f64,
    /// Size of all of them.
    pub bytes: f64,
}

/// How long after its last access an object is held by a cache of so many bytes; infinite where all have room.
pub fn characteristic_time(cache_bytes: f64, objects: &[Alike]) -> f64 {
    let all: f64 = objects.iter().map(|o| o.bytes).sum();
    if all <= cache_bytes {
        return f64::INFINITY;
    }
    let greatest = objects.iter().map(|o| o.rate).fold(0.0, f64::max);
    if cache_bytes <= 0.0 || greatest <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0 / greatest);
    while held_bytes(high, objects) < cache_bytes {
        // What is asked for never or hardly ever need not fit, so that no time may fill the cache.
        if high > 1e30 {
            return f64::INFINITY;
        }
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if held_bytes(middle, objects) < cache_bytes {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// What is held on average when objects are held for this time.
pub fn held_bytes(time: f64, objects: &[Alike]) -> f64 {
    objects.iter().map(|o| o.bytes * held(o.rate, time)).sum()
}

/// Probability that an object of this rate is there when it is asked for.
pub fn held(rate: f64, time: f64) -> f64 {
    if time.is_infinite() {
        return f64::from(rate > 0.0);
    }
    -(-rate * time).exp_m1()
}

/// Share of accesses under Zipf's law that a cache answers, of blocks of one size.
pub fn hit_ratio(zipf: &Zipf, cache_blocks: f64) -> f64 {
    let alike = |g: &Group| Alike {
        rate: g.each,
        bytes: f64::from(g.count),
    };
    let objects: Vec<Alike> = zipf.groups().iter().map(alike).collect();
    let time = characteristic_time(cache_blocks, &objects);
    let of = |o: &Alike| o.bytes * o.rate * held(o.rate, time);
    objects.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use trimtab_wire::sample::session_rng;

    /// A cache as it is built: what was asked for longest ago goes first.
    #[derive(Default)]
    struct Lru {
        sizes: HashMap<u32, (u64, f64)>,
        by_age: BTreeMap<u64, u32>,
        bytes: f64,
    }

    impl Lru {
        fn ask(&mut self, now: u64, object: u32, size: f64, most: f64) -> bool {
            let there = self.sizes.insert(object, (now, size));
            if let Some((before, _)) = there {
                self.by_age.remove(&before);
            } else {
                self.bytes += size;
            }
            self.by_age.insert(now, object);
            while self.bytes > most {
                let (_, oldest) = self.by_age.pop_first().expect("something is held");
                self.bytes -= self.sizes.remove(&oldest).expect("it is held").1;
            }
            there.is_some()
        }
    }

    fn simulated(zipf: &Zipf, size: impl Fn(u32) -> f64, most: f64) -> f64 {
        let (mut cache, mut rng) = (Lru::default(), session_rng(5, 0, 0));
        let (warm, count) = (100_000, 200_000);
        let mut hits = 0;
        for now in 0..warm + count {
            let (rank, _) = zipf.draw(&mut rng);
            let hit = cache.ask(now, rank, size(rank), most);
            hits += u64::from(hit && now >= warm);
        }
        hits as f64 / count as f64
    }

    #[test]
    fn the_approximation_agrees_with_a_cache_that_is_played() {
        for (exponent, blocks) in [(0.0, 500.0), (0.6, 200.0), (0.8, 1000.0), (1.1, 50.0)] {
            let zipf = Zipf::new(2000, exponent);
            let (found, played) = (hit_ratio(&zipf, blocks), simulated(&zipf, |_| 1.0, blocks));
            assert!(
                (found - played).abs() < 0.01,
                "exponent {exponent}, {blocks} blocks: {found}, played {played}"
            );
        }
    }

    #[test]
    fn it_does_so_with_objects_of_several_sizes() {
        let zipf = Zipf::new(2000, 0.8);
        let size = |rank: u32| f64::from([1, 2, 10][rank as usize % 3]);
        let objects: Vec<Alike> = (0..2000)
            .map(|rank| {
                let group = zipf.groups().iter().rfind(|g| g.first <= rank);
                let rate = group.expect("a group").each;
                Alike {
                    rate,
                    bytes: size(rank),
                }
            })
            .collect();
        let time = characteristic_time(1500.0, &objects);
        let found: f64 = objects.iter().map(|o| o.rate * held(o.rate, time)).sum();
        let played = simulated(&zipf, size, 1500.0);
        assert!((found - played).abs() < 0.01, "{found}, played {played}");
    }

    #[test]
    fn a_cache_with_room_for_all_answers_all_and_one_without_room_nothing() {
        let zipf = Zipf::new(1000, 0.8);
        assert!((hit_ratio(&zipf, 1000.0) - 1.0).abs() < 1e-9);
        assert_eq!(hit_ratio(&zipf, 0.0), 0.0);
    }

    #[test]
    fn more_room_never_answers_less() {
        let zipf = Zipf::new(1000, 0.8);
        let found: Vec<f64> = (0..=20)
            .map(|n| hit_ratio(&zipf, 50.0 * f64::from(n)))
            .collect();
        assert!(found.windows(2).all(|w| w[0] < w[1]), "{found:?}");
    }

    #[test]
    fn ranks_are_drawn_as_often_as_the_law_says() {
        let zipf = Zipf::new(500, 1.0);
        let mut rng = session_rng(3, 0, 0);
        let (mut counts, count) = (vec![0_u32; 500], 300_000);
        for _ in 0..count {
            counts[zipf.draw(&mut rng).0 as usize] += 1;
        }
        let total: f64 = (1..=500).map(|k| 1.0 / f64::from(k)).sum();
        for k in [1, 2, 10, 40] {
            let expected = f64::from(count) / f64::from(k) / total;
            let found = f64::from(counts[k as usize - 1]);
            assert!(
                (found / expected - 1.0).abs() < 0.06,
                "rank {k}: {found}, not {expected}"
            );
        }
        assert!(counts.iter().all(|&n| n > 0));
    }
}
