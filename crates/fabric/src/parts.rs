//! What the vertices and links of a fabric are: levels of vertices, tiers of links.
//!
//! Prices, drawings and reports need more than a graph: which switches are spines, which links leave a building
//! block. The vertices of a level are numbered consecutively, and so are the links of a tier.

use crate::Dimension;
use serde::Serialize;
use syncline_units::{DimKind, LinkId, Rate, TierId};

/// What a vertex is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VertexKind {
    /// An accelerator.
    Npu,
    /// A network card that is a vertex, because NPUs share it or reach it over links of their own.
    Nic,
    /// A switch or router.
    Switch,
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// Within a node, between NPUs and the switches that join them there (NVLink).
    ScaleUp,
    /// Between an NPU and a network card that is a vertex of its own (PCIe).
    Pcie,
    /// Between a host (a network card, or an NPU that has its own) and its first switch.
    Host,
    /// Between two levels of switches.
    Uplink,
    /// Between switches of one group, or of one level.
    Local,
    /// Between groups of switches.
    Global,
    /// Between hosts, without a switch.
    Direct,
    /// Not known.
    Other,
}

impl LinkKind {
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ScaleUp => "scale_up",
            Self::Pcie => "pcie",
            Self::Host => "host",
            Self::Uplink => "uplink",
            Self::Local => "local",
            Self::Global => "global",
            Self::Direct => "direct",
            Self::Other => "other",
        }
    }
}

/// Vertices of one kind, numbered consecutively.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    /// The name of one of them, such as `leaf`; the number within the level follows.
    pub name: String,
    /// The kind of vertex.
    pub kind: VertexKind,
    /// Height above the NPUs, which are at 0; for drawings.
    pub height: i8,
    /// Number of the first one.
    pub first: u32,
    /// Number of vertices.
    pub count: u32,
    /// How many form a group, such as the leaves of a pod; `count` if there are no groups.
    pub group: u32,
}

/// Links of one kind, numbered consecutively.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tier {
    /// Their name, such as `leaf-spine`.
    pub name: String,
    /// What they are for.
    pub kind: LinkKind,
    /// Number of the first directed link.
    pub first: u32,
    /// Number of directed links.
    pub links: u32,
    /// Rate of each including headers, which is what is paid for; `None` if it equals the payload rate.
    pub wire_rate: Option<Rate>,
}

/// The direction of a link, as seen from the NPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkDirection {
    /// Away from the NPUs: to a switch or card, or to a switch of a higher level.
    Up,
    /// Towards the NPUs.
    Down,
    /// Between vertices of the same height.
    Across,
}

impl LinkDirection {
    /// Returns its name in files: `up`, `down`; empty for `Across`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Across => "",
        }
    }
}

/// How a drawing arranges the vertices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Levels stacked on each other.
    Levels,
    /// The switches, or NPUs, in a circle, by groups.
    Circle,
    /// In a grid of these sizes, lowest dimension first.
    Grid(Vec<u32>),
}

/// Levels and tiers of a fabric, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parts {
    /// The family of the fabric, such as `fat_tree`; empty if it was given link by link.
    pub family: String,
    /// Kinds of vertices. The first is the NPUs.
    pub levels: Vec<Level>,
    /// Kinds of links.
    pub tiers: Vec<Tier>,
    /// Names and sizes of the natural axes of NPUs, lowest first; empty if there is a single axis.
    pub axes: Vec<(String, u32)>,
    /// How a drawing arranges them.
    pub layout: Layout,
}

impl Parts {
    /// The parts of a fabric of which only the numbers of vertices and links are known.
    pub fn unknown(npus: u32, switches: u32, links: u32) -> Self {
        let level = |name: &str, kind, height, first, count| Level {
            name: name.to_owned(),
            kind,
            height,
            first,
            count,
            group: count,
        };
        let mut levels = vec![level("NPU", VertexKind::Npu, 0, 0, npus)];
        if switches > 0 {
            levels.push(level("switch", VertexKind::Switch, 1, npus, switches));
        }
        let tiers = vec![Tier {
            name: "network".to_owned(),
            kind: LinkKind::Other,
            first: 0,
            links,
            wire_rate: None,
        }];
        Self { family: String::new(), levels, tiers, axes: Vec::new(), layout: Layout::Circle }
    }

