//! Translations of a regular fabric: which NPUs and links cannot be told apart but by their number.
//!
//! A dimension may be *turned* (see [`Turn`]): all its coordinates are moved at once. Turning some dimensions moves every
//! NPU onto any other that has the same coordinates in the other dimensions, and links onto links, with all routes. NPUs
//! that can be moved onto each other form a class; its representative has coordinate 0 in every turned dimension. All
//! classes have equally many members.

use crate::{Dimension, Fabric, Kind, Spread};
use syncline_units::{DimKind, LinkId, NpuId, Turn};

/// The dimensions that are turned, and the classes that follow.
#[derive(Clone, Debug)]
pub struct Symmetry {
    dims: Vec<Axis>,
    classes: u32,
    members: u32,
    ports: u32,
}

#[derive(Clone, Debug)]
struct Axis {
    dim: Dimension,
    turn: Option<Turn>,
    /// Difference of class numbers between neighbours; 0 where turned.
    weight: u32,
    /// Number of the dimension's first port.
    first_port: u32,
}

impl Symmetry {
    /// `turns` of the dimensions, lowest first. Dimensions that cannot be turned so stay as they are, and so does every
    /// dimension of a graph.
    pub fn new(fabric: &Fabric, turns: &[Option<Turn>]) -> Self {
        let mut dims = Vec::new();
        let (mut classes, mut members) = (1, 1);
        for (dim, &turn) in fabric.dims().iter().zip(turns) {
            let turn = turn.filter(|&turn| dim.turns(turn));
            let weight = if turn.is_some() { 0 } else { classes };
            if turn.is_some() {
                members *= dim.size;
            } else {
                classes *= dim.size;
            }
            dims.push(Axis { dim: dim.clone(), turn, weight, first_port: 0 });
        }
        let mut ports = 0;
        for axis in &mut dims {
            axis.first_port = ports;
            ports += classes * axis.dim.links_per_npu();
        }
        match &fabric.kind {
            Kind::Regular(_) if members > 1 => Self { dims, classes, members, ports },
            _ => Self { dims: Vec::new(), classes: fabric.npus(), members: 1, ports: fabric.links() },
        }
    }

    /// Nothing is turned: every NPU is a class of its own.
    pub fn none(fabric: &Fabric) -> Self {
        Self::new(fabric, &[])
    }

    /// Whether nothing is turned.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.members == 1
    }
    /// Number of classes of NPUs.
    pub fn classes(&self) -> u32 {
        self.classes
    }
    /// NPUs in each class, and links in each class of links.
    pub fn members(&self) -> u32 {
        self.members
    }
    /// The turn of dimension `dim`.
    pub fn turn(&self, dim: usize) -> Option<Turn> {
        self.dims.get(dim).and_then(|axis| axis.turn)
    }

    /// The class of an NPU.
    #[inline]
    pub fn class(&self, npu: NpuId) -> u32 {
        if self.is_none() {
            return npu.0;
        }
        self.dims.iter().map(|axis| axis.dim.coordinate(npu.0) * axis.weight).sum()
    }

    /// The representative of a class.
    pub fn representative(&self, class: u32) -> NpuId {
        if self.is_none() {
            return NpuId(class);
        }
        let fixed = self.dims.iter().filter(|axis| axis.turn.is_none());
        NpuId(fixed.map(|axis| class / axis.weight % axis.dim.size * axis.dim.stride).sum())
    }

    /// Number of classes of links, which are called ports.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// The first link of each class, in ascending order.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        let of = |axis: &Axis, class: u32, local: u32| {
            let npu = self.representative(class);
            LinkId(axis.dim.first_link + npu.0 * axis.dim.links_per_npu() + local)
        };
        let turned = self.dims.iter().flat_map(move |axis| {
            let locals = move |class| (0..axis.dim.links_per_npu()).map(move |local| of(axis, class, local));
            (0..self.classes).flat_map(locals)
        });
        // Without turns there are no dimensions here, and every link is a class.
        let all = if self.is_none() { self.ports } else { 0 };
        turned.chain((0..all).map(LinkId))
    }

    /// The class of a link.
    #[inline]
    pub fn port(&self, link: LinkId) -> u32 {
        if self.is_none() {
            return link.0;
        }
        let axis =
            self.dims.iter().rev().find(|axis| axis.dim.first_link <= link.0).expect("links count from 0");
        let per_npu = axis.dim.links_per_npu();
        let (npu, local) =
            ((link.0 - axis.dim.first_link) / per_npu, (link.0 - axis.dim.first_link) % per_npu);
        let local = match (axis.turn, axis.dim.kind) {
            // Numbered by how far they lead, which this turn changes.
            (Some(Turn::Xor), DimKind::FullyConnected) => {
                let here = axis.dim.coordinate(npu);
                let there = (here + 1 + local / axis.dim.count) % axis.dim.size;
                ((here ^ there) - 1) * axis.dim.count + local % axis.dim.count
            }
            _ => local,
        };
        axis.first_port + self.class(NpuId(npu)) * per_npu + local
    }
}

