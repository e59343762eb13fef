//! Lets tests lend buffers to operations.

use syncline_protocol::memory::{Buffer, Region};

/// A buffer that can be lent as a whole. Tests keep it until the operations on it have ended.
pub(crate) trait Lent {
    /// The whole buffer, as a region.
    fn region(&mut self) -> Region;
}

impl Lent for Buffer {
    fn region(&mut self) -> Region {
        // SAFETY: before tests use or drop the buffer, they wait for its operations or drop what runs them.
        #[allow(unsafe_code)]
        unsafe {
            self.lend()
        }
    }
}
