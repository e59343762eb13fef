//! The resolved scenario, which determines a run completely.
//!
//! The Python package checks a user's YAML, expands names (a model into its layers, an accelerator into its rates,
//! shorthands into dimensions) and passes the result here. Every quantity is a string with a unit; unknown keys are
//! refused.

mod limit;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use syncline_engine::{QueueOrder, Schedulers};
pub use syncline_fabric::build::Spec as Built;
pub use syncline_fabric::cost::PriceList;
pub use syncline_fabric::{Direction, Spread};
use syncline_net_flow::FlowSettings;
use syncline_net_packet::PacketSettings;
use syncline_units::{
    Bytes, CollectiveKind, DataType, DimKind, FlopRate, Flops, Frequency, RankId, Rate, Time,
};
pub use syncline_workload::exchange::{Comm, GivenExchange, When};
pub use syncline_workload::layer::{Layer, Sharding, Work};
pub use syncline_workload::parallel::{Axes, BackwardOrder, MeshSpec, Parallel, Recompute, Schedule};
pub use syncline_workload::product::Product;
pub use syncline_workload::types::{Optimizer, Types};

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this form: `syncline/1`.
    pub schema: String,
    /// A name for people.
    #[serde(default)]
    pub name: String,
    /// Seed of everything random.
    #[serde(default)]
    pub seed: u64,
    /// The job.
    pub workload: Workload,
    /// What turns work into time.
    #[serde(default)]
    pub compute: Compute,
    /// Memory of an NPU. If absent, whether the job fits is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub npu_memory: Option<Bytes>,
    /// The network.
    pub fabric: Fabric,
    /// Which NPU each rank runs on.
    #[serde(default)]
    pub placement: Placement,
    /// How collectives are carried out.
    #[serde(default)]
    pub collectives: Collectives,
    /// What turns messages into delivery times.
    #[serde(default)]
    pub network: NetworkSettings,
    /// When to stop early.
    #[serde(default)]
    pub limits: Limits,
    /// What is slow or broken.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What varies between ranks and tasks.
    #[serde(default)]
    pub jitter: Jitter,
    /// What the parts of the network cost. If absent, results contain no cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceList>,
    /// What the trace shows.
    #[serde(default)]
    pub trace: Trace,
    /// Whether one rank may represent others that behave identically. The results are the same.
    #[serde(default = "yes")]
    pub symmetry: bool,
    /// Whether to write a report into the results folder. It does not change results.
    #[serde(default = "yes")]
    pub report: bool,
}

fn yes() -> bool {
    true
}

/// The job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case", deny_unknown_fields)]
pub enum Workload {
    /// Layers of a model, and how they are parallelised.
    Layers {
        /// The model's name, for people.
        #[serde(default)]
        model: String,
        /// From input to output. Sizes are for one NPU's share of the batch, before any tensor parallelism.
        layers: Vec<Layer>,
        /// Which ranks share what.
        #[serde(default)]
        parallel: Box<Parallel>,
        /// Training iterations.
        #[serde(default = "one")]
        iterations: u32,
        /// Micro-batches of an iteration, whose gradients are summed locally before they are reduced. `layers`
        /// describes one micro-batch.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        micro_batches: u32,
        /// Samples of an iteration over all copies of the model. If given, `micro_batches` follows from it, from
        /// `batch_per_npu` and from the number of copies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        global_batch: Option<u32>,
        /// Element types: one for everything, or one for each use.
        #[serde(default)]
        types: Types,
        /// The optimizer, which determines the memory for its state.
        #[serde(default, skip_serializing_if = "is_sgd")]
        optimizer: Optimizer,
        /// Samples of a micro-batch of one copy of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_per_npu: Option<u32>,
        /// What a sample is, for rates of work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sample: Option<Box<Sample>>,
        /// What the layers leave out of the original model, one sentence for each omission.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// Collectives alone, one after the other, over all ranks.
    Collectives {
        /// The collectives of each iteration.
        collectives: Vec<Comm>,
        /// Number of iterations.
        #[serde(default = "one")]
        iterations: u32,
    },
    /// A Chakra execution trace per rank: `<prefix>.<rank>.et`.
    Chakra {
        /// Path prefix.
        prefix: String,
        /// Communicator groups, a JSON file in ASTRA-sim's form.
        #[serde(default)]
        groups: Option<String>,
    },
    /// Several jobs, which may share NPUs.
    Jobs {
        /// The jobs, at least one.
        jobs: Vec<JobEntry>,
    },
    /// Operators with servers of their own, each NPU a server.
    Operators {
        /// Path of the file: model and strategy.
        file: String,
        /// Training iterations.
        #[serde(default = "one")]
        iterations: u32,
    },
    /// An ASTRA-sim 1 text workload.
    AstraText {
        /// Path of the file.
        file: String,
        /// Training iterations (`num-passes`).
        #[serde(default = "one")]
        iterations: u32,
    },
}

/// One of several jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobEntry {
    /// Its name, different from those of all others.
    pub name: String,
    /// What it does.
    pub workload: Box<Workload>,
    /// What turns its work into time.
    #[serde(default)]
    pub compute: Compute,
    /// Memory of an NPU. If absent, whether the job fits is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub npu_memory: Option<Bytes>,
    /// Which NPU each of its ranks runs on.
    #[serde(default)]
    pub placement: Placement,
    /// When it begins.
    #[serde(default)]
    pub start: Time,
    /// How its collectives are carried out, if not as the scenario says. Scheduling at endpoints always follows the
    /// scenario.
    #[serde(default)]
    pub collectives: Option<Collectives>,
}

