//! What the gate hears on its sockets: nonsense, too much, too slowly.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use proptest::prelude::*;
use serde_json::json;

use crate::bench::{two_classes, Bench};

#[test]
fn nonsense_on_the_control_socket_is_refused_in_one_line_each_and_the_conversation_goes_on() {
    let bench = Bench::start("nonsense", two_classes());
    let mut control = bench.control();
    for line in [
        &b"\n"[..],
        b"{\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"{\"type\":\"read\",\"x\":1}\n",
        b"{\"type\":\"apply\",\"changes\":{\"process_budget@rest\":1e99}}\n",
        b"{\"type\":\"lease\",\"timeout_s\":-1}\n",
    ] {
        control.say(line);
        let answer = control.hear();
        assert_eq!(
            answer["type"],
            "refused",
            "{:?}",
            String::from_utf8_lossy(line)
        );
    }
    assert_eq!(control.ask(&json!({"type": "read"}))["type"], "readings");
}

/// Pieces that orders are made of, so that random ones are often nearly right.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"{\"type\":".to_vec()),
        Just(b"\"apply\",\"changes\":{\"process_budget@rest\":".to_vec()),
        Just(b"\"read\"}".to_vec()),
        Just(b"\"lease\",\"timeout_s\":1e308".to_vec()),
        Just(b"}\n".to_vec()),
        Just(b"99999999999999999999".to_vec()),
        Just(b"\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

#[test]
fn whatever_is_said_on_the_control_socket_the_gate_answers_the_next_who_asks() {
    let bench = Bench::start("whatever", two_classes());
    let pid = bench.gate_pid();
    let says = proptest::collection::vec(piece(), 0..30);
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&says, |pieces| {
        bench.control().say(&pieces.concat());
        let answer = bench.control().ask(&json!({"type": "read"}));
        prop_assert_eq!(&answer["type"], "readings");
        prop_assert_eq!(bench.gate_pid(), pid);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn a_line_without_an_end_and_answers_that_nobody_reads_do_not_disturb_others() {
    let bench = Bench::start("endless", two_classes());
    let mut endless = bench.control();
    endless.say(&vec![b'x'; 100 * 1024]);
    assert_eq!(endless.hear()["type"], "refused");
    let mut greedy = bench.control().into_stream();
    greedy.set_nonblocking(true).unwrap();
    let orders = b"{\"type\":\"read\"}\n".repeat(1000);
    for _ in 0..200 {
        if greedy.write(&orders).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    assert_eq!(
        bench.control().ask(&json!({"type": "read"}))["type"],
        "readings"
    );
}

#[test]
fn many_silent_conversations_leave_room_for_one_that_speaks() {
    let bench = Bench::start("silent", two_classes());
    let _silent: Vec<_> = (0..100).map(|_| bench.control()).collect();
    assert_eq!(
        bench.control().ask(&json!({"type": "read"}))["type"],
        "readings"
    );
}

#[test]
fn prometheus_gets_its_page_beside_clients_that_say_nothing_or_nonsense() {
    // Below those that the kernel gives to others, and not where another run of this test looks: none of them has it
    // before the gate does.
    let mut ports = 10_000 + (std::process::id() % 20_000) as u16..32_000;
    let free = ports.find_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let free = free.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut start = two_classes();
    start["metrics"] = json!(address);
    let bench = Bench::start("metrics", start);
    let _silent: Vec<_> = (0..40)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let ask = |request: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    };
    assert!(ask(&[b'x'; 9000]).starts_with("HTTP/1.1 431 "));
    assert!(ask(b"\xff\n\n").starts_with("HTTP/1.1 400 "));
    assert!(ask(b"GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    let page = ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        page.contains("trimtab_gate_arrivals_total{class=\"first\"} 0\n"),
        "{page}"
    );
    drop(bench);
}

#[test]
fn a_wrong_start_line_ends_with_2_and_does_nothing() {
    let mut start = two_classes();
    start["limit"] = json!(0);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_trimtab-native"))
        .arg("gate")
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    writeln!(child.stdin.take().unwrap(), "{start}").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2));
}
