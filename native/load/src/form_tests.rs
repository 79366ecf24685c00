use rand::SeedableRng as _;

use super::*;
use crate::page::read;
use crate::scripted::{page, site};

fn rng() -> SmallRng {
    SmallRng::seed_from_u64(1)
}

fn drawn(value: &Value) -> Vec<String> {
    let site = Site::new(&site(vec![page("a")])).expect("site");
    let mut rng = rng();
    (0..2000)
        .map(|_| draw(value, &site, &State::default(), &mut rng))
        .collect()
}

#[test]
fn days_are_those_of_the_calendar() {
    for (day, text) in [
        (0, "1970-01-01"),
        (-1, "1969-12-31"),
        (11_016, "2000-02-29"),
        (20_780, "2026-11-23"),
        (-32_872, "1880-01-01"),
    ] {
        assert_eq!(date(day), text);
    }
}

#[test]
fn syllables_stand_for_digits_and_what_is_no_number_stays() {
    let syllables: Vec<String> = "BA OG AL RI RE SE AT UL IN NG"
        .split(' ')
        .map(str::to_owned)
        .collect();
    assert_eq!(spell("40", &syllables, 0), "REBA");
    assert_eq!(spell("12", &syllables, 7), "BABABABABAOGAL");
    assert_eq!(spell("x-1", &syllables, 7), "x-1");
}

#[test]
fn draws_stay_within_what_was_asked_for_and_reach_its_ends() {
    let numbers = drawn(&Value::Uniform {
        low: 3,
        high: 5,
        places: 2,
    });
    assert!(numbers
        .iter()
        .all(|n| ["0.03", "0.04", "0.05"].contains(&n.as_str())));
    let skewed: Vec<u64> = drawn(&Value::NuRand {
        a: 1023,
        low: 1,
        high: 28,
    })
    .iter()
    .map(|n| n.parse().expect("number"))
    .collect();
    assert_eq!(
        (skewed.iter().min(), skewed.iter().max()),
        (Some(&1), Some(&28))
    );
    let lengths: Vec<usize> = drawn(&Value::Letters { least: 2, most: 4 })
        .iter()
        .map(String::len)
        .collect();
    assert_eq!(
        (lengths.iter().min(), lengths.iter().max()),
        (Some(&2), Some(&4))
    );
}

#[test]
fn a_form_is_encoded_as_browsers_do() {
    let mut text = String::new();
    write_pair(&mut text, "a b", "c&d=\u{e4}/*");
    write_pair(&mut text, "e", "");
    assert_eq!(text, "a+b=c%26d%3D%C3%A4%2F*&e=");
}

fn refreshed(html: &[u8]) -> Vec<Vec<(String, u64)>> {
    let field = Field::Rows {
        key: "line".to_owned(),
        key_marker: "data-line".to_owned(),
        number: "quantity".to_owned(),
        number_marker: "data-quantity".to_owned(),
        only: [1, 10],
        several: [0, 9],
    };
    let mut graph = site(vec![page("a")]);
    graph.pages[0].asks[0].fields = vec![field.clone()];
    let site = Site::new(&graph).expect("site");
    let mut state = State::default();
    state.take_marked(read(html, &site.markers).marked);
    let mut rng = rng();
    let once = |_| {
        let mut text = String::new();
        write_field(&mut text, &field, &site, &state, &mut rng);
        let values: Vec<&str> = text
            .split('&')
            .filter_map(|pair| pair.split_once('=').map(|p| p.1))
            .collect();
        values
            .chunks(2)
            .map(|row| (row[0].to_owned(), row[1].parse().expect("number")))
            .collect()
    };
    (0..500).map(once).collect()
}

#[test]
fn an_only_row_gets_any_number_and_of_several_some_get_another_than_they_have() {
    let only = refreshed(b"<p data-line=7 data-quantity=2>");
    assert!(only
        .iter()
        .all(|rows| rows.len() == 1 && rows[0].0 == "7" && (1..=10).contains(&rows[0].1)));
    let several = refreshed(b"<p data-line=7 data-quantity=2><p data-line=8 data-quantity=0><p data-line=9 data-quantity=15>");
    let mut changed = [0; 4];
    for rows in &several {
        assert_eq!(
            rows.iter().map(|r| r.0.as_str()).collect::<Vec<_>>(),
            ["7", "8", "9"]
        );
        let other = rows
            .iter()
            .zip([2, 0, 15])
            .filter(|(row, had)| row.1 != *had);
        for (row, _) in other.clone() {
            assert!(row.1 <= 9);
        }
        changed[other.count()] += 1;
    }
    assert!(
        changed[0] == 0 && changed[1] > 100 && changed[2] > 100 && changed[3] > 100,
        "{changed:?}"
    );
}
