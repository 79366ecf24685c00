//! The bytes of the conversation with `trimtab-native gate`: a change here is a change for Python.

#[cfg(test)]
mod golden {
    use serde::de::DeserializeOwned;
    use serde::Serialize;
    use trimtab_wire::gate::{
        Answer, Class, ClassReadings, Full, Mode, Order, Policy, Rule, Start, User,
    };

    const START: &str = concat!(
        r#"{"directory":"/run/trimtab/default","limit":128,"classes":["#,
        r#"{"name":"premium","rules":[{"source":"127.0.1.0/24"},{"local":":8080","host":"shop","path_prefix":"/buy","#,
        r#""cookie":"gold=1","header":"X-Tier: 1","server_name":"shop.example"}],"#,
        r#""budget":64,"minimum":1,"queue_limit":10000,"full":"refuse_newest"},"#,
        r#"{"name":"basic","rules":[],"budget":64,"minimum":1,"queue_limit":100,"full":"refuse_oldest"}],"#,
        r#""policy":"non_preemptive","borrow":false,"peek_bytes":8192,"peek_timeout_s":5.0,"#,
        r#""metrics":"127.0.0.1:9117","controller_timeout_s":90.0,"user":{"uid":61200,"gid":61201}}"#
    );

    fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, line: &str) {
        assert_eq!(serde_json::to_string(value).expect("line"), line);
        assert_eq!(&serde_json::from_str::<T>(line).expect("value"), value);
    }

    fn start() -> Start {
        let class = |name: &str, rules: Vec<Rule>, queue_limit, full| Class {
            name: name.to_owned(),
            rules,
            budget: 64,
            minimum: 1,
            queue_limit,
            full,
        };
        let text = |value: &str| Some(value.to_owned());
        let source = Rule {
            source: text("127.0.1.0/24"),
            ..Rule::default()
        };
        let others = Rule {
            source: None,
            local: text(":8080"),
            host: text("shop"),
            path_prefix: text("/buy"),
            cookie: text("gold=1"),
            header: text("X-Tier: 1"),
            server_name: text("shop.example"),
        };
        Start {
            directory: "/run/trimtab/default".into(),
            limit: 128,
            classes: vec![
                class("premium", vec![source, others], 10000, Full::RefuseNewest),
                class("basic", vec![], 100, Full::RefuseOldest),
            ],
            policy: Policy::NonPreemptive,
            borrow: false,
            peek_bytes: 8192,
            peek_timeout_s: 5.0,
            metrics: Some("127.0.0.1:9117".parse().expect("address")),
            controller_timeout_s: 90.0,
            user: Some(User {
                uid: 61_200,
                gid: 61_201,
            }),
        }
    }

    #[test]
    fn a_start_line_is_read_and_written_as_it_is() {
        same(&start(), START);
    }

    #[test]
    fn orders_are_read_and_written_as_they_are() {
        let apply = Order::Apply {
            changes: [("process_budget@premium".to_owned(), 70)].into(),
        };
        same(
            &apply,
            r#"{"type":"apply","changes":{"process_budget@premium":70}}"#,
        );
        same(&Order::Read {}, r#"{"type":"read"}"#);
        let lease = Order::Lease {
            timeout_s: Some(90.0),
        };
        same(&lease, r#"{"type":"lease","timeout_s":90.0}"#);
        same(&Order::EndLease {}, r#"{"type":"end_lease"}"#);
        same(&Order::Stop {}, r#"{"type":"stop"}"#);
    }

    #[test]
    fn answers_are_read_and_written_as_they_are() {
        let done = Answer::Done {
            configuration: [("max_request_workers".to_owned(), 128)].into(),
            mode: Mode::Budgets,
            generation: 1,
        };
        same(
            &done,
            concat!(
                r#"{"type":"done","configuration":{"max_request_workers":128},"#,
                r#""mode":"budgets","generation":1}"#
            ),
        );
        let class = ClassReadings {
            class: "basic".to_owned(),
            arrivals: 6,
            dispatched: 2,
            refused: 1,
            aborted: 1,
            delay_sum_s: 0.5,
            delay_buckets: vec![(99, 1), (501_759, 1)],
            queue: 2,
            in_service: 1,
            queue_connection_s: 2.5,
            in_service_connection_s: 1.25,
            oldest_wait_s: 0.75,
        };
        let readings = Answer::Readings {
            now_s: 1.5,
            mode: Mode::Open,
            classes: vec![class],
        };
        same(
            &readings,
            concat!(
                r#"{"type":"readings","now_s":1.5,"mode":"open","classes":["#,
                r#"{"class":"basic","arrivals":6,"dispatched":2,"refused":1,"aborted":1,"delay_sum_s":0.5,"#,
                r#""delay_buckets":[[99,1],[501759,1]],"queue":2,"in_service":1,"queue_connection_s":2.5,"#,
                r#""in_service_connection_s":1.25,"oldest_wait_s":0.75}]}"#
            ),
        );
        let refused = Answer::Refused {
            message: "no".to_owned(),
        };
        same(&refused, r#"{"type":"refused","message":"no"}"#);
    }

    #[test]
    fn a_rule_may_name_what_it_does_not_ask_as_null() {
        let rule: Rule = serde_json::from_str(r#"{"source":"::1","host":null}"#).expect("rule");
        assert_eq!(rule.source.as_deref(), Some("::1"));
        assert_eq!(rule.host, None);
    }

    #[test]
    fn an_unknown_key_is_an_error_everywhere() {
        for line in [
            r#"{"type":"apply","changes":{},"x":1}"#,
            r#"{"type":"read","x":1}"#,
            r#"{"type":"lease","x":1}"#,
            r#"{"type":"stop","x":1}"#,
        ] {
            assert!(serde_json::from_str::<Order>(line).is_err(), "{line}");
        }
        assert!(serde_json::from_str::<Rule>(r#"{"path":"/"}"#).is_err());
        let start = START.replace(r#""borrow":false"#, r#""borrow":false,"x":1"#);
        assert!(serde_json::from_str::<Start>(&start).is_err());
    }
}
