//! The model: candidates, their times, and the choice among them.
//!
//! Within a node, `g` GPUs need `n` hops, and each link carries `w` bytes for each byte `S` of the call:
//!
//! | protocol | time |
//! |---|---|
//! | LL | `launch + n hop + S / rate` |
//! | LL128 | `launch + n hop + max(n pace + S0 / rate, S / rate)` |
//! | Simple | `launch + n hop + 2 sqrt(n hop S w / bus) + max(n pace, S w / bus) + S / local` |
//! | NVLS | `latency + S (1 + 1/g) / rate` |
//!
//! These are the latencies and rates of NCCL's tuning model, with three changes that measurements ask for. A GPU passes
//! the bytes of the whole call through its memory at a *local* rate, and not only those that links carry. Calls below `S0`
//! use fewer channels, so their transfer takes as long as that of `S0`. Simple sends data in pieces, of which each costs a
//! hop: the best size of pieces gives `(sqrt(n hop) + sqrt(S w / bus))^2`. Hops have a shortest time, which transfers hide.
//!
//! NCCL takes LL or LL128, whichever is faster, up to [`SimpleFrom`](crate::machine::SimpleFrom), and Simple from there,
//! also where LL128 would be faster for longer: on Blackwell GPUs, calls of the first size with Simple take twice as long.
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
//!
//! The transfer takes the longer of both parts, within a node and between nodes. The fastest candidate is chosen.

use crate::call::{Algorithm, Call, Group, Operation, Protocol};
use crate::machine::{InNode, Machine, Network, Nvls, Sharp};

/// The time of a collective, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The algorithm that is chosen.
    pub algorithm: Algorithm,
    /// The protocol that is chosen.
    pub protocol: Protocol,
    /// What depends on neither bytes nor hops, seconds.
    pub launch_s: f64,
    /// What grows with hops, seconds.
    pub latency_s: f64,
    /// What grows with bytes, seconds.
    pub transfer_s: f64,
    /// Latency and transfer by where they take place.
    pub parts: Parts,
    /// Whether all channels are used. Calls with few bytes use fewer, because each channel has a smallest share.
    pub all_channels: bool,
}

/// Latency and transfer of a collective by where they take place. Transfers within a node and between nodes overlap, so
/// [`Estimate::transfer_s`] is the longer of both.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Parts {
    /// Latency of hops between nodes, seconds; the rest of [`Estimate::latency_s`] is within a node.
    pub far_latency_s: f64,
    /// Transfer within a node, seconds.
    pub near_transfer_s: f64,
    /// Transfer between nodes, seconds.
    pub far_transfer_s: f64,
    /// Bytes that each node sends to others, without those that the protocol adds.
    pub far_bytes: f64,
}

impl Parts {
    /// Everything takes place within a node.
    pub(crate) const fn in_node(near_transfer_s: f64) -> Self {
        Self { far_latency_s: 0.0, near_transfer_s, far_transfer_s: 0.0, far_bytes: 0.0 }
    }
}

impl Estimate {
    /// The time, seconds.
    #[must_use]
    pub const fn seconds(&self) -> f64 {
        self.launch_s + self.latency_s + self.transfer_s
    }

    /// With another time of the transfer between nodes.
    fn with_far_transfer(self, far_transfer_s: f64) -> Self {
        let parts = Parts { far_transfer_s, ..self.parts };
        Self { transfer_s: parts.near_transfer_s.max(far_transfer_s), parts, ..self }
    }

    /// The faster of two.
    fn or(self, other: Self) -> Self {
        if other.seconds() < self.seconds() { other } else { self }
    }
}

