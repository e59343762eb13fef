//! The tables of a run: names, columns, units and meanings, declared once.
//!
//! A comment on a column is its meaning, as manifests, `syncline explain` and the documentation print it. A column's name
//! ends in its unit ([`unit`](crate::schema::unit)).

use crate::schema::table;

table! {
    /// A layer; times are means over ranks and iterations
    "layers" => pub struct Layers {
        /// Name of the layer
        pub layer: Vec<String>,
        /// Compute of the forward pass
        pub forward_compute_s: Vec<f64>,
        /// Compute of the gradient with respect to the input
        pub input_grad_compute_s: Vec<f64>,
        /// Compute of the gradient with respect to the parameters
        pub weight_grad_compute_s: Vec<f64>,
        /// Compute of the parameter update
        pub update_compute_s: Vec<f64>,
        /// All compute of the layer
        pub compute_s: Vec<f64>,
        /// Raw time (from issue to result) of collectives after the forward pass
        pub forward_communication_s: Vec<f64>,
        /// Raw time of collectives of input gradients
        pub input_grad_communication_s: Vec<f64>,
        /// Raw time of collectives of weight gradients
        pub weight_grad_communication_s: Vec<f64>,
        /// Raw time of all collectives of the layer; may overlap compute and other layers
        pub communication_s: Vec<f64>,
        /// Time in which compute was idle only because it waited for this layer's communication
        pub exposed_communication_s: Vec<f64>,
        /// Size of the layer's collectives, per rank and iteration
        pub collective_bytes: Vec<i64>,
        /// Part of `exposed_communication_s` after a rank's last forward or backward compute. It occurs
        /// once per run, because no further iteration hides it
        pub exposed_at_end_s: Vec<f64>,
    }
}

table! {
    /// One collective of one group, over all its ranks, in the order in which they finished
    "collectives" => pub struct Collectives {
        /// Layer that it belongs to
        pub layer: Vec<String>,
        /// Part of the layer
        pub part: Vec<String>,
        /// Training iteration, from 0
        pub iteration: Vec<i64>,
        /// Which collective it is, such as `all_reduce`
        pub kind: Vec<String>,
        /// Role of its group, and the group's number within the role
        pub group: Vec<String>,
        /// Ranks that take part
        pub group_ranks: Vec<i64>,
        /// Its size: the full vector (all-reduce, all-gather, broadcast, reduce) or one rank's input
        /// (reduce-scatter, all-to-all)
        pub size_bytes: Vec<i64>,
        /// Algorithm and collective of each phase
        pub algorithm: Vec<String>,
        /// Number of chunks into which its data is cut
        pub chunks: Vec<i64>,
        /// When the first rank issued it
        pub issue_s: Vec<f64>,
        /// When the last rank issued it
        pub last_issue_s: Vec<f64>,
        /// When the last rank had its result
        pub finish_s: Vec<f64>,
        /// From first issue to last result
        pub duration_s: Vec<f64>,
        /// From issue to result, mean over ranks
        pub mean_duration_s: Vec<f64>,
        /// Mean time of a chunk in the ready queue (P0 of astra2020 Fig. 12b)
        pub ready_queue_delay_s: Vec<f64>,
        /// Size over duration (`algbw` of nccl-tests)
        pub algorithm_bytes_per_s: Vec<f64>,
        /// Algorithm bandwidth times the collective's factor, comparable with link rates (`busbw` of
        /// nccl-tests)
        pub bus_bytes_per_s: Vec<f64>,
        /// Lower bound on the plan's time
        pub bound_s: Vec<f64>,
        /// Groups that this row represents; more than 1 only where one row for each would make the table
        /// too long
        pub groups: Vec<i64>,
        /// Job that it belongs to; empty if the scenario has only one
        pub job: Vec<String>,
        /// Whether syncline chose the algorithm of at least one phase as the quickest; false if the
        /// scenario names them all
        pub chosen: Vec<bool>,
        /// Algorithm that NCCL chooses, such as `ring` or `nvls`, or that of a framework's kernels in its place, such as
        /// `one_shot`; empty without a calibrated NCCL
        pub nccl_algorithm: Vec<String>,
        /// Protocol that NCCL chooses: `LL`, `LL128` or `Simple`; empty for other kernels, and without a calibrated NCCL
        pub nccl_protocol: Vec<String>,
        /// Channels that NCCL uses: `all`, or `fewer` for few bytes; empty for other kernels, and without a calibrated NCCL
        pub nccl_channels: Vec<String>,
        /// Time of the collective alone by the calibrated model; 0 without one
        pub nccl_s: Vec<f64>,
    }
}

