//! The network as data: NPUs, switches, directed links, and, if it is regular, its dimensions.
//!
//! - [`dimension`]: one dimension of a regular fabric: a ring, full connection or switch, and its links;
//! - [`graph`]: a fabric given link by link, and paths through it;
//! - `multipath`: which of several equal paths a flow takes, and several paths of one flow;
//! - `damage`: slow and dead links, and the paths around them;
//! - [`symmetry`]: classes of equivalent NPUs and links; [`compared`]: classes of links from the routes over
//!   them;
//! - `passage`: what may pass through a vertex;
//! - [`parts`]: what vertices and links are: levels and tiers;
//! - [`build`](mod@build): families of fabrics, from a few numbers;
//! - [`measure`]: degree, diameter, bisection;
//! - [`cost`]: price lists, and what a fabric costs;
//! - [`Fabric`]: regular fabrics and graphs behind one interface: links by number, routes between NPUs.
//!
//! The links of a regular fabric are not stored but numbered by arithmetic, so a million NPUs take no memory.

pub mod build;
pub mod compared;
pub mod cost;
mod damage;
pub mod dimension;
pub mod graph;
pub mod measure;
mod multipath;
pub mod parts;
mod passage;
pub mod symmetry;

pub use compared::{Flow, Inside, Unlike};
pub use dimension::{Dimension, Direction, Spread};
pub use graph::{Graph, GraphLink, Routing};
pub use parts::Parts;
pub use passage::Passage;
pub use symmetry::{NpuAxis, Symmetry};

use damage::Damage;
use measure::Known;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_units::{LinkId, NpuId, Rate, Shape, ShapeDim, Time};

/// Most paths that [`Fabric::routes`] returns.
pub const MAX_ROUTES: u32 = 256;

/// Most NPUs of a regular fabric. The fabric itself is a few numbers, but tables have a row for each rank.
pub const MAX_NPUS: u32 = 1 << 24;

/// Number of lanes that [`Fabric::routes`] tries in a regular fabric.
pub const LANES: u32 = 256;

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Vertex that sends. NPUs are `0..npus`, switches follow.
    pub from: u32,
    /// Vertex that receives.
    pub to: u32,
    /// Payload rate, efficiency included.
    pub rate: Rate,
    /// Latency.
    pub latency: Time,
    /// Dimension that it belongs to; 0 on a graph.
    pub dim: u16,
}

/// A network.
#[derive(Clone, Debug)]
pub struct Fabric {
    npus: u32,
    kind: Structure,
    damage: Option<Box<Damage>>,
    built: Option<Arc<Built>>,
}

/// What is known about a fabric that was built.
#[derive(Debug)]
struct Built {
    parts: Parts,
    known: Known,
}

#[derive(Clone, Debug)]
enum Structure {
    Regular(Vec<Dimension>),
    Graph(Box<Graph>),
}

