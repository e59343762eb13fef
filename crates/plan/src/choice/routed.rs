//! The time of a collective along a tree whose messages have been routed.
//!
//! A broadcast of one chunk is followed message by message. A message occupies all links of its path at once, and
//! waits on each link for earlier messages. Further chunks follow as fast as each link allows. Every link is
//! considered by itself:
//!
//! - in a broadcast, a link forwards the last chunk after it has carried all others, and the rest of the tree
//!   follows;
//! - a reduce is a broadcast backwards, but leaves send all their chunks at once, so a link is busy from the first
//!   message that arrives at it;
//! - an all-reduce is a reduce and a broadcast, which share links;
//! - in any order, a link is not done before it has carried the messages of all groups.

use super::Candidate;
use super::estimate::{Case, Cost, LONGEST};
use super::paths::{LANES, Tree};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use syncline_units::{CollectiveKind, Time};

/// A link in a broadcast of one chunk: when the first and the last of the leaves that it serves have the chunk.
#[derive(Clone, Copy, Debug)]
struct Span {
    latest: u64,
    earliest: u64,
}

/// A message of a broadcast of one chunk.
#[derive(Clone, Copy, Debug)]
struct Message<'a> {
    path: &'a [usize],
    /// The message with which the sender got the chunk.
    parent: Option<usize>,
    span: Span,
}

