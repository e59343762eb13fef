//! Degree, diameter and bisection of a fabric.
//!
//! If a family has a formula, that gives the answer. Otherwise a search of the graph finds the diameter, and
//! maximum flows find the bisection: between all halves of a few NPUs, which is exact, or between one pair of
//! halves of many, which is an upper bound.

mod bisection;
mod flow;

use crate::graph::{Graph, NOWHERE};
use crate::parts::LinkKind;
use crate::{Dimension, Direction, Fabric, Parts, Structure};
use serde::Serialize;
use std::collections::BTreeMap;
use syncline_units::{DimKind, LinkId, Rate};

/// Most steps of a search of the graph.
const STEPS: u64 = 1 << 30;

/// What formulas say about a fabric.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) diameter: Option<u32>,
    pub(crate) bisection: Option<(Rate, Method)>,
    /// Number of NPUs that halves keep together: those of a node. Before hosts become nodes: the hosts of a
    /// leaf.
    pub(crate) whole: u32,
}

/// How a bisection was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// By the family's formula; exact.
    Formula,
    /// By maximum flows between all halves; exact.
    AllHalves,
    /// Between one pair of halves, or a few: by the links across a dimension, or by a maximum flow between
    /// the lower and the upper half of NPU numbers. An upper bound on the bisection.
    OneHalf,
}

/// How many links leave each vertex of a level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Degree {
    /// Name of the level.
    pub level: String,
    /// Number of its vertices.
    pub count: u32,
    /// Links that leave the vertex with the fewest.
    pub least: u32,
    /// Links that leave the vertex with the most.
    pub most: u32,
}

/// The least rate at which two halves of the NPUs can send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bisection {
    /// From one half to the other, in one direction.
    pub rate: Rate,
    /// How it was found.
    pub method: Method,
    /// The most that half of the NPUs could send: the sum of their links into the network.
    pub ideal: Rate,
}

impl Fabric {
    /// Returns the degrees, level by level.
    pub fn degrees(&self) -> Vec<Degree> {
        let parts = self.parts();
        if let Structure::Regular(dims) = &self.kind {
            return regular_degrees(dims, &parts);
        }
        let mut out = vec![0u32; self.vertices() as usize];
        for id in 0..self.links() {
            out[self.link(LinkId(id)).from as usize] += 1;
        }
        let degree = |level: &crate::parts::Level| {
            let range = &out[level.first as usize..(level.first + level.count) as usize];
            Degree {
                level: level.name.clone(),
                count: level.count,
                least: range.iter().copied().min().unwrap_or(0),
                most: range.iter().copied().max().unwrap_or(0),
            }
        };
        parts.levels.iter().map(degree).collect()
    }

    /// Returns the number of links on a shortest path between the two NPUs that are farthest apart; `None` if
    /// a path is missing, or if the graph is too large to search.
    pub fn diameter(&self) -> Option<u32> {
        match (&self.kind, self.built.as_ref().and_then(|built| built.known.diameter)) {
            _ if self.is_damaged() => None,
            (_, Some(diameter)) => Some(diameter),
            (Structure::Regular(dims), _) => {
                Some(dims.iter().map(|dim| farthest(dim.kind, dim.size, dim.direction)).sum())
            }
            (Structure::Graph(graph), _) => walked(graph),
        }
    }

    /// Returns the bisection; `None` for one NPU, and if the fabric is too large for a maximum flow. Nodes
    /// are not split.
    pub fn bisection(&self) -> Option<Bisection> {
        let whole =
            self.built.as_ref().filter(|_| !self.nodes().is_empty()).map_or(1, |built| built.known.whole);
        if self.is_damaged() || self.npus / whole < 2 {
            return None;
        }
        let known =
            self.built.as_ref().and_then(|built| built.known.bisection).or_else(|| self.regular_bisection());
        let (rate, method) = match known {
            Some(known) => known,
            None => bisection::of_all_halves(self, whole)
                .or_else(|| self.across())
                .or_else(|| bisection::of_one_half(self, whole))?,
        };
        Some(Bisection { rate, method, ideal: self.ideal(whole) })
    }

