//! The memory that operations work on: parts of callers' tensors, and buffers of this crate.
//!
//! A [`Region`] is a run of bytes that somebody else owns. Several threads may work on regions of one tensor at the
//! same time, but each writes only its own regions: a chunk belongs to one lane, and a lane to one thread. No safe
//! method returns a reference to a region's bytes; safe methods copy, combine or sum them. The contract of
//! [`Region::new`] makes them sound, also for copies of the region.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::Range;
use syncline_reduction::{Element, Reduction, fill_neutral, reduce_into};

/// A run of bytes in memory that somebody else owns, such as a tensor's.
#[derive(Clone, Copy)]
pub struct Region {
    at: *mut u8,
    length: usize,
}

// SAFETY: the caller of `Region::new` guarantees that the memory is valid on every thread that the region is given to.
unsafe impl Send for Region {}
// SAFETY: as above; the caller also guarantees that no thread writes bytes that another reads or writes.
unsafe impl Sync for Region {}

/// The memory that an operation reads, and the memory that it writes.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// What it reads.
    pub input: Region,
    /// What it writes.
    pub output: Region,
}

impl Operands {
    /// Whether one of two operations would read what the other writes, or both would write the same bytes.
    pub fn conflicts(self, other: Self) -> bool {
        let clash = |a: Region, b: Region| !a.is_empty() && !b.is_empty() && a.overlaps(b);
        clash(self.output, other.input) || clash(self.output, other.output) || clash(self.input, other.output)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes)", self.length)
    }
}

impl Region {
    /// The region without bytes.
    pub const EMPTY: Self = Self { at: std::ptr::NonNull::dangling().as_ptr(), length: 0 };

    /// The `length` bytes from `at` on.
    ///
    /// # Safety
    /// Until the operation that gets the region has ended (it has completed or failed, or its communicator or worker
    /// was dropped):
    ///
    /// 1. The bytes stay where they are, initialised and writable.
    /// 2. Nothing but regions reads or writes them, and no reference to them is used.
    /// 3. While one thread writes through a region, its copy or its part, no other thread reads or writes through one
    ///    that overlaps it.
    /// 4. While a slice from [`Link::gather`](crate::link::Link::gather) is alive, nothing writes its bytes. While one
    ///    from [`Link::direct`](crate::link::Link::direct) is alive, nothing else reads or writes its bytes.
    ///
    /// Afterwards, nothing reads or writes through the region, its copies or its parts.
    pub const unsafe fn new(at: *mut u8, length: usize) -> Self {
        if length == 0 { Self::EMPTY } else { Self { at, length } }
    }

    /// Number of bytes.
    pub const fn len(self) -> usize {
        self.length
    }

    /// Whether the region has no bytes.
    pub const fn is_empty(self) -> bool {
        self.length == 0
    }

    /// The bytes of `range`, as a region.
    ///
    /// # Panics
    /// If the range is not within the region.
    pub fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.length, "{range:?} of {} bytes", self.length);
        // SAFETY: the range is within the region.
        unsafe { Self::new(self.at.add(range.start), range.end - range.start) }
    }

    /// Whether both regions are the same bytes.
    pub fn same(self, other: Self) -> bool {
        (self.at, self.length) == (other.at, other.length)
    }

    /// Whether the regions share a byte.
    pub fn overlaps(self, other: Self) -> bool {
        let (a, b) = (self.at as usize, other.at as usize);
        a < b + other.length && b < a + self.length
    }

    /// The region's bytes.
    ///
    /// # Safety
    /// While the reference is in use, nothing writes to the region, its copies or its parts, and the operation that
    /// got the region has not ended.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller of `Region::new` guarantees valid memory, and the caller of this function a valid
        // reference.
        unsafe { std::slice::from_raw_parts(self.at, self.length) }
    }

    /// The region's bytes, for writing.
    ///
    /// # Safety
    /// While the reference is in use, nothing else reads or writes the region, its copies or its parts, and the
    /// operation that got the region has not ended.
    pub unsafe fn bytes_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.length) }
    }

    /// Copies the region's bytes to `into`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn read(self, into: &mut [u8]) {
        // SAFETY: the reference ends with the call; `into` is a reference, and thus not part of a region in use.
        into.copy_from_slice(unsafe { self.bytes() });
    }

    /// Copies `bytes` to the region.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn write(self, bytes: &[u8]) {
        // SAFETY: as in `read`.
        unsafe { self.bytes_mut() }.copy_from_slice(bytes);
    }

    /// Appends the region to data whose CRC-32C is `before`, and returns the new CRC-32C.
    pub fn crc32c_append(self, before: u32) -> u32 {
        // SAFETY: the reference ends with the call.
        crc32c::crc32c_append(before, unsafe { self.bytes() })
    }

    /// Copies `from` to this region; the two may overlap.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy_from(self, from: Self) {
        assert_eq!(self.length, from.length, "a copy between regions of different lengths");
        // SAFETY: both are valid for as many bytes, and `copy` allows overlap.
        unsafe { std::ptr::copy(from.at, self.at, self.length) }
    }

    /// Combines `from` into this region.
    ///
    /// # Panics
    /// If the lengths differ or the regions overlap.
    pub fn combine_from(self, from: Self, element: Element, reduction: Reduction) {
        assert!(!self.overlaps(from), "a reduction between regions that overlap");
        // SAFETY: the two do not overlap, and the reference ends with the call.
        self.combine(unsafe { from.bytes() }, element, reduction);
    }

    /// Combines `bytes` into the region.
    ///
    /// # Panics
    /// If the lengths differ, or the element does not offer the reduction.
    pub fn combine(self, bytes: &[u8], element: Element, reduction: Reduction) {
        // SAFETY: `bytes` is a reference, and thus not part of a region in use; our reference ends with the call.
        let own = unsafe { self.bytes_mut() };
        reduce_into(element, reduction, own, bytes).expect("checked when the operation began");
    }

    /// Fills the region with the neutral element of the reduction.
    ///
    /// # Panics
    /// If the element does not offer the reduction.
    pub fn neutral(self, element: Element, reduction: Reduction) {
        // SAFETY: the reference ends with the call.
        fill_neutral(element, reduction, unsafe { self.bytes_mut() })
            .expect("checked when the operation began");
    }
}

