//! The resolved scenario: what a run is a function of.
//!
//! The Python package checks a user's YAML, expands names (a model into its layers, an accelerator into its rates,
//! shorthands into dimensions) and hands over this. Every quantity is a string with a unit; every key is checked.

mod limit;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use syncline_fabric::build::Spec as Built;
pub use syncline_fabric::cost::PriceList;
pub use syncline_fabric::{Direction, Spread};
use syncline_net_flow::Settings as FlowSettings;
use syncline_net_packet::Settings;
use syncline_units::{
    Bytes, CollectiveKind, DataType, DimKind, FlopRate, Flops, Frequency, RankId, Rate, Time,
};
pub use syncline_workload::layer::{
    Axes, BackwardOrder, Comm, Kind, Kinds, Layer, LayerCommunication, Optimizer, Parallel, Recompute,
    Schedule, Sharding, Work,
};
pub use syncline_workload::product::Product;
pub use syncline_workload::types::Types;

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
    /// Memory of an NPU; absent means that it is not checked whether the job fits.
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
    pub network: Network,
    /// When to stop early.
    #[serde(default)]
    pub limits: Limits,
    /// What is slow or broken.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What varies between ranks and tasks.
    #[serde(default)]
    pub jitter: Jitter,
    /// What the parts of the network cost; absent means that nothing is said of its cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceList>,
    /// What the trace shows.
    #[serde(default)]
    pub trace: Trace,
    /// Whether one rank may stand for others that cannot be told apart. The results are the same.
    #[serde(default = "yes")]
    pub quotient: bool,
    /// Whether the results folder gets a report. It changes no number.
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
        /// From input to output. Sizes are for one NPU's share of the batch, before any model parallelism.
        layers: Vec<Layer>,
        /// Which ranks share what.
        #[serde(default)]
        parallel: Parallel,
        /// Training iterations.
        #[serde(default = "one")]
        iterations: u32,
        /// Micro-batches of an iteration, whose gradients are summed up before they are reduced. Layers are those of one.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        micro_batches: u32,
        /// Samples of an iteration over all copies of the model: `micro_batches` follows from it, from `batch_per_npu` and
        /// from the number of copies.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        global_batch: Option<u32>,
        /// Element types: one for everything, or each.
        #[serde(default)]
        types: Types,
        /// What updates parameters, for the memory that it takes.
        #[serde(default, skip_serializing_if = "is_sgd")]
        optimizer: Optimizer,
        /// Samples of a micro-batch of one copy of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch_per_npu: Option<u32>,
        /// What a sample is, for rates of work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sample: Option<Box<Sample>>,
        /// What the layers leave out of the model that they are from, one sentence each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// Collectives alone, one after the other, over all ranks.
    Collectives {
        /// What is done in each iteration.
        collectives: Vec<Comm>,
        /// How often.
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
    /// Several jobs, each with NPUs of its own or with some that it shares.
    Jobs {
        /// One or more of them.
        jobs: Vec<Job>,
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
pub struct Job {
    /// Its name, unlike those of the others.
    pub name: String,
    /// What it does.
    pub workload: Box<Workload>,
    /// What turns its work into time.
    #[serde(default)]
    pub compute: Compute,
    /// Memory that it finds on an NPU; absent means that it is not checked whether it fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub npu_memory: Option<Bytes>,
    /// Which NPU each of its ranks runs on.
    #[serde(default)]
    pub placement: Placement,
    /// When it begins.
    #[serde(default)]
    pub start: Time,
    /// How its collectives are carried out, where not as the scenario says. Endpoints schedule as the scenario says.
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

/// What a model does with a sample, whatever a job makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Its tokens, where it has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Operations of the matrix products that its forward and backward pass need. Nothing that is computed again counts, and
    /// of causal attention only the scores that the mask leaves.
    pub model_flop: Flops,
    /// The same with all scores of attention (Chowdhery et al. 2022, appendix B), where that is another number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_flop_unmasked: Option<Flops>,
}

/// What turns work into time. Every model takes `compute_power`, by which all times are divided (astra2020 Fig. 18).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Compute {
    /// Only given times.
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
        /// Peak rates for other types that some of its work is in.
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
        /// Columns of them.
        columns: u32,
        /// Cycles per second.
        clock: Frequency,
        /// Memory bandwidth.
        memory: Rate,
        /// What stays in the array.
        #[serde(default)]
        dataflow: Dataflow,
        /// Rate of operations that are no matrix products; absent where these take no time.
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
        /// Which table, and what was measured; for people.
        name: String,
        /// By the layer's name.
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

/// Fraction of a peak that is reached, above 0 to 1: one for all work, or by its size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Efficiency {
    /// The same for all.
    Constant(f64),
    /// Points by rising work.
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
    /// Fraction of the peak that it reaches.
    pub efficiency: f64,
}

/// What stays in a systolic array while the rest flows through it.
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

/// Measured times of one layer; a pass that was not measured has none.
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
    /// Any graph.
    Graph(Graph),
    /// A family of graphs, from a few numbers.
    Built(Box<Built>),
}

