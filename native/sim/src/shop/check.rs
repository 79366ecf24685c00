//! Validation of a shop; every message gives the name, the value and what is allowed.

use trimtab_wire::graph::Graph;
use trimtab_wire::shop::{Demand, Host, Shop};
use trimtab_wire::BadInput;

/// Most items, so that each browser's knowledge of their images stays small.
const MOST_ITEMS: u32 = 1_000_000;
/// Most blocks of the database.
const MOST_BLOCKS: f64 = 1e8;

/// Checks a shop.
///
/// # Errors
/// A field is outside its domain.
pub fn shop(shop: &Shop) -> Result<(), BadInput> {
    let (proxy, application, database) = (&shop.proxy, &shop.application, &shop.database);
    host("proxy", &proxy.host)?;
    host("application", &application.host)?;
    host("database", &database.host)?;
    for (name, value) in [
        ("proxy: cache_bytes", proxy.cache_bytes),
        ("proxy: smallest_bytes", proxy.smallest_bytes),
        ("proxy: largest_bytes", proxy.largest_bytes),
        ("proxy: held_ratio", proxy.held_ratio),
        ("proxy: page_s", proxy.page_s),
        ("proxy: image_s", proxy.image_s),
        ("proxy: miss_s", proxy.miss_s),
        ("proxy: byte_s", proxy.byte_s),
        ("application: thread_bytes", application.thread_bytes),
        (
            "application: connection_bytes",
            application.connection_bytes,
        ),
        ("application: image_s", application.image_s),
        ("application: byte_s", application.byte_s),
        ("database: connection_bytes", database.connection_bytes),
        ("database: query_bytes", database.query_bytes),
        ("database: buffer_bytes", database.buffer_bytes),
        ("database: held_ratio", database.held_ratio),
        ("database: popularity", database.popularity),
        ("database: read_cpu_s", database.read_cpu_s),
        ("database: read_s", database.read_s),
        ("database: commit_s", database.commit_s),
        ("catalogue: popularity", shop.catalogue.popularity),
        ("catalogue: thumbnail_bytes", shop.catalogue.thumbnail_bytes),
        ("catalogue: fixed_bytes", shop.catalogue.fixed_bytes),
    ] {
        at_least(name, value, 0.0)?;
    }
    at_least("database: disk_width", database.disk_width, 1e-3)?;
    at_least("database: block_bytes", database.block_bytes, 1.0)?;
    at_least(
        "database: data_bytes",
        database.data_bytes,
        database.block_bytes,
    )?;
    if database.data_bytes > MOST_BLOCKS * database.block_bytes {
        return Err(BadInput(format!(
            "shop: database: data_bytes {} must be at most {MOST_BLOCKS} blocks",
            database.data_bytes
        )));
    }
    for (name, value) in [
        ("application: threads", application.threads),
        ("application: places", application.places),
        ("application: pool", application.pool),
        ("database: connections", database.connections),
        ("database: running", database.running),
        ("catalogue: items", shop.catalogue.items),
    ] {
        if value == 0 {
            return Err(BadInput(format!("shop: {name} 0 must be at least 1")));
        }
    }
    if shop.catalogue.items > MOST_ITEMS {
        return Err(BadInput(format!(
            "shop: catalogue: items {} must be at most {MOST_ITEMS}",
            shop.catalogue.items
        )));
    }
    ratio("application: before_ratio", application.before_ratio)?;
    for size in &shop.catalogue.covers {
        at_least("catalogue: covers: bytes", size.bytes, 0.0)?;
        ratio("catalogue: covers: share", size.share)?;
    }
    Ok(())
}

/// The demands in the order of a graph's pages.
///
/// # Errors
/// A page has none or several, one is of no page, or a value is outside its domain.
pub fn demands(shop: &Shop, graph: &Graph) -> Result<Vec<Demand>, BadInput> {
    let mut found = Vec::with_capacity(graph.pages.len());
    for page in &graph.pages {
        let mut of = shop.demands.iter().filter(|d| d.page == page.name);
        let (Some(demand), None) = (of.next(), of.next()) else {
            return Err(BadInput(format!(
                "shop: page {:?} must have one demand",
                page.name
            )));
        };
        found.push(demand.clone());
    }
    if found.len() != shop.demands.len() {
        return Err(BadInput(format!(
            "shop: {} demands for {} pages",
            shop.demands.len(),
            found.len()
        )));
    }
    for demand in &found {
        for (name, value) in [
            ("application_s", demand.application_s),
            ("database_s", demand.database_s),
            ("blocks", demand.blocks),
            ("commits", demand.commits),
        ] {
            at_least(&format!("page {:?}: {name}", demand.page), value, 0.0)?;
        }
        if demand.thumbnails.max(demand.covers) > 1000 {
            return Err(BadInput(format!(
                "shop: page {:?} has more than 1000 images",
                demand.page
            )));
        }
    }
    Ok(found)
}

fn host(tier: &str, host: &Host) -> Result<(), BadInput> {
    for (name, value, least) in [
        ("cores", host.cores, 1e-3),
        ("switching_ratio", host.switching_ratio, 0.0),
        ("memory_limit_bytes", host.memory_limit_bytes, 1.0),
        ("base_memory_bytes", host.base_memory_bytes, 0.0),
        ("fault_ratio", host.fault_ratio, 0.0),
    ] {
        at_least(&format!("{tier}: {name}"), value, least)?;
    }
    Ok(())
}

fn at_least(name: &str, value: f64, least: f64) -> Result<(), BadInput> {
    if value >= least && value.is_finite() {
        return Ok(());
    }
    Err(BadInput(format!(
        "shop: {name} {value} must be at least {least}"
    )))
}

fn ratio(name: &str, value: f64) -> Result<(), BadInput> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(BadInput(format!("shop: {name} {value} is outside 0..1")))
}