const fn one() -> u32 {
    1
}
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_one(number: &u32) -> bool {
    *number == 1
}
fn is_sgd(optimizer: &Optimizer) -> bool {
    *optimizer == Optimizer::Sgd
}

/// The work of a model for one sample, independent of how a job divides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Tokens of the sample, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Operations of the matrix products that its forward and backward pass need. Does not count recomputation; in
    /// causal attention, counts only the scores that the mask leaves.
    pub model_flop: Flops,
    /// The same with all scores of attention (Chowdhery et al. 2022, appendix B), if that number differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flop_unmasked: Option<Flops>,
}

/// What turns work into time. Every model takes `compute_power`, by which all times are divided (astra2020 Fig. 18).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Compute {
    /// Uses only times that the workload gives.
    Given {
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// The larger of operations over peak rate and bytes over memory bandwidth.
    Roofline {
        /// The accelerator's name, for people.
        #[serde(default)]
        accelerator: String,
        /// Peak rate for the type that the workload computes in.
        peak: FlopRate,
        /// Peak rates for other types in which some of its work is computed.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        peaks: BTreeMap<DataType, FlopRate>,
        /// Memory bandwidth.
        memory: Rate,
        /// Fraction of the peak that is reached.
        #[serde(default)]
        efficiency: Efficiency,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// A systolic array with a vector unit beside it (astra2020 IV-A).
    Systolic {
        /// Rows of multiply-accumulate units.
        rows: u32,
        /// Columns of multiply-accumulate units.
        columns: u32,
        /// Cycles per second.
        clock: Frequency,
        /// Memory bandwidth.
        memory: Rate,
        /// Which operand stays in the array.
        #[serde(default)]
        dataflow: Dataflow,
        /// Rate of operations that are not matrix products. If absent, these take no time.
        vector: Option<FlopRate>,
        /// Added to each pass of each layer.
        #[serde(default)]
        delay: Time,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// Matrix products at a fixed rate, all else at memory bandwidth (dlrm2020 Table IV).
    Throughput {
        /// Rate of operations.
        rate: FlopRate,
        /// Memory bandwidth.
        memory: Rate,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
    /// Measured times.
    Table {
        /// Name of the table and of what was measured, for people.
        name: String,
        /// Measured times by layer name.
        layers: BTreeMap<String, Measured>,
        /// What all times are divided by.
        #[serde(default = "unity")]
        compute_power: f64,
    },
}

impl Default for Compute {
    fn default() -> Self {
        Self::Given { compute_power: unity() }
    }
}

/// Fraction of the peak that work reaches, above 0 up to 1: one for all work, or depending on its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Efficiency {
    /// The same for all.
    Constant(f64),
    /// Points in order of increasing work.
    Curve(Vec<EfficiencyPoint>),
}

impl Default for Efficiency {
    fn default() -> Self {
        Self::Constant(unity())
    }
}

/// One point of an efficiency curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EfficiencyPoint {
    /// Operations of a task.
    pub flop: Flops,
    /// Fraction of the peak that the task reaches.
    pub efficiency: f64,
}

/// Which matrix stays in a systolic array while the others flow through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dataflow {
    /// The right operand of a product.
    #[default]
    WeightStationary,
    /// The result.
    OutputStationary,
    /// The left operand.
    InputStationary,
}

