//! The shop against theory: laws of closed networks, exact mean value analysis, permits, cache, memory, determinism.

use crate::common::{interval, population};
use trimtab_sim::{answer, Shop};
use trimtab_wire::graph::{Graph, Page};
use trimtab_wire::shop::{
    Application, Catalogue, Database, Demand, Host, Proxy, Shop as Settings, Size,
};
use trimtab_wire::sim::{Answer, Order};
use trimtab_wire::workload::{Arrivals, Distribution, Population};

const BROWSERS: u32 = 40;
const THINK_S: f64 = 0.02;

fn host() -> Host {
    Host {
        cores: 1.0,
        switching_ratio: 0.0,
        memory_limit_bytes: 1e9,
        base_memory_bytes: 0.0,
        fault_ratio: 50.0,
    }
}

fn demand(page: &str, application_s: f64, database_s: f64) -> Demand {
    Demand {
        page: page.to_owned(),
        application_s,
        database_s,
        blocks: 0.0,
        commits: 0.0,
        thumbnails: 0,
        covers: 0,
    }
}

/// A shop of two pages without images, whose limits and memory suffice.
fn shop(proxy_s: f64, application_s: f64, database_s: f64) -> Settings {
    Settings {
        proxy: Proxy {
            host: host(),
            cache_bytes: 1e6,
            smallest_bytes: 0.0,
            largest_bytes: 1e6,
            held_ratio: 1.0,
            page_s: proxy_s,
            image_s: 0.0,
            miss_s: 0.0,
            byte_s: 0.0,
        },
        application: Application {
            host: host(),
            threads: 1000,
            spare_threads: 0,
            places: 1000,
            thread_bytes: 1e6,
            connection_bytes: 0.0,
            pool: 1000,
            idle_pool: 0,
            before_ratio: 0.3,
            image_s: 0.001,
            byte_s: 0.0,
        },
        database: Database {
            host: host(),
            connections: 1000,
            running: 1000,
            connection_bytes: 0.0,
            query_bytes: 0.0,
            buffer_bytes: 1e8,
            held_ratio: 1.0,
            data_bytes: 1e8,
            block_bytes: 16384.0,
            popularity: 0.8,
            read_cpu_s: 0.0,
            read_s: 0.001,
            commit_s: 0.0,
            disk_width: 1.0,
        },
        catalogue: Catalogue {
            items: 1000,
            popularity: 0.8,
            thumbnail_bytes: 1000.0,
            covers: vec![Size {
                bytes: 10_000.0,
                share: 1.0,
            }],
            fixed_images: 0,
            fixed_bytes: 0.0,
        },
        demands: vec![
            demand("a", 1.5 * application_s, 0.5 * database_s),
            demand("b", 0.5 * application_s, 1.5 * database_s),
        ],
    }
}

/// Browsers of two pages, both as often.
fn browsers(users: u32, think_s: f64) -> Population {
    let page = |name: &str, thresholds: [u32; 2]| Page {
        name: name.to_owned(),
        asks: vec![],
        thresholds: thresholds.to_vec(),
    };
    Population {
        think_s: Distribution::Exponential { mean: think_s },
        pages: vec![],
        graph: Some(Graph {
            pages: vec![page("a", [5000, 10_000]), page("b", [5000, 10_000])],
            start: "a".to_owned(),
            name_marker: None,
            session_s: Distribution::Exponential { mean: 10.0 },
            first_click_s: [0.0, 0.1],
            memories: vec![],
            image_connections: 4,
        }),
        ..population(Arrivals::Closed { users }, 0.0)
    }
}

fn run(settings: &Settings, users: u32, think_s: f64, seed: u64, length_s: f64) -> Shop {
    let mut shop = Shop::new(settings.clone(), &browsers(users, think_s), seed).unwrap();
    shop.advance(2.0).unwrap();
    shop.begin();
    shop.advance(length_s).unwrap();
    shop
}

fn rate_hz(settings: &Settings) -> f64 {
    run(settings, BROWSERS, THINK_S, 1, 20.0).readings()["client_page_rate_hz"]
}

#[test]
fn the_tier_with_the_largest_demand_sets_the_rate() {
    for settings in [
        shop(0.002, 0.0005, 0.0005),
        shop(0.0005, 0.002, 0.0005),
        shop(0.0005, 0.0005, 0.002),
    ] {
        let found = rate_hz(&settings);
        assert!((found / 500.0 - 1.0).abs() < 0.02, "{found}");
    }
}

#[test]
fn half_a_core_gives_half_the_rate() {
    let mut settings = shop(0.0002, 0.002, 0.0002);
    settings.application.host.cores = 0.5;
    let found = rate_hz(&settings);
    assert!((found / 250.0 - 1.0).abs() < 0.03, "{found}");
}