table! {
    /// One phase of one collective, over all its ranks and chunks
    "phases" => pub struct Phases {
        /// Row of `collectives.parquet`, from 0
        pub collective: Vec<i64>,
        /// Layer that it belongs to
        pub layer: Vec<String>,
        /// Number of the phase, from 1 (P1 of astra2020 Fig. 12b)
        pub phase: Vec<i64>,
        /// Dimension in which it runs; in a graph with several tiers of links, the tier of the slowest
        /// links that it uses
        pub dimension: Vec<String>,
        /// Collective that the phase runs along its dimension
        pub kind: Vec<String>,
        /// Algorithm of the phase
        pub algorithm: Vec<String>,
        /// Ranks along the dimension
        pub ranks: Vec<i64>,
        /// Mean time of a chunk in the phase's scheduling queue
        pub queue_delay_s: Vec<f64>,
        /// Mean time of a message from send to arrival
        pub network_delay_s: Vec<f64>,
        /// Mean time to combine a received message with local data
        pub reduction_s: Vec<f64>,
        /// Messages received
        pub messages: Vec<i64>,
        /// Bytes received
        pub message_bytes: Vec<i64>,
        /// Whether syncline chose the algorithm as the quickest; false if the scenario names it
        pub chosen: Vec<bool>,
    }
}

table! {
    /// A directed link of the fabric
    "links" => pub struct Links {
        /// Its number
        pub link: Vec<i64>,
        /// Dimension that it belongs to; in a graph with several tiers of links, its tier
        pub dimension: Vec<String>,
        /// Vertex that sends
        pub from: Vec<String>,
        /// Vertex that receives
        pub to: Vec<String>,
        /// Payload rate
        pub rate_bytes_per_s: Vec<f64>,
        /// Bytes that passed it
        pub carried_bytes: Vec<i64>,
        /// Messages that passed it
        pub messages: Vec<i64>,
        /// Time in which it was sending. With `analytical`, a message counts only on the first and the last
        /// link of its path
        pub busy_s: Vec<f64>,
        /// Fraction of the run in which it was sending; empty if `busy_s` does not count all its messages
        pub utilization: Vec<Option<f64>>,
        /// Time that messages waited for it, summed over messages
        pub waiting_s: Vec<f64>,
        /// Links that this row represents; more than 1 only where one row for each would make the table too
        /// long
        pub links: Vec<i64>,
        /// Tier of links that it belongs to, such as `leaf-spine`; in a fabric of dimensions, its dimension
        pub tier: Vec<String>,
        /// `up` (away from NPUs) or `down`; empty between vertices of the same level
        pub way: Vec<String>,
    }
}

