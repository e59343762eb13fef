//! Expander: a random regular graph of switches (Jellyfish, Singla et al., NSDI 2012), or of hosts that are routers.
//!
//! The graph is drawn with ChaCha8 from the seed, in three steps that always succeed:
//!
//! 1. Start from the circulant graph in which vertex i is joined to i ± 1, ..., i ± ⌊d/2⌋, and for odd d to
//!    i + n/2.
//! 2. For every cable, make twenty attempts to exchange the ends of two cables drawn at random, a–b and c–d
//!    becoming a–c and b–d. Skip an exchange that would join a vertex with itself or with one it is already
//!    joined to. This keeps every degree, and approaches a random regular graph (Cooper, Dyer and Greenhill
//!    2007).
//! 3. While there are several components, exchange ends of the first cable on a cycle in the first component
//!    with those of the first cable of another component. In a regular graph of degree two or more, every
//!    component has a cable on a cycle, and the exchange joins the two components.

use super::blueprint::{Blueprint, Cables, Sort};
use super::{Drawn, Efficiency, Wire, at_least, bad, holdable, product, rates};
use crate::measure::Known;
use crate::parts::{Layout, LinkKind};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// Attempts to exchange ends, per cable.
const EXCHANGES: u64 = 20;

/// A random regular graph. Set either `switches` and `hosts_per_switch`, or `hosts`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expander {
    /// Number of switches.
    #[serde(default)]
    pub switches: Option<u32>,
    /// Hosts per switch.
    #[serde(default)]
    pub hosts_per_switch: Option<u32>,
    /// Number of hosts, if they are joined without switches.
    #[serde(default)]
    pub hosts: Option<u32>,
    /// Links of a switch to other switches, or of a host to other hosts.
    pub degree: u32,
    /// Seed of the random numbers; by default the scenario's seed.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Rate of a link.
    pub rate: Rate,
    /// Latency of a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on a link, above 0 and at most 1.
    #[serde(default)]
    pub efficiency: Efficiency,
    /// Rate of links between switches, if different.
    #[serde(default)]
    pub uplink_rate: Option<Rate>,
    /// Latency of links between switches, if different.
    #[serde(default)]
    pub uplink_latency: Option<Time>,
    /// Efficiency of links between switches, if different.
    #[serde(default)]
    pub uplink_efficiency: Option<Efficiency>,
}

pub(super) fn draw(spec: &Expander, seed: u64) -> Drawn {
    rates(&[("rate", Some(spec.rate)), ("uplink_rate", spec.uplink_rate)])?;
    let seed = spec.seed.unwrap_or(seed);
    let wire = Wire::new(spec.rate, spec.latency, spec.efficiency);
    let uplink = wire.or(spec.uplink_rate, spec.uplink_latency, spec.uplink_efficiency);
    let (levels, tiers, hosts_per_leaf) = match (spec.switches, spec.hosts_per_switch, spec.hosts) {
        (Some(switches), Some(below), None) => {
            at_least(1, &[("switches", switches), ("hosts_per_switch", below)])?;
            let hosts = product(&[switches, below]);
            holdable(hosts + u128::from(switches), hosts + product(&[switches, spec.degree]) / 2)?;
            let hosts = hosts as u32;
            let joined = regular("switches", switches, spec.degree, seed)?;
            let down = (0..hosts).map(|host| (host, hosts + host / below)).collect();
            let up = joined.into_iter().map(|(a, b)| (hosts + a, hosts + b)).collect();
            let tiers = vec![
                Cables { name: "host-switch", kind: LinkKind::Host, wire, ends: down },
                Cables { name: "switch-switch", kind: LinkKind::Local, wire: uplink, ends: up },
            ];
            (vec![Sort::hosts(hosts), Sort::switches("switch", 1, switches, switches)], tiers, Some(below))
        }
        (None, None, Some(hosts)) => {
            at_least(1, &[("hosts", hosts)])?;
            holdable(u128::from(hosts), product(&[hosts, spec.degree]) / 2)?;
            if let Some((key, _)) = [
                ("uplink_rate", spec.uplink_rate.is_some()),
                ("uplink_latency", spec.uplink_latency.is_some()),
            ]
            .into_iter()
            .find(|(_, given)| *given)
            {
                return Err(bad(key, "an expander of hosts has only one kind of link")
                    .help("set `rate` and `latency` instead"));
            }
            let ends = regular("hosts", hosts, spec.degree, seed)?;
            let tiers = vec![Cables { name: "host-host", kind: LinkKind::Direct, wire, ends }];
            (vec![Sort::hosts(hosts)], tiers, None)
        }
        _ => {
            return Err(bad("hosts", "an expander consists of either switches or hosts")
                .help("give either `switches` and `hosts_per_switch`, or `hosts`"));
        }
    };
    Ok(Blueprint {
        family: "expander",
        known: Known { diameter: None, bisection: None, whole: hosts_per_leaf.unwrap_or(1) },
        levels,
        tiers,
        hosts_per_leaf,
        passages: Vec::new(),
        nodes: Vec::new(),
        grid: None,
        axes: Vec::new(),
        layout: Layout::Circle,
    })
}

