//! Turns of NPU numbers: which NPUs and links are equivalent, that is, differ only in their number.
//!
//! NPUs are numbered along axes, lowest first: the dimensions of a regular fabric, nodes and the NPUs in
//! them, the degrees of a parallelisation. An axis may be *turned* (see [`Turned`]): all its coordinates are
//! moved at once. Turning some axes maps NPUs onto NPUs, and links onto links, together with all routes in
//! use. NPUs that can be mapped onto each other form a class; its representative has the lowest coordinates.
//! All classes have the same size, and so have classes of links, except links with a port of their own.
//!
//! If whole dimensions of a regular fabric are turned, classes of links follow by arithmetic
//! ([`Symmetry::new`]); otherwise they follow from comparing routes (`compared`).

use crate::{Dimension, Fabric, Spread};
use std::sync::Arc;
use syncline_units::{DimKind, LinkId, NpuId, Turn, Turned};

/// An axis of NPU numbers: coordinate `npu / stride % size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NpuAxis {
    /// Number of coordinates.
    pub size: u32,
    /// Difference of numbers between neighbours.
    pub stride: u32,
    /// How it is turned; `None` if it is not.
    pub turned: Option<Turned>,
}

impl NpuAxis {
    fn coordinate(&self, npu: u32) -> u32 {
        npu / self.stride % self.size
    }

    /// Returns the number of coordinates of which no turn maps one onto another.
    fn step(&self) -> u32 {
        self.turned.map_or(self.size, |turned| turned.step)
    }
}

/// The turned axes, and the resulting classes.
#[derive(Clone, Debug)]
pub struct Symmetry {
    /// Empty if nothing is turned.
    axes: Vec<NpuAxis>,
    classes: u32,
    members: u32,
    ports: Ports,
}

/// The classes of links.
#[derive(Clone, Debug)]
enum Ports {
    /// This many links, each a port of its own.
    Links(u32),
    /// Those of dimensions.
    Dims { dims: Vec<DimPorts>, count: u32 },
    /// Link by link.
    Table(Arc<Table>),
}

/// A dimension, and the number of its first port.
#[derive(Clone, Debug)]
struct DimPorts {
    dim: Dimension,
    turn: Option<Turn>,
    first: u32,
}

/// Classes of links, found by comparing routes.
#[derive(Debug)]
pub(crate) struct Table {
    /// The port of each link.
    pub(crate) ports: Vec<u32>,
    /// The first link of each port, ascending.
    pub(crate) first: Vec<LinkId>,
    /// The number of links of each port.
    pub(crate) members: Vec<u32>,
    /// Whether each link inside the network has a port of its own, because routes do not use them evenly.
    pub(crate) uneven_inside: bool,
}

impl Symmetry {
    /// The symmetry from `turns` of the dimensions, lowest first. Dimensions that cannot be turned like this
    /// are not, nor is any dimension of a graph.
    pub fn new(fabric: &Fabric, turns: &[Option<Turn>]) -> Self {
        let axes = fabric.dims().iter().zip(turns).map(|(dim, &turn)| {
            let turn = turn.filter(|&turn| dim.turns(turn));
            NpuAxis { size: dim.size, stride: dim.stride, turned: turn.map(|turn| Turned { turn, step: 1 }) }
        });
        let axes: Vec<NpuAxis> = axes.collect();
        let mut symmetry = Self::of_axes(axes, Ports::Links(0));
        if symmetry.is_none() {
            return Self::none(fabric);
        }
        let mut ports = 0;
        let dims = fabric.dims().iter().zip(&symmetry.axes).map(|(dim, axis)| {
            let first = ports;
            ports += symmetry.classes * dim.links_per_npu();
            DimPorts { dim: dim.clone(), turn: axis.turned.map(|turned| turned.turn), first }
        });
        let dims = dims.collect();
        symmetry.ports = Ports::Dims { dims, count: ports };
        symmetry
    }

    /// The symmetry without turns: every NPU is a class of its own.
    pub fn none(fabric: &Fabric) -> Self {
        Self { axes: Vec::new(), classes: fabric.npus(), members: 1, ports: Ports::Links(fabric.links()) }
    }

    /// The classes of NPUs that follow from `axes`, which must cover all NPU numbers. Links have no classes
    /// before [`Symmetry::compared`].
    pub fn of_npus(axes: Vec<NpuAxis>) -> Self {
        Self::of_axes(axes, Ports::Links(0))
    }

