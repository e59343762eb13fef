//! The layout of the memory that two processes share.
//!
//! | bytes | contents |
//! |---|---|
//! | 0..8, 256..264 | total number of bytes written to the first ring, to the second ring |
//! | 128..136, 384..392 | total number of bytes read from the first ring, from the second ring |
//! | 512..516, 640..644 | what the first side, the second side waits for while it sleeps |
//! | 4096.. | the first ring, then the second |

/// Bytes before the first ring.
pub(super) const CONTROL: usize = 4096;
/// Bytes from the counts of the first ring to those of the second.
pub(super) const RING: usize = 256;
/// Offset of a ring's number of bytes written, within its counts.
pub(super) const WRITTEN: usize = 0;
/// Offset of a ring's number of bytes read, within its counts.
pub(super) const READ: usize = 128;
/// Offset of the word that says what the first side waits for.
pub(super) const SLEEPERS: usize = 512;
/// Bytes from the first side's word to the second's.
pub(super) const SLEEPER: usize = 128;
