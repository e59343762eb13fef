//! Dragonfly (Kim, Dally, Scott and Abts, ISCA 2008): groups of routers, fully connected within and among each other.
//!
//! A router has p hosts, a link to each of the a − 1 other routers of its group, and h global links. The a·h
//! global ports of a group are numbered router by router. Port l of group i leads to group i + 1 + (l mod (g
//! − 1)), modulo g, and ends at the port that leads back in the same round ("palm tree" of Camarero, Vallejo
//! and Beivide 2014). The canonical number of groups g is a·h + 1, with one link between any two. With fewer
//! groups there are ⌊a·h / (g − 1)⌋ links between any two, and remaining ports stay free.

use super::blueprint::{Blueprint, Cables, Sort};
use super::{Drawn, Efficiency, Wire, at_least, bad, holdable, product, rates};
use crate::measure::Known;
use crate::parts::{Layout, LinkKind};
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// A dragonfly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dragonfly {
    /// Hosts per router.
    pub p: u32,
    /// Routers per group.
    pub a: u32,
    /// Global links per router.
    pub h: u32,
    /// Number of groups; a·h + 1 by default.
    #[serde(default)]
    pub groups: Option<u32>,
    /// Rate of a link.
    pub rate: Rate,
    /// Latency of a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on a link, above 0 and at most 1.
    #[serde(default)]
    pub efficiency: Efficiency,
    /// Rate of links within a group, if different.
    #[serde(default)]
    pub local_rate: Option<Rate>,
    /// Latency of links within a group, if different.
    #[serde(default)]
    pub local_latency: Option<Time>,
    /// Efficiency of links within a group, if different.
    #[serde(default)]
    pub local_efficiency: Option<Efficiency>,
    /// Rate of links between groups, if different.
    #[serde(default)]
    pub global_rate: Option<Rate>,
    /// Latency of links between groups, if different.
    #[serde(default)]
    pub global_latency: Option<Time>,
    /// Efficiency of links between groups, if different.
    #[serde(default)]
    pub global_efficiency: Option<Efficiency>,
}

pub(super) fn draw(spec: &Dragonfly) -> Drawn {
    let &Dragonfly { p, a, h, .. } = spec;
    at_least(1, &[("p", p), ("a", a)])?;
    rates(&[("rate", Some(spec.rate)), ("local_rate", spec.local_rate), ("global_rate", spec.global_rate)])?;
    let ports = product(&[a, h]);
    let groups = spec.groups.map_or(ports + 1, u128::from);
    if groups == 0 || groups > ports + 1 {
        return Err(bad(
            "groups",
            format!("a group has {ports} global links, and needs one for each other group"),
        )
        .found(groups.to_string())
        .allowed(format!("1 to {}", ports + 1))
        .help(
            "for more groups, increase the routers of a group (`a`) or the global links of a router (`h`)",
        ));
    }
    let routers = groups.saturating_mul(u128::from(a));
    let hosts = routers.saturating_mul(u128::from(p));
    let cables = routers.saturating_mul(u128::from(a - 1) / 2 + u128::from(h));
    holdable(hosts.saturating_add(routers), hosts.saturating_add(cables))?;
    let (groups, hosts) = (groups as u32, hosts as u32);

    let router = |group: u32, index: u32| hosts + group * a + index;
    let mut local = Vec::new();
    let mut global = Vec::new();
    for group in 0..groups {
        for first in 0..a {
            local.extend((first + 1..a).map(|second| (router(group, first), router(group, second))));
        }
        let others = groups - 1;
        let rounds = (a * h).checked_div(others).unwrap_or(0);
        for (round, offset) in (0..rounds).flat_map(|round| (0..others).map(move |offset| (round, offset))) {
            let peer = (group + 1 + offset) % groups;
            if group < peer {
                let (here, there) = (round * others + offset, round * others + others - 1 - offset);
                global.push((router(group, here / h), router(peer, there / h)));
            }
        }
    }
    let wire = Wire::new(spec.rate, spec.latency, spec.efficiency);
    Ok(Blueprint {
        family: "dragonfly",
        levels: vec![Sort::hosts(hosts), Sort::switches("router", 1, groups * a, a)],
        tiers: vec![
            Cables {
                name: "host-router",
                kind: LinkKind::Host,
                wire,
                ends: (0..hosts).map(|host| (host, hosts + host / p)).collect(),
            },
            Cables {
                name: "local",
                kind: LinkKind::Local,
                wire: wire.or(spec.local_rate, spec.local_latency, spec.local_efficiency),
                ends: local,
            },
            Cables {
                name: "global",
                kind: LinkKind::Global,
                wire: wire.or(spec.global_rate, spec.global_latency, spec.global_efficiency),
                ends: global,
            },
        ],
        hosts_per_leaf: Some(p),
        passages: Vec::new(),
        nodes: Vec::new(),
        grid: None,
        axes: Vec::new(),
        layout: Layout::Circle,
        known: Known { diameter: None, bisection: None, whole: p },
    })
}