/// Measured times of one layer; `None` for a pass that was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Measured {
    /// Forward pass.
    pub forward: Option<Time>,
    /// Gradient with respect to the input.
    pub input_grad: Option<Time>,
    /// Gradient with respect to the parameters.
    pub weight_grad: Option<Time>,
    /// Parameter update.
    pub update: Option<Time>,
}

const fn unity() -> f64 {
    1.0
}

/// The network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fabric {
    /// A regular fabric, lowest dimension first.
    Dims(Vec<Dim>),
    /// A graph, given link by link.
    Graph(Graph),
    /// A graph of a known family, built from a few numbers.
    Built(Box<Built>),
}

/// One dimension of a regular fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// How its NPUs are connected.
    pub shape: DimKind,
    /// How many NPUs it joins.
    pub size: u32,
    /// Parallel rings, parallel links per pair, or switches.
    #[serde(default = "one")]
    pub count: u32,
    /// Whether rings run both ways. Other shapes are always full duplex.
    #[serde(default)]
    pub direction: Direction,
    /// What chooses among several switches. Only for switches.
    #[serde(default)]
    pub spread: Spread,
    /// Rate of one link. Give exactly one of this and `rate_per_npu`.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// Rate at which one NPU sends into this dimension over all its links (hier2021 Eq. 8).
    #[serde(default)]
    pub rate_per_npu: Option<Rate>,
    /// Latency of one link.
    #[serde(default)]
    pub latency: Time,
    /// Payload bits divided by all bits on the wire, above 0 up to 1.
    #[serde(default = "unity")]
    pub efficiency: f64,
    /// The dimension's name in price lists; empty if they use its own name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier: String,
}

/// A fabric given link by link. Vertices `0..npus` are NPUs, the next `switches` are switches.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// Number of NPUs.
    pub npus: u32,
    /// Number of switches.
    #[serde(default)]
    pub switches: u32,
    /// Directed links. A duplex link is two of them.
    pub links: Vec<GraphLink>,
    /// How paths are found.
    #[serde(default)]
    pub routing: Routing,
    /// Names of the vertices, NPUs first; empty if they have only numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// A directed link of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphLink {
    /// Vertex that sends.
    pub from: u32,
    /// Vertex that receives.
    pub to: u32,
    /// Its rate.
    pub rate: Rate,
    /// Its latency.
    #[serde(default)]
    pub latency: Time,
}

/// How paths through a graph are found.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// Paths with the fewest links; among equal ones, the one with the smaller vertex numbers.
    #[default]
    Shortest,
    /// Paths with the fewest links; among equal ones, a hash chooses for each flow.
    Ecmp(Ecmp),
    /// These paths, as vertices from source to destination; all other pairs as with `Shortest`.
    Explicit(Vec<Vec<u32>>),
}

/// Equal-cost multi-path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ecmp {
    /// Seed of the hash. Without it, the scenario's.
    pub seed: Option<u64>,
}

/// Which NPU each rank runs on.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Rank `i` on NPU `i`.
    #[default]
    Linear,
    /// Rank `i` on the `i`-th of these NPUs.
    Npus(Vec<u32>),
}

/// How the collectives of one group, kind and size are carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmsOf {
    /// Their group: the name of its role, such as `data`.
    pub group: String,
    /// Their kind.
    pub collective: CollectiveKind,
    /// Their size.
    pub bytes: Bytes,
    /// Algorithm and collective of each phase, in order, such as `ring reduce_scatter`.
    pub phases: Vec<String>,
}

