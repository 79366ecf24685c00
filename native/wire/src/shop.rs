//! A shop of three tiers for the simulator: proxy, application, database, and what each page asks of them.
//!
//! Every field is physical: seconds, bytes, places. Which setting of which server makes them what they are is Python's business.

use serde::{Deserialize, Serialize};

/// CPU and memory of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Cores, shared by processor sharing; below 1 a share of one.
    pub cores: f64,
    /// What each job beyond those that the cores can run adds to the work of all, as a share of it.
    pub switching_ratio: f64,
    /// Memory limit.
    pub memory_limit_bytes: f64,
    /// Memory that is taken whatever happens.
    pub base_memory_bytes: f64,
    /// How many times its work a job takes more where none of its memory is resident.
    pub fault_ratio: f64,
}

/// The tier that browsers speak to; it holds images.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proxy {
    /// CPU and memory.
    pub host: Host,
    /// Images that are held together.
    pub cache_bytes: f64,
    /// Smallest image that is held.
    pub smallest_bytes: f64,
    /// Largest image that is held.
    pub largest_bytes: f64,
    /// Memory of a held image by its size.
    pub held_ratio: f64,
    /// CPU time of a page that is passed on.
    pub page_s: f64,
    /// CPU time of an image.
    pub image_s: f64,
    /// CPU time of an image that is not held, besides.
    pub miss_s: f64,
    /// CPU time of a byte of an image.
    pub byte_s: f64,
}

/// The tier that makes the pages, and has the images on disk.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    /// CPU and memory.
    pub host: Host,
    /// Requests in service at once; others wait.
    pub threads: u32,
    /// Threads that are there when there is nothing to do.
    pub spare_threads: u32,
    /// Requests in service and waiting; others are refused.
    pub places: u32,
    /// Memory of a thread.
    pub thread_bytes: f64,
    /// Memory of a request, in service or waiting.
    pub connection_bytes: f64,
    /// Connections to the database at once; a page holds one from its queries until it is made.
    pub pool: u32,
    /// Connections that are open when there is nothing to do.
    pub idle_pool: u32,
    /// Share of a page's work before it needs its connection.
    pub before_ratio: f64,
    /// CPU time of an image.
    pub image_s: f64,
    /// CPU time of a byte of an image.
    pub byte_s: f64,
}

/// The tier that answers the pages' queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// CPU and memory; the buffer comes on top.
    pub host: Host,
    /// Connections; one more is refused.
    pub connections: u32,
    /// Pages whose queries run at once; others wait.
    pub running: u32,
    /// Memory of a connection.
    pub connection_bytes: f64,
    /// Memory of a page's queries while they run.
    pub query_bytes: f64,
    /// Blocks that are held together.
    pub buffer_bytes: f64,
    /// Memory of a held block by its size.
    pub held_ratio: f64,
    /// All blocks.
    pub data_bytes: f64,
    /// One block.
    pub block_bytes: f64,
    /// Exponent of Zipf's law over the blocks.
    pub popularity: f64,
    /// CPU time of reading a block.
    pub read_cpu_s: f64,
    /// Time of the disk for a block.
    pub read_s: f64,
    /// Time of the disk for a commit.
    pub commit_s: f64,
    /// Operations that the disk carries out at full speed at once.
    pub disk_width: f64,
}

/// Images of one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// The size.
    pub bytes: f64,
    /// Share of the items.
    pub share: f64,
}

/// What the shop sells, and the images of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Items.
    pub items: u32,
    /// Exponent of Zipf's law over them.
    pub popularity: f64,
    /// Size of each item's small image.
    pub thumbnail_bytes: f64,
    /// Sizes of the items' large images.
    pub covers: Vec<Size>,
    /// Images that all pages share: a browser fetches them once a session.
    pub fixed_images: u32,
    /// Size of each of them.
    pub fixed_bytes: f64,
}

/// What a page asks of the tiers behind the proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Name of the page in the graph.
    pub page: String,
    /// Mean CPU time at the application.
    pub application_s: f64,
    /// Mean CPU time of its queries at the database; 0 where it has none.
    pub database_s: f64,
    /// Blocks that its queries look at.
    pub blocks: f64,
    /// Commits.
    pub commits: f64,
    /// Small images of items on it.
    pub thumbnails: u32,
    /// Large ones.
    pub covers: u32,
}

/// The shop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shop {
    /// First tier.
    pub proxy: Proxy,
    /// Second tier.
    pub application: Application,
    /// Third tier.
    pub database: Database,
    /// What it sells.
    pub catalogue: Catalogue,
    /// What its pages cost; each page of the graph once.
    pub demands: Vec<Demand>,
}
