//! Results collected while a job runs: sums, and one row per collective, never one per message.

use crate::job::PlanId;
use crate::quotient::RankIndex;
use syncline_critical_path::CriticalPath;
use syncline_net_api::activity::Slice;
use syncline_timeline::{Ended, Flow, Span, Spans, Track};
use syncline_units::{Bytes, CollectiveKind, RankId, Time};
use syncline_workload::{Part, RoleId};

/// One collective of one group, over all its ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveRecord {
    /// Role; `group` is a group of it.
    pub role: RoleId,
    /// Group within the role.
    pub group: u32,
    /// Which plan.
    pub plan: PlanId,
    /// The layer that it belongs to.
    pub layer: Option<u32>,
    /// The part of the layer.
    pub part: Part,
    /// Its micro-batch, counted from the start of the run.
    pub micro_batch: u32,
    /// When the first rank issued it.
    pub first_issue: Time,
    /// When the last rank issued it.
    pub last_issue: Time,
    /// When the last rank had its result.
    pub finish: Time,
    /// Sum over ranks of the time from issue to result.
    pub duration_sum: u128,
    /// Ranks that have their result.
    pub ranks_done: u32,
    /// Sum over ranks and chunks of the time in the ready queue (P0 of astra2020 Fig. 12b).
    pub ready_wait: u128,
    /// Number of chunks, over all ranks.
    pub chunks: u64,
    /// Per phase.
    pub phases: Vec<PhaseRecord>,
}

impl CollectiveRecord {
    /// Scales the sums to `members` ranks per simulated rank.
    pub(crate) fn multiply(&mut self, members: u32) {
        let (small, large) = (u64::from(members), u128::from(members));
        self.duration_sum *= large;
        self.ranks_done *= members;
        self.ready_wait *= large;
        self.chunks *= small;
        for phase in &mut self.phases {
            phase.queue_wait *= large;
            phase.chunks *= small;
            phase.network_delay *= large;
            phase.reduction *= large;
            phase.messages *= small;
            phase.bytes *= small;
        }
    }
}

/// One phase of one collective, over all ranks and chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PhaseRecord {
    /// Sum over ranks and chunks of the time in the phase's scheduling queue.
    pub queue_wait: u128,
    /// Chunks that started the phase, over all ranks.
    pub chunks: u64,
    /// Sum over messages of the time from send to arrival.
    pub network_delay: u128,
    /// Sum over messages of the time spent combining.
    pub reduction: u128,
    /// Messages received.
    pub messages: u64,
    /// Bytes received.
    pub bytes: u64,
}

/// One layer, over all ranks and iterations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LayerRecord {
    /// Compute, by [`Part`].
    pub compute: [u128; 5],
    /// Time from issue to result of its collectives and point-to-point tasks, by [`Part`].
    pub communication: [u128; 5],
    /// Time in which compute was idle only because it waited for this layer's communication.
    pub exposed: u128,
    /// The part of `exposed` after a rank's last forward or backward compute; updates may lie in between.
    pub exposed_at_end: u128,
    /// Bytes of its collectives; [`CollectiveKind`] defines what size means.
    pub bytes: u128,
}

/// One rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RankRecord {
    /// When it finished.
    pub finish: Time,
    /// Time in which compute was busy.
    pub compute: Time,
    /// Time in which compute was idle only because it waited for the network.
    pub exposed_communication: Time,
    /// Time in which compute was idle because a message that it waited for was not sent yet.
    pub bubble: Time,
    /// Time in which compute was idle because another rank had not issued a collective yet.
    pub skew: Time,
    /// The part of `exposed_communication` after the last forward or backward compute; updates may lie in between.
    pub exposed_at_end: Time,
    /// Time in which compute was idle only because it waited for memory operations.
    pub exposed_memory: Time,
    /// Time in which any communication was under way.
    pub communication: Time,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
}

/// One accounting dimension, over all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DimRecord {
    /// Number of chunks running in it now.
    pub(crate) running: u64,
    /// When the first of the running chunks started.
    pub(crate) since: Time,
    /// Time in which at least one chunk ran in it.
    pub active: Time,
}

/// Most collectives recorded individually, so that long jobs do not fill the memory: result tables need about 3 KB
/// for each.
pub const MAX_COLLECTIVES: usize = 1 << 17;

