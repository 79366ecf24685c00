use super::*;
use proptest::prelude::*;
use trimtab_wire::gate::Full;

fn class(name: &str, rules: &[(&str, &str)]) -> Class {
    let rule = |&(key, value): &(&str, &str)| {
        let line = format!("{{{key:?}:{value:?}}}");
        serde_json::from_str(&line).unwrap()
    };
    Class {
        name: name.to_owned(),
        rules: rules.iter().map(rule).collect(),
        budget: 1,
        minimum: 0,
        queue_limit: 1,
        full: Full::RefuseNewest,
    }
}

fn classifier(classes: &[&[(&str, &str)]]) -> Classifier {
    let classes: Vec<_> = classes.iter().map(|rules| class("c", rules)).collect();
    Classifier::new(&classes).unwrap()
}

fn ends(source: &str, local: &str) -> Ends {
    Ends {
        source: source.parse().unwrap(),
        local: local.parse().unwrap(),
    }
}

fn here() -> Ends {
    ends("127.0.0.1", "127.0.0.1:8080")
}

fn seen(c: &Classifier, bytes: &str, last: bool) -> Option<usize> {
    let bytes = Bytes {
        seen: bytes.as_bytes(),
        last,
    };
    c.by_request(&here(), bytes)
}

#[test]
fn the_first_class_whose_rule_holds_takes_the_connection_and_the_rest_is_asked_last() {
    let c = classifier(&[
        &[],
        &[("source", "127.0.1.0/24")],
        &[("source", "127.0.0.0/16"), ("local", ":81")],
    ]);
    assert_eq!(c.by_ends(&ends("127.0.1.9", "127.0.0.1:80")), Some(1));
    assert_eq!(c.by_ends(&ends("127.0.2.9", "127.0.0.1:80")), Some(2));
    assert_eq!(c.by_ends(&ends("10.0.2.9", "[::1]:81")), Some(2));
    assert_eq!(c.by_ends(&ends("10.0.2.9", "[::1]:82")), Some(0));
    assert!(!c.asks_address());
}

#[test]
fn a_local_address_is_compared_when_a_rule_has_one() {
    let c = classifier(&[&[("local", "127.0.0.1:80")], &[]]);
    assert!(c.asks_address());
    assert_eq!(
        c.by_ends(&ends("10.0.0.1", "[::ffff:127.0.0.1]:80")),
        Some(0)
    );
    assert_eq!(c.by_ends(&ends("10.0.0.1", "127.0.0.2:80")), Some(1));
}

#[test]
fn the_request_is_looked_at_only_when_the_ends_do_not_tell() {
    let c = classifier(&[
        &[("source", "127.0.1.0/24")],
        &[("path_prefix", "/buy")],
        &[],
    ]);
    assert_eq!(c.by_ends(&ends("127.0.1.1", "127.0.0.1:80")), Some(0));
    assert_eq!(c.by_ends(&ends("127.0.2.1", "127.0.0.1:80")), None);
}

#[test]
fn a_class_is_told_as_soon_as_the_bytes_settle_it() {
    let c = classifier(&[&[("cookie", "gold=1")], &[("path_prefix", "/buy")], &[]]);
    let head = "GET /buy HTTP/1.1\r\n";
    // The cookie of the class with the higher priority may still come.
    assert_eq!(seen(&c, head, false), None);
    assert_eq!(seen(&c, head, true), Some(1));
    assert_eq!(seen(&c, &format!("{head}\r\n"), false), Some(1));
    assert_eq!(
        seen(&c, &format!("{head}Cookie: a=b; gold=1\r\n"), false),
        Some(0)
    );
    assert_eq!(
        seen(&c, &format!("{head}Cookie: gold=10\r\n\r\n"), false),
        Some(1)
    );
    assert_eq!(seen(&c, "GET / HTTP/1.1\r\n\r\n", false), Some(2));
    assert_eq!(seen(&c, "", false), None);
    assert_eq!(seen(&c, "", true), Some(2));
    assert_eq!(seen(&c, "\x16\x03\x01", false), Some(2));
}

#[test]
fn host_and_header_rules_hold_without_regard_to_case_of_names() {
    let c = classifier(&[
        &[("host", "shop.example")],
        &[("header", "x-tier: gold")],
        &[("header", "X-Any")],
        &[],
    ]);
    let request = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n");
    assert_eq!(
        seen(&c, &request("HOST: Shop.Example:8080\r\n"), false),
        Some(0)
    );
    assert_eq!(
        seen(&c, &request("Host: a\r\nX-TIER:  gold \r\n"), false),
        Some(1)
    );
    assert_eq!(
        seen(&c, &request("Host: a\r\nX-Tier: Gold\r\nx-any:\r\n"), false),
        Some(2)
    );
    assert_eq!(seen(&c, &request("Host: a\r\n"), false), Some(3));
}

#[test]
fn all_parts_of_a_rule_must_hold() {
    let both: Rule =
        serde_json::from_str(r#"{"source":"127.0.0.0/8","host":"a","path_prefix":"/x"}"#).unwrap();
    let mut first = class("first", &[]);
    first.rules = vec![both];
    let c = Classifier::new(&[first, class("rest", &[])]).unwrap();
    assert_eq!(seen(&c, "GET /x HTTP/1.1\r\nHost: a\r\n", false), Some(0));
    assert_eq!(seen(&c, "GET /y HTTP/1.1\r\n", false), Some(1));
    assert_eq!(c.by_ends(&ends("10.0.0.1", "127.0.0.1:80")), Some(1));
}

#[test]
fn classes_without_exactly_one_rest_and_rules_that_are_wrong_are_refused() {
    for classes in [
        vec![class("a", &[]), class("b", &[])],
        vec![class("a", &[("host", "x")])],
        vec![class("a", &[("source", "x")]), class("b", &[])],
        vec![class("a", &[("local", "x")]), class("b", &[])],
        vec![class("a", &[("local", ":x")]), class("b", &[])],
    ] {
        assert!(Classifier::new(&classes).is_err());
    }
}

fn all_kinds() -> Classifier {
    classifier(&[
        &[("server_name", "shop")],
        &[("cookie", "gold"), ("header", "X-Tier: 1")],
        &[("host", "shop"), ("path_prefix", "/buy")],
        &[],
    ])
}

/// Pieces that requests are made of, so that random ones are often nearly right.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"GET /buy HTTP/1.1\r\n".to_vec()),
        Just(b"Host: shop\r\n".to_vec()),
        Just(b"Cookie: gold=1; a\r\n".to_vec()),
        Just(b"X-Tier: 1\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b" folded: x\n".to_vec()),
        Just(b"GET http://".to_vec()),
        Just(b"\x16\x03\x01\x00\x10\x01".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #[test]
    fn no_bytes_break_it_what_is_told_stays_told_and_the_last_look_always_tells(
        pieces in proptest::collection::vec(piece(), 0..12),
    ) {
        let c = all_kinds();
        let bytes = pieces.concat();
        let mut told = None;
        for end in 0..=bytes.len() {
            let now = c.by_request(&here(), Bytes { seen: &bytes[..end], last: false });
            if told.is_some() {
                prop_assert_eq!(now, told, "after {} bytes", end);
            }
            told = now;
            let last = Bytes { seen: &bytes[..end], last: true };
            prop_assert!(c.by_request(&here(), last).is_some());
        }
    }
}
