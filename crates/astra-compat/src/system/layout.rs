//! The dimensions and algorithms of a collective.
//!
//! ASTRA-sim 2, `GeneralComplexTopology.cc`, `CommunicatorGroup.cc`: without a group, and in a group of all
//! ranks, there is one phase per dimension of the machine, or one flat phase over all ranks (`one...`). In
//! any other group there is one ring over the listed ranks, with the algorithm of an implementation list of
//! one entry, otherwise `ring`.

use crate::algorithms::Pattern;
use syncline_formats::astra2::{Algorithm, Implementation, NetworkFile, System};

/// The ranks that take part in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// The ranks that differ only in this dimension.
    Dimension(u32),
    /// All ranks of the machine.
    Flat,
    /// The ranks of this group.
    Group(u32),
}

/// One logical dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) span: Span,
    pub(crate) count: u32,
    pub(crate) algorithm: Algorithm,
}

/// Why a collective cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoLayout {
    /// There is no implementation list.
    Absent,
    /// It has fewer entries than the network has dimensions.
    Short,
}

/// A collective's logical dimensions, lowest first, and whether it runs in only part of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) levels: Vec<Level>,
    pub(crate) listed: bool,
}

/// Returns the implementation list of a collective.
pub(crate) fn implementations(system: &System, pattern: Pattern) -> Option<&[Implementation]> {
    match pattern {
        Pattern::AllReduce => &system.all_reduce,
        Pattern::AllGather => &system.all_gather,
        Pattern::ReduceScatter => &system.reduce_scatter,
        Pattern::AllToAll => &system.all_to_all,
    }
    .as_deref()
    .filter(|list| !list.is_empty())
}

impl Layout {
    /// Returns the layout of a collective in a group of `(number, size)`, or of all ranks.
    pub(crate) fn new(
        network: &NetworkFile,
        system: &System,
        pattern: Pattern,
        group: Option<(u32, u32)>,
    ) -> Result<Self, NoLayout> {
        let list = implementations(system, pattern).ok_or(NoLayout::Absent)?;
        if let Some((number, count)) = group.filter(|&(_, count)| count != network.npus()) {
            let algorithm = if let [only] = list { only.algorithm } else { Algorithm::Ring };
            let level = Level { span: Span::Group(number), count, algorithm };
            return Ok(Self { levels: vec![level], listed: true });
        }
        if list[0].flat {
            let level = Level { span: Span::Flat, count: network.npus(), algorithm: list[0].algorithm };
            return Ok(Self { levels: vec![level], listed: false });
        }
        if list.len() < network.dims.len() {
            return Err(NoLayout::Short);
        }
        let levels = (0u32..)
            .zip(network.dims.iter().zip(list))
            .map(|(dim, (shape, entry))| Level {
                span: Span::Dimension(dim),
                count: shape.npus,
                algorithm: entry.algorithm,
            })
            .collect();
        Ok(Self { levels, listed: false })
    }
}
