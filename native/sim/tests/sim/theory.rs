//! The simulator agrees with queueing theory where its assumptions hold.

use crate::common::{agrees, population, server, users};
use trimtab_wire::workload::Arrivals;

/// Stationary means of M/M/m/K/N without losses: throughput, mean in queue, mean in system.
fn mmmn(m: u32, users: u32, think_s: f64, service_s: f64) -> (f64, f64, f64) {
    let mut weight = 1.0;
    let (mut total, mut throughput, mut queue, mut inside) = (0.0, 0.0, 0.0, 0.0);
    for n in 0..=users {
        let busy = f64::from(n.min(m));
        total += weight;
        throughput += weight * busy / service_s;
        queue += weight * f64::from(n.saturating_sub(m));
        inside += weight * f64::from(n);
        let death = f64::from((n + 1).min(m)) / service_s;
        weight *= f64::from(users - n) / think_s / death;
    }
    (throughput / total, queue / total, inside / total)
}

#[test]
fn dedicated_workers_behave_as_m_m_m_k_n() {
    // Workers at most as many as cores, so that sharing them means having one's own.
    for (m, n, think_s, service_s) in [(1, 8, 1.0, 0.2), (4, 30, 1.0, 0.15), (16, 40, 0.5, 0.4)] {
        let (throughput, queue, inside) = mmmn(m, n, think_s, service_s);
        let theory = [
            ("request_rate_hz", throughput),
            ("accept_queue_length", queue),
            ("accept_queue_delay_s", queue / throughput),
            ("response_time_s", inside / throughput),
            ("client_page_time_s", inside / throughput),
            ("busy_workers", inside - queue),
        ];
        let clients = users(n, think_s, service_s);
        agrees(&server(m, f64::from(m)), &clients, 100.0, 3000.0, &theory);
    }
}

#[test]
fn one_shared_core_behaves_as_m_m_1_ps() {
    for rho in [0.5, 0.8] {
        let rate_hz = rho / 0.01;
        let clients = population(Arrivals::Poisson { rate_hz }, 0.01);
        let theory = [
            ("service_time_s", 0.01 / (1.0 - rho)),
            ("cpu_ratio", rho),
            ("cpu_user_ratio", rho),
            ("busy_workers", rho / (1.0 - rho)),
        ];
        agrees(&server(100_000, 1.0), &clients, 100.0, 2000.0, &theory);
    }
}

#[test]
fn processor_sharing_does_not_care_about_the_shape_of_the_demand() {
    let mut server = server(100_000, 1.0);
    server.exponential_service = false;
    let clients = population(Arrivals::Poisson { rate_hz: 70.0 }, 0.01);
    let theory = [("service_time_s", 0.01 / 0.3)];
    agrees(&server, &clients, 100.0, 2000.0, &theory);
}

#[test]
fn several_shared_cores_behave_as_m_m_c() {
    // Exponential demands leave an egalitarian c-core PS with the number in system of M/M/c (c = 4, rho = 0.75).
    let clients = population(Arrivals::Poisson { rate_hz: 300.0 }, 0.01);
    let offered: f64 = 3.0;
    let head = 1.0 + offered + offered.powi(2) / 2.0 + offered.powi(3) / 6.0;
    let tail = offered.powi(4) / 24.0 / (1.0 - 0.75);
    let waiting = tail / (head + tail) * 0.75 / (1.0 - 0.75);
    let theory = [("busy_workers", offered + waiting)];
    agrees(&server(100_000, 4.0), &clients, 100.0, 700.0, &theory);
}