/// One dimension of a regular fabric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dim {
    /// Its name.
    pub name: String,
    /// How its NPUs are joined.
    pub shape: DimKind,
    /// How many NPUs it joins.
    pub size: u32,
    /// Parallel rings, parallel links per pair, or switches.
    #[serde(default = "one")]
    pub count: u32,
    /// Whether rings run both ways. Other shapes are always full duplex.
    #[serde(default)]
    pub direction: Direction,
    /// What chooses among several switches. Other shapes have none.
    #[serde(default)]
    pub spread: Spread,
    /// Rate of one link. Exactly one of this and `rate_per_npu`.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// What one NPU sends into this dimension over all its links (hier2021 Eq. 8).
    #[serde(default)]
    pub rate_per_npu: Option<Rate>,
    /// Latency of one link.
    #[serde(default)]
    pub latency: Time,
    /// Payload over all bits on the wire, above 0 to 1.
    #[serde(default = "unity")]
    pub efficiency: f64,
    /// By which name price lists know it; empty where they know it by its own.
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
    /// What people call the vertices, NPUs first; empty where they have numbers alone.
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
    /// Fewest links; ties go to the smaller vertex numbers.
    #[default]
    Shortest,
    /// Fewest links; ties are broken for each flow by a hash.
    Ecmp(Ecmp),
    /// These paths, as vertices from source to destination; every other pair is routed by `Shortest`.
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
    /// Algorithms of the collectives of one group, kind and size; they go before `algorithms` and `all_reduce`.
    pub algorithms_of: Vec<AlgorithmsOf>,
    /// Path of the user's own plan, by collective.
    pub plans: BTreeMap<CollectiveKind, String>,
    /// Sizes of the logical grid that plans assume, lowest first, where it is not the fabric's.
    pub logical: Option<Vec<u32>>,
    /// Chunks that a set is cut into (astra2020 `preferred-set-splits`).
    pub chunks: u32,
    /// The same by collective, where it is another number.
    pub chunks_of: BTreeMap<CollectiveKind, u32>,
    /// Smallest chunk: a set is cut into fewer chunks rather than into smaller ones.
    pub min_chunk: Bytes,
    /// Element size by which data is cut.
    pub element: Bytes,
    /// Which set goes first.
    pub order: Order,
    /// Which chunks share the limits that follow; if absent, see [`Collectives::schedulers`].
    pub schedulers: Option<Schedulers>,
    /// T of astra2020 IV-B: new chunks are issued while fewer than this many are in their first phase; 0 means no
    /// limit.
    #[serde(with = "limit::unlimited")]
    pub issue_threshold: u32,
    /// P of astra2020 IV-B: how many are issued at once; 0 means no limit.
    #[serde(with = "limit::unlimited")]
    pub issue_batch: u32,
    /// Logical scheduling queues per phase; 0 means one for each ring or switch of the dimension (astra2020 IV-B).
    #[serde(with = "limit::per_link")]
    pub queues: u32,
    /// Running chunks per queue; 0 means no limit.
    #[serde(with = "limit::unlimited")]
    pub active_chunks: u32,
    /// Running chunks per dimension and NPU; 0 means no limit (64 in dlrm2020 III-C).
    #[serde(with = "limit::unlimited")]
    pub outstanding: u32,
    /// Collectives of one rank that may be under way at once; 0 means no limit.
    #[serde(with = "limit::unlimited")]
    pub concurrent: u32,
    /// Constant delay after a message is received.
    pub endpoint_delay: Time,
    /// Time for a message from memory to the network interface (dlrm2020 III-C).
    pub injection_latency: Time,
    /// Rate at which received data is combined with local data; absent means that it costs no time.
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
            order: Order::Fifo,
            schedulers: None,
            issue_threshold: 8,
            issue_batch: 16,
            queues: 0,
            active_chunks: 4,
            outstanding: 0,
            concurrent: 0,
            endpoint_delay: Time::ZERO,
            injection_latency: Time::ZERO,
            reduction_rate: None,
        }
    }
}

