//! Spans merged into blocks for display: what a dimension does for one collective without a pause is one block.

use crate::span::{Span, Spans, Track};
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_units::{Bytes, Time};

/// The blocks of all traced ranks, as columns of equal length, in the order of their start.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Outline {
    /// Traced ranks that did something, in order.
    pub ranks: Vec<u32>,
    /// Names of tracks: those of [`Track::OWN`], then the dimensions.
    pub tracks: Vec<String>,
    /// Distinct labels.
    pub labels: Vec<String>,
    /// By block: index of its rank in `ranks`.
    pub rank: Vec<u32>,
    /// By block: index of its track in `tracks`.
    pub track: Vec<u32>,
    /// By block: when it started, in picoseconds.
    pub start_ps: Vec<u64>,
    /// By block: how long it took, in picoseconds.
    pub duration_ps: Vec<u64>,
    /// By block: index of its label in `labels`.
    pub label: Vec<u32>,
    /// By block: bytes moved; zero if it moves none.
    pub bytes: Vec<u64>,
    /// Number of spans that the run did not keep because of `trace.max_spans`.
    pub spans_left_out: u64,
    /// Pauses in a dimension of at most this length are not shown, so that the blocks fit; 0 if every pause is shown.
    pub pause_ps: u64,
    /// Number of blocks that are left out because there are more than the caller asked for. They start no earlier than
    /// any block here.
    pub blocks_left_out: u64,
}

impl Outline {
    /// The first `most` blocks of `spans`. Chunks of one collective in a dimension that overlap or touch become one
    /// block. If there are more than `most` blocks, blocks with pauses between them that are too short to see are
    /// merged too.
    pub fn new(spans: &Spans, most: usize) -> Self {
        let whole = spans.spans.iter().map(|span| span.end.0).max().unwrap_or_default();
        let mut pause = 0;
        let mut all = blocks(spans, Time(pause));
        for finest in [FINEST, FINEST / 8, FINEST / 64] {
            if all.len() > most {
                pause = whole / finest;
                all = blocks(spans, Time(pause));
            }
        }
        Self::of(spans, all, most, pause)
    }

    fn of(spans: &Spans, mut blocks: Vec<Span>, most: usize, pause_ps: u64) -> Self {
        blocks.sort_by_key(|block| (block.start, block.rank, block.track, block.end, block.label));
        let blocks_left_out = blocks.len().saturating_sub(most) as u64;
        blocks.truncate(most);

        let mut ranks: Vec<u32> = blocks.iter().map(|block| block.rank.0).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let own = Track::OWN.iter().map(|&(_, name)| name.to_owned());
        let mut outline = Self {
            tracks: own.chain(spans.dims.iter().cloned()).collect(),
            ranks,
            spans_left_out: spans.left_out,
            blocks_left_out,
            pause_ps,
            ..Self::default()
        };
        let mut labels = BTreeMap::new();
        for block in blocks {
            let label = *labels.entry(block.label).or_insert_with(|| {
                outline.labels.push(spans.labels.get(block.label as usize).cloned().unwrap_or_default());
                outline.labels.len() as u32 - 1
            });
            let rank = outline.ranks.partition_point(|&rank| rank < block.rank.0);
            outline.rank.push(rank as u32);
            outline.track.push(block.track.place());
            outline.start_ps.push(block.start.0);
            outline.duration_ps.push(block.end.saturating_sub(block.start).0);
            outline.label.push(label);
            outline.bytes.push(block.bytes.0);
        }
        outline
    }
}

/// A pause shorter than the whole time divided by this is too short to see, even with some zoom.
const FINEST: u64 = 1 << 16;

/// All blocks, in no particular order. Chunks with at most `pause` between them become one block.
fn blocks(spans: &Spans, pause: Time) -> Vec<Span> {
    let mut blocks: Vec<Span> = Vec::new();
    let mut chunks: BTreeMap<_, Vec<&Span>> = BTreeMap::new();
    for span in &spans.spans {
        match span.track {
            Track::Dimension(dim) => chunks.entry((span.rank, dim, span.label)).or_default().push(span),
            _ => blocks.push(*span),
        }
    }
    chunks.into_values().for_each(|chunks| join(chunks, pause, &mut blocks));
    blocks
}

