//! Divides the time of a collective among its phases, and its data into pieces, so that links have enough time.

use std::collections::BTreeMap;

/// Numbers of pieces that are tried, for each queue.
const PIECES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Halvings of an interval that determine a share to the precision of its numbers.
const HALVINGS: u32 = 60;

/// A phase, as far as its time depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed {
    /// The queue that its pieces wait in: dimension and leg.
    pub(super) queue: (u16, u8),
    /// Pieces that it works on at once, at least 1.
    pub(super) lanes: u32,
    /// Latency that the links of all its messages add, seconds.
    pub(super) link_latency_s: f64,
    /// Time in which one link carries the bytes of all pieces, seconds.
    pub(super) link_transfer_s: f64,
    /// Its share of the time that remains.
    pub(super) share: f64,
}

impl Timed {
    /// The least time of one of `count` pieces, and its share of the time that remains.
    fn of_piece(&self, count: u32) -> (f64, f64) {
        let pieces = f64::from(count);
        let least = self.link_latency_s + self.link_transfer_s / pieces;
        (least, self.share * f64::from(self.lanes.min(count)) / pieces)
    }
}

/// How a collective is cut into pieces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cut {
    /// Number of pieces.
    pub(super) count: u32,
    /// Time of one piece in each phase, seconds.
    pub(super) piece_s: Vec<f64>,
    /// The time that links alone need, seconds.
    pub(super) links_s: f64,
}

/// Cuts a collective that takes `seconds` into as few pieces as links allow. `count` returns the actual number of
/// pieces for a requested number. If no number is quick enough, the quickest is taken, and the collective takes longer.
pub(super) fn cut(stages: &[Timed], seconds: f64, count: impl Fn(u32) -> u32) -> Cut {
    let lanes = stages.iter().map(|stage| stage.lanes).max().unwrap_or(1);
    let mut best: Option<(u32, f64)> = None;
    for pieces in PIECES {
        let count = count(pieces * lanes).max(1);
        let links_s = makespan(stages, count, 0.0);
        if best.is_none_or(|best| links_s < best.1) {
            best = Some((count, links_s));
        }
        if links_s <= seconds {
            best = Some((count, links_s));
            break;
        }
    }
    let (count, links_s) = best.unwrap_or((1, 0.0));
    let (mut low, mut high) =
        (0.0, seconds / stages.iter().map(|stage| stage.share).fold(f64::MIN_POSITIVE, f64::max));
    while makespan(stages, count, high) < seconds && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if makespan(stages, count, middle) < seconds {
            low = middle;
        } else {
            high = middle;
        }
    }
    let piece_s = stages.iter().map(|stage| stage.of_piece(count)).map(|(least, share)| least + low * share);
    Cut { count, piece_s: piece_s.collect(), links_s }
}

/// Time of all pieces through all phases, seconds. A lane works on one piece at a time; each phase gets its least time and
/// `scale` times its share.
fn makespan(stages: &[Timed], count: u32, scale: f64) -> f64 {
    let mut free: BTreeMap<((u16, u8), u32), f64> = BTreeMap::new();
    let mut end = 0.0_f64;
    for piece in 0..count {
        let mut at = 0.0_f64;
        for stage in stages {
            let (least, share) = stage.of_piece(count);
            let lane = free.entry((stage.queue, piece % stage.lanes)).or_default();
            at = at.max(*lane) + least + scale * share;
            *lane = at;
        }
        end = end.max(at);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(dim: u16, transfer: f64, share: f64) -> Timed {
        Timed { queue: (dim, 0), lanes: 1, link_latency_s: 0.0, link_transfer_s: transfer, share }
    }

    #[test]
    fn a_collective_whose_links_are_quick_is_one_piece() {
        let found = cut(&[stage(0, 1.0, 1.0), stage(1, 2.0, 3.0)], 7.0, |pieces| pieces);
        assert_eq!(found.count, 1);
        assert_eq!(found.links_s, 3.0);
        // The 4 seconds that links do not need are divided as 1 to 3.
        assert!((found.piece_s[0] - 2.0).abs() < 1e-9 && (found.piece_s[1] - 5.0).abs() < 1e-9);
    }

    #[test]
    fn pieces_overlap_where_links_would_need_longer() {
        // In turn, 4 + 6 = 10 seconds; in n pieces, 6 + 4 / n: at most 7 from 4 pieces on.
        let found = cut(&[stage(0, 4.0, 1.0), stage(1, 6.0, 1.0)], 7.0, |pieces| pieces);
        assert_eq!(found.count, 4);
        assert_eq!(found.links_s, 7.0);
    }

    #[test]
    fn links_that_are_too_slow_decide() {
        let found = cut(&[stage(0, 4.0, 1.0)], 1.0, |pieces| pieces);
        assert_eq!((found.count, found.links_s), (1, 4.0));
        assert!((found.piece_s[0] - 4.0).abs() < 1e-9);
    }

    #[test]
    fn lanes_work_side_by_side() {
        // Four links of 8 seconds each carry a quarter.
        let stage = Timed { lanes: 4, ..stage(0, 8.0, 1.0) };
        let found = cut(&[stage], 3.0, |pieces| pieces);
        assert_eq!((found.count, found.links_s), (4, 2.0));
        assert!((found.piece_s[0] - 3.0).abs() < 1e-9);
    }
}
