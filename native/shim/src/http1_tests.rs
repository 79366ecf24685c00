use proptest::prelude::*;

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";

/// The state after an exchange.
fn after(request: &[u8], response: &[u8]) -> State {
    let mut tracker = Tracker::new();
    tracker.received(request);
    assert_ne!(tracker.state(), State::Idle, "a request is under way");
    tracker.sent(response);
    tracker.state()
}

#[test]
fn an_exchange_with_known_lengths_ends_idle() {
    let post = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nbody";
    for (request, response) in [
        (GET, OK),
        (post, OK),
        (GET, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        (GET, b"HTTP/1.1 204 None\r\n\r\n"),
        (GET, b"HTTP/1.1 304 Same\r\nContent-Length: 500\r\n\r\n"),
        (b"HEAD / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        (GET, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n00\r\nt: u\r\n\r\n"),
        (GET, b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", OK),
        (b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", OK),
    ] as [(&[u8], &[u8]); 10] {
        assert_eq!(after(request, response), State::Idle, "{}", String::from_utf8_lossy(response));
    }
}

#[test]
fn a_connection_that_the_server_will_close_is_not_idle() {
    let closing = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(after(closing, OK), State::Last);
    assert_eq!(after(b"GET / HTTP/1.0\r\n\r\n", OK), State::Last);
    let close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(after(GET, close), State::Last);
    assert_eq!(
        after(GET, b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"),
        State::Last
    );
}

#[test]
fn what_is_not_complete_is_busy() {
    let mut tracker = Tracker::new();
    for piece in [
        &b"POST / HTTP/1.1\r\nContent-"[..],
        b"Length: 10\r\n",
        b"\r\n01234",
    ] {
        tracker.received(piece);
        assert_eq!(tracker.state(), State::Busy);
    }
    tracker.sent(b"HTTP/1.1 100 Continue\r\n\r\n");
    tracker.received(b"56789");
    for piece in [
        &b"HTTP/1.1 200 OK\r\nContent-Le"[..],
        b"ngth: 8\r\n\r\n0123",
    ] {
        tracker.sent(piece);
        assert_eq!(tracker.state(), State::Busy);
    }
    tracker.sent_unseen(3);
    assert_eq!(tracker.state(), State::Busy);
    tracker.sent_unseen(1);
    assert_eq!(tracker.state(), State::Idle);
    tracker.received(b"\r\n");
    assert_eq!(tracker.state(), State::Busy, "a byte of the next request");
}

#[test]
fn doubt_stays() {
    let early = b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n01";
    let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let pipelined = [GET, GET].concat();
    let double = [OK, OK].concat();
    for (request, response) in [
        (&early[..], OK),
        (chunked, OK),
        (&pipelined, OK),
        (GET, &double),
        (GET, b"HTTP/1.1 200 OK\r\n\r\nuntil the end"),
        (GET, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"),
        (
            GET,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        ),
        (
            GET,
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab",
        ),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", OK),
        (b"STARTTLS and so on\n", OK),
    ] {
        let mut tracker = Tracker::new();
        tracker.received(request);
        tracker.sent(response);
        assert_eq!(
            tracker.state(),
            State::Doubt,
            "{}",
            String::from_utf8_lossy(response)
        );
        tracker.received(GET);
        tracker.sent(OK);
        assert_eq!(tracker.state(), State::Doubt);
    }
}

#[test]
fn an_answer_to_nothing_and_a_request_during_an_answer_are_doubtful() {
    let mut tracker = Tracker::new();
    tracker.received(GET);
    tracker.sent(OK);
    tracker.sent(b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(tracker.state(), State::Doubt);

    let mut tracker = Tracker::new();
    tracker.received(GET);
    tracker.sent(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na");
    tracker.received(GET);
    tracker.sent(b"bc");
    assert_eq!(tracker.state(), State::Doubt);

    let mut tracker = Tracker::new();
    tracker.received(GET);
    tracker.sent_unseen(1);
    assert_eq!(tracker.state(), State::Doubt, "a head that was not seen");
}

#[test]
fn another_protocol_is_no_longer_followed() {
    let upgrade = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(after(GET, upgrade), State::Upgraded);
    assert_eq!(
        after(b"CONNECT a:1 HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
        State::Upgraded
    );
    assert_eq!(
        after(
            b"CONNECT a:1 HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n"
        ),
        State::Idle
    );
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let lines = prop::collection::vec("[A-Z][a-z]{0,12}: [ -~]{0,80}\r\n", 0..4);
    (lines, prop::option::of(0..300_usize)).prop_map(|(lines, body)| {
        let mut made = b"POST /x HTTP/1.1\r\n".to_vec();
        // None of the fields that matter is among them.
        for line in lines.iter().filter(|l| !l.starts_with(['C', 'T'])) {
            made.extend(line.as_bytes());
        }
        if let Some(length) = body {
            made.extend(format!("Content-Length: {length}\r\n").as_bytes());
        }
        made.extend(b"\r\n");
        made.extend(vec![b'\n'; body.unwrap_or(0)]);
        made
    })
}

fn response() -> impl Strategy<Value = Vec<u8>> {
    let whole = prop::collection::vec(any::<u8>(), 0..300).prop_map(|body| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), &body].concat()
    });
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..6);
    let chunked = chunks.prop_map(|chunks| {
        let mut made = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in chunks {
            made.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
            made.extend(chunk);
            made.extend(b"\r\n");
        }
        made.extend(b"0\r\n\r\n");
        made
    });
    prop_oneof![whole, chunked]
}

proptest! {
    #[test]
    fn an_exchange_is_idle_after_its_last_byte_and_not_before(
        exchanges in prop::collection::vec((request(), response()), 1..4),
        pieces in prop::collection::vec(1..90_usize, 1..30),
    ) {
        let mut sizes = pieces.iter().cycle();
        let mut tracker = Tracker::new();
        for (request, response) in &exchanges {
            for (bytes, is_request) in [(request, true), (response, false)] {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(sizes.next().map_or(1, |&s| s.min(rest.len())));
                    if is_request { tracker.received(now) } else { tracker.sent(now) }
                    rest = later;
                    let over = !is_request && rest.is_empty();
                    prop_assert_eq!(tracker.state(), if over { State::Idle } else { State::Busy });
                }
            }
        }
    }

    #[test]
    fn whatever_comes_nothing_breaks(turns in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..60)), 0..20)) {
        let mut tracker = Tracker::new();
        for (is_request, bytes) in turns {
            if is_request { tracker.received(&bytes) } else { tracker.sent(&bytes) }
        }
    }
}