table! {
    /// A rank
    "ranks" => pub struct Ranks {
        /// Its number
        pub rank: Vec<i64>,
        /// When it finished
        pub finish_s: Vec<f64>,
        /// Time in which compute was busy
        pub compute_s: Vec<f64>,
        /// Time in which compute was idle only because it waited for the network
        pub exposed_communication_s: Vec<f64>,
        /// Time in which compute was idle only because it waited for memory operations or the host
        pub exposed_memory_s: Vec<f64>,
        /// Time in which at least one communication was in progress
        pub communication_s: Vec<f64>,
        /// Bytes sent
        pub sent_bytes: Vec<i64>,
        /// Bytes received
        pub received_bytes: Vec<i64>,
        /// Ranks that this row represents; more than 1 only where one row for each would make the table too
        /// long
        pub ranks: Vec<i64>,
        /// Part of `exposed_communication_s` after the rank's last forward or backward compute
        pub exposed_at_end_s: Vec<f64>,
        /// Time in which compute was idle because another rank had not yet sent a message that it waited
        /// for
        pub bubble_s: Vec<f64>,
        /// Time in which compute was idle because another rank had not yet begun a collective that it
        /// waited for
        pub skew_s: Vec<f64>,
    }
}

table! {
    /// A time slice of compute, or of a dimension or tier of links, in the first two iterations
    "activity" => pub struct Activity {
        /// `compute`, or the name of a dimension or tier
        pub dimension: Vec<String>,
        /// Start of the slice
        pub start_s: Vec<f64>,
        /// End of the slice
        pub end_s: Vec<f64>,
        /// Bytes sent, divided by the bytes that all links of the dimension could have carried; for
        /// compute, the mean share of the time in which a rank's compute was busy
        pub utilization: Vec<f64>,
        /// Utilization of the busiest link; for compute, of the busiest rank
        pub busiest_utilization: Vec<f64>,
        /// What the slice is of: `compute`, or the `links` of a dimension or tier, which may be called `compute`, too
        pub kind: Vec<String>,
    }
}

/// What a row of [`Activity`] is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// Compute of all ranks.
    Compute,
    /// The links of a dimension or tier.
    Links,
}

impl ActivityKind {
    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Links => "links",
        }
    }
}

table! {
    /// A segment of the critical path of the first iterations. The path leads back from the task that ended
    /// last, each time to the activity that it waited for last. Messages of one phase of a collective are added
    /// up, whichever ranks send them
    "critical_path" => pub struct CriticalPath {
        /// When the segment starts
        pub start_s: Vec<f64>,
        /// When the segment ends
        pub end_s: Vec<f64>,
        /// Rank that executes the task
        pub rank: Vec<i64>,
        /// `compute`, `memory`, `reduction`; for messages `bytes`, `latency`, or `queueing` behind others
        /// on shared links
        pub kind: Vec<String>,
        /// Layer that it belongs to
        pub layer: Vec<String>,
        /// Part of the layer
        pub part: Vec<String>,
        /// Name of the task
        pub what: Vec<String>,
        /// Dimension of the phase of the collective that it belongs to
        pub dimension: Vec<String>,
        /// Tier of links that the bytes pass or wait for
        pub tier: Vec<String>,
    }
}

table! {
    /// A port that sent packets: the queue in front of a link, with `packet`
    "ports" => pub struct Ports {
        /// Number of the link
        pub link: Vec<i64>,
        /// Where the queue is
        pub from: Vec<String>,
        /// Where its link leads
        pub to: Vec<String>,
        /// Packets sent
        pub packets: Vec<i64>,
        /// Packets that found no room or were dropped early
        pub dropped: Vec<i64>,
        /// Packets that it marked (ECN)
        pub marked: Vec<i64>,
        /// Mean queue over the run
        pub mean_queue_bytes: Vec<f64>,
        /// Longest queue that a packet met
        pub longest_queue_bytes: Vec<i64>,
        /// How often it was paused (priority flow control)
        pub pauses: Vec<i64>,
        /// Time that it was paused
        pub paused_s: Vec<f64>,
        /// Longest queue that it may have; none if the ports of its switch share the buffer, or if it is
        /// unlimited
        pub limit_bytes: Vec<Option<f64>>,
    }
}

