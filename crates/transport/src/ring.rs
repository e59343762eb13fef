//! A segment of memory that two processes share. It has a ring of bytes for each direction: one side writes a ring, the
//! other reads it.
//!
//! The file has `unsafe` code. It does not trust what the other side writes into the segment. It copies each of the
//! other side's byte counts once and checks the copy before it uses it ([`InvalidCounts`]). Bytes are copied or
//! combined; only copies are inspected. The segment cannot shrink (its file is sealed), so no access can fault.
//!
//! | bytes | contents |
//! |---|---|
//! | 0..8, 256..264 | total number of bytes written to the first ring, to the second ring |
//! | 128..136, 384..392 | total number of bytes read from the first ring, from the second ring |
//! | 512..516, 640..644 | what the first side, the second side waits for while it sleeps |
//! | 4096.. | the first ring, then the second |

#![allow(unsafe_code)]

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

const CONTROL: usize = 4096;
const RING: usize = 256;
const WRITTEN: usize = 0;
const READ: usize = 128;
const SLEEPERS: usize = 512;
const SLEEPER: usize = 128;

/// Smallest and largest number of bytes of a ring, which is a power of two.
const LEAST: usize = 4096;
const MOST: usize = 1 << 30;

/// A side that sleeps waits for bytes to read.
pub(super) const BYTES: u32 = 1;
/// A side that sleeps waits for room to write.
pub(super) const ROOM: u32 = 2;

/// The shared memory, mapped into this process.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is valid on every thread. Its control words are accessed by atomics only, and the bytes of a ring
// by one end at a time.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the memory was mapped with this length, and nothing refers to it any more.
        _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

impl Mapping {
    fn of(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: this creates a new mapping at an address that the system chooses.
        let at = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, length })
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= CONTROL);
        // SAFETY: the word is aligned, lies in the first page, which every mapping has, and is accessed only as an
        // atomic.
        unsafe { AtomicU64::from_ptr(self.at.as_ptr().add(at).cast()) }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        debug_assert!(at.is_multiple_of(4) && at + 4 <= CONTROL);
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().add(at).cast()) }
    }
}

/// A segment before its two ends are made.
#[derive(Debug)]
pub(super) struct Segment {
    file: OwnedFd,
    mapping: Mapping,
    capacity: usize,
}

/// The other side's byte counts are impossible.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidCounts;

impl From<InvalidCounts> for io::Error {
    fn from(_: InvalidCounts) -> Self {
        Self::new(io::ErrorKind::InvalidData, "wrote impossible byte counts into shared memory")
    }
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
    pub(super) fn new(capacity: usize) -> io::Result<Self> {
        let length = Self::length(Self::check_capacity(capacity)?);
        let file = rustix::fs::memfd_create("syncline", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        // Allocate all memory now, so that a lack of memory fails here and not at a write.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Mapping::of(file.as_fd(), length)?;
        Ok(Self { file, mapping, capacity })
    }

    /// Maps a segment that the other side created.
    ///
    /// # Errors
    /// The file is not a segment of this size, or could shrink while it is used.
    pub(super) fn of(file: OwnedFd, capacity: u64) -> io::Result<Self> {
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let capacity = Self::check_capacity(usize::try_from(capacity).unwrap_or(usize::MAX))?;
        let length = Self::length(capacity);
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(bad("it is not sealed against shrinking"));
        }
        if rustix::fs::fstat(&file)?.st_size != length as i64 {
            return Err(bad("its size differs from the announced one"));
        }
        let mapping = Mapping::of(file.as_fd(), length)?;
        Ok(Self { file, mapping, capacity })
    }

    fn check_capacity(capacity: usize) -> io::Result<usize> {
        let fits = capacity.is_power_of_two() && (LEAST..=MOST).contains(&capacity);
        fits.then_some(capacity).ok_or(io::ErrorKind::InvalidInput.into())
    }

    /// The number of bytes of a ring.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// The file that the other side needs to map the segment.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the ends of side 0 or 1. Each process takes the ends of one side, once.
    pub(super) fn ends(self, side: usize) -> (Writer, Reader, Sleep) {
        let Self { mapping, capacity, .. } = self;
        let mapping = Arc::new(mapping);
        let end = |ring: usize| End {
            mapping: Arc::clone(&mapping),
            control: ring * RING,
            data: CONTROL + ring * capacity,
            capacity,
            ours: 0,
            theirs: 0,
        };
        let sleep = Sleep {
            mapping: Arc::clone(&mapping),
            ours: SLEEPERS + side * SLEEPER,
            theirs: SLEEPERS + (1 - side) * SLEEPER,
        };
        (Writer(end(side)), Reader(end(1 - side)), sleep)
    }
}

