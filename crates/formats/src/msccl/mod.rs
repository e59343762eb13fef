//! MSCCL's XML programs: conversion from and to plan files.
//!
//! The elements are `algo` > `gpu` > `tb` (thread block) > `step`. A GPU is a seat, and a thread block is a stream
//! with a channel. Its steps become instructions of [`syncline_plan::program`]:
//!
//! | step | instructions |
//! |---|---|
//! | `s` | send the source |
//! | `r` | receive into the destination, wait |
//! | `rcs` | the same, then send the destination |
//! | `rrc` | copy the source to the destination unless it is there, receive and reduce into it, wait |
//! | `rrcs` | the same, then send the destination |
//! | `rrs` | the same in a slot of scratch of its own, so that nothing is kept |
//! | `cpy`, `re` | copy, or reduce, the source into the destination |
//! | `nop` | only its dependency |
//!
//! - `copy` (SCCL, TE-CCL) lists chunks of a GPU's input that are in its output before any step. In place they are
//!   there already; otherwise an additional thread block copies them, and thread blocks that touch them wait for it.
//! - `proto`, `minBytes`, `maxBytes`, `inplace` and `outofplace` say when a runtime may choose the program. They are
//!   kept ([`syncline_plan::custom::MscclEntry`]) and written again.
//! - `depid` and `deps` name a thread block and the step of it that must be done first.
//! - Offsets count in `nchunksperloop` chunks of the larger of a GPU's two buffers, which corresponds to the full
//!   vector of this project. The input of an all-gather and the output of a reduce-scatter are a GPU's own share of
//!   it.
//! - In place, input and output are one buffer. All-to-all is out of place.
//! - MSCCL repeats a program over a long vector, loop by loop; here the whole vector is cut into the chunks.
//!
//! Programs are proved when they are read ([`syncline_plan::verify`]). Written programs suit the parsers of
//! Azure/msccl-executor-nccl and ROCm/rccl (`src/misc/msccl/msccl_parser.cc`). Sources: those, microsoft/msccl-tools,
//! microsoft/msccl.
//!
//! - [`program`]: a program as data;
//! - [`xml`]: the reader; [`emit`]: the writer;
//! - [`to_plan`]: converts a program to a plan;
//! - [`from_plan`]: converts a plan to a program, using `layout` (blocks to chunks), `stream` and `spread` (streams
//!   to thread blocks) and `draft` (which assembles thread blocks).

mod draft;
pub mod emit;
pub mod from_plan;
mod layout;
pub mod program;
mod spread;
mod stream;
#[cfg(test)]
mod tests;
pub mod to_plan;
pub mod xml;

pub use program::Program;

use crate::astra2::Source;
use std::path::Path;
use syncline_diagnostics::{Diagnostic, Diagnostics, Result};
use syncline_plan::{Custom, PlanFile};

/// Reads a program, converts it to a plan, and proves it. The diagnostics are warnings.
///
/// # Errors
/// `Unreadable`, `BadSyntax`, `BadMsccl` with the line, `WrongPlan` if it does not compute its collective.
pub fn read(path: &Path) -> Result<(PlanFile, Diagnostics)> {
    parse(&Source::read(path)?)
}

/// Reads a text.
///
/// # Errors
/// As [`read`].
pub fn parse(source: &Source) -> Result<(PlanFile, Diagnostics)> {
    let (program, warnings) = xml::parse(source)?;
    // A misspelt attribute may be the reason that the program is wrong, so errors include the warnings.
    let with_warnings = |errors: Diagnostics| {
        let named = |found: Diagnostic| match found.place {
            None => found.at(source.file(), 0).note("a seat is a GPU, a stream a thread block"),
            Some(_) => found,
        };
        Diagnostics(errors.0.into_iter().map(named).chain(warnings.0.clone()).collect())
    };
    let plan = to_plan::plan(&program, source).map_err(with_warnings)?;
    Custom::new(&plan).map_err(with_warnings)?;
    Ok((plan, warnings))
}

/// Converts a plan to the text of a program.
///
/// # Errors
/// `NotMsccl` if MSCCL cannot express it; errors of the plan itself.
pub fn write(plan: &PlanFile) -> Result<String> {
    Ok(emit::text(&from_plan::program(plan)?))
}
