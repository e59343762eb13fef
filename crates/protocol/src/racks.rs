//! Derives from the rack of each rank what plans need: an order that puts ranks of a rack side by side, and racks as
//! groups.

use std::collections::BTreeMap;

/// The ranks that take part, arranged by rack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RackOrder {
    /// Indices into the list of ranks that take part. Ranks of a rack are adjacent; larger racks come first, then
    /// lower rack numbers.
    pub order: Vec<u32>,
    /// Ranks per rack, if a plan can use racks as its groups: all racks have this size, except that one may be
    /// smaller. None otherwise.
    pub group: Option<u32>,
}

impl RackOrder {
    /// Arranges `ranks`, the ranks that take part; `racks` gives the rack of each rank of the job.
    pub fn of(racks: &[u32], ranks: &[u32]) -> Self {
        let rack = |place: u32| racks[ranks[place as usize] as usize];
        let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
        let mut order: Vec<u32> = (0..ranks.len() as u32).collect();
        for &place in &order {
            *sizes.entry(rack(place)).or_default() += 1;
        }
        order.sort_by_key(|&place| (std::cmp::Reverse(sizes[&rack(place)]), rack(place)));
        let largest = sizes.values().copied().max().unwrap_or(1);
        let smaller = sizes.values().filter(|&&size| size < largest).count();
        Self { order, group: (smaller <= 1).then_some(largest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_rack_are_adjacent() {
        let two = RackOrder::of(&[0, 1, 0, 1, 0, 1, 0, 1], &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(two, RackOrder { order: vec![0, 2, 4, 6, 1, 3, 5, 7], group: Some(4) });
        // Rank 2 is lost: the complete rack comes first, and racks can still be groups.
        let left = RackOrder::of(&[0, 1, 0, 1, 0, 1, 0, 1], &[0, 1, 3, 4, 5, 6, 7]);
        assert_eq!(left, RackOrder { order: vec![1, 2, 4, 6, 0, 3, 5], group: Some(4) });
    }

    #[test]
    fn racks_of_different_sizes_cannot_be_groups() {
        assert_eq!(RackOrder::of(&[0, 0, 0, 1, 1, 2], &[0, 1, 2, 3, 4, 5]).group, None);
        assert_eq!(RackOrder::of(&[0, 0, 0, 1, 1, 2], &[0, 1, 3, 4, 5]).group, Some(2));
        assert_eq!(RackOrder::of(&[7, 7, 7], &[0, 2]), RackOrder { order: vec![0, 1], group: Some(2) });
        assert_eq!(RackOrder::of(&[], &[]), RackOrder { order: vec![], group: Some(1) });
    }
}