/// Adds the chunks of one collective in one dimension to `blocks`, and merges those with at most `pause` between them.
fn join(mut chunks: Vec<&Span>, pause: Time, blocks: &mut Vec<Span>) {
    chunks.sort_by_key(|span| (span.start, span.end));
    let mut open: Option<Span> = None;
    for &chunk in &chunks {
        match &mut open {
            Some(block) if chunk.start.0 <= block.end.0.saturating_add(pause.0) => {
                block.end = block.end.max(chunk.end);
                block.bytes = Bytes(block.bytes.0.saturating_add(chunk.bytes.0));
            }
            _ => blocks.extend(open.replace(*chunk)),
        }
    }
    blocks.extend(open);
}

#[cfg(test)]
mod tests {
    use super::Outline;
    use crate::span::{Span, Spans, Track};
    use syncline_units::{Bytes, RankId, Time};

    fn span(rank: u32, track: Track, (start, end): (u64, u64), label: u32) -> Span {
        Span { rank: RankId(rank), track, start: Time(start), end: Time(end), label, bytes: Bytes(10) }
    }

    fn spans(spans: Vec<Span>) -> Spans {
        let labels = ["a", "b", "c"].map(str::to_owned).to_vec();
        Spans { spans, labels, dims: vec!["ring".to_owned()], ..Spans::default() }
    }

    #[test]
    fn chunks_that_overlap_or_touch_become_one_block() {
        let ring = Track::Dimension(0);
        let outline = Outline::new(
            &spans(vec![
                span(3, ring, (30, 40), 1),
                span(3, ring, (0, 10), 1),
                span(3, ring, (5, 20), 1),
                span(3, ring, (20, 25), 1),
                span(3, ring, (22, 50), 2),
                span(5, ring, (24, 30), 1),
            ]),
            10,
        );
        assert_eq!(outline.ranks, [3, 5]);
        assert_eq!(outline.rank, [0, 0, 1, 0]);
        assert_eq!(outline.start_ps, [0, 22, 24, 30]);
        assert_eq!(outline.duration_ps, [25, 28, 6, 10]);
        assert_eq!(outline.bytes, [30, 10, 10, 10]);
        assert_eq!(outline.label, [0, 1, 0, 0]);
        assert_eq!(outline.labels, ["b", "c"]);
    }

    #[test]
    fn other_tracks_keep_every_span() {
        let tracks = [Track::Compute, Track::Exposed, Track::Communication, Track::Memory, Track::Bubble];
        let all = tracks.map(|track| [span(0, track, (0, 10), 0), span(0, track, (5, 15), 0)]);
        let outline = Outline::new(&spans(all.concat()), 10);
        assert_eq!(outline.track, [0, 4, 1, 2, 5, 0, 4, 1, 2, 5]);
        assert_eq!(
            outline.tracks,
            ["compute", "exposed communication", "bubble", "skew", "communication", "memory", "ring"]
        );
    }

    #[test]
    fn short_pauses_are_merged_if_blocks_do_not_fit() {
        let ring = Track::Dimension(0);
        let second = 1_000_000_000_000;
        let mut all: Vec<Span> = (0..6).map(|at| span(0, ring, (at * 1000, at * 1000 + 999), 0)).collect();
        all.push(span(0, ring, (second / 2, second), 0));
        let spans = spans(all);
        assert_eq!(Outline::new(&spans, 10).start_ps.len(), 7);
        let few = Outline::new(&spans, 3);
        assert_eq!(few.start_ps, [0, second / 2]);
        assert_eq!(few.duration_ps, [5999, second / 2]);
        assert_eq!((few.pause_ps, few.blocks_left_out), (second / super::FINEST, 0));
    }

    #[test]
    fn blocks_that_do_not_fit_are_counted_and_are_the_latest() {
        let all = (0..6).map(|at| span(0, Track::Compute, (10 - at, 12), 0)).collect();
        let spans = Spans { left_out: 7, ..spans(all) };
        let outline = Outline::new(&spans, 4);
        assert_eq!((outline.spans_left_out, outline.blocks_left_out), (7, 2));
        assert_eq!(outline.start_ps, [5, 6, 7, 8]);
        assert_eq!(
            Outline::new(&Spans::default(), 4),
            Outline { tracks: Outline::new(&Spans::default(), 0).tracks, ..Outline::default() }
        );
    }
}