/// One end of a ring.
#[derive(Debug)]
struct End {
    mapping: Arc<Mapping>,
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
    /// has at most `most` bytes.
    fn piece(&self, from: u64, most: usize) -> (NonNull<u8>, usize) {
        let at = (from % self.capacity as u64) as usize;
        // SAFETY: `data + capacity` is within the mapping, and `at` is less than `capacity`.
        let place = unsafe { self.mapping.at.add(self.data + at) };
        (place, most.min(self.capacity - at))
    }
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
        let read = end.mapping.long(end.control + READ).load(Ordering::Acquire);
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
    pub(super) fn write(&mut self, bytes: &[u8], room: usize) -> usize {
        let end = &mut self.0;
        let most = bytes.len().min(room).min(end.capacity - (end.ours - end.theirs) as usize);
        let mut done = 0;
        while done < most {
            let (place, length) = end.piece(end.ours + done as u64, most - done);
            // SAFETY: the piece lies within the mapping and does not overlap `bytes`, which is outside it. A correct
            // reader does not access a piece that is not written yet; an incorrect one reads meaningless bytes.
            unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), place.as_ptr(), length) };
            done += length;
        }
        end.ours += most as u64;
        // The release makes the bytes visible before the count.
        end.mapping.long(end.control + WRITTEN).store(end.ours, Ordering::Release);
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
        let written = end.mapping.long(end.control + WRITTEN).load(Ordering::Acquire);
        let waiting = written.wrapping_sub(end.ours);
        if waiting > end.capacity as u64 || waiting < end.theirs.wrapping_sub(end.ours) {
            return Err(InvalidCounts);
        }
        end.theirs = written;
        Ok(waiting as usize)
    }

    /// The next contiguous bytes, at most `most`, of those that [`Reader::waiting`] counted. An incorrect writer may
    /// change them at any time. Copy or combine them, but base no decision on reading them twice.
    pub(super) fn bytes(&self, most: usize) -> &[u8] {
        let end = &self.0;
        let (place, length) = end.piece(end.ours, most.min((end.theirs - end.ours) as usize));
        // SAFETY: the bytes lie within the mapping, which lives as long as this end, and any byte is a valid `u8`. A
        // correct writer does not change them until `consume`, which borrows this end exclusively.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), length) }
    }

    /// Marks the next `bytes` as read, so the writer may overwrite them.
    pub(super) fn consume(&mut self, bytes: usize) {
        let end = &mut self.0;
        end.ours += bytes as u64;
        end.mapping.long(end.control + READ).store(end.ours, Ordering::Release);
    }
}

/// Which side sleeps. A side that goes to sleep first sets its word, then looks for bytes or room once more. A side
/// that has provided bytes or room then reads the other side's word. Both have a full fence between the two steps, so
/// at least one sees what the other did (Dekker's algorithm), and no wake-up is lost.
#[derive(Debug)]
pub(super) struct Sleep {
    mapping: Arc<Mapping>,
    ours: usize,
    theirs: usize,
}