/// A cable by the numbers of its ends.
type Edge = (u32, u32);

/// Draws a connected random graph of `count` vertices with `degree` neighbours each. `key` names the vertices
/// in messages.
fn regular(
    key: &str,
    count: u32,
    degree: u32,
    seed: u64,
) -> std::result::Result<Vec<Edge>, super::Diagnostic> {
    if degree >= count && count > 1 {
        return Err(bad(
            "degree",
            format!("each of {count} {key} has only {} others to be joined to", count - 1),
        )
        .found(degree.to_string())
        .allowed(format!("at most {}", count - 1)));
    }
    let least = match count {
        1 => 0,
        2 => 1,
        _ => 2,
    };
    if degree < least || (count == 1 && degree > 0) {
        return Err(bad("degree", format!("{count} {key} cannot be joined by {degree} links each"))
            .found(degree.to_string())
            .allowed(if count < 3 { least.to_string() } else { format!("2 to {}", count - 1) })
            .help("with one link each, they can only form pairs"));
    }
    if count % 2 == 1 && degree % 2 == 1 {
        return Err(bad(
            "degree",
            format!(
                "{count} {key} of odd degree have an odd number of cable ends in total, and a cable has two"
            ),
        )
        .found(degree.to_string())
        .allowed("an even number")
        .help(format!("or an even number of {key}")));
    }
    let mut graph = Exchanging::circulant(count, degree);
    graph.mix(&mut ChaCha8Rng::seed_from_u64(seed));
    graph.connect();
    let mut edges: Vec<Edge> = graph.edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
    edges.sort_unstable();
    Ok(edges)
}

/// A graph in which cables exchange ends.
struct Exchanging {
    edges: Vec<Edge>,
    neighbours: Vec<Vec<u32>>,
}

