//! The summary: the main results in a few numbers.

use serde::{Deserialize, Serialize};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every rank finished.
    #[default]
    Finished,
    /// A limit was reached. All numbers describe the time before it.
    LimitReached,
    /// The user interrupted the run. All numbers describe the time before that.
    Interrupted,
}

/// One dimension. In a graph with several tiers of links, one tier; in any other graph, all links together.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct DimSummary {
    /// Its name.
    pub name: String,
    /// Bytes that its links carried. A message counts once on each link of its path.
    pub carried_bytes: u64,
    /// Carried bytes divided by the bytes that its links could have carried in the whole run, 0 to 1. No link counts
    /// for more than it can carry.
    pub utilization: f64,
    /// Carried bytes divided by the bytes that its links could have carried while the dimension had something to send,
    /// 0 to 1.
    pub utilization_while_busy: f64,
    /// Fraction of the run in which its busiest link was sending. `None` if some of its links have no sending times:
    /// `analytical` books none for links inside the network, where messages do not wait for each other.
    pub busiest_link_busy: Option<f64>,
    /// The busiest link, such as `NPU 3 -> NPU 4`. If sending times are missing, the link with most bytes for its rate.
    pub busiest_link: String,
}

/// Totals of packets, in a network model with packets.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Packets {
    /// Packets that NPUs sent, acknowledgements included.
    pub sent: u64,
    /// Packets that were dropped because a queue was full, or early.
    pub dropped: u64,
    /// Packets that a queue marked (ECN).
    pub marked: u64,
    /// How often a port had to pause (priority flow control).
    #[serde(default)]
    pub pauses: u64,
    /// Segments that were sent again.
    pub retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Retransmission time-outs before a round trip was measured.
    #[serde(default)]
    pub initial_timeouts: u64,
    /// Time in which some connection waited for its time-out while no link on its paths sent anything.
    #[serde(default)]
    pub stalled_s: f64,
    /// Round-trip time, sampled every millisecond and averaged for each connection: mean over connections.
    pub rtt_mean_s: f64,
    /// Median over connections.
    pub rtt_p50_s: f64,
    /// 99th percentile over connections.
    pub rtt_p99_s: f64,
}

/// Links inside the network over which the model sent more than they can carry, because messages do not wait there. The
/// simulated times are too short.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Overload {
    /// The link with the largest excess, such as `leaf 0 -> spine 1`.
    pub link: String,
    /// Number of such links.
    pub links: u64,
    /// Largest ratio of the bytes that the model sent over that link in a slice of time to the bytes that the link can
    /// carry.
    pub times: f64,
    /// How much later, at least, the link would send some of its bytes in the first two iterations. Other work may hide
    /// this.
    pub late_s: f64,
    /// Lower bound on the time of the run: the time that the fullest link needs for all its bytes, or `total_time_s` if
    /// that is longer.
    pub least_time_s: f64,
}

/// One of several jobs. Times are means over its ranks unless said otherwise.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct JobSummary {
    /// Its name.
    pub name: String,
    /// Number of its ranks.
    pub ranks: u64,
    /// Training iterations that its ranks completed.
    pub iterations: u64,
    /// When it started.
    pub start_s: f64,
    /// When its last rank finished.
    pub finish_s: f64,
    /// Time from start to finish, divided by the number of iterations.
    pub step_time_s: f64,
    /// Time in which compute was busy.
    pub compute_s: f64,
    /// Time in which compute was idle only because it waited for communication.
    pub exposed_communication_s: f64,
    /// `exposed_communication_s` divided by the time from start to finish.
    pub exposed_fraction: f64,
    /// Time in which at least one communication of the rank was in progress.
    pub communication_s: f64,
    /// Bytes that its ranks sent.
    pub sent_bytes: u64,
    /// Step time of the same job alone on the fabric; `None` if one of the two runs was cut off.
    pub alone_step_time_s: Option<f64>,
    /// `step_time_s` divided by `alone_step_time_s`.
    pub slowdown: Option<f64>,
    /// Its training iterations per second, divided by the price of the whole fabric; `None` without prices or without a
    /// complete step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_usd: Option<f64>,
    /// Its training iterations per second, divided by the power of the whole fabric; `None` without these or without a
    /// complete step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_w: Option<f64>,
}

/// The rate of work of a training job. Each number is `None` if it is not known.
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
    /// Model FLOP per second of one NPU, in TFLOP/s: operations of the matrix products that the model's forward and
    /// backward pass need, without recomputation and without scores that causal attention masks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tflop_per_s_per_npu: Option<f64>,
    /// Model FLOP utilisation, 0 to 1: `model_tflop_per_s_per_npu` divided by the peak of an NPU (Chowdhery et al.
    /// 2022, 4.1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// Model FLOP utilisation that counts all scores of causal attention, as PaLM's authors do; `None` if it equals
    /// `mfu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu_unmasked: Option<f64>,
    /// Hardware FLOP utilisation, 0 to 1: operations of all matrix products that NPUs compute, including recomputation,
    /// divided by the peak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hfu: Option<f64>,
}

/// Exposed communication along one axis of the mesh.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct AxisSummary {
    /// The role of the groups that communicate, such as `data`; or `pipeline` or `point_to_point`.
    pub name: String,
    /// Its part of the summary's `exposed_communication_s`.
    pub exposed_communication_s: f64,
}

