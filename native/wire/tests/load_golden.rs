//! The bytes of the conversation with `trimtab-native load`: a change here is a change for Python.

#[cfg(test)]
mod golden {
    use trimtab_wire::load::{Class, Control, Latency, Report, Start};

    const START: &str = concat!(
        r#"{"target":"127.0.0.1:8080","host":"localhost","populations":[{"class":"wagon","#,
        r#""arrivals":{"kind":"poisson","rate_hz":10.0},"#,
        r#""session_pages":{"kind":"lognormal","mean":8.0,"sigma":3.0},"#,
        r#""burst_requests":{"kind":"gaussian","mean":7.0,"sigma":3.0},"#,
        r#""think_s":{"kind":"exponential","mean":30.0},"#,
        r#""object_gap_s":{"kind":"constant","value":0.0},"#,
        r#""pages":[{"path":"/page.php","weight":1.0,"cpu_s":0.01}],"objects":[],"#,
        r#""connection":"until_server_closes","timeout_s":60.0,"#,
        r#""schedule":[{"at_s":870.0,"factor":2.0}],"source":"127.0.0.2"}],"#,
        r#""duration_s":600.0,"interval_s":1.0,"seed":7,"allow_remote":false}"#
    );

    const FIGURES: &str = r#"{"count":1,"mean_s":0.5,"p50_s":0.5,"p95_s":0.5,"p99_s":0.5,"max_s":0.5,"histogram":null}"#;

    const NONE: &str = r#"{"count":0,"mean_s":null,"p50_s":null,"p95_s":null,"p99_s":null,"max_s":null,"histogram":null}"#;

    fn class_bytes() -> String {
        format!(
            concat!(
                r#"{{"class":"wagon","requests":1,"pages":1,"sessions":1,"connections":1,"body_bytes":2,"#,
                r#""page_intended":{f},"page_actual":{f},"request_intended":{f},"request_actual":{f},"#,
                r#""connect":{n},"first_byte":{f},"errors":{{"http_5xx":3,"local":1}},"#,
                r#""patience_left_s":7.5,"unasked":8,"resent":4,"waited_s":1.5,"outstanding":5,"unsent":6}}"#
            ),
            f = FIGURES,
            n = NONE
        )
    }

    fn class() -> Class {
        let figures = Latency {
            count: 1,
            mean_s: Some(0.5),
            p50_s: Some(0.5),
            p95_s: Some(0.5),
            p99_s: Some(0.5),
            max_s: Some(0.5),
            histogram: None,
        };
        Class {
            class: "wagon".to_owned(),
            requests: 1,
            pages: 1,
            sessions: 1,
            connections: 1,
            body_bytes: 2,
            page_intended: figures.clone(),
            page_actual: figures.clone(),
            request_intended: figures.clone(),
            request_actual: figures.clone(),
            connect: Latency::default(),
            first_byte: figures,
            errors: [("http_5xx".to_owned(), 3), ("local".to_owned(), 1)].into(),
            patience_left_s: 7.5,
            unasked: 8,
            resent: 4,
            waited_s: 1.5,
            outstanding: 5,
            unsent: 6,
            redirected: 0,
            browsing: None,
        }
    }

    #[test]
    fn a_start_line_is_read_and_written_as_it_is() {
        let start: Start = serde_json::from_str(START).expect("start");
        assert_eq!(serde_json::to_string(&start).expect("line"), START);
    }

    #[test]
    fn permission_for_a_remote_target_may_be_left_out_and_is_then_refused() {
        let line = START.replace(r#","allow_remote":false"#, "");
        assert_ne!(line, START);
        assert!(
            !serde_json::from_str::<Start>(&line)
                .expect("start")
                .allow_remote
        );
    }

    #[test]
    fn unknown_keys_are_errors() {
        let line = START.replace(r#""seed":7"#, r#""seed":7,"sed":8"#);
        let error = serde_json::from_str::<Start>(&line)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("sed"), "{error}");
    }

    #[test]
    fn the_stop_line_is_what_it_is() {
        assert_eq!(
            serde_json::to_string(&Control::Stop {}).expect("line"),
            r#"{"type":"stop"}"#
        );
        assert_eq!(
            serde_json::from_str::<Control>(r#"{"type":"stop"}"#).expect("stop"),
            Control::Stop {}
        );
    }

    #[test]
    fn reports_are_written_as_they_are() {
        let interval = Report::Interval {
            at_s: 1.0,
            duration_s: 0.5,
            classes: vec![class()],
            active_sessions: 9,
            lateness: Latency::default(),
        };
        let expected = format!(
            r#"{{"type":"interval","at_s":1.0,"duration_s":0.5,"classes":[{}],"active_sessions":9,"lateness":{NONE}}}"#,
            class_bytes()
        );
        assert_eq!(serde_json::to_string(&interval).expect("line"), expected);
        let summary = Report::Summary {
            duration_s: 2.0,
            classes: vec![class()],
            lateness: Latency::default(),
            cpu_s: 0.25,
            stopped_early: true,
        };
        let expected = format!(
            r#"{{"type":"summary","duration_s":2.0,"classes":[{}],"lateness":{NONE},"cpu_s":0.25,"stopped_early":true}}"#,
            class_bytes()
        );
        assert_eq!(serde_json::to_string(&summary).expect("line"), expected);
        assert_eq!(
            serde_json::from_str::<Report>(&expected).expect("summary"),
            summary
        );
    }
}
