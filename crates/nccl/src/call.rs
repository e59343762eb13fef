//! What is asked of the model, and the names of its answers.

/// An operation of NCCL. The bytes of a [`Call`] mean:
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `ncclAllReduce`: the vector that every GPU passes.
    AllReduce,
    /// `ncclAllGather`: the gathered vector, which is the sum of what all GPUs pass.
    AllGather,
    /// `ncclReduceScatter`: the vector that every GPU passes, of which it receives its part.
    ReduceScatter,
    /// Grouped `ncclSend` and `ncclRecv` between all GPUs: what one GPU sends to all, its own block included.
    AllToAll,
    /// `ncclBroadcast`: the vector.
    Broadcast,
    /// One `ncclSend` and its `ncclRecv`: the message.
    SendRecv,
}

impl Operation {
    /// All operations.
    pub const ALL: [Self; 6] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Broadcast,
        Self::SendRecv,
    ];

    /// The name in files, such as `all_reduce`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::SendRecv => "send_recv",
        }
    }

    /// The operation of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|each| each.name() == name)
    }

    /// Whether GPUs combine elements.
    #[must_use]
    pub const fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter)
    }

    /// Hops of the ring among `gpus`, one after the other: `nsteps` of NCCL's tuning model.
    #[must_use]
    pub fn hops(self, gpus: f64) -> f64 {
        match self {
            Self::AllReduce => 2.0 * (gpus - 1.0),
            Self::SendRecv => 1.0,
            _ => gpus - 1.0,
        }
    }

    /// Bytes on each link of the ring among `gpus`, for each byte of the call: the factor of nccl-tests' bus bandwidth.
    #[must_use]
    pub fn bus_factor(self, gpus: f64) -> f64 {
        match self {
            Self::AllReduce => 2.0 * (gpus - 1.0) / gpus,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (gpus - 1.0) / gpus,
            Self::Broadcast | Self::SendRecv => 1.0,
        }
    }
}

/// The GPUs that take part in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// GPUs in each node; at least 1.
    pub gpus_per_node: u32,
    /// Nodes; at least 1. GPUs that share one NVLink domain are one node, even where they are in several hosts.
    pub nodes: u32,
    /// Groups of this shape that communicate on the same nodes at the same time, this one included; at least 1. They share
    /// the network interfaces. For example, 8 with tensor parallelism of 8 and a data-parallel group for each rank.
    pub concurrent: u32,
}

impl Group {
    /// GPUs of one node.
    #[must_use]
    pub const fn of_one_node(gpus: u32) -> Self {
        Self { gpus_per_node: gpus, nodes: 1, concurrent: 1 }
    }

    /// GPUs in all nodes.
    #[must_use]
    pub fn gpus(self) -> f64 {
        f64::from(self.gpus_per_node) * f64::from(self.nodes)
    }
}

/// One collective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// What is done.
    pub operation: Operation,
    /// Size, as [`Operation`] says.
    pub bytes: u64,
    /// Size of an element. GPUs sum elements of 1 byte more slowly, and NVLink SHARP does not sum them.
    pub element_bytes: u8,
    /// Who takes part.
    pub group: Group,
}

/// The algorithm that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// A ring through all GPUs.
    Ring,
    /// Two binary trees of nodes; within a node, GPUs form a chain.
    Tree,
    /// Switches of one NVLink domain reduce and multicast; between nodes, switches with SHARP do.
    Nvls,
    /// As [`Algorithm::Nvls`] in each node, with trees between nodes.
    NvlsTree,
    /// Trees in which the distance of a step halves, for one GPU in each node ("parallel aggregated trees").
    Pat,
    /// `CollNetDirect`: switches between nodes reduce and multicast (SHARP). Each GPU reduces its part of the vector in its
    /// node, sends it to the switch, and shares the result.
    CollNetDirect,
    /// `CollNetChain`: as [`Algorithm::CollNetDirect`], but the GPUs of a node form a chain to each network interface.
    CollNetChain,
    /// Grouped sends and receives between pairs.
    Sends,
    /// Not of NCCL: each GPU reads the vectors of all others, and sums them.
    OneShot,
    /// Not of NCCL: each GPU reads and sums one part of the vector, then reads the sums of all others.
    TwoShots,
    /// Not of NCCL: `DeepEP` sends tokens to the GPUs of their experts.
    Dispatch,
    /// Not of NCCL: `DeepEP` sends the outputs of experts back, and sums them for each token.
    Combine,
    /// One GPU alone: a copy, or nothing.
    Local,
}

impl Algorithm {
    /// The name in tables, such as `ring`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Nvls => "nvls",
            Self::NvlsTree => "nvls_tree",
            Self::Pat => "pat",
            Self::CollNetDirect => "collnet_direct",
            Self::CollNetChain => "collnet_chain",
            Self::Sends => "sends",
            Self::OneShot => "one_shot",
            Self::TwoShots => "two_shots",
            Self::Dispatch => "deepep_dispatch",
            Self::Combine => "deepep_combine",
            Self::Local => "local",
        }
    }
}

/// The protocol that was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// 4 bytes of flag follow each 4 bytes of data. Receivers need no fence.
    LowLatency,
    /// 8 bytes of flag follow each 120 bytes of data.
    LowLatency128,
    /// Data alone, with a fence after each piece.
    Simple,
    /// Kernels of another library, which have no protocol of NCCL.
    Other,
}

impl Protocol {
    /// The name in NCCL, such as `LL128`; empty for kernels of another library.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LowLatency => "LL",
            Self::LowLatency128 => "LL128",
            Self::Simple => "Simple",
            Self::Other => "",
        }
    }

    /// Bytes of data among the bytes on the wire.
    #[must_use]
    pub const fn efficiency(self) -> f64 {
        match self {
            Self::LowLatency => 0.5,
            Self::LowLatency128 => 120.0 / 128.0,
            Self::Simple | Self::Other => 1.0,
        }
    }
}
