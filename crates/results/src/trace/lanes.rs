//! Lanes: slices on one Perfetto track must nest, so overlapping spans of one track are spread over several lanes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use syncline_timeline::Span;

/// Where a span is drawn: rank, place of its track within the rank, lane within the track.
pub(super) type Place = (u32, u32, u32);

/// The order in which spans are drawn: by start, then by end, then as they were recorded.
pub(super) fn sorted(spans: &[Span]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    order.sort_unstable_by_key(|&at| {
        let span = &spans[at as usize];
        (span.start, span.end, at)
    });
    order
}

/// The lanes of one track.
#[derive(Default)]
struct Lanes {
    /// Lanes in use, ordered by when they become free.
    busy: BinaryHeap<Reverse<(u64, u32)>>,
    /// Lanes that are free.
    free: BinaryHeap<Reverse<u32>>,
}

impl Lanes {
    /// Takes the first lane that is free at `start`, until `end`.
    fn take(&mut self, start: u64, end: u64) -> u32 {
        while let Some(&Reverse((until, lane))) = self.busy.peek()
            && until <= start
        {
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let lane = self.free.pop().map_or(self.busy.len() as u32, |Reverse(lane)| lane);
        self.busy.push(Reverse((end, lane)));
        lane
    }
}

/// Where each span is drawn, in the order of [`sorted`]. Each takes the first lane of its track that is free, so the
/// lane depends only on the spans before it.
pub(super) fn places(spans: &[Span], sorted: &[u32]) -> Vec<Place> {
    let mut tracks: BTreeMap<(u32, u32), Lanes> = BTreeMap::new();
    let place = |&at: &u32| {
        let span = &spans[at as usize];
        let (rank, track) = (span.rank.0, span.track.place());
        let lanes = tracks.entry((rank, track)).or_default();
        (rank, track, lanes.take(span.start.0, span.end.0.max(span.start.0)))
    };
    sorted.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::{places, sorted};
    use crate::testing::any_spans;
    use proptest::prelude::*;
    use syncline_timeline::{Span, Track};
    use syncline_units::{Bytes, RankId, Time};

    fn lanes(intervals: &[(u64, u64)]) -> Vec<u32> {
        let spans: Vec<Span> = intervals
            .iter()
            .map(|&(start, end)| Span {
                rank: RankId(0),
                track: Track::Communication,
                start: Time(start),
                end: Time(end),
                label: 0,
                bytes: Bytes(0),
            })
            .collect();
        let sorted = sorted(&spans);
        let places = places(&spans, &sorted);
        let mut lanes = vec![0; spans.len()];
        for (&at, place) in sorted.iter().zip(places) {
            lanes[at as usize] = place.2;
        }
        lanes
    }

    #[test]
    fn the_first_free_lane_is_taken() {
        assert_eq!(lanes(&[(0, 5), (5, 9), (9, 9), (9, 12)]), [0, 0, 0, 0]);
        assert_eq!(lanes(&[(0, 10), (1, 3), (2, 4), (3, 5), (10, 11)]), [0, 1, 2, 1, 0]);
        assert_eq!(lanes(&[(0, 9), (0, 0), (0, 0)]), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn spans_of_a_lane_never_overlap(spans in any_spans()) {
            let order = sorted(&spans.spans);
            let places = places(&spans.spans, &order);
            for later in 0..order.len() {
                for earlier in 0..later {
                    if places[earlier] == places[later] {
                        let (a, b) = (spans.spans[order[earlier] as usize], spans.spans[order[later] as usize]);
                        prop_assert!(a.end <= b.start);
                    }
                }
                // Every lane below is taken at that moment, so no lane is wasted.
                let at = spans.spans[order[later] as usize].start;
                let (rank, track, lane) = places[later];
                for below in 0..lane {
                    let taken = |earlier: usize| {
                        let until = spans.spans[order[earlier] as usize].end;
                        places[earlier] == (rank, track, below) && until > at
                    };
                    prop_assert!((0..later).any(taken), "lane {} is free", below);
                }
            }
        }
    }
}
