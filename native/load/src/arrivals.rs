//! When the sessions of an open population arrive: a stream of unit rate, stretched by the population's intensity.
//!
//! The arrival times depend on the seed and the schedule alone, not on what the server does.

use rand::rngs::SmallRng;
use rand::Rng;
use trimtab_wire::sample::{arrival_rng, Sampler};
use trimtab_wire::workload::Step;

/// The factor on a population's intensity over time.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    steps: Vec<Step>,
}

impl Schedule {
    /// A schedule; the steps are in order of time.
    pub fn new(steps: &[Step]) -> Self {
        Self {
            steps: steps.to_vec(),
        }
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The factor in force at a time.
    pub fn factor(&self, at_s: f64) -> f64 {
        self.segment(at_s).0
    }

    /// The factor in force at a time, and when it ends.
    fn segment(&self, at_s: f64) -> (f64, f64) {
        let next = self.steps.partition_point(|step| step.at_s <= at_s);
        let factor = if next == 0 {
            1.0
        } else {
            self.steps[next - 1].factor
        };
        (
            factor,
            self.steps.get(next).map_or(f64::INFINITY, |step| step.at_s),
        )
    }

    /// The time at which rate x factor, integrated from `from_s`, reaches `work`; None when it never does.
    fn after(&self, from_s: f64, mut work: f64, rate_hz: f64) -> Option<f64> {
        let mut at_s = from_s;
        loop {
            let (factor, end_s) = self.segment(at_s);
            let rate = rate_hz * factor;
            if rate > 0.0 {
                let arrival_s = at_s + work / rate;
                if arrival_s < end_s {
                    return Some(arrival_s);
                }
                work = (work - (end_s - at_s) * rate).max(0.0);
            }
            if end_s.is_infinite() {
                return None;
            }
            at_s = end_s;
        }
    }
}

/// The arrival times of one open population.
#[derive(Debug, Clone)]
pub struct Stream {
    rate_hz: f64,
    poisson: bool,
    rng: SmallRng,
    last_s: Option<f64>,
}

impl Stream {
    /// A stream of `rate_hz` arrivals per second, Poisson or at equal distances.
    pub fn new(rate_hz: f64, poisson: bool, seed: u64, population: u32) -> Self {
        Self {
            rate_hz,
            poisson,
            rng: arrival_rng(seed, population),
            last_s: None,
        }
    }

    /// The next arrival, in seconds since the start of the run; None when there is none to come.
    pub fn next(&mut self, schedule: &Schedule) -> Option<f64> {
        let work = if self.poisson {
            unit_exponential(&mut self.rng)
        } else if self.last_s.is_none() {
            0.0
        } else {
            1.0
        };
        self.last_s = Some(schedule.after(self.last_s.unwrap_or(0.0), work, self.rate_hz)?);
        self.last_s
    }
}

fn unit_exponential<R: Rng>(rng: &mut R) -> f64 {
    Sampler::Exponential(1.0).draw(rng)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut stream: Stream, schedule: &Schedule, until_s: f64) -> Vec<f64> {
        std::iter::from_fn(|| stream.next(schedule).filter(|&t| t < until_s)).collect()
    }

    #[test]
    fn constant_arrivals_follow_the_schedule_exactly() {
        let schedule = Schedule::new(&[
            Step {
                at_s: 0.0,
                factor: 0.0,
            },
            Step {
                at_s: 1.0,
                factor: 2.0,
            },
            Step {
                at_s: 2.0,
                factor: 0.0,
            },
        ]);
        let times = all(Stream::new(2.0, false, 1, 0), &schedule, 10.0);
        assert_eq!(times, [1.0, 1.25, 1.5, 1.75]);
        assert_eq!(schedule.factor(0.5), 0.0);
        assert_eq!(schedule.factor(1.0), 2.0);
    }

    #[test]
    fn poisson_counts_have_mean_and_variance_of_the_scheduled_rate() {
        let schedule = Schedule::new(&[Step {
            at_s: 5_000.0,
            factor: 3.0,
        }]);
        let times = all(Stream::new(10.0, true, 9, 0), &schedule, 10_000.0);
        let mut counts = vec![0.0; 10_000];
        for time in times {
            counts[time as usize] += 1.0;
        }
        for (half, rate) in [(&counts[..5_000], 10.0), (&counts[5_000..], 30.0)] {
            let mean = half.iter().sum::<f64>() / 5_000.0;
            let variance = half.iter().map(|c| (c - mean) * (c - mean)).sum::<f64>() / 4_999.0;
            assert!(
                (mean / rate - 1.0).abs() < 0.02,
                "mean {mean} of rate {rate}"
            );
            assert!(
                (variance / rate - 1.0).abs() < 0.08,
                "variance {variance} of rate {rate}"
            );
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_and_another_does_not() {
        let schedule = Schedule::default();
        let times =
            |seed, population| all(Stream::new(5.0, true, seed, population), &schedule, 50.0);
        assert_eq!(times(1, 0), times(1, 0));
        assert_ne!(times(1, 0), times(2, 0));
        assert_ne!(times(1, 0), times(1, 1));
    }
}
