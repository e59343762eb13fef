//! Process groups.
//!
//! A *role* such as "data parallel" partitions ranks into disjoint groups. On a grid of ranks, the groups of a role
//! are the lines, planes or boxes along some of its axes, and nothing is stored per rank. Arbitrary groups are stored
//! as lists.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use syncline_diagnostics::{Code, Diagnostic};

/// Index of a role in its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoleId(pub u16);

impl RoleId {
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One axis of a group's logical grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Members along it.
    pub size: u32,
    /// Difference of rank numbers between neighbours (grids only; 0 in listed groups).
    pub stride: u32,
    /// The fabric's dimension that it runs along, if any.
    pub dim: Option<u16>,
}

/// The position of a rank in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPosition {
    /// Group of the role.
    pub group: u32,
    /// Position within the group, axis 0 fastest.
    pub position: u32,
}

/// Evenly spaced ranks: the one at coordinate `c` is `first + c * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankLine {
    /// The rank at coordinate 0.
    pub first: u32,
    /// Difference of rank numbers between neighbours.
    pub step: NonZeroU32,
}

impl RankLine {
    /// The rank at `coordinate`.
    #[inline]
    pub fn rank(self, coordinate: u32) -> u32 {
        self.first + coordinate * self.step.get()
    }
}

/// An axis of the grid of all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GridAxis {
    size: u32,
    stride: u32,
}

/// How a role's groups are given.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    /// All ranks of a grid; axes not in `axes` distinguish the groups.
    Grid {
        /// The axes that distinguish groups, lowest first.
        others: Vec<GridAxis>,
    },
    /// Ranks by group, in group order.
    Lists {
        groups: Vec<Vec<u32>>,
        /// Position of each rank.
        positions: BTreeMap<u32, GroupPosition>,
    },
}

/// A partition of ranks into groups of equal shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// A name such as `data`, `tensor`, `all`.
    pub name: String,
    /// The logical grid of each group, lowest axis first.
    pub axes: Vec<Axis>,
    members: Members,
}

impl Role {
    /// The groups of a grid with axis sizes `grid` (lowest first, axis 0 fastest) along the axes `along` (ascending
    /// indices into `grid`). `dims` gives the fabric dimension of each axis of the grid.
    pub fn grid(name: &str, grid: &[u32], dims: &[Option<u16>], along: &[usize]) -> Self {
        let mut stride = 1;
        let mut axes = Vec::new();
        let mut others = Vec::new();
        for (index, (&size, &dim)) in grid.iter().zip(dims).enumerate() {
            if along.contains(&index) {
                axes.push(Axis { size, stride, dim });
            } else {
                others.push(GridAxis { size, stride });
            }
            stride *= size;
        }
        Self { name: name.to_owned(), axes, members: Members::Grid { others } }
    }

    /// Groups given as lists of ranks of equal length; the order of a list is the order of its group. `axes` is the
    /// groups' logical grid.
    ///
    /// # Errors
    /// A rank that occurs twice or is not below `ranks`; groups of unequal length, or of another size than the grid.
    pub fn lists(name: &str, groups: Vec<Vec<u32>>, axes: Vec<Axis>, ranks: u32) -> Result<Self, Diagnostic> {
        let bad = |message: String| Diagnostic::error(Code::BadGroup, message).key(format!("group `{name}`"));
        let size: u32 = axes.iter().map(|axis| axis.size).product();
        let mut positions = BTreeMap::new();
        for (group, members) in groups.iter().enumerate() {
            if members.len() != size as usize {
                return Err(bad(format!("a group has {} ranks, but its grid has {size}", members.len())));
            }
            for (position, &rank) in members.iter().enumerate() {
                if rank >= ranks {
                    return Err(bad(format!("rank {rank} does not exist"))
                        .allowed(format!("0 to {}", ranks.saturating_sub(1)))
                        .help("name only ranks of the job"));
                }
                let own = GroupPosition { group: group as u32, position: position as u32 };
                if let Some(first) = positions.insert(rank, own) {
                    let problem = if first.group == own.group {
                        format!("rank {rank} is named twice")
                    } else {
                        format!("rank {rank} is in two groups of one role")
                    };
                    return Err(bad(problem).help("name each rank once"));
                }
            }
        }
        Ok(Self { name: name.to_owned(), axes, members: Members::Lists { groups, positions } })
    }

    /// The same groups with more axes: an axis is divided at each of these distances between ranks that lies within it and
    /// divides it evenly. Positions stay. Listed groups stay as they are.
    #[must_use]
    pub fn divided(mut self, strides: &[u32]) -> Self {
        if !self.is_grid() {
            return self;
        }
        let divided = |axis: &Axis| {
            let mut parts = vec![*axis];
            for &stride in strides {
                let last = parts.last_mut().expect("an axis is at least one part");
                let evenly = stride > last.stride && stride.is_multiple_of(last.stride);
                let below = stride / last.stride;
                if evenly && below < last.size && last.size.is_multiple_of(below) {
                    let above = Axis { size: last.size / below, stride, ..*last };
                    last.size = below;
                    parts.push(above);
                }
            }
            parts
        };
        self.axes = self.axes.iter().flat_map(divided).collect();
        self
    }

