//! The file of the memory that two processes share. It is sealed against shrinking, so no access can fault.

#![allow(unsafe_code)]

use super::layout::CONTROL;
use super::memory::Memory;
use super::{Ends, Side, ends};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Smallest and largest number of bytes of a ring, which is a power of two.
const LEAST: usize = 4096;
const MOST: usize = 1 << 30;

/// A segment before the ends of this side are made.
#[derive(Debug)]
pub(crate) struct Segment {
    file: OwnedFd,
    memory: Memory,
    capacity: usize,
    /// The first side is the one that created the segment.
    side: Side,
}

impl Segment {
    /// The number of bytes of a segment with rings of `capacity` bytes.
    const fn length(capacity: usize) -> usize {
        CONTROL + 2 * capacity
    }

    /// Creates a segment. Other processes can reach it only through its file.
    ///
    /// # Errors
    /// The system has too little memory, or does not support shared memory.
    pub(crate) fn new(capacity: usize) -> io::Result<Self> {
        let length = Self::length(Self::check_capacity(capacity)?);
        let file = rustix::fs::memfd_create("syncline", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        // Allocate all memory now, so that a lack of memory fails here and not at a write.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        // SAFETY: the file has `length` bytes and is sealed.
        let memory = unsafe { Memory::of(file.as_fd(), length)? };
        Ok(Self { file, memory, capacity, side: Side::First })
    }

    /// Maps a segment that the other side created.
    ///
    /// # Errors
    /// The file is not a segment of this size, or could shrink while it is used.
    pub(crate) fn of(file: OwnedFd, capacity: u64) -> io::Result<Self> {
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let capacity = Self::check_capacity(usize::try_from(capacity).unwrap_or(usize::MAX))?;
        let length = Self::length(capacity);
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(bad("it is not sealed against shrinking"));
        }
        if rustix::fs::fstat(&file)?.st_size != length as i64 {
            return Err(bad("its size differs from the announced one"));
        }
        // SAFETY: both were checked. The seal cannot be removed, so the file has not shrunk since.
        let memory = unsafe { Memory::of(file.as_fd(), length)? };
        Ok(Self { file, memory, capacity, side: Side::Second })
    }

    fn check_capacity(capacity: usize) -> io::Result<usize> {
        let fits = capacity.is_power_of_two() && (LEAST..=MOST).contains(&capacity);
        fits.then_some(capacity).ok_or(io::ErrorKind::InvalidInput.into())
    }

    /// The number of bytes of a ring.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The file that the other side needs to map the segment.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns this side's ends.
    pub(crate) fn ends(self) -> Ends {
        // SAFETY: the process that created the file is its only first side. The second side is the process that got the
        // file; a correct peer sends each file once. (One that sends a file twice is as incorrect as one that writes bytes
        // that are not its own.)
        unsafe { ends(&Arc::new(self.memory), self.capacity, self.side) }
    }
}

#[cfg(all(test, not(miri), not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn files_that_could_shrink_or_are_no_segments_are_refused() {
        let open = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&open, Segment::length(4096) as u64).unwrap();
        assert!(Segment::of(open.try_clone().unwrap(), 4096).unwrap_err().to_string().contains("shrink"));
        rustix::fs::fcntl_add_seals(&open, SealFlags::SHRINK).unwrap();
        assert!(Segment::of(open.try_clone().unwrap(), 8192).unwrap_err().to_string().contains("size"));
        assert!(Segment::of(open.try_clone().unwrap(), 4096).is_ok());
        for capacity in [0, 4095, 5000, 1 << 31, u64::MAX] {
            assert!(Segment::of(open.try_clone().unwrap(), capacity).is_err());
        }
        let pipe = std::io::pipe().unwrap().0;
        assert!(Segment::of(pipe.into(), 4096).is_err());
    }
}
