//! Figures of durations: exact count, mean and maximum; percentiles from an HDR histogram in microseconds.

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use hdrhistogram::Histogram;
use trimtab_wire::load::Latency;

/// Significant decimal digits of a histogram.
const DIGITS: u8 = 3;

/// The samples of one duration.
#[derive(Debug, Clone)]
pub struct Meter {
    histogram: Histogram<u64>,
    sum_ns: u64,
    max_ns: u64,
}

impl Meter {
    /// An empty meter.
    ///
    /// # Errors
    /// The histogram crate refuses the precision.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            histogram: Histogram::new(DIGITS)?,
            sum_ns: 0,
            max_ns: 0,
        })
    }

    /// Adds a sample in nanoseconds.
    pub fn record(&mut self, sample_ns: u64) {
        // An auto-resizing histogram takes every value that a run can last.
        if self
            .histogram
            .record(sample_ns.saturating_add(500) / 1_000)
            .is_ok()
        {
            self.sum_ns += sample_ns;
            self.max_ns = self.max_ns.max(sample_ns);
        }
    }

    /// Moves the samples of another meter into this one.
    pub fn drain(&mut self, other: &mut Self) {
        if self.histogram.add(&other.histogram).is_ok() {
            self.sum_ns += other.sum_ns;
            self.max_ns = self.max_ns.max(other.max_ns);
        }
        other.clear();
    }

    /// Forgets every sample.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.sum_ns = 0;
        self.max_ns = 0;
    }

    /// A quantile in seconds; None without samples.
    pub fn quantile_s(&self, q: f64) -> Option<f64> {
        // A histogram's bucket may end above the largest sample in it.
        let value_s = self.histogram.value_at_quantile(q) as f64 * 1e-6;
        (!self.histogram.is_empty()).then(|| value_s.min(self.max_ns as f64 * 1e-9))
    }

    /// The figures, without the histogram; absent without samples.
    pub fn figures(&self) -> Latency {
        let count = self.histogram.len();
        if count == 0 {
            return Latency::default();
        }
        Latency {
            count,
            mean_s: Some(self.sum_ns as f64 * 1e-9 / count as f64),
            p50_s: self.quantile_s(0.50),
            p95_s: self.quantile_s(0.95),
            p99_s: self.quantile_s(0.99),
            max_s: Some(self.max_ns as f64 * 1e-9),
            histogram: None,
        }
    }

    /// The figures with the histogram.
    ///
    /// # Errors
    /// The histogram cannot be serialised.
    pub fn summary(&self) -> anyhow::Result<Latency> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .map_err(|error| anyhow::anyhow!("histogram: {error}"))?;
        Ok(Latency {
            histogram: Some(STANDARD.encode(bytes)),
            ..self.figures()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_samples() {
        let mut meter = Meter::new().expect("meter");
        for ms in 1..=1000 {
            meter.record(ms * 1_000_000);
        }
        let figures = meter.figures();
        assert_eq!(figures.count, 1000);
        assert!((figures.mean_s.expect("mean") - 0.5005).abs() < 1e-9);
        assert!((figures.p50_s.expect("p50") - 0.5).abs() < 0.001);
        assert!((figures.p99_s.expect("p99") - 0.99).abs() < 0.001);
        assert_eq!(figures.max_s, Some(1.0));
    }

    #[test]
    fn an_empty_meter_has_no_figures_rather_than_zeros() {
        assert_eq!(Meter::new().expect("meter").figures(), Latency::default());
    }

    #[test]
    fn draining_moves_every_sample() {
        let (mut total, mut part) = (Meter::new().expect("meter"), Meter::new().expect("meter"));
        total.record(5_000);
        part.record(7_000_000);
        total.drain(&mut part);
        assert_eq!(part.figures(), Latency::default());
        assert_eq!(total.figures().count, 2);
        assert_eq!(total.figures().max_s, Some(0.007));
    }
}
