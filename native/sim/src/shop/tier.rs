//! A tier's CPU: processor sharing, slower the more jobs switch and the less of their memory is resident.
//!
//! With n jobs on c cores, memory M wanted and L allowed:
//!
//! ```text
//! slowdown = (1 + s (n - max(1, c))+) (1 + f (1 - L / M)+ max(1, M / L)^3)
//! ```
//!
//! s is what a job that waits for a core costs all others (switches, cold caches), f what a job's work grows by where none of its
//! memory is resident: the share 1 - L / M of it is not. The cube is thrashing: a cliff that no run
//! of the real shop came near. On one server it grows no faster than the overcommitment (`memory.rs`).

use trimtab_wire::shop::Host;

use crate::cores::Cores;

/// Power of the overcommitment.
const THRASHING: i32 = 3;

/// A tier's cores and the jobs on them.
#[derive(Debug)]
pub struct Tier {
    host: Host,
    cores: Cores,
    running: u32,
}

impl Tier {
    /// Idle cores.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            cores: Cores::new(host.cores),
            running: 0,
        }
    }

    /// A job enters with this much work, in seconds of one core.
    pub fn enter(&mut self, now_s: f64, slot: u32, work_s: f64) {
        self.running += 1;
        self.cores.enter(now_s, slot, work_s);
    }

    /// When the first job is done; infinite when there is none.
    pub fn next_s(&self) -> f64 {
        self.cores.next_s()
    }

    /// Takes out the job that is done first.
    pub fn leave(&mut self, now_s: f64) -> Option<u32> {
        let slot = self.cores.leave(now_s)?;
        self.running -= 1;
        Some(slot)
    }

    /// Brings the pace up to date with the jobs that there are and the memory that they want besides the base.
    pub fn press(&mut self, now_s: f64, memory_bytes: f64) {
        let slowdown = slowdown(&self.host, self.running, memory_bytes);
        self.cores.slow_down(now_s, slowdown);
    }

    /// Cores at work.
    pub fn busy(&self) -> f64 {
        self.cores.busy()
    }

    /// Cores that there are.
    pub fn cores(&self) -> f64 {
        self.host.cores
    }
}

/// How many times its work everything takes.
fn slowdown(host: &Host, running: u32, memory_bytes: f64) -> f64 {
    let waiting = (f64::from(running) - host.cores.max(1.0)).max(0.0);
    let switching = 1.0 + host.switching_ratio * waiting;
    let wanted = host.base_memory_bytes + memory_bytes;
    if wanted <= host.memory_limit_bytes {
        return switching;
    }
    let times = wanted / host.memory_limit_bytes;
    let out = 1.0 - 1.0 / times;
    switching * (1.0 + host.fault_ratio * out * times.powi(THRASHING))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: Host = Host {
        cores: 0.5,
        switching_ratio: 0.01,
        memory_limit_bytes: 100.0,
        base_memory_bytes: 40.0,
        fault_ratio: 20.0,
    };

    #[test]
    fn a_job_alone_in_memory_that_suffices_is_not_slowed() {
        assert_eq!(slowdown(&HOST, 1, 60.0), 1.0);
    }

    #[test]
    fn each_job_that_waits_costs_its_share() {
        assert_eq!(slowdown(&HOST, 11, 0.0), 1.1);
    }

    #[test]
    fn memory_beyond_the_limit_is_a_cliff() {
        let at = |bytes| slowdown(&HOST, 1, bytes);
        assert_eq!(at(60.0), 1.0);
        assert!(at(65.0) > 2.0, "{}", at(65.0));
        assert!(at(90.0) > 10.0, "{}", at(90.0));
        assert!(at(90.0) > 3.0 * at(70.0));
    }

    #[test]
    fn a_slowed_tier_needs_longer_for_the_work_that_is_left() {
        let mut tier = Tier::new(HOST);
        tier.enter(0.0, 7, 1.0);
        tier.press(1.0, 60.0);
        assert_eq!(tier.next_s(), 2.0);
        tier.press(1.0, 110.0);
        let late_s = tier.next_s();
        assert!(late_s > 10.0, "{late_s}");
        assert_eq!(tier.leave(late_s), Some(7));
        assert_eq!(tier.busy(), 0.0);
    }
}
