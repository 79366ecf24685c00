//! Making, opening and mapping the file of [`crate::shared`].

// The shim carries this into the server, which a panic would end.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::fs::{fallocate, FallocateFlags};
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use rustix::rand::{getrandom, GetRandomFlags};

use crate::shared::{Layout, HEADER_LEN, MAGIC, SLOTS, VERSION};

const LEN: usize = std::mem::size_of::<Layout>();
/// A file made by another process is complete within this many looks, 1 ms apart.
const LOOKS: u32 = 100;

/// A mapping of the file; it reads as a [`Layout`].
pub struct Shared {
    base: NonNull<Layout>,
}

/// Memory that a mapping may take the place of: whole pages, of which nothing is used before.
#[repr(C, align(4096))]
pub struct Room(UnsafeCell<MaybeUninit<Layout>>);

// SAFETY: nobody reads or writes it but through the mapping that takes its place.
unsafe impl Sync for Room {}

impl Room {
    /// One that nothing has taken yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(UnsafeCell::new(MaybeUninit::zeroed()))
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: the mapping stays where it is until the drop, and every field of Layout is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Deref for Shared {
    type Target = Layout;

    fn deref(&self) -> &Layout {
        // SAFETY: base is a live mapping of LEN bytes, page-aligned; any bit pattern is a valid Layout.
        unsafe { self.base.as_ref() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map` with this length, and nobody can borrow it any more.
        // A failure leaves the mapping to the end of the process.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), LEN) };
    }
}

impl Shared {
    /// Opens the file, or makes it with mode 0600 and a random token when there is none.
    ///
    /// # Errors
    /// The file cannot be made or is not one of this layout (`InvalidData`).
    pub fn create(path: &Path) -> io::Result<Self> {
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match made {
            Ok(file) => {
                // Not by its length alone: who first touches a page for which the file system has no room later gets SIGBUS.
                fallocate(&file, FallocateFlags::empty(), 0, LEN as u64)?;
                let shared = Self::map(std::ptr::null_mut(), &file)?;
                shared.initialise()?;
                Ok(shared)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::open_soon(path),
            Err(error) => Err(error),
        }
    }

    /// Opens an existing file.
    ///
    /// # Errors
    /// There is none, or it is not one of this layout (`InvalidData`).
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_at(std::ptr::null_mut(), path)
    }

    /// As `open`, at a place of the caller's.
    ///
    /// # Errors
    /// As `open`; the place is gone then.
    ///
    /// # Safety
    /// Called once for a room: a second mapping would take the place of the first.
    pub unsafe fn open_in(room: &'static Room, path: &Path) -> io::Result<Self> {
        Self::open_at(room.0.get().cast(), path)
    }

    fn open_at(place: *mut c_void, path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        if file.metadata()?.len() != LEN as u64 {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let shared = Self::map(place, &file)?;
        let header = &shared.header;
        let fits = header.magic.load(Ordering::Acquire) == MAGIC
            && header.version.load(Ordering::Relaxed) == VERSION
            && header.header_len.load(Ordering::Relaxed) as usize == HEADER_LEN
            && header.slot_count.load(Ordering::Relaxed) as usize == SLOTS
            && header.slot_len.load(Ordering::Relaxed) == 64;
        if fits {
            Ok(shared)
        } else {
            Err(io::Error::from(io::ErrorKind::InvalidData))
        }
    }

    /// Opens a file that another process may be making at this moment.
    fn open_soon(path: &Path) -> io::Result<Self> {
        let mut looks = 0;
        loop {
            match Self::open(path) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData && looks < LOOKS => {
                    looks += 1;
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    /// Maps the file: at a place of the kernel's choice when `place` is null.
    fn map(place: *mut c_void, file: &File) -> io::Result<Self> {
        let fixed = if place.is_null() {
            MapFlags::empty()
        } else {
            MapFlags::FIXED
        };
        // SAFETY: a fresh mapping overlaps nothing of ours, and a `Room` is there for it.
        let base = unsafe {
            mmap(
                place,
                LEN,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | fixed,
                file.as_fd(),
                0,
            )
        }?;
        NonNull::new(base.cast())
            .map(|base| Self { base })
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    fn initialise(&self) -> io::Result<()> {
        let mut random = [0_u8; 19];
        let mut got = 0;
        while let Some(rest) = random.get_mut(got..).filter(|rest| !rest.is_empty()) {
            got += getrandom(rest, GetRandomFlags::empty())?;
        }
        let header = &self.header;
        let (token, source) = random.split_at(16);
        for (word, bytes) in header.token.iter().zip(token.chunks_exact(8)) {
            let bytes = bytes.try_into().map_err(io::Error::other)?;
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        // 127.128.0.2 and up: nobody's usual loopback address.
        let source = source.iter().fold(0_u32, |all, &b| all << 8 | u32::from(b));
        header
            .wake_source
            .store(0x7f80_0002 + source % 0x007f_fff0, Ordering::Relaxed);
        header.version.store(VERSION, Ordering::Relaxed);
        header
            .header_len
            .store(HEADER_LEN as u32, Ordering::Relaxed);
        header.slot_count.store(SLOTS as u32, Ordering::Relaxed);
        header.slot_len.store(64, Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        Ok(())
    }
}
