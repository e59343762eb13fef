//! The times of collectives over a network.
//!
//! Between `N` nodes, hops between nodes have latencies of their own, and the interfaces of a node carry `v` bytes for each
//! byte of the call:
//!
//! | algorithm | hops between nodes | `v` |
//! |---|---|---|
//! | ring | all-reduce `2 (N - 1)`, others `N - 1` | `w` of all GPUs |
//! | tree, NVLS tree | `2 ceil(log2 N)` | 1 between two nodes, else 2: a node sends to its parent and to two children in one of the two trees, and is a leaf of the other; at 0.92 of the rate, as NCCL's tuning model has it |
//! | PAT | `floor(log2 N) / 3.5`, and 2.8 us for each GPU | `(N - 1) / N`, in the time of 1 at 0.75 of the rate, as NCCL's tuning model has it; with Simple alone |
//! | CollNet, NVLS with SHARP | one latency for any `N` | 1, at half of the rate, as NCCL's tuning model has it |
//! | sends | 1 | `g (N - 1) / N` |

use crate::call::{Algorithm, Call, Group, Operation, Protocol};
use crate::estimate::{Estimate, Parts, in_node, local, low_latency_128, low_latency_transfer};
use crate::machine::{InNode, Network, Nvls, Sharp};

// The constants below are NCCL's own, from its tuning model.

/// Part of the rate of interfaces that trees reach.
const TREE_EFFICIENCY: f64 = 0.92;
/// Part of the rate of interfaces that PAT reaches.
const PAT_EFFICIENCY: f64 = 0.75;
/// Levels of PAT that take as long as one hop between nodes.
const PAT_LEVELS: f64 = 3.5;
/// Time of PAT for each GPU, seconds.
const PAT_EACH_S: f64 = 2.8e-6;
/// Part of the rate of interfaces that all-reduces by SHARP reach.
const SHARP_EFFICIENCY: f64 = 0.5;
/// Largest number of GPUs of a node with which NCCL uses `CollNet`.
const MOST_OF_COLLNET: u32 = 8;
/// Latency of a step of `CollNetDirect` over NVLink, seconds.
const DIRECT_NEAR_S: f64 = 3.7e-6;
/// Latency of `CollNetDirect` for each further GPU, which exchanges parts with all others, seconds.
const DIRECT_EACH_S: f64 = 0.4e-6;
/// Latency of the network in `CollNetDirect`, with several GPUs in each node, seconds.
const DIRECT_FAR_S: f64 = 31e-6;
/// Latency of a step of `CollNetChain` over NVLink, seconds.
const CHAIN_NEAR_S: f64 = 2.8e-6;
/// Latency of the network in `CollNetChain`, with several GPUs in each node, seconds.
const CHAIN_FAR_S: f64 = 30e-6;
/// Latency of the network in NVLS with SHARP, with several GPUs in each node, seconds.
const NVLS_FAR_S: f64 = 18e-6;
/// Latency of the network in all three, with one GPU in each node, seconds.
const ALONE_FAR_S: f64 = 14e-6;

const PROTOCOLS: [Protocol; 3] = [Protocol::LowLatency, Protocol::LowLatency128, Protocol::Simple];

/// The time over a network: the fastest of all algorithms and protocols that the network offers.
pub(crate) fn between_nodes(constants: &InNode, network: &Network, call: &Call) -> Estimate {
    let mut best: Option<Estimate> = None;
    let mut consider = |candidate: Estimate| best = Some(best.map_or(candidate, |best| best.or(candidate)));
    for protocol in PROTOCOLS {
        let Some(hop) = network.hop(protocol) else { continue };
        let over = OverNetwork::new(constants, network, call, protocol, hop);
        match call.operation {
            Operation::AllToAll | Operation::SendRecv => consider(over.sends()),
            Operation::AllReduce => {
                consider(over.ring());
                consider(over.tree());
                if protocol == Protocol::Simple
                    && call.element_bytes > 1
                    && let Some(tree) = over.nvls_tree()
                {
                    consider(tree);
                }
                if protocol == Protocol::Simple
                    && call.element_bytes > 1
                    && let Some(sharp) = network.sharp
                {
                    let by_sharp =
                        [over.collnet_direct(network, sharp), over.collnet_chain(), over.nvls_sharp()];
                    by_sharp.into_iter().flatten().for_each(&mut consider);
                }
            }
            Operation::AllGather | Operation::ReduceScatter if call.group.gpus_per_node == 1 => {
                consider(over.ring());
                if protocol == Protocol::Simple {
                    consider(over.pat());
                }
            }
            _ => consider(over.ring()),
        }
    }
    best.unwrap_or_else(|| in_node(constants, call))
}

