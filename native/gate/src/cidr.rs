//! Networks of client addresses.

use std::net::IpAddr;

/// All addresses that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    v6: bool,
    bits: u128,
    mask: u128,
}

impl Network {
    /// Reads `127.0.1.0/24`, `::1/128`, or one address.
    ///
    /// # Errors
    /// The text is no network, or has bits set beyond its prefix: what is wrong, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("{text:?} is not an address or address/prefix"))?;
        let (v6, bits) = bits_of(address);
        let width = if v6 { 128 } else { 32 };
        let length: u32 = match prefix {
            None => width,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|&length| length <= width)
                .ok_or_else(|| format!("{text:?}: the prefix is not a number of 0 to {width}"))?,
        };
        let mask = u128::MAX.checked_shl(width - length).unwrap_or(0);
        if bits & !mask != 0 {
            return Err(format!("{text:?} has bits set beyond its prefix"));
        }
        Ok(Self { v6, bits, mask })
    }

    /// The address is in it; an IPv4 address mapped into IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (v6, bits) = bits_of(address.to_canonical());
        v6 == self.v6 && (bits ^ self.bits) & self.mask == 0
    }
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
}
