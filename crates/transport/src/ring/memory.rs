//! Memory that two processes share, mapped into this one: control words that are accessed as atomics, and the bytes of
//! the rings.

#![allow(unsafe_code)]

use super::layout::CONTROL;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The shared memory, mapped into this process.
#[derive(Debug)]
pub(super) struct Memory {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is valid on every thread. Its control words are accessed by atomics only, and the bytes of a ring by
// the callers of `read` and `write`, which rule out races.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing refers to it any more.
        _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

impl Memory {
    const ACCESS: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    /// Maps `length` bytes of a file.
    ///
    /// # Safety
    /// The file has at least `length` bytes and is sealed against shrinking.
    pub(super) unsafe fn of(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        assert!(length >= CONTROL);
        // SAFETY: this creates a new mapping at an address that the system chooses.
        let at = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), length, Self::ACCESS, MapFlags::SHARED, file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, length })
    }

    /// Memory of this process alone, without a file, for tests in an interpreter that has no shared memory.
    #[cfg(test)]
    pub(super) fn plain(length: usize) -> Self {
        assert!(length >= CONTROL);
        // SAFETY: as above.
        let at = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, Self::ACCESS, MapFlags::PRIVATE).unwrap()
        };
        Self { at: NonNull::new(at.cast()).unwrap(), length }
    }

    /// The 64-bit control word at an offset.
    pub(super) fn long(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= CONTROL);
        // SAFETY: the word is aligned, lies in the first page, which every mapping has, and is accessed only as an
        // atomic.
        unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    /// The 32-bit control word at an offset.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= CONTROL);
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    /// The place of bytes of a ring.
    ///
    /// # Panics
    /// If they are not within the rings.
    fn place(&self, at: usize, length: usize) -> NonNull<u8> {
        assert!(at >= CONTROL && at <= self.length && length <= self.length - at);
        // SAFETY: the offset is within the mapping.
        unsafe { self.at.add(at) }
    }

    /// Copies `bytes` to the ring's memory at offset `at`.
    ///
    /// # Safety
    /// No other thread of this process accesses that memory meanwhile. (What another process reads there meanwhile is
    /// meaningless to it.)
    ///
    /// # Panics
    /// If the place is not within the rings.
    pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        let place = self.place(at, bytes.len());
        // SAFETY: the place is within the mapping. `bytes` is not: nothing hands out references to the rings but `read`,
        // and the caller rules out that it reads here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.as_ptr(), bytes.len()) }
    }

    /// Calls `look` with `length` bytes of the ring's memory at offset `at`.
    ///
    /// # Safety
    /// No other thread of this process writes that memory meanwhile. Another process may, if it is incorrect: `look`
    /// copies or combines the bytes, but bases no decision on reading them twice.
    ///
    /// # Panics
    /// If the place is not within the rings.
    pub(super) unsafe fn read<R>(&self, at: usize, length: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        let place = self.place(at, length);
        // SAFETY: the bytes are within the mapping, and a correct writer leaves them unchanged until `consume`. A writer
        // that does not makes this a data race, which Rust leaves undefined; in practice the bytes are unspecified.
        look(unsafe { std::slice::from_raw_parts(place.as_ptr(), length) })
    }
}