impl Fabric {
    /// A regular fabric, lowest dimension first. NPU `i` has coordinate `i / stride % size` in each
    /// dimension.
    ///
    /// # Errors
    /// No dimension, two with the same name, or more NPUs or links than 32 bits can number.
    pub fn regular(mut dims: Vec<Dimension>) -> Result<Self> {
        let mut errors = Diagnostics::new();
        let product = dims.iter().fold(1u64, |product, dim| product.saturating_mul(u64::from(dim.size)));
        if product > u64::from(MAX_NPUS) {
            return Err(Diagnostic::error(Code::BadFabric, "a fabric has too many NPUs")
                .key("fabric.dims")
                .found(if product == u64::MAX { "more than 2^64".to_owned() } else { product.to_string() })
                .allowed(format!("at most {MAX_NPUS}"))
                .help("simulate a smaller fabric of the same kind: it has the same repeating pattern")
                .into());
        }
        let mut npus: u32 = 1;
        let mut too_large = dims.is_empty();
        for dim in &mut dims {
            dim.stride = npus;
            match npus.checked_mul(dim.size) {
                Some(product) => npus = product,
                None => too_large = true,
            }
        }
        let mut first_link: u32 = 0;
        let mut first_switch: u32 = npus;
        for dim in &mut dims {
            dim.first_link = first_link;
            dim.per_npu = dim.links_per_npu();
            dim.first_switch = first_switch;
            let links = npus.checked_mul(dim.links_per_npu()).and_then(|links| links.checked_add(first_link));
            let switches = dim.switches(npus).checked_add(first_switch);
            match (links, switches) {
                (Some(links), Some(switches)) => (first_link, first_switch) = (links, switches),
                _ => too_large = true,
            }
        }
        if too_large {
            let message = if dims.is_empty() {
                "a fabric needs a dimension"
            } else {
                "the fabric has more links or switches than 32 bits can number"
            };
            errors.push(Diagnostic::error(Code::BadFabric, message).key("fabric.dims"));
        }
        for (index, dim) in dims.iter().enumerate() {
            if dims[..index].iter().any(|other| other.name == dim.name) {
                errors.push(
                    Diagnostic::error(Code::BadFabric, format!("two dimensions are named `{}`", dim.name))
                        .key(format!("fabric.dims.{index}.name")),
                );
            }
        }
        errors.into_result()?;
        Ok(Self { npus, kind: Structure::Regular(dims), damage: None, built: None })
    }

    /// A fabric given link by link.
    pub fn graph(graph: Graph) -> Self {
        Self { npus: graph.npus(), kind: Structure::Graph(Box::new(graph)), damage: None, built: None }
    }

    /// A graph with further knowledge.
    pub(crate) fn built(graph: Graph, parts: Parts, known: Known) -> Self {
        Self { built: Some(Arc::new(Built { parts, known })), ..Self::graph(graph) }
    }

