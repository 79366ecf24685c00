//! Fixed structs that pass between gate and shim.

use std::net::{IpAddr, SocketAddr};

use trimtab_wire::ends::{Ends, EndsRule, WORDS};
use trimtab_wire::handoff::{Dispatch, Hello, Reclaim, Welcome};

use crate::pieces::Pieces;

/// What is taken for a message says what its bytes say.
pub fn handoff(bytes: &[u8]) {
    let again = |encoded: &[u8], what: &str| {
        assert_eq!(encoded, bytes, "{what} is not what it was read from");
    };
    if let Some(message) = Hello::decode(bytes) {
        again(&message.encode(), "hello");
    }
    if let Some(message) = Welcome::decode(bytes) {
        again(&message.encode(), "welcome");
    }
    if let Some(message) = Dispatch::decode(bytes) {
        assert!(message.peer_len as usize <= message.peer.len());
        again(&message.encode(), "dispatch");
    }
    if let Some(message) = Reclaim::decode(bytes) {
        again(&message.encode(), "reclaim");
    }
}

/// A rule out of whatever words stand in the mapped file can be asked.
pub fn rules(bytes: &[u8]) {
    let mut pieces = Pieces(bytes);
    let words: [u64; WORDS] = std::array::from_fn(|_| {
        let mut eight = [0; 8];
        let taken = pieces.take(8);
        for (to, from) in eight.iter_mut().zip(taken) {
            *to = *from;
        }
        u64::from_le_bytes(eight)
    });
    let (rule, class) = EndsRule::from_words(words);
    let (same, same_class) = EndsRule::from_words(rule.words(class));
    let addresses: [IpAddr; 3] = [
        [127, 0, 0, 1].into(),
        [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
        [0, 0, 0, 0, 0, 0xffff, 0x7f00, 1].into(),
    ];
    for source in addresses {
        let ends = Ends {
            source,
            local: SocketAddr::from((source, 80)),
        };
        assert_eq!(rule.holds(&ends), same.holds(&ends));
    }
    assert_eq!(class, same_class);
}
