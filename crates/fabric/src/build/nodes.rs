//! Nodes of several NPUs, such as NVIDIA's DGX and HGX: switches inside, and network cards that are the hosts
//! of a family.
//!
//! NPUs are numbered node by node. An NPU with its own cards is a host itself. If NPUs share cards, or
//! `pcie_rate` is given, cards are vertices between the NPUs and their leaf. Card i of node n is host n ·
//! cards + i; with rails it is attached to leaf i of the node's group of leaves, so cards of the same number
//! are one switch apart.
//!
//! Nothing passes through an NPU on its way to another, and a card does not join the NPUs that share it:
//! within a node, all traffic uses its switches. With `forward`, an NPU forwards messages for others (as
//! NCCL's PXN does), so a message for another rail may change rails inside the node.
//! another rail may change the rail inside the node.

use super::blueprint::{Blueprint, Cables, Sort};
use super::{Drawn, Efficiency, Wire, at_least, bad, holdable, one, product, rates};
use crate::Passage;
use crate::measure::Known;
use crate::parts::{LinkKind, VertexKind};
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// What hosts consist of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// NPUs per node.
    pub npus: u32,
    /// Switches inside a node, each joined to every NPU.
    #[serde(default = "one")]
    pub switches: u32,
    /// Rate of a link between an NPU and a switch. Set exactly one of this and `rate_per_npu`.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Rate at which an NPU sends to all switches of its node together.
    #[serde(default)]
    pub rate_per_npu: Option<Rate>,
    /// Latency of such a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on such a link.
    #[serde(default)]
    pub efficiency: Efficiency,
    /// Network cards per node; by default one for each NPU.
    #[serde(default)]
    pub nics: Option<u32>,
    /// Rate of the link between an NPU and a card; makes cards vertices.
    #[serde(default)]
    pub pcie_rate: Option<Rate>,
    /// Latency of such a link.
    #[serde(default)]
    pub pcie_latency: Option<Time>,
    /// Efficiency of such a link; by default all bits are payload.
    #[serde(default)]
    pub pcie_efficiency: Option<Efficiency>,
    /// Whether card i of each node is attached to leaf i of its group of leaves.
    #[serde(default)]
    pub rails: bool,
    /// Whether NPUs forward messages for others.
    #[serde(default)]
    pub forward: bool,
}