    /// Returns what its vertices and links are. A regular fabric has NPUs, and the switches and links of each
    /// dimension. A fabric given link by link just has NPUs, switches and links.
    pub fn parts(&self) -> Cow<'_, Parts> {
        match (&self.built, &self.kind) {
            (Some(built), _) => Cow::Borrowed(&built.parts),
            (None, Structure::Regular(dims)) => Cow::Owned(Parts::regular(self.npus, dims)),
            (None, Structure::Graph(_)) => {
                Cow::Owned(Parts::unknown(self.npus, self.vertices() - self.npus, self.links()))
            }
        }
    }

    /// Returns the names and sizes of the natural axes of a graph's NPUs, lowest first; empty if there is a
    /// single axis.
    pub fn axes(&self) -> &[(String, u32)] {
        self.built.as_ref().map_or(&[], |built| &built.parts.axes)
    }

    /// Returns the fabric with `slow` links, each with its remaining rate, and `dead` ones, which routes
    /// avoid. `self` must be undamaged.
    #[must_use]
    pub fn damaged(mut self, slow: BTreeMap<LinkId, Rate>, dead: BTreeSet<LinkId>) -> Self {
        debug_assert!(self.damage.is_none());
        if !slow.is_empty() || !dead.is_empty() {
            self.damage = Some(Box::new(Damage::new(&self, slow, dead)));
        }
        self
    }

    /// Whether any link is slow or dead.
    pub fn is_damaged(&self) -> bool {
        self.damage.is_some()
    }

    /// Returns which vertices `npu` reaches, or with `back` which ones reach it; `None` if all do, as in
    /// every regular fabric without dead links.
    pub fn reach(&self, npu: NpuId, back: bool) -> Option<Vec<bool>> {
        match (self.damage.as_ref().and_then(|damage| damage.rest()), &self.kind) {
            (Some(rest), _) => Some(rest.reach(npu.0, back)),
            (None, Structure::Graph(graph)) => Some(graph.reach(npu.0, back)),
            (None, Structure::Regular(_)) => None,
        }
    }

    /// Returns the number of NPUs.
    pub fn npus(&self) -> u32 {
        self.npus
    }

    /// Returns the number of vertices: NPUs and switches.
    pub fn vertices(&self) -> u32 {
        match &self.kind {
            Structure::Regular(dims) => {
                dims.last().map_or(self.npus, |dim| dim.first_switch + dim.switches(self.npus))
            }
            Structure::Graph(graph) => graph.vertices(),
        }
    }

    /// Returns its dimensions, lowest first; empty for a graph.
    pub fn dims(&self) -> &[Dimension] {
        match &self.kind {
            Structure::Regular(dims) => dims,
            Structure::Graph(_) => &[],
        }
    }

    /// Whether it is a graph, which is stored link by link.
    pub fn is_graph(&self) -> bool {
        matches!(self.kind, Structure::Graph(_))
    }

    /// Returns the seed by which switches hash flows; `None` if they do not.
    pub fn ecmp(&self) -> Option<u64> {
        match &self.kind {
            Structure::Regular(_) => None,
            Structure::Graph(graph) => graph.ecmp(),
        }
    }

    /// Whether routes take the dimensions of a grid in order, as they do in every regular fabric.
    pub fn in_dimension_order(&self) -> bool {
        match &self.kind {
            Structure::Regular(_) => true,
            Structure::Graph(graph) => graph.in_dimension_order(),
        }
    }

    /// Returns what may pass through each vertex; empty if everything may.
    fn passages(&self) -> &[Passage] {
        match &self.kind {
            Structure::Regular(_) => &[],
            Structure::Graph(graph) => graph.passages(),
        }
    }

    /// Returns the node of each vertex, if it has one; empty if there are no nodes.
    fn nodes(&self) -> &[Option<u32>] {
        match &self.kind {
            Structure::Regular(_) => &[],
            Structure::Graph(graph) => graph.nodes(),
        }
    }

    /// Returns the number of NPU pairs with an explicit path.
    pub fn explicit_paths(&self) -> usize {
        match &self.kind {
            Structure::Regular(_) => 0,
            Structure::Graph(graph) => graph.explicit_paths(),
        }
    }

    /// Returns its shape, such as `Ring(4)_FC(2)`; `None` for a graph.
    pub fn shape(&self) -> Option<Shape> {
        match &self.kind {
            Structure::Regular(dims) => {
                Some(Shape(dims.iter().map(|d| ShapeDim { kind: d.kind, size: d.size }).collect()))
            }
            Structure::Graph(_) => None,
        }
    }

    /// Returns the number of directed links.
    pub fn links(&self) -> u32 {
        match &self.kind {
            Structure::Regular(dims) => {
                dims.last().map_or(0, |dim| dim.first_link + self.npus * dim.links_per_npu())
            }
            Structure::Graph(graph) => graph.links().len() as u32,
        }
    }

    /// Returns link `id`; the rate of a dead link is zero.
    pub fn link(&self, id: LinkId) -> Link {
        let link = match &self.kind {
            Structure::Regular(dims) => {
                let index = dims.partition_point(|dim| dim.first_link <= id.0) - 1;
                dims[index].link(id, index as u16)
            }
            Structure::Graph(graph) => graph.link(id),
        };
        match &self.damage {
            Some(damage) => Link { rate: damage.rate(id, link.rate), ..link },
            None => link,
        }
    }

    /// Returns the rate and latency of link `id`, as [`Fabric::link`] does, without computing its ends.
    #[inline]
    pub fn speed(&self, id: LinkId) -> (Rate, Time) {
        let (rate, latency) = match &self.kind {
            Structure::Regular(dims) => {
                let dim =
                    dims.iter().rev().find(|dim| dim.first_link <= id.0).expect("link numbers start at 0");
                (dim.rate, dim.latency)
            }
            Structure::Graph(graph) => {
                let link = &graph.links()[id.index()];
                (link.rate, link.latency)
            }
        };
        match &self.damage {
            Some(damage) => (damage.rate(id, rate), latency),
            None => (rate, latency),
        }
    }

    /// Appends the links of the path from `from` to `to`, in order, to `path`. `lane` selects among parallel
    /// rings, links and (see [`Spread`]) switches, and the direction around a ring if both are equally long.
    /// In a regular fabric, routes take dimensions in order, lowest first.
    ///
    /// If that path uses a dead link, a path with the fewest links replaces it; other flows keep theirs.
    ///
    /// If there is no path, returns false and leaves `path` unchanged.
    #[inline]
    pub fn route(&self, from: NpuId, to: NpuId, lane: u32, path: &mut Vec<LinkId>) -> bool {
        let start = path.len();
        let found = self.built_route(from, to, lane, path);
        match &self.damage {
            Some(damage) if found => damage.lead_round(from, to, lane, path, start),
            _ => found,
        }
    }

    /// Returns several different paths of equal length from `from` to `to`, for packets of one flow to take
    /// in turn: at most `limit` and at most [`MAX_ROUTES`], none if there is no path. The first is that of
    /// [`Fabric::route`], and all begin with its first link: the flow alone decides by which port an NPU
    /// sends, and only the rest is divided.
    ///
    /// In a graph they are shortest paths, or only the pair's explicit path. At each vertex they are dealt in
    /// turn to the next hops, beginning with the flow's usual one, and no next hop gets more than it has
    /// paths. So neighbours in the list part as early as they can, and next hops are used equally often as
    /// far as they have paths. In a regular fabric they are the paths of `lane` and of the lanes that follow,
    /// of which [`LANES`] are tried; whatever the lane does not select is the same in all.
    ///
    /// Paths over dead links are left out. If none is left, shortest paths that avoid dead links are
    /// returned.
    pub fn routes(&self, from: NpuId, to: NpuId, lane: u32, limit: u32) -> Vec<Vec<LinkId>> {
        let limit = limit.min(MAX_ROUTES);
        let routes = match &self.kind {
            Structure::Graph(graph) => graph.routes(from, to, lane, limit),
            Structure::Regular(_) => {
                let mut routes: Vec<Vec<LinkId>> = Vec::new();
                for further in 0..LANES {
                    if routes.len() == limit as usize {
                        break;
                    }
                    let mut path = Vec::new();
                    self.built_route(from, to, lane.wrapping_add(further), &mut path);
                    if routes.first().is_none_or(|own| own.first() == path.first()) && !routes.contains(&path)
                    {
                        routes.push(path);
                    }
                }
                routes
            }
        };
        match &self.damage {
            Some(damage) => damage.lead_all_round(from, to, lane, limit, routes),
            None => routes,
        }
    }

    /// Appends the path in the undamaged fabric.
    #[inline]
    fn built_route(&self, from: NpuId, to: NpuId, lane: u32, path: &mut Vec<LinkId>) -> bool {
        match &self.kind {
            Structure::Regular(dims) => {
                // Coordinates of this dimension and those above; those below are already correct.
                let (mut at, mut ahead, mut target) = (from.0, from.0, to.0);
                for dim in dims {
                    if ahead == target {
                        break;
                    }
                    let (here, there);
                    (here, ahead) = dim.split(ahead);
                    (there, target) = dim.split(target);
                    if here != there {
                        at = dim.route(at, here, there, lane, path);
                    }
                }
                true
            }
            Structure::Graph(graph) => graph.route(from, to, lane, path),
        }
    }

    /// Returns the names given to vertices, NPUs first; empty if there are none.
    pub fn names(&self) -> &[String] {
        match &self.kind {
            Structure::Graph(graph) => graph.names(),
            Structure::Regular(_) => &[],
        }
    }

    /// Returns the name of a vertex, its own if the fabric was given with names.
    pub fn vertex_name(&self, vertex: u32) -> String {
        if let Some(built) = &self.built {
            return built.parts.vertex_name(vertex);
        }
        if let Structure::Graph(graph) = &self.kind {
            return graph.vertex_name(vertex);
        }
        if vertex < self.npus { format!("NPU {vertex}") } else { format!("switch {}", vertex - self.npus) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use syncline_units::DimKind;

    fn fabric(dims: &[(DimKind, u32, u32, Direction)]) -> Fabric {
        spread(dims, Spread::Lane)
    }

    fn spread(dims: &[(DimKind, u32, u32, Direction)], spread: Spread) -> Fabric {
        let dims = dims
            .iter()
            .enumerate()
            .map(|(i, &(kind, size, count, direction))| {
                Dimension::new(format!("d{i}"), kind, size)
                    .with_count(count)
                    .with_direction(direction)
                    .with_spread(spread)
                    .with_rate(Rate(8_000_000_000))
                    .with_latency(Time(1_000))
            })
            .collect();
        Fabric::regular(dims).unwrap()
    }

    fn any_dim() -> impl Strategy<Value = (DimKind, u32, u32, Direction)> {
        (
            prop::sample::select(DimKind::ALL),
            1u32..6,
            1u32..4,
            prop::sample::select(&[Direction::Both, Direction::OneWay][..]),
        )
    }

    /// Links by their ends: the number of links between two NPUs of a dimension, and the NPUs joined to each
    /// switch.
    #[derive(Debug, Default)]
    struct Drawn {
        between: BTreeMap<(u16, u32, u32), u32>,
        up: BTreeMap<(u16, u32), Vec<u32>>,
        down: BTreeMap<(u16, u32), Vec<u32>>,
    }

    /// Draws a regular fabric NPU by NPU from coordinates, as the table of [`Dimension`] defines it.
    fn definition(dims: &[(DimKind, u32, u32, Direction)]) -> Drawn {
        let npus: u32 = dims.iter().map(|&(_, size, ..)| size).product();
        let (mut drawn, mut stride, mut switches) = (Drawn::default(), 1, 0);
        for (number, &(kind, size, count, direction)) in (0..).zip(dims) {
            for npu in 0..npus {
                let here = npu / stride % size;
                let at = |there: u32| npu - here * stride + there * stride;
                let mut link = |to: u32| *drawn.between.entry((number, npu, to)).or_default() += count;
                match kind {
                    _ if size == 1 => {}
                    DimKind::Ring => {
                        link(at((here + 1) % size));
                        if direction == Direction::Both {
                            link(at((here + size - 1) % size));
                        }
                    }
                    DimKind::FullyConnected => (0..size).filter(|&to| to != here).for_each(|to| link(at(to))),
                    // The NPU at coordinate 0 draws the switches for all.
                    DimKind::Switch if here == 0 => {
                        for _ in 0..count {
                            drawn.up.insert((number, switches), (0..size).map(at).collect());
                            switches += 1;
                        }
                    }
                    DimKind::Switch => {}
                }
            }
            stride *= size;
        }
        drawn
    }

    proptest! {
        /// Every route is a chain of links from source to destination, whatever the fabric and the lane.
        #[test]
        fn routes_are_chains_of_links(
            dims in prop::collection::vec(any_dim(), 1..4), pair: bool, lane in 0u32..9, a: u32, b: u32
        ) {
            let fabric = spread(&dims, if pair { Spread::Pair } else { Spread::Lane });
            let (a, b) = (a % fabric.npus(), b % fabric.npus());
            let mut path = Vec::new();
            prop_assert!(fabric.route(NpuId(a), NpuId(b), lane, &mut path));
            let mut at = a;
            for &id in &path {
                prop_assert!(id.0 < fabric.links());
                let link = fabric.link(id);
                prop_assert_eq!(link.from, at);
                prop_assert!(link.to < fabric.vertices());
                at = link.to;
            }
            prop_assert_eq!(at, b);
        }

        /// Link numbers and ends agree with the definition: each link has one number, and each number is one
        /// link.
        #[test]
        fn links_agree_with_the_definition(dims in prop::collection::vec(any_dim(), 1..4)) {
            let fabric = fabric(&dims);
            let mut drawn = Drawn::default();
            for id in 0..fabric.links() {
                let link = fabric.link(LinkId(id));
                let [from, to] = [link.from, link.to].map(|vertex| vertex.checked_sub(fabric.npus()));
                match (from, to) {
                    (None, None) => *drawn.between.entry((link.dim, link.from, link.to)).or_default() += 1,
                    (None, Some(switch)) => drawn.up.entry((link.dim, switch)).or_default().push(link.from),
                    (Some(switch), None) => drawn.down.entry((link.dim, switch)).or_default().push(link.to),
                    (Some(_), Some(_)) => prop_assert!(false, "a link between switches"),
                }
            }
            let expected = definition(&dims);
            prop_assert_eq!(&drawn.between, &expected.between);
            // The definition does not say which number a switch has, only that numbers are distinct.
            prop_assert_eq!(drawn.up.len(), drawn.up.keys().map(|key| key.1).collect::<BTreeSet<_>>().len());
            prop_assert_eq!(drawn.up.len() as u32, fabric.vertices() - fabric.npus());
            let joined = |of: BTreeMap<(u16, u32), Vec<u32>>| {
                let mut switches: Vec<(u16, Vec<u32>)> = of.into_iter().map(|((dim, _), npus)| (dim, npus)).collect();
                switches.iter_mut().for_each(|(_, npus)| npus.sort_unstable());
                switches.sort_unstable();
                switches
            };
            prop_assert_eq!(drawn.up.keys().collect::<Vec<_>>(), drawn.down.keys().collect::<Vec<_>>());
            let [up, down, expected] = [drawn.up, drawn.down, expected.up].map(joined);
            prop_assert_eq!(&up, &expected);
            prop_assert_eq!(&down, &expected);
        }
    }

    #[test]
    fn routes_avoid_dead_links_and_slow_links_are_slow() {
        let whole = fabric(&[(DimKind::Ring, 6, 2, Direction::Both)]);
        let over = |fabric: &Fabric, to, lane| {
            let mut path = vec![LinkId(99)];
            let found = fabric.route(NpuId(0), NpuId(to), lane, &mut path);
            (found, path[1..].to_vec())
        };
        let (_, direct) = over(&whole, 1, 0);
        let slow = BTreeMap::from([(direct[0], Rate(5))]);
        let slowed = whole.clone().damaged(slow, BTreeSet::new());
        assert_eq!(slowed.speed(direct[0]).0, Rate(5));
        assert_eq!(slowed.link(direct[0]).rate, Rate(5));
        assert_eq!(over(&slowed, 1, 0), over(&whole, 1, 0));
        assert!(slowed.reach(NpuId(0), false).is_none());

        // First the other of two parallel links; with both dead, the long way around; with all dead, no path.
        let between = |a, b| (0..whole.links()).map(LinkId).filter(move |&id| whole_link(id) == (a, b));
        fn whole_link(id: LinkId) -> (u32, u32) {
            let link = fabric(&[(DimKind::Ring, 6, 2, Direction::Both)]).link(id);
            (link.from, link.to)
        }
        let one = whole.clone().damaged(BTreeMap::new(), direct.iter().copied().collect());
        let (found, path) = over(&one, 1, 0);
        assert!(found && path.len() == 1 && path != direct, "{path:?}");
        assert_eq!(one.link(direct[0]).rate, Rate(0));
        let both = whole.clone().damaged(BTreeMap::new(), between(0, 1).collect());
        assert_eq!(over(&both, 1, 0).1.len(), 5);
        assert_eq!(over(&both, 5, 0).1, over(&whole, 5, 0).1);
        assert!(both.reach(NpuId(0), false).unwrap().iter().all(|&reached| reached));
        let none = whole.clone().damaged(BTreeMap::new(), between(0, 1).chain(between(0, 5)).collect());
        assert_eq!(over(&none, 1, 0), (false, vec![]));
        assert_eq!(none.reach(NpuId(0), false).unwrap(), [true, false, false, false, false, false]);
        assert!(none.reach(NpuId(0), true).unwrap().iter().all(|&reached| reached));
    }

    #[test]
    fn rings_take_the_short_way() {
        let fabric = fabric(&[(DimKind::Ring, 6, 1, Direction::Both)]);
        let hops = |a, b, lane| {
            let mut path = Vec::new();
            fabric.route(NpuId(a), NpuId(b), lane, &mut path);
            path.iter().map(|&id| fabric.link(id).to).collect::<Vec<_>>()
        };
        assert_eq!(hops(0, 2, 0), [1, 2]);
        assert_eq!(hops(0, 5, 0), [5]);
        assert_eq!(hops(0, 3, 0), [1, 2, 3]);
        assert_eq!(hops(0, 3, 1), [5, 4, 3]);
    }

    /// dlrm2020 III-C.2: eight NPUs on seven switches, `nvSwitch_id = (src_id + dst_id) mod 7`.
    #[test]
    fn the_pair_chooses_the_switch() {
        const TABLE: [[u32; 8]; 8] = [
            [9, 1, 2, 3, 4, 5, 6, 0],
            [1, 9, 3, 4, 5, 6, 0, 1],
            [2, 3, 9, 5, 6, 0, 1, 2],
            [3, 4, 5, 9, 0, 1, 2, 3],
            [4, 5, 6, 0, 9, 2, 3, 4],
            [5, 6, 0, 1, 2, 9, 4, 5],
            [6, 0, 1, 2, 3, 4, 9, 6],
            [0, 1, 2, 3, 4, 5, 6, 9],
        ];
        let both = Direction::Both;
        let first = spread(&[(DimKind::Switch, 8, 7, both)], Spread::Pair);
        // The same above another dimension, whose coordinates have no effect.
        let second = spread(&[(DimKind::Ring, 3, 1, both), (DimKind::Switch, 8, 7, both)], Spread::Pair);
        for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))).filter(|(a, b)| a != b) {
            let switch = TABLE[from as usize][to as usize];
            for lane in 0..9 {
                let mut path = Vec::new();
                first.route(NpuId(from), NpuId(to), lane, &mut path);
                let ends: Vec<u32> = path.iter().map(|&link| first.link(link).to).collect();
                assert_eq!(ends, [8 + switch, to], "{from} {to}");
                for other in 0..3 {
                    let [from, to] = [from, to].map(|npu| 3 * npu + other);
                    let mut path = Vec::new();
                    second.route(NpuId(from), NpuId(to), lane, &mut path);
                    let ends: Vec<u32> = path.iter().map(|&link| second.link(link).to).collect();
                    assert_eq!(ends, [24 + 7 * other + switch, to], "{from} {to}");
                }
            }
            assert_eq!(first.routes(NpuId(from), NpuId(to), 0, 9).len(), 1);
        }
        let (dim, seven) = (&first.dims()[0], Rate(7 * 8_000_000_000));
        assert_eq!((dim.lanes(), dim.rate_per_npu(), dim.usable_rate_per_npu()), (1, seven, seven));
        // With two peers, at most two switches are used.
        let few = spread(&[(DimKind::Switch, 3, 7, both)], Spread::Pair);
        assert_eq!(few.dims()[0].usable_rate_per_npu(), Rate(2 * 8_000_000_000));
    }

    #[test]
    fn impossible_fabrics_are_refused() {
        let dim = |name: &str, size| Dimension::new(name.to_owned(), DimKind::Ring, size);
        for (dims, message) in [
            (vec![], "needs a dimension"),
            (vec![dim("a", 1 << 12), dim("b", (1 << 12) + 1)], "too many NPUs"),
            (vec![dim("a", u32::MAX), dim("b", u32::MAX), dim("c", u32::MAX)], "too many NPUs"),
            (vec![dim("a", 1 << 16).with_count(1 << 16)], "more links"),
            (vec![dim("a", 2), dim("a", 2)], "two dimensions"),
        ] {
            assert!(Fabric::regular(dims).unwrap_err().to_string().contains(message));
        }
        assert_eq!(Fabric::regular(vec![dim("a", 1 << 12), dim("b", 1 << 12)]).unwrap().npus(), MAX_NPUS);
    }
}
