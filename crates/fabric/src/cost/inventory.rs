//! What a fabric consists of: cables, ports of hosts, switches. Computed by arithmetic for regular fabrics,
//! otherwise by counting links.

use crate::parts::{LinkKind, Parts, VertexKind};
use crate::{Dimension, Fabric, Structure};
use std::collections::BTreeMap;
use syncline_units::{DimKind, LinkId, Rate};

/// A kind of links.
pub(super) struct Tier {
    /// Its usual name.
    pub(super) name: String,
    /// The name of its dimension in price lists, if the dimension has one.
    pub(super) tier: String,
    pub(super) kind: LinkKind,
    /// The scenario's key that gives the tier, if there is one.
    pub(super) key: Option<String>,
}

/// What a cable joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// Two hosts.
    Hosts,
    /// A host and a switch, or two switches.
    Switches,
}

/// Cables of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cable {
    pub(super) tier: usize,
    /// Rate in one direction.
    pub(super) rate: Rate,
    pub(super) ends: Ends,
    /// Whether there is a link in each direction.
    pub(super) duplex: bool,
    pub(super) count: u64,
}

/// Ports of a vertex that are of the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) tier: usize,
    pub(super) rate: Rate,
    /// Whether a host is at the other end.
    pub(super) to_host: bool,
    pub(super) count: u32,
}

/// What a fabric consists of.
pub(super) struct Inventory {
    pub(super) tiers: Vec<Tier>,
    /// Names of the levels of vertices.
    pub(super) levels: Vec<String>,
    pub(super) cables: Vec<Cable>,
    /// Ports of hosts, each with the number of hosts that have them.
    pub(super) hosts: Vec<(Vec<Port>, u64)>,
    /// Level and ports of switches, each with the number of switches that have them.
    pub(super) switches: Vec<((usize, Vec<Port>), u64)>,
}

impl Inventory {
    /// Returns the inventory of `fabric`, including broken links.
    pub(super) fn of(fabric: &Fabric) -> Self {
        match &fabric.kind {
            Structure::Regular(dims) => Self::regular(fabric.npus, dims),
            Structure::Graph(_) => Self::counted(fabric),
        }
    }

    fn regular(npus: u32, dims: &[Dimension]) -> Self {
        let mut made = Self {
            tiers: Vec::new(),
            levels: Vec::new(),
            cables: Vec::new(),
            hosts: Vec::new(),
            switches: Vec::new(),
        };
        let mut host = Vec::new();
        for (index, dim) in dims.iter().enumerate() {
            let switched = dim.kind == DimKind::Switch;
            made.tiers.push(Tier {
                name: dim.name.clone(),
                tier: dim.tier.clone(),
                kind: if switched { LinkKind::Host } else { LinkKind::Direct },
                key: Some(format!("fabric.dims.{index}.tier")),
            });
            made.levels.push(format!("{} switch", dim.name));
            if dim.size == 1 {
                continue;
            }
            let rate = dim.wire_rate;
            // Links that leave an NPU; over cables between NPUs, equally many arrive.
            let links = u64::from(npus) * u64::from(dim.egress_links());
            let port = |count| Port { tier: index, rate, to_host: !switched, count };
            let (ends, duplex, count, ports) = match dim.kind {
                DimKind::Switch => (Ends::Switches, true, links, dim.count),
                DimKind::Ring if dim.ways() == 1 => (Ends::Hosts, false, links, dim.count.saturating_mul(2)),
                DimKind::Ring | DimKind::FullyConnected => (Ends::Hosts, true, links / 2, dim.egress_links()),
            };
            made.cables.push(Cable { tier: index, rate, ends, duplex, count });
            host.push(port(ports));
            if switched {
                let switch = Port { to_host: true, ..port(dim.size) };
                made.switches.push(((index, vec![switch]), u64::from(dim.switches(npus))));
            }
        }
        made.hosts.push((host, u64::from(npus)));
        made
    }

