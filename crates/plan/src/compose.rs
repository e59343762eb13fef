//! Collectives over the axes of a logical grid, one axis after another.
//!
//! A [`Grid`] gives every position coordinates, axis 0 running fastest: `position = c0 + n0 (c1 + n1 (c2 + ...))`. A
//! [`Composition`] turns a collective over the whole grid into [`Phase`]s; in each, the positions that differ on the
//! phase's axis only form a group, in which a position's rank is its coordinate, and run a collective.
//!
//! | composition | all-reduce over axes `0..d` |
//! |---|---|
//! | `baseline` (astra2020 III-D) | all-reduce on each axis in turn |
//! | `enhanced` (astra2020 III-D) | reduce-scatter on 0, all-reduce on each other axis in turn, all-gather on 0 |
//! | `hierarchical_2n` (hier2021 III-B) | reduce-scatter on `0..d`, all-gather on `d-1` down to 0 |
//! | `hierarchical_2n_merged` | the same with one all-reduce on `d-1` in place of the two phases there |
//! | `hierarchical` (dlrm2020 Table II) | all-reduce on 0 (local), then on the others |
//! | `hierarchical_optimal` (dlrm2020 Table II) | reduce-scatter on 0, all-reduce on the others, all-gather on 0 |
//!
//! `hierarchical` has the same phases as `baseline`, and `hierarchical_optimal` the same as `enhanced`: dlrm2020 has
//! two axes, and further axes are taken one after another. If a composition has no axis left between the
//! reduce-scatter and the all-gather of axis 0, these two become one all-reduce. Other collectives are the same in
//! every composition: reduce-scatter on axes `0..d`; all-gather on axes `d-1` down to 0; all-to-all on axes `0..d`,
//! each with the full vector (astra2020 III-D: a message carries all that "could be routed to their destination
//! through that NPU"); reduce on axes `0..d` and broadcast on axes `d-1` down to 0, among the positions whose
//! coordinates on lower axes are 0. Axes of size 1 have no phase.
//!
//! *Which elements.* At the start, a position holds the whole vector. Each reduce-scatter so far has cut what it
//! holds by its coordinate on that axis ([`Extent::blocks`]). So after reduce-scatter over all axes, position `(c0,
//! c1, .., cd)` owns block `cd + nd (.. + n1 c0)`: in block numbers axis 0 is *slowest*, while in positions axis 0 is
//! fastest. [`Grid::owned_block`] returns that number. All-gather starts from the same block. (To end with block `p`
//! at position `p`, the axes would have to be taken from the last to the first, and the slowest links would carry the
//! full vector.)

use crate::program::Refusal;
use std::fmt;
use std::str::FromStr;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_units::{CollectiveKind, Extent};

/// Positions with coordinates, axis 0 fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    sizes: Vec<u32>,
    positions: u32,
}

impl Grid {
    /// A grid with axes of these sizes, lowest first. `None` if a size is 0 or the number of positions does not fit
    /// 32 bits.
    pub fn new(sizes: &[u32]) -> Option<Self> {
        let positions = sizes.iter().try_fold(1u32, |product, &size| product.checked_mul(size))?;
        (positions > 0).then(|| Self { sizes: sizes.to_vec(), positions })
    }
    /// Size of each axis.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }
    /// Number of positions.
    #[inline]
    pub fn positions(&self) -> u32 {
        self.positions
    }
    /// Difference in position between neighbours on an axis.
    #[inline]
    pub fn stride(&self, axis: usize) -> u32 {
        self.sizes[..axis].iter().product()
    }
    /// A position's coordinate on an axis, which is its rank in its group there.
    #[inline]
    pub fn coordinate(&self, position: u32, axis: usize) -> u32 {
        position / self.stride(axis) % self.sizes[axis]
    }
    /// A position's group on an axis, in order of rank.
    pub fn group(&self, position: u32, axis: usize) -> impl Iterator<Item = u32> + use<> {
        let (stride, size) = (self.stride(axis), self.sizes[axis]);
        let first = position - self.coordinate(position, axis) * stride;
        (0..size).map(move |rank| first + rank * stride)
    }
    /// What a position holds after reduce-scatter over the first `axes` axes.
    #[inline]
    pub fn held(&self, position: u32, axes: usize, whole: Extent) -> Extent {
        let mut rest = position;
        self.sizes[..axes].iter().fold(whole, |held, &size| {
            let coordinate = rest % size;
            rest /= size;
            held.blocks(coordinate, 1, size)
        })
    }
    /// The number of the block that a position owns after reduce-scatter over all axes, if the vector is cut into as
    /// many blocks as there are positions. (If the vector does not divide evenly, [`Grid::held`] returns the exact
    /// elements.)
    pub fn owned_block(&self, position: u32) -> u32 {
        let mut rest = position;
        self.sizes.iter().fold(0, |block, &size| {
            let coordinate = rest % size;
            rest /= size;
            block * size + coordinate
        })
    }
}

