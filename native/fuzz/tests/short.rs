//! A short run of each target on mutated seeds, the same ones each time.

use std::path::Path;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use trimtab_fuzz::{Target, TARGETS};

/// Longest input.
const MOST_BYTES: usize = 4096;

fn seeds(name: &str) -> std::io::Result<Vec<Vec<u8>>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("seeds")
        .join(name);
    let entries = std::fs::read_dir(&directory)?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(std::fs::read).collect()
}

/// Changes a few bytes, leaves some out, doubles some, or goes on with another seed.
fn mutated(rng: &mut SmallRng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds.choose(rng).cloned().unwrap_or_default();
    for _ in 0..rng.random_range(0..6) {
        let at = rng.random_range(0..=bytes.len());
        let end = rng.random_range(at..=bytes.len().min(at + 64));
        match rng.random_range(0..6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, rng.random()),
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => {
                let other = seeds.choose(rng).map_or(&[][..], Vec::as_slice);
                bytes.splice(at.., other.iter().copied().skip(at.min(other.len())));
            }
            _ => bytes[at..end].iter_mut().for_each(|byte| {
                if rng.random_ratio(1, 4) {
                    *byte = rng.random();
                }
            }),
        }
    }
    bytes.truncate(MOST_BYTES);
    bytes
}

fn run(target: &Target) -> std::io::Result<()> {
    let seeds = seeds(target.name)?;
    seeds.iter().for_each(|seed| (target.run)(seed));
    let mut rng = SmallRng::seed_from_u64(10);
    for _ in 0..target.cases {
        (target.run)(&mutated(&mut rng, &seeds));
    }
    Ok(())
}

#[test]
fn no_target_panics_or_contradicts_itself_on_mutated_seeds() -> std::io::Result<()> {
    for target in TARGETS {
        println!("{}", target.name);
        run(target)?;
    }
    Ok(())
}