/// How collectives are carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Collectives {
    /// How an all-reduce is composed over dimensions: `auto`, `baseline`, `enhanced`, `hierarchical_2n`,
    /// `hierarchical_2n_merged`, `hierarchical`, `hierarchical_optimal`.
    pub all_reduce: String,
    /// Algorithm by dimension name, or `default` for all others; a value is an algorithm's name.
    /// If absent, the quickest of the library is chosen.
    pub algorithms: BTreeMap<String, BTreeMap<CollectiveKind, String>>,
    /// Algorithms of the collectives of one group, kind and size. They take precedence over `algorithms` and
    /// `all_reduce`.
    pub algorithms_of: Vec<AlgorithmsOf>,
    /// Path of the user's own plan, by collective.
    pub plans: BTreeMap<CollectiveKind, String>,
    /// Sizes of the logical grid that plans assume, lowest first, if it differs from the fabric's.
    pub logical: Option<Vec<u32>>,
    /// Number of chunks into which a collective is cut (astra2020 `preferred-set-splits`).
    pub chunks: u32,
    /// Number of chunks for kinds of collective that differ from `chunks`.
    pub chunks_of: BTreeMap<CollectiveKind, u32>,
    /// Smallest chunk. A small collective is cut into fewer chunks, not into smaller ones.
    pub min_chunk: Bytes,
    /// Size of the elements at whose borders data is cut.
    pub element: Bytes,
    /// Which collective's chunks go first.
    pub order: QueueOrder,
    /// Which chunks share the limits that follow. If absent, see [`Collectives::schedulers`].
    pub schedulers: Option<Schedulers>,
    /// T of astra2020 IV-B: new chunks are issued while fewer than this many are in their first phase;
    /// without a limit if absent, as in the limits that follow.
    #[serde(with = "limit::unlimited")]
    pub issue_threshold: Option<NonZeroU32>,
    /// P of astra2020 IV-B: how many chunks are issued at once.
    #[serde(with = "limit::unlimited")]
    pub issue_batch: Option<NonZeroU32>,
    /// Logical scheduling queues per phase; if absent, one for each ring or switch of the dimension (astra2020 IV-B).
    #[serde(with = "limit::per_link")]
    pub queues: Option<NonZeroU32>,
    /// Running chunks per queue.
    #[serde(with = "limit::unlimited")]
    pub active_chunks: Option<NonZeroU32>,
    /// Running chunks per dimension and NPU (64 in dlrm2020 III-C).
    #[serde(with = "limit::unlimited")]
    pub outstanding: Option<NonZeroU32>,
    /// Collectives of one rank that may be in progress at once.
    #[serde(with = "limit::unlimited")]
    pub concurrent: Option<NonZeroU32>,
    /// Constant delay after a message is received.
    pub endpoint_delay: Time,
    /// Time for a message from memory to the network interface (dlrm2020 III-C).
    pub injection_latency: Time,
    /// Rate at which received data is combined with local data. If absent, that takes no time.
    pub reduction_rate: Option<Rate>,
}

impl Default for Collectives {
    fn default() -> Self {
        Self {
            all_reduce: "auto".to_owned(),
            algorithms: BTreeMap::new(),
            algorithms_of: Vec::new(),
            plans: BTreeMap::new(),
            logical: None,
            chunks: 16,
            chunks_of: BTreeMap::new(),
            min_chunk: Bytes(4096),
            element: Bytes(4),
            order: QueueOrder::Fifo,
            schedulers: None,
            issue_threshold: NonZeroU32::new(8),
            issue_batch: NonZeroU32::new(16),
            queues: None,
            active_chunks: NonZeroU32::new(4),
            outstanding: None,
            concurrent: None,
            endpoint_delay: Time::ZERO,
            injection_latency: Time::ZERO,
            reduction_rate: None,
        }
    }
}

impl Collectives {
    /// Which chunks share the endpoint's limits. By default, the chunks of a process group; with an `order` that
    /// compares collectives of different groups, all chunks of a rank.
    pub fn schedulers(&self) -> Schedulers {
        self.schedulers.unwrap_or(match self.order {
            QueueOrder::Fifo => Schedulers::PerGroup,
            QueueOrder::Lifo | QueueOrder::Priority => Schedulers::PerRank,
        })
    }
}

