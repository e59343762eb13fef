//! Folded Clos networks of two and three levels: the basis of fat-tree and leaf-spine.
//!
//! A pod has leaves and spines, and every leaf is joined to every spine of its pod. If there are several
//! pods, cores join the spines of one plane: core `c` joins spine number `c / (cores / spines)` of every pod.

use super::blueprint::{Blueprint, Cables, Sort};
use super::{Drawn, Wire, holdable, product};
use crate::measure::{Known, Method};
use crate::parts::{Layout, LinkKind};
use syncline_units::Rate;

/// Names of the levels.
pub(super) struct Names {
    pub(super) family: &'static str,
    /// Leaf, spine, core.
    pub(super) levels: [&'static str; 3],
    /// Names of the links between hosts and leaves, leaves and spines, spines and cores.
    pub(super) tiers: [&'static str; 3],
}

/// Sizes and wires.
pub(super) struct Clos {
    pub(super) names: Names,
    pub(super) pods: u32,
    /// Leaves of a pod.
    pub(super) leaves: u32,
    pub(super) hosts_per_leaf: u32,
    /// Spines of a pod.
    pub(super) spines: u32,
    /// Parallel cables between a leaf and a spine.
    pub(super) cables: u32,
    pub(super) cores: u32,
    /// Hosts to leaves, leaves to spines, spines to cores.
    pub(super) wires: [Wire; 3],
}

impl Clos {
    pub(super) fn draw(self) -> Drawn {
        let Self { names, pods, leaves, hosts_per_leaf, spines, cables, cores, wires } = self;
        let hosts = product(&[pods, leaves, hosts_per_leaf]);
        let vertices = hosts + product(&[pods, leaves]) + product(&[pods, spines]) + u128::from(cores);
        let uplinks = product(&[pods, leaves, spines, cables]);
        holdable(vertices, hosts.saturating_add(uplinks).saturating_add(product(&[pods, cores])))?;

        let hosts = hosts as u32;
        let leaf = |pod: u32, index: u32| hosts + pod * leaves + index;
        let first_spine = hosts + pods * leaves;
        let spine = |pod: u32, index: u32| first_spine + pod * spines + index;
        let first_core = first_spine + pods * spines;
        let down = (0..hosts).map(|host| (host, hosts + host / hosts_per_leaf)).collect();
        let mut up = Vec::new();
        let mut top = Vec::new();
        for pod in 0..pods {
            for (a, b) in (0..leaves).flat_map(|a| (0..spines).map(move |b| (a, b))) {
                up.extend((0..cables).map(|_| (leaf(pod, a), spine(pod, b))));
            }
            // A core belongs to the plane of one spine of each pod.
            top.extend((0..cores).map(|core| (spine(pod, core / (cores / spines)), first_core + core)));
        }
        let known = Known {
            diameter: Some(match (pods, leaves, hosts) {
                (_, _, 1) => 0,
                (1, 1, _) => 2,
                (1, _, _) => 4,
                _ => 6,
            }),
            bisection: bisection(pods, leaves, hosts_per_leaf, spines, cables, cores, &wires),
            whole: hosts_per_leaf,
        };
        Ok(Blueprint {
            family: names.family,
            levels: vec![
                Sort::hosts(hosts),
                Sort::switches(names.levels[0], 1, pods * leaves, leaves),
                Sort::switches(names.levels[1], 2, pods * spines, spines),
                Sort::switches(names.levels[2], 3, cores, cores),
            ],
            tiers: vec![
                Cables { name: names.tiers[0], kind: LinkKind::Host, wire: wires[0], ends: down },
                Cables { name: names.tiers[1], kind: LinkKind::Uplink, wire: wires[1], ends: up },
                Cables { name: names.tiers[2], kind: LinkKind::Uplink, wire: wires[2], ends: top },
            ],
            hosts_per_leaf: Some(hosts_per_leaf),
            passages: Vec::new(),
            nodes: Vec::new(),
            grid: None,
            axes: Vec::new(),
            layout: Layout::Levels,
            known,
        })
    }
}

/// Returns the least rate at which halves of the hosts can send to each other, one way.
///
/// What a leaf contributes to a cut is a concave function of how many of its hosts are on the other side, so
/// the least cut splits no leaf. What a pod contributes is a concave function of how many of its leaves are
/// on the other side, so it splits no pod either: it separates half of the pods, or of the leaves of a single
/// pod, from the other half. A leaf contributes the lesser of its hosts' links and its uplinks; a pod the
/// lesser of its leaves' contributions and its links to cores. `None` if halves must split a leaf or a pod.
fn bisection(
    pods: u32,
    leaves: u32,
    hosts_per_leaf: u32,
    spines: u32,
    cables: u32,
    cores: u32,
    wires: &[Wire; 3],
) -> Option<(Rate, Method)> {
    let of = |factors: &[u32], wire: Wire| product(factors).saturating_mul(u128::from(wire.rate.0));
    let leaf = of(&[hosts_per_leaf], wires[0]).min(of(&[spines, cables], wires[1]));
    let half = match (pods, leaves) {
        // With one switch, the links of half the hosts.
        (1, 1) if hosts_per_leaf > 1 => of(&[hosts_per_leaf / 2], wires[0]),
        (1, _) if leaves.is_multiple_of(2) => leaf * u128::from(leaves / 2),
        (_, _) if pods > 1 && pods.is_multiple_of(2) => {
            (leaf * u128::from(leaves)).min(of(&[cores], wires[2])) * u128::from(pods / 2)
        }
        _ => return None,
    };
    Some((Rate(u64::try_from(half).unwrap_or(u64::MAX)), Method::Formula))
}
