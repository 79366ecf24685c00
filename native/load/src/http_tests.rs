use proptest::prelude::*;

use super::*;

/// What came of a reply: done, status, body bytes, closes, bytes used; or why it is malformed.
type Outcome = Result<(bool, u16, u64, bool, usize), Malformed>;

fn read(pieces: &[&[u8]], ends: bool) -> Outcome {
    let mut reply = Reply::default();
    let mut used = 0;
    for piece in pieces {
        used += reply.feed(piece)?;
    }
    if ends {
        reply.end_of_stream();
    }
    Ok((
        reply.is_done(),
        reply.status(),
        reply.body_bytes(),
        reply.closes(),
        used,
    ))
}

fn whole(text: &str) -> Outcome {
    read(&[text.as_bytes()], false)
}

#[test]
fn a_length_delimited_reply_ends_with_its_body() {
    let text = "HTTP/1.1 200 OK\r\ncontent-LENGTH: 5\r\nX: y\r\n\r\nhelloHTTP/1.1";
    assert_eq!(whole(text), Ok((true, 200, 5, false, text.len() - 8)));
}

#[test]
fn a_chunked_reply_counts_its_data_only_and_ends_after_the_trailers() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
    let text = format!("{head}5;x=y\r\nhello\r\n00a\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n");
    assert_eq!(whole(&text), Ok((true, 200, 15, false, text.len())));
}

#[test]
fn a_reply_without_length_ends_with_the_connection() {
    let text = "HTTP/1.1 200 OK\r\n\r\nabc";
    assert_eq!(whole(text), Ok((false, 200, 3, true, text.len())));
    assert_eq!(
        read(&[text.as_bytes()], true),
        Ok((true, 200, 3, true, text.len()))
    );
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
    assert_eq!(
        read(&[cut.as_bytes()], true),
        Ok((false, 200, 3, false, cut.len()))
    );
}

#[test]
fn interim_replies_are_passed_over() {
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 No\r\n\r\n";
    assert_eq!(whole(text), Ok((true, 204, 0, false, text.len())));
}

#[test]
fn replies_without_body_ignore_their_length() {
    let text = "HTTP/1.1 304 Not Modified\r\nContent-Length: 10240\r\n\r\n";
    assert_eq!(whole(text), Ok((true, 304, 0, false, text.len())));
}

#[test]
fn persistence_follows_version_and_connection_header() {
    let closes = |text: &str| whole(text).map(|outcome| outcome.3);
    assert_eq!(closes("HTTP/1.1 204 No\r\n\r\n"), Ok(false));
    assert_eq!(
        closes("HTTP/1.1 204 No\r\nConnection: Upgrade, Close\r\n\r\n"),
        Ok(true)
    );
    assert_eq!(closes("HTTP/1.0 204 No\r\n\r\n"), Ok(true));
    assert_eq!(
        closes("HTTP/1.0 204 No\r\nConnection: Keep-Alive\r\n\r\n"),
        Ok(false)
    );
}

#[test]
fn what_is_not_http_is_malformed() {
    for text in [
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2 200\r\n",
        "HTTP/1.1 2x0 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    ] {
        assert!(whole(text).is_err(), "{text:?} was accepted");
    }
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(MAX_HEADER_BYTES));
    assert!(whole(&endless).is_err());
}

#[test]
fn a_reply_holds_no_buffer_between_lines() {
    let mut reply = Reply::default();
    reply.feed(b"HTTP/1.1 200 OK\r\nContent-Le").expect("valid");
    reply.feed(b"ngth: 3\r\n\r\nab").expect("valid");
    assert_eq!(reply.line.capacity(), 0);
}

fn reply_text() -> impl Strategy<Value = Vec<u8>> {
    let interim = prop::collection::vec(Just("HTTP/1.1 100 Continue\r\nX: y\r\n\r\n"), 0..3);
    let status = prop::sample::select(vec!["200 OK", "404 Not Found", "503", "204 No", "304 Not"]);
    let version = prop::sample::select(vec!["HTTP/1.1", "HTTP/1.0"]);
    let close = prop::sample::select(vec![
        "",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
    ]);
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..50).prop_map(|data| {
            [
                format!("Content-Length: {}\r\n\r\n", data.len()).into_bytes(),
                data,
            ]
            .concat()
        }),
        prop::collection::vec(prop::collection::vec(any::<u8>(), 1..20), 0..4).prop_map(|chunks| {
            let mut text = b"Transfer-Encoding: chunked\r\n\r\n".to_vec();
            for chunk in chunks {
                text.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                text.extend(chunk);
                text.extend(b"\r\n");
            }
            text.extend(b"0\r\n\r\n");
            text
        }),
        prop::collection::vec(any::<u8>(), 0..50)
            .prop_map(|data| [b"\r\n".to_vec(), data].concat()),
    ];
    (interim, version, status, close, body).prop_map(|(interim, version, status, close, body)| {
        [
            interim.concat().into_bytes(),
            format!("{version} {status}\r\n{close}").into_bytes(),
            body,
        ]
        .concat()
    })
}

/// Bytes of which a parser can make something, right or wrong.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let words = vec![
        "HTTP/1.1 200 OK",
        "HTTP/1.",
        "\r\n",
        "\n",
        "\r",
        ":",
        "Content-Length",
        " 3",
        "Transfer-Encoding: chunked",
        "0",
        "a",
        "5",
        " ",
        ";",
        "Connection: close",
        "HTTP/1.1 100 C\r\n\r\n",
    ];
    prop::collection::vec(prop::sample::select(words), 0..20)
        .prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_outcome(
        text in prop_oneof![reply_text(), noise()],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ends in any::<bool>(),
    ) {
        let mut edges: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        edges.extend([0, text.len()]);
        edges.sort_unstable();
        let pieces: Vec<&[u8]> = edges.windows(2).map(|edge| &text[edge[0]..edge[1]]).collect();
        prop_assert_eq!(read(&pieces, ends), read(&[&text], ends));
    }

    #[test]
    fn a_valid_reply_is_read_to_its_end(text in reply_text()) {
        let outcome = read(&[&text], true);
        prop_assert!(matches!(outcome, Ok((true, ..))), "{:?}", outcome);
    }
}
