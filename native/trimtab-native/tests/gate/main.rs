//! `trimtab-native gate` between clients and a server that speaks the hand-off protocol.

#[cfg(test)]
mod bench;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod service;
#[cfg(test)]
mod speech;
#[cfg(test)]
mod strangers;