/// How a collective is composed of phases; see the table in the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Composition {
    /// astra2020: a whole all-reduce on each axis.
    Baseline,
    /// astra2020: all-reduce of a block between reduce-scatter and all-gather on axis 0.
    Enhanced,
    /// hier2021: reduce-scatter upwards, all-gather downwards.
    Hierarchical2n,
    /// As [`Composition::Hierarchical2n`], with one all-reduce on the last axis.
    Hierarchical2nMerged,
    /// dlrm2020: all-reduce within groups, then between them.
    Hierarchical,
    /// dlrm2020: three phases.
    HierarchicalOptimal,
}

impl Composition {
    /// Every composition, in the order in which the documentation lists them.
    pub const ALL: [Self; 6] = [
        Self::Baseline,
        Self::Enhanced,
        Self::Hierarchical2n,
        Self::Hierarchical2nMerged,
        Self::Hierarchical,
        Self::HierarchicalOptimal,
    ];

    /// The name that scenarios use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Enhanced => "enhanced",
            Self::Hierarchical2n => "hierarchical_2n",
            Self::Hierarchical2nMerged => "hierarchical_2n_merged",
            Self::Hierarchical => "hierarchical",
            Self::HierarchicalOptimal => "hierarchical_optimal",
        }
    }

    /// The phases of `kind` over a grid, in order. Empty if the grid has only one position.
    pub fn phases(self, kind: CollectiveKind, grid: &Grid) -> Vec<Phase> {
        let axes: Vec<usize> = (0..grid.sizes.len()).filter(|&axis| grid.sizes[axis] > 1).collect();
        let phase = |axis: usize, kind, cut| Phase { axis, kind, size: grid.sizes[axis], cut };
        let up = |kind, nested: bool| {
            axes.iter().map(move |&axis| phase(axis, kind, if nested { axis } else { 0 }))
        };
        match kind {
            CollectiveKind::AllReduce => self.all_reduce(&axes, phase),
            CollectiveKind::ReduceScatter => up(kind, true).collect(),
            CollectiveKind::AllGather => up(kind, true).rev().collect(),
            CollectiveKind::AllToAll | CollectiveKind::Reduce => up(kind, false).collect(),
            CollectiveKind::Broadcast => up(kind, false).rev().collect(),
        }
    }

    fn all_reduce(self, axes: &[usize], phase: impl Fn(usize, CollectiveKind, usize) -> Phase) -> Vec<Phase> {
        use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
        let scatter = axes.iter().map(|&axis| phase(axis, ReduceScatter, axis));
        let gather = axes.iter().rev().map(|&axis| phase(axis, AllGather, axis));
        match self {
            Self::Baseline | Self::Hierarchical => {
                axes.iter().map(|&axis| phase(axis, AllReduce, 0)).collect()
            }
            Self::Enhanced | Self::HierarchicalOptimal => match axes {
                [0, between @ ..] if !between.is_empty() => std::iter::once(phase(0, ReduceScatter, 0))
                    .chain(between.iter().map(|&axis| phase(axis, AllReduce, 1)))
                    .chain([phase(0, AllGather, 0)])
                    .collect(),
                _ => axes.iter().map(|&axis| phase(axis, AllReduce, 0)).collect(),
            },
            Self::Hierarchical2n => scatter.chain(gather).collect(),
            Self::Hierarchical2nMerged => {
                let Some((&last, lower)) = axes.split_last() else { return Vec::new() };
                scatter
                    .take(lower.len())
                    .chain([phase(last, AllReduce, last)])
                    .chain(gather.skip(1))
                    .collect()
            }
        }
    }
}

