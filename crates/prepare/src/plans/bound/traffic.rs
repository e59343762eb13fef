//! How much each rank of a phase sends to each other rank.

use std::collections::BTreeMap;
use syncline_engine::PhasePlan;
use syncline_plan::program::program;
use syncline_plan::{Algorithm, Blocks, Buffer, Op, Seat};
use syncline_units::CollectiveKind;

/// The length of a message, as a share of the sender's part of a chunk: `count` of the `of` blocks of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    /// Index of the phase in the plan.
    pub(super) phase: u16,
    /// Streams among which the vector is divided.
    streams: u32,
    /// Number of equal parts into which a stream's data is cut before it is cut into blocks; the message has its share
    /// of each part. The number of ranks for the output of an all-to-all, otherwise 1.
    outer: u32,
    of: u32,
    count: u32,
}

impl Share {
    fn new(number: u16, phase: &PhasePlan, blocks: Blocks) -> Self {
        let streams = if phase.algorithm.split() { phase.streams.max(1) } else { 1 };
        let output = blocks.buffer == Buffer::Output && phase.kind == CollectiveKind::AllToAll;
        let outer = if output { phase.axis.size } else { 1 };
        Self { phase: number, streams, outer, of: blocks.of.max(1), count: blocks.count }
    }

    /// The least number of bytes of the message if the sender holds `held` elements. Blocks may differ by one element;
    /// all count as short.
    pub(super) fn bytes(self, held: u64, element: u64) -> u64 {
        let outer = u64::from(self.outer);
        let space = held / u64::from(self.streams) / outer * outer;
        (space / u64::from(self.of) * u64::from(self.count)).saturating_mul(element)
    }
}

/// The least number of elements that a rank of a phase holds of a chunk of `elements`.
pub(super) fn held(phase: &PhasePlan, elements: u64) -> u64 {
    phase.cuts.iter().fold(elements, |held, axis| held / u64::from(axis.size))
}

/// The messages that one rank sends for a chunk: how many, by receiver and length.
pub(super) type Sends = BTreeMap<(u32, Share), u64>;

/// The messages of the rank at coordinate `index` in phase `number`, and the number of instructions read. Receivers are
/// given by coordinate.
pub(super) fn sends(number: u16, phase: &PhasePlan, index: u32, reverse: bool) -> (Sends, u64) {
    let algorithm: &dyn Algorithm = &*phase.algorithm;
    let (mut sends, mut ops) = (Sends::new(), 0);
    for stream in 0..phase.streams {
        let seat = Seat { kind: phase.kind, ranks: phase.axis.size, index, stream, reverse };
        for op in program(algorithm, seat) {
            ops += 1;
            if let Op::Send { to, blocks } = op {
                *sends.entry((to, Share::new(number, phase, blocks))).or_default() += 1;
            }
        }
    }
    (sends, ops)
}
