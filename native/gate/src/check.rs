//! The check of a start line, before anything is done.

use trimtab_wire::gate::Start;
use trimtab_wire::lanes::CLASSES;
use trimtab_wire::shared::SLOTS;
use trimtab_wire::BadInput;

use crate::rules::Classifier;

/// Most bytes that are looked at.
const MOST_PEEK: i64 = 64 * 1024;

/// Longest time that is accepted for anything, in seconds.
const LONGEST_S: f64 = 86_400.0;

/// Checks a start line.
///
/// # Errors
/// The first wrong value.
pub fn start(start: &Start) -> Result<(), BadInput> {
    let limit = within("limit", start.limit.into(), 1, SLOTS as i64)?;
    within(
        "number of classes",
        start.classes.len() as i64,
        1,
        CLASSES as i64,
    )?;
    within("peek_bytes", start.peek_bytes.into(), 1, MOST_PEEK)?;
    positive("peek_timeout_s", start.peek_timeout_s)?;
    positive("controller_timeout_s", start.controller_timeout_s)?;
    for (index, class) in start.classes.iter().enumerate() {
        let name = &class.name;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(BadInput(format!(
                "class name {name:?} is not 1 to 64 letters, digits, - and _"
            )));
        }
        if start.classes[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            return Err(BadInput(format!("two classes have the name {name:?}")));
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
        .map(|class| i64::from(class.minimum))
        .sum();
    within("sum of the minima", minima, 0, limit)?;
    if let Some(metrics) = start.metrics.filter(|metrics| !metrics.ip().is_loopback()) {
        return Err(BadInput(format!("metrics {metrics} is not on loopback")));
    }
    Classifier::new(&start.classes)?;
    Ok(())
}

/// Checks a number, and returns it.
///
/// # Errors
/// It is outside its range.
pub fn within(name: &str, value: i64, least: i64, most: i64) -> Result<i64, BadInput> {
    let fits = (least..=most).contains(&value);
    fits.then_some(value)
        .ok_or_else(|| BadInput(format!("{name} {value} is not allowed: {least} to {most}")))
}

/// Checks a time.
///
/// # Errors
/// It is not above 0, or too long.
pub fn positive(name: &str, value_s: f64) -> Result<(), BadInput> {
    let fits = value_s > 0.0 && value_s <= LONGEST_S;
    fits.then_some(()).ok_or_else(|| {
        BadInput(format!(
            "{name} {value_s} is not allowed: more than 0 and at most {LONGEST_S}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, Value};

    fn checked(change: impl FnOnce(&mut Value)) -> Result<(), BadInput> {
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
            checked(change).unwrap_err().to_string()
        };
        assert_eq!(
            wrong("/limit", json!(0)),
            "limit 0 is not allowed: 1 to 65536"
        );
        assert_eq!(
            wrong("/classes/0/budget", json!(5)),
            "class \"a\": budget 5 is not allowed: 0 to 4"
        );
        assert!(wrong("/classes/0/minimum", json!(5)).contains("minima 5"));
        assert!(wrong("/classes/0/name", json!("a b")).contains("\"a b\""));
        assert!(wrong("/classes/0/rules", json!([{"host": "x"}])).contains("takes the rest"));
        assert!(wrong("/classes", json!([])).contains("number of classes 0"));
        assert!(wrong("/metrics", json!("10.0.0.1:9117")).contains("loopback"));
        assert_eq!(
            wrong("/peek_timeout_s", json!(0.0)),
            "peek_timeout_s 0 is not allowed: more than 0 and at most 86400"
        );
        assert!(wrong("/controller_timeout_s", json!(-1.0)).contains("controller_timeout_s -1"));
    }
}
