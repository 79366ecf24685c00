//! How many connections that have not said enough yet come from each source, and which of them is the oldest.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// Connections by where they come from.
#[derive(Debug, Default)]
pub struct Sources {
    /// Source, time of arrival, descriptor: those of one source lie together, oldest first.
    all: BTreeSet<(IpAddr, u64, u32)>,
    counts: HashMap<IpAddr, usize>,
}

impl Sources {
    /// A connection waits for its request.
    pub fn add(&mut self, client: IpAddr, since_ns: u64, number: u32) {
        let source = source(client);
        if self.all.insert((source, since_ns, number)) {
            *self.counts.entry(source).or_default() += 1;
        }
    }

    /// A connection waits no more.
    pub fn remove(&mut self, client: IpAddr, since_ns: u64, number: u32) {
        let source = source(client);
        if self.all.remove(&(source, since_ns, number)) {
            let left = self.counts.get(&source).map_or(0, |count| count - 1);
            if left == 0 {
                self.counts.remove(&source);
            } else {
                self.counts.insert(source, left);
            }
        }
    }

    /// The oldest connection of a client's source, when that has more than so many.
    pub fn oldest_beyond(&self, client: IpAddr, most: usize) -> Option<u32> {
        let source = source(client);
        if self.counts.get(&source).is_none_or(|&count| count <= most) {
            return None;
        }
        let mut of_source = self.all.range((source, 0, 0)..);
        of_source.next().map(|&(_, _, number)| number)
    }
}

/// Addresses that one host can choose from count as one: an IPv4 address, or the upper 64 bits of an IPv6 address.
fn source(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[test]
    fn a_host_with_many_ipv6_addresses_is_one_source() {
        let mut sources = Sources::default();
        sources.add("2001:db8::1".parse().unwrap(), 5, 1);
        sources.add("2001:db8::2".parse().unwrap(), 4, 2);
        let asked = "2001:db8::ffff".parse().unwrap();
        assert_eq!(sources.oldest_beyond(asked, 1), Some(2));
        assert_eq!(
            sources.oldest_beyond("2001:db8:0:1::1".parse().unwrap(), 0),
            None
        );
        assert_eq!(sources.oldest_beyond(asked, 2), None);
    }

    proptest! {
        #[test]
        fn the_oldest_of_a_source_is_named_beyond_the_bound(
            steps in proptest::collection::vec((0u8..4, 0u64..50), 0..100),
            most in 0usize..6,
        ) {
            let mut sources = Sources::default();
            let mut model: Vec<(u8, u64, u32)> = Vec::new();
            for (number, (last, since_ns)) in steps.into_iter().enumerate() {
                if since_ns % 3 == 0 && !model.is_empty() {
                    let (last, since_ns, number) = model.remove(0);
                    sources.remove(address(last), since_ns, number);
                } else {
                    model.push((last, since_ns, number as u32));
                    sources.add(address(last), since_ns, number as u32);
                }
                for last in 0..4 {
                    let of_source = || model.iter().filter(|&&(of, ..)| of == last);
                    let oldest = of_source().map(|&(_, since_ns, number)| (since_ns, number)).min();
                    let expected = oldest.filter(|_| of_source().count() > most).map(|(_, number)| number);
                    prop_assert_eq!(sources.oldest_beyond(address(last), most), expected);
                }
            }
            prop_assert_eq!(sources.counts.values().sum::<usize>(), model.len());
        }
    }
}
