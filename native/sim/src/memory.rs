//! What memory costs: the part of a worker that requests touch comes back from swap where it does not fit; the rest costs its
//! eviction, once.
//!
//! With T workers that have served, each of w bytes of which a share k is cold, F that have not, a limit L and n requests of a
//! connection:
//!
//! ```text
//! hot    = base + F f w + T (1 - k) w             out = min((1 - k) w, (hot - L) / T)
//! x      = (base + working (1 - k) w) / L         again = min(5, x) / 3 where x > 1, else 0
//! fault  = out / rate x max(1 / n, again)         slowdown = 1 + fault / mean work of a request
//! ```
//!
//! The first request of a connection finds its worker as it was left long ago. The others find it gone only where what requests under
//! way need at once does not fit. A request faults as it works, so that what is under way gets faster when others end.
//!
//! Fitted to the CPU that a request took on real servers of 8 to 200 workers with swap on zram, up to 13 times what memory held
//! (`benchmarks/swapping`): within a factor of two, but for one. Nothing here grows without a bound: a page of a request that was touched
//! once needs no second fault, however many workers wait.

use trimtab_wire::sim::Server;

use crate::pool::Pool;

/// Memory of a worker that has not served, as a share of one that has: what fork shares is not its own. Measured on the testbed's
/// Apache: 0.56 of 6.5 MB.
const FRESH_RATIO: f64 = 0.1;

/// Overcommitment by requests under way at which each finds as much gone as the first of a connection.
const AGAIN: f64 = 3.0;

/// Overcommitment beyond which a request faults no more than before.
const MOST: f64 = 5.0;

/// How many times faster a page goes than it comes back, for which another has to go.
const GOING: f64 = 4.0;

/// The work of all requests so far, in which the cost of memory is measured.
#[derive(Debug, Default)]
pub struct Memory {
    connections: f64,
    requests: f64,
    work_s: f64,
}

impl Memory {
    /// A request with this much work begins, the first of its connection or not.
    pub fn count(&mut self, work_s: f64, opening: bool) {
        self.connections += f64::from(u8::from(opening));
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
        let again = if at_once > 1.0 {
            at_once.min(MOST) / AGAIN
        } else {
            0.0
        };
        let fault_s = out / server.swap_bytes_hz * again.max(self.connections / self.requests);
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
    excess.clamp(0.0, server.worker_memory_bytes) / (GOING * server.swap_bytes_hz)
}
