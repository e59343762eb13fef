//! Buffers of tests, lent to operations.

use syncline_protocol::memory::{Buffer, Region};

/// All of a buffer. Tests keep it until operations on it are over.
pub(crate) trait Lent {
    /// All of it.
    fn region(&mut self) -> Region;
}

impl Lent for Buffer {
    fn region(&mut self) -> Region {
        // SAFETY: tests wait for operations on it, or drop whatever runs them, before they touch or drop it.
        #[allow(unsafe_code)]
        unsafe {
            self.lend()
        }
    }
}
