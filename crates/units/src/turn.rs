//! Translations of a dimension's coordinates. Symmetric ranks differ only by such a translation.

/// A way of moving all coordinates of a dimension at once, such that any coordinate can be moved to 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// Coordinate `c` moves to `c - by`, wrapping at the size.
    Cyclic,
    /// Coordinate `c` moves to `c ^ by`; the size is a power of two.
    Xor,
}

impl Turn {
    /// The coordinate that `index` moves to when `to` moves to 0. Both are below `size`.
    #[inline]
    pub const fn seen_from(self, index: u32, to: u32, size: u32) -> u32 {
        match self {
            Self::Cyclic if index >= to => index - to,
            Self::Cyclic => index + size - to,
            Self::Xor => index ^ to,
        }
    }
}

/// A subset of a turn's moves: those that move coordinate 0 to a multiple of `step`, which divides the size.
/// Coordinates below `step` represent all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turned {
    /// How coordinates move.
    pub turn: Turn,
    /// Number of coordinates that no move maps onto each other. A power of two for [`Turn::Xor`].
    pub step: u32,
}

impl Turned {
    /// The coordinate that `index` moves to when `to` moves below the step. Both are below `size`.
    #[inline]
    pub const fn seen_from(self, index: u32, to: u32, size: u32) -> u32 {
        self.turn.seen_from(index, to - to % self.step, size)
    }

    /// The coordinate that `index` moves to in move `number` of `size / step`.
    #[inline]
    pub const fn moved(self, index: u32, number: u32, size: u32) -> u32 {
        let by = number * self.step;
        match self.turn {
            Turn::Cyclic if index < size - by => index + by,
            Turn::Cyclic => index - (size - by),
            Turn::Xor => index ^ by,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seen_from_undoes_moved() {
        let cases = [(Turn::Cyclic, 12, 3), (Turn::Cyclic, 5, 1), (Turn::Xor, 16, 4), (Turn::Xor, 8, 1)];
        for (turn, size, step) in cases {
            let turned = Turned { turn, step };
            for (index, number) in (0..size).flat_map(|i| (0..size / step).map(move |n| (i, n))) {
                for below in 0..step {
                    let [to, from] = [below, index].map(|c| turned.moved(c, number, size));
                    assert_eq!(to % step, below);
                    assert_eq!(turned.seen_from(from, to, size), index);
                }
            }
        }
    }
}