table! {
    /// One direction of a connection, with `packet`
    "flows" => pub struct Flows {
        /// NPU that sends
        pub from: Vec<String>,
        /// NPU that receives
        pub to: Vec<String>,
        /// Which of several paths it takes
        pub lane: Vec<i64>,
        /// Payload written to it
        pub bytes: Vec<i64>,
        /// Its packets that were dropped, acknowledgements included
        pub dropped: Vec<i64>,
        /// Packets that arrived marked (ECN)
        pub marked: Vec<i64>,
        /// Segments sent again
        pub retransmissions: Vec<i64>,
        /// Retransmission time-outs
        pub timeouts: Vec<i64>,
        /// Fast recoveries
        pub recoveries: Vec<i64>,
        /// Mean of its round-trip times, sampled every millisecond of simulated time; 0 without a sample
        pub rtt_s: Vec<f64>,
        /// Paths that its packets take in turn (packet spraying)
        pub paths: Vec<i64>,
        /// Highest dimension on its path, whose transport it uses
        pub dimension: Vec<String>,
        /// Number of the job that it belongs to, if several jobs share the fabric; else 0
        pub job: Vec<i64>,
    }
}

table! {
    /// The switches of a dimension during a slice of time, with `packet`
    "queues" => pub struct Queues {
        /// Name of the dimension
        pub dimension: Vec<String>,
        /// Start of the slice
        pub start_s: Vec<f64>,
        /// End of the slice
        pub end_s: Vec<f64>,
        /// Mean queue of a port, from how long this slice's packets waited
        pub mean_queue_bytes: Vec<f64>,
        /// Longest queue that a packet met
        pub longest_queue_bytes: Vec<i64>,
        /// Packets that found no room or were dropped early
        pub dropped: Vec<i64>,
        /// Packets that were marked (ECN)
        pub marked: Vec<i64>,
        /// Segments sent again
        pub retransmissions: Vec<i64>,
        /// Retransmission time-outs
        pub timeouts: Vec<i64>,
        /// How often a port was paused
        pub pauses: Vec<i64>,
    }
}

table! {
    /// A retransmission time-out, with `packet`: a connection sent nothing until its timer expired; the 65,536
    /// longest
    "timeouts" => pub struct Timeouts {
        /// NPU that sends
        pub from: Vec<i64>,
        /// NPU that receives
        pub to: Vec<i64>,
        /// Lane of the connection, which selects its path
        pub lane: Vec<i64>,
        /// When its timer was last started
        pub start_s: Vec<f64>,
        /// When the timer expired
        pub end_s: Vec<f64>,
        /// How long, until then, no link on the connection's paths in either direction had sent anything:
        /// at least this much time was lost
        pub idle_s: Vec<f64>,
        /// Whether no round trip had been measured, so that the time-out was `initial_timeout`
        pub initial: Vec<bool>,
        /// Consecutive time-outs without progress between them, including this one
        pub in_a_row: Vec<i64>,
    }
}

table! {
    /// A line of the bill for the fabric, where the scenario has `prices`
    "costs" => pub struct Costs {
        /// Kind of component, such as `nic`, `switch`, `link`
        pub component: Vec<String>,
        /// Which part of the fabric it is for: a dimension, a tier of links or a level of switches
        pub part: Vec<String>,
        /// Which item of the price list it is, and the rule that selects it
        pub description: Vec<String>,
        /// How many
        pub quantity: Vec<i64>,
        /// Price of one
        pub unit_usd: Vec<f64>,
        /// Price of all of them
        pub cost_usd: Vec<f64>,
        /// Power of all of them; empty if the price list does not give it
        pub power_w: Vec<Option<f64>>,
    }
}