impl Sleep {
    /// Announces that this side is about to sleep until there is `what` ([`BYTES`], [`ROOM`]). The caller looks once
    /// more before it sleeps.
    pub(super) fn announce(&self, what: u32) {
        self.mapping.word(self.ours).store(what, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that this side is awake.
    pub(super) fn end(&self) {
        self.mapping.word(self.ours).store(0, Ordering::Relaxed);
    }

    /// Returns whether the other side sleeps and waits for `what`, and has to be woken. Returns true only once per
    /// sleep.
    pub(super) fn awaited(&self, what: u32) -> bool {
        fence(Ordering::SeqCst);
        let theirs = self.mapping.word(self.theirs);
        theirs.load(Ordering::Relaxed) & what != 0 && theirs.swap(0, Ordering::Relaxed) & what != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    type Side = (Writer, Reader, Sleep);

    /// Both sides of a segment, each with its own mapping.
    fn sides(capacity: usize) -> (Side, Side) {
        let one = Segment::new(capacity).unwrap();
        let file = one.file().try_clone_to_owned().unwrap();
        let other = Segment::of(file, capacity as u64).unwrap();
        (one.ends(0), other.ends(1))
    }

    fn pattern(at: u64) -> u8 {
        (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn bytes_pass_between_two_threads_in_order(seed: u64, most in 1usize..9000, total in 1u64..300_000) {
            let ((mut writer, ..), (_, mut reader, _)) = sides(4096);
            let writes = std::thread::spawn(move || {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut at = 0;
                while at < total {
                    let length = random.random_range(1..=most as u64).min(total - at);
                    let bytes: Vec<u8> = (at..at + length).map(pattern).collect();
                    let room = writer.room().unwrap();
                    at += writer.write(&bytes, room) as u64;
                    if room == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            let mut random = ChaCha8Rng::seed_from_u64(!seed);
            let mut at = 0;
            while at < total {
                let waiting = reader.waiting().unwrap();
                prop_assert!(waiting <= 4096 && at + waiting as u64 <= total);
                if waiting == 0 {
                    std::thread::yield_now();
                    continue;
                }
                let bytes = reader.bytes(random.random_range(1..=most));
                let length = bytes.len();
                prop_assert!((1..=waiting).contains(&length));
                prop_assert!((at..).zip(bytes).all(|(at, &byte)| byte == pattern(at)));
                reader.consume(length);
                at += length as u64;
            }
            writes.join().unwrap();
            prop_assert_eq!(reader.waiting(), Ok(0));
        }

        /// Whatever counts the other side writes, the result is an error, or at most as many bytes as a ring has.
        #[test]
        fn arbitrary_counts_never_exceed_the_ring(counts in prop::collection::vec((0usize..2, any::<u64>()), 1..20)) {
            let ((mut writer, mut reader, _), (mut theirs, ..)) = sides(4096);
            let room = writer.room().unwrap();
            writer.write(&[1; 1000], room);
            let room = theirs.room().unwrap();
            theirs.write(&[2; 500], room);
            for (which, count) in counts {
                let small = count % 8192;
                for count in [count, small] {
                    // The other side's counts: bytes that it has read from our ring, and has written to its own.
                    let at = if which == 0 { READ } else { RING + WRITTEN };
                    writer.0.mapping.long(at).store(count, Ordering::Release);
                    if let Ok(room) = writer.room() {
                        prop_assert!(room <= 4096);
                        prop_assert!(writer.write(&[3; 5000], room) <= room);
                    }
                    if let Ok(waiting) = reader.waiting() {
                        prop_assert!(waiting <= 4096);
                        let length = reader.bytes(usize::MAX).len();
                        prop_assert!(length <= waiting);
                        reader.consume(length);
                    }
                }
            }
        }
    }

    #[test]
    fn impossible_counts_are_errors() {
        let ((mut writer, mut reader, _), _) = sides(4096);
        writer.0.mapping.long(READ).store(1, Ordering::Release);
        assert_eq!(writer.room(), Err(InvalidCounts));
        reader.0.mapping.long(RING + WRITTEN).store(4097, Ordering::Release);
        assert_eq!(reader.waiting(), Err(InvalidCounts));
        reader.0.mapping.long(RING + WRITTEN).store(4096, Ordering::Release);
        assert_eq!(reader.waiting(), Ok(4096));
        reader.0.mapping.long(RING + WRITTEN).store(4095, Ordering::Release);
        assert_eq!(reader.waiting(), Err(InvalidCounts));
    }

    #[test]
    fn no_wake_up_is_lost() {
        let ((mut writer, _, here), (_, mut reader, there)) = sides(4096);
        let (wake, woken) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            for _ in 0..20_000 {
                loop {
                    if reader.waiting().unwrap() > 0 {
                        break;
                    }
                    there.announce(BYTES);
                    if reader.waiting().unwrap() == 0 {
                        // A wake-up that is lost for this byte would never come.
                        woken.recv_timeout(std::time::Duration::from_secs(20)).expect("it is woken");
                    }
                    there.end();
                }
                reader.consume(1);
            }
        });
        let mut sent = 0;
        while sent < 20_000 {
            let room = writer.room().unwrap();
            sent += writer.write(&[7], room);
            if here.awaited(BYTES) {
                wake.send(()).unwrap();
            }
        }
        sleeper.join().unwrap();
    }

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
