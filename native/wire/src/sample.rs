//! Draws from the distributions of [`crate::workload`], shared by the load generator and the simulator.
//!
//! Both sides draw a session's pages, bursts, think times and URLs in the same way, so one seed means one traffic.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution as _, Exp1, StandardNormal};

use crate::workload::{Distribution, Url};
use crate::BadInput;

/// A distribution, ready to draw from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampler {
    /// Always this value.
    Constant(f64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Exponential with this mean, longer values made the longest.
    ClippedExponential {
        /// Mean.
        mean: f64,
        /// Longest.
        most: f64,
    },
    /// exp(mu + sigma z), with the parameters of the logarithm.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// mean + sigma z.
    Gaussian {
        /// Mean.
        mean: f64,
        /// Standard deviation.
        sigma: f64,
    },
    /// scale u^(-1 / shape).
    Pareto {
        /// Smallest value.
        scale: f64,
        /// -1 / shape.
        exponent: f64,
    },
    /// offset + scale s^(-1 / shape), with s uniform from `least` to 1.
    BoundedPareto {
        /// Smallest value before the offset.
        scale: f64,
        /// -1 / shape.
        exponent: f64,
        /// Probability of what is cut off.
        least: f64,
        /// Added to every value.
        offset: f64,
    },
    /// scale e^(1 / shape), with e exponential of mean 1.
    Weibull {
        /// Scale.
        scale: f64,
        /// 1 / shape.
        exponent: f64,
    },
    /// scale (-ln s)^(1 / shape), with s uniform from `least` to 1.
    BoundedWeibull {
        /// Scale.
        scale: f64,
        /// 1 / shape.
        exponent: f64,
        /// Probability of what is cut off.
        least: f64,
    },
}

impl Sampler {
    /// Prepares a distribution; a parameter outside its domain is refused with one line.
    ///
    /// # Errors
    /// A parameter is not finite, a mean, scale or shape is not positive, or a sigma is negative.
    pub fn new(distribution: &Distribution) -> Result<Self, BadInput> {
        Ok(match *distribution {
            Distribution::Constant { value } => Self::Constant(at_least_zero("value", value)?),
            Distribution::Exponential { mean } => Self::Exponential(at_least_zero("mean", mean)?),
            Distribution::ClippedExponential { mean, most } => Self::ClippedExponential {
                mean: at_least_zero("mean", mean)?,
                most: at_least_zero("most", most)?,
            },
            Distribution::Lognormal { mean, sigma } => {
                let ratio = at_least_zero("sigma", sigma)? / positive("mean", mean)?;
                let variance = (ratio * ratio).ln_1p();
                Self::Lognormal {
                    mu: mean.ln() - variance / 2.0,
                    sigma: variance.sqrt(),
                }
            }
            Distribution::Gaussian { mean, sigma } => Self::Gaussian {
                mean: finite("mean", mean)?,
                sigma: at_least_zero("sigma", sigma)?,
            },
            Distribution::Pareto { scale, shape } => Self::Pareto {
                scale: positive("scale", scale)?,
                exponent: -1.0 / positive("shape", shape)?,
            },
            Distribution::BoundedPareto {
                scale,
                shape,
                most,
                offset,
            } => {
                let ratio = positive("scale", scale)? / positive("most", most)?;
                if ratio >= 1.0 {
                    return Err(BadInput(format!(
                        "most is {most}, must be greater than scale {scale}"
                    )));
                }
                Self::BoundedPareto {
                    scale,
                    exponent: -1.0 / positive("shape", shape)?,
                    least: ratio.powf(shape),
                    offset: at_least_zero("offset", offset)?,
                }
            }
            Distribution::Weibull { scale, shape } => Self::Weibull {
                scale: positive("scale", scale)?,
                exponent: 1.0 / positive("shape", shape)?,
            },
            Distribution::BoundedWeibull { scale, shape, most } => {
                let ratio = positive("most", most)? / positive("scale", scale)?;
                Self::BoundedWeibull {
                    scale,
                    exponent: 1.0 / positive("shape", shape)?,
                    least: (-ratio.powf(shape)).exp(),
                }
            }
        })
    }