table! {
    /// One job of a scenario with several; times are means over its ranks
    "jobs" => pub struct Jobs {
        /// Name of the job
        pub job: Vec<String>,
        /// Number of its ranks. Ranks are numbered job by job, in this order
        pub ranks: Vec<i64>,
        /// Training iterations that its ranks completed
        pub iterations: Vec<i64>,
        /// When the job began
        pub start_s: Vec<f64>,
        /// When its last rank finished
        pub finish_s: Vec<f64>,
        /// Time from start to finish, divided by the number of iterations
        pub step_time_s: Vec<f64>,
        /// Time in which compute was busy
        pub compute_s: Vec<f64>,
        /// Time in which compute was idle only because it waited for communication
        pub exposed_communication_s: Vec<f64>,
        /// Time in which at least one communication was in progress
        pub communication_s: Vec<f64>,
        /// Bytes that its ranks sent
        pub sent_bytes: Vec<i64>,
        /// Step time of the same job alone on the fabric; empty if a limit stopped that simulation
        pub alone_step_time_s: Vec<Option<f64>>,
        /// `step_time_s` divided by `alone_step_time_s`
        pub slowdown: Vec<Option<f64>>,
        /// Training iterations per second, divided by the price of the whole fabric; empty without prices
        pub iterations_per_s_per_usd: Vec<Option<f64>>,
    }
}

table! {
    /// A time slice of a tier of links in one direction, in the first two iterations; for fabrics that are
    /// built or given link by link
    "tiers" => pub struct Tiers {
        /// Name of the tier, such as `leaf-spine`
        pub tier: Vec<String>,
        /// `up` (away from NPUs) or `down`; empty between vertices of the same level
        pub way: Vec<String>,
        /// Links of the tier in this direction
        pub links: Vec<i64>,
        /// Start of the slice
        pub start_s: Vec<f64>,
        /// End of the slice
        pub end_s: Vec<f64>,
        /// Bytes sent, divided by the bytes that all these links could have carried
        pub utilization: Vec<f64>,
        /// Utilization of the busiest of them
        pub busiest_utilization: Vec<f64>,
        /// How many of them are full: busy for at least 99 % of the slice
        pub full_links: Vec<i64>,
    }
}

table! {
    /// A link and the messages that it held back, with `flow`; one row for all links that are alike
    "contention" => pub struct Contention {
        /// Number of the link
        pub link: Vec<i64>,
        /// How many links are like it
        pub links: Vec<i64>,
        /// Dimension or tier that it belongs to
        pub dimension: Vec<String>,
        /// Vertex that sends
        pub from: Vec<String>,
        /// Vertex that receives
        pub to: Vec<String>,
        /// Layer that the messages are for
        pub layer: Vec<String>,
        /// Collective that they belong to, or `point_to_point`
        pub kind: Vec<String>,
        /// Number of messages whose last bytes it delayed
        pub messages: Vec<i64>,
        /// Their bytes
        pub sent_bytes: Vec<i64>,
        /// How much later they arrived than if each had been alone on its path, summed over messages
        pub waiting_s: Vec<f64>,
    }
}

table! {
    /// A collective over all its ranks, in the order of issue; of runs of ASTRA-sim's files
    "collectives" => pub struct AstraCollectives {
        /// Name of the first rank's node
        pub name: Vec<String>,
        /// Kind of collective
        pub kind: Vec<String>,
        /// Communicator group; empty for all ranks
        pub group: Vec<String>,
        /// Ranks that issued it
        pub group_ranks: Vec<i64>,
        /// comm_size of the trace: the shard of an all-gather, else one rank's vector
        pub size_bytes: Vec<i64>,
        /// When the first rank issued it
        pub issue_s: Vec<f64>,
        /// When the last rank finished it
        pub finish_s: Vec<f64>,
        /// From first issue to last result
        pub duration_s: Vec<f64>,
    }
}

table! {
    /// A rank that finished; of runs of ASTRA-sim's files
    "ranks" => pub struct AstraRanks {
        /// Number of the rank
        pub rank: Vec<i64>,
        /// When it finished
        pub finish_s: Vec<f64>,
        /// Time covered by accelerator computation
        pub compute_s: Vec<f64>,
        /// Finish time minus the accelerator's operations, as ASTRA-sim defines it
        pub exposed_communication_s: Vec<f64>,
        /// Time covered by communication
        pub communication_s: Vec<f64>,
    }
}
