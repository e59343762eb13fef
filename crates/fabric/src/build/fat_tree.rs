//! The k-ary fat-tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): three levels of switches with k ports.
//!
//! k pods with k/2 edge and k/2 aggregation switches each, (k/2)² cores, and k/2 hosts on each edge switch:
//! k³/4 hosts. With an oversubscription of n:1, an edge switch has (k/2)/n uplinks instead of k/2, and
//! switches that this leaves unused are omitted: k/2n aggregation switches per pod remain, and (k/2)²/n
//! cores. This is how such networks are built in practice: uplinks at the top of the rack are omitted
//! (topoopt2022, 5.1), which saves switches; slower links would save none. For other ratios, use
//! `uplink_rate`.

use super::clos::{Clos, Names};
use super::{Drawn, Efficiency, Wire, bad, one, rates};
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// A k-ary fat-tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FatTree {
    /// Ports of a switch; an even number.
    pub k: u32,
    /// Oversubscription at the edge, by fewer uplinks: total rate of an edge switch's host links over that of
    /// its uplinks. A divisor of k/2.
    #[serde(default = "one")]
    pub oversubscription: u32,
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

pub(super) fn draw(spec: &FatTree) -> Drawn {
    let &FatTree { k, oversubscription, rate, latency, uplink_rate, uplink_latency, .. } = spec;
    if k < 2 || !k.is_multiple_of(2) {
        return Err(bad("k", "the switches of a fat-tree have an even number of ports")
            .found(k.to_string())
            .allowed("an even number, at least 2")
            .help("half of the ports lead down, and half lead up"));
    }
    let half = k / 2;
    if oversubscription == 0 || !half.is_multiple_of(oversubscription) {
        let divisors: Vec<String> =
            (1..=half.min(1 << 16)).filter(|n| half.is_multiple_of(*n)).map(|n| n.to_string()).collect();
        return Err(bad(
            "oversubscription",
            format!("`oversubscription` must divide the {half} uplinks of a switch"),
        )
        .found(oversubscription.to_string())
        .allowed(divisors.join(", "))
        .help("for other ratios, use slower uplinks: `uplink_rate`"));
    }
    rates(&[("rate", Some(rate)), ("uplink_rate", uplink_rate)])?;
    let hosts = Wire::new(rate, latency, spec.efficiency);
    let uplinks = hosts.or(uplink_rate, uplink_latency, spec.uplink_efficiency);
    let spines = half / oversubscription;
    Clos {
        names: Names {
            family: "fat_tree",
            levels: ["edge", "aggregation", "core"],
            tiers: ["host-edge", "edge-aggregation", "aggregation-core"],
        },
        pods: k,
        leaves: half,
        hosts_per_leaf: half,
        spines,
        cables: 1,
        // More would not fit 32 bits; a fabric that large is rejected for its number of hosts.
        cores: spines.saturating_mul(half),
        wires: [hosts, uplinks, uplinks],
    }
    .draw()
}