    /// Ranks in each group.
    pub fn size(&self) -> u32 {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Number of groups.
    pub fn groups(&self) -> u32 {
        match &self.members {
            Members::Grid { others } => others.iter().map(|axis| axis.size).product(),
            Members::Lists { groups, .. } => groups.len() as u32,
        }
    }

    /// The place of `rank`; `None` if it takes no part.
    pub fn position_of(&self, rank: u32) -> Option<GroupPosition> {
        match &self.members {
            Members::Grid { others } => {
                let along = |axes: &mut dyn Iterator<Item = GridAxis>| {
                    let (mut index, mut weight) = (0, 1);
                    for GridAxis { size, stride } in axes {
                        index += rank / stride % size * weight;
                        weight *= size;
                    }
                    index
                };
                let group = along(&mut others.iter().copied());
                let position =
                    along(&mut self.axes.iter().map(|&Axis { size, stride, .. }| GridAxis { size, stride }));
                Some(GroupPosition { group, position })
            }
            Members::Lists { positions, .. } => positions.get(&rank).copied(),
        }
    }

    /// The rank at `position` of group `group`.
    pub fn rank(&self, group: u32, position: u32) -> u32 {
        match &self.members {
            Members::Grid { others } => {
                let mut rank = 0;
                let mut rest = group;
                for &GridAxis { size, stride } in others {
                    rank += rest % size * stride;
                    rest /= size;
                }
                rest = position;
                for axis in &self.axes {
                    rank += rest % axis.size * axis.stride;
                    rest /= axis.size;
                }
                rank
            }
            Members::Lists { groups, .. } => groups[group as usize][position as usize],
        }
    }

    /// The ranks of group `group`, in group order.
    pub fn ranks(&self, group: u32) -> Vec<u32> {
        (0..self.size()).map(|position| self.rank(group, position)).collect()
    }

    /// The ranks that differ from `rank` only along one axis, whose neighbours are `weight` positions apart. Returns
    /// `None` if they are not evenly spaced, or if `size` is not that of a single axis.
    pub fn line(&self, rank: u32, weight: u32, size: u32) -> Option<RankLine> {
        let Members::Grid { .. } = self.members else { return None };
        let mut below = 1;
        for axis in &self.axes {
            if below == weight && axis.size == size {
                let first = rank - rank / axis.stride % size * axis.stride;
                return Some(RankLine { first, step: NonZeroU32::new(axis.stride)? });
            }
            below *= axis.size;
        }
        None
    }

    /// Whether every axis steps by a constant rank difference, so that peers are found by arithmetic.
    pub fn is_grid(&self) -> bool {
        matches!(self.members, Members::Grid { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_and_ranks_are_inverse(grid in prop::collection::vec(1u32..5, 1..5), mask: u8) {
            let along: Vec<usize> = (0..grid.len()).filter(|i| mask >> i & 1 == 1).collect();
            let role = Role::grid("r", &grid, &vec![None; grid.len()], &along);
            let ranks: u32 = grid.iter().product();
            prop_assert_eq!(role.size() * role.groups(), ranks);
            for rank in 0..ranks {
                let at = role.position_of(rank).unwrap();
                prop_assert_eq!(role.rank(at.group, at.position), rank);
                let mut weight = 1;
                for axis in &role.axes {
                    let line = role.line(rank, weight, axis.size).unwrap();
                    for to in 0..axis.size {
                        let position = at.position + to * weight - at.position / weight % axis.size * weight;
                        prop_assert!(axis.size == 1 || line.rank(to) == role.rank(at.group, position));
                    }
                    weight *= axis.size;
                }
            }
        }
    }

    #[test]
    fn divided_groups_have_the_same_members_in_the_same_order() {
        let sizes = |role: &Role| role.axes.iter().map(|axis| (axis.size, axis.stride)).collect::<Vec<_>>();
        // Copies along 32 nodes of 8 ranks each; experts among 4 nodes.
        let copies = Role::grid("data", &[8, 32], &[Some(0), Some(1)], &[1]);
        let divided = copies.clone().divided(&[1, 8, 32, 256]);
        assert_eq!(sizes(&divided), [(4, 8), (8, 32)]);
        assert!(divided.axes.iter().all(|axis| axis.dim == Some(1)));
        for group in 0..8 {
            assert_eq!(divided.ranks(group), copies.ranks(group));
        }
        // 24 divides 32 nodes unevenly, and 4 lies below them.
        assert_eq!(sizes(&copies.clone().divided(&[4, 24])), [(32, 8)]);
        assert_eq!(sizes(&copies.divided(&[16, 64])), [(2, 8), (4, 16), (4, 64)]);
    }

    #[test]
    fn invalid_lists_of_groups_are_refused() {
        let axes = |size| vec![Axis { size, stride: 0, dim: None }];
        assert!(Role::lists("g", vec![vec![0, 1], vec![2, 3]], axes(2), 4).is_ok());
        for (groups, size, message) in [
            (vec![vec![0, 0]], 2, "named twice"),
            (vec![vec![0, 9]], 2, "does not exist"),
            (vec![vec![0, 1], vec![1, 2]], 2, "in two groups"),
            (vec![vec![0, 1, 2]], 2, "its grid has 2"),
        ] {
            let error = Role::lists("g", groups, axes(size), 4).unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }
}