/// What turns messages into delivery times.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum NetworkSettings {
    /// Latency times hops plus bytes over rate, with busy ports.
    #[default]
    Analytical,
    /// Messages are stored and forwarded, and queue for links in FIFO order.
    Queued,
    /// Messages are fluids that share links fairly.
    Flow(FlowSettings),
    /// Packets, switches with finite buffers, TCP or RDMA.
    Packet(Box<PacketSettings>),
}

impl NetworkSettings {
    /// Name for reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Analytical => "analytical",
            Self::Queued => "queued",
            Self::Flow(_) => "flow",
            Self::Packet(_) => "packet",
        }
    }
}

/// When to stop early, if a limit is given; and how much memory a run may need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest number of events.
    pub events: Option<u64>,
    /// Largest simulated time.
    pub sim_time: Option<Time>,
    /// Largest wall time.
    pub wall: Option<Time>,
    /// Largest estimated memory. A run that needs more is refused before it starts.
    pub memory: Bytes,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: None, sim_time: None, wall: None, memory: Bytes(16_000_000_000) }
    }
}

/// What varies between ranks and tasks. By default nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Jitter {
    /// Each rank starts late by a random delay, drawn uniformly from 0 to this time.
    pub start: Time,
    /// Coefficient of variation of compute times: each task's time is multiplied by a lognormal factor of mean 1.
    pub compute: f64,
    /// Seed of both. If absent, the scenario's seed.
    pub seed: Option<u64>,
}

impl Jitter {
    /// Whether nothing varies.
    pub fn is_none(&self) -> bool {
        self.start.is_zero() && self.compute == 0.0
    }
}

/// A slow or broken part: exactly one of `rank`, `link`, `random_ranks` and `random_links` says which.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Ranks that compute more slowly.
    pub rank: Option<Vec<RankId>>,
    /// Number of ranks that compute more slowly, drawn with the scenario's seed.
    pub random_ranks: Option<u32>,
    /// A link, or all links between two vertices.
    pub link: Option<LinkName>,
    /// Number of affected cables, drawn with the scenario's seed.
    pub random_links: Option<u32>,
    /// How many times as slow, at least 1.
    pub factor: Option<f64>,
    /// Whether the links carry nothing. Routes avoid them.
    pub dead: bool,
    /// Whether only the links from the first vertex to the second are affected.
    pub one_way: bool,
    /// When the ranks become slow.
    pub from: Option<Time>,
    /// When the ranks stop being slow.
    pub until: Option<Time>,
}

/// The name of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LinkName {
    /// Its number in the table of links.
    Number(u32),
    /// The names of its ends, such as `NPU 3`, `switch 0`.
    Ends([String; 2]),
}

/// What the trace shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// Traced ranks.
    pub ranks: Traced,
    /// Largest number of spans that are kept.
    pub max_spans: u64,
}

impl Default for Trace {
    fn default() -> Self {
        Self { ranks: Traced::Named(NamedRanks::Classes), max_spans: 400_000 }
    }
}

/// Traced ranks: by name or one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Traced {
    /// By name.
    Named(NamedRanks),
    /// One by one.
    Listed(Vec<RankId>),
}

impl Traced {
    /// The ranks that are listed one by one; empty if they are given by name.
    pub fn listed(&self) -> &[RankId] {
        match self {
            Self::Named(NamedRanks::Classes) => &[],
            Self::Listed(ranks) => ranks,
        }
    }
}

/// Sets of ranks that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedRanks {
    /// The first rank of each class of ranks with equal tasks, for the first [`TRACED_CLASSES`] classes, and up to
    /// [`TRACED_FAULTS`] ranks that are slow or at broken links.
    Classes,
}

/// Number of classes of which a rank is traced. Others can be listed one by one.
pub const TRACED_CLASSES: usize = 8;
/// Largest number of ranks that are traced in addition because [`Scenario::faults`] affect them.
pub const TRACED_FAULTS: usize = 8;
