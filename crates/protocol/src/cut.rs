//! Cuts the vector of a collective into chunks. The plan runs once per chunk.
//!
//! If every rank contributes or gets the whole vector, a chunk is a contiguous run of it. If ranks have blocks of
//! their own (reduce-scatter, all-gather, all-to-all), a chunk takes the same piece of every rank's block, so that
//! block `i` of the chunk is what seat `i` contributes or gets. The simulator cuts chunks in the same way.

use crate::operation::Operation;
use std::collections::BTreeSet;
use std::ops::Range;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::program::program;
use syncline_plan::{Algorithm, Blocks, Buffer, Op, Seat};
use syncline_units::{CollectiveKind, Extent, cut};

/// Largest number that [`Grain`] may round a chunk's elements up to a multiple of.
const MAX_MULTIPLE: u64 = 1 << 20;

/// How finely a plan cuts a chunk, over all seats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grain {
    /// The largest message as a fraction of the chunk: numerator and denominator.
    largest: (u64, u64),
    /// The number of elements of a chunk is a multiple of this.
    multiple: u64,
}

impl Grain {
    /// The grain of the algorithm's plan for `kind`.
    ///
    /// # Errors
    /// [`Code::BadValue`] if a plan with scratch storage divides a chunk by numbers that have no small common
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
        // A block in a scratch slot has the same length as any block copied to or from it only if all blocks are
        // equal.
        let multiple = if scratch { numbers.into_iter().try_fold(1, least_common_multiple) } else { Some(1) };
        match multiple {
            Some(multiple) if multiple <= MAX_MULTIPLE => Ok(Self { largest, multiple }),
            _ => {
                let name = algorithm.name();
                let message =
                    format!("`{name}` cuts a chunk into numbers of blocks with no small common multiple");
                Err(Diagnostic::error(Code::BadValue, message)
                    .allowed(format!("at most {MAX_MULTIPLE}"))
                    .into())
            }
        }
    }
}

impl Grain {
    /// The number of elements of a chunk is a multiple of this.
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
    /// The rank of each seat, if ranks have blocks of their own.
    ranks: Option<Vec<u32>>,
    grain: Grain,
}

impl Cut {
    /// Cuts an operation's vector so that the largest message of a chunk has at most `message` bytes. `ranks` is the
    /// rank of each seat.
    ///
    /// # Errors
    /// A sentence, if there would be more than 2^32 chunks.
    pub fn new(
        operation: &Operation,
        grain: Grain,
        ranks: &[u32],
        message: u64,
    ) -> std::result::Result<Self, String> {
        let (count, of) = grain.largest;
        let longest = u128::from(operation.bytes()) * u128::from(count);
        let chunks = longest.div_ceil(u128::from(of) * u128::from(message.max(1))).max(1);
        // No chunk is empty, unless the vector is: then there is one empty chunk.
        let width = if operation.by_rank() { ranks.len() as u64 } else { 1 };
        let chunks = chunks.min(u128::from((operation.elements / width).max(1)));
        let chunks = u32::try_from(chunks)
            .map_err(|_| format!("{operation} would be cut into {chunks} chunks: use longer messages"))?;
        let ranks = operation.by_rank().then(|| ranks.to_vec());
        Ok(Self { elements: operation.elements, chunks, ranks, grain })
    }

    /// Number of chunks, at least one.
    pub fn chunks(&self) -> u32 {
        self.chunks
    }

    /// Elements that the plan runs on for a chunk: those of the vector, plus padding that makes blocks equal.
    pub fn elements(&self, chunk: u32) -> u64 {
        let held: u64 = self.runs(chunk).map(|run| run.end - run.start).sum();
        held.next_multiple_of(self.grain.multiple)
    }

    /// Elements of the largest message of a chunk of `elements` elements.
    pub fn largest(&self, elements: u64) -> u64 {
        let (count, of) = self.grain.largest;
        (u128::from(elements) * u128::from(count)).div_ceil(u128::from(of)) as u64
    }

    /// Where the elements of a chunk are in the vector, in the order in which the chunk holds them.
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

    /// The elements of each rank's block that belong to a chunk, if ranks have blocks of their own.
    pub(crate) fn piece(&self, chunk: u32) -> Range<u64> {
        cut(self.block(), chunk, self.chunks)..cut(self.block(), chunk + 1, self.chunks)
    }

    /// Elements of a rank's block.
    fn block(&self) -> u64 {
        self.elements / self.ranks.as_ref().map_or(1, |ranks| ranks.len() as u64)
    }

    /// Whether every chunk is a contiguous run of the vector, without padding.
    pub(crate) fn contiguous(&self) -> bool {
        self.ranks.is_none() && self.grain.multiple == 1
    }
}
