use proptest::prelude::*;

use super::*;

#[test]
fn a_cookie_is_kept_replaced_and_taken_back() {
    let mut state = State::default();
    for header in [
        "cart=1-x; Path=/shop; HttpOnly",
        "customer=7",
        "cart=2",
        "broken",
        "=x",
        "a\u{7f}=1",
    ] {
        state.set_cookie(header.as_bytes());
    }
    assert_eq!(
        (state.cookie("cart"), state.cookie("customer")),
        (Some("2"), Some("7"))
    );
    assert_eq!(state.cookies.len(), 2);
    state.set_cookie(b"cart=; Max-Age=0");
    assert_eq!(state.cookie("cart"), None);
}

#[test]
fn an_image_is_fresh_for_as_long_as_the_server_says() {
    for (header, fresh) in [
        ("public, max-age=60", 60),
        ("MAX-AGE=\"5\"", 5),
        ("max-age=60, no-store", 0),
        ("no-cache, max-age=60", 0),
        ("max-age=-1", 0),
        ("max-age=99999999999999999999", 0),
        ("", 0),
    ] {
        assert_eq!(fresh_s(header.as_bytes()), fresh, "{header}");
    }
}

proptest! {
    #[test]
    fn no_header_makes_a_browser_send_more_than_one_line(headers in prop::collection::vec(any::<Vec<u8>>(), 0..100)) {
        let mut state = State::default();
        for header in &headers {
            state.set_cookie(header);
            fresh_s(header);
        }
        prop_assert!(state.cookies.len() <= MOST_COOKIES);
        for (name, value) in &state.cookies {
            prop_assert!(!name.contains(['\r', '\n', '\0', ';']) && !value.contains(['\r', '\n', '\0', ';']));
        }
    }
}
