//! Two sides of a ring: in two threads, and with counts that no correct side writes.

use super::segment::Segment;
use super::*;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Cases of a property, or rounds of a loop; Miri takes a hundred times as long.
const fn rounds(rounds: u32) -> u32 {
    if cfg!(miri) { rounds.div_ceil(100) } else { rounds }
}

/// Bytes of a ring, of which Miri writes few.
const CAPACITY: usize = if cfg!(miri) { 256 } else { 4096 };

/// Both sides of a segment, each with its own mapping. Under Miri: one mapping for both sides; `segment.rs` and
/// `Memory::of` run natively only.
fn sides(capacity: usize) -> (Ends, Ends) {
    if cfg!(miri) {
        return both_sides(Memory::plain(CONTROL + 2 * capacity), capacity);
    }
    let one = Segment::new(capacity).unwrap();
    let file = one.file().try_clone_to_owned().unwrap();
    let other = Segment::of(file, capacity as u64).unwrap();
    (one.ends(), other.ends())
}

fn pattern(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(rounds(24)))]
    #[test]
    fn bytes_pass_between_two_threads_in_order(seed: u64, most in 1usize..9000, total in 1..u64::from(rounds(300_000))) {
        let ((mut writer, ..), (_, mut reader, _)) = sides(CAPACITY);
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
            prop_assert!(waiting <= CAPACITY && at + waiting as u64 <= total);
            if waiting == 0 {
                std::thread::yield_now();
                continue;
            }
            let (length, right) = reader.read(random.random_range(1..=most), |bytes| {
                (bytes.len(), (at..).zip(bytes).all(|(at, &byte)| byte == pattern(at)))
            });
            prop_assert!(right && (1..=waiting).contains(&length));
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
                writer.0.memory.long(at).store(count, Ordering::Release);
                if let Ok(room) = writer.room() {
                    prop_assert!(room <= 4096);
                    prop_assert!(writer.write(&[3; 5000], room) <= room);
                }
                if let Ok(waiting) = reader.waiting() {
                    prop_assert!(waiting <= 4096);
                    let length = reader.read(usize::MAX, <[u8]>::len);
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
    writer.0.memory.long(READ).store(1, Ordering::Release);
    assert_eq!(writer.room(), Err(InvalidCounts));
    reader.0.memory.long(RING + WRITTEN).store(4097, Ordering::Release);
    assert_eq!(reader.waiting(), Err(InvalidCounts));
    reader.0.memory.long(RING + WRITTEN).store(4096, Ordering::Release);
    assert_eq!(reader.waiting(), Ok(4096));
    reader.0.memory.long(RING + WRITTEN).store(4095, Ordering::Release);
    assert_eq!(reader.waiting(), Err(InvalidCounts));
}

#[test]
fn no_wake_up_is_lost() {
    const ROUNDS: u32 = rounds(20_000);
    let ((mut writer, _, here), (_, mut reader, there)) = sides(4096);
    let (wake, woken) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
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
    while sent < ROUNDS {
        let room = writer.room().unwrap();
        sent += writer.write(&[7], room) as u32;
        if here.awaited(BYTES) {
            wake.send(()).unwrap();
        }
    }
    sleeper.join().unwrap();
}
