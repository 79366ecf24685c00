//! The images of items: who asks for which, and which of them the proxy holds.

use rand::Rng as _;
use trimtab_wire::shop::{Catalogue, Proxy};

use crate::shop::browser::Browser;
use crate::shop::cache::{characteristic_time, held, held_bytes, Alike, Group, Zipf};

/// Multiples of this, modulo 1, are spread evenly: sizes are dealt by it to ranks, each in its share among any ranks.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Images of one size.
#[derive(Debug)]
struct Class {
    /// Share of the items of this size or one before it in the list.
    until: f64,
    bytes: f64,
    kept: bool,
}

/// What a page's images cost.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Images that the browser has not.
    pub images: u32,
    /// Their bytes.
    pub bytes: f64,
    /// Those of them that the proxy has not.
    pub missed: u32,
    /// Their bytes.
    pub missed_bytes: f64,
}

impl Wanted {
    fn add(&mut self, bytes: f64, hit: bool) {
        self.images += 1;
        self.bytes += bytes;
        if !hit {
            self.missed += 1;
            self.missed_bytes += bytes;
        }
    }
}

/// The images, and the proxy's cache of them.
#[derive(Debug)]
pub struct Images {
    zipf: Zipf,
    items: u32,
    thumbnail_bytes: f64,
    /// By group of ranks, the probability that a small image is held.
    thumbnails: Vec<f64>,
    /// The same of a large one whose size is kept.
    covers: Vec<f64>,
    classes: Vec<Class>,
    fixed: (u32, f64, bool),
    /// Size of all that is held.
    pub held_bytes: f64,
}

impl Images {
    /// The images of a catalogue behind a proxy, where so many small and large ones are asked for per page.
    pub fn new(catalogue: &Catalogue, proxy: &Proxy, small: f64, large: f64) -> Self {
        let zipf = Zipf::new(catalogue.items, catalogue.popularity);
        let kept = |bytes: f64| bytes >= proxy.smallest_bytes && bytes <= proxy.largest_bytes;
        let mut until = 0.0;
        let mut classes = Vec::with_capacity(catalogue.covers.len());
        let mut cover_bytes = 0.0;
        for size in &catalogue.covers {
            until += size.share;
            cover_bytes += size.share * if kept(size.bytes) { size.bytes } else { 0.0 };
            classes.push(Class {
                until,
                bytes: size.bytes,
                kept: kept(size.bytes),
            });
        }
        let thumbnail_bytes = if kept(catalogue.thumbnail_bytes) {
            catalogue.thumbnail_bytes
        } else {
            0.0
        };
        let of = |group: &Group, asked: f64, bytes: f64| Alike {
            rate: group.each * asked,
            bytes: f64::from(group.count) * bytes,
        };
        let objects: Vec<Alike> = zipf
            .groups()
            .iter()
            .flat_map(|g| [of(g, small, thumbnail_bytes), of(g, large, cover_bytes)])
            .collect();
        let time = characteristic_time(proxy.cache_bytes, &objects);
        let there = |asked: f64, bytes: f64| -> Vec<f64> {
            let of = |g: &Group| {
                if bytes > 0.0 {
                    held(g.each * asked, time)
                } else {
                    0.0
                }
            };
            zipf.groups().iter().map(of).collect()
        };
        Self {
            items: catalogue.items,
            thumbnail_bytes: catalogue.thumbnail_bytes,
            thumbnails: there(small, thumbnail_bytes),
            covers: there(large, cover_bytes),
            classes,
            fixed: (
                catalogue.fixed_images,
                catalogue.fixed_bytes,
                kept(catalogue.fixed_bytes) && proxy.cache_bytes > 0.0,
            ),
            held_bytes: held_bytes(time, &objects),
            zipf,
        }
    }

    /// What a browser asks for with a page that has so many small and large images.
    pub fn fetch(&self, browser: &mut Browser, small: u32, large: u32) -> Wanted {
        let mut wanted = Wanted::default();
        if browser.fresh {
            browser.fresh = false;
            let (count, bytes, hit) = self.fixed;
            (0..count).for_each(|_| wanted.add(bytes, hit));
        }
        // What is drawn does not hang on what the browser or the proxy has.
        for _ in 0..small {
            let (rank, group) = self.zipf.draw(&mut browser.rng);
            let hit = browser.rng.random::<f64>() < self.thumbnails[group];
            if browser.sees(rank) {
                wanted.add(self.thumbnail_bytes, hit);
            }
        }
        for _ in 0..large {
            let (rank, group) = self.zipf.draw(&mut browser.rng);
            let hit = browser.rng.random::<f64>() < self.covers[group];
            let dealt = (f64::from(rank + 1) * GOLDEN).fract();
            if let Some(class) = self
                .class(dealt)
                .filter(|_| browser.sees(self.items + rank))
            {
                wanted.add(class.bytes, hit && class.kept);
            }
        }
        wanted
    }

    fn class(&self, dealt: f64) -> Option<&Class> {
        let found = self.classes.iter().find(|class| dealt < class.until);
        found.or(self.classes.last())
    }
}
