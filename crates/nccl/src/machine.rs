//! The constants of a machine.

use crate::call::{Group, Operation, Protocol};
use serde::{Deserialize, Serialize};

/// A machine: nodes of GPUs, and what joins them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Constants of all-reduces in a node.
    #[serde(default)]
    pub all_reduce: Option<InNode>,
    /// Constants of all-gathers in a node.
    #[serde(default)]
    pub all_gather: Option<InNode>,
    /// Constants of reduce-scatters in a node.
    #[serde(default)]
    pub reduce_scatter: Option<InNode>,
    /// Constants of all-to-alls in a node.
    #[serde(default)]
    pub all_to_all: Option<InNode>,
    /// Constants of broadcasts in a node; without them, those of all-gathers count.
    #[serde(default)]
    pub broadcast: Option<InNode>,
    /// Constants of single messages in a node; without them, those of all-to-alls count.
    #[serde(default)]
    pub send_recv: Option<InNode>,
    /// The network between nodes; without it, only groups of one node have an estimate.
    #[serde(default)]
    pub network: Option<Network>,
}

impl Machine {
    /// The constants of an operation in a node.
    #[must_use]
    pub fn in_node(&self, operation: Operation) -> Option<&InNode> {
        match operation {
            Operation::AllReduce => self.all_reduce.as_ref(),
            Operation::AllGather => self.all_gather.as_ref(),
            Operation::ReduceScatter => self.reduce_scatter.as_ref(),
            Operation::AllToAll => self.all_to_all.as_ref(),
            Operation::Broadcast => self.broadcast.as_ref().or(self.all_gather.as_ref()),
            Operation::SendRecv => self.send_recv.as_ref().or(self.all_to_all.as_ref()),
        }
    }
}

/// Constants of one operation among the GPUs of a node, for any number of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InNode {
    /// Launch of a kernel with one of the low-latency protocols: whatever depends on neither bytes nor hops, seconds.
    pub launch_s: f64,
    /// The protocol LL.
    pub low_latency: LowLatency,
    /// The protocol LL128.
    pub low_latency_128: LowLatency128,
    /// The protocol Simple.
    pub simple: Simple,
    /// Where NCCL changes to the protocol Simple.
    pub simple_from: SimpleFrom,
    /// NVLink SHARP, where NCCL uses it.
    #[serde(default)]
    pub nvls: Option<Nvls>,
}

/// Constants of the protocol LL.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowLatency {
    /// Latency of a hop, seconds.
    pub hop_s: f64,
    /// Rate at which a GPU passes the bytes of a call through the few channels that small calls use, bytes per second.
    /// For all-to-all: at which it passes those of one peer.
    pub rate: f64,
}

/// Constants of the protocol LL128.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LowLatency128 {
    /// Latency of a hop that no transfer hides, seconds.
    pub hop_s: f64,
    /// Shortest time between two hops of a piece of data, seconds: it counts where the transfer would be faster.
    #[serde(default)]
    pub pace_s: f64,
    /// Rate at which a GPU passes the bytes of a call through all channels, bytes per second.
    pub rate: f64,
    /// Bytes from which a call uses all channels. Each channel has a smallest share, so smaller calls use fewer channels,
    /// and their transfer takes as long as that of this one.
    pub all_channels_from: f64,
    /// Additional time of a byte where elements of 1 byte are summed, seconds.
    #[serde(default)]
    pub narrow_s: f64,
}

/// Constants of the protocol Simple.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simple {
    /// Launch, as [`InNode::launch_s`].
    pub launch_s: f64,
    /// Cost of sending a piece of data over a hop, seconds.
    pub hop_s: f64,
    /// Shortest time between two hops of a piece of data, seconds: it counts where the link would be faster.
    pub pace_s: f64,
    /// Rate at which a GPU copies or sums the bytes of a call, bytes per second.
    pub local_rate: f64,
    /// Rate of the links, in bytes on the bus per second.
    pub bus_rate: f64,
    /// Additional time of a byte where elements of 1 byte are summed, seconds.
    #[serde(default)]
    pub narrow_s: f64,
}

/// The size at which NCCL changes from LL128 to Simple.
///
/// Its tuning model compares `latency + bytes / rate` of both. Their launches differ by `l`, their hops by `h`, and the
/// inverses of their rates on the bus by `r`. With `hops / bus_factor = gpus`, they are equal at
/// `gpus * (h + l / hops) / r` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimpleFrom {
    /// `h / r`: bytes per GPU.
    pub bytes_per_gpu: f64,
    /// `l / h`: hops that take as long as the difference of the launches.
    pub launch_hops: f64,
}

impl SimpleFrom {
    /// The size from which `gpus` use Simple, bytes.
    #[must_use]
    pub fn bytes(self, gpus: f64, hops: f64) -> f64 {
        gpus * self.bytes_per_gpu * (1.0 + self.launch_hops / hops)
    }
}

/// Constants of all-reduces by NVLink SHARP.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nvls {
    /// Whatever does not depend on bytes, seconds.
    pub latency_s: f64,
    /// Rate of the links of a GPU, on which `1 + 1 / gpus` times the bytes of the call travel in each direction.
    pub rate: f64,
    /// Bytes from which NCCL uses it.
    pub from: f64,
    /// Smallest number of GPUs that use it.
    pub gpus: u32,
}

/// The network between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// GPUs of a node, whether they take part or not.
    pub gpus: u32,
    /// Network interfaces of a node. If it has fewer than GPUs, GPUs share them.
    pub nics: u32,
    /// Rate of one interface, bytes per second.
    pub nic_rate: f64,
    /// Part of that rate that large transfers of NCCL reach.
    pub efficiency: f64,
    /// Latency of a hop between nodes, by protocol: LL, LL128 (nothing if it is not used) and Simple, seconds.
    pub hop_s: [Option<f64>; 3],
    /// SHARP, if switches between nodes have it and NCCL may use it (`NCCL_COLLNET_ENABLE=1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharp: Option<Sharp>,
}

/// Switches between nodes that reduce and multicast.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharp {
    /// Part of its rate that `CollNetDirect` reaches on these GPUs: 0.85 from Hopper on, else 1, in NCCL's tuning model.
    pub direct_efficiency: f64,
}

impl Network {
    /// Latency of a hop with a protocol, seconds; nothing if networks of this kind do not use the protocol.
    #[must_use]
    pub const fn hop(&self, protocol: Protocol) -> Option<f64> {
        match protocol {
            Protocol::LowLatency => self.hop_s[0],
            Protocol::LowLatency128 => self.hop_s[1],
            Protocol::Simple => self.hop_s[2],
            Protocol::Other => None,
        }
    }

    /// Bytes per second that a group gets out of each of its nodes: those of the interfaces of its GPUs, and no more than
    /// its share of all.
    #[must_use]
    pub fn rate(&self, group: Group) -> f64 {
        let (nics, gpus) = (f64::from(self.nics), f64::from(self.gpus));
        let own = (f64::from(group.gpus_per_node) * nics / gpus).ceil().min(nics);
        let share = nics / f64::from(group.concurrent.max(1));
        own.min(share) * self.nic_rate * self.efficiency
    }
}
