//! Which class a connection belongs to by where it comes from and goes to alone; the gate and the shim ask alike.

// The shim carries this into the server, which a panic would end.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::BadInput;

/// Words of a rule in the mapped file.
pub const WORDS: usize = 8;

const HAS_SOURCE: u64 = 1;
const HAS_ADDRESS: u64 = 2;
const HAS_PORT: u64 = 4;
const SOURCE_IS_V6: u64 = 8;
const ADDRESS_IS_V6: u64 = 16;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    v6: bool,
    bits: u128,
    mask: u128,
}

/// The ends of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// Address of the client.
    pub source: IpAddr,
    /// Address and port of the server.
    pub local: SocketAddr,
}

/// What a rule asks of the ends; what is None is not asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndsRule {
    /// The client is in it.
    pub source: Option<Network>,
    /// The server's address.
    pub local_address: Option<IpAddr>,
    /// The server's port.
    pub local_port: Option<u16>,
}

impl Network {
    /// Reads `127.0.1.0/24`, `::1/128`, or one address.
    ///
    /// # Errors
    /// The text is no network, or has bits set beyond its prefix.
    pub fn parse(text: &str) -> Result<Self, BadInput> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| BadInput(format!("{text:?} is not an address or address/prefix")))?;
        let (v6, bits) = bits_of(address);
        let width = if v6 { 128 } else { 32 };
        let length: u32 = match prefix {
            None => width,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|&length| length <= width)
                .ok_or_else(|| {
                    BadInput(format!(
                        "{text:?}: the prefix is not a number of 0 to {width}"
                    ))
                })?,
        };
        let mask = u128::MAX.checked_shl(width - length).unwrap_or(0);
        if bits & !mask != 0 {
            return Err(BadInput(format!("{text:?} has bits set beyond its prefix")));
        }
        Ok(Self { v6, bits, mask })
    }

    /// The address is in it; an IPv4 address mapped into IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (v6, bits) = bits_of(address.to_canonical());
        v6 == self.v6 && (bits ^ self.bits) & self.mask == 0
    }
}

impl EndsRule {
    /// The connection has all that is asked for.
    #[must_use]
    pub fn holds(&self, ends: &Ends) -> bool {
        let local = ends.local.ip().to_canonical();
        self.source
            .is_none_or(|network| network.contains(ends.source))
            && self.local_port.is_none_or(|port| port == ends.local.port())
            && self.local_address.is_none_or(|address| address == local)
    }

    /// As it lies in the mapped file, with the class that it leads into.
    #[must_use]
    pub fn words(&self, class: u32) -> [u64; WORDS] {
        let mut flags = 0;
        let (mut bits, mut mask, mut address) = (0, 0, 0);
        if let Some(source) = self.source {
            flags |= HAS_SOURCE | if source.v6 { SOURCE_IS_V6 } else { 0 };
            (bits, mask) = (source.bits, source.mask);
        }
        if let Some(local) = self.local_address {
            let (v6, local) = bits_of(local);
            flags |= HAS_ADDRESS | if v6 { ADDRESS_IS_V6 } else { 0 };
            address = local;
        }
        if self.local_port.is_some() {
            flags |= HAS_PORT;
        }
        let port = u64::from(self.local_port.unwrap_or(0));
        let first = u64::from(class) << 32 | port << 16 | flags;
        let [b, m, a] = [bits, mask, address].map(halves);
        [first, b[0], b[1], m[0], m[1], a[0], a[1], 0]
    }

    /// From the mapped file: the rule, and the class that it leads into.
    #[must_use]
    pub fn from_words(words: [u64; WORDS]) -> (Self, u32) {
        let [first, b0, b1, m0, m1, a0, a1, _] = words;
        let has = |flag| first & flag != 0;
        let address = whole([a0, a1]);
        let rule = Self {
            source: has(HAS_SOURCE).then(|| Network {
                v6: has(SOURCE_IS_V6),
                bits: whole([b0, b1]),
                mask: whole([m0, m1]),
            }),
            local_address: has(HAS_ADDRESS).then(|| match has(ADDRESS_IS_V6) {
                true => IpAddr::V6(Ipv6Addr::from_bits(address)),
                false => IpAddr::V4(Ipv4Addr::from_bits(address as u32)),
            }),
            local_port: has(HAS_PORT).then_some((first >> 16) as u16),
        };
        (rule, (first >> 32) as u32)
    }
}

fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

fn whole([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

fn bits_of(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (false, u128::from(address.to_bits())),
        IpAddr::V6(address) => (true, address.to_bits()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(network: &str, address: &str) -> bool {
        Network::parse(network)
            .unwrap()
            .contains(address.parse().unwrap())
    }

    #[test]
    fn an_address_is_in_a_network_when_its_first_bits_are_the_same() {
        assert!(holds("127.0.1.0/24", "127.0.1.255"));
        assert!(!holds("127.0.1.0/24", "127.0.2.0"));
        assert!(holds("0.0.0.0/0", "203.0.113.7"));
        assert!(holds("10.1.2.3", "10.1.2.3"));
        assert!(!holds("10.1.2.3", "10.1.2.2"));
        assert!(holds("2001:db8::/33", "2001:db8:7fff::1"));
        assert!(!holds("2001:db8::/33", "2001:db8:8000::1"));
    }

    #[test]
    fn an_ipv4_client_of_an_ipv6_listener_is_an_ipv4_client() {
        assert!(holds("127.0.0.0/8", "::ffff:127.0.0.1"));
        assert!(!holds("::/0", "::ffff:127.0.0.1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in [
            "",
            "127.0.0.1/33",
            "127.0.0.1/24",
            "::/129",
            "a/8",
            "1.2.3.4/x",
            "1.2.3.4/",
        ] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rule_comes_out_of_the_mapped_file_as_it_went_in() {
        let address = |text: &str| Some(text.parse().unwrap());
        for rule in [
            EndsRule::default(),
            EndsRule {
                source: Some(Network::parse("127.0.1.0/24").unwrap()),
                ..EndsRule::default()
            },
            EndsRule {
                source: Some(Network::parse("2001:db8::/33").unwrap()),
                local_address: address("127.0.0.1"),
                local_port: Some(65_535),
            },
            EndsRule {
                local_address: address("2001:db8::7"),
                local_port: Some(0),
                ..EndsRule::default()
            },
        ] {
            assert_eq!(EndsRule::from_words(rule.words(63)), (rule, 63));
        }
    }
}