impl Dimension {
    /// Whether the dimension looks the same after a turn.
    pub fn turns(&self, turn: Turn) -> bool {
        match (turn, self.kind) {
            // A turn by one changes the sum of a pair's coordinates by two, and by the size where one of them comes round.
            (Turn::Cyclic, DimKind::Switch) if self.spread == Spread::Pair && self.size > 2 => {
                2 % self.count == 0 && self.size.is_multiple_of(self.count)
            }
            (Turn::Cyclic, _) => true,
            (Turn::Xor, _) if !self.size.is_power_of_two() => false,
            (Turn::Xor, DimKind::Ring) => self.size <= 2,
            (Turn::Xor, DimKind::FullyConnected) => true,
            // Which of several switches a message takes depends on how far it goes round.
            (Turn::Xor, DimKind::Switch) => self.count == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Direction;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use syncline_units::{Rate, Time};

    fn any_dim() -> impl Strategy<Value = (Dimension, Option<Turn>)> {
        let kinds = prop::sample::select(DimKind::ALL);
        let turns = prop::sample::select(&[None, Some(Turn::Cyclic), Some(Turn::Xor)][..]);
        (kinds, 1u32..7, 1u32..4, any::<[bool; 2]>(), turns).prop_map(
            |(kind, size, count, [both, pair], turn)| {
                let direction = if both { Direction::Both } else { Direction::OneWay };
                let spread = if pair { Spread::Pair } else { Spread::Lane };
                let dim = Dimension::new(String::new(), kind, size).with_count(count);
                let dim = dim.with_direction(direction).with_spread(spread);
                (dim.with_rate(Rate(8)).with_latency(Time(1)), turn)
            },
        )
    }

    proptest! {
        /// Moving both ends of a route moves its links: class by class, port by port.
        #[test]
        fn routes_move_with_their_ends(
            dims in prop::collection::vec(any_dim(), 1..4), lane in 0u32..9, from: u32, to: u32, by: u32
        ) {
            let turns: Vec<Option<Turn>> = dims.iter().map(|&(_, turn)| turn).collect();
            let dims = dims.into_iter().enumerate().map(|(i, (mut dim, _))| { dim.name = i.to_string(); dim });
            let fabric = Fabric::regular(dims.collect()).unwrap();
            let symmetry = Symmetry::new(&fabric, &turns);
            let [from, to, by] = [from, to, by].map(|npu| npu % fabric.npus());
            let moved = |npu: u32| -> u32 {
                let along = |(index, dim): (usize, &Dimension)| {
                    let [c, b] = [dim.coordinate(npu), dim.coordinate(by)];
                    symmetry.turn(index).map_or(c, |turn| turn.seen_from(c, b, dim.size)) * dim.stride
                };
                fabric.dims().iter().enumerate().map(along).sum()
            };
            prop_assert_eq!(symmetry.class(NpuId(moved(from))), symmetry.class(NpuId(from)));
            let ports = |from, to| {
                let mut path = Vec::new();
                fabric.route(NpuId(from), NpuId(to), lane, &mut path);
                path.into_iter().map(|link| symmetry.port(link)).collect::<Vec<_>>()
            };
            prop_assert_eq!(ports(moved(from), moved(to)), ports(from, to));
        }

        /// Where a switch is chosen by the pair, a dimension is turned if and only if that changes no pair's switch.
        #[test]
        fn pairs_are_turned_where_they_keep_their_switches(size in 1u32..9, count in 1u32..9) {
            let dim = Dimension::new("d".to_owned(), DimKind::Switch, size).with_count(count);
            let dim = dim.with_spread(Spread::Pair).with_rate(Rate(8));
            let turned = |at: u32| (at + 1) % size;
            let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b))).filter(|(a, b)| a != b);
            let same = pairs.clone().all(|(a, b)| (a + b) % count == (turned(a) + turned(b)) % count);
            prop_assert_eq!(dim.turns(Turn::Cyclic), same);
            let exchanged = |bit: u32| pairs.clone().all(|(a, b)| (a + b) % count == ((a ^ bit) + (b ^ bit)) % count);
            prop_assert!(!dim.turns(Turn::Xor) || (0..size).all(exchanged));
        }

        /// Classes of NPUs and links are numbered without gaps and have equally many members.
        #[test]
        fn classes_are_equal(dims in prop::collection::vec(any_dim(), 1..4)) {
            let turns: Vec<Option<Turn>> = dims.iter().map(|&(_, turn)| turn).collect();
            let dims = dims.into_iter().enumerate().map(|(i, (mut dim, _))| { dim.name = i.to_string(); dim });
            let fabric = Fabric::regular(dims.collect()).unwrap();
            let symmetry = Symmetry::new(&fabric, &turns);
            let mut npus = BTreeMap::new();
            for npu in 0..fabric.npus() {
                *npus.entry(symmetry.class(NpuId(npu))).or_insert(0) += 1;
            }
            prop_assert_eq!(npus, (0..symmetry.classes()).map(|c| (c, symmetry.members())).collect());
            for class in 0..symmetry.classes() {
                prop_assert_eq!(symmetry.class(symmetry.representative(class)), class);
            }
            let mut links = BTreeMap::new();
            for link in 0..fabric.links() {
                *links.entry(symmetry.port(LinkId(link))).or_insert(0) += 1;
            }
            prop_assert_eq!(links, (0..symmetry.ports()).map(|p| (p, symmetry.members())).collect());
            if !symmetry.is_none() {
                let first: Vec<LinkId> = symmetry.links().collect();
                prop_assert!(first.is_sorted());
                let ports: Vec<u32> = first.iter().map(|&link| symmetry.port(link)).collect();
                prop_assert_eq!(ports.len() as u32, symmetry.ports());
                for link in 0..fabric.links() {
                    let class = ports.iter().position(|&port| port == symmetry.port(LinkId(link))).unwrap();
                    prop_assert!(first[class].0 <= link);
                }
            }
        }
    }
}
