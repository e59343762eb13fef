//! NPUs, dimensions and links.

use serde::Serialize;
use syncline_fabric::Fabric;
use syncline_fabric::cost::Bill;
use syncline_fabric::measure::{Degree, Method};
use syncline_fabric::parts::{Layout, Level, LinkKind, Tier, VertexKind};
use syncline_prepare::Prepared;
use syncline_units::LinkId;

/// Largest number of links that are listed: as many as a picture can show.
const LINKS: u32 = 4096;

#[derive(Serialize)]
pub(super) struct FabricView {
    shape: Option<String>,
    npus: u32,
    switches: u32,
    links: u32,
    dims: Vec<DimView>,
    /// How a graph's paths are found.
    routing: Option<RoutingView>,
    /// The family of a graph; empty if it was given link by link.
    family: String,
    /// Levels of vertices, the NPUs first.
    levels: Vec<LevelView>,
    /// Tiers of links.
    tiers: Vec<TierView>,
    /// Names and sizes of the axes in which NPUs are naturally arranged.
    axes: Vec<(String, u32)>,
    /// How a picture arranges the vertices.
    layout: Layout,
    /// Number of links between the two NPUs that are farthest apart, if known.
    diameter: Option<u32>,
    /// The rate at which the two halves of the NPUs can send to each other.
    bisection: Option<BisectionView>,
    /// What the fabric costs, if the scenario has prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    bill: Option<Bill>,
    /// Names that the scenario gives the vertices, NPUs first.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    names: Vec<String>,
    /// All links of a small fabric, the first ones of a large graph, none of a large regular fabric.
    listed: Vec<LinkView>,
}

#[derive(Serialize)]
struct LevelView {
    name: String,
    kind: VertexKind,
    height: i8,
    first: u32,
    count: u32,
    /// Number of adjacent vertices that form a group.
    group: u32,
    /// Links that leave the vertex with the fewest, and with the most.
    degree: [u32; 2],
}

#[derive(Serialize)]
struct TierView {
    name: String,
    kind: LinkKind,
    /// Number of the first directed link.
    first: u32,
    /// Number of directed links.
    links: u32,
    rate_bytes_per_s: f64,
    latency_s: f64,
}

#[derive(Serialize)]
struct BisectionView {
    /// Rate in one direction.
    rate_bytes_per_s: f64,
    /// What half of the NPUs can send into the network.
    ideal_bytes_per_s: f64,
    method: Method,
}

#[derive(Serialize)]
struct DimView {
    name: String,
    kind: &'static str,
    size: u32,
    count: u32,
    one_way: bool,
    spread: syncline_fabric::Spread,
    links_per_npu: u32,
    lanes: u32,
    stride: u32,
    rate_bytes_per_s: f64,
    rate_per_npu_bytes_per_s: f64,
    latency_s: f64,
}

#[derive(Serialize)]
struct RoutingView {
    policy: &'static str,
    /// Seed of the hash.
    seed: Option<u64>,
    /// Number of pairs with an explicit path.
    explicit: usize,
}

#[derive(Serialize)]
struct LinkView {
    from: String,
    to: String,
    rate_bytes_per_s: f64,
    latency_s: f64,
}

/// The fabric.
pub(super) fn view(prepared: &Prepared) -> FabricView {
    let fabric = &prepared.fabric;
    // For a large regular fabric, list no links: its dimensions say more than some of its links.
    let listed = match fabric.links() {
        all if all <= LINKS => all,
        _ if fabric.is_graph() => LINKS,
        _ => 0,
    };
    let parts = fabric.parts().into_owned();
    FabricView {
        levels: levels(fabric),
        tiers: tiers(fabric),
        family: if fabric.is_graph() { parts.family } else { String::new() },
        axes: parts.axes,
        layout: parts.layout,
        diameter: fabric.diameter(),
        bisection: fabric.bisection().map(|found| BisectionView {
            rate_bytes_per_s: found.rate.as_bytes_per_s(),
            ideal_bytes_per_s: found.ideal.as_bytes_per_s(),
            method: found.method,
        }),
        shape: fabric.shape().map(|shape| shape.to_string()),
        npus: fabric.npus(),
        switches: fabric.vertices() - fabric.npus(),
        links: fabric.links(),
        dims: fabric
            .dims()
            .iter()
            .map(|dim| DimView {
                name: dim.name.clone(),
                kind: dim.kind.name(),
                size: dim.size,
                count: dim.count,
                one_way: dim.direction == syncline_fabric::Direction::OneWay,
                spread: dim.spread,
                links_per_npu: dim.egress_links(),
                lanes: dim.lanes(),
                stride: dim.stride(),
                rate_bytes_per_s: dim.rate.as_bytes_per_s(),
                rate_per_npu_bytes_per_s: dim.rate_per_npu().as_bytes_per_s(),
                latency_s: dim.latency.as_s(),
            })
            .collect(),
        routing: fabric.is_graph().then(|| RoutingView {
            policy: match fabric.ecmp() {
                Some(_) => "ecmp",
                None if fabric.in_dimension_order() => "dimension_order",
                None => "shortest",
            },
            seed: fabric.ecmp(),
            explicit: fabric.explicit_paths(),
        }),
        bill: prepared.bill.clone(),
        names: fabric.names().to_vec(),
        listed: (0..listed)
            .map(|id| {
                let link = fabric.link(LinkId(id));
                LinkView {
                    from: fabric.vertex_name(link.from),
                    to: fabric.vertex_name(link.to),
                    rate_bytes_per_s: link.rate.as_bytes_per_s(),
                    latency_s: link.latency.as_s(),
                }
            })
            .collect(),
    }
}

/// Levels of vertices, with their degrees.
fn levels(fabric: &Fabric) -> Vec<LevelView> {
    let parts = fabric.parts();
    let view = |(level, degree): (&Level, Degree)| LevelView {
        name: level.name.clone(),
        kind: level.kind,
        height: level.height,
        first: level.first,
        count: level.count,
        group: level.group,
        degree: [degree.least, degree.most],
    };
    parts.levels.iter().zip(fabric.degrees()).map(view).collect()
}

/// Tiers of links. All links of a tier are alike, except in tiers of kind `Other`, which are left out.
fn tiers(fabric: &Fabric) -> Vec<TierView> {
    let parts = fabric.parts();
    let known = parts.tiers.iter().filter(|tier| tier.kind != LinkKind::Other && tier.links > 0);
    let view = |tier: &Tier| {
        let link = fabric.link(LinkId(tier.first));
        TierView {
            name: tier.name.clone(),
            kind: tier.kind,
            first: tier.first,
            links: tier.links,
            rate_bytes_per_s: link.rate.as_bytes_per_s(),
            latency_s: link.latency.as_s(),
        }
    };
    known.map(view).collect()
}
