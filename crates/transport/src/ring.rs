//! Memory that two processes share. It has a ring of bytes for each direction: one side writes a ring, the other reads
//! it.
//!
//! This side does not trust what the other side writes into the memory. It copies each of the other side's byte counts
//! once and checks the copy before it uses it ([`InvalidCounts`]). Bytes are copied or combined; only copies are
//! inspected.
//!
//! - [`segment`]: the memory's file, which the two sides pass on;
//! - `layout`: the offsets of counts, words and rings;
//! - `memory`: the memory as this process sees it, with most of the `unsafe` code;
//! - `model`: the same for loom, which runs the tests in `orders` in every order of their threads' steps.

mod layout;
#[cfg(not(loom))]
mod memory;
#[cfg(loom)]
#[path = "ring/model.rs"]
mod memory;
#[cfg(all(test, loom))]
mod orders;
pub(super) mod segment;
#[cfg(all(test, not(loom)))]
mod tests;

use layout::{CONTROL, READ, RING, SLEEPER, SLEEPERS, WRITTEN};
#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};
use memory::Memory;
use std::io;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{Ordering, fence};

/// A side that sleeps waits for bytes to read.
pub(super) const BYTES: u32 = 1;
/// A side that sleeps waits for room to write.
pub(super) const ROOM: u32 = 2;

/// The other side's byte counts are impossible.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidCounts;

impl From<InvalidCounts> for io::Error {
    fn from(_: InvalidCounts) -> Self {
        Self::new(io::ErrorKind::InvalidData, "wrote impossible byte counts into shared memory")
    }
}

/// One end of a ring.
#[derive(Debug)]
struct End {
    memory: Arc<Memory>,
    control: usize,
    data: usize,
    capacity: usize,
    /// The total number of bytes written or read by this end. The shared memory has a copy of it.
    ours: u64,
    /// The other end's total, as last read from the shared memory and checked.
    theirs: u64,
}

impl End {
    /// The longest contiguous piece of the ring that begins at byte `from`, counted over the connection's life, and
    /// has at most `most` bytes: its offset in the memory, and its length.
    fn piece(&self, from: u64, most: usize) -> (usize, usize) {
        let at = (from % self.capacity as u64) as usize;
        (self.data + at, most.min(self.capacity - at))
    }
}

/// A side of the memory: it writes the ring that has its number, and reads the other.
#[derive(Clone, Copy, Debug)]
enum Side {
    First,
    Second,
}

/// What one side uses: the end that writes one ring, the end that reads the other, and the words that say who sleeps.
type Ends = (Writer, Reader, Sleep);

/// Returns the ends of a side of rings of `capacity` bytes.
///
/// # Safety
/// The ends of each side are made once, in one process, for all mappings of the memory.
#[allow(unsafe_code)]
unsafe fn ends(memory: &Arc<Memory>, capacity: usize, side: Side) -> Ends {
    let side = match side {
        Side::First => 0,
        Side::Second => 1,
    };
    let end = |ring: usize| End {
        memory: Arc::clone(memory),
        control: ring * RING,
        data: CONTROL + ring * capacity,
        capacity,
        ours: 0,
        theirs: 0,
    };
    let sleep = Sleep {
        memory: Arc::clone(memory),
        ours: SLEEPERS + side * SLEEPER,
        theirs: SLEEPERS + (1 - side) * SLEEPER,
    };
    (Writer(end(side)), Reader(end(1 - side)), sleep)
}

/// The ends of both sides of memory that has no other mapping.
#[cfg(test)]
#[allow(unsafe_code)]
fn both_sides(memory: Memory, capacity: usize) -> (Ends, Ends) {
    let memory = Arc::new(memory);
    // SAFETY: the memory was moved here, so these are its only ends.
    unsafe { (ends(&memory, capacity, Side::First), ends(&memory, capacity, Side::Second)) }
}

/// The end that writes.
#[derive(Debug)]
pub(super) struct Writer(End);

impl Writer {
    /// Returns the number of bytes that there is room for.
    ///
    /// # Errors
    /// The reader's count exceeds what was written, or has decreased.
    pub(super) fn room(&mut self) -> Result<usize, InvalidCounts> {
        let end = &mut self.0;
        // Pairs with the release in `Reader::consume`: bytes that were read may be overwritten.
        let read = end.memory.long(end.control + READ).load(Ordering::Acquire);
        let unread = end.ours.wrapping_sub(read);
        if unread > end.ours.wrapping_sub(end.theirs) {
            return Err(InvalidCounts);
        }
        end.theirs = read;
        Ok(end.capacity - unread as usize)
    }

