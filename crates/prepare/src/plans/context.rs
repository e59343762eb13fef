//! What plans depend on besides the job: settings, fabric, placement and network model.

use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_engine::Lanes;
use syncline_fabric::{Dimension, Direction, Fabric, Spread};
use syncline_net_packet::{Parameters, Sharing};
use syncline_plan::choice::{self, Groups, Paths, Wiring};
use syncline_scenario::{Collectives, NetworkSettings};
use syncline_units::{Bytes, DimKind, LinkId, NpuId, Rate, Time};
use syncline_workload::{Axis, Role};

/// Largest number of ranks whose messages are routed to measure a graph's rates.
const ROUTED: u32 = 1 << 12;
/// Largest number of distances for which the messages of an exchange between all ranks are routed.
const DISTANCES: usize = 16;

/// Rate and latency of messages to certain distances while all ranks send them.
struct Sends {
    /// Rate at which each rank sends all its messages together.
    rate: Rate,
    /// Longest latency.
    longest: Time,
    /// Mean latency.
    mean: Time,
}

/// A scenario's settings, fabric, placement and network model, as plans see them.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) spec: &'a Collectives,
    pub(super) fabric: &'a Fabric,
    /// NPU of each rank; empty where rank `i` is on NPU `i`.
    placement: &'a [NpuId],
    network: &'a NetworkSettings,
    /// Whether rank `i` is on NPU `i`.
    pub(super) linear: bool,
}

impl<'a> Context<'a> {
    /// `placement` is empty where rank `i` is on NPU `i`.
    pub(super) fn new(
        spec: &'a Collectives,
        fabric: &'a Fabric,
        placement: &'a [NpuId],
        network: &'a NetworkSettings,
    ) -> Self {
        let linear = (0..).zip(placement).all(|(rank, npu)| npu.0 == rank);
        Self { spec, fabric, placement, network, linear }
    }

    /// The NPU of a rank.
    pub(super) fn npu(&self, rank: u32) -> NpuId {
        self.placement.get(rank as usize).copied().unwrap_or(NpuId(rank))
    }

