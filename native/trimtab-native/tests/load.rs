//! The program from outside: what `trimtab-native load` does with its input, its signals and its exit code.

#[cfg(test)]
mod load {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::process::{Child, ChildStdin, Command, Stdio};

    const LONG_S: &str = "600";
    /// The three users wait for the server that never answers.
    const WAITING: &str = r#""outstanding":3,"unsent":0"#;

    /// An order for a server that never answers.
    fn order(target: &str, duration_s: &str) -> String {
        let constant = |value: &str| format!(r#"{{"kind":"constant","value":{value}}}"#);
        format!(
            concat!(
                r#"{{"target":"{target}","host":"localhost","populations":[{{"class":"a","#,
                r#""arrivals":{{"kind":"closed","users":3}},"session_pages":{one},"burst_requests":{one},"#,
                r#""think_s":{zero},"object_gap_s":{zero},"pages":[{{"path":"/","weight":1}}],"objects":[],"#,
                r#""connection":"per_page","timeout_s":60,"schedule":[],"source":"127.0.0.9"}}],"#,
                r#""duration_s":{duration_s},"interval_s":0.05,"seed":1}}"#,
                "\n"
            ),
            target = target,
            one = constant("1"),
            zero = constant("0"),
            duration_s = duration_s,
        )
    }

    fn program() -> Child {
        Command::new(env!("CARGO_BIN_EXE_trimtab-native"))
            .arg("load")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("program")
    }

    /// Starts a long run, does something to it once it reports that all users wait; its last line.
    fn interrupted(interrupt: impl FnOnce(&Child, ChildStdin) -> Option<ChildStdin>) -> String {
        let silent = TcpListener::bind("127.0.0.1:0").expect("listen");
        let target = silent.local_addr().expect("address").to_string();
        let mut child = program();
        let mut input = child.stdin.take().expect("input");
        input
            .write_all(order(&target, LONG_S).as_bytes())
            .expect("order");
        let mut lines = BufReader::new(child.stdout.take().expect("output")).lines();
        let begun = lines
            .by_ref()
            .map(|line| line.expect("line"))
            .find(|line| line.contains(WAITING))
            .expect("interval");
        assert!(begun.starts_with(r#"{"type":"interval""#), "{begun}");
        let held = interrupt(&child, input);
        let last = lines
            .map(|line| line.expect("line"))
            .last()
            .expect("summary");
        assert!(child.wait().expect("exit").success());
        drop(held);
        last
    }

    fn assert_summary_of_an_early_stop(line: &str) {
        assert!(line.starts_with(r#"{"type":"summary""#), "{line}");
        assert!(line.ends_with(r#""stopped_early":true}"#), "{line}");
        assert!(line.contains(WAITING), "{line}");
    }

    fn refusal(line: &str) -> String {
        let mut child = program();
        child
            .stdin
            .take()
            .expect("input")
            .write_all(line.as_bytes())
            .expect("order");
        let mut said = String::new();
        child
            .stderr
            .take()
            .expect("errors")
            .read_to_string(&mut said)
            .expect("text");
        assert_eq!(child.wait().expect("exit").code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    #[test]
    fn the_end_of_the_input_ends_the_run_with_a_summary() {
        assert_summary_of_an_early_stop(&interrupted(|_, input| {
            drop(input);
            None
        }));
    }

    #[test]
    fn a_stop_line_ends_the_run_with_a_summary() {
        assert_summary_of_an_early_stop(&interrupted(|_, mut input| {
            input.write_all(b"{\"type\":\"stop\"}\n").expect("stop");
            Some(input)
        }));
    }

    #[test]
    fn a_signal_ends_the_run_with_a_summary() {
        for signal in ["TERM", "INT"] {
            assert_summary_of_an_early_stop(&interrupted(|child, input| {
                let sent = Command::new("kill")
                    .args(["-s", signal, &child.id().to_string()])
                    .status();
                assert!(sent.expect("kill").success());
                Some(input)
            }));
        }
    }

    #[test]
    fn what_is_wrong_with_an_order_is_said_in_one_line_with_exit_code_2() {
        assert!(refusal("").contains("no start line"));
        assert!(refusal("{}\n").contains("target"));
        assert!(refusal(&order("127.0.0.1:80", "0")).contains("duration_s is 0"));
        assert!(
            refusal(&order("192.0.2.1:80", "1")).contains("192.0.2.1:80 is outside this machine")
        );
        let unknown = order("127.0.0.1:80", "1").replace(r#""seed""#, r#""sed""#);
        assert!(refusal(&unknown).contains("sed"));
    }
}
