//! The summary: the main results in a few numbers.

use crate::schema::{Name, Schema, Values, keys, words};
use serde::{Deserialize, Serialize};

words! {
    /// How a run ended.
    #[derive(Default)]
    pub enum Ended {
        /// Every rank finished.
        #[default]
        Finished = "finished",
        /// A limit was reached. All numbers describe the time before it.
        LimitReached = "limit_reached",
        /// The user interrupted the run. All numbers describe the time before that.
        Interrupted = "interrupted",
    }
}

keys! {
    /// One dimension. In a graph with several tiers of links, one tier; in any other graph, all links together.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    pub struct DimSummary {
        /// Its name.
        pub name: String,
        /// Bytes that its links carried: a message counts once on each link that it takes.
        pub carried_bytes: u64,
        /// Carried bytes over the bytes that its links could have carried in the whole run, 0 to 1.
        pub utilization: f64,
        /// Carried bytes over the bytes that its links could have carried while it had something to send, 0 to 1.
        pub utilization_while_busy: f64,
        /// Fraction of the run in which its busiest link was sending. None if messages passed some of its links at the
        /// same time, as `analytical` allows inside the network: such links have no busy times.
        pub busiest_link_busy: Option<f64>,
        /// The busiest link, such as `NPU 3 -> NPU 4`; if the fraction is none, the link that carried most for its
        /// rate.
        pub busiest_link: String,
    }
}

keys! {
    /// Totals of packets, in a network model with packets.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    pub struct Packets {
        /// Packets that NPUs sent, acknowledgements included.
        pub sent: u64,
        /// Packets dropped because a queue was full, or dropped early.
        pub dropped: u64,
        /// Packets that a queue marked (ECN).
        pub marked: u64,
        /// Number of times that a port had to pause (priority flow control). 0 in results of older versions.
        #[serde(default)]
        pub pauses: u64,
        /// Segments that were sent again.
        pub retransmissions: u64,
        /// Retransmission time-outs.
        pub timeouts: u64,
        /// Time-outs before the first round trip was measured. 0 in results of older versions.
        #[serde(default)]
        pub initial_timeouts: u64,
        /// Time in which some connection waited for its time-out while no link on its paths sent anything. 0 in results
        /// of older versions.
        #[serde(default)]
        pub stalled_s: f64,
        /// Round-trip time, sampled every millisecond and averaged for each connection: mean over connections.
        pub rtt_mean_s: f64,
        /// Median over connections.
        pub rtt_p50_s: f64,
        /// 99th percentile over connections.
        pub rtt_p99_s: f64,
    }
}

keys! {
    /// Links inside the network over which the model sent more than they can carry, because messages do not wait there. The
    /// simulated times are too short.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    pub struct Overload {
        /// The most overloaded of these links, such as `leaf 0 -> spine 1`.
        pub link: String,
        /// Number of these links.
        pub links: u64,
        /// Peak load of the most overloaded link, over its rate.
        pub times: f64,
        /// Least delay that the most overloaded link would add to some of its bytes in the first two iterations; other
        /// work may hide it.
        pub late_s: f64,
        /// Lower bound on the time of the run: the time that the most overloaded link needs for all its bytes, or
        /// `total_time_s`.
        pub least_time_s: f64,
    }
}

keys! {
    /// One of several jobs. Times are means over its ranks unless said otherwise.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    pub struct JobSummary {
        /// Name of the job.
        pub name: String,
        /// Number of its ranks.
        pub ranks: u64,
        /// Training iterations that its ranks completed.
        pub iterations: u64,
        /// Time at which it began.
        pub start_s: f64,
        /// Time at which its last rank finished.
        pub finish_s: f64,
        /// Time from its start to its finish, over iterations.
        pub step_time_s: f64,
        /// Time in which compute was busy.
        pub compute_s: f64,
        /// Time in which compute was idle only because it waited for communication.
        pub exposed_communication_s: f64,
        /// Exposed communication over the time from its start to its finish.
        pub exposed_fraction: f64,
        /// Time in which at least one communication of the rank was in progress.
        pub communication_s: f64,
        /// Bytes that its ranks sent.
        pub sent_bytes: u64,
        /// Step time of the same job alone on the fabric; none if a run was cut off.
        pub alone_step_time_s: Option<f64>,
        /// Step time over `alone_step_time_s`: the slowdown that the other jobs cause.
        pub slowdown: Option<f64>,
        /// Its training iterations per second over the price of the whole fabric; none without prices, or without a
        /// step.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub iterations_per_s_per_usd: Option<f64>,
        /// Its training iterations per second over the power of the whole fabric; none if no price list gives power.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub iterations_per_s_per_w: Option<f64>,
    }
}

