//! The memory of a ring for loom. It has the interface of `memory.rs`; its words and bytes are loom's, which report an
//! access that is not ordered after another thread's.

#![allow(unsafe_code)]

use super::layout::{CONTROL, SLEEPERS};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicU64};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes from one control word to the next.
const STEP: usize = 128;

pub(super) struct Memory {
    longs: [AtomicU64; 4],
    words: [AtomicU32; 2],
    bytes: Vec<UnsafeCell<u8>>,
}

// SAFETY: loom's cells report accesses that race.
unsafe impl Sync for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes.len())
    }
}

impl Memory {
    /// Loom has no processes to share a file with.
    ///
    /// # Safety
    /// As in `memory.rs`.
    pub(super) unsafe fn of(_: BorrowedFd<'_>, _: usize) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(test)]
    pub(super) fn plain(length: usize) -> Self {
        Self {
            longs: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU32::new(0)),
            bytes: (CONTROL..length).map(|_| UnsafeCell::new(0)).collect(),
        }
    }

    pub(super) fn long(&self, at: usize) -> &AtomicU64 {
        &self.longs[at / STEP]
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        &self.words[(at - SLEEPERS) / STEP]
    }

    /// # Safety
    /// As in `memory.rs`; loom checks it.
    pub(super) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        for (cell, &byte) in self.bytes[at - CONTROL..][..bytes.len()].iter().zip(bytes) {
            // SAFETY: the pointer is the cell's.
            cell.with_mut(|place| unsafe { *place = byte });
        }
    }

    /// # Safety
    /// As in `memory.rs`; loom checks it.
    pub(super) unsafe fn read<R>(&self, at: usize, length: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        let cells = &self.bytes[at - CONTROL..][..length];
        // SAFETY: the pointer is the cell's.
        let copy: Vec<u8> = cells.iter().map(|cell| cell.with(|place| unsafe { *place })).collect();
        look(&copy)
    }
}
