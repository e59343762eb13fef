//! Ways of bundles, one after the other in one list, as short as they can be: they are read whenever a rate changes.

use std::ops::Range;

/// Set in the head of a way where a flow takes more of some links than of others.
const UNEVEN: u32 = 1 << 31;

/// Ways, each known by the place of its head.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    /// Heads, which say how many of a way's links are followed, and after each its nodes, those that are followed first.
    words: Vec<u32>,
    /// What a flow takes of each node, in multiples of the level.
    usages: Vec<u32>,
    /// The place of the bundle among the members of each node.
    places: Vec<u32>,
}

impl Ways {
    /// A way of so many links, of which nothing is said yet.
    pub(super) fn add(&mut self, hops: usize) -> u32 {
        let way = self.words.len() as u32;
        for list in [&mut self.words, &mut self.usages, &mut self.places] {
            list.resize(way as usize + 1 + hops, 0);
        }
        way
    }

    /// Says where a way goes, and what a flow takes there. No link is followed.
    pub(super) fn set(&mut self, way: u32, nodes: impl Iterator<Item = (u32, u32)>) {
        let start = way as usize + 1;
        let mut uneven = false;
        for (at, (node, usage)) in nodes.enumerate() {
            self.words[start + at] = node;
            self.usages[start + at] = usage;
            uneven |= usage != self.usages[start];
        }
        self.words[way as usize] = if uneven { UNEVEN } else { 0 };
    }

    /// Places of a way's first nodes in the list.
    #[inline]
    pub(super) fn all(way: u32, hops: u32) -> Range<usize> {
        let start = way as usize + 1;
        start..start + hops as usize
    }

    /// How many nodes of a way are followed.
    #[inline]
    pub(super) fn leading(&self, way: u32) -> u32 {
        self.words[way as usize] & !UNEVEN
    }

    /// Whether a flow takes the same of all links of a way.
    #[inline]
    pub(super) fn is_even(&self, way: u32) -> bool {
        self.words[way as usize] & UNEVEN == 0
    }

    /// Places of those that are followed.
    #[inline]
    pub(super) fn followed(&self, way: u32) -> Range<usize> {
        Self::all(way, self.leading(way))
    }

    /// Nodes of a way that are followed.
    #[inline]
    pub(super) fn nodes(&self, way: u32) -> &[u32] {
        &self.words[self.followed(way)]
    }

    #[inline]
    pub(super) fn node(&self, at: usize) -> u32 {
        self.words[at]
    }

    #[inline]
    pub(super) fn usage(&self, at: usize) -> u32 {
        self.usages[at]
    }

    #[inline]
    pub(super) fn place(&self, at: usize) -> u32 {
        self.places[at]
    }

    #[inline]
    pub(super) fn set_place(&mut self, at: usize, place: u32) {
        self.places[at] = place;
    }

    /// Moves the node at `at` to the end of those that are followed, or from among them; it changes places with what is
    /// returned.
    pub(super) fn lead(&mut self, way: u32, at: usize, followed: bool) -> usize {
        self.words[way as usize] -= u32::from(!followed);
        let to = self.followed(way).end;
        self.words[way as usize] += u32::from(followed);
        self.words.swap(at, to);
        self.usages.swap(at, to);
        self.places.swap(at, to);
        to
    }
}