/// A protocol over a network.
struct OverNetwork<'a> {
    constants: &'a InNode,
    call: &'a Call,
    protocol: Protocol,
    /// Latency of a hop between nodes.
    far_s: f64,
    /// Latency of a hop within a node.
    near_s: f64,
    launch_s: f64,
    /// Transfer within a node.
    near_transfer_s: f64,
    /// Seconds for each byte that leaves a node.
    far_byte_s: f64,
}

impl<'a> OverNetwork<'a> {
    fn new(constants: &'a InNode, network: &Network, call: &'a Call, protocol: Protocol, far_s: f64) -> Self {
        let (launch_s, near_s, near_transfer_s) = match protocol {
            Protocol::LowLatency => {
                (constants.launch_s, constants.low_latency.hop_s, low_latency_transfer(constants, call))
            }
            Protocol::LowLatency128 => (
                constants.launch_s,
                constants.low_latency_128.hop_s,
                low_latency_128(constants, call).transfer_s,
            ),
            Protocol::Simple | Protocol::Other => {
                let factor = call.operation.bus_factor(f64::from(call.group.gpus_per_node));
                let link = call.bytes as f64 * factor / constants.simple.bus_rate;
                (constants.simple.launch_s, constants.simple.hop_s, local(constants, call) + link)
            }
        };
        // A message leaves through the interface of its own GPU, however many GPUs a node has.
        let gpus_per_node = if call.operation == Operation::SendRecv { 1 } else { call.group.gpus_per_node };
        let rate = network.rate(Group { gpus_per_node, ..call.group });
        let far_byte_s = 1.0 / (rate * protocol.efficiency());
        Self { constants, call, protocol, far_s, near_s, launch_s, near_transfer_s, far_byte_s }
    }

    fn nodes(&self) -> f64 {
        f64::from(self.call.group.nodes)
    }

    /// Levels of a binary tree of nodes.
    fn levels(&self) -> f64 {
        f64::from(self.call.group.nodes.next_power_of_two().trailing_zeros())
    }

    /// The estimate of an algorithm: latency within a node and between nodes, transfer within a node, in seconds, and the bytes
    /// that leave a node.
    fn estimate(
        &self,
        algorithm: Algorithm,
        launch_s: f64,
        (near_latency_s, far_latency_s): (f64, f64),
        near_transfer_s: f64,
        far_bytes: f64,
    ) -> Estimate {
        let efficiency = match algorithm {
            Algorithm::Tree | Algorithm::NvlsTree => TREE_EFFICIENCY,
            Algorithm::CollNetChain => SHARP_EFFICIENCY,
            // The time is that of the whole vector.
            Algorithm::Pat => PAT_EFFICIENCY * (self.nodes() - 1.0) / self.nodes(),
            Algorithm::Nvls => {
                let gpus = self.call.group.gpus();
                SHARP_EFFICIENCY * gpus / (gpus - 1.0)
            }
            _ => 1.0,
        };
        let far_transfer_s = far_bytes * self.far_byte_s / efficiency;
        Estimate {
            algorithm,
            protocol: self.protocol,
            launch_s,
            latency_s: near_latency_s + far_latency_s,
            transfer_s: near_transfer_s.max(far_transfer_s),
            parts: Parts { far_latency_s, near_transfer_s, far_transfer_s, far_bytes },
            all_channels: match self.protocol {
                Protocol::LowLatency => false,
                Protocol::LowLatency128 => {
                    self.call.bytes as f64 >= self.constants.low_latency_128.all_channels_from
                }
                Protocol::Simple | Protocol::Other => true,
            },
        }
    }

    fn ring(&self) -> Estimate {
        let gpus = self.call.group.gpus();
        let passes = if self.call.operation == Operation::AllReduce { 2.0 } else { 1.0 };
        let far = passes * (self.nodes() - 1.0);
        let near = self.call.operation.hops(gpus) - far;
        let bytes = self.call.bytes as f64 * self.call.operation.bus_factor(gpus);
        self.estimate(
            Algorithm::Ring,
            self.launch_s,
            (near * self.near_s, far * self.far_s),
            self.near_transfer_s,
            bytes,
        )
    }

    /// Bytes that leave the busiest node of two binary trees.
    fn tree_bytes(&self) -> f64 {
        self.call.bytes as f64 * if self.call.group.nodes == 2 { 1.0 } else { 2.0 }
    }