    /// The parts of a regular fabric: its switches form one level, the links of each dimension a tier.
    pub(crate) fn regular(npus: u32, dims: &[Dimension]) -> Self {
        let switches = dims.iter().map(|dim| dim.switches(npus)).sum();
        let tiers = dims.iter().map(|dim| Tier {
            name: dim.name.clone(),
            kind: if dim.kind == DimKind::Switch { LinkKind::Host } else { LinkKind::Direct },
            first: dim.first_link,
            links: npus * dim.links_per_npu(),
            wire_rate: Some(dim.wire_rate),
        });
        let layout = Layout::Grid(dims.iter().map(|dim| dim.size).collect());
        let axes = dims.iter().map(|dim| (dim.name.clone(), dim.size)).collect();
        let tiers = tiers.filter(|tier| tier.links > 0).collect();
        Self { family: "dims".to_owned(), tiers, axes, layout, ..Self::unknown(npus, switches, 0) }
    }

    /// Returns the level of a vertex.
    pub fn level(&self, vertex: u32) -> &Level {
        &self.levels[self.levels.partition_point(|level| level.first <= vertex) - 1]
    }

    /// Returns the tier of a link.
    pub fn tier(&self, link: LinkId) -> &Tier {
        &self.tiers[self.tier_number(link)]
    }

    /// Returns the index of a link's tier.
    pub fn tier_number(&self, link: LinkId) -> usize {
        self.tiers.partition_point(|tier| tier.first <= link.0) - 1
    }

    /// Returns the id of a link's tier.
    pub fn tier_id(&self, link: LinkId) -> TierId {
        TierId(self.tier_number(link) as u16)
    }

    /// Returns the direction of a link between two vertices. Switches inside nodes are below the NPUs, as far
    /// away as the first switches above them.
    pub fn direction(&self, from: u32, to: u32) -> LinkDirection {
        let away = |vertex| self.level(vertex).height.unsigned_abs();
        match away(from).cmp(&away(to)) {
            std::cmp::Ordering::Less => LinkDirection::Up,
            std::cmp::Ordering::Greater => LinkDirection::Down,
            std::cmp::Ordering::Equal => LinkDirection::Across,
        }
    }

    /// Returns the name of a vertex: `NPU 3`, `spine 0`.
    pub fn vertex_name(&self, vertex: u32) -> String {
        let level = self.level(vertex);
        format!("{} {}", level.name, vertex - level.first)
    }

    /// Returns the vertex with this name, ignoring case.
    pub fn vertex(&self, name: &str) -> Option<u32> {
        self.levels.iter().find_map(|level| {
            let start = name.get(..level.name.len())?;
            let rest = &name[level.name.len()..];
            let number: u32 = rest.trim().parse().ok().filter(|_| start.eq_ignore_ascii_case(&level.name))?;
            (number < level.count).then_some(level.first + number)
        })
    }

    /// Lists all names: `NPU 0 to NPU 7, switch 0`.
    pub fn names(&self) -> String {
        let range = |level: &Level| match level.count {
            1 => format!("{} 0", level.name),
            count => format!("{} 0 to {} {}", level.name, level.name, count - 1),
        };
        self.levels.iter().map(range).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_vertices_lead_to_their_numbers() {
        let mut parts = Parts::unknown(4, 3, 14);
        parts.levels[1].name = "leaf".to_owned();
        for vertex in 0..7 {
            assert_eq!(parts.vertex(&parts.vertex_name(vertex)), Some(vertex));
        }
        assert_eq!(parts.vertex("npu 2"), Some(2));
        assert_eq!(parts.vertex("LEAF2"), Some(6));
        for wrong in ["leaf 3", "leaf", "spine 0", "NPU -1", "", "NP\u{fffd}U 0"] {
            assert_eq!(parts.vertex(wrong), None, "{wrong}");
        }
        assert_eq!(parts.names(), "NPU 0 to NPU 3, leaf 0 to leaf 2");
    }

    #[test]
    fn directions_are_seen_from_npus() {
        let mut parts = Parts::unknown(4, 4, 0);
        parts.levels[1].count = 2;
        parts.levels[1].height = -1;
        parts.levels.push(Level { name: "spine".to_owned(), height: 2, first: 6, ..parts.levels[1].clone() });
        let directions = [
            (0, 4, LinkDirection::Up),
            (4, 0, LinkDirection::Down),
            (5, 6, LinkDirection::Up),
            (6, 0, LinkDirection::Down),
            (4, 5, LinkDirection::Across),
        ];
        for (from, to, direction) in directions {
            assert_eq!(parts.direction(from, to), direction, "{from} to {to}");
        }
    }
}
