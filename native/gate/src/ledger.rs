//! All that a gate leaves to the next one: settings, counters, and what each descriptor is.
//!
//! It lies in an anonymous shared mapping that the guardian makes before it starts the first gate, beside the table of
//! descriptors that they share. A gate may be killed between any two instructions, so whatever matters after that is
//! written in the order in which it must hold; one gate at a time writes, so plain loads and stores are enough.
//!
//! A connection costs one entry of 64 bytes, indexed by its descriptor, and nothing else: the queues are chains
//! through the entries.

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::mm::{mmap_anonymous, MapFlags, ProtFlags};
use trimtab_wire::lanes::CLASSES;

use crate::entry::Entry;
pub use crate::entry::Kind;
use trimtab_wire::delays::BUCKETS;

/// Settings in force.
#[repr(C)]
pub struct Settings {
    /// 0 until the first gate has filled the ledger.
    pub begun: AtomicU32,
    /// M.
    pub limit: AtomicU32,
    /// 1: open.
    pub open: AtomicU32,
    /// Uses of descriptors so far.
    pub uses: AtomicU32,
    /// When the controller's lease runs out; 0: there is none.
    pub lease_ends_ns: AtomicU64,
    /// Steps of all gates so far: stands still when a gate does.
    pub beats: AtomicU64,
}

/// Counters of one class.
#[repr(C)]
pub struct Cell {
    /// B_k.
    pub budget: AtomicU64,
    /// Connections classified.
    pub arrivals: AtomicU64,
    /// Connections given to a worker.
    pub dispatched: AtomicU64,
    /// Connections refused.
    pub refused: AtomicU64,
    /// Clients that gave up.
    pub aborted: AtomicU64,
    /// Sum of delays.
    pub delay_ns: AtomicU64,
    /// Integral of the queue.
    pub queue_ns: AtomicU64,
    /// Integral of R_k.
    pub in_service_ns: AtomicU64,
    /// Until when the integrals are.
    pub until_ns: AtomicU64,
    /// Counts of delays.
    pub delays: [AtomicU64; BUCKETS],
}

/// The part of the mapping before the entries.
#[repr(C)]
struct Fixed {
    settings: Settings,
    cells: [Cell; CLASSES],
}

/// The mapping. It lasts as long as the process.
#[derive(Clone, Copy)]
pub struct Ledger {
    fixed: &'static Fixed,
    entries: &'static [Entry],
}

impl Ledger {
    /// An empty ledger for descriptors below a number.
    ///
    /// # Errors
    /// The kernel gives no memory.
    pub fn new(descriptors: usize) -> std::io::Result<Self> {
        let head = std::mem::size_of::<Fixed>().next_multiple_of(std::mem::align_of::<Entry>());
        let len = head + descriptors * std::mem::size_of::<Entry>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at a place of the kernel's choice overlaps nothing of ours.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) }?;
        // SAFETY: the mapping is never unmapped, is page-aligned, has room for one Fixed and, behind it at a multiple of
        // their alignment, for the entries; all fields are atomic integers, for which zero bytes are valid.
        unsafe {
            let entries = base.cast::<u8>().add(head).cast::<Entry>();
            Ok(Self {
                fixed: &*base.cast::<Fixed>(),
                entries: std::slice::from_raw_parts(entries, descriptors),
            })
        }
    }

    /// Settings in force.
    pub fn settings(&self) -> &'static Settings {
        &self.fixed.settings
    }

    /// Counters of a class.
    pub fn cell(&self, class: usize) -> &'static Cell {
        &self.fixed.cells[class]
    }

    /// How many descriptors it has room for.
    pub fn descriptors(&self) -> usize {
        self.entries.len()
    }

    /// The entry of a descriptor.
    ///
    /// # Panics
    /// The number is not below the limit of descriptors that the ledger was made for.
    pub fn entry(&self, number: u32) -> &'static Entry {
        &self.entries[number as usize]
    }

    /// Takes a descriptor over from the caller.
    ///
    /// # Returns
    /// Its number.
    pub fn keep(&self, fd: OwnedFd, kind: Kind, with: u32) -> u32 {
        let number = fd.into_raw_fd() as u32;
        self.describe(number, kind, with);
        number
    }

    /// Gives a descriptor a new use.
    pub fn describe(&self, number: u32, kind: Kind, with: u32) {
        let uses = &self.fixed.settings.uses;
        let use_number = uses.load(Relaxed).wrapping_add(1);
        uses.store(use_number, Relaxed);
        let entry = self.entry(number);
        entry.use_number.store(use_number, Relaxed);
        entry.with.store(with, Relaxed);
        entry.class.store(0, Relaxed);
        entry.set_kind(kind);
    }

    /// A descriptor that the ledger keeps, for a call.
    pub fn borrow(&self, number: u32) -> BorrowedFd<'_> {
        debug_assert_ne!(self.entry(number).kind(), Kind::Unknown);
        // SAFETY: the ledger owns the descriptors whose kind is known, and keeps them open until `close`.
        unsafe { BorrowedFd::borrow_raw(number as RawFd) }
    }

    /// Closes a descriptor that the ledger keeps.
    ///
    /// It is forgotten after that, not before: between the two a next gate would take it for a connection that it does
    /// not know and serve it twice.
    pub fn close(&self, number: u32) {
        debug_assert_ne!(self.entry(number).kind(), Kind::Unknown);
        // SAFETY: as in `borrow`; from here on nobody uses this number before the kernel gives it out again.
        drop(unsafe { OwnedFd::from_raw_fd(number as RawFd) });
        self.entry(number).set_kind(Kind::Unknown);
    }

    /// The name of a descriptor's present use among the events.
    pub fn token(&self, number: u32) -> u64 {
        u64::from(self.entry(number).use_number.load(Relaxed)) << 32 | u64::from(number)
    }

    /// The descriptor of a token; None when its use has ended.
    pub fn by_token(&self, token: u64) -> Option<u32> {
        let number = token as u32;
        let known = self.entry(number).kind() != Kind::Unknown;
        (known && self.token(number) == token).then_some(number)
    }
}

/// Adds to a counter that one gate writes.
pub fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

/// The numbers of the descriptors that are open now, but for the one that this takes to find out.
///
/// # Errors
/// `/proc` cannot be read.
pub fn open_descriptors() -> std::io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let directory = rustix::fs::openat(
        rustix::fs::CWD,
        "/proc/self/fd",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    let own = directory.as_raw_fd() as u32;
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut entries = rustix::fs::RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if let Some(number) = entry
            .file_name()
            .to_str()
            .ok()
            .and_then(|name| name.parse().ok())
        {
            if number != own {
                numbers.push(number);
            }
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_an_earlier_use_of_a_number_is_no_longer_known() {
        let ledger = Ledger::new(4).unwrap();
        ledger.describe(2, Kind::Queued, 0);
        let token = ledger.token(2);
        assert_eq!(ledger.by_token(token), Some(2));
        ledger.describe(2, Kind::Queued, 0);
        assert_eq!(ledger.by_token(token), None);
    }
}
