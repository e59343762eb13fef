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
//! Between nodes, hops have latencies of their own, and a node's interfaces have a rate: see `between_nodes`.
//!
//! The transfer takes the longer of both parts, within a node and between nodes. The fastest candidate is chosen.

use crate::between_nodes::between_nodes;
use crate::call::{Algorithm, Call, Operation, Protocol};
use crate::machine::{InNode, Machine};

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
    pub(crate) fn with_far_transfer(self, far_transfer_s: f64) -> Self {
        let parts = Parts { far_transfer_s, ..self.parts };
        Self { transfer_s: parts.near_transfer_s.max(far_transfer_s), parts, ..self }
    }

    /// The faster of two.
    pub(crate) fn or(self, other: Self) -> Self {
        if other.seconds() < self.seconds() { other } else { self }
    }
}

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

/// By LL.
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

/// The transfer by LL, seconds.
pub(crate) fn low_latency_transfer(constants: &InNode, call: &Call) -> f64 {
    let size = call.bytes as f64;
    let share = if call.operation == Operation::AllToAll { size / call.group.gpus() } else { size };
    share / constants.low_latency.rate
}

/// By LL128.
pub(crate) fn low_latency_128(constants: &InNode, call: &Call) -> Estimate {
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

/// By Simple.
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
pub(crate) fn local(constants: &InNode, call: &Call) -> f64 {
    let extra = if narrow(call) { constants.simple.narrow_s } else { 0.0 };
    call.bytes as f64 * (1.0 / constants.simple.local_rate + extra)
}
