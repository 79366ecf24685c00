//! What memory costs: the part of a worker that requests touch comes back from swap where it does not fit; the rest costs its
//! eviction, once.
//!
//! With T workers that have served, each of w bytes of which a share k is cold, F that have not, and a limit L:
//!
//! ```text
//! hot    = base + F f w + T (1 - k) w          out = min(1, (hot - L) / (T (1 - k) w))
//! fault  = out (1 - k) w / rate x max(1, (base + working (1 - k) w) / L)^3
//! slowdown = 1 + fault / mean work of a request
//! ```
//!
//! A request faults its share of what is out as it works, so that what is under way gets faster when others end. The cube is
//! thrashing: what requests under way need at once does not fit, and pages go again before they were used. It and the rate are fitted
//! to an Apache of 12 MB workers in 400 MB with swap on zram, whose requests took 4.4, 53 and 1250 ms longer with 40, 80 and 160 busy
//! workers than with 10; this gives 4.9, 88 and 860 ms.

use trimtab_wire::sim::Server;

use crate::pool::Pool;

/// Memory of a worker that has not served, as a share of one that has: what fork shares is not its own. Measured on the testbed's
/// Apache: 0.56 of 6.5 MB.
const FRESH_RATIO: f64 = 0.1;

/// Power of the overcommitment by requests under way.
const THRASHING: i32 = 3;

/// The work of all requests so far, in which the cost of memory is measured.
#[derive(Debug, Default)]
pub struct Memory {
    requests: f64,
    work_s: f64,
}

impl Memory {
    /// A request with this much work begins.
    pub fn count(&mut self, work_s: f64) {
        self.requests += 1.0;
        self.work_s += work_s;
    }

    /// How many times its work everything takes now.
    pub fn slowdown(&self, server: &Server, pool: Pool, working: u32) -> f64 {
        let (touched, limit) = (f64::from(pool.touched), server.memory_limit_bytes);
        let hot = server.worker_memory_bytes * (1.0 - server.cold_ratio);
        let cold = touched * (server.worker_memory_bytes - hot);
        let excess = demand_bytes(server, pool) - cold - limit;
        if excess <= 0.0 || touched * hot <= 0.0 || self.work_s <= 0.0 {
            return 1.0;
        }
        let at_once = (server.base_memory_bytes + f64::from(working) * hot) / limit;
        let out = (excess / touched).min(hot);
        let fault_s = out / server.swap_bytes_hz * at_once.max(1.0).powi(THRASHING);
        1.0 + fault_s * self.requests / self.work_s
    }
}

/// Memory that the server would like to have, swapped or not.
pub fn demand_bytes(server: &Server, pool: Pool) -> f64 {
    let fresh = f64::from(pool.resident - pool.touched) * FRESH_RATIO;
    server.base_memory_bytes + server.worker_memory_bytes * (fresh + f64::from(pool.touched))
}

/// Work to make room for a worker that serves for the first time.
pub fn eviction_s(server: &Server, pool: Pool) -> f64 {
    let excess = demand_bytes(server, pool) - server.memory_limit_bytes;
    excess.clamp(0.0, server.worker_memory_bytes) / server.swap_bytes_hz
}
