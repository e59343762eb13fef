//! Grids of hosts that are routers: torus and mesh of any number of dimensions (Dally and Towles 2004, 5), and hypercube.
//!
//! Host `i` has coordinate `i / stride % size` in each dimension, the lowest first. In scenarios without
//! nodes, torus and hypercube can be written as regular fabrics (`dims`); here they join the network cards of
//! nodes. A mesh cannot, because the NPUs at its borders have fewer links than the others.

use super::blueprint::{Blueprint, Cables, Sort};
use super::{Drawn, Efficiency, Wire, at_least, bad, holdable, one, product, rates};
use crate::measure::{Known, Method};
use crate::parts::{Layout, LinkKind};
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// A torus: rings in every dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torus {
    /// Hosts along each dimension.
    pub sizes: Vec<u32>,
    /// Rate of a link.
    pub rate: Rate,
    /// Latency of a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on a link, above 0 and at most 1.
    #[serde(default)]
    pub efficiency: Efficiency,
}

/// A mesh: rows without wrap-around in every dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// Hosts along each dimension.
    pub sizes: Vec<u32>,
    /// Parallel cables between neighbours.
    #[serde(default = "one")]
    pub cables: u32,
    /// Rate of a link.
    pub rate: Rate,
    /// Latency of a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on a link, above 0 and at most 1.
    #[serde(default)]
    pub efficiency: Efficiency,
}

/// A hypercube: two hosts along each of several dimensions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hypercube {
    /// Number of dimensions.
    pub dimensions: u32,
    /// Rate of a link.
    pub rate: Rate,
    /// Latency of a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on a link, above 0 and at most 1.
    #[serde(default)]
    pub efficiency: Efficiency,
}

/// Most dimensions: 2^24 hosts.
const MAX_DIMENSIONS: u32 = 24;

pub(super) fn draw_torus(spec: &Torus) -> Drawn {
    let wire = Wire::new(spec.rate, spec.latency, spec.efficiency);
    grid("torus", &spec.sizes, wire, 1, |size| if size == 1 { 0 } else { size })
}

pub(super) fn draw_mesh(spec: &Mesh) -> Drawn {
    let wire = Wire::new(spec.rate, spec.latency, spec.efficiency);
    at_least(1, &[("cables", spec.cables)])?;
    let mut mesh = grid("mesh", &spec.sizes, wire, spec.cables, |size| size - 1)?;
    mesh.grid = Some(spec.sizes.clone());
    Ok(mesh)
}

pub(super) fn draw_hypercube(spec: &Hypercube) -> Drawn {
    let wire = Wire::new(spec.rate, spec.latency, spec.efficiency);
    if spec.dimensions == 0 || spec.dimensions > MAX_DIMENSIONS {
        return Err(bad("dimensions", "number of dimensions of a hypercube out of range")
            .found(spec.dimensions.to_string())
            .allowed(format!("1 to {MAX_DIMENSIONS}")));
    }
    grid("hypercube", &vec![2; spec.dimensions as usize], wire, 1, |size| size - 1)
}

/// Draws a grid. `steps` returns how many neighbours a row of a given size has, counted from its start; those
/// past the end wrap around.
fn grid(family: &'static str, sizes: &[u32], wire: Wire, cables: u32, steps: fn(u32) -> u32) -> Drawn {
    rates(&[("rate", Some(wire.rate))])?;
    if sizes.is_empty() || sizes.contains(&0) {
        return Err(bad("sizes", "a dimension needs at least one host").found(format!("{sizes:?}")));
    }
    let hosts = product(sizes);
    holdable(hosts, hosts.saturating_mul(sizes.len() as u128).saturating_mul(u128::from(cables)))?;
    let hosts = hosts as u32;
    let mut ends = Vec::new();
    let mut stride = 1;
    for &size in sizes {
        for host in (0..hosts).filter(|host| host / stride % size < steps(size)) {
            let here = host / stride % size;
            let next = if here + 1 == size { host - here * stride } else { host + stride };
            ends.extend((0..cables).map(|_| (host, next)));
        }
        stride *= size;
    }
    let around = steps(3) == 3;
    let across = |size: u32| if around { size / 2 } else { size - 1 };
    Ok(Blueprint {
        family,
        levels: vec![Sort::hosts(hosts)],
        tiers: vec![Cables { name: "host-host", kind: LinkKind::Direct, wire, ends }],
        hosts_per_leaf: None,
        passages: Vec::new(),
        nodes: Vec::new(),
        grid: None,
        axes: sizes.iter().enumerate().map(|(at, &size)| (format!("dim{}", at + 1), size)).collect(),
        layout: Layout::Grid(sizes.to_vec()),
        known: Known {
            diameter: Some(sizes.iter().map(|&size| across(size)).sum()),
            bisection: bisection(sizes, wire.rate, cables * if around { 2 } else { 1 }),
            whole: 1,
        },
    })
}

/// Returns the rate at which halves of a grid can send to each other, one way. Cutting a row cuts `ways`
/// cables. The cut is across the largest dimension, if its size is even (Leighton 1992, 1.2 and 3.1).
pub(crate) fn bisection(sizes: &[u32], rate: Rate, ways: u32) -> Option<(Rate, Method)> {
    let largest = sizes.iter().copied().max().filter(|size| size.is_multiple_of(2))?;
    let rows = product(sizes) / u128::from(largest);
    let half = rows.saturating_mul(u128::from(ways)).saturating_mul(u128::from(rate.0));
    Some((Rate(u64::try_from(half).unwrap_or(u64::MAX)), Method::Formula))
}