    fn tree(&self) -> Estimate {
        let chain = f64::from(self.call.group.gpus_per_node) - 1.0;
        let latency = (2.0 * chain * self.near_s, 2.0 * self.levels() * self.far_s);
        self.estimate(Algorithm::Tree, self.launch_s, latency, self.near_transfer_s, self.tree_bytes())
    }

    /// The constants of NVLS, if the GPUs of a node use it, and its transfer in a node, seconds.
    fn nvls_near(&self) -> Option<(&Nvls, f64)> {
        let nvls = self.constants.nvls.as_ref().filter(|nvls| self.call.group.gpus_per_node >= nvls.gpus)?;
        let gpus = f64::from(self.call.group.gpus_per_node);
        Some((nvls, self.call.bytes as f64 * (1.0 + 1.0 / gpus) / nvls.rate))
    }

    fn nvls_tree(&self) -> Option<Estimate> {
        let (nvls, near) = self.nvls_near()?;
        let latency = (nvls.latency_s, 2.0 * self.levels() * self.far_s);
        Some(self.estimate(Algorithm::NvlsTree, 0.0, latency, near, self.tree_bytes()))
    }

    /// Latency of SHARP between nodes, which is another where a node has one GPU alone.
    fn sharp_far_s(&self, several_s: f64) -> f64 {
        if self.call.group.gpus_per_node == 1 { ALONE_FAR_S } else { several_s }
    }

    fn has_collnet(&self) -> bool {
        self.call.group.gpus_per_node <= MOST_OF_COLLNET
    }

    fn collnet_direct(&self, network: &Network, sharp: Sharp) -> Option<Estimate> {
        self.has_collnet().then(|| {
            let gpus = f64::from(self.call.group.gpus_per_node);
            let near = 2.0 * (DIRECT_NEAR_S * (gpus - 1.0).min(1.0) + DIRECT_EACH_S * (gpus - 1.0));
            // GPUs that have no interface of their own slow it down, by half of what sharing would.
            let interfaces = (gpus * f64::from(network.nics) / f64::from(network.gpus)).ceil();
            let share = gpus / interfaces.clamp(1.0, f64::from(network.nics));
            let slower = share - (share - 1.0) / 2.0;
            let efficiency = SHARP_EFFICIENCY * sharp.direct_efficiency / slower;
            let far_s = self.sharp_far_s(DIRECT_FAR_S);
            let found = self.estimate(
                Algorithm::CollNetDirect,
                0.0,
                (near, far_s),
                self.near_transfer_s,
                self.call.bytes as f64,
            );
            found.with_far_transfer(found.parts.far_transfer_s / efficiency)
        })
    }

    fn collnet_chain(&self) -> Option<Estimate> {
        self.has_collnet().then(|| {
            let near = 2.0 * CHAIN_NEAR_S * (f64::from(self.call.group.gpus_per_node) - 1.0);
            let latency = (near, self.sharp_far_s(CHAIN_FAR_S));
            let bytes = self.call.bytes as f64;
            self.estimate(Algorithm::CollNetChain, 0.0, latency, self.near_transfer_s, bytes)
        })
    }

    /// NVLS within nodes, with SHARP between them.
    fn nvls_sharp(&self) -> Option<Estimate> {
        let (nvls, near) = self.nvls_near()?;
        let latency = (nvls.latency_s, self.sharp_far_s(NVLS_FAR_S));
        Some(self.estimate(Algorithm::Nvls, 0.0, latency, near, self.call.bytes as f64))
    }

    fn pat(&self) -> Estimate {
        let bytes = self.call.bytes as f64 * (self.nodes() - 1.0) / self.nodes();
        let levels = f64::from(self.call.group.nodes.ilog2());
        let latency = (0.0, levels * self.far_s / PAT_LEVELS + self.call.group.gpus() * PAT_EACH_S);
        self.estimate(Algorithm::Pat, self.launch_s, latency, self.near_transfer_s, bytes)
    }

    fn sends(&self) -> Estimate {
        let (group, size) = (self.call.group, self.call.bytes as f64);
        let bytes = match self.call.operation {
            Operation::SendRecv => size,
            _ => size * f64::from(group.gpus_per_node) * (self.nodes() - 1.0) / self.nodes(),
        };
        let latency = ((self.call.operation.hops(group.gpus()) - 1.0) * self.near_s, self.far_s);
        self.estimate(Algorithm::Sends, self.launch_s, latency, self.near_transfer_s, bytes)
    }
}