/// Little's law for the whole shop, and for its users: N = X (R + Z).
#[test]
fn the_laws_of_little_and_of_interactive_response_time_hold() {
    let shop = run(&shop(0.0005, 0.001, 0.0015), BROWSERS, THINK_S, 1, 60.0);
    let meter = shop.meter();
    let (rate_hz, time_s) = (
        meter.pages as f64 / meter.elapsed_s,
        meter.page_s / meter.pages as f64,
    );
    let under_way = meter.integral.under_way / meter.elapsed_s;
    assert!((under_way / (rate_hz * time_s) - 1.0).abs() < 0.005);
    let users = rate_hz * (time_s + THINK_S);
    assert!((users / f64::from(BROWSERS) - 1.0).abs() < 0.01, "{users}");
}

/// Exact mean value analysis of a closed network of processor-sharing stations and users who think (Reiser and Lavenberg 1980).
fn mva(demands_s: &[f64], users: u32, think_s: f64) -> f64 {
    let (mut queues, mut rate_hz) = (vec![0.0; demands_s.len()], 0.0);
    for n in 1..=users {
        let times: Vec<f64> = demands_s
            .iter()
            .zip(&queues)
            .map(|(d, q)| d * (1.0 + q))
            .collect();
        rate_hz = f64::from(n) / (think_s + times.iter().sum::<f64>());
        queues = times.iter().map(|t| rate_hz * t).collect();
    }
    rate_hz
}

#[test]
fn below_saturation_too_the_rate_is_that_of_mean_value_analysis() {
    let demands_s = [0.0006, 0.0010, 0.0012];
    let settings = shop(demands_s[0], demands_s[1], demands_s[2]);
    for users in [5, 15, 30] {
        let expected = mva(&demands_s, users, THINK_S);
        let found = std::array::from_fn(|seed| {
            let shop = run(&settings, users, THINK_S, seed as u64, 20.0);
            shop.readings()["client_page_rate_hz"]
        });
        let (mean, half) = interval(&found);
        assert!(half < 0.03 * expected, "{users}: {mean} +- {half}");
        assert!(
            (mean - expected).abs() <= half,
            "{users}: {mean} +- {half}, not {expected}"
        );
    }
}

#[test]
fn one_thread_serves_one_page_after_the_other_through_application_and_database() {
    let mut settings = shop(0.0001, 0.001, 0.003);
    settings.application.threads = 1;
    let found = rate_hz(&settings);
    assert!((found / 250.0 - 1.0).abs() < 0.03, "{found}");
}

#[test]
fn one_statement_at_a_time_keeps_the_database_from_working_while_the_disk_does() {
    let mut settings = shop(0.0001, 0.0001, 0.001);
    settings.database.commit_s = 0.001;
    settings.demands.iter_mut().for_each(|d| d.commits = 1.0);
    let together = rate_hz(&settings);
    settings.database.running = 1;
    let alone = rate_hz(&settings);
    assert!((alone / 500.0 - 1.0).abs() < 0.03, "{alone}");
    assert!(together > 1.6 * alone, "{together}");
}

#[test]
fn what_finds_no_room_is_refused_and_nothing_else() {
    let refused = |settings: &Settings| run(settings, BROWSERS, THINK_S, 1, 5.0).meter().refused;
    let roomy = shop(0.0001, 0.002, 0.002);
    assert_eq!(refused(&roomy), 0);
    let mut few_requests = roomy.clone();
    few_requests.application.places = 3;
    assert!(refused(&few_requests) > 0);
    let mut few_connections = roomy.clone();
    few_connections.database.connections = 2;
    assert!(refused(&few_connections) > 0);
    // A pool that never asks for more than there are makes pages wait instead.
    few_connections.application.pool = 2;
    assert_eq!(refused(&few_connections), 0);
}

#[test]
fn switching_makes_fewer_threads_faster() {
    let mut settings = shop(0.0001, 0.002, 0.0005);
    settings.application.host.switching_ratio = 0.01;
    let many = rate_hz(&settings);
    settings.application.threads = 4;
    assert!(rate_hz(&settings) > 1.1 * many);
}

#[test]
fn a_tier_beyond_its_memory_falls_off_a_cliff() {
    let mut settings = shop(0.0001, 0.002, 0.0005);
    let fitting = rate_hz(&settings);
    settings.application.spare_threads = 990;
    assert_eq!(rate_hz(&settings), fitting);
    settings.application.spare_threads = 1300;
    assert!(rate_hz(&settings) < 0.1 * fitting);
}

