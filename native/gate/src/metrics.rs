//! Figures in the text format of Prometheus (version 0.0.4), and the little of HTTP that it needs to be asked for.

use std::fmt::Write as _;

use trimtab_wire::gate::{ClassReadings, Mode};

use crate::line::Input;

/// Longest request head.
const MOST_HEAD: usize = 8 * 1024;
/// Upper bounds of the delay histogram in microseconds.
const BOUNDS_US: [u64; 14] = [
    100, 1_000, 5_000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];

/// The figures that are shown.
#[derive(Debug, Clone)]
pub struct Figures {
    /// Who decides.
    pub mode: Mode,
    /// M.
    pub limit: u32,
    /// Processes of the server.
    pub workers: u32,
    /// B_k.
    pub budgets: Vec<u32>,
    /// By class.
    pub classes: Vec<ClassReadings>,
}

/// A request, by its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// The figures.
    Metrics,
    /// Something that is answered with a status alone.
    Other(u16),
}

/// Reads a request; None when its head is not whole yet.
pub fn request(input: &mut Input) -> Option<Request> {
    if input.held() > MOST_HEAD {
        return Some(Request::Other(431));
    }
    let whole = input.unread().windows(2).any(|pair| pair == b"\n\n")
        || input.unread().windows(4).any(|four| four == b"\r\n\r\n");
    if !whole {
        return None;
    }
    let line = input.line().ok().flatten().unwrap_or_default();
    let mut words = line.split(|&b| b == b' ');
    Some(match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => Request::Metrics,
        (Some(b"GET"), Some(_)) => Request::Other(404),
        (Some(_), Some(_)) => Request::Other(405),
        _ => Request::Other(400),
    })
}

/// A reply that ends its connection.
pub fn reply(status: u16, body: &str) -> Vec<u8> {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Request Header Fields Too Large",
    };
    format!(
        "HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The figures as text.
pub fn page(figures: &Figures) -> String {
    let mut page = Page(String::new());
    let open = u8::from(figures.mode == Mode::Open);
    page.family(
        "limit_connections",
        "gauge",
        "M: connections that the server may hold at once.",
    );
    page.line("limit_connections", "", figures.limit);
    page.family(
        "workers",
        "gauge",
        "Processes of the server that take connections.",
    );
    page.line("workers", "", figures.workers);
    page.family("open", "gauge", "1 while nobody decides about the budgets.");
    page.line("open", "", open);
    page.family(
        "budget_connections",
        "gauge",
        "B_k: connections of a class that may be in service.",
    );
    for (class, budget) in figures.classes.iter().zip(&figures.budgets) {
        page.of_class("budget_connections", class, budget);
    }
    type Column = (
        &'static str,
        &'static str,
        &'static str,
        fn(&ClassReadings) -> f64,
    );
    let columns: [Column; 8] = [
        (
            "arrivals_total",
            "counter",
            "Connections classified.",
            |c| c.arrivals as f64,
        ),
        (
            "dispatched_total",
            "counter",
            "Connections given to a worker.",
            |c| c.dispatched as f64,
        ),
        (
            "refused_total",
            "counter",
            "Connections refused because the queue was full.",
            |c| c.refused as f64,
        ),
        (
            "aborted_total",
            "counter",
            "Clients that gave up while they waited.",
            |c| c.aborted as f64,
        ),
        (
            "queue_connections",
            "gauge",
            "Connections that wait.",
            |c| f64::from(c.queue),
        ),
        (
            "in_service_connections",
            "gauge",
            "R_k: connections in service.",
            |c| f64::from(c.in_service),
        ),
        (
            "in_service_connection_seconds_total",
            "counter",
            "Integral of R_k.",
            |c| c.in_service_connection_s,
        ),
        (
            "oldest_wait_seconds",
            "gauge",
            "Wait of the first of the queue.",
            |c| c.oldest_wait_s,
        ),
    ];
    for (name, kind, help, value) in columns {
        page.family(name, kind, help);
        for class in &figures.classes {
            page.of_class(name, class, value(class));
        }
    }
    page.family(
        "delay_seconds",
        "histogram",
        "From accepted by the gate to given to a worker.",
    );
    figures.classes.iter().for_each(|class| page.delays(class));
    page.0
}

struct Page(String);

impl Page {
    // Writing to a String cannot fail.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.0,
            "# HELP trimtab_gate_{name} {help}\n# TYPE trimtab_gate_{name} {kind}"
        );
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "trimtab_gate_{name}{labels} {value}");
    }

    fn of_class(&mut self, name: &str, class: &ClassReadings, value: impl std::fmt::Display) {
        self.line(name, &format!("{{class=\"{}\"}}", class.class), value);
    }

    fn delays(&mut self, class: &ClassReadings) {
        for bound_us in BOUNDS_US {
            let within = class
                .delay_buckets
                .iter()
                .filter(|&&(upper_us, _)| upper_us <= bound_us);
            let count = within.fold(0, |sum: u64, &(_, count)| sum.saturating_add(count));
            let labels = format!(
                "{{class=\"{}\",le=\"{}\"}}",
                class.class,
                bound_us as f64 / 1e6
            );
            self.line("delay_seconds_bucket", &labels, count);
        }
        let labels = format!("{{class=\"{}\",le=\"+Inf\"}}", class.class);
        self.line("delay_seconds_bucket", &labels, class.dispatched);
        self.of_class("delay_seconds_sum", class, class.delay_sum_s);
        self.of_class("delay_seconds_count", class, class.dispatched);
    }
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
