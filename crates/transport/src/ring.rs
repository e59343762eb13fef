//! A segment of memory that two processes share, with a ring of bytes each way: one side writes a ring, the other reads it.
//!
//! A room with `unsafe` code. What the other side has written into the segment is not believed: how far it says that it is, is
//! copied once, and held against what it can be before it is used ([`Nonsense`]); bytes are copied or combined, and looked at
//! only where they have been copied to. The segment cannot shrink (its file is sealed), so that no access can fault.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8, 256..264 | bytes written to the first ring, and to the second, ever |
//! | 128..136, 384..392 | bytes read from it, ever |
//! | 512..516, 640..644 | what the first side waits for while it sleeps, and the second |
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

/// Bytes that a ring may have: a power of two.
const LEAST: usize = 4096;
const MOST: usize = 1 << 30;

/// What a side waits for while it sleeps: bytes to read.
pub(super) const BYTES: u32 = 1;
/// Room to write.
pub(super) const ROOM: u32 = 2;

/// Memory of this process that another shares.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to whoever has it, on whichever thread; what is in it is reached by atomics, and bytes of a
// ring by the one end that they belong to.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        _ = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

impl Mapping {
    fn of(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, at a place that the system chooses.
        let at = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), length, access, MapFlags::SHARED, file, 0)?
        };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, length })
    }

    fn long(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= CONTROL);
        // SAFETY: within the first page, which every mapping has, aligned, and reached as an atomic alone.
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

/// What the other side says of itself cannot be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Nonsense;

impl From<Nonsense> for io::Error {
    fn from(_: Nonsense) -> Self {
        Self::new(io::ErrorKind::InvalidData, "shares memory in which its counts make no sense")
    }
}

impl Segment {
    /// Bytes of a segment with rings of `capacity` bytes.
    const fn length(capacity: usize) -> usize {
        CONTROL + 2 * capacity
    }

    /// A new segment, which nobody else can find.
    ///
    /// # Errors
    /// Where the system has no memory for it, or offers none to share.
    pub(super) fn new(capacity: usize) -> io::Result<Self> {
        let length = Self::length(Self::allowed(capacity)?);
        let file = rustix::fs::memfd_create("syncline", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        // Memory that is not there must be missed now, and not where it is written.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mapping = Mapping::of(file.as_fd(), length)?;
        Ok(Self { file, mapping, capacity })
    }

    /// A segment of somebody else.
    ///
    /// # Errors
    /// Where it is none, or could shrink while it is used.
    pub(super) fn of(file: OwnedFd, capacity: u64) -> io::Result<Self> {
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let capacity = Self::allowed(usize::try_from(capacity).unwrap_or(usize::MAX))?;
        let length = Self::length(capacity);
        if !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(bad("offers memory that could shrink"));
        }
        if rustix::fs::fstat(&file)?.st_size != length as i64 {
            return Err(bad("offers memory of another size than it says"));
        }
        let mapping = Mapping::of(file.as_fd(), length)?;
        Ok(Self { file, mapping, capacity })
    }

    fn allowed(capacity: usize) -> io::Result<usize> {
        let fits = capacity.is_power_of_two() && (LEAST..=MOST).contains(&capacity);
        fits.then_some(capacity).ok_or(io::ErrorKind::InvalidInput.into())
    }

    /// Bytes of a ring.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// What the other side needs to have it, too.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The ends of side 0 or 1. Each process takes those of one side, once.
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
    /// Bytes written or read here, ever: what is shared is a copy.
    ours: u64,
    /// What the other side said last.
    theirs: u64,
}

impl End {
    /// The bytes from count `from` on that lie in one piece, `most` at most.
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
    /// Bytes that there is room for.
    ///
    /// # Errors
    /// Where the reader says that it has read what was not written, or less than before.
    pub(super) fn room(&mut self) -> Result<usize, Nonsense> {
        let end = &mut self.0;
        // Pairs with the release in `Reader::consume`: what was read may be overwritten.
        let read = end.mapping.long(end.control + READ).load(Ordering::Acquire);
        let unread = end.ours.wrapping_sub(read);
        if unread > end.ours.wrapping_sub(end.theirs) {
            return Err(Nonsense);
        }
        end.theirs = read;
        Ok(end.capacity - unread as usize)
    }

    /// Bytes of the ring.
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Writes as much of `bytes` as fits into `room`, and shows it to the reader. At most as many as [`Writer::room`] said.
    pub(super) fn write(&mut self, bytes: &[u8], room: usize) -> usize {
        let end = &mut self.0;
        let most = bytes.len().min(room).min(end.capacity - (end.ours - end.theirs) as usize);
        let mut done = 0;
        while done < most {
            let (place, length) = end.piece(end.ours + done as u64, most - done);
            // SAFETY: the piece is within the mapping; it is not yet written, so the reader (if it keeps to the rules)
            // leaves it alone, and tensors lie elsewhere. A reader that does not, gets bytes of no meaning.
            unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), place.as_ptr(), length) };
            done += length;
        }
        end.ours += most as u64;
        // The bytes come first.
        end.mapping.long(end.control + WRITTEN).store(end.ours, Ordering::Release);
        most
    }
}