impl Collectives {
    /// Which chunks share the endpoint's limits: by default those of a process group, but all of a rank if `order` ranks all its
    /// collectives.
    pub fn schedulers(&self) -> Schedulers {
        self.schedulers.unwrap_or(match self.order {
            Order::Fifo => Schedulers::PerGroup,
            Order::Lifo | Order::Priority => Schedulers::PerRank,
        })
    }
}

/// Which chunks share `order`, `issue_threshold`, `issue_batch` and `active_chunks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedulers {
    /// Those of one process group.
    PerGroup,
    /// All of a rank.
    PerRank,
}

/// Which set goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The one that was issued first.
    #[default]
    Fifo,
    /// The one that was issued last.
    Lifo,
    /// All-to-all before all others, those that block the forward pass before those that do not; then the one issued last
    /// (dlrm2020 III-C.1).
    Priority,
}

/// What turns messages into delivery times.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "snake_case", deny_unknown_fields)]
pub enum Network {
    /// Latency times hops plus bytes over rate, with busy ports.
    #[default]
    Analytical,
    /// FIFO links, messages stored and forwarded.
    Queued,
    /// Fluid that shares links fairly.
    Flow(FlowSettings),
    /// Packets, switches with finite buffers, TCP or RDMA.
    Packet(Box<Settings>),
}

impl Network {
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

/// When to stop early; absent means never. And what a run may need at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Events.
    pub events: Option<u64>,
    /// Simulated time.
    pub sim_time: Option<Time>,
    /// Wall time.
    pub wall: Option<Time>,
    /// Memory that the run is estimated to need. More is refused before the run.
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
    /// Ranks begin up to so much late, each drawn evenly.
    pub start: Time,
    /// Coefficient of variation of compute times: each task's is multiplied by a lognormal factor of mean 1.
    pub compute: f64,
    /// What these are drawn by; absent means the scenario's seed.
    pub seed: Option<u64>,
}

impl Jitter {
    /// Whether nothing varies.
    pub fn is_none(&self) -> bool {
        self.start.is_zero() && self.compute == 0.0
    }
}

/// Something slow or broken: one of `rank`, `link`, `random_ranks` and `random_links` says what.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// These ranks compute slower.
    pub rank: Option<Vec<RankId>>,
    /// This many ranks do, drawn by the seed.
    pub random_ranks: Option<u32>,
    /// A link, or all between two vertices.
    pub link: Option<LinkName>,
    /// This many cables, drawn by the seed.
    pub random_links: Option<u32>,
    /// How many times as slow, at least 1.
    pub factor: Option<f64>,
    /// The links carry nothing; routes lead round them.
    pub dead: bool,
    /// Only the links from the first vertex to the second.
    pub one_way: bool,
    /// From when ranks are slow.
    pub from: Option<Time>,
    /// Until when.
    pub until: Option<Time>,
}

/// Which link.
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
    /// Largest number of spans kept.
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
    /// Those that are listed.
    pub fn listed(&self) -> &[RankId] {
        match self {
            Self::Named(NamedRanks::Classes) => &[],
            Self::Listed(ranks) => ranks,
        }
    }
}

/// Ranks that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedRanks {
    /// The first rank of each class of ranks that do the same, of the first [`TRACED_CLASSES`] classes, and up to
    /// [`TRACED_FAULTS`] that are slow or at broken links.
    Classes,
}

/// Classes of which a rank is traced. More can be traced one by one.
pub const TRACED_CLASSES: usize = 8;
/// Most other ranks that are traced because [`Scenario::faults`] name them.
pub const TRACED_FAULTS: usize = 8;