impl Case<'_> {
    /// The cost of all chunks along a tree.
    pub(super) fn routed(&self, candidate: Candidate, tree: &Tree) -> Cost {
        let bytes = self.chunk.div_ceil(tree.streams.into());
        let combine = self.reduction(self.kind != CollectiveKind::Broadcast, bytes);
        let busy: Vec<u64> =
            tree.used.iter().map(|link| self.sends(link.rate, bytes, 1).max(combine)).collect();
        let spans = self.spans(tree, &busy, combine);
        let latest = spans.iter().flatten().map(|span| span.latest).max().unwrap_or(0);
        let (chunks, active) = self.lane(candidate);
        let waves_after_first = chunks.div_ceil(active) - 1;
        // Chunks take lanes in turn.
        let lanes = (self.pieces.lanes.min(self.pieces.chunks) as usize).clamp(1, LANES);
        let loads = tree
            .used
            .iter()
            .zip(&busy)
            .map(|(link, &busy)| busy.saturating_mul(link.messages(self.kind, lanes)) / lanes as u64);
        let loads: Vec<u64> = loads.collect();
        let each = loads.iter().copied().max().unwrap_or(0);
        let of_link = |link: usize| {
            let behind = loads[link].saturating_mul(chunks - 1);
            // If only other groups use a link, it is not known when the link is first used.
            let span = spans[link].unwrap_or(Span { latest, earliest: latest });
            if self.kind != CollectiveKind::Reduce {
                return span.latest.saturating_add(behind);
            }
            let waits = match tree.used[link].is_port {
                // Others use a shared link while a rank waits.
                false => 0,
                true => self.between_waves(candidate, loads[link]).saturating_mul(waves_after_first),
            };
            let rest = loads[link].saturating_sub(busy[link]);
            span.earliest.saturating_add(behind).saturating_add(rest).saturating_add(waits)
        };
        let (whole, passes) = match self.kind {
            CollectiveKind::AllReduce => {
                let waves = latest.saturating_mul(2 * waves_after_first);
                let behind = each.saturating_mul(chunks - 1);
                (latest.saturating_mul(2).saturating_add(behind.max(waves)), 2)
            }
            _ => ((0..loads.len()).map(of_link).max().unwrap_or(0).max(latest), 1),
        };
        // The busiest link carries the messages of all groups.
        let whole = whole.max(each.saturating_mul(chunks));
        let alone = Time(latest.saturating_mul(passes));
        Cost { whole: Time(whole), first: alone, alone, each: Time(each), chunks, burst: 1 }
    }

    /// Follows a broadcast of one chunk. `busy` is how long a message occupies each link. `None` for links that it
    /// does not use.
    fn spans(&self, tree: &Tree, busy: &[u64], combine: u64) -> Vec<Option<Span>> {
        let mut messages: Vec<Message<'_>> = Vec::new();
        let mut free = vec![0u64; busy.len()];
        let mut has: BinaryHeap<_> =
            (0..tree.streams).map(|stream| Reverse((0u64, stream, 0u32, None))).collect();
        while let Some(Reverse((time, stream, rank, parent))) = has.pop() {
            for hop in tree.hops_of(stream, rank) {
                let path = tree.path(hop, self.kind == CollectiveKind::Reduce);
                let (mut start, mut sent) = (time, time);
                for &link in path {
                    start = start.max(free[link]);
                    sent = sent.max(start.saturating_add(busy[link]));
                    free[link] = sent;
                }
                let latency = hop.latency.0.saturating_add(self.network.overhead.0).min(LONGEST);
                let arrives = sent.saturating_add(latency).saturating_add(combine);
                has.push(Reverse((arrives, stream, hop.to, Some(messages.len()))));
                // Treated as the message to a leaf until its children are visited.
                messages.push(Message { path, parent, span: Span { latest: arrives, earliest: u64::MAX } });
            }
        }
        let mut spans: Vec<Option<Span>> = vec![None; busy.len()];
        for at in (0..messages.len()).rev() {
            let Message { path, parent, mut span } = messages[at];
            if span.earliest == u64::MAX {
                span.earliest = span.latest;
            }
            if let Some(parent) = parent {
                messages[parent].span.latest = messages[parent].span.latest.max(span.latest);
                messages[parent].span.earliest = messages[parent].span.earliest.min(span.earliest);
            }
            for &link in path {
                let of_link = spans[link].get_or_insert(span);
                of_link.latest = of_link.latest.max(span.latest);
                of_link.earliest = of_link.earliest.min(span.earliest);
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{Candidate, Chunking, GroupNetwork, Groups, Paths, Pieces, Wiring, Work, estimate};
    use std::sync::Arc;
    use syncline_units::{Bytes, Rate};

    const RATE: Rate = Rate::from_bytes_per_s(50_000_000_000);

    fn network(paths: Option<Paths>) -> GroupNetwork {
        let wiring = match &paths {
            Some(_) => Wiring::Graph { far: RATE, all: RATE, far_latency: Time::from_ns(1000) },
            None => Wiring::Switch,
        };
        GroupNetwork {
            wiring,
            rate: RATE,
            count: 1,
            latency: Time::from_ns(1000),
            overhead: Time::ZERO,
            gap: Time::ZERO,
            reduction: None,
            buffer: None,
            paths: paths.map(Arc::new),
        }
    }

    /// Ranks behind one switch; with `shared`, every message also passes one link of the same rate.
    fn star(ranks: u32, groups: u32, shared: bool) -> Paths {
        let groups = Groups { count: groups, rooted: 1, turns: false };
        Paths::new(ranks, groups, &mut |_, group, [from, to], path| {
            path.push((2 * (group * ranks + from), RATE));
            if shared {
                path.push((u32::MAX, RATE));
            }
            path.push((2 * (group * ranks + to) + 1, RATE));
            Time::from_ns(1000)
        })
    }

    fn time(
        candidate: Candidate,
        kind: CollectiveKind,
        chunks: u32,
        network: &GroupNetwork,
        ranks: u32,
    ) -> u64 {
        let pieces = Pieces { chunks, active: 0, lanes: 1 };
        let bytes = Bytes(1_000_000 * u64::from(chunks));
        let work = Work { kind, ranks, bytes, chunking: Chunking::Fixed(pieces), network };
        estimate(candidate, &work).unwrap().whole.0
    }

    #[test]
    fn a_star_has_the_estimates_of_a_switch() {
        let (plain, routed) = (network(None), network(Some(star(16, 1, false))));
        for candidate in [Candidate::Ring, Candidate::Tree, Candidate::Binomial, Candidate::WideTree] {
            for chunks in [1, 8] {
                let of = |network| time(candidate, CollectiveKind::Broadcast, chunks, network, 16);
                assert_eq!(of(&routed), of(&plain), "{candidate:?} {chunks}");
            }
        }
    }

    /// `N - 1` messages of each chunk and group take turns on the link, 20 us each.
    #[test]
    fn messages_that_share_a_link_take_turns() {
        let routed = network(Some(star(8, 2, true)));
        let busy = 20_000_000;
        let direct = |chunks| time(Candidate::Direct, CollectiveKind::Broadcast, chunks, &routed, 8);
        assert_eq!(direct(1), 2 * 7 * busy);
        assert_eq!(direct(5) - direct(1), 4 * 2 * 7 * busy);
    }
}