/// Memory owned by this crate, aligned to a cache line.
pub struct Buffer {
    // A vector and not a box: moving a box would invalidate the pointers of regions.
    lines: Vec<Line>,
    length: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
#[expect(dead_code, reason = "read and written as bytes")]
struct Line([u8; 64]);

impl Buffer {
    /// A buffer of `length` zero bytes.
    pub fn new(length: usize) -> Self {
        Self { lines: vec![Line([0; 64]); length.div_ceil(64)], length }
    }

    /// The buffer's bytes, for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the lines are ours, at least `length` bytes, and borrowed as long as the result is.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }

    /// The buffer's bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: as in `as_mut_slice`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }

    /// A new buffer with the same bytes.
    pub fn copy(&self) -> Self {
        let mut copy = Self::new(self.length);
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy
    }

    /// Combines another buffer of the same length into this one.
    ///
    /// # Panics
    /// If the lengths differ, or the element does not offer the reduction.
    pub fn combine(&mut self, from: &Self, element: Element, reduction: Reduction) {
        reduce_into(element, reduction, self.as_mut_slice(), from.as_slice())
            .expect("checked when the operation began");
    }

    /// The whole buffer as a region, for an operation.
    ///
    /// # Safety
    /// As for [`Region::new`]: until the operation has ended, nothing else uses the buffer, and it is not dropped. It
    /// may be moved.
    pub unsafe fn lend(&mut self) -> Region {
        // SAFETY: the lines are ours, `&mut self` makes us their only user, and the caller guarantees the rest.
        unsafe { Region::new(self.lines.as_mut_ptr().cast(), self.length) }
    }

    /// The whole buffer as a region.
    #[cfg(test)]
    pub(crate) fn region(&mut self) -> Region {
        // SAFETY: unit tests keep a buffer as long as they use its regions, and use it otherwise only in between.
        unsafe { self.lend() }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.length)
    }
}

/// A pool of buffers for reuse, so that iterations after the first allocate nothing.
#[derive(Debug)]
pub struct Pool {
    /// Unused buffers by capacity in bytes, a power of two.
    unused: std::collections::BTreeMap<usize, SizeClass>,
    /// Bytes of unused buffers.
    held: usize,
    /// Bytes of buffers that are in use: taken, and not given back.
    taken: usize,
    /// Most bytes of unused buffers and those in use together. Above it, buffers that are given back are freed.
    most: usize,
}

impl Default for Pool {
    fn default() -> Self {
        Self::of(usize::MAX)
    }
}

/// Unused buffers of one capacity, and the fewest that there were since the pool was last trimmed.
#[derive(Debug, Default)]
struct SizeClass {
    buffers: Vec<Buffer>,
    fewest: usize,
}

impl Pool {
    /// A pool that frees a buffer instead of keeping it if all buffers, including those in use, would exceed `most`
    /// bytes.
    pub fn of(most: usize) -> Self {
        Self { unused: std::collections::BTreeMap::new(), held: 0, taken: 0, most }
    }