keys! {
    /// The rate of work of a training job. Each number is `None` if it is not known.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    #[serde(default)]
    pub struct WorkRates {
        /// Parameters of the model. Only training jobs have this key and the rates of work that follow.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub parameters: Option<u64>,
        /// Samples in a step over all copies of the model: the global batch. None if the number of samples that layers
        /// are for is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub samples_per_step: Option<u64>,
        /// Tokens of these samples; none if samples have no tokens.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tokens_per_step: Option<u64>,
        /// Samples per step over step time.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub samples_per_s: Option<f64>,
        /// Tokens per step over step time.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub tokens_per_s: Option<f64>,
        /// Model FLOP per second of one NPU, in TFLOP/s: those of the matrix products in the model's forward and
        /// backward pass, about six for each parameter and token, plus attention. Recomputation does not count, nor do
        /// scores that causal attention masks.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub model_tflop_per_s_per_npu: Option<f64>,
        /// Model FLOP utilisation, 0 to 1: `model_tflop_per_s_per_npu` over the peak rate of an NPU (Chowdhery et al.
        /// 2022, 4.1). None if the compute model has no peak.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mfu: Option<f64>,
        /// Model FLOP utilisation that counts all scores of causal attention, as for PaLM; none if equal to `mfu`.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mfu_unmasked: Option<f64>,
        /// Hardware FLOP utilisation, 0 to 1: all matrix products that are computed, including recomputation, over the
        /// peak rate.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hfu: Option<f64>,
    }
}

keys! {
    /// Exposed communication along one axis of the mesh.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    pub struct AxisSummary {
        /// Kind of parallelism: the role of the groups that communicate, such as `data`; `pipeline`; or
        /// `point_to_point`.
        pub name: String,
        /// Its share of the exposed communication.
        pub exposed_communication_s: f64,
    }
}

words! {
    /// What a part of the critical path is spent on.
    pub enum PathKind {
        /// Compute, up to the mean compute time of all ranks.
        Compute = "compute",
        /// Compute beyond that of the rank that computes longest: work that ranks do one after the other.
        Bubble = "bubble",
        /// Compute beyond the mean of all ranks, up to that of the rank that computes longest.
        Skew = "skew",
        /// Memory operations and host operations.
        Memory = "memory",
        /// Combining received data with local data.
        Reduction = "reduction",
        /// Bytes of messages, at the rate of the links.
        Bytes = "bytes",
        /// Messages that wait for other messages on shared links.
        Queueing = "queueing",
        /// Latency of links, injection and endpoints.
        Latency = "latency",
        /// Connections that send nothing until a retransmission time-out.
        Timeout = "timeout",
    }
}

keys! {
    /// A part of the critical path.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub struct PathPart {
        /// What this part of the path is spent on.
        pub kind: PathKind,
        /// The tier of links, for bytes and queueing; else empty.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tier: Option<String>,
        /// Length of the part, over the steps that the path covers.
        pub time_s: f64,
        /// Its share of the path, in thousandths; the shares of all parts add up to 1000.
        pub per_mille: u32,
        /// Time by which these steps would become shorter if the resource were twice as fast, including all other use
        /// of the same tier of links; for latency, bubble, skew and time-outs, if there were none.
        pub saves_s: f64,
    }
}

/// The part of the critical path that saves most if it is made faster.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Bottleneck {
    /// No time passes.
    #[default]
    Nothing,
    /// The links of a tier.
    Links {
        /// Name of the tier.
        tier: String,
    },
    /// Communication whose links are not known.
    Communication,
    /// Compute.
    Compute,
    /// Work that stages of a pipeline do one after the other.
    Bubble,
    /// Ranks that compute longer than others.
    Skew,
    /// Memory operations and host operations.
    Memory,
    /// Combining received data with local data.
    Reduction,
    /// Latency of links, injection and endpoints.
    Latency,
    /// Connections that send nothing until a retransmission time-out.
    Timeout,
}

