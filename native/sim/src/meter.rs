//! What is measured between `Begin` and `Read`: integrals over virtual time and counts.

use std::collections::BTreeMap;

use trimtab_wire::sim::Server;

const PAGE_BYTES: f64 = 4096.0;
/// Swap that is left: more than any pool here can fill, as its stalls end all growth before.
const SWAP_FREE_BYTES: f64 = 4.0 * 1024.0 * 1024.0 * 1024.0;

/// What an Apache tells of itself on its status page alone; the kernel knows the connections that workers hold.
const FROM_STATUS: [&str; 6] = [
    "idle_workers",
    "request_rate_hz",
    "service_time_s",
    "burst_length",
    "response_time_s",
    "request_time_s",
];

/// How much of everything there is at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Levels {
    /// Connections that wait to be accepted.
    pub waiting: f64,
    /// Workers that hold a connection.
    pub busy: f64,
    /// Those of them that wait for its next request.
    pub held: f64,
    /// Requests that a client waits for.
    pub outstanding: f64,
    /// Workers that are resident, busy or idle.
    pub resident: f64,
    /// Cores at work.
    pub cores: f64,
    /// Memory demand, in bytes.
    pub memory_bytes: f64,
    /// Cores that wait for memory.
    pub stalled: f64,
    /// Probability that some request does.
    pub pressure: f64,
}

/// Sums since the start of the measuring interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct Meter {
    /// Its length so far.
    pub elapsed_s: f64,
    /// Levels, integrated over time.
    pub integral: Levels,
    /// Connections that entered the accept queue.
    pub entered: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Time that the accepted connections had waited, from their own clocks.
    pub waited_s: f64,
    /// Connection requests lost because the accept queue was full.
    pub overflows: u64,
    /// Requests served.
    pub served: u64,
    /// Time from a request's start in a worker to its reply's end, summed.
    pub service_s: f64,
    /// Requests that a client sent.
    pub requests: u64,
    /// Replies that a client still waited for.
    pub replies: u64,
    /// Pages completed.
    pub pages: u64,
    /// Page times from the click, summed.
    pub page_s: f64,
    /// Requests given up by the client.
    pub errors: u64,
    /// Requests that their visits would still have made.
    pub unsent: u64,
}

impl Meter {
    /// Time passes at these levels.
    pub fn pass(&mut self, elapsed_s: f64, levels: Levels) {
        self.elapsed_s += elapsed_s;
        self.integral.waiting += levels.waiting * elapsed_s;
        self.integral.busy += levels.busy * elapsed_s;
        self.integral.held += levels.held * elapsed_s;
        self.integral.outstanding += levels.outstanding * elapsed_s;
        self.integral.memory_bytes += levels.memory_bytes * elapsed_s;
        self.integral.resident += levels.resident * elapsed_s;
        self.integral.cores += levels.cores * elapsed_s;
        self.integral.stalled += levels.stalled * elapsed_s;
        self.integral.pressure += levels.pressure * elapsed_s;
    }

    /// The readings by metric name; what had no sample is absent.
    pub fn readings(&self, server: &Server) -> BTreeMap<String, f64> {
        let mut readings = BTreeMap::new();
        if self.elapsed_s <= 0.0 {
            return readings;
        }
        let mut put = |name: &str, value: f64| {
            readings.insert(name.to_owned(), value);
        };
        let per_second = |count: u64| count as f64 / self.elapsed_s;
        let average = |integral: f64| integral / self.elapsed_s;
        put("accept_queue_length", average(self.integral.waiting));
        put("connection_rate_hz", per_second(self.entered));
        put("listen_overflow_rate_hz", per_second(self.overflows));
        put("request_rate_hz", per_second(self.served));
        put("busy_workers", average(self.integral.busy));
        put("idle_held_workers", average(self.integral.held));
        let idle = self.integral.resident - self.integral.busy;
        put("idle_workers", average(idle).max(0.0));
        put("cpu_ratio", average(self.integral.cores) / server.cores);
        let for_requests = self.integral.cores - self.integral.stalled;
        put("cpu_user_ratio", average(for_requests) / server.cores);
        let memory = average(self.integral.memory_bytes);
        put("memory_bytes", memory);
        put("memory_limit_bytes", server.memory_limit_bytes);
        put("swap_free_bytes", SWAP_FREE_BYTES);
        put("memory_ratio", memory / server.memory_limit_bytes);
        put("memory_pressure_ratio", average(self.integral.pressure));
        put(
            "swap_in_rate_hz",
            average(self.integral.stalled) * server.swap_bytes_hz / PAGE_BYTES,
        );
        put("worker_memory_bytes", server.worker_memory_bytes);
        put("client_request_rate_hz", per_second(self.replies));
        put("client_page_rate_hz", per_second(self.pages));
        put("client_error_rate_hz", per_second(self.errors));
        put(
            "client_outstanding_requests",
            average(self.integral.outstanding),
        );
        if self.pages > 0 {
            put("client_page_time_s", self.page_s / self.pages as f64);
        }
        if self.entered > 0 {
            // Little's law, as the sensor of a real accept queue has to do it.
            let delay = self.integral.waiting / self.entered as f64;
            put("accept_queue_delay_s", delay);
            if self.accepted > 0 && self.served > 0 {
                let service = self.service_s / self.served as f64;
                let burst = self.served as f64 / self.accepted as f64;
                put("service_time_s", service);
                put("burst_length", burst);
                put("response_time_s", delay + burst * service); // Eq. (1) of liu2003
                put("request_time_s", delay / burst + service);
            }
            if server.status_timeout_s > 0.0 && delay > server.status_timeout_s {
                readings.retain(|name, _| !FROM_STATUS.contains(&name.as_str()));
            }
        }
        readings
    }
}