impl fmt::Display for Composition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Composition {
    type Err = Diagnostics;
    fn from_str(text: &str) -> Result<Self, Diagnostics> {
        Self::ALL.into_iter().find(|composition| composition.name() == text.trim()).ok_or_else(|| {
            Diagnostic::error(Code::BadValue, "there is no such composition")
                .one_of(text.trim(), Self::ALL.map(Self::name))
                .into()
        })
    }
}

/// A collective on one axis. Every group of that axis runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Phase {
    /// The axis.
    pub axis: usize,
    /// The collective that each group runs.
    pub kind: CollectiveKind,
    /// Number of ranks of the group.
    pub size: u32,
    /// Number of lowest axes along which the vector has already been cut.
    pub cut: usize,
}

impl Phase {
    /// The elements that the phase's collective works on at a position, in the sense of [`CollectiveKind`] (for
    /// all-gather: its result), if the collective over the grid works on `whole`. `None` if the position takes no
    /// part.
    #[inline]
    pub fn extent(&self, grid: &Grid, position: u32, whole: Extent) -> Option<Extent> {
        self.takes_part(grid, position).then(|| grid.held(position, self.cut, whole))
    }
    /// Whether the position takes part. In a broadcast or reduce, only positions whose coordinates on lower axes are
    /// 0 do; otherwise all do.
    #[inline]
    pub fn takes_part(&self, grid: &Grid, position: u32) -> bool {
        match self.kind {
            CollectiveKind::Broadcast | CollectiveKind::Reduce => {
                position.is_multiple_of(grid.stride(self.axis))
            }
            _ => true,
        }
    }
}