    /// The dimension that an axis runs along, where ranks are placed in the order of NPUs.
    pub(super) fn dim(&self, axis: Axis) -> Option<&'a Dimension> {
        axis.dim.filter(|_| self.linear).map(|dim| &self.fabric.dims()[usize::from(dim)])
    }

    /// Whether a message may wait for links between the first and the last link of its path.
    pub(super) fn waits_inside(&self) -> bool {
        !matches!(self.network, NetworkSettings::Analytical)
    }

    /// Numbers of paths over which messages are spread; several numbers if dimensions differ.
    pub(super) fn path_counts(&self) -> Vec<u32> {
        let mut counts = match self.network {
            NetworkSettings::Flow(settings) => vec![settings.paths.max(1)],
            NetworkSettings::Packet(settings) => {
                settings.dims.values().chain([&settings.all]).map(|set| set.spray.max(1)).collect()
            }
            NetworkSettings::Analytical | NetworkSettings::Queued => vec![1],
        };
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// The network along axis `index` of a role's groups. `others` are the queues of phases that run in no dimension.
    pub(super) fn along(&self, role: &Role, index: usize, others: Lanes) -> choice::GroupNetwork {
        let axis = role.axes[index];
        let ends = self.spec.injection_latency.saturating_add(self.spec.injection_latency);
        let overhead = ends.saturating_add(self.spec.endpoint_delay);
        let (gap, reduction) = (Time::ZERO, self.spec.reduction_rate);
        match self.dim(axis) {
            Some(dim) => {
                let both = dim.direction == Direction::Both;
                let (wiring, latency) = match dim.kind {
                    // In a ring of up to three NPUs, all are neighbours.
                    DimKind::Ring if both && dim.size <= 3 => (Wiring::Full, dim.latency),
                    DimKind::Ring => (Wiring::Ring { both }, dim.latency),
                    DimKind::FullyConnected => (Wiring::Full, dim.latency),
                    DimKind::Switch => (Wiring::Switch, dim.latency.saturating_add(dim.latency)),
                };
                let count = match dim.spread {
                    Spread::Pair => dim.count.min(dim.size.saturating_sub(1).max(1)),
                    Spread::Lane => dim.count,
                };
                let buffer = self.buffer(&dim.name, if dim.kind == DimKind::Switch { dim.size } else { 4 });
                choice::GroupNetwork {
                    wiring,
                    rate: dim.rate,
                    count,
                    latency,
                    overhead,
                    gap,
                    reduction,
                    buffer,
                    paths: None,
                }
            }
            None => {
                let turns = others.rooted_ways == 2;
                // Chunks alternate between two lanes, which go round a ring of ranks in opposite directions.
                let size = axis.size.max(2);
                let (half, step) = (size / 2, (size as usize - 1).div_ceil(DISTANCES));
                let others = (1..size).step_by(step).flat_map(|by| [(by, 0), (by, 1)]);
                let near = self.sends(role, index, &[(1, 0), (size - 1, 1)]);
                let far = self.sends(role, index, &[(half, 0), (half, 1)]);
                let all = self.sends(role, index, &others.collect::<Vec<_>>());
                choice::GroupNetwork {
                    wiring: Wiring::Graph { far: far.rate, all: all.rate, far_latency: far.longest },
                    rate: near.rate,
                    count: 1,
                    // A chunk that goes round a ring takes each of its steps once.
                    latency: near.mean,
                    overhead,
                    gap,
                    reduction,
                    buffer: self.buffer("", self.ports()),
                    paths: self.paths(role, index, turns).map(Arc::new),
                }
            }
        }
    }

    /// Rate at which each rank sends all its messages together, and their latencies, while all ranks send along an axis
    /// to the ranks at the given distances over the given lanes (`to`).
    fn sends(&self, role: &Role, index: usize, to: &[(u32, u32)]) -> Sends {
        let weight: u32 = role.axes[..index].iter().map(|axis| axis.size).product();
        let size = role.axes[index].size;
        let mut flows: BTreeMap<LinkId, u64> = BTreeMap::new();
        let mut path = Vec::new();
        let (mut longest, mut sum, mut messages) = (Time::ZERO, 0u128, 0u128);
        let groups = role.groups().min(ROUTED.div_ceil(role.size().max(1)));
        let positions = (0..groups).flat_map(|g| (0..role.size().min(ROUTED)).map(move |p| (g, p)));
        for ((group, position), &(by, lane)) in positions.flat_map(|at| to.iter().map(move |to| (at, to))) {
            let here = position / weight % size;
            let there = position - here * weight + (here + by) % size * weight;
            let ends = [position, there].map(|at| self.npu(role.rank(group, at)));
            path.clear();
            self.fabric.route(ends[0], ends[1], lane, &mut path);
            let time = path.iter().map(|&link| self.fabric.speed(link).1);
            let latency = time.fold(Time::ZERO, Time::saturating_add);
            longest = longest.max(latency);
            sum += u128::from(latency.0);
            messages += 1;
            path.iter().for_each(|&link| *flows.entry(link).or_default() += 1);
        }
        let share = |(&link, &flows): (&LinkId, &u64)| {
            let rate = u128::from(self.fabric.speed(link).0.0) * to.len() as u128 / u128::from(flows);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let rate = Rate(flows.iter().map(share).min().unwrap_or(u64::MAX));
        let mean = Time(u64::try_from(sum / messages.max(1)).unwrap_or(u64::MAX));
        Sends { rate, longest, mean }
    }

    /// The paths of trees along an axis; with `turns`, every other chunk of a chain goes backwards. `None` if there are
    /// too many ranks to route all messages, and on dimensions, where the rate of a ring of ranks is only known for
    /// both directions together and would not compare.
    fn paths(&self, role: &Role, index: usize, turns: bool) -> Option<Paths> {
        let weight: u32 = role.axes[..index].iter().map(|axis| axis.size).product();
        let size = role.axes[index].size;
        let lines = role.size() / size.max(1);
        if size < 2 || role.size() > ROUTED || !self.fabric.is_graph() {
            return None;
        }
        let groups = role.groups().min(ROUTED / role.size()).max(1);
        let mut links = Vec::new();
        // A line of ranks along the axis is a group of its own.
        let groups = Groups { count: groups * lines, rooted: weight, turns };
        Some(Paths::new(size, groups, &mut |lane, line, ends, path| {
            let (group, line) = (line / lines, line % lines);
            let first = line % weight + line / weight * weight * size;
            let ends = ends.map(|rank| self.npu(role.rank(group, first + rank * weight)));
            links.clear();
            self.fabric.route(ends[0], ends[1], lane, &mut links);
            let speeds = links.iter().map(|&link| (link, self.fabric.speed(link)));
            speeds.fold(Time::ZERO, |latency, (link, (rate, time))| {
                path.push((link.0, rate));
                latency.saturating_add(time)
            })
        }))
    }

    /// Bytes that one port of a switch with `ports` ports can hold; `None` if the network drops no packets.
    fn buffer(&self, dim: &str, ports: u32) -> Option<Bytes> {
        let NetworkSettings::Packet(settings) = self.network else { return None };
        let set: &Parameters = settings.dims.get(dim).unwrap_or(&settings.all);
        let shared = set.buffer.filter(|_| !set.pfc())?;
        Some(match set.sharing {
            Sharing::Even => Bytes(shared.0 / u64::from(ports.max(1))),
            // A single full port has this part of the buffer (Choudhury and Hahne, 1998).
            Sharing::Dynamic => Bytes((shared.0 as f64 * set.alpha / (1.0 + set.alpha)) as u64),
        })
    }

    /// Largest number of ports of any switch.
    fn ports(&self) -> u32 {
        self.fabric.degrees().iter().skip(1).map(|level| level.most).max().unwrap_or(1)
    }
}