/// Everything that a run records, in the engine's numbering.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// How the run ended.
    pub ended: Ended,
    /// When the last rank finished, or the run stopped.
    pub finish: Time,
    /// Collectives of the simulated groups, in the order in which they finished.
    pub collectives: Vec<CollectiveRecord>,
    /// Number of collectives beyond [`MAX_COLLECTIVES`]. They have no record of their own but are included in all
    /// sums.
    pub collectives_left_out: u64,
    /// By layer of the workload; the last entry is for tasks without a layer.
    pub layers: Vec<LayerRecord>,
    /// By class of ranks, or by rank if no ranks are symmetric.
    pub ranks: Vec<RankRecord>,
    /// By accounting dimension.
    pub dims: Vec<DimRecord>,
    /// Exposed communication over all ranks, by role; the last entry is for messages outside collectives.
    pub axes: Vec<u128>,
    /// Spans of the traced ranks.
    pub spans: Spans,
    /// Time slices of the period in which activity was recorded: the first iterations.
    pub slices: Vec<Slice>,
    /// How long compute was busy in each slice, indexed like `ranks`; empty if it never was.
    pub computing: Vec<Vec<u64>>,
    /// The critical path of the first training steps.
    pub path: CriticalPath,
    /// Events handled.
    pub events: u64,
    /// Messages delivered.
    pub messages: u64,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes delivered.
    pub delivered: u64,
    /// Tasks done, over all ranks and iterations.
    pub tasks_done: u64,
    /// Iterations of training that every rank has completed.
    pub iterations_done: u32,
    /// Training iterations that were skipped because they repeat earlier ones.
    pub iterations_repeated: u32,
    /// Micro-batches that every rank has completed; equals `iterations_done` if iterations have one each.
    pub micro_batches_done: u32,
    /// Micro-batches that were skipped, in skipped iterations and in simulated ones.
    pub micro_batches_repeated: u32,
    /// Whether all iterations were simulated because there are more collectives than keys can distinguish.
    pub too_many_to_repeat: bool,
}

impl Record {
    /// Records a finished collective, or counts it if there are too many.
    pub(crate) fn finished(&mut self, collective: CollectiveRecord) {
        if self.collectives.len() < MAX_COLLECTIVES {
            self.collectives.push(collective);
        } else {
            self.collectives_left_out += 1;
        }
    }

    /// Scales sums over ranks by `members`, except sums over the ranks of a collective.
    pub(crate) fn multiply(&mut self, members: u32) {
        let (small, large) = (u64::from(members), u128::from(members));
        for layer in &mut self.layers {
            for sum in layer.compute.iter_mut().chain(&mut layer.communication) {
                *sum *= large;
            }
            layer.exposed *= large;
            layer.exposed_at_end *= large;
            layer.bytes *= large;
        }
        for exposed in &mut self.axes {
            *exposed *= large;
        }
        for sum in [&mut self.messages, &mut self.sent, &mut self.delivered, &mut self.tasks_done] {
            *sum *= small;
        }
    }
}

/// A span of a traced rank, with a label that is not yet text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) rank: RankIndex,
    pub(crate) track: Track,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) label: Label,
    pub(crate) bytes: u64,
}

/// Meaning of a span's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Label {
    /// A task of a class of ranks.
    Task { class: u32, task: u32 },
    /// A chunk in a phase.
    Chunk { kind: CollectiveKind, layer: Option<u32> },
    /// Compute waits for this layer's communication.
    Wait { layer: Option<u32> },
}

/// Collects spans up to a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracer {
    pub(crate) ranks: Vec<RankIndex>,
    pub(crate) max: u64,
    pub(crate) marks: Vec<Mark>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) left_out: u64,
}

impl Tracer {
    #[inline]
    fn traces(&self, rank: RankIndex) -> bool {
        !self.ranks.is_empty() && self.ranks.binary_search(&rank).is_ok()
    }
    /// Records a span of a traced rank. Returns its number if it was recorded.
    #[inline]
    pub(crate) fn mark(&mut self, mark: Mark) -> Option<u32> {
        if mark.start == mark.end || !self.traces(mark.rank) {
            return None;
        }
        if self.is_full() {
            self.left_out += 1;
            return None;
        }
        self.marks.push(mark);
        Some(self.marks.len() as u32 - 1)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.marks.len() as u64 >= self.max
    }

    /// The spans, with labels as text and the numbers of ranks.
    pub(crate) fn spans(
        self,
        mut text: impl FnMut(Label) -> String,
        number: impl Fn(RankIndex) -> RankId,
    ) -> Spans {
        let mut known = std::collections::BTreeMap::new();
        let mut out = Spans { left_out: self.left_out, flows: self.flows, ..Spans::default() };
        for mark in self.marks {
            let label = *known.entry(mark.label).or_insert_with(|| {
                out.labels.push(text(mark.label));
                out.labels.len() as u32 - 1
            });
            let Mark { rank, track, start, end, bytes, .. } = mark;
            out.spans.push(Span { rank: number(rank), track, start, end, label, bytes: Bytes(bytes) });
        }
        out
    }
}