impl Bottleneck {
    /// Its keys in the summary and their meanings.
    pub const SCHEMA: Schema = Schema {
        name: "summary",
        meaning: "The part of the critical path that saves most if it is made faster.",
        names: &[
            Name {
                name: "kind",
                values: r#"text: "links", "compute", "bubble", "skew", "memory", "reduction", "latency", "timeout", "communication", "nothing""#,
                meaning: "What it is: the `links` of a tier, `compute`, the `bubble` of a pipeline, `skew` between \
                          ranks, `memory`, `reduction`, `latency`, `timeout`; `communication` if its links are not \
                          known; `nothing` if no time passes.",
            },
            Name {
                name: "tier",
                values: <String as Values>::NAME,
                meaning: "Name of the tier of links; only if `kind` is `links`.",
            },
        ],
    };

    /// Its name on screens: the tier of its links, or its kind.
    pub fn name(&self) -> &str {
        match self {
            Self::Nothing => "nothing",
            Self::Links { tier } => tier,
            Self::Communication => "communication",
            Self::Compute => PathKind::Compute.name(),
            Self::Bubble => PathKind::Bubble.name(),
            Self::Skew => PathKind::Skew.name(),
            Self::Memory => PathKind::Memory.name(),
            Self::Reduction => PathKind::Reduction.name(),
            Self::Latency => PathKind::Latency.name(),
            Self::Timeout => PathKind::Timeout.name(),
        }
    }
}

impl From<&PathPart> for Bottleneck {
    /// The bottleneck to which a part of the critical path belongs.
    fn from(part: &PathPart) -> Self {
        if let Some(tier) = &part.tier {
            return Self::Links { tier: tier.clone() };
        }
        match part.kind {
            PathKind::Bytes | PathKind::Queueing => Self::Communication,
            PathKind::Compute => Self::Compute,
            PathKind::Bubble => Self::Bubble,
            PathKind::Skew => Self::Skew,
            PathKind::Memory => Self::Memory,
            PathKind::Reduction => Self::Reduction,
            PathKind::Latency => Self::Latency,
            PathKind::Timeout => Self::Timeout,
        }
    }
}