    /// One draw; only a Gaussian can be negative.
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Exponential(mean) => mean * exponential(rng),
            Self::ClippedExponential { mean, most } => (mean * exponential(rng)).min(most),
            Self::Lognormal { mu, sigma } => (mu + sigma * normal(rng)).exp(),
            Self::Gaussian { mean, sigma } => mean + sigma * normal(rng),
            // 1 - u lies in (0, 1]: zero would give infinity.
            Self::Pareto { scale, exponent } => scale * (1.0 - rng.random::<f64>()).powf(exponent),
            Self::BoundedPareto {
                scale,
                exponent,
                least,
                offset,
            } => offset + scale * (least + (1.0 - least) * rng.random::<f64>()).powf(exponent),
            Self::Weibull { scale, exponent } => scale * exponential(rng).powf(exponent),
            Self::BoundedWeibull {
                scale,
                exponent,
                least,
            } => {
                let survival = least + (1.0 - least) * (1.0 - rng.random::<f64>());
                scale * (-survival.ln()).max(0.0).powf(exponent)
            }
        }
    }

    /// One draw used as a duration in seconds: cut off at 0.
    pub fn draw_s<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.draw(rng).max(0.0)
    }

    /// One draw used as a count: rounded, at least 1.
    pub fn draw_count<R: Rng + ?Sized>(&self, rng: &mut R) -> u32 {
        // A float cast saturates, so an endless session is asked for with a huge constant.
        self.draw(rng).round().max(1.0) as u32
    }
}

/// The URLs of a population, ready to choose from by weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    cumulative: Vec<f64>,
}

impl Mix {
    /// Prepares the choice.
    ///
    /// # Errors
    /// No URL, or a weight that is not finite and positive.
    pub fn new(urls: &[Url]) -> Result<Self, BadInput> {
        let mut total = 0.0;
        let mut cumulative = Vec::with_capacity(urls.len());
        for url in urls {
            total += positive("weight", url.weight)
                .map_err(|bad| bad.within(format_args!("url {:?}", url.path)))?;
            cumulative.push(total);
        }
        if cumulative.is_empty() {
            return Err(BadInput("no urls".to_owned()));
        }
        Ok(Self { cumulative })
    }

    /// Index of one URL, with probability proportional to its weight.
    pub fn choose<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        let last = self.cumulative.len() - 1;
        if last == 0 {
            return 0;
        }
        let at = rng.random::<f64>() * self.cumulative[last];
        self.cumulative
            .partition_point(|&edge| edge <= at)
            .min(last)
    }
}

/// The random numbers of one session: they depend on nothing but these three, so timing cannot change a session.
pub fn session_rng(seed: u64, population: u32, session: u64) -> SmallRng {
    let stream = mix64(seed ^ mix64(u64::from(population).wrapping_add(1)));
    SmallRng::seed_from_u64(mix64(stream.wrapping_add(session)))
}

/// The random numbers of a population's arrivals.
pub fn arrival_rng(seed: u64, population: u32) -> SmallRng {
    SmallRng::seed_from_u64(mix64(seed ^ mix64(!u64::from(population))))
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): neighbouring numbers become unrelated ones.
fn mix64(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn exponential<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    Exp1.sample(rng)
}

fn normal<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    StandardNormal.sample(rng)
}

fn finite(name: &str, value: f64) -> Result<f64, BadInput> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(BadInput(format!("{name} is {value}, must be finite")))
    }
}

fn at_least_zero(name: &str, value: f64) -> Result<f64, BadInput> {
    if finite(name, value)? >= 0.0 {
        Ok(value)
    } else {
        Err(BadInput(format!("{name} is {value}, must be at least 0")))
    }
}

