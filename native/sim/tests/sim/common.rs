//! Servers and populations to start from.

use trimtab_sim::System;
use trimtab_wire::sim::Server;
use trimtab_wire::workload::{Arrivals, Connection, Distribution, Population, Url};

pub const ENDLESS: f64 = 1e9;

/// A server whose memory suffices and whose connections are not kept.
pub fn server(workers: u32, cores: f64) -> Server {
    Server {
        max_request_workers: workers,
        keep_alive_timeout_ms: 0,
        accept_queue: u32::MAX,
        cores,
        memory_limit_bytes: 1e12,
        base_memory_bytes: 0.0,
        worker_memory_bytes: 1e6,
        spare_workers: 10,
        cold_ratio: 0.0,
        start_workers: 0,
        min_spare_workers: 0,
        swap_bytes_hz: 1.4e9,
        lock_ratio: 0.0,
        status_timeout_s: 0.0,
        other_s: 0.0,
        exponential_service: true,
        reload_s: 0.0,
        classes: vec![],
    }
}

/// Sessions of one page of one request.
pub fn population(arrivals: Arrivals, cpu_s: f64) -> Population {
    Population {
        class: "all".to_owned(),
        arrivals,
        session_pages: Distribution::Constant { value: 1.0 },
        burst_requests: Distribution::Constant { value: 1.0 },
        think_s: Distribution::Constant { value: 0.0 },
        object_gap_s: Distribution::Constant { value: 0.0 },
        pages: vec![Url {
            path: "/".to_owned(),
            weight: 1.0,
            cpu_s,
        }],
        objects: vec![],
        connection: Connection::UntilServerCloses,
        timeout_s: ENDLESS,
        schedule: vec![],
        source: None,
        round_trip_s: 0.0,
        graph: None,
    }
}

/// Users who think and click for ever.
pub fn users(users: u32, think_s: f64, cpu_s: f64) -> Population {
    Population {
        session_pages: Distribution::Constant { value: ENDLESS },
        think_s: Distribution::Exponential { mean: think_s },
        ..population(Arrivals::Closed { users }, cpu_s)
    }
}

/// The system after a warm-up, with the meter at 0, and after the measuring time.
pub fn run(
    server: &Server,
    populations: &[Population],
    seed: u64,
    warm_s: f64,
    length_s: f64,
) -> System {
    let mut system = System::new(server.clone(), populations, seed).unwrap();
    system.advance(warm_s).unwrap();
    system.begin();
    system.advance(length_s).unwrap();
    system
}

/// Half the width of a confidence interval of 99.9 % for the mean of ten values, and the mean.
pub fn interval(values: &[f64; 10]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / 10.0;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 9.0;
    // Student's t at 0.9995 with 9 degrees of freedom.
    (mean, 4.781 * (variance / 10.0).sqrt())
}

/// Asserts for each reading that the theory lies within the interval of ten seeds, and that the interval says something.
pub fn agrees(
    server: &Server,
    population: &Population,
    warm_s: f64,
    length_s: f64,
    theory: &[(&str, f64)],
) {
    let clients = std::slice::from_ref(population);
    let runs: [_; 10] =
        std::array::from_fn(|seed| run(server, clients, seed as u64, warm_s, length_s).readings());
    for &(name, expected) in theory {
        let (mean, half) = interval(&std::array::from_fn(|seed| runs[seed][name]));
        assert!(
            half < 0.1 * expected,
            "{name}: the interval {mean} +- {half} is too wide"
        );
        assert!(
            (mean - expected).abs() <= half,
            "{name}: theory says {expected}, the simulator {mean} +- {half}"
        );
    }
}
