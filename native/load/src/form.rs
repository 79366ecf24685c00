//! What a browser sends: values drawn, remembered and taken from the page before, as a query or a form.

use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::Rng as _;
use trimtab_wire::graph::{Ask, Condition, Field, Memory, Method, Value};

use crate::browser::State;
use crate::site::Site;

/// The request's bytes up to its headers, and its body.
pub struct Filled {
    /// Path and query.
    pub path: String,
    /// The body; None for GET.
    pub form: Option<String>,
}

/// The first request whose conditions hold, filled in.
pub fn fill(asks: &[Ask], site: &Site, state: &mut State, rng: &mut SmallRng) -> Filled {
    let mut path = String::from("/");
    for ask in asks {
        if !ask.when.iter().all(|one| holds(one, site, state, rng)) {
            continue;
        }
        remember(&ask.remember, site, state, rng);
        let mut text = String::new();
        for field in &ask.fields {
            write_field(&mut text, field, site, state, rng);
        }
        path.clone_from(&ask.path);
        if ask.method == Method::Post {
            return Filled {
                path,
                form: Some(text),
            };
        }
        if !text.is_empty() {
            path.push('?');
            path.push_str(&text);
        }
        break;
    }
    Filled { path, form: None }
}

/// Draws what is to be remembered.
pub fn remember(memories: &[Memory], site: &Site, state: &mut State, rng: &mut SmallRng) {
    for memory in memories {
        if rng.random::<f64>() < memory.ratio {
            let text = draw(&memory.value, site, state, rng);
            state.remember(&memory.name, text);
        }
    }
}

fn holds(condition: &Condition, site: &Site, state: &State, rng: &mut SmallRng) -> bool {
    match condition {
        Condition::First {} => state.before.is_none(),
        Condition::After { page } => state.before.is_some_and(|b| site.pages[b].name == *page),
        Condition::Remembers { name } => state.remembered(name).is_some(),
        Condition::HasCookie { name } => state.cookie(name).is_some(),
        Condition::Marked { marker } => !state.marked(site, marker).is_empty(),
        Condition::Chance { ratio } => rng.random::<f64>() < *ratio,
    }
}

fn draw(value: &Value, site: &Site, state: &State, rng: &mut SmallRng) -> String {
    match value {
        Value::Text { text } => text.clone(),
        Value::OneOf { texts } => texts[rng.random_range(0..texts.len())].clone(),
        Value::Uniform { low, high, places } => decimal(rng.random_range(*low..=*high), *places),
        Value::NuRand { a, low, high } => {
            let mixed = rng.random_range(0..=*a) | rng.random_range(*low..=*high);
            (mixed % (high - low + 1) + low).to_string()
        }
        Value::Letters { least, most } => letters(*least, *most, b'a', 26, rng),
        Value::Digits { least, most } => letters(*least, *most, b'0', 10, rng),
        Value::Date {
            first_day,
            last_day,
        } => date(rng.random_range(*first_day..=*last_day)),
        Value::Remembered { name } => state.remembered(name).unwrap_or_default().to_owned(),
        Value::Cookie { name } => state.cookie(name).unwrap_or_default().to_owned(),
        Value::Marked { marker, otherwise } => {
            let found = state.marked(site, marker);
            if found.is_empty() {
                return draw(otherwise, site, state, rng);
            }
            found[rng.random_range(0..found.len())].to_string()
        }
        Value::Joined { parts } => parts
            .iter()
            .map(|part| draw(part, site, state, rng))
            .collect(),
        Value::Syllables {
            of,
            syllables,
            width,
            lower,
        } => {
            let number = draw(of, site, state, rng);
            let text = spell(&number, syllables, *width as usize);
            if *lower {
                text.to_lowercase()
            } else {
                text
            }
        }
    }
}

fn decimal(number: u64, places: u32) -> String {
    if places == 0 {
        return number.to_string();
    }
    let unit = 10u64.pow(places);
    format!(
        "{}.{:0width$}",
        number / unit,
        number % unit,
        width = places as usize
    )
}

fn letters(least: u32, most: u32, first: u8, kinds: u8, rng: &mut SmallRng) -> String {
    (0..rng.random_range(least..=most))
        .map(|_| char::from(first + rng.random_range(0..kinds)))
        .collect()
}

/// DigSyl of TPC-W: each decimal digit as a syllable.
fn spell(number: &str, syllables: &[String], width: usize) -> String {
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return number.to_owned();
    }
    format!("{number:0>width$}")
        .bytes()
        .map(|digit| syllables[usize::from(digit - b'0')].as_str())
        .collect()
}

/// A day of the Gregorian calendar, from days since 1970-01-01 (Hinnant, chrono-compatible low-level date algorithms).
fn date(day: i64) -> String {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let of_era = day.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let in_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{in_month:02}")
}

fn write_field(text: &mut String, field: &Field, site: &Site, state: &State, rng: &mut SmallRng) {
    match field {
        Field::One { name, value } => write_pair(text, name, &draw(value, site, state, rng)),
        Field::Rows {
            key,
            key_marker,
            number,
            number_marker,
            only,
            several,
        } => {
            let keys = state.marked(site, key_marker);
            let mut numbers: Vec<String> = state
                .marked(site, number_marker)
                .iter()
                .map(ToString::to_string)
                .collect();
            numbers.resize(keys.len(), "1".to_owned());
            if let [one] = numbers.as_mut_slice() {
                *one = rng.random_range(only[0]..=only[1]).to_string();
            } else if !numbers.is_empty() {
                let changed = rng.random_range(1..=numbers.len());
                for row in sample(rng, numbers.len(), changed) {
                    numbers[row] = another(&numbers[row], *several, rng);
                }
            }
            for (one, quantity) in keys.iter().zip(&numbers) {
                write_pair(text, key, one);
                write_pair(text, number, quantity);
            }
        }
    }
}

/// A number of the range that is not the one there is, where the range has another.
fn another(number: &str, [low, high]: [u64; 2], rng: &mut SmallRng) -> String {
    match number.parse::<u64>() {
        Ok(there) if (low..=high).contains(&there) && low < high => {
            let drawn = rng.random_range(low..high);
            (if drawn >= there { drawn + 1 } else { drawn }).to_string()
        }
        _ => rng.random_range(low..=high).to_string(),
    }
}

fn write_pair(text: &mut String, name: &str, value: &str) {
    if !text.is_empty() {
        text.push('&');
    }
    write_encoded(text, name);
    text.push('=');
    write_encoded(text, value);
}

/// As application/x-www-form-urlencoded (WHATWG URL, 5.2).
fn write_encoded(text: &mut String, plain: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in plain.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'*' | b'-' | b'.' | b'_' => {
                text.push(char::from(byte));
            }
            b' ' => text.push('+'),
            _ => {
                text.push('%');
                text.push(char::from(HEX[usize::from(byte >> 4)]));
                text.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
