//! The answer in a few numbers.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every rank finished.
    #[default]
    Finished,
    /// A limit was reached; all numbers describe the time before it.
    LimitReached,
    /// The user interrupted it; all numbers describe the time before.
    Interrupted,
}

/// One dimension; of a graph with several tiers of links, one tier, and of any other graph all links together.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct DimSummary {
    /// Its name.
    pub name: String,
    /// Bytes that its links carried: a message counts once on each link that it takes.
    pub carried_bytes: u64,
    /// Carried bytes over what its links could have carried in the whole run, 0 to 1; no link counts for more than it can carry.
    pub utilization: f64,
    /// Carried bytes over what its links could have carried while it had something to send, 0 to 1.
    pub utilization_while_busy: f64,
    /// Fraction of the run in which its busiest link was sending; absent where messages passed some of its links side by side, as
    /// `analytical` lets them inside the network: these have no times of their own.
    pub busiest_link_busy: Option<f64>,
    /// That link, as text such as `NPU 3 -> NPU 4`; where times are absent, the one that carried most for its rate.
    pub busiest_link: String,
}

/// What became of packets, in a network model that has some.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that NPUs sent, acknowledgements included.
    pub sent: u64,
    /// Packets that found no room in a queue, or were dropped early.
    pub dropped: u64,
    /// Packets that a queue marked (ECN).
    pub marked: u64,
    /// Times that a port was told to pause (priority flow control).
    #[serde(default)]
    pub pauses: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Those of them before a round trip was measured.
    #[serde(default)]
    pub initial_timeouts: u64,
    /// Time in which some connection waited for its time-out while no link on its ways sent anything.
    #[serde(default)]
    pub stalled_s: f64,
    /// Round-trip time, sampled every millisecond and averaged for each connection: mean over connections.
    pub rtt_mean_s: f64,
    /// Median over connections.
    pub rtt_p50_s: f64,
    /// 99th percentile over connections.
    pub rtt_p99_s: f64,
}

/// Links inside the network over which the model sent more than they can carry, because it lets nothing wait there: times are
/// too short.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Overload {
    /// The fullest of them, such as `leaf 0 -> spine 1`.
    pub link: String,
    /// How many there are.
    pub links: u64,
    /// What the fullest one was to send in its fullest moment, over what it can.
    pub times: f64,
    /// How much later it would send some of its bytes in the first two iterations, at least: other work may hide that.
    pub late_s: f64,
    /// The run takes at least this long: what the fullest link needs for all its bytes, or `total_time_s` where that is more.
    pub least_time_s: f64,
}

/// One of several jobs. Times are means over its ranks unless said otherwise.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// Its ranks.
    pub ranks: u64,
    /// Training iterations that its ranks completed.
    pub iterations: u64,
    /// When it began.
    pub start_s: f64,
    /// When its last rank finished.
    pub finish_s: f64,
    /// From start to finish over iterations.
    pub step_time_s: f64,
    /// Time in which compute was busy.
    pub compute_s: f64,
    /// Time in which compute was idle only because it waited for communication.
    pub exposed_communication_s: f64,
    /// The same over the time from start to finish.
    pub exposed_fraction: f64,
    /// Time in which at least one communication of the rank was under way.
    pub communication_s: f64,
    /// Bytes that its ranks sent.
    pub sent_bytes: u64,
    /// Step time of the same job alone on the fabric; none where a run was cut off.
    pub alone_step_time_s: Option<f64>,
    /// Step time over that alone.
    pub slowdown: Option<f64>,
    /// Its training iterations a second over the price of the whole fabric; none without prices, or without a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_usd: Option<f64>,
    /// Its training iterations a second over the power of the whole fabric, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_w: Option<f64>,
}

/// How much work a training job gets done. Each is absent where it is not known.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkRates {
    /// Parameters of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
    /// Samples of a step over all copies of the model: the global batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_step: Option<u64>,
    /// Tokens of these samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_step: Option<u64>,
    /// `samples_per_step / step_time_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples_per_s: Option<f64>,
    /// `tokens_per_step / step_time_s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
    /// Model FLOP a second of one NPU, in TFLOP/s: operations of the matrix products that the model's forward and backward
    /// pass need, without what is computed again and without scores that causal attention masks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tflop_per_s_per_npu: Option<f64>,
    /// Model FLOP utilisation, 0 to 1: that over the peak of an NPU (Chowdhery et al. 2022, 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// The same where all scores of causal attention count, as PaLM's authors count; absent where that is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu_unmasked: Option<f64>,
    /// Hardware FLOP utilisation, 0 to 1: operations of all matrix products that are computed, also again, over the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hfu: Option<f64>,
}

/// Exposed communication of one kind of parallelism.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct AxisSummary {
    /// Such as `data`: the role of the groups that communicate, `pipeline`, or `point_to_point`.
    pub name: String,
    /// Its part of `exposed_communication_s`.
    pub exposed_communication_s: f64,
}

/// What time on the critical path is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// Compute, as far as ranks compute that long on average.
    Compute,
    /// Compute beyond that of the rank that computes longest: work that ranks do one after the other.
    Bubble,
    /// Compute of the rank that computes longest beyond the mean of all.
    Skew,
    /// Memory operations, or the host.
    Memory,
    /// Combining what was received with local data.
    Reduction,
    /// Bytes of messages, at the rate of the links.
    Bytes,
    /// Messages that wait for others with which they share links.
    Queueing,
    /// Latency of links, injection and endpoints.
    Latency,
    /// Connections that stand still until a retransmission time-out.
    Timeout,
}

