//! Delays counted by size, for quantiles in bounded memory.

/// Buckets per doubling, as a power of two: a quantile is right to 1 in 64.
const BUCKET_BITS: u32 = 6;

/// Below 2^-20 s a delay counts as none.
const LEAST_EXPONENT: u64 = 20;

/// Doublings from there: up to 2^24 s.
const DOUBLINGS: u64 = 44;

const MANTISSA_BITS: u32 = 52;
const FIRST: u64 = (1023 - LEAST_EXPONENT) << BUCKET_BITS;
const BUCKETS: usize = (DOUBLINGS << BUCKET_BITS) as usize;

/// How often delays of each size occurred.
#[derive(Debug, Default)]
pub struct Delays {
    /// Empty until the first delay; the bits of an `f64` above its bucket are the bucket's number.
    counts: Vec<u64>,
    total: u64,
}

impl Delays {
    /// Counts a delay, which must not be negative.
    pub fn record(&mut self, delay_s: f64) {
        if self.counts.is_empty() {
            self.counts = vec![0; BUCKETS + 1];
        }
        let key = delay_s.to_bits() >> (MANTISSA_BITS - BUCKET_BITS);
        let bucket = (key + 1).saturating_sub(FIRST) as usize;
        self.counts[bucket.min(BUCKETS)] += 1;
        self.total += 1;
    }

    /// The middle of the bucket of this quantile by nearest rank; None when nothing was counted.
    pub fn quantile_s(&self, quantile: f64) -> Option<f64> {
        let rank = (quantile * self.total as f64).ceil() as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank.max(1)
        })?;
        Some(middle_s(bucket))
    }
}

fn middle_s(bucket: usize) -> f64 {
    if bucket == 0 {
        return 0.0;
    }
    let edge = |key: u64| f64::from_bits((FIRST + key) << (MANTISSA_BITS - BUCKET_BITS));
    let key = bucket as u64 - 1;
    (edge(key) + edge(key + 1)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_quantile_is_that_of_the_sorted_delays_within_one_bucket(
            exponents in vec(-5.5..7.0_f64, 1..400), quantile in 0.0..1.0_f64,
        ) {
            let mut sorted: Vec<f64> = exponents.iter().map(|e| 10_f64.powf(*e)).collect();
            let mut delays = Delays::default();
            for &delay_s in &sorted {
                delays.record(delay_s);
            }
            sorted.sort_by(f64::total_cmp);
            let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
            let expected = sorted[rank - 1];
            let found = delays.quantile_s(quantile).unwrap();
            prop_assert!((found / expected - 1.0).abs() <= 1.0 / 128.0 + 1e-9, "{found} instead of {expected}");
        }
    }

    #[test]
    fn no_delay_is_zero_and_no_sample_is_nothing() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile_s(0.95), None);
        delays.record(0.0);
        delays.record(1e-9);
        assert_eq!(delays.quantile_s(0.95), Some(0.0));
        delays.record(1e30);
        assert!(delays.quantile_s(0.95).unwrap() > 1e7);
    }
}