/// Part of the rate that trees reach, as NCCL's tuning model takes it.
const TREE_EFFICIENCY: f64 = 0.92;
/// Part of the rate that PAT reaches, as NCCL's tuning model takes it.
const PAT_EFFICIENCY: f64 = 0.75;
/// Its levels that take as long as one hop between nodes, and its time for each GPU, seconds.
const PAT_LEVELS: f64 = 3.5;
const PAT_EACH_S: f64 = 2.8e-6;
/// Part of the rate of interfaces that all-reduces by SHARP reach, as NCCL's tuning model takes it.
const SHARP_EFFICIENCY: f64 = 0.5;
/// Largest number of GPUs of a node with which NCCL uses `CollNet`.
const MOST_OF_COLLNET: u32 = 8;
/// Latencies of `CollNet` in NCCL's tuning model, seconds: of a step over NVLink and of the network, with several GPUs in
/// each node; and of each further GPU that exchanges parts with all others.
const DIRECT_NEAR_S: f64 = 3.7e-6;
const DIRECT_FAR_S: f64 = 31e-6;
const DIRECT_EACH_S: f64 = 0.4e-6;
const CHAIN_NEAR_S: f64 = 2.8e-6;
const CHAIN_FAR_S: f64 = 30e-6;
const NVLS_FAR_S: f64 = 18e-6;
/// That of the network with one GPU in each node.
const ALONE_FAR_S: f64 = 14e-6;
const PROTOCOLS: [Protocol; 3] = [Protocol::LowLatency, Protocol::LowLatency128, Protocol::Simple];

/// Estimates the time of a collective. Returns nothing if the machine has no constants for the operation, or no network and
/// the group has several nodes.
#[must_use]
pub fn estimate(machine: &Machine, call: &Call) -> Option<Estimate> {
    let constants = machine.in_node(call.operation)?;
    if call.group.gpus() <= 1.0 {
        return Some(alone(constants, call));
    }
    if call.group.nodes <= 1 {
        return Some(in_node(constants, call));
    }
    Some(between_nodes(constants, machine.network.as_ref()?, call))
}

/// One GPU copies its data, or does nothing.
fn alone(constants: &InNode, call: &Call) -> Estimate {
    let transfer_s = call.bytes as f64 / constants.simple.local_rate;
    Estimate {
        algorithm: Algorithm::Local,
        protocol: Protocol::Simple,
        launch_s: constants.launch_s,
        latency_s: 0.0,
        transfer_s,
        parts: Parts::in_node(transfer_s),
        all_channels: true,
    }
}

/// The time in one node, with what NCCL chooses there.
pub(crate) fn in_node(constants: &InNode, call: &Call) -> Estimate {
    let Call { operation, bytes, element_bytes, group } = *call;
    let (gpus, size) = (group.gpus(), bytes as f64);
    let hops = operation.hops(gpus);
    if let Some(nvls) = &constants.nvls
        && operation == Operation::AllReduce
        && element_bytes > 1
        && size > nvls.from
        && gpus >= f64::from(nvls.gpus)
    {
        let transfer_s = size * (1.0 + 1.0 / gpus) / nvls.rate;
        return Estimate {
            algorithm: Algorithm::Nvls,
            protocol: Protocol::Simple,
            launch_s: 0.0,
            latency_s: nvls.latency_s,
            transfer_s,
            parts: Parts::in_node(transfer_s),
            all_channels: true,
        };
    }
    if size > constants.simple_from.bytes(gpus, hops) {
        simple(constants, call)
    } else {
        low_latency(constants, call).or(low_latency_128(constants, call))
    }
}

fn algorithm(operation: Operation) -> Algorithm {
    match operation {
        Operation::AllToAll | Operation::SendRecv => Algorithm::Sends,
        _ => Algorithm::Ring,
    }
}

/// Whether GPUs sum elements of 1 byte.
const fn narrow(call: &Call) -> bool {
    call.operation.reduces() && call.element_bytes == 1
}

fn low_latency(constants: &InNode, call: &Call) -> Estimate {
    let gpus = call.group.gpus();
    let transfer_s = low_latency_transfer(constants, call);
    Estimate {
        algorithm: algorithm(call.operation),
        protocol: Protocol::LowLatency,
        launch_s: constants.launch_s,
        latency_s: call.operation.hops(gpus) * constants.low_latency.hop_s,
        transfer_s,
        parts: Parts::in_node(transfer_s),
        all_channels: false,
    }
}

fn low_latency_transfer(constants: &InNode, call: &Call) -> f64 {
    let size = call.bytes as f64;
    let share = if call.operation == Operation::AllToAll { size / call.group.gpus() } else { size };
    share / constants.low_latency.rate
}

