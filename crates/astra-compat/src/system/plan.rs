//! Chunks and phases of a collective. ASTRA-sim 2, `Sys.cc:determine_chunk_size`, `generate_collective`.

use super::layout::{Layout, Level, Span};
use crate::algorithms::{Pattern, bytes_after};
use syncline_formats::astra2::{Algorithm, Optimization};

/// Which of a dimension's queues a phase may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// All in turn.
    Any,
    /// The first half.
    First,
    /// The second half.
    Last,
}

/// One phase of every chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) pattern: Pattern,
    pub(crate) level: Level,
    /// The logical dimension, whose queues it uses.
    pub(crate) dim: u32,
    /// Bytes that a rank holds before it.
    pub(crate) bytes: u64,
    pub(crate) pool: Pool,
}

/// What all ranks do for a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) pattern: Pattern,
    /// Number of chunks, all of the same size.
    pub(crate) chunks: u64,
    pub(crate) phases: Vec<Phase>,
    /// Whether it runs in only part of the machine.
    pub(crate) listed: bool,
    /// Whether a phase uses trees, which alternate from chunk to chunk.
    pub(crate) trees: bool,
    /// The custom algorithm that performs it, in one phase.
    pub(crate) custom: Option<u32>,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPlan {
    /// A chunk of an all-gather would be empty.
    EmptyChunk,
    /// No dimension takes part.
    NoDimension,
    /// Sizes exceed 64 bits.
    TooLarge,
    /// A custom algorithm runs once, but the collective has this many chunks.
    SeveralChunks(u64),
}

/// Returns the number and size of the chunks of a collective over `bytes`. A remainder makes one more chunk
/// of full size.
pub(crate) fn chunks(pattern: Pattern, bytes: u64, splits: u32, npus: u32) -> Result<(u64, u64), NoPlan> {
    let chunk = bytes / u64::from(splits);
    if pattern != Pattern::AllGather && chunk < u64::from(npus) {
        return Ok((splits.into(), npus.into()));
    }
    if chunk == 0 {
        return Err(NoPlan::EmptyChunk);
    }
    Ok((bytes.div_ceil(chunk), chunk))
}

impl Plan {
    /// Returns the plan of a collective. Bit `d` of `involved` says whether dimension `d` takes part.
    pub(crate) fn new(
        pattern: Pattern,
        bytes: u64,
        layout: &Layout,
        involved: u64,
        optimization: Optimization,
        splits: u32,
        npus: u32,
    ) -> Result<Self, NoPlan> {
        let (chunks, chunk) = chunks(pattern, bytes, splits, npus)?;
        let mut dims: Vec<(u32, Level)> = (0u32..)
            .zip(layout.levels.iter().copied())
            .filter(|&(dim, level)| level.count > 1 && involved >> dim.min(63) & 1 == 1)
            .collect();
        if pattern == Pattern::AllGather {
            dims.reverse();
        }
        let mut holds = chunk;
        let mut phases = Vec::new();
        let mut add = |pattern: Pattern, (dim, level): (u32, Level), pool: Pool| {
            phases.push(Phase { pattern, level, dim, bytes: holds, pool });
            // A tree reduces everything, whatever the phase's pattern.
            if level.algorithm != Algorithm::DoubleBinaryTree {
                holds = bytes_after(pattern, holds, level.count).ok_or(NoPlan::TooLarge)?;
            }
            Ok(())
        };
        let (&last, lower) = dims.split_last().ok_or(NoPlan::NoDimension)?;
        if pattern == Pattern::AllReduce && optimization == Optimization::LocalBwAware {
            lower.iter().try_for_each(|&dim| add(Pattern::ReduceScatter, dim, Pool::First))?;
            add(Pattern::AllReduce, last, Pool::First)?;
            lower.iter().rev().try_for_each(|&dim| add(Pattern::AllGather, dim, Pool::Last))?;
        } else {
            dims.iter().try_for_each(|&dim| add(pattern, dim, Pool::Any))?;
        }
        let trees = phases.iter().any(|phase| phase.level.algorithm == Algorithm::DoubleBinaryTree);
        Ok(Self { pattern, chunks, phases, listed: layout.listed, trees, custom: None })
    }

    /// Returns the plan of a collective by a custom algorithm: one stream in the very first queue. Its bytes
    /// only determine the number of chunks, which must be one: others would never finish.
    pub(crate) fn custom(
        pattern: Pattern,
        bytes: u64,
        span: Span,
        algorithm: u32,
        splits: u32,
        npus: u32,
    ) -> Result<Self, NoPlan> {
        let (chunks, _) = chunks(pattern, bytes, splits, npus)?;
        if chunks != 1 {
            return Err(NoPlan::SeveralChunks(chunks));
        }
        let level = Level { span, count: npus, algorithm: Algorithm::Ring };
        let phase = Phase { pattern, level, dim: 0, bytes, pool: Pool::Any };
        Ok(Self {
            pattern,
            chunks,
            phases: vec![phase],
            listed: false,
            trees: false,
            custom: Some(algorithm),
        })
    }
}