impl PathKind {
    /// Its name in files and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Bubble => "bubble",
            Self::Skew => "skew",
            Self::Memory => "memory",
            Self::Reduction => "reduction",
            Self::Bytes => "bytes",
            Self::Queueing => "queueing",
            Self::Latency => "latency",
            Self::Timeout => "timeout",
        }
    }
}

/// A part of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPart {
    /// What it is spent on.
    pub kind: PathKind,
    /// The tier of links, of bytes and queueing; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier: String,
    /// How long it is, in the steps that the path is of.
    pub time_s: f64,
    /// Its share, in thousandths: those of all parts add up to 1000.
    pub per_mille: u32,
    /// By how much these steps would be shorter if it were twice as fast, with all that is spent on the same tier of links;
    /// of latency, bubble, skew and time-outs, if there were none.
    pub saves_s: f64,
}

/// The answer. Times are means over ranks unless said otherwise.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How the run ended.
    pub ended: Ended,
    /// Ranks in the job.
    pub ranks: u64,
    /// Ranks that were simulated; each of the others is like one of them.
    pub simulated_ranks: u64,
    /// NPUs in the fabric.
    pub npus: u64,
    /// Which ranks share what, such as `model 8 x data 4`; empty where the workload does not say it.
    #[serde(default)]
    pub parallelism: String,
    /// Training iterations that every rank completed (1 where the workload has none).
    pub iterations: u64,
    /// Iterations that were simulated; each of the others is like one of them.
    pub simulated_iterations: u64,
    /// Micro-batches of an iteration; none where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<u64>,
    /// Micro-batches of all iterations that were simulated; each of the others is like one of them. None where an
    /// iteration is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_micro_batches: Option<u64>,
    /// Simulated time until the last rank finished.
    pub total_time_s: f64,
    /// `total_time_s / iterations`; `total_time_s` where a run was cut off in its first iteration.
    pub step_time_s: f64,
    /// Time in which compute was busy.
    pub compute_s: f64,
    /// Time in which compute was idle only because it waited for the network.
    pub exposed_communication_s: f64,
    /// The same by the ranks that communicate: by parallelism, such as `model`, `data` and `pipeline`.
    #[serde(default)]
    pub exposed_by_axis: Vec<AxisSummary>,
    /// Time in which compute was idle because another stage of the pipeline had not sent yet, or was not done yet.
    #[serde(default)]
    pub bubble_s: f64,
    /// Time in which compute was idle because another rank had not begun a collective yet, or was not done yet.
    #[serde(default)]
    pub skew_s: f64,
    /// Time in which compute was idle because there was nothing to do.
    #[serde(default)]
    pub idle_s: f64,
    /// Time in which compute was idle only because it waited for memory operations.
    pub exposed_memory_s: f64,
    /// `exposed_communication_s / total_time_s`.
    pub exposed_fraction: f64,
    /// Time in which at least one communication of the rank was under way.
    pub communication_s: f64,
    /// How much work a step gets done, where it is one of training.
    #[serde(flatten)]
    pub work: WorkRates,
    /// What was slow or broken, one sentence each.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Step time of the same job on a cluster without these faults; none where there are none, or a run was cut off.
    #[serde(default)]
    pub healthy_step_time_s: Option<f64>,
    /// What the faults cost: step time beyond that.
    #[serde(default)]
    pub fault_cost_s: Option<f64>,
    /// Name of the price list; none where the scenario has no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<String>,
    /// Price of the fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The same over the number of its NPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_npu_usd: Option<f64>,
    /// Power of the fabric, as far as the list says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Performance per dollar: training iterations a second over `cost_usd`. None where no step was completed, or where
    /// several jobs have steps of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_usd: Option<f64>,
    /// The same over `power_w`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_w: Option<f64>,
    /// The jobs, where there are several on the fabric; else none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSummary>,
    /// Messages delivered.
    pub messages: u64,
    /// Bytes sent: each message counts once, whatever links it takes.
    pub bytes: u64,
    /// Events that the engine handled.
    pub events: u64,
    /// Per dimension.
    pub dims: Vec<DimSummary>,
    /// Where the model was too quick; none where every link can carry what it was to, or the model lets messages wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// What became of packets; none where the network model has no packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// What the critical path of the first steps is spent on, longest first; empty where no time passes.
    #[serde(default)]
    pub critical_path: Vec<PathPart>,
    /// What most of the critical path is spent on, so that making it faster helps most: the name of a tier of links, or
    /// `compute`, `bubble`, `skew` between ranks, `memory`, `reduction`, `latency`, `timeout`; `nothing` where no time passes.
    pub bottleneck: String,
    /// Why, in a sentence or two.
    pub reason: String,
    /// How the numbers were obtained: network model.
    pub network_model: String,
    /// How the numbers were obtained: compute model.
    pub compute_model: String,
    /// Whether a parameter was calibrated against measurements, and which.
    pub calibrated: String,
    /// Assumptions that the run had to make, one sentence each.
    pub notes: Vec<String>,
}
