//! Validation of what crosses the border; every message gives the name, the value and what is allowed.

use std::collections::BTreeMap;

use trimtab_wire::sim::Server;
use trimtab_wire::BadInput;

use crate::gate::Gate;
use crate::system::Configuration;

/// Most workers; far beyond any server's limit.
const MAX_WORKERS: i64 = 1 << 22;

/// Name of the knob that is a class's process budget, before the class.
pub const BUDGET: &str = "process_budget@";

/// Checks a server.
///
/// # Errors
/// A field is outside its domain.
pub fn server(server: &Server) -> Result<(), BadInput> {
    let at_least = |name: &str, value: f64, least: f64| {
        if value >= least && value.is_finite() {
            return Ok(());
        }
        Err(BadInput(format!(
            "server: {name} {value} must be at least {least}"
        )))
    };
    at_least("cores", server.cores, 1e-3)?;
    at_least("memory_limit_bytes", server.memory_limit_bytes, 1.0)?;
    at_least("base_memory_bytes", server.base_memory_bytes, 0.0)?;
    at_least("worker_memory_bytes", server.worker_memory_bytes, 0.0)?;
    at_least("swap_bytes_hz", server.swap_bytes_hz, 1.0)?;
    at_least("status_timeout_s", server.status_timeout_s, 0.0)?;
    for (name, value) in [
        ("cold_ratio", server.cold_ratio),
        ("lock_ratio", server.lock_ratio),
    ] {
        if !(0.0..=1.0).contains(&value) {
            return Err(BadInput(format!("server: {name} {value} is outside 0..1")));
        }
    }
    at_least("other_s", server.other_s, 0.0)?;
    at_least("reload_s", server.reload_s, 0.0)?;
    workers(i64::from(server.max_request_workers))?;
    for (index, class) in server.classes.iter().enumerate() {
        let name = &class.name;
        if name.trim().is_empty() || server.classes[..index].iter().any(|c| c.name == *name) {
            return Err(BadInput(format!(
                "server: class {name:?} must have a name of its own"
            )));
        }
        budget(name, i64::from(class.budget))?;
    }
    Ok(())
}

/// The configuration with these changes, and the new budgets by index of the class.
///
/// # Errors
/// An unknown knob or a value outside its domain.
pub fn changed(
    before: Configuration,
    gate: &Gate,
    changes: &BTreeMap<String, i64>,
) -> Result<(Configuration, Vec<(usize, u32)>), BadInput> {
    let mut after = before;
    let mut budgets = Vec::new();
    for (name, &value) in changes {
        let class = name.strip_prefix(BUDGET).and_then(|name| gate.find(name));
        if let Some(class) = class {
            budgets.push((class, budget(name, value)?));
            continue;
        }
        match name.as_str() {
            "max_request_workers" => after.max_request_workers = workers(value)?,
            "keep_alive_timeout_ms" => {
                after.keep_alive_timeout_ms = u32::try_from(value).map_err(|_| {
                    BadInput(format!(
                        "keep_alive_timeout_ms {value} is outside 0..{}",
                        u32::MAX
                    ))
                })?;
            }
            _ => {
                let known: String = gate
                    .budgets()
                    .map(|(name, _)| format!(", {BUDGET}{name}"))
                    .collect();
                return Err(BadInput(format!(
                    "unknown knob {name:?}: there are keep_alive_timeout_ms, max_request_workers{known}"
                )));
            }
        }
    }
    Ok((after, budgets))
}

fn budget(name: &str, value: i64) -> Result<u32, BadInput> {
    u32::try_from(value)
        .ok()
        .filter(|_| value <= MAX_WORKERS)
        .ok_or_else(|| {
            BadInput(format!(
                "budget {value} of {name} is outside 0..{MAX_WORKERS}"
            ))
        })
}

fn workers(value: i64) -> Result<u32, BadInput> {
    u32::try_from(value)
        .ok()
        .filter(|_| (1..=MAX_WORKERS).contains(&value))
        .ok_or_else(|| {
            BadInput(format!(
                "max_request_workers {value} is outside 1..{MAX_WORKERS}"
            ))
        })
}
