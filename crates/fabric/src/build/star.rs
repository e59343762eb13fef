//! One abstract switch that joins all hosts: an ideal network, limited only by the hosts' links.

use super::blueprint::{Blueprint, Cables, Sort};
use super::{Drawn, Efficiency, Wire, at_least, holdable, rates};
use crate::measure::{Known, Method};
use crate::parts::{Layout, LinkKind};
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// One switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Star {
    /// Number of hosts.
    pub hosts: u32,
    /// Rate of a link.
    pub rate: Rate,
    /// Latency of a link.
    #[serde(default)]
    pub latency: Time,
    /// Payload as a fraction of all bits on a link, above 0 and at most 1.
    #[serde(default)]
    pub efficiency: Efficiency,
}

pub(super) fn draw(spec: &Star) -> Drawn {
    let &Star { hosts, rate, latency, .. } = spec;
    at_least(1, &[("hosts", hosts)])?;
    rates(&[("rate", Some(rate))])?;
    holdable(u128::from(hosts) + 1, u128::from(hosts))?;
    let half = Rate(rate.0.saturating_mul(u64::from(hosts / 2)));
    Ok(Blueprint {
        family: "switch",
        levels: vec![Sort::hosts(hosts), Sort::switches("switch", 1, 1, 1)],
        tiers: vec![Cables {
            name: "host-switch",
            kind: LinkKind::Host,
            wire: Wire::new(rate, latency, spec.efficiency),
            ends: (0..hosts).map(|host| (host, hosts)).collect(),
        }],
        hosts_per_leaf: Some(hosts),
        passages: Vec::new(),
        nodes: Vec::new(),
        grid: None,
        axes: Vec::new(),
        layout: Layout::Levels,
        known: Known {
            diameter: Some(if hosts > 1 { 2 } else { 0 }),
            bisection: (hosts > 1).then_some((half, Method::Formula)),
            whole: 1,
        },
    })
}
