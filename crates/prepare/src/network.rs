//! Builds the [`Fabric`] from a scenario's network, and checks that the ranks can reach each other.

use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::{Dimension, Fabric, Graph};
use syncline_scenario::{Dim, Fabric as Spec, Routing, Spread};
use syncline_units::{DimKind, NpuId};

/// Builds the fabric. `seed` is the seed of flow hashing, unless the fabric gives its own.
///
/// # Errors
/// Everything that is impossible about it.
pub fn fabric(spec: &Spec, seed: u64) -> Result<Fabric> {
    match spec {
        Spec::Dims(dims) => {
            let mut errors = Diagnostics::new();
            let mut built = Vec::new();
            for (index, dim) in dims.iter().enumerate() {
                match dimension(dim) {
                    Ok(dim) => built.push(dim),
                    Err(error) => {
                        let key = error.key.clone().unwrap_or_default();
                        errors.push(error.key(format!("fabric.dims.{index}.{key}")));
                    }
                }
            }
            errors.into_result()?;
            Fabric::regular(built)
        }
        Spec::Graph(graph) => {
            let routing = match &graph.routing {
                Routing::Shortest => syncline_fabric::Routing::Shortest,
                Routing::Ecmp(ecmp) => syncline_fabric::Routing::Ecmp { seed: ecmp.seed.unwrap_or(seed) },
                Routing::Explicit(paths) => syncline_fabric::Routing::Explicit(paths.clone()),
            };
            let made =
                Graph::named(graph.names.clone(), graph.npus, graph.switches, graph.links.clone(), routing)?;
            Ok(Fabric::graph(if graph.ends_only { made.ending_at_npus() } else { made }))
        }
        Spec::Built(spec) => syncline_fabric::build::build(spec, seed),
    }
}

fn dimension(dim: &Dim) -> std::result::Result<Dimension, Diagnostic> {
    let bad = |key: &str, message: &str| Diagnostic::error(Code::BadFabric, message).key(key);
    if dim.size == 0 {
        return Err(bad("size", "a dimension needs at least one NPU").found("0"));
    }
    if dim.count == 0 {
        return Err(bad("count", "a dimension needs at least one ring, link or switch").found("0"));
    }
    if dim.spread != Spread::Lane && dim.shape != DimKind::Switch {
        return Err(bad("spread", "`spread: pair` needs a dimension of switches")
            .found(format!("a dimension of shape {}", dim.shape.name()))
            .allowed("switch"));
    }
    if !(dim.efficiency > 0.0 && dim.efficiency <= 1.0) {
        return Err(bad("efficiency", "efficiency out of range")
            .found(dim.efficiency.to_string())
            .allowed("above 0, at most 1"));
    }
    let built = Dimension::new(dim.name.clone(), dim.shape, dim.size)
        .with_count(dim.count)
        .with_direction(dim.direction)
        .with_spread(dim.spread)
        .with_latency(dim.latency)
        .with_tier(dim.tier.clone());
    let built = match (dim.rate, dim.rate_per_npu) {
        (Some(rate), None) => built.with_rate(rate).with_payload(rate.scaled(dim.efficiency)),
        (None, Some(rate)) => {
            let payload = built.clone().with_rate_per_npu(rate.scaled(dim.efficiency)).rate;
            built.with_rate_per_npu(rate).with_payload(payload)
        }
        (Some(_), Some(_)) => {
            return Err(bad("rate", "both `rate` and `rate_per_npu` are given")
                .help("`rate` is per link, `rate_per_npu` over all links of an NPU: give one"));
        }
        (None, None) => {
            return Err(bad("rate", "neither `rate` nor `rate_per_npu` is given")
                .help("give the rate of one link, such as `rate: 25GB/s`"));
        }
    };
    if built.rate.is_zero() && dim.size > 1 {
        return Err(bad("rate", "a link needs a rate above zero").found(built.rate.to_string()));
    }
    Ok(built)
}

/// Checks that every NPU that is used can reach the first one and be reached by it, and so can reach every other.
pub fn check_connected(fabric: &Fabric, ranks: u32, placement: &[NpuId]) -> Diagnostics {
    let npu = |rank: u32| placement.get(rank as usize).copied().unwrap_or(NpuId(rank));
    let Some(first) = (0..ranks).map(npu).next() else { return Diagnostics::new() };
    for back in [false, true] {
        let Some(reached) = fabric.reach(first, back) else { continue };
        let Some(lost) = (1..ranks).map(npu).find(|npu| !reached[npu.index()]) else { continue };
        let (from, to) = if back { (lost, first) } else { (first, lost) };
        let [from, to] = [from, to].map(|npu| fabric.vertex_name(npu.0));
        let error = Diagnostic::error(Code::NoRoute, format!("no path leads from {from} to {to}"));
        let error = if fabric.is_damaged() {
            error
                .key("faults")
                .help("too many links are dead: remove some faults, or place the job on NPUs that still reach each other")
        } else if !fabric.axes().is_empty() || !fabric.parts().family.is_empty() {
            error.key("fabric.built.network").help(
                "only nodes can connect leaves without spines: give `nodes`, `rails: true` and `forward: true`",
            )
        } else {
            error.key("fabric.graph.links").help("links are directed: a duplex link is two of them")
        };
        return error.into();
    }
    Diagnostics::new()
}