#[test]
fn a_larger_buffer_reads_less_and_a_larger_cache_has_more_images() {
    let mut settings = shop(0.0001, 0.0005, 0.0005);
    for demand in &mut settings.demands {
        demand.blocks = 5.0;
        demand.thumbnails = 3;
        demand.covers = 1;
    }
    let hits = |settings: &Settings| {
        let readings = run(settings, BROWSERS, THINK_S, 1, 5.0).readings();
        (readings["hit_ratio@proxy"], readings["hit_ratio@database"])
    };
    settings.database.buffer_bytes = 1e7;
    let (_, small) = hits(&settings);
    settings.database.buffer_bytes = 5e7;
    let (images, large) = hits(&settings);
    assert!(small < large && large < 1.0, "{small}, {large}");
    settings.proxy.cache_bytes = 2e7;
    let (all, _) = hits(&settings);
    assert!(images < all && all > 0.9999, "{images}, {all}");
    settings.proxy.smallest_bytes = 5000.0;
    let (covers, _) = hits(&settings);
    assert!(covers < 0.5, "{covers}");
    settings.proxy.largest_bytes = 6000.0;
    assert_eq!(hits(&settings).0, 0.0);
}

#[test]
fn the_same_seed_gives_the_same_run_however_it_is_looked_at() {
    let settings = shop(0.0005, 0.001, 0.0015);
    let whole = run(&settings, BROWSERS, THINK_S, 3, 5.0);
    let mut pieces = Shop::new(settings.clone(), &browsers(BROWSERS, THINK_S), 3).unwrap();
    pieces.advance(2.0).unwrap();
    pieces.begin();
    (0..5).for_each(|_| pieces.advance(1.0).unwrap());
    assert_eq!(whole.meter().pages, pieces.meter().pages);
    assert_eq!(whole.events(), pieces.events());
    let time = |shop: &Shop| shop.readings()["client_page_time_s"];
    assert_eq!(time(&whole), time(&pieces));
    let other = run(&settings, BROWSERS, THINK_S, 4, 5.0);
    assert_ne!(time(&whole), time(&other));
}

#[test]
fn a_shop_outside_its_domain_is_refused_by_name() {
    type Change = fn(&mut Settings);
    let broken: [(&str, Change); 8] = [
        ("proxy: cores", |s| s.proxy.host.cores = 0.0),
        ("application: threads", |s| s.application.threads = 0),
        ("application: before_ratio", |s| {
            s.application.before_ratio = 1.5
        }),
        ("database: read_s", |s| s.database.read_s = f64::NAN),
        ("database: data_bytes", |s| s.database.data_bytes = 1.0),
        ("catalogue: items", |s| s.catalogue.items = 0),
        ("must have one", |s| s.demands[1].page = "a".to_owned()),
        ("page \"a\": blocks", |s| s.demands[0].blocks = -1.0),
    ];
    for (says, change) in broken {
        let mut settings = shop(0.001, 0.001, 0.001);
        change(&mut settings);
        let error = Shop::new(settings, &browsers(1, 1.0), 1).unwrap_err();
        assert!(error.0.contains(says), "{error}");
    }
}

#[test]
fn browsers_that_do_not_walk_a_graph_are_refused() {
    let settings = shop(0.001, 0.001, 0.001);
    let mut open = browsers(1, 1.0);
    open.arrivals = Arrivals::Poisson { rate_hz: 1.0 };
    let mut lost = browsers(1, 1.0);
    lost.graph.as_mut().unwrap().start = "z".to_owned();
    let mut flat = browsers(1, 1.0);
    flat.graph.as_mut().unwrap().pages[0].thresholds = vec![5, 5];
    for (says, population) in [("closed", open), ("\"z\"", lost), ("must rise", flat)] {
        let error = Shop::new(settings.clone(), &population, 1).unwrap_err();
        assert!(error.0.contains(says), "{error}");
    }
}

#[test]
fn the_conversation_is_that_of_a_server_but_for_knobs() {
    let mut model = None;
    let mut say = |order: &Order| answer(&mut model, &serde_json::to_string(order).unwrap());
    let start = Order::StartShop {
        shop: Box::new(shop(0.001, 0.001, 0.001)),
        browsers: Box::new(browsers(5, 0.01)),
        seed: 1,
    };
    assert!(matches!(say(&start), Answer::Done { now_s: 0.0, .. }));
    let changes = [("x".to_owned(), 1)].into();
    assert!(matches!(
        say(&Order::Apply { changes }),
        Answer::Refused { .. }
    ));
    say(&Order::Begin {});
    say(&Order::Advance { duration_s: 2.0 });
    let Answer::Readings {
        readings, samples, ..
    } = say(&Order::Read {})
    else {
        panic!("refused");
    };
    assert_eq!(readings["client_page_rate_hz"], samples as f64 / 2.0);
}
