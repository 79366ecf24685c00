//! The check of a start line, before anything is done.

use trimtab_wire::gate::Start;
use trimtab_wire::lanes::CLASSES;
use trimtab_wire::shared::SLOTS;

use crate::rules::Classifier;

/// Most bytes that are looked at.
const MOST_PEEK: u32 = 64 * 1024;

/// Checks a start line.
///
/// # Errors
/// The first wrong value, with what is allowed.
pub fn start(start: &Start) -> Result<(), String> {
    let within = |what: &str, value: u64, least: u64, most: u64| {
        let fits = (least..=most).contains(&value);
        fits.then_some(())
            .ok_or_else(|| format!("{what} {value} is not allowed: {least} to {most}"))
    };
    within("limit", start.limit.into(), 1, SLOTS as u64)?;
    within(
        "number of classes",
        start.classes.len() as u64,
        1,
        CLASSES as u64,
    )?;
    within("peek_bytes", start.peek_bytes.into(), 1, MOST_PEEK.into())?;
    positive("peek_timeout_s", start.peek_timeout_s)?;
    positive("controller_timeout_s", start.controller_timeout_s)?;
    let limit = u64::from(start.limit);
    for (index, class) in start.classes.iter().enumerate() {
        let name = &class.name;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(format!(
                "class name {name:?} is not 1 to 64 letters, digits, - and _"
            ));
        }
        if start.classes[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            return Err(format!("two classes have the name {name:?}"));
        }
        within(
            &format!("class {name:?}: budget"),
            class.budget.into(),
            0,
            limit,
        )?;
        within(
            &format!("class {name:?}: queue_limit"),
            class.queue_limit.into(),
            1,
            u32::MAX.into(),
        )?;
    }
    let minima = start
        .classes
        .iter()
        .map(|class| u64::from(class.minimum))
        .sum();
    within("sum of the minima", minima, 0, limit)?;
    if let Some(metrics) = start.metrics.filter(|metrics| !metrics.ip().is_loopback()) {
        return Err(format!("metrics {metrics} is not on loopback"));
    }
    Classifier::new(&start.classes).map(|_| ())
}

fn positive(what: &str, value: f64) -> Result<(), String> {
    let fits = value > 0.0 && value <= 86_400.0;
    fits.then_some(())
        .ok_or_else(|| format!("{what} {value} is not allowed: more than 0 and at most 86400"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn checked(change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let class = json!({"name": "a", "rules": [], "budget": 4, "minimum": 1, "queue_limit": 9, "full": "refuse_newest"});
        let mut line = json!({
            "directory": "/run", "limit": 4, "classes": [class], "policy": "preemptive", "borrow": false,
            "peek_bytes": 8192, "peek_timeout_s": 1.0, "metrics": null, "controller_timeout_s": 9.0
        });
        change(&mut line);
        start(&serde_json::from_value(line).unwrap())
    }

    #[test]
    fn a_good_start_line_is_accepted() {
        assert_eq!(checked(|_| {}), Ok(()));
    }

    #[test]
    fn a_wrong_value_is_named() {
        let wrong = |pointer: &str, value: Value| {
            let change = |line: &mut Value| *line.pointer_mut(pointer).unwrap() = value;
            checked(change).unwrap_err()
        };
        assert_eq!(
            wrong("/limit", json!(0)),
            "limit 0 is not allowed: 1 to 65536"
        );
        assert!(wrong("/classes/0/budget", json!(5)).contains("budget 5"));
        assert!(wrong("/classes/0/minimum", json!(5)).contains("minima 5"));
        assert!(wrong("/classes/0/name", json!("a b")).contains("\"a b\""));
        assert!(wrong("/classes/0/rules", json!([{"host": "x"}])).contains("takes the rest"));
        assert!(wrong("/classes", json!([])).contains("number of classes 0"));
        assert!(wrong("/metrics", json!("10.0.0.1:9117")).contains("loopback"));
        assert!(wrong("/peek_timeout_s", json!(0.0)).contains("peek_timeout_s 0"));
        assert!(wrong("/controller_timeout_s", json!(-1.0)).contains("controller_timeout_s -1"));
    }
}
