use proptest::prelude::*;

use super::*;

fn facts(side: Side, head: &[u8]) -> Result<Option<Facts>, Doubtful> {
    Head::new()
        .feed(side, head)
        .map(|done| done.map(|(facts, _)| facts))
}

fn in_bytes(side: Side, head: &[u8]) -> Result<Option<Facts>, Doubtful> {
    let mut follower = Head::new();
    for byte in head.chunks(1) {
        if let Some((facts, _)) = follower.feed(side, byte)? {
            return Ok(Some(facts));
        }
    }
    Ok(None)
}

#[test]
fn a_request_says_its_method_version_and_length() {
    let head = b"\r\nHEAD /a HTTP/1.0\r\nContent-Length: 12\r\nCONNECTION: x, Keep-Alive\r\n\r\n";
    let expected = Facts {
        method: Method::Head,
        old: true,
        length: Some(12),
        keep: true,
        ..Facts::default()
    };
    assert_eq!(facts(Side::Request, head), Ok(Some(expected)));
    assert_eq!(in_bytes(Side::Request, head), Ok(Some(expected)));
}

#[test]
fn an_answer_says_its_status_codings_and_end() {
    let head =
        b"HTTP/1.1 204 No\r\ntransfer-encoding: gzip, Chunked\r\nConnection: Close\r\nx: y\n\r\nrest";
    let expected = Facts {
        status: 204,
        coded: true,
        chunked: true,
        close: true,
        ..Facts::default()
    };
    let mut follower = Head::new();
    assert_eq!(
        follower.feed(Side::Response, head),
        Ok(Some((expected, &b"rest"[..])))
    );
    assert_eq!(in_bytes(Side::Response, head), Ok(Some(expected)));
}

#[test]
fn a_long_line_in_pieces_is_passed_over_and_one_that_matters_is_doubtful() {
    let long = "x".repeat(300);
    let head = format!("CONNECT /{long} HTTP/1.1\r\nCookie: {long}\r\nContent-Length: 7\r\n\r\n");
    let expected = Facts {
        method: Method::Connect,
        length: Some(7),
        ..Facts::default()
    };
    assert_eq!(in_bytes(Side::Request, head.as_bytes()), Ok(Some(expected)));
    for field in ["Connection", "Transfer-Encoding", "Content-Length"] {
        let head = format!("GET / HTTP/1.1\r\n{field}: {}1\r\n\r\n", " ".repeat(90));
        assert_eq!(
            in_bytes(Side::Request, head.as_bytes()),
            Err(Doubtful),
            "{field}"
        );
    }
}

#[test]
fn what_cannot_be_told_is_doubtful() {
    for head in [
        &b"PRI * HTTP/2.0\r\n\r\n"[..],
        b"PROXY TCP4 127.0.0.1 127.0.0.1 5 80\r\n",
        b"GET /\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length : 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\n 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 9999999999999999999\r\n\r\n",
    ] {
        let text = String::from_utf8_lossy(head);
        assert_eq!(facts(Side::Request, head), Err(Doubtful), "{text}");
    }
    for head in [
        &b"HTTP/1.1 20\r\n"[..],
        b"HTTP/2.0 200 OK\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n",
    ] {
        assert_eq!(facts(Side::Response, head), Err(Doubtful));
    }
}

proptest! {
    #[test]
    fn a_head_says_the_same_at_once_and_byte_by_byte(
        lines in prop::collection::vec(
            prop_oneof![
                "[A-Za-z-]{1,20}: [ -~]{0,60}",
                Just("Connection: close".to_owned()),
                Just("connection: a, KEEP-alive".to_owned()),
                Just("content-length: 17".to_owned()),
                Just("Content-Lengthy: x".to_owned()),
                Just("Transfer-Encoding: chunked".to_owned()),
                Just("Transfer-Encoding : chunked".to_owned()),
            ],
            0..12,
        ),
    ) {
        let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", lines.iter().map(|l| format!("{l}\r\n")).collect::<String>());
        let at_once = facts(Side::Response, head.as_bytes());
        prop_assert_eq!(&at_once, &in_bytes(Side::Response, head.as_bytes()));
        let doubtful = lines.iter().any(|l| l.contains(" :"));
        if !doubtful {
            let says = |text: &str| lines.iter().any(|l| l.eq_ignore_ascii_case(text));
            let facts = at_once.ok().flatten().expect("complete");
            prop_assert_eq!(facts.close, says("Connection: close"));
            prop_assert_eq!(facts.length, says("Content-Length: 17").then_some(17));
            prop_assert_eq!(facts.chunked, says("Transfer-Encoding: chunked"));
        }
    }
}