fn positive(name: &str, value: f64) -> Result<f64, BadInput> {
    if finite(name, value)? > 0.0 {
        Ok(value)
    } else {
        Err(BadInput(format!(
            "{name} is {value}, must be greater than 0"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(distribution: Distribution, draws: usize) -> (f64, f64) {
        let sampler = Sampler::new(&distribution).expect("valid");
        let mut rng = session_rng(7, 0, 0);
        let values: Vec<f64> = (0..draws).map(|_| sampler.draw(&mut rng)).collect();
        let mean = values.iter().sum::<f64>() / draws as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (draws - 1) as f64;
        (mean, variance.sqrt())
    }

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!(
            (value / expected - 1.0).abs() < tolerance,
            "{value} is not {expected}"
        );
    }

    #[test]
    fn lognormal_is_given_by_the_moments_of_the_value() {
        for (mean, sigma) in [(8.0, 3.0), (30.0, 30.0)] {
            let (m, s) = moments(Distribution::Lognormal { mean, sigma }, 400_000);
            close(m, mean, 0.01);
            close(s, sigma, 0.03);
        }
    }

    #[test]
    fn exponential_and_gaussian_have_their_moments() {
        let (m, s) = moments(Distribution::Exponential { mean: 0.1 }, 400_000);
        close(m, 0.1, 0.01);
        close(s, 0.1, 0.01);
        let (m, s) = moments(
            Distribution::Gaussian {
                mean: 7.0,
                sigma: 3.0,
            },
            400_000,
        );
        close(m, 7.0, 0.01);
        close(s, 3.0, 0.01);
    }

    #[test]
    fn heavy_tails_have_their_means() {
        let (m, _) = moments(
            Distribution::Pareto {
                scale: 2.0,
                shape: 3.0,
            },
            400_000,
        );
        close(m, 3.0, 0.01);
        let (m, s) = moments(
            Distribution::Weibull {
                scale: 2.0,
                shape: 1.0,
            },
            400_000,
        );
        close(m, 2.0, 0.01);
        close(s, 2.0, 0.01);
    }

    /// Kolmogorov and Smirnov's statistic of that many draws against a distribution function, in units of its critical
    /// value at a significance of 0.001.
    fn misfit(distribution: Distribution, cdf: impl Fn(f64) -> f64) -> f64 {
        let sampler = Sampler::new(&distribution).expect("valid");
        let mut rng = session_rng(11, 0, 0);
        let count = 20_000;
        let mut draws: Vec<f64> = (0..count).map(|_| sampler.draw(&mut rng)).collect();
        draws.sort_by(f64::total_cmp);
        let n = f64::from(count);
        let steps = draws.iter().zip(0..count).map(|(&x, below)| {
            let (low, high) = (f64::from(below) / n, f64::from(below + 1) / n);
            (cdf(x) - low).abs().max((cdf(x) - high).abs())
        });
        steps.fold(0.0, f64::max) * n.sqrt() / 1.949
    }

    #[test]
    fn heavy_tails_follow_their_distributions() {
        let pareto = |k: f64, a: f64| move |x: f64| 1.0 - (k / x.max(k)).powf(a);
        let weibull = |k: f64, a: f64| move |x: f64| 1.0 - (-(x / k).powf(a)).exp();
        let (scale, shape) = (1.0, 1.5);
        let fit = misfit(Distribution::Pareto { scale, shape }, pareto(1.0, 1.5));
        assert!(fit < 1.0, "{fit}");
        // Off by a little, it is found out.
        assert!(misfit(Distribution::Pareto { scale, shape }, pareto(1.0, 1.6)) > 1.0);
        let bounded = Distribution::BoundedPareto {
            scale,
            shape,
            most: 9.0,
            offset: 2.0,
        };
        let cut = |x: f64| pareto(1.0, 1.5)((x - 2.0).min(9.0)) / pareto(1.0, 1.5)(9.0);
        assert!(misfit(bounded, cut) < 1.0);
        assert!(misfit(bounded, |x| pareto(1.0, 1.5)(x - 2.0)) > 1.0);
        let active_off = Distribution::Weibull {
            scale: 1.46,
            shape: 0.382,
        };
        assert!(misfit(active_off, weibull(1.46, 0.382)) < 1.0);
        assert!(misfit(active_off, weibull(1.46, 0.42)) > 1.0);
        let bounded = Distribution::BoundedWeibull {
            scale: 1.46,
            shape: 0.382,
            most: 15.0,
        };
        let cut = |x: f64| weibull(1.46, 0.382)(x.min(15.0)) / weibull(1.46, 0.382)(15.0);
        assert!(misfit(bounded, cut) < 1.0);
        assert!(misfit(bounded, weibull(1.46, 0.382)) > 1.0);
    }

    #[test]
    fn a_gaussian_count_is_rounded_and_at_least_one() {
        let sampler = Sampler::new(&Distribution::Gaussian {
            mean: 1.0,
            sigma: 3.0,
        })
        .expect("valid");
        let mut rng = session_rng(1, 0, 0);
        let draws: Vec<u32> = (0..10_000).map(|_| sampler.draw_count(&mut rng)).collect();
        assert_eq!(draws.iter().min(), Some(&1));
        let ones = draws.iter().filter(|&&d| d == 1).count() as f64 / 10_000.0;
        // P(X < 1.5) for N(1, 3).
        close(ones, 0.566, 0.05);
        let mut rng = session_rng(1, 0, 0);
        assert!((0..10_000).all(|_| sampler.draw_s(&mut rng) >= 0.0));
    }

    #[test]
    fn an_endless_session_saturates() {
        let sampler = Sampler::new(&Distribution::Constant { value: 1e18 }).expect("valid");
        assert_eq!(sampler.draw_count(&mut session_rng(0, 0, 0)), u32::MAX);
    }

    #[test]
    fn urls_are_chosen_by_weight() {
        let url = |weight| Url {
            path: "/".to_owned(),
            weight,
            cpu_s: 0.0,
        };
        let mix = Mix::new(&[url(1.0), url(3.0), url(6.0)]).expect("valid");
        let mut rng = session_rng(3, 0, 0);
        let mut counts = [0.0; 3];
        for _ in 0..100_000 {
            counts[mix.choose(&mut rng)] += 1.0;
        }
        close(counts[0], 10_000.0, 0.05);
        close(counts[1], 30_000.0, 0.05);
        close(counts[2], 60_000.0, 0.05);
    }

    #[test]
    fn parameters_outside_their_domain_are_refused() {
        assert!(Sampler::new(&Distribution::Lognormal {
            mean: 0.0,
            sigma: 1.0
        })
        .is_err());
        assert!(Sampler::new(&Distribution::Gaussian {
            mean: 1.0,
            sigma: -1.0
        })
        .is_err());
        assert!(Sampler::new(&Distribution::Exponential { mean: f64::NAN }).is_err());
        for (scale, most) in [(1.0, 1.0), (0.0, 1.0), (2.0, 1.0), (1.0, f64::INFINITY)] {
            let bounded = Distribution::BoundedPareto {
                scale,
                shape: 1.0,
                most,
                offset: 0.0,
            };
            assert!(Sampler::new(&bounded).is_err(), "{scale} to {most}");
        }
        assert!(Mix::new(&[]).is_err());
        assert!(Mix::new(&[Url {
            path: "/".to_owned(),
            weight: 0.0,
            cpu_s: 0.0
        }])
        .is_err());
    }

    #[test]
    fn sessions_are_unrelated_and_repeatable() {
        let draw =
            |seed, population, session| session_rng(seed, population, session).random::<u64>();
        assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
        assert_ne!(draw(1, 2, 3), draw(2, 2, 3));
        assert_ne!(draw(1, 2, 3), draw(1, 3, 3));
        assert_ne!(draw(1, 2, 3), draw(1, 2, 4));
    }
}