/// Checks that the algorithm of each axis offers the phases on that axis.
///
/// # Errors
/// The first refusal, with the axis.
pub fn check<'a>(
    phases: &[Phase],
    algorithm: impl Fn(usize) -> &'a dyn crate::program::Algorithm,
) -> Result<(), Refusal> {
    phases.iter().try_for_each(|phase| {
        algorithm(phase.axis)
            .offers(phase.kind, phase.size)
            .map_err(|refusal| Refusal(format!("axis {}: {refusal}", phase.axis)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phases(composition: Composition, kind: CollectiveKind, sizes: &[u32]) -> String {
        let short = |phase: Phase| {
            let kind = match phase.kind {
                CollectiveKind::AllReduce => "AR",
                CollectiveKind::ReduceScatter => "RS",
                CollectiveKind::AllGather => "AG",
                CollectiveKind::AllToAll => "A2A",
                CollectiveKind::Broadcast => "BC",
                CollectiveKind::Reduce => "R",
            };
            format!("{kind}{}/{}", phase.axis, phase.cut)
        };
        let grid = Grid::new(sizes).unwrap();
        composition.phases(kind, &grid).into_iter().map(short).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_composition_of_an_all_reduce_has_its_phases() {
        let of = |composition| phases(composition, CollectiveKind::AllReduce, &[2, 3, 4]);
        assert_eq!(of(Composition::Baseline), "AR0/0 AR1/0 AR2/0");
        assert_eq!(of(Composition::Enhanced), "RS0/0 AR1/1 AR2/1 AG0/0");
        assert_eq!(of(Composition::Hierarchical2n), "RS0/0 RS1/1 RS2/2 AG2/2 AG1/1 AG0/0");
        assert_eq!(of(Composition::Hierarchical2nMerged), "RS0/0 RS1/1 AR2/2 AG1/1 AG0/0");
        assert_eq!(of(Composition::Hierarchical), of(Composition::Baseline));
        assert_eq!(of(Composition::HierarchicalOptimal), of(Composition::Enhanced));
    }

    #[test]
    fn axes_of_size_one_have_no_phase() {
        let of = |composition, sizes| phases(composition, CollectiveKind::AllReduce, sizes);
        assert_eq!(of(Composition::Enhanced, &[1, 8, 8]), "AR1/0 AR2/0");
        assert_eq!(of(Composition::Enhanced, &[8, 1, 1]), "AR0/0");
        assert_eq!(of(Composition::Enhanced, &[4, 1, 2]), "RS0/0 AR2/1 AG0/0");
        assert_eq!(of(Composition::Hierarchical2nMerged, &[4, 1]), "AR0/0");
        assert_eq!(of(Composition::Hierarchical2n, &[1, 4]), "RS1/1 AG1/1");
        for composition in Composition::ALL {
            assert_eq!(of(composition, &[1, 1]), "");
            assert_eq!(of(composition, &[]), "");
        }
    }

    #[test]
    fn baseline_compositions_of_other_collectives_have_one_phase_per_axis() {
        let of = |kind| phases(Composition::Baseline, kind, &[2, 3]);
        assert_eq!(of(CollectiveKind::ReduceScatter), "RS0/0 RS1/1");
        assert_eq!(of(CollectiveKind::AllGather), "AG1/1 AG0/0");
        assert_eq!(of(CollectiveKind::AllToAll), "A2A0/0 A2A1/0");
        assert_eq!(of(CollectiveKind::Reduce), "R0/0 R1/0");
        assert_eq!(of(CollectiveKind::Broadcast), "BC1/0 BC0/0");
        let grid = Grid::new(&[2, 3]).unwrap();
        let across = Composition::Baseline.phases(CollectiveKind::Broadcast, &grid)[0];
        assert_eq!(across.extent(&grid, 4, Extent::whole(9)), Some(Extent::whole(9)));
        assert_eq!(across.extent(&grid, 5, Extent::whole(9)), None);
    }

    #[test]
    fn names_of_compositions_are_parsed() {
        for composition in Composition::ALL {
            assert_eq!(composition.name().parse(), Ok(composition));
        }
        let error = "enhansed".parse::<Composition>().unwrap_err();
        assert_eq!(error.0[0].nearest.as_deref(), Some("enhanced"));
    }

    #[test]
    fn impossible_grids_are_refused() {
        assert!(Grid::new(&[2, 0]).is_none());
        assert!(Grid::new(&[1 << 16, 1 << 16]).is_none());
    }

    #[test]
    fn groups_are_listed_by_rank() {
        let grid = Grid::new(&[2, 3, 2]).unwrap();
        assert_eq!(grid.group(9, 1).collect::<Vec<_>>(), [7, 9, 11]);
        assert_eq!(grid.coordinate(9, 1), 1);
        assert_eq!(grid.group(9, 2).collect::<Vec<_>>(), [3, 9]);
    }

    #[test]
    fn owned_blocks_are_numbered_with_axis_0_slowest() {
        let grid = Grid::new(&[2, 3]).unwrap();
        // Position 1 is (1, 0): the first third of the second half.
        assert_eq!(grid.owned_block(1), 3);
        assert_eq!(grid.held(1, 2, Extent::whole(60)), Extent { start: 30, end: 40 });
        assert_eq!(grid.owned_block(2), 1);
    }

    proptest! {
        #[test]
        fn owned_blocks_cover_the_vector(sizes in prop::collection::vec(1u32..6, 0..5), len in 0u64..5000) {
            let grid = Grid::new(&sizes).unwrap();
            let axes = sizes.len();
            let mut owned: Vec<(u32, Extent)> = (0..grid.positions())
                .map(|p| (grid.owned_block(p), grid.held(p, axes, Extent::whole(len))))
                .collect();
            owned.sort_by_key(|owned| owned.0);
            let mut end = 0;
            for (number, (block, extent)) in owned.iter().enumerate() {
                prop_assert_eq!(*block as usize, number);
                prop_assert_eq!(extent.start, end);
                end = extent.end;
            }
            prop_assert_eq!(end, len);
            let sizes = || owned.iter().map(|owned| owned.1.len());
            prop_assert!(sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        }
    }
}
