//! What is measured of a shop between `Begin` and `Read`.

use std::collections::BTreeMap;

/// Page times are counted in steps of this share, from the least.
const STEP: f64 = 1.02;
const LEAST_S: f64 = 1e-5;
const BUCKETS: usize = 900;

/// How much of everything there is at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Levels {
    /// Cores at work, by tier.
    pub busy: [f64; 3],
    /// Operations that the disk carries out at full speed.
    pub disk: f64,
    /// Threads of the application that have a page or an image.
    pub threads: f64,
    /// Connections to the database that a page has.
    pub pooled: f64,
    /// Pages and images that wait for a thread of the application.
    pub waiting: f64,
    /// Pages that wait for a connection, or for their queries' turn.
    pub pooling: f64,
    /// Pages under way.
    pub under_way: f64,
}

/// Sums since the start of the measuring interval.
#[derive(Debug)]
pub struct Meter {
    /// Its length so far.
    pub elapsed_s: f64,
    /// Levels, integrated over time.
    pub integral: Levels,
    /// Pages completed with their images.
    pub pages: u64,
    /// Their times from the click, summed.
    pub page_s: f64,
    /// Pages that were refused, or of which images were.
    pub refused: u64,
    /// Images that browsers asked for.
    pub images: u64,
    /// Those of them that the proxy had.
    pub image_hits: u64,
    /// Blocks that queries looked at.
    pub blocks: f64,
    /// Those of them that were read.
    pub reads: f64,
    times: Vec<u32>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            elapsed_s: 0.0,
            integral: Levels::default(),
            pages: 0,
            page_s: 0.0,
            refused: 0,
            images: 0,
            image_hits: 0,
            blocks: 0.0,
            reads: 0.0,
            times: vec![0; BUCKETS],
        }
    }
}

impl Meter {
    /// Time passes at these levels.
    pub fn pass(&mut self, elapsed_s: f64, levels: Levels) {
        let sums = &mut self.integral;
        self.elapsed_s += elapsed_s;
        for (sum, busy) in sums.busy.iter_mut().zip(levels.busy) {
            *sum += busy * elapsed_s;
        }
        sums.disk += levels.disk * elapsed_s;
        sums.threads += levels.threads * elapsed_s;
        sums.pooled += levels.pooled * elapsed_s;
        sums.waiting += levels.waiting * elapsed_s;
        sums.pooling += levels.pooling * elapsed_s;
        sums.under_way += levels.under_way * elapsed_s;
    }

    /// A page is complete.
    pub fn page(&mut self, taken_s: f64) {
        self.pages += 1;
        self.page_s += taken_s;
        let bucket = (taken_s.max(LEAST_S) / LEAST_S).ln() / STEP.ln();
        self.times[(bucket as usize).min(BUCKETS - 1)] += 1;
    }

    /// The page time that this share of the pages does not exceed, by at most a step too long; None without pages.
    pub fn quantile_s(&self, share: f64) -> Option<f64> {
        let wanted = (share * self.pages as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let found = self.times.iter().position(|&count| {
            sum += u64::from(count);
            sum >= wanted
        });
        found.map(|bucket| LEAST_S * STEP.powi(bucket as i32 + 1))
    }

    /// The readings by metric name; what had no sample is absent.
    pub fn readings(&self, cores: [f64; 3], disk_width: f64) -> BTreeMap<String, f64> {
        let mut readings = BTreeMap::new();
        if self.elapsed_s <= 0.0 {
            return readings;
        }
        let mut put = |name: &str, value: f64| {
            readings.insert(name.to_owned(), value);
        };
        let average = |integral: f64| integral / self.elapsed_s;
        put("client_page_rate_hz", average(self.pages as f64));
        put(
            "client_request_rate_hz",
            average((self.pages + self.images) as f64),
        );
        put("client_error_rate_hz", average(self.refused as f64));
        for (index, tier) in ["proxy", "application", "database"].iter().enumerate() {
            let ratio = average(self.integral.busy[index]) / cores[index];
            put(&format!("cpu_ratio@{tier}"), ratio);
            put(&format!("cpu_cores@{tier}"), cores[index]);
        }
        put(
            "disk_ratio@database",
            average(self.integral.disk) / disk_width,
        );
        put("busy_workers@application", average(self.integral.threads));
        let pooled = average(self.integral.pooled);
        put("pool_busy_connections@application", pooled);
        put("queue_length@application", average(self.integral.waiting));
        put("queue_length@database", average(self.integral.pooling));
        if let Some(p95_s) = self.quantile_s(0.95) {
            put("blocks_per_page@database", self.blocks / self.pages as f64);
            put("reads_per_page@database", self.reads / self.pages as f64);
            put("client_page_time_s", self.page_s / self.pages as f64);
            put("client_page_time_p95_s", p95_s);
        }
        if self.images > 0 {
            let ratio = self.image_hits as f64 / self.images as f64;
            put("hit_ratio@proxy", ratio);
        }
        if self.blocks > 0.0 {
            put("hit_ratio@database", 1.0 - self.reads / self.blocks);
        }
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_a_step_above_the_time_itself() {
        let mut meter = Meter::default();
        for ms in 1..=1000 {
            meter.page(f64::from(ms) / 1000.0);
        }
        for share in [0.5, 0.95, 1.0] {
            let found = meter.quantile_s(share).expect("pages");
            assert!(
                found >= share * 0.999 && found <= share * STEP * STEP,
                "{share}: {found}"
            );
        }
        assert_eq!(Meter::default().quantile_s(0.5), None);
    }
}