    /// Returns the known bisection of a grid with equal links in all dimensions, or of a single dimension.
    fn regular_bisection(&self) -> Option<(Rate, Method)> {
        let dims: Vec<_> = self.dims().iter().filter(|dim| dim.size > 1).collect();
        let first = dims.first()?;
        let alike = dims.iter().all(|dim| {
            dim.rate == first.rate
                && dim.count == first.count
                && dim.direction == first.direction
                && dim.kind == first.kind
        });
        let half = |links: u64| Some((Rate(first.rate.0.saturating_mul(links)), Method::Formula));
        let count = u64::from(first.count);
        match first.kind {
            _ if !alike => None,
            DimKind::Ring if first.direction == Direction::Both => {
                let sizes: Vec<u32> = dims.iter().map(|dim| dim.size).collect();
                crate::build::grid::bisection(&sizes, first.rate, 2 * first.count)
            }
            // A hypercube (Leighton 1992, 3.1), and a single dimension.
            DimKind::FullyConnected if dims.iter().all(|dim| dim.size == 2) => {
                half(u64::from(self.npus / 2) * count)
            }
            DimKind::FullyConnected if dims.len() == 1 => {
                half(u64::from(first.size / 2) * u64::from(first.size.div_ceil(2)) * count)
            }
            DimKind::Switch if dims.len() == 1 => half(u64::from(first.size / 2) * count),
            _ => None,
        }
    }

    /// Returns the least rate of a cut across a dimension of even size: an upper bound on the bisection.
    fn across(&self) -> Option<(Rate, Method)> {
        let cut = |dim: &Dimension| {
            let half = u64::from(dim.size / 2);
            let links = match dim.kind {
                DimKind::Ring => u64::from(dim.ways()),
                DimKind::FullyConnected => half.saturating_mul(half),
                DimKind::Switch => half,
            };
            let rows = u64::from(self.npus / dim.size).saturating_mul(u64::from(dim.count));
            Rate(dim.rate.0.saturating_mul(rows.saturating_mul(links)))
        };
        let even = self.dims().iter().filter(|dim| dim.size.is_multiple_of(2));
        even.map(cut).min().map(|rate| (rate, Method::OneHalf))
    }

    /// Returns the rate at which half of the NPUs can send into the network; with nodes, over the cards of
    /// half of the nodes.
    fn ideal(&self, whole: u32) -> Rate {
        let halves = self.npus / whole / 2 * whole;
        let inside = |parts: &Parts, id: u32| whole > 1 && parts.tier(LinkId(id)).kind == LinkKind::ScaleUp;
        let parts = self.parts();
        let mut sum = 0u64;
        let dims = self.dims();
        if !dims.is_empty() {
            let one = dims.iter().filter(|dim| dim.size > 1).map(|dim| dim.rate_per_npu().0);
            return Rate(one.fold(0, u64::saturating_add).saturating_mul(u64::from(halves)));
        }
        for id in 0..self.links() {
            let link = self.link(LinkId(id));
            if link.from < halves && !inside(&parts, id) {
                sum = sum.saturating_add(link.rate.0);
            }
        }
        Rate(sum)
    }
}

/// Returns the degrees of a regular fabric, by arithmetic.
fn regular_degrees(dims: &[Dimension], parts: &Parts) -> Vec<Degree> {
    let used = || dims.iter().filter(|dim| dim.size > 1);
    let npu = used().map(|dim| dim.egress_links()).fold(0, u32::saturating_add);
    let switches = || used().filter(|dim| dim.kind == DimKind::Switch).map(|dim| dim.size);
    let degree = |level: &crate::parts::Level| Degree {
        level: level.name.clone(),
        count: level.count,
        least: if level.first == 0 { npu } else { switches().min().unwrap_or(0) },
        most: if level.first == 0 { npu } else { switches().max().unwrap_or(0) },
    };
    parts.levels.iter().map(degree).collect()
}

fn farthest(kind: DimKind, size: u32, direction: Direction) -> u32 {
    match (size, kind, direction) {
        (1, ..) => 0,
        (_, DimKind::Ring, Direction::Both) => size / 2,
        (_, DimKind::Ring, Direction::OneWay) => size - 1,
        (_, DimKind::FullyConnected, _) => 1,
        (_, DimKind::Switch, _) => 2,
    }
}

/// Returns the diameter of a graph, searched from the core vertices that are NPUs or gates of NPUs.
fn walked(graph: &Graph) -> Option<u32> {
    let npus = graph.npus();
    // For each, the number of NPUs whose gate it is.
    let mut goals: BTreeMap<u32, u32> = BTreeMap::new();
    for npu in 0..npus {
        *goals.entry(graph.gate(npu).unwrap_or(npu)).or_default() += u32::from(graph.gate(npu).is_some());
    }
    if goals.len() as u64 * graph.links().len() as u64 > STEPS {
        return None;
    }
    let beyond = |goal: u32, behind: u32| u32::from(behind > 0 || goal >= npus);
    let mut diameter = 0;
    for (&goal, &behind) in &goals {
        let distance = graph.distances(goal).0.distance;
        for (&from, &before) in &goals {
            let found = distance[graph.in_core(from)];
            let ends = match () {
                () if found == NOWHERE => return None,
                () if from != goal => beyond(from, before) + beyond(goal, behind),
                () if behind > 1 => 2,
                () => u32::from(behind == 1 && goal < npus),
            };
            diameter = diameter.max(found + ends);
        }
    }
    Some(diameter)
}
