//! `trimtab-native gate` between clients and a server that speaks the hand-off protocol.

#[cfg(test)]
mod bench;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod listeners;
#[cfg(test)]
mod pending_handshakes;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod service;
