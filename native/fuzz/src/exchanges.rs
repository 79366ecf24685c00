//! What clients and servers say to each other, as the shim and the load generator follow it.

use crate::follower::{may_be_http, Follower};
use crate::http::Reply;
use crate::http1::{State, Tracker};
use crate::page::{local_path, read};
use crate::pieces::Pieces;
use crate::tls::Records;

/// A turn: bytes that the server reads, or that it writes.
struct Turn<'a> {
    read: bool,
    bytes: &'a [u8],
    unseen: u64,
}

/// Turns are separated by bytes that HTTP does not have.
fn turns(bytes: &[u8]) -> impl Iterator<Item = Turn<'_>> {
    let mut pieces = Pieces(bytes);
    std::iter::from_fn(move || {
        let how = pieces.byte()?;
        let end = pieces.0.iter().position(|&byte| byte >= 0xf0);
        let bytes = pieces.take(end.unwrap_or(pieces.0.len()));
        Some(Turn {
            read: how & 1 != 0,
            bytes,
            unseen: if how & 2 != 0 { u64::from(how) } else { 0 },
        })
    })
}

/// What is known of a connection does not depend on how its bytes are cut, but that pieces may be too short to tell, and doubt is
/// for ever.
pub fn http1(bytes: &[u8]) {
    let (mut whole, mut cut) = (Tracker::new(), Tracker::new());
    for turn in turns(bytes) {
        let before = whole.state();
        if turn.read {
            whole.received(turn.bytes);
            turn.bytes.iter().for_each(|byte| cut.received(&[*byte]));
        } else {
            whole.sent(turn.bytes);
            turn.bytes.iter().for_each(|byte| cut.sent(&[*byte]));
            whole.sent_unseen(turn.unseen);
            cut.sent_unseen(turn.unseen);
        }
        assert!(before != State::Doubt || whole.state() == State::Doubt);
        assert!(
            cut.state() == State::Doubt || whole.state() == cut.state(),
            "{:?} in turns, {:?} in bytes",
            whole.state(),
            cut.state()
        );
    }
    if let Some(&first) = bytes.first().filter(|&&first| may_be_http(first)) {
        let mut follower = Follower::of(first);
        follower.received(bytes);
        follower.sent([bytes].into_iter());
    }
}

/// What records there are does not depend on how their bytes are cut, and what is no TLS stays none.
pub fn tls(bytes: &[u8]) {
    let (mut whole, mut cut) = (Records::new(), Records::new());
    let seen = whole.feed(bytes);
    let mut all = crate::tls::Seen::default();
    for byte in bytes {
        let one = cut.feed(&[*byte]);
        all.data |= one.data;
        all.alert |= one.alert;
        all.foreign |= one.foreign;
        if one.foreign {
            break;
        }
    }
    assert_eq!(seen.foreign, all.foreign);
    if !seen.foreign {
        assert_eq!(seen, all);
    }
    let mut follower = Follower::of(22);
    follower.received(bytes);
    follower.sent([bytes, bytes].into_iter());
    follower.sent_unseen(bytes.len() as u64);
}

/// A reply is the same however it is cut, and has no more bytes than came.
pub fn reply(bytes: &[u8]) {
    let (mut whole, mut cut) = (Reply::default(), Reply::default());
    let taken = whole.feed(bytes);
    let mut taken_cut = Ok(0);
    for byte in bytes {
        match (cut.feed(&[*byte]), &mut taken_cut) {
            (Ok(one), Ok(sum)) => *sum += one,
            (Err(error), _) => {
                taken_cut = Err(error);
                break;
            }
            _ => {}
        }
    }
    assert_eq!(taken.is_err(), taken_cut.is_err());
    if let (Ok(taken), Ok(taken_cut)) = (taken, taken_cut) {
        assert!(taken <= bytes.len() && whole.body_bytes() <= bytes.len() as u64);
        assert_eq!(taken, taken_cut);
        assert_eq!(whole.is_done(), cut.is_done());
        assert_eq!(whole.status(), cut.status());
        assert_eq!(whole.body_bytes(), cut.body_bytes());
        assert_eq!(whole.closes(), cut.closes());
        assert_eq!(whole.end_of_stream(), cut.end_of_stream());
    }
}

/// A page gives no more than it has, and nothing that it names makes a request of two lines.
pub fn page(bytes: &[u8]) {
    let markers = ["data-page".to_owned(), "data-item".to_owned()];
    let found = read(bytes, &markers);
    let taken: usize = found.marked.iter().flatten().map(|value| value.len()).sum();
    assert!(taken <= bytes.len());
    for link in &found.images {
        assert!(link.len() <= bytes.len());
        if let Some(path) = local_path(link, "/shop/home?x", "test") {
            assert!(path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic()));
        }
    }
    let (mut plain, mut keeping) = (Reply::default(), Reply::keeping(true));
    assert_eq!(plain.feed(bytes).ok(), keeping.feed(bytes).ok());
    assert_eq!(
        (plain.status(), plain.body_bytes()),
        (keeping.status(), keeping.body_bytes())
    );
    assert!(keeping.into_kept().body.len() as u64 <= plain.body_bytes());
}
