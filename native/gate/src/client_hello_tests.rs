use super::*;
use proptest::prelude::*;

/// A ClientHello with an extension before the name, in records of at most `record` bytes.
fn hello(host: Option<&str>, record: usize) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([2, 9, 9]);
    body.extend([0, 4, 0x13, 1, 0x13, 2]);
    body.extend([1, 0]);
    let mut extensions = vec![0, 43, 0, 3, 2, 3, 4];
    if let Some(host) = host {
        let length = host.len() as u8;
        extensions.extend([0, 0, 0, length + 5, 0, length + 3, 0, 0, length]);
        extensions.extend(host.as_bytes());
    }
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut message = vec![1, 0];
    message.extend((body.len() as u16).to_be_bytes());
    message.extend(body);
    let mut bytes = Vec::new();
    for part in message.chunks(record) {
        bytes.extend([22, 3, 1]);
        bytes.extend((part.len() as u16).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

#[test]
fn the_name_is_found_in_one_record_and_in_many() {
    for record in [1, 7, 50, 4096] {
        let bytes = hello(Some("shop.example"), record);
        assert_eq!(
            read(&bytes),
            Hello::Name(b"shop.example".to_vec()),
            "{record}"
        );
    }
}

#[test]
fn every_shorter_piece_asks_for_more() {
    let bytes = hello(Some("shop.example"), 60);
    for end in 0..bytes.len() {
        assert_eq!(read(&bytes[..end]), Hello::More, "{end}");
    }
}

#[test]
fn a_name_that_was_told_stays_when_what_follows_is_no_record() {
    let mut bytes = hello(Some("shop"), 4096);
    // The message says that it is longer, so it goes on in another record.
    bytes[8] += 1;
    let name = Hello::Name(b"shop".to_vec());
    assert_eq!(read(&bytes), name);
    for more in [&[0x8b_u8][..], &[22, 3, 1, 0, 0], &[22, 3, 1, 255, 255]] {
        assert_eq!(read(&[&bytes, more].concat()), name);
    }
}

#[test]
fn a_hello_without_a_name_and_other_protocols_have_none() {
    assert_eq!(read(&hello(None, 4096)), Hello::Nothing);
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        &[22, 2],
        &[22, 3, 1, 0, 0],
        &[0x80],
    ] {
        assert_eq!(read(bytes), Hello::Nothing, "{bytes:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_whatever_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let _ = read(&bytes);
    }

    #[test]
    fn a_damaged_hello_breaks_nothing(
        record in 1usize..200, at in 0usize..90, byte: u8, end in 0usize..400,
    ) {
        let mut bytes = hello(Some("shop.example"), record);
        let at = at.min(bytes.len() - 1);
        bytes[at] = byte;
        let end = end.min(bytes.len());
        let _ = read(&bytes[..end]);
    }
}