/// The end that reads.
#[derive(Debug)]
pub(super) struct Reader(End);

impl Reader {
    /// Bytes that wait to be read.
    ///
    /// # Errors
    /// Where the writer says that it has written more than there is room for, or less than before.
    pub(super) fn waiting(&mut self) -> Result<usize, Nonsense> {
        let end = &mut self.0;
        // Pairs with the release in `Writer::write`.
        let written = end.mapping.long(end.control + WRITTEN).load(Ordering::Acquire);
        let waiting = written.wrapping_sub(end.ours);
        if waiting > end.capacity as u64 || waiting < end.theirs.wrapping_sub(end.ours) {
            return Err(Nonsense);
        }
        end.theirs = written;
        Ok(waiting as usize)
    }

    /// The next bytes that lie in one piece, at most `most`, of those that [`Reader::waiting`] said. A writer that breaks the
    /// rules may change them at any time: they are good for being copied or combined, and for nothing that is decided by
    /// looking at them twice.
    pub(super) fn bytes(&self, most: usize) -> &[u8] {
        let end = &self.0;
        let (place, length) = end.piece(end.ours, most.min((end.theirs - end.ours) as usize));
        // SAFETY: within the mapping, which lives as long as this end; any byte is a valid `u8`. The writer (if it keeps to
        // the rules) leaves them alone until `consume`, which needs this end for itself.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), length) }
    }

    /// That `bytes` have been read.
    pub(super) fn consume(&mut self, bytes: usize) {
        let end = &mut self.0;
        end.ours += bytes as u64;
        end.mapping.long(end.control + READ).store(end.ours, Ordering::Release);
    }
}

/// Who sleeps. Whoever goes to sleep says so and looks once more; whoever has done something looks who sleeps: with a full
/// fence between the two on both sides, one of them sees the other (Dekker's rule), and nobody sleeps for ever.
#[derive(Debug)]
pub(super) struct Sleep {
    mapping: Arc<Mapping>,
    ours: usize,
    theirs: usize,
}

impl Sleep {
    /// This side is about to sleep until there is what `what` says. It looks once more before it does.
    pub(super) fn doze(&self, what: u32) {
        self.mapping.word(self.ours).store(what, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// This side is awake.
    pub(super) fn wake(&self) {
        self.mapping.word(self.ours).store(0, Ordering::Relaxed);
    }

    /// Whether the other side sleeps and waits for what there is now, and has to be woken: only one call says so.
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

    /// Both sides of a segment, each with a mapping of its own.
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

        /// Whatever the other side writes over its counts: an error or fewer bytes than a ring has, never more.
        #[test]
        fn scribbled_counts_lead_to_errors(counts in prop::collection::vec((0usize..2, any::<u64>()), 1..20)) {
            let ((mut writer, mut reader, _), (mut theirs, ..)) = sides(4096);
            let room = writer.room().unwrap();
            writer.write(&[1; 1000], room);
            let room = theirs.room().unwrap();
            theirs.write(&[2; 500], room);
            for (which, count) in counts {
                let small = count % 8192;
                for count in [count, small] {
                    // What the other side owns: how far it has read our ring, and how far it has written its own.
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
    fn counts_that_cannot_be_are_told() {
        let ((mut writer, mut reader, _), _) = sides(4096);
        writer.0.mapping.long(READ).store(1, Ordering::Release);
        assert_eq!(writer.room(), Err(Nonsense));
        reader.0.mapping.long(RING + WRITTEN).store(4097, Ordering::Release);
        assert_eq!(reader.waiting(), Err(Nonsense));
        reader.0.mapping.long(RING + WRITTEN).store(4096, Ordering::Release);
        assert_eq!(reader.waiting(), Ok(4096));
        reader.0.mapping.long(RING + WRITTEN).store(4095, Ordering::Release);
        assert_eq!(reader.waiting(), Err(Nonsense));
    }

    #[test]
    fn nobody_sleeps_through_what_it_waits_for() {
        let ((mut writer, _, here), (_, mut reader, there)) = sides(4096);
        let (ring, bell) = std::sync::mpsc::channel();
        let sleeper = std::thread::spawn(move || {
            for _ in 0..20_000 {
                loop {
                    if reader.waiting().unwrap() > 0 {
                        break;
                    }
                    there.doze(BYTES);
                    if reader.waiting().unwrap() == 0 {
                        // A bell that is not rung for this byte would never be rung.
                        bell.recv_timeout(std::time::Duration::from_secs(20)).expect("it is woken");
                    }
                    there.wake();
                }
                reader.consume(1);
            }
        });
        let mut sent = 0;
        while sent < 20_000 {
            let room = writer.room().unwrap();
            sent += writer.write(&[7], room);
            if here.awaited(BYTES) {
                ring.send(()).unwrap();
            }
        }
        sleeper.join().unwrap();
    }

    #[test]
    fn memory_that_could_shrink_or_is_none_is_refused() {
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