    fn counted(fabric: &Fabric) -> Self {
        let parts = fabric.parts();
        let tiers = parts.tiers.iter().map(|tier| Tier {
            name: tier.name.clone(),
            tier: String::new(),
            kind: tier.kind,
            key: None,
        });
        let is_host: Vec<bool> = {
            let hosts = parts.levels.iter().flat_map(|level| {
                std::iter::repeat_n(level.kind != VertexKind::Switch, level.count as usize)
            });
            hosts.collect()
        };
        let mut cables: BTreeMap<(usize, Rate, Ends, bool), u64> = BTreeMap::new();
        // The ends of all cables: vertex, tier, rate, and whether a host is at the other end.
        let mut ends: Vec<(u32, usize, Rate, bool)> = Vec::new();
        for cable in found(fabric, &parts) {
            let kind = parts.tiers[cable.tier].kind;
            let hosts = [cable.a, cable.b].map(|vertex| is_host[vertex as usize]);
            let joined = if hosts == [true, true] { Ends::Hosts } else { Ends::Switches };
            *cables.entry((cable.tier, cable.rate, joined, cable.duplex)).or_default() += 1;
            // Only a card's ports to the network count.
            if kind != LinkKind::Pcie {
                ends.push((cable.a, cable.tier, cable.rate, hosts[1]));
                ends.push((cable.b, cable.tier, cable.rate, hosts[0]));
            }
        }
        ends.sort_unstable();
        let mut hosts: BTreeMap<Vec<Port>, u64> = BTreeMap::new();
        let mut switches: BTreeMap<(usize, Vec<Port>), u64> = BTreeMap::new();
        for vertex in ends.chunk_by(|a, b| a.0 == b.0) {
            let alike = vertex.chunk_by(|a, b| a == b).map(|alike| {
                let (_, tier, rate, to_host) = alike[0];
                Port { tier, rate, to_host, count: alike.len() as u32 }
            });
            let ports: Vec<Port> = alike.collect();
            let vertex = vertex[0].0;
            if is_host[vertex as usize] {
                *hosts.entry(ports).or_default() += 1;
            } else {
                let level = parts.levels.partition_point(|level| level.first <= vertex) - 1;
                *switches.entry((level, ports)).or_default() += 1;
            }
        }
        let cables = cables.into_iter().map(|((tier, rate, ends, duplex), count)| Cable {
            tier,
            rate,
            ends,
            duplex,
            count,
        });
        Self {
            tiers: tiers.collect(),
            levels: parts.levels.iter().map(|level| level.name.clone()).collect(),
            cables: cables.collect(),
            hosts: hosts.into_iter().collect(),
            switches: switches.into_iter().collect(),
        }
    }
}

/// A cable.
struct Found {
    a: u32,
    b: u32,
    tier: usize,
    rate: Rate,
    duplex: bool,
}

/// Returns all cables of a graph. Links between the same two vertices with the same rate form pairs, one in
/// each direction; an unpaired link is a one-way cable.
fn found(fabric: &Fabric, parts: &Parts) -> Vec<Found> {
    let Structure::Graph(graph) = &fabric.kind else { return Vec::new() };
    let mut all = Vec::with_capacity(graph.links().len() / 2);
    for (tier, sort) in parts.tiers.iter().enumerate() {
        let links = (sort.first..sort.first + sort.links).map(|id| graph.links()[LinkId(id).index()]);
        let mut links: Vec<(u32, u32, Rate, bool)> = links
            .map(|link| {
                let rate = sort.wire_rate.unwrap_or(link.rate);
                (link.from.min(link.to), link.from.max(link.to), rate, link.from > link.to)
            })
            .collect();
        links.sort_unstable();
        for same in links.chunk_by(|x, y| (x.0, x.1, x.2) == (y.0, y.1, y.2)) {
            let (a, b, rate, _) = same[0];
            let back = same.iter().filter(|link| link.3).count();
            let pairs = back.min(same.len() - back);
            let one_way = same.len() - 2 * pairs;
            for number in 0..pairs + one_way {
                all.push(Found { a, b, tier, rate, duplex: number < pairs });
            }
        }
    }
    all
}
