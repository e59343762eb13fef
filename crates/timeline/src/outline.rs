//! Spans as a person looks at them: what a dimension does for one collective without a pause is one block.

use crate::span::{Span, Spans, Track};
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_units::{Bytes, Time};

/// The blocks of all traced ranks, as columns of equal length, in the order of their begin.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Outline {
    /// Traced ranks that did something, in order.
    pub ranks: Vec<u32>,
    /// Names of the tracks: those of [`Track::OWN`], then the dimensions.
    pub tracks: Vec<String>,
    /// Distinct labels.
    pub labels: Vec<String>,
    /// Index in `ranks`.
    pub rank: Vec<u32>,
    /// Index in `tracks`.
    pub track: Vec<u32>,
    /// When the block began, in picoseconds.
    pub start_ps: Vec<u64>,
    /// How long it took, in picoseconds.
    pub duration_ps: Vec<u64>,
    /// Index in `labels`.
    pub label: Vec<u32>,
    /// Bytes moved; zero where none.
    pub bytes: Vec<u64>,
    /// Spans that the run did not keep because of the cap of its trace.
    pub spans_left_out: u64,
    /// Pauses in a dimension of at most this length are not shown, so that the blocks fit; 0 where every pause is.
    pub pause_ps: u64,
    /// Blocks that are not here because there are more than was asked for; all of them begin later than those here.
    pub blocks_left_out: u64,
}

impl Outline {
    /// The first `most` blocks of `spans`. Chunks of one collective in a dimension that overlap or touch are one block.
    /// Where there are more blocks than that, those with pauses between them that cannot be seen become one, too.
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

/// Pauses of this part of the whole time cannot be seen, not even with some zoom.
const FINEST: u64 = 1 << 16;

/// All blocks, in no order. Chunks with at most `pause` between them are one block.
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

/// Adds the chunks of one collective in one dimension to `blocks`, joined where at most `pause` is between them.
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
    fn chunks_that_overlap_or_touch_are_one_block() {
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
    fn pauses_that_cannot_be_seen_are_closed_where_blocks_do_not_fit() {
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
    fn what_does_not_fit_is_counted_and_latest() {
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