fn low_latency_128(constants: &InNode, call: &Call) -> Estimate {
    let protocol = &constants.low_latency_128;
    let hops = call.operation.hops(call.group.gpus());
    let byte_s = 1.0 / protocol.rate + if narrow(call) { protocol.narrow_s } else { 0.0 };
    let (least, transfer) = (protocol.all_channels_from * byte_s, call.bytes as f64 * byte_s);
    let paced = least + hops * protocol.pace_s > transfer;
    let transfer_s = if paced { least } else { transfer };
    Estimate {
        algorithm: algorithm(call.operation),
        protocol: Protocol::LowLatency128,
        launch_s: constants.launch_s,
        latency_s: hops * protocol.hop_s + if paced { hops * protocol.pace_s } else { 0.0 },
        transfer_s,
        parts: Parts::in_node(transfer_s),
        all_channels: call.bytes as f64 >= protocol.all_channels_from,
    }
}

fn simple(constants: &InNode, call: &Call) -> Estimate {
    let protocol = &constants.simple;
    let (size, gpus) = (call.bytes as f64, call.group.gpus());
    let hops = call.operation.hops(gpus);
    let (pace, link) = (hops * protocol.pace_s, size * call.operation.bus_factor(gpus) / protocol.bus_rate);
    let pieces = 2.0 * (hops * protocol.hop_s * link).sqrt();
    let transfer_s = local(constants, call) + if pace > link { 0.0 } else { link };
    Estimate {
        algorithm: algorithm(call.operation),
        protocol: Protocol::Simple,
        launch_s: protocol.launch_s,
        latency_s: hops * protocol.hop_s + pieces + if pace > link { pace } else { 0.0 },
        transfer_s,
        parts: Parts::in_node(transfer_s),
        all_channels: true,
    }
}

/// The time that a GPU needs for the bytes of a call apart from those on links.
fn local(constants: &InNode, call: &Call) -> f64 {
    let extra = if narrow(call) { constants.simple.narrow_s } else { 0.0 };
    call.bytes as f64 * (1.0 / constants.simple.local_rate + extra)
}

/// The time over a network: the fastest of all algorithms and protocols that the network offers.
fn between_nodes(constants: &InNode, network: &Network, call: &Call) -> Estimate {
    let mut best: Option<Estimate> = None;
    let mut consider = |candidate: Estimate| best = Some(best.map_or(candidate, |best| best.or(candidate)));
    for protocol in PROTOCOLS {
        let Some(hop) = network.hop(protocol) else { continue };
        let over = Over::new(constants, network, call, protocol, hop);
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
struct Over<'a> {
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

impl<'a> Over<'a> {
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

    fn made(
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
        self.made(
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
        self.made(Algorithm::Tree, self.launch_s, latency, self.near_transfer_s, self.tree_bytes())
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
        Some(self.made(Algorithm::NvlsTree, 0.0, latency, near, self.tree_bytes()))
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
            let found = self.made(
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
            self.made(Algorithm::CollNetChain, 0.0, latency, self.near_transfer_s, bytes)
        })
    }

    /// NVLS within nodes, with SHARP between them.
    fn nvls_sharp(&self) -> Option<Estimate> {
        let (nvls, near) = self.nvls_near()?;
        let latency = (nvls.latency_s, self.sharp_far_s(NVLS_FAR_S));
        Some(self.made(Algorithm::Nvls, 0.0, latency, near, self.call.bytes as f64))
    }

    fn pat(&self) -> Estimate {
        let bytes = self.call.bytes as f64 * (self.nodes() - 1.0) / self.nodes();
        let levels = f64::from(self.call.group.nodes.ilog2());
        let latency = (0.0, levels * self.far_s / PAT_LEVELS + self.call.group.gpus() * PAT_EACH_S);
        self.made(Algorithm::Pat, self.launch_s, latency, self.near_transfer_s, bytes)
    }

    fn sends(&self) -> Estimate {
        let (group, size) = (self.call.group, self.call.bytes as f64);
        let bytes = match self.call.operation {
            Operation::SendRecv => size,
            _ => size * f64::from(group.gpus_per_node) * (self.nodes() - 1.0) / self.nodes(),
        };
        let latency = ((self.call.operation.hops(group.gpus()) - 1.0) * self.near_s, self.far_s);
        self.made(Algorithm::Sends, self.launch_s, latency, self.near_transfer_s, bytes)
    }
}
