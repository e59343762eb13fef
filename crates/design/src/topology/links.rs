//! The links of all-reduces: rings, or pairs of binary trees.

use serde::{Deserialize, Serialize};
use syncline_plan::algorithm::double_binary_tree;

/// How an all-reduce uses links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AllReduceLinks {
    /// Rings in several orders at once.
    #[default]
    Rings,
    /// Pairs of binary trees over ranks that are relabelled in several ways (topoopt2022 Appendix A).
    DoubleBinaryTrees,
}

/// Interfaces of a server that a pair of trees uses at most: an inner node of one tree has a parent and two children, and
/// is a leaf of the other.
pub const TREE_INTERFACES: u32 = 4;

/// The links of an all-reduce group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLinks {
    /// The members, ascending.
    pub members: Vec<u32>,
    /// How its all-reduces use links.
    pub pattern: AllReduceLinks,
    /// One entry per ring or pair of trees, each with links of its own. Ring: member `i` sends to member `i + stride`, modulo
    /// their number. Trees: member `stride * l`, modulo their number, takes the place of rank `l`. Empty if the group has no
    /// links of its own.
    pub strides: Vec<u32>,
}

impl GroupLinks {
    /// A single ring in the order of the members.
    pub(crate) fn one_ring(members: Vec<u32>) -> Self {
        Self { members, pattern: AllReduceLinks::Rings, strides: vec![1] }
    }

    /// The links of its own, from server to server; parallel ones several times.
    pub fn links(&self) -> Vec<(u32, u32)> {
        group_links(&self.members, self.pattern, &self.strides)
    }

    /// The links of its own, ring by ring or pair of trees by pair.
    pub(crate) fn links_by_stride(&self) -> impl Iterator<Item = Vec<(u32, u32)>> + '_ {
        self.strides.iter().map(|&stride| group_links(&self.members, self.pattern, &[stride]))
    }
}

/// The links that all-reduces among `members` use with these strides, from server to server.
pub(super) fn group_links(members: &[u32], pattern: AllReduceLinks, strides: &[u32]) -> Vec<(u32, u32)> {
    let size = members.len();
    match pattern {
        AllReduceLinks::Rings => strides
            .iter()
            .flat_map(|&stride| {
                (0..size).map(move |at| (members[at], members[(at + stride as usize) % size]))
            })
            .collect(),
        AllReduceLinks::DoubleBinaryTrees => double_binary_tree::links(size as u32, strides)
            .map(|(child, parent)| (members[child as usize], members[parent as usize]))
            .flat_map(|(child, parent)| [(child, parent), (parent, child)])
            .collect(),
    }
}