    /// The number of bytes of the ring.
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Writes as much of `bytes` as fits into `room`, makes it visible to the reader, and returns its length. It
    /// never exceeds the number that [`Writer::room`] returned.
    #[allow(unsafe_code)]
    pub(super) fn write(&mut self, bytes: &[u8], room: usize) -> usize {
        let end = &mut self.0;
        let most = bytes.len().min(room).min(end.capacity - (end.ours - end.theirs) as usize);
        let mut done = 0;
        while done < most {
            let (place, length) = end.piece(end.ours + done as u64, most - done);
            // SAFETY: the other end reads these bytes only once they are counted as written, below, and writes none. This
            // is the only end that writes, and `self` is borrowed exclusively.
            unsafe { end.memory.write(place, &bytes[done..done + length]) };
            done += length;
        }
        end.ours += most as u64;
        // The release makes the bytes visible before the count.
        end.memory.long(end.control + WRITTEN).store(end.ours, Ordering::Release);
        most
    }
}

/// The end that reads.
#[derive(Debug)]
pub(super) struct Reader(End);

impl Reader {
    /// Returns the number of bytes that wait to be read.
    ///
    /// # Errors
    /// The writer's count exceeds the room that there was, or has decreased.
    pub(super) fn waiting(&mut self) -> Result<usize, InvalidCounts> {
        let end = &mut self.0;
        // Pairs with the release in `Writer::write`.
        let written = end.memory.long(end.control + WRITTEN).load(Ordering::Acquire);
        let waiting = written.wrapping_sub(end.ours);
        if waiting > end.capacity as u64 || waiting < end.theirs.wrapping_sub(end.ours) {
            return Err(InvalidCounts);
        }
        end.theirs = written;
        Ok(waiting as usize)
    }

    /// Calls `look` with the next contiguous bytes, at most `most`, of those that [`Reader::waiting`] counted. An
    /// incorrect writer may change them at any time. Copy or combine them, but base no decision on reading them twice.
    #[allow(unsafe_code)]
    pub(super) fn read<R>(&self, most: usize, look: impl FnOnce(&[u8]) -> R) -> R {
        let end = &self.0;
        let (place, length) = end.piece(end.ours, most.min((end.theirs - end.ours) as usize));
        // SAFETY: `piece` lies within the ring, and this process does not write the ring that it reads.
        unsafe { end.memory.read(place, length, look) }
    }

    /// Marks the next `bytes` as read, so the writer may overwrite them.
    pub(super) fn consume(&mut self, bytes: usize) {
        let end = &mut self.0;
        end.ours += bytes as u64;
        end.memory.long(end.control + READ).store(end.ours, Ordering::Release);
    }
}

/// Which side sleeps. A side that goes to sleep first sets its word, then looks for bytes or room once more. A side
/// that has provided bytes or room then reads the other side's word. Both have a full fence between the two steps, so
/// at least one sees what the other did (Dekker's algorithm), and no wake-up is lost.
#[derive(Debug)]
pub(super) struct Sleep {
    memory: Arc<Memory>,
    ours: usize,
    theirs: usize,
}

impl Sleep {
    /// Announces that this side is about to sleep until there is `what` ([`BYTES`], [`ROOM`]). The caller looks once
    /// more before it sleeps.
    pub(super) fn announce(&self, what: u32) {
        // A swap, because loom loses track of the order of stores and swaps of one word. It costs next to nothing beside
        // the fence.
        self.memory.word(self.ours).swap(what, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that this side is awake.
    pub(super) fn end(&self) {
        self.memory.word(self.ours).swap(0, Ordering::Relaxed);
    }

    /// Returns whether the other side sleeps and waits for `what`, and has to be woken. Returns true only once per
    /// sleep.
    pub(super) fn awaited(&self, what: u32) -> bool {
        fence(Ordering::SeqCst);
        let theirs = self.memory.word(self.theirs);
        theirs.load(Ordering::Relaxed) & what != 0 && theirs.swap(0, Ordering::Relaxed) & what != 0
    }
}