    /// Takes a buffer of `length` bytes with unspecified content.
    pub fn take(&mut self, length: usize) -> Buffer {
        let capacity = Self::capacity(length);
        self.taken = self.taken.saturating_add(capacity);
        let class = self.unused.get_mut(&capacity);
        let found = class.and_then(|class| {
            let buffer = class.buffers.pop();
            class.fewest = class.fewest.min(class.buffers.len());
            buffer
        });
        match found {
            Some(mut buffer) => {
                self.held -= capacity;
                buffer.length = length;
                buffer
            }
            None => {
                while self.held > 0 && self.held.saturating_add(self.taken) > self.most {
                    self.drop_one();
                }
                let mut buffer = Buffer::new(capacity);
                buffer.length = length;
                buffer
            }
        }
    }

    /// Bytes that a buffer of `length` occupies.
    pub fn capacity(length: usize) -> usize {
        length.next_power_of_two().max(64)
    }

    /// Frees one of the largest unused buffers.
    fn drop_one(&mut self) {
        if let Some(mut largest) = self.unused.last_entry() {
            let class = largest.get_mut();
            self.held -= class.buffers.pop().map_or(0, |buffer| buffer.lines.len() * 64);
            class.fewest = class.fewest.min(class.buffers.len());
            if class.buffers.is_empty() {
                largest.remove();
            }
        }
    }

    /// Frees all unused buffers.
    pub fn clear(&mut self) {
        (self.unused, self.held) = (std::collections::BTreeMap::new(), 0);
    }

    /// Frees the buffers that stayed unused since the last call.
    pub fn trim(&mut self) {
        for (capacity, class) in &mut self.unused {
            class.buffers.truncate(class.buffers.len() - class.fewest);
            self.held -= capacity * class.fewest;
            class.fewest = class.buffers.len();
        }
        self.unused.retain(|_, class| !class.buffers.is_empty());
    }

    /// Gives a buffer back to the pool.
    pub fn give(&mut self, buffer: Buffer) {
        let capacity = buffer.lines.len() * 64;
        self.taken = self.taken.saturating_sub(capacity);
        if self.held.saturating_add(self.taken).saturating_add(capacity) > self.most {
            return;
        }
        self.held += capacity;
        self.unused.entry(capacity).or_default().buffers.push(buffer);
    }

    /// Bytes of unused buffers.
    pub fn held(&self) -> usize {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_refer_to_their_range() {
        let mut buffer = Buffer::new(100);
        let whole = buffer.region();
        whole.part(10..20).write(&[7; 10]);
        let bytes = || {
            let mut bytes = [0; 100];
            whole.read(&mut bytes);
            bytes
        };
        assert_eq!(bytes().iter().map(|&b| u32::from(b)).sum::<u32>(), 70);
        assert!(whole.part(100..100).is_empty());
        assert!(std::panic::catch_unwind(|| whole.part(90..101)).is_err());
        whole.part(0..50).copy_from(whole.part(5..55));
        assert_eq!(bytes()[4..16], [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
    }

    #[test]
    fn a_pool_reuses_its_buffers() {
        let mut pool = Pool::default();
        let mut first = pool.take(1000);
        let at = first.region().at;
        pool.give(first);
        assert_eq!(pool.held(), 1024);
        let mut again = pool.take(600);
        assert_eq!((again.region().at, again.region().len(), pool.held()), (at, 600, 0));
        assert_eq!(pool.take(0).region().len(), 0);
        pool.give(again);
        pool.clear();
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn a_pool_respects_its_limit() {
        let mut pool = Pool::of(4096);
        let four: Vec<Buffer> = (0..4).map(|_| pool.take(1024)).collect();
        let large = pool.take(2048);
        four.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(pool.held(), 2048, "the large one is in use");
        // A new buffer displaces unused ones.
        let other = pool.take(512);
        assert_eq!(pool.held(), 1024);
        pool.give(other);
        pool.give(large);
        assert_eq!(pool.held(), 1024 + 512 + 2048);
        assert_eq!((pool.take(2000).as_slice().len(), pool.held()), (2000, 1024 + 512));
    }

    #[test]
    fn trim_frees_what_stayed_unused_since_the_last_trim() {
        let mut pool = Pool::default();
        let buffers: Vec<Buffer> = (0..4).map(|_| pool.take(1000)).collect();
        buffers.into_iter().for_each(|buffer| pool.give(buffer));
        pool.trim();
        // All four have been in use since the pool was made.
        assert_eq!(pool.held(), 4 * 1024);
        let two = [pool.take(1000), pool.take(1000)];
        two.into_iter().for_each(|buffer| pool.give(buffer));
        pool.trim();
        assert_eq!(pool.held(), 2 * 1024);
        pool.trim();
        assert_eq!(pool.held(), 0);
    }

    #[test]
    fn regions_that_overlap_are_not_reduced() {
        let mut buffer = Buffer::new(64);
        let whole = buffer.region();
        let reduce = || whole.part(0..32).combine_from(whole.part(16..48), Element::F32, Reduction::Sum);
        assert!(std::panic::catch_unwind(reduce).is_err());
    }
}