/// What a part of the critical path is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// Compute, up to the mean compute time of all ranks.
    Compute,
    /// Compute beyond that of the rank that computes longest: work that ranks do one after the other.
    Bubble,
    /// Compute beyond the mean of all ranks, up to that of the rank that computes longest.
    Skew,
    /// Memory operations and host operations.
    Memory,
    /// Combining received data with local data.
    Reduction,
    /// Bytes of messages, at the rate of the links.
    Bytes,
    /// Messages that wait for other messages on shared links.
    Queueing,
    /// Latency of links, injection and endpoints.
    Latency,
    /// Connections that send nothing until a retransmission time-out.
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
    /// What the part is spent on.
    pub kind: PathKind,
    /// For bytes and queueing, the tier of links; otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier: String,
    /// Length of the part, in the steps that the path covers.
    pub time_s: f64,
    /// Its share of the path, in thousandths. The shares of all parts add up to 1000.
    pub per_mille: u32,
    /// How much shorter these steps would be if this part, with all other parts of the same tier of links, were twice
    /// as fast. For latency, bubble, skew and time-outs: if there were none.
    pub saves_s: f64,
}

/// The main results of a run. Times are means over ranks unless said otherwise.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Summary {
    /// How the run ended.
    pub ended: Ended,
    /// Ranks in the job.
    pub ranks: u64,
    /// Ranks that were simulated. Each of the others behaves like one of them.
    pub simulated_ranks: u64,
    /// NPUs in the fabric.
    pub npus: u64,
    /// Sizes of the parallel axes, such as `model 8 x data 4`; empty if the workload does not give them.
    #[serde(default)]
    pub parallelism: String,
    /// Training iterations that every rank completed (1 if the workload has none).
    pub iterations: u64,
    /// Iterations that were simulated. Each of the others behaves like one of them.
    pub simulated_iterations: u64,
    /// Micro-batches of an iteration; `None` if it has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<u64>,
    /// Micro-batches of all iterations that were simulated. Each of the others behaves like one of them. `None` if an
    /// iteration has only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulated_micro_batches: Option<u64>,
    /// Simulated time until the last rank finished.
    pub total_time_s: f64,
    /// `total_time_s / iterations`; `total_time_s` if the run was cut off in its first iteration.
    pub step_time_s: f64,
    /// Time in which compute was busy.
    pub compute_s: f64,
    /// Time in which compute was idle only because it waited for the network.
    pub exposed_communication_s: f64,
    /// `exposed_communication_s` by axis of the mesh, such as `tensor`, `data` and `pipeline`.
    #[serde(default)]
    pub exposed_by_axis: Vec<AxisSummary>,
    /// Time in which compute was idle because another stage of the pipeline had not sent a message yet, or had not
    /// finished the run yet.
    #[serde(default)]
    pub bubble_s: f64,
    /// Time in which compute was idle because another rank had not begun a collective yet, or had not finished the run
    /// yet.
    #[serde(default)]
    pub skew_s: f64,
    /// Time in which compute was idle because there was nothing to do.
    #[serde(default)]
    pub idle_s: f64,
    /// Time in which compute was idle only because it waited for memory operations.
    pub exposed_memory_s: f64,
    /// `exposed_communication_s / total_time_s`.
    pub exposed_fraction: f64,
    /// Time in which at least one communication of the rank was in progress.
    pub communication_s: f64,
    /// The rate of work, if the job is training.
    #[serde(flatten)]
    pub work: WorkRates,
    /// Slow or broken parts, one sentence for each.
    #[serde(default)]
    pub faults: Vec<String>,
    /// Step time of the same job without these faults; `None` if there are no faults, or if one of the two runs was cut
    /// off.
    #[serde(default)]
    pub healthy_step_time_s: Option<f64>,
    /// What the faults cost: `step_time_s` less `healthy_step_time_s`.
    #[serde(default)]
    pub fault_cost_s: Option<f64>,
    /// Name of the price list; `None` if the scenario has no prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<String>,
    /// Price of the fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Price of the fabric divided by the number of its NPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_per_npu_usd: Option<f64>,
    /// Power of the fabric, as far as the price list gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Performance per dollar: training iterations per second, divided by `cost_usd`. `None` if no step was completed,
    /// and with several jobs, each of which has its own steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_usd: Option<f64>,
    /// Performance per watt: training iterations per second, divided by `power_w`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations_per_s_per_w: Option<f64>,
    /// The jobs, if there are several; otherwise empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSummary>,
    /// Messages delivered.
    pub messages: u64,
    /// Bytes sent. Each message counts once, whatever its path.
    pub bytes: u64,
    /// Events that the engine handled.
    pub events: u64,
    /// The dimensions or tiers of the fabric.
    pub dims: Vec<DimSummary>,
    /// Links that the model loaded with more than they can carry; `None` if there are none, or if messages wait in the
    /// model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<Overload>,
    /// Totals of packets; `None` if the network model has no packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Packets>,
    /// The parts of the critical path of the first steps, longest first; empty if no time passes.
    #[serde(default)]
    pub critical_path: Vec<PathPart>,
    /// The part of the critical path that saves most if it is made faster: the name of a tier of links, or `compute`,
    /// `bubble`, `skew` between ranks, `memory`, `reduction`, `latency`, `timeout`; `nothing` if no time passes.
    pub bottleneck: String,
    /// Why this is the bottleneck, in a few sentences.
    pub reason: String,
    /// The network model that gave the numbers.
    pub network_model: String,
    /// The compute model that gave the numbers.
    pub compute_model: String,
    /// Whether a parameter was calibrated against measurements, and which.
    pub calibrated: String,
    /// Assumptions that the run had to make, one sentence for each.
    pub notes: Vec<String>,
}