/// Replaces the hosts of a blueprint by nodes.
pub(super) fn fill(outer: Blueprint, spec: &Nodes) -> Drawn {
    let &Nodes { npus, switches, rate, rate_per_npu, nics, rails, forward, .. } = spec;
    let nics = nics.unwrap_or(npus);
    at_least(1, &[("npus", npus), ("nics", nics), ("switches", switches)])?;
    // A single NPU has nothing to be joined to.
    let switches = if npus > 1 { switches } else { 0 };
    rates(&[("rate", rate), ("rate_per_npu", rate_per_npu), ("pcie_rate", spec.pcie_rate)])?;
    if !npus.is_multiple_of(nics) && !nics.is_multiple_of(npus) {
        return Err(bad("nics", "cards must divide evenly among NPUs, or NPUs among cards")
            .found(nics.to_string())
            .allowed(format!("a divisor or a multiple of {npus}")));
    }
    let inside = match (rate, rate_per_npu) {
        (Some(rate), None) => rate,
        (None, Some(rate)) => Rate(rate.0 / u64::from(switches.max(1))),
        _ => {
            return Err(bad("rate", "the rate inside a node must be given once")
                .help("give either `rate` or `rate_per_npu`"));
        }
    };
    let shared = nics < npus;
    if shared && spec.pcie_rate.is_none() {
        return Err(bad("pcie_rate", format!("{npus} NPUs share {nics} cards, over links that need a rate"))
            .help("add `pcie_rate`, such as `pcie_rate: 64GB/s`"));
    }
    let given =
        [("pcie_latency", spec.pcie_latency.is_some()), ("pcie_efficiency", spec.pcie_efficiency.is_some())];
    if let (Some((key, _)), None) = (given.iter().find(|(_, given)| *given), spec.pcie_rate) {
        return Err(bad(key, "an NPU with its own cards has no links to them")
            .help("set `pcie_rate` too, or leave this out"));
    }
    if outer.hosts_per_leaf.is_none() && nics > npus && spec.pcie_rate.is_none() {
        return Err(bad(
            "nics",
            "the hosts of this network are routers, and an NPU can be at most one of them",
        )
        .found(nics.to_string())
        .allowed(format!("at most {npus}"))
        .help("set `pcie_rate` to make the cards routers"));
    }
    let hosts = outer.hosts();
    if !hosts.is_multiple_of(nics) {
        return Err(bad("nics", format!("the {hosts} hosts of the network do not make a whole number of nodes"))
            .found(format!("{nics} per node"))
            .help("the nodes' cards are the hosts of the network: change the network's sizes, or the number of cards"));
    }
    let count = hosts / nics;
    let order = CardOrder::new(&outer, nics, rails)?;
    let cards = if spec.pcie_rate.is_some() { hosts } else { 0 };
    let all = product(&[count, npus]);
    let more =
        product(&[count, npus, switches]).saturating_add(u128::from(cards).max(all * u128::from(cards > 0)));
    let known: u128 = outer.tiers.iter().map(|tier| tier.ends.len() as u128).sum();
    holdable(all + product(&[count, switches]) + u128::from(hosts), more + known)?;

    // NPUs, switches of nodes, cards, then the vertices of the network.
    let total = count * npus;
    let first_card = total + count * switches;
    let first_above = first_card + cards;
    let host = |host: u32| {
        let card = order.card(host);
        if cards > 0 { first_card + card } else { card / nics * npus + card % nics / (nics / npus) }
    };
    let vertex = |vertex: u32| if vertex < hosts { host(vertex) } else { first_above + vertex - hosts };
    let inner =
        (0..total).flat_map(|npu| (0..switches).map(move |at| (npu, total + npu / npus * switches + at)));
    let mut tiers = vec![Cables {
        name: "scale-up",
        kind: LinkKind::ScaleUp,
        wire: Wire::new(inside, spec.latency, spec.efficiency),
        ends: inner.collect(),
    }];
    if let Some(rate) = spec.pcie_rate {
        // Every card has equally many NPUs, or every NPU equally many cards.
        let pairs = u32::max(npus, nics);
        let ends = (0..count).flat_map(|node| {
            (0..pairs).map(move |at| {
                (node * npus + at / (pairs / npus), first_card + node * nics + at / (pairs / nics))
            })
        });
        let wire =
            Wire::new(rate, spec.pcie_latency.unwrap_or_default(), spec.pcie_efficiency.unwrap_or_default());
        tiers.push(Cables { name: "pcie", kind: LinkKind::Pcie, wire, ends: ends.collect() });
    }
    tiers.extend(outer.tiers.into_iter().map(|mut tier| {
        tier.ends.iter_mut().for_each(|(a, b)| (*a, *b) = (vertex(*a), vertex(*b)));
        tier
    }));
    let direct = outer.hosts_per_leaf.is_none();
    let above = outer.levels[1..].iter().map(|level| level.count).sum::<u32>();
    let npu = if forward || (direct && cards == 0) { Passage::Through } else { Passage::No };
    let card = if direct { Passage::Router } else { Passage::Across };
    let passages =
        [(npu, total), (Passage::Through, count * switches), (card, cards), (Passage::Through, above)];
    let outside = std::iter::repeat_n(None, (cards + above) as usize);
    let members = (0..total).map(|npu| npu / npus).chain((0..count * switches).map(|at| at / switches));
    let members = members.map(Some).chain(outside).collect();
    let sort = |name, kind, height, count, group| Sort { name, kind, height, count, group };
    let mut levels = vec![
        sort("NPU", VertexKind::Npu, 0, total, npus),
        sort("NVSwitch", VertexKind::Switch, -1, count * switches, switches),
        sort("NIC", VertexKind::Nic, 1, cards, nics),
    ];
    let lift = i8::from(cards > 0);
    levels
        .extend(outer.levels.into_iter().skip(1).map(|level| Sort { height: level.height + lift, ..level }));
    Ok(Blueprint {
        family: outer.family,
        levels,
        tiers,
        hosts_per_leaf: outer.hosts_per_leaf,
        nodes: if npus > 1 { members } else { Vec::new() },
        passages: passages.into_iter().flat_map(|(each, count)| vec![each; count as usize]).collect(),
        grid: None,
        axes: vec![("node".to_owned(), npus), ("network".to_owned(), count)],
        layout: outer.layout,
        // If every leaf has whole nodes, a cut between nodes is a cut between hosts.
        known: Known {
            diameter: None,
            bisection: outer
                .known
                .bisection
                .filter(|_| !rails && !forward && outer.known.whole.is_multiple_of(nics)),
            whole: npus,
        },
    })
}

/// Which card is which host.
struct CardOrder {
    nics: u32,
    /// Hosts per leaf, if cards are on rails.
    rail: Option<u32>,
}

impl CardOrder {
    fn new(outer: &Blueprint, nics: u32, rails: bool) -> std::result::Result<Self, super::Diagnostic> {
        if !rails {
            return Ok(Self { nics, rail: None });
        }
        let Some(below) = outer.hosts_per_leaf else {
            return Err(bad(
                "rails",
                "rails need leaves, and the hosts of this network are routers themselves",
            )
            .found("true")
            .help("leave `rails` out, or use a network of switches, such as `leaf_spine`"));
        };
        let leaves = outer.hosts() / below;
        if !leaves.is_multiple_of(nics) {
            return Err(bad("rails", format!("each of {nics} cards of a node needs a leaf of its own"))
                .found(format!("{leaves} leaves"))
                .allowed(format!("a multiple of {nics}"))
                .help("change the number of leaves, or of cards"));
        }
        Ok(Self { nics, rail: Some(below) })
    }

    /// Returns the card that a host is; cards are numbered node by node.
    fn card(&self, host: u32) -> u32 {
        let Some(below) = self.rail else { return host };
        let (leaf, place) = (host / below, host % below);
        let node = leaf / self.nics * below + place;
        node * self.nics + leaf % self.nics
    }
}