    /// Returns the same symmetry with these classes of links.
    pub(crate) fn with_table(self, table: Table) -> Self {
        Self { ports: Ports::Table(Arc::new(table)), ..self }
    }

    fn of_axes(axes: Vec<NpuAxis>, ports: Ports) -> Self {
        let classes = axes.iter().map(NpuAxis::step).product();
        let members = axes.iter().map(|axis| axis.size / axis.step()).product();
        Self { axes, classes, members, ports }
    }

    /// Whether nothing is turned.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.members == 1
    }
    /// Returns the number of classes of NPUs.
    pub fn classes(&self) -> u32 {
        self.classes
    }
    /// Returns the number of NPUs in each class.
    pub fn members(&self) -> u32 {
        self.members
    }
    /// Returns how the axis with this size and stride is turned; `None` if it is not, or if there is no such
    /// axis. An axis that several make up, of which only the highest is turned, is turned by as many coordinates as the
    /// others have.
    pub fn turned(&self, size: u32, stride: u32) -> Option<Turned> {
        if let Some(axis) = self.axes.iter().find(|axis| axis.size == size && axis.stride == stride) {
            return axis.turned;
        }
        let end = stride.checked_mul(size)?;
        let whole = |axis: &&NpuAxis| axis.size > 1 && axis.stride.checked_mul(axis.size) == Some(end);
        let top = self.axes.iter().find(whole)?;
        let mut below = self.axes.iter().filter(|axis| (stride..top.stride).contains(&axis.stride));
        let starts = self.axes.iter().any(|axis| axis.stride == stride);
        if !starts || top.stride <= stride || below.any(|axis| axis.turned.is_some()) {
            return None;
        }
        let Turned { turn, step } = top.turned?;
        Some(Turned { turn, step: step * (top.stride / stride) })
    }

    /// Returns the class of an NPU.
    #[inline]
    pub fn class(&self, npu: NpuId) -> u32 {
        if self.is_none() {
            return npu.0;
        }
        let (mut class, mut weight) = (0, 1);
        for axis in &self.axes {
            let step = axis.step();
            if step > 1 {
                class += axis.coordinate(npu.0) % step * weight;
                weight *= step;
            }
        }
        class
    }

    /// Returns the representative of a class.
    pub fn representative(&self, class: u32) -> NpuId {
        if self.is_none() {
            return NpuId(class);
        }
        let (mut npu, mut rest) = (0, class);
        for axis in &self.axes {
            npu += rest % axis.step() * axis.stride;
            rest /= axis.step();
        }
        NpuId(npu)
    }

    /// Returns the NPU onto which turn number `member` maps an NPU; there are as many turns as a class has
    /// members.
    pub fn moved(&self, npu: NpuId, member: u32) -> NpuId {
        let (mut to, mut rest) = (npu.0, member);
        for axis in &self.axes {
            let Some(turned) = axis.turned else { continue };
            let (moves, here) = (axis.size / turned.step, axis.coordinate(npu.0));
            let there = turned.moved(here, rest % moves, axis.size);
            to = to + there * axis.stride - here * axis.stride;
            rest /= moves;
        }
        NpuId(to)
    }

    /// Returns the number of classes of links, which are called ports.
    pub fn ports(&self) -> u32 {
        match &self.ports {
            Ports::Links(links) => *links,
            Ports::Dims { count, .. } => *count,
            Ports::Table(table) => table.first.len() as u32,
        }
    }

    /// Returns the first link of each class, in ascending order.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        let of = |dim: &Dimension, class: u32, local: u32| {
            let npu = self.representative(class);
            LinkId(dim.first_link + npu.0 * dim.links_per_npu() + local)
        };
        let (all, dims, table) = match &self.ports {
            Ports::Links(links) => (*links, &[][..], &[][..]),
            Ports::Dims { dims, .. } => (0, dims.as_slice(), &[][..]),
            Ports::Table(table) => (0, &[][..], table.first.as_slice()),
        };
        let turned = dims.iter().flat_map(move |DimPorts { dim, .. }| {
            let locals = move |class| (0..dim.links_per_npu()).map(move |local| of(dim, class, local));
            (0..self.classes).flat_map(locals)
        });
        turned.chain((0..all).map(LinkId)).chain(table.iter().copied())
    }

    /// Returns the number of links in a class.
    pub fn links_of(&self, port: u32) -> u32 {
        match &self.ports {
            Ports::Table(table) => table.members[port as usize],
            Ports::Links(_) | Ports::Dims { .. } => self.members,
        }
    }

    /// Whether each link inside the network has a port of its own although NPUs form classes. A
    /// representative's messages then pass other inner links than those of the NPUs it stands for. This only
    /// happens where nothing waits on inner links.
    #[inline]
    pub fn is_uneven_inside(&self) -> bool {
        matches!(&self.ports, Ports::Table(table) if table.uneven_inside)
    }

    /// Returns the class of a link.
    #[inline]
    pub fn port(&self, link: LinkId) -> u32 {
        match &self.ports {
            Ports::Links(_) => link.0,
            Ports::Table(table) => table.ports[link.index()],
            Ports::Dims { dims, .. } => {
                let ports = dims.iter().rev().find(|ports| ports.dim.first_link <= link.0);
                ports.expect("links count from 0").port(link, |npu| self.class(npu))
            }
        }
    }
}

