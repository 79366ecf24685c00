//! Buckets of a delay with two significant digits, as HDR histograms have them.
//!
//! Each power of two of microseconds is cut into 128 equal parts, so a bucket is narrower than 1/128 of its delays.

/// Parts of a power of two.
const PARTS: u64 = 128;
const PART_BITS: u32 = PARTS.trailing_zeros();
/// Delays from this power of two of microseconds on (19 hours) share the last bucket.
const LARGEST_BITS: u32 = 36;
/// Number of buckets.
pub const BUCKETS: usize = ((LARGEST_BITS - PART_BITS + 1) as usize) * PARTS as usize;

/// The bucket of a delay in nanoseconds.
pub fn bucket(delay_ns: u64) -> usize {
    let delay_us = delay_ns / 1000;
    if delay_us < PARTS {
        return delay_us as usize;
    }
    let octave = u64::from(delay_us.ilog2() - PART_BITS);
    let index = octave * PARTS + (delay_us >> octave);
    (index as usize).min(BUCKETS - 1)
}

/// The largest delay of a bucket in whole microseconds.
pub fn upper_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let octave = bucket / PARTS - 1;
    let part = bucket % PARTS + PARTS;
    ((part + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_delay_is_at_most_its_bucket_and_within_one_in_128_of_it(us in 0u64..(1 << 36)) {
            let upper = upper_us(bucket(us * 1000 + 999));
            prop_assert!(us <= upper);
            prop_assert!(upper - us <= us / 128);
        }

        #[test]
        fn every_delay_has_a_bucket(ns: u64) {
            prop_assert!(bucket(ns) < BUCKETS);
        }
    }

    #[test]
    fn buckets_follow_one_another_without_gap_or_overlap() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper_us(index) * 1000), index);
            assert_eq!(bucket((upper_us(index) + 1) * 1000), index + 1);
        }
    }
}
