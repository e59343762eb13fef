//! How the vector of a collective is cut into chunks, on each of which the plan is run once.
//!
//! Where every rank contributes or gets the whole vector, a chunk is a run of it. Where ranks bring or get blocks of their
//! own (reduce-scatter, all-gather, all-to-all), a chunk takes the same piece of every rank's block, so that block `i` of
//! the chunk is what seat `i` brings or gets. What simulates the plan counts chunks in the same way.

use crate::operation::Operation;
use std::collections::BTreeSet;
use std::ops::Range;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::program::program;
use syncline_plan::{Algorithm, Blocks, Buffer, Op, Seat};
use syncline_units::{CollectiveKind, Extent, cut};

/// Most elements that those of a chunk are a multiple of.
const MOST_MULTIPLE: u64 = 1 << 20;

/// How finely a plan cuts a chunk, over all its seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// The largest message, as a part of the chunk: so many of so many.
    largest: (u64, u64),
    /// What the elements of a chunk are a multiple of.
    multiple: u64,
}

impl Grain {
    /// The grain of a plan that the algorithm offers.
    ///
    /// # Errors
    /// [`Code::BadValue`] where a plan with scratch storage cuts a chunk into numbers of blocks that have no small common
    /// multiple.
    pub fn of(algorithm: &dyn Algorithm, kind: CollectiveKind, ranks: u32) -> Result<Self> {
        let streams = algorithm.streams(kind, ranks);
        let split = if algorithm.split() { u64::from(streams) } else { 1 };
        let (mut largest, mut scratch, mut numbers) = ((0, 1), false, BTreeSet::from([split]));
        let mut see = |Blocks { buffer, count, of, .. }: Blocks, message: bool| {
            numbers.insert(u64::from(of) * split);
            scratch |= buffer == Buffer::Scratch;
            let (count, of) = (u64::from(count), u64::from(of) * split);
            if message && count * largest.1 > largest.0 * of {
                largest = (count, of);
            }
        };
        for (index, stream) in (0..algorithm.seats(ranks)).flat_map(|i| (0..streams).map(move |s| (i, s))) {
            for op in program(algorithm, Seat { kind, ranks, index, stream, reverse: false }) {
                match op {
                    Op::Send { blocks, .. } => see(blocks, true),
                    Op::Receive { blocks, .. } => see(blocks, false),
                    Op::Copy { from, to, .. } => [from, to].into_iter().for_each(|blocks| see(blocks, false)),
                    Op::Wait | Op::After { .. } => {}
                }
            }
        }
        // What was last put into a slot is as long as any other block only where all blocks are equal.
        let multiple = if scratch { numbers.into_iter().try_fold(1, least_common_multiple) } else { Some(1) };
        match multiple {
            Some(multiple) if multiple <= MOST_MULTIPLE => Ok(Self { largest, multiple }),
            _ => {
                let name = algorithm.name();
                let message =
                    format!("`{name}` cuts a chunk into numbers of blocks with no small common multiple");
                Err(Diagnostic::error(Code::BadValue, message)
                    .allowed(format!("at most {MOST_MULTIPLE}"))
                    .into())
            }
        }
    }
}

impl Grain {
    /// What the elements of a chunk are a multiple of.
    pub(crate) fn multiple(self) -> u64 {
        self.multiple
    }
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}

/// How a vector is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    elements: u64,
    chunks: u32,
    /// For a vector of blocks of ranks: the rank of each seat.
    ranks: Option<Vec<u32>>,
    grain: Grain,
}

impl Cut {
    /// Cuts an operation's vector so that the largest message of a chunk has at most `message` bytes; `ranks` is the rank
    /// of each seat.
    ///
    /// # Errors
    /// A sentence, where there would be more than 2^32 chunks.
    pub fn new(
        operation: &Operation,
        grain: Grain,
        ranks: &[u32],
        message: u64,
    ) -> std::result::Result<Self, String> {
        let (count, of) = grain.largest;
        let longest = u128::from(operation.bytes()) * u128::from(count);
        let chunks = longest.div_ceil(u128::from(of) * u128::from(message.max(1))).max(1);
        // No chunk is empty, but the only one of a vector without elements.
        let width = if operation.by_rank() { ranks.len() as u64 } else { 1 };
        let chunks = chunks.min(u128::from((operation.elements / width).max(1)));
        let chunks = u32::try_from(chunks)
            .map_err(|_| format!("{operation} would be cut into {chunks} chunks: let messages be longer"))?;
        let ranks = operation.by_rank().then(|| ranks.to_vec());
        Ok(Self { elements: operation.elements, chunks, ranks, grain })
    }

    /// Number of chunks, at least one.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Elements of a chunk on which the plan is run: those of the vector, and what is added to make blocks equal.
    pub fn elements(&self, chunk: u32) -> u64 {
        let held: u64 = self.runs(chunk).map(|run| run.end - run.start).sum();
        held.next_multiple_of(self.grain.multiple)
    }

    /// Elements of the largest message of a chunk that has so many.
    pub fn largest(&self, elements: u64) -> u64 {
        let (count, of) = self.grain.largest;
        (u128::from(elements) * u128::from(count)).div_ceil(u128::from(of)) as u64
    }

    /// Where the vector's elements of a chunk are, in the order in which the chunk has them.
    pub fn runs(&self, chunk: u32) -> impl Iterator<Item = Range<u64>> {
        let whole = self.ranks.is_none().then(|| {
            let Extent { start, end } = Extent::whole(self.elements).blocks(chunk, 1, self.chunks);
            start..end
        });
        let by_rank = self.ranks.iter().flatten().map(move |&rank| {
            let piece = self.piece(chunk);
            let block = u64::from(rank) * self.block();
            block + piece.start..block + piece.end
        });
        whole.into_iter().chain(by_rank)
    }

    /// Which elements of a rank's own block are in a chunk, where ranks have such blocks.
    pub(crate) fn piece(&self, chunk: u32) -> Range<u64> {
        cut(self.block(), chunk, self.chunks)..cut(self.block(), chunk + 1, self.chunks)
    }

    /// Elements of a rank's own block.
    fn block(&self) -> u64 {
        self.elements / self.ranks.as_ref().map_or(1, |ranks| ranks.len() as u64)
    }

    /// Whether a chunk is a run of the vector as it lies there.
    pub(crate) fn contiguous(&self) -> bool {
        self.ranks.is_none() && self.grain.multiple == 1
    }
}