impl DimPorts {
    #[inline]
    fn port(&self, link: LinkId, class: impl Fn(NpuId) -> u32) -> u32 {
        let dim = &self.dim;
        let per_npu = dim.links_per_npu();
        let (npu, local) = ((link.0 - dim.first_link) / per_npu, (link.0 - dim.first_link) % per_npu);
        let local = match (self.turn, dim.kind) {
            // They are numbered by how far they lead, which this turn changes.
            (Some(Turn::Xor), DimKind::FullyConnected) => {
                let here = dim.coordinate(npu);
                let there = (here + 1 + local / dim.count) % dim.size;
                ((here ^ there) - 1) * dim.count + local % dim.count
            }
            _ => local,
        };
        self.first + class(NpuId(npu)) * per_npu + local
    }
}

impl Dimension {
    /// Whether the dimension is unchanged by a turn.
    pub fn turns(&self, turn: Turn) -> bool {
        match (turn, self.kind) {
            // A turn by one changes the sum of a pair's coordinates by two, and by the size if one of them
            // wraps around.
            (Turn::Cyclic, DimKind::Switch) if self.spread == Spread::Pair && self.size > 2 => {
                2 % self.count == 0 && self.size.is_multiple_of(self.count)
            }
            (Turn::Cyclic, _) => true,
            (Turn::Xor, _) if !self.size.is_power_of_two() => false,
            (Turn::Xor, DimKind::Ring) => self.size <= 2,
            (Turn::Xor, DimKind::FullyConnected) => true,
            // Which of several switches a message takes depends on how far around it goes.
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
        /// Moving both ends of a route moves its links, class by class and port by port.
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
                let along = |dim: &Dimension| {
                    let [c, b] = [dim.coordinate(npu), dim.coordinate(by)];
                    let turned = symmetry.turned(dim.size, dim.stride).filter(|_| !symmetry.is_none());
                    turned.map_or(c, |turned| turned.seen_from(c, b, dim.size)) * dim.stride
                };
                fabric.dims().iter().map(along).sum()
            };
            prop_assert_eq!(symmetry.class(NpuId(moved(from))), symmetry.class(NpuId(from)));
            let ports = |from, to| {
                let mut path = Vec::new();
                fabric.route(NpuId(from), NpuId(to), lane, &mut path);
                path.into_iter().map(|link| symmetry.port(link)).collect::<Vec<_>>()
            };
            prop_assert_eq!(ports(moved(from), moved(to)), ports(from, to));
        }

        /// If the pair selects the switch, a dimension is turned if and only if that changes no pair's
        /// switch.
        #[test]
        fn pairs_are_turned_if_they_keep_their_switches(size in 1u32..9, count in 1u32..9) {
            let dim = Dimension::new("d".to_owned(), DimKind::Switch, size).with_count(count);
            let dim = dim.with_spread(Spread::Pair).with_rate(Rate(8));
            let turned = |at: u32| (at + 1) % size;
            let pairs = (0..size).flat_map(|a| (0..size).map(move |b| (a, b))).filter(|(a, b)| a != b);
            let same = pairs.clone().all(|(a, b)| (a + b) % count == (turned(a) + turned(b)) % count);
            prop_assert_eq!(dim.turns(Turn::Cyclic), same);
            let exchanged = |bit: u32| pairs.clone().all(|(a, b)| (a + b) % count == ((a ^ bit) + (b ^ bit)) % count);
            prop_assert!(!dim.turns(Turn::Xor) || (0..size).all(exchanged));
        }

        /// Classes of NPUs and links are numbered without gaps and have the same size.
        #[test]
        fn classes_have_equal_sizes_and_no_gaps(dims in prop::collection::vec(any_dim(), 1..4)) {
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