impl Exchanging {
    fn circulant(count: u32, degree: u32) -> Self {
        let mut edges = Vec::new();
        for from in 0..count {
            edges.extend((1..=degree / 2).map(|step| (from, (from + step) % count)));
            if degree % 2 == 1 && from < count / 2 {
                edges.push((from, from + count / 2));
            }
        }
        let mut neighbours = vec![Vec::new(); count as usize];
        for &(a, b) in &edges {
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        Self { edges, neighbours }
    }

    fn joined(&self, a: u32, b: u32) -> bool {
        self.neighbours[a as usize].contains(&b)
    }

    /// Turns cables a–b and c–d into a–c and b–d.
    fn exchange(&mut self, first: usize, second: usize) {
        let ((a, b), (c, d)) = (self.edges[first], self.edges[second]);
        for (at, old, new) in [(a, b, c), (b, a, d), (c, d, a), (d, c, b)] {
            let list = &mut self.neighbours[at as usize];
            let place = list.iter().position(|&other| other == old).expect("both ends list a cable");
            list[place] = new;
        }
        (self.edges[first], self.edges[second]) = ((a, c), (b, d));
    }

    /// Attempts [`EXCHANGES`] exchanges per cable.
    fn mix(&mut self, random: &mut impl Rng) {
        let count = self.edges.len();
        if count < 2 {
            return;
        }
        for _ in 0..EXCHANGES * count as u64 {
            let (first, second) = (random.random_range(0..count), random.random_range(0..count));
            // Also draw which end of the second cable is exchanged: otherwise some graphs are never reached.
            if random.random_bool(0.5) {
                let (c, d) = self.edges[second];
                self.edges[second] = (d, c);
            }
            let ((a, b), (c, d)) = (self.edges[first], self.edges[second]);
            let apart = first != second && a != c && b != d && !self.joined(a, c) && !self.joined(b, d);
            if apart {
                self.exchange(first, second);
            }
        }
    }

    /// Returns the component of each vertex, numbered by its first vertex.
    fn components(&self) -> Vec<u32> {
        let mut component = vec![u32::MAX; self.neighbours.len()];
        for first in 0..self.neighbours.len() {
            if component[first] != u32::MAX {
                continue;
            }
            component[first] = first as u32;
            let mut open = vec![first as u32];
            while let Some(at) = open.pop() {
                for &next in &self.neighbours[at as usize] {
                    if component[next as usize] == u32::MAX {
                        component[next as usize] = first as u32;
                        open.push(next);
                    }
                }
            }
        }
        component
    }

    /// Joins all components.
    fn connect(&mut self) {
        loop {
            let component = self.components();
            let of = |edge: &Edge| component[edge.0 as usize];
            let Some(other) = self.edges.iter().position(|edge| of(edge) != 0) else { return };
            let first = (0..self.edges.len())
                .find(|&index| of(&self.edges[index]) == 0 && self.on_cycle(index))
                .expect("a regular graph of degree two or more has a cycle in every component");
            self.exchange(first, other);
        }
    }

    /// Whether the ends of a cable stay connected without it.
    fn on_cycle(&self, index: usize) -> bool {
        let (start, end) = self.edges[index];
        let mut seen = vec![false; self.neighbours.len()];
        seen[start as usize] = true;
        let mut open: Vec<u32> =
            self.neighbours[start as usize].iter().copied().filter(|&at| at != end).collect();
        while let Some(at) = open.pop() {
            if at == end {
                return true;
            }
            if !std::mem::replace(&mut seen[at as usize], true) {
                open.extend_from_slice(&self.neighbours[at as usize]);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Checks that every vertex has `degree` different neighbours, and that all are connected.
    fn check(count: u32, degree: u32, edges: &[Edge]) {
        let mut neighbours = vec![Vec::new(); count as usize];
        for &(a, b) in edges {
            assert!(a < b && b < count);
            neighbours[a as usize].push(b);
            neighbours[b as usize].push(a);
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len() as u32, degree);
        }
        let graph = Exchanging { edges: edges.to_vec(), neighbours };
        assert!(graph.components().iter().all(|&component| component == 0));
    }

    proptest! {
        #[test]
        fn graphs_are_regular_connected_and_repeat(count in 3u32..40, degree in 2u32..40, seed: u64) {
            prop_assume!(degree < count && (count * degree) % 2 == 0);
            let edges = regular("hosts", count, degree, seed).unwrap();
            check(count, degree, &edges);
            prop_assert_eq!(edges, regular("hosts", count, degree, seed).unwrap());
        }
    }

    /// Rings come apart most easily: at degree 2, mixing leaves several cycles, which are then joined into
    /// one.
    #[test]
    fn separate_components_are_joined() {
        let mut apart = 0;
        for seed in 0..50 {
            let mut graph = Exchanging::circulant(12, 2);
            graph.mix(&mut ChaCha8Rng::seed_from_u64(seed));
            apart += u32::from(graph.components().iter().any(|&component| component != 0));
            graph.connect();
            check(12, 2, &{ graph.edges.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect::<Vec<_>>() });
        }
        assert!(apart > 10, "{apart} of 50 fell apart");
    }

    #[test]
    fn different_seeds_give_different_graphs() {
        let graphs: std::collections::BTreeSet<Vec<Edge>> =
            (0..20).map(|seed| regular("hosts", 20, 4, seed).unwrap()).collect();
        assert_eq!(graphs.len(), 20);
    }

    /// The second-largest eigenvalue of a random regular graph is near 2√(d − 1) (Friedman 2008). No large
    /// graph has a smaller one (Alon and Boppana), so none expands better.
    #[test]
    fn random_regular_graphs_expand_nearly_optimally() {
        for (count, degree, seed) in [(200, 8, 1), (300, 4, 2), (101, 6, 3)] {
            let edges = regular("hosts", count, degree, seed).unwrap();
            // Power iteration on the square of the adjacency matrix, away from the vector of ones.
            let mut x: Vec<f64> = (0..count).map(|i| f64::from(i * 7919 % 101) - 50.0).collect();
            let mut value = 0.0;
            for _ in 0..500 {
                let mean = x.iter().sum::<f64>() / f64::from(count);
                x.iter_mut().for_each(|each| *each -= mean);
                let norm = x.iter().map(|each| each * each).sum::<f64>().sqrt();
                x.iter_mut().for_each(|each| *each /= norm);
                let mut y = vec![0.0; count as usize];
                for &(a, b) in &edges {
                    y[a as usize] += x[b as usize];
                    y[b as usize] += x[a as usize];
                }
                value = y.iter().map(|each| each * each).sum::<f64>().sqrt();
                x = y;
            }
            let best = 2.0 * f64::from(degree - 1).sqrt();
            assert!(value < 1.1 * best && value > 0.9 * best, "{count} {degree}: {value} beside {best}");
        }
    }

    /// There are three rings of four vertices.
    #[test]
    fn small_graphs_are_drawn_evenly() {
        let mut counts = std::collections::BTreeMap::new();
        for seed in 0..3000 {
            *counts.entry(regular("hosts", 4, 2, seed).unwrap()).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 3);
        assert!(counts.values().all(|&count| (900..1100).contains(&count)), "{counts:?}");
    }
}
