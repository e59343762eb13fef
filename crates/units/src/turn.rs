//! The translations under which equal ranks are told apart only by their number.

/// A way of moving every coordinate of a dimension at once, so that any coordinate can be moved to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// Coordinate `c` moves to `c - by`, wrapping at the size.
    Cyclic,
    /// Coordinate `c` moves to `c ^ by`; the size is a power of two.
    Xor,
}

impl Turn {
    /// Where coordinate `index` is once `to` has been moved to 0, both below `size`.
    #[inline]
    pub const fn seen_from(self, index: u32, to: u32, size: u32) -> u32 {
        match self {
            Self::Cyclic if index >= to => index - to,
            Self::Cyclic => index + size - to,
            Self::Xor => index ^ to,
        }
    }
}
