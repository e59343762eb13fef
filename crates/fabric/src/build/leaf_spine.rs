//! Leaf and spine switches: a folded Clos network of two levels, or of three if cores join several pods.
//!
//! Every leaf is joined to every spine of its pod. With several pods, the cores form as many planes as a pod
//! has spines, and a core is joined to the spine of its plane in every pod.

use super::clos::{Clos, Names};
use super::{Drawn, Efficiency, Wire, at_least, bad, one, rates};
use serde::{Deserialize, Serialize};
use syncline_units::{Rate, Time};

/// A leaf-spine network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpine {
    /// Leaves per pod.
    pub leaves: u32,
    /// Hosts per leaf.
    pub hosts_per_leaf: u32,
    /// Spines per pod. May be 0 only if hosts forward between leaves.
    pub spines: u32,
    /// Number of pods.
    #[serde(default = "one")]
    pub pods: u32,
    /// Number of cores, a multiple of `spines`; 0 with one pod.
    #[serde(default)]
    pub cores: u32,
    /// Parallel cables between a leaf and a spine.
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
    /// Rate of links between leaves and spines, if different.
    #[serde(default)]
    pub uplink_rate: Option<Rate>,
    /// Latency of links between leaves and spines, if different.
    #[serde(default)]
    pub uplink_latency: Option<Time>,
    /// Efficiency of links between leaves and spines, if different.
    #[serde(default)]
    pub uplink_efficiency: Option<Efficiency>,
    /// Rate of links between spines and cores, if different from the uplinks.
    #[serde(default)]
    pub core_rate: Option<Rate>,
    /// Latency of links between spines and cores, if different from the uplinks.
    #[serde(default)]
    pub core_latency: Option<Time>,
    /// Efficiency of links between spines and cores, if different from the uplinks.
    #[serde(default)]
    pub core_efficiency: Option<Efficiency>,
}

pub(super) fn draw(spec: &LeafSpine) -> Drawn {
    let &LeafSpine { leaves, hosts_per_leaf, spines, pods, cores, cables, .. } = spec;
    at_least(
        1,
        &[("leaves", leaves), ("hosts_per_leaf", hosts_per_leaf), ("pods", pods), ("cables", cables)],
    )?;
    rates(&[("rate", Some(spec.rate)), ("uplink_rate", spec.uplink_rate), ("core_rate", spec.core_rate)])?;
    if pods == 1 && cores > 0 {
        return Err(bad("cores", "cores join pods, and there is one pod")
            .found(cores.to_string())
            .allowed("0")
            .help("set the number of `pods`, or leave `cores` out"));
    }
    if pods > 1 && (cores == 0 || spines == 0 || !cores.is_multiple_of(spines)) {
        return Err(bad("cores", "cores come in planes, one for each spine of a pod")
            .found(cores.to_string())
            .allowed(if spines == 0 {
                "pods with spines".to_owned()
            } else {
                format!("a multiple of {spines}")
            })
            .help("a core is joined to one spine of each pod"));
    }
    let hosts = Wire::new(spec.rate, spec.latency, spec.efficiency);
    let uplinks = hosts.or(spec.uplink_rate, spec.uplink_latency, spec.uplink_efficiency);
    let top = uplinks.or(spec.core_rate, spec.core_latency, spec.core_efficiency);
    Clos {
        names: Names {
            family: "leaf_spine",
            levels: ["leaf", "spine", "core"],
            tiers: ["host-leaf", "leaf-spine", "spine-core"],
        },
        pods,
        leaves,
        hosts_per_leaf,
        spines,
        cables,
        cores,
        wires: [hosts, uplinks, top],
    }
    .draw()
}
