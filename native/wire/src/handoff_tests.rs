use std::io::Read;
use std::os::fd::AsFd;

use proptest::prelude::*;
use rustix::net::{socketpair, AddressFamily, SocketFlags, SocketType};

use super::*;

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .expect("pair")
}

#[test]
fn messages_have_golden_bytes() {
    let hello = Hello {
        token: [9; 16],
        pid: 0x0102_0304,
        role: Role::Listener,
        port: 8080,
        generation: 5,
    };
    let mut golden = vec![
        1, 0x76, 0, 0, 1, 0, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0, 0x90, 0x1f, 0, 0,
    ];
    golden.extend([9; 16]);
    assert_eq!(hello.encode().as_slice(), golden);
    assert_eq!(
        Welcome { generation: 3 }.encode(),
        [2, 0x76, 0, 0, 3, 0, 0, 0]
    );
    let reclaim = Reclaim {
        slot: 6,
        sequence: 7,
    };
    assert_eq!(
        reclaim.encode(),
        [4, 0x76, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
    );
    let dispatch = Dispatch {
        slot: 1,
        class: 2,
        sequence: 4,
        arrival_ns: 5,
        peer: [8; 28],
        peer_len: 16,
    };
    let mut golden = vec![3, 0x76, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 16, 0, 0, 0];
    golden.extend([4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([8; 28]);
    assert_eq!(dispatch.encode().as_slice(), golden);
}

#[test]
fn the_name_of_the_socket_follows_from_the_token_and_does_not_show_it() {
    let one = name([1; 16]);
    assert_eq!(one, name([1; 16]));
    assert_ne!(one, name([2; 16]));
    assert_eq!(one.len(), "handoff-".len() + 16);
    assert!(!one.contains("0101"), "{one}");
}

#[test]
fn what_is_sent_is_received_with_its_descriptor() {
    let (gate, worker) = pair();
    let (read, write) = std::io::pipe().expect("pipe");
    let sent = Dispatch {
        slot: 1,
        class: 2,
        sequence: 3,
        arrival_ns: 4,
        peer: [5; 28],
        peer_len: 28,
    };
    send(
        gate.as_fd(),
        &sent.encode(),
        Some(write.as_fd()),
        SendFlags::empty(),
    )
    .expect("sent");
    drop(write);
    send(
        gate.as_fd(),
        &Reclaim {
            slot: 1,
            sequence: 2,
        }
        .encode(),
        None,
        SendFlags::empty(),
    )
    .expect("sent");
    drop(gate);

    let mut bytes = [0; LONGEST];
    let (len, passed) =
        receive(worker.as_fd(), &mut bytes, RecvFlags::CMSG_CLOEXEC).expect("received");
    assert_eq!(Dispatch::decode(&bytes[..len]), Some(sent));
    let passed = passed.expect("a descriptor");
    assert!(rustix::io::fcntl_getfd(&passed)
        .expect("flags")
        .contains(rustix::io::FdFlags::CLOEXEC));
    rustix::io::write(&passed, b"hello").expect("written");
    drop(passed);
    let mut text = String::new();
    (&read).read_to_string(&mut text).expect("read");
    assert_eq!(
        text, "hello",
        "the pipe's only writer was the descriptor that was passed"
    );

    let (len, passed) = receive(worker.as_fd(), &mut bytes, RecvFlags::empty()).expect("received");
    assert_eq!(
        Reclaim::decode(&bytes[..len]),
        Some(Reclaim {
            slot: 1,
            sequence: 2
        })
    );
    assert!(passed.is_none());
    assert_eq!(
        receive(worker.as_fd(), &mut bytes, RecvFlags::empty())
            .expect("end")
            .0,
        0
    );
}

#[test]
fn a_message_to_nobody_is_an_error_and_no_signal() {
    let (gate, worker) = pair();
    drop(worker);
    assert!(send(gate.as_fd(), &[1], None, SendFlags::DONTWAIT).is_err());
}

proptest! {
    #[test]
    fn every_message_reads_back(token: [u8; 16], pid: u32, port: u16, generation: u32, worker: bool, peer_len in 0..=28_u32,
        slot: u32, class: u32, sequence: u64, arrival_ns: u64, peer in proptest::array::uniform28(any::<u8>())) {
        let role = if worker { Role::Worker } else { Role::Listener };
        let hello = Hello { token, pid, role, port, generation };
        prop_assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        let dispatch = Dispatch { slot, class, sequence, arrival_ns, peer, peer_len };
        prop_assert_eq!(Dispatch::decode(&dispatch.encode()), Some(dispatch));
        let reclaim = Reclaim { slot, sequence };
        prop_assert_eq!(Reclaim::decode(&reclaim.encode()), Some(reclaim));
        let welcome = Welcome { generation };
        prop_assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
    }

    #[test]
    fn noise_is_no_message(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let kind = bytes.get(..4).map(|k| u32::from_le_bytes(k.try_into().expect("four")));
        if !(kind.is_some_and(|k| (0x7401..=0x7404).contains(&k))) {
            prop_assert_eq!(Hello::decode(&bytes), None);
            prop_assert_eq!(Welcome::decode(&bytes), None);
            prop_assert_eq!(Dispatch::decode(&bytes), None);
            prop_assert_eq!(Reclaim::decode(&bytes), None);
        }
    }

    #[test]
    fn a_cut_or_longer_message_is_none(cut in 0..Dispatch::LEN) {
        let dispatch = Dispatch { slot: 1, class: 2, sequence: 3, arrival_ns: 4, peer: [5; 28], peer_len: 29 };
        prop_assert_eq!(Dispatch::decode(&dispatch.encode()), None);
        let dispatch = Dispatch { peer_len: 28, ..dispatch };
        prop_assert_eq!(Dispatch::decode(&dispatch.encode()[..cut]), None);
        let longer: Vec<u8> = dispatch.encode().into_iter().chain([0]).collect();
        prop_assert_eq!(Dispatch::decode(&longer), None);
    }
}