keys! {
    /// The main results of a run. Times are means over ranks unless said otherwise.
    #[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
    pub struct Summary {
        /// How the run ended. All numbers describe the time before that.
        pub ended: Ended,
        /// Ranks in the job.
        pub ranks: u64,
        /// Ranks that were simulated; each of the others is equal to one of them. 0 in results of older versions.
        pub simulated_ranks: u64,
        /// NPUs in the fabric.
        pub npus: u64,
        /// Degrees of parallelism, such as `tensor 8 x data 4`; empty if the workload does not give them.
        #[serde(default)]
        pub parallelism: String,
        /// Training iterations that every rank completed; 1 if the workload has none.
        pub iterations: u64,
        /// Iterations that were simulated; each of the others is equal to one of them. 0 in results of older versions.
        pub simulated_iterations: u64,
        /// Micro-batches in an iteration; only if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub micro_batches: Option<u64>,
        /// Micro-batches that were simulated, over all iterations; each of the others is equal to one of them. Only if
        /// an iteration has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub simulated_micro_batches: Option<u64>,
        /// Simulated time until the last rank finished.
        pub total_time_s: f64,
        /// Total time over iterations; total time if the run was cut off in its first iteration.
        pub step_time_s: f64,
        /// Time in which compute was busy.
        pub compute_s: f64,
        /// Time in which compute was idle only because it waited for the network.
        pub exposed_communication_s: f64,
        /// Exposed communication by axis of the mesh.
        #[serde(default)]
        pub exposed_by_axis: Vec<AxisSummary>,
        /// Time in which compute was idle because another stage of the pipeline had not sent yet, or had not finished.
        #[serde(default)]
        pub bubble_s: f64,
        /// Time in which compute was idle because another rank had not begun a collective yet, or had not finished.
        #[serde(default)]
        pub skew_s: f64,
        /// Time in which compute was idle because there was nothing to do.
        #[serde(default)]
        pub idle_s: f64,
        /// Time in which compute was idle only because it waited for memory operations.
        pub exposed_memory_s: f64,
        /// Exposed communication over total time.
        pub exposed_fraction: f64,
        /// Time in which at least one communication of the rank was in progress.
        pub communication_s: f64,
        /// The rate of work, if the job is training.
        #[serde(flatten)]
        pub work: WorkRates,
        /// The faults, one sentence each: what was slow or broken.
        #[serde(default)]
        pub faults: Vec<String>,
        /// Step time of the same job on a cluster without these faults; none without faults, or if a run was cut off.
        #[serde(default)]
        pub healthy_step_time_s: Option<f64>,
        /// Cost of the faults: step time minus `healthy_step_time_s`.
        #[serde(default)]
        pub fault_cost_s: Option<f64>,
        /// Name of the price list. Only scenarios with `prices` have this key and the other keys of cost and power.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub prices: Option<String>,
        /// Price of the fabric; the table `costs` lists its items.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cost_usd: Option<f64>,
        /// Price of the fabric over its number of NPUs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cost_per_npu_usd: Option<f64>,
        /// Power of the fabric, as far as the price list gives it; none if it gives no power.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub power_w: Option<f64>,
        /// Performance per dollar: training iterations per second, `1 / step_time_s`, over `cost_usd`. None if no step
        /// was completed, or if several jobs have their own steps.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub iterations_per_s_per_usd: Option<f64>,
        /// Performance per watt: training iterations per second over `power_w`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub iterations_per_s_per_w: Option<f64>,
        /// The jobs, if there are several on the fabric. Then `iterations` is 1 once every job has completed one, and
        /// the step time is the total time.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub jobs: Vec<JobSummary>,
        /// Messages delivered.
        pub messages: u64,
        /// Bytes sent: each message counts once, whatever links it takes.
        pub bytes: u64,
        /// Events that the engine handled.
        pub events: u64,
        /// Use of each dimension.
        pub dims: Vec<DimSummary>,
        /// Links on which the network model was too optimistic; none if no link had to send more than it can carry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub overload: Option<Overload>,
        /// Counts and round-trip times of packets; none if the network model has no packets.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub packets: Option<Packets>,
        /// Parts of the critical path of the first steps, longest first; empty if no time passes.
        #[serde(default)]
        pub critical_path: Vec<PathPart>,
        /// The part of the critical path that saves most if it is made faster.
        pub bottleneck: Bottleneck,
        /// Why it is the bottleneck, in a sentence or two.
        pub reason: String,
        /// The network model that was used.
        pub network_model: String,
        /// The compute model that was used.
        pub compute_model: String,
        /// Whether a parameter was calibrated against measurements, and which.
        pub calibrated: String,
        /// Assumptions that the run had to make, one sentence each.
        pub notes: Vec<String>,
    }
}

#[cfg(test)]
mod tests {
    use super::{Bottleneck, PathKind};

    /// The words of a bottleneck are the same on screens, in files and in the reference.
    #[test]
    fn a_bottleneck_is_written_as_it_is_named() {
        let links = Bottleneck::Links { tier: "rail".to_owned() };
        let all = [
            Bottleneck::Nothing,
            Bottleneck::Communication,
            Bottleneck::Compute,
            Bottleneck::Bubble,
            Bottleneck::Skew,
            Bottleneck::Memory,
            Bottleneck::Reduction,
            Bottleneck::Latency,
            Bottleneck::Timeout,
        ];
        let mut words: Vec<&str> = all.iter().map(Bottleneck::name).collect();
        for one in &all {
            assert_eq!(serde_json::to_value(one).unwrap(), serde_json::json!({"kind": one.name()}));
        }
        assert_eq!(
            serde_json::to_value(&links).unwrap(),
            serde_json::json!({"kind": "links", "tier": "rail"})
        );
        words.push("links");
        words.sort_unstable();
        let listed = Bottleneck::SCHEMA.names[0].values.strip_prefix("text: ").unwrap();
        let mut listed: Vec<&str> = listed.split(", ").map(|word| word.trim_matches('"')).collect();
        listed.sort_unstable();
        assert_eq!(listed, words);
        assert_eq!(serde_json::to_value(PathKind::Timeout).unwrap(), "timeout");
    }
}
