//! Finds out why compute was idle.
//!
//! A compute task waits for the last of its dependencies to end. Suppose that dependency is a communication or a
//! memory operation that began when compute was already idle, because another such task had just ended. Then the idle
//! time before its beginning is attributed to that other task, and so on. So each such task that begins while compute
//! is idle saves the reasons for the idle time so far, and adds itself when it ends.

use crate::Engine;
use crate::quotient::RankIndex;
use crate::record::{Label, Mark};
use crate::state::{At, Before, Cause, ExposedTime, Piece, Waited, WaitedFor, Waits};
use syncline_net_api::NetworkModel;
use syncline_timeline::Track;
use syncline_units::Time;
use syncline_workload::TaskKind;

/// What a compute task may have waited for.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    cause: Cause,
    layer: Option<u32>,
    of: WaitedFor,
}

impl<N: NetworkModel> Engine<'_, N> {
    /// A collective, send or receive task of `rank` begins because of `cause`.
    pub(crate) fn communication_begins(&mut self, rank: RankIndex, at: At, cause: Cause) {
        let now = self.now;
        let state = &mut self.ranks[rank.index()];
        if state.communicating == 0 {
            state.communicating_since = now;
        }
        state.communicating += 1;
        self.keep_reasons(rank, at, cause);
    }

    /// A communication or memory task of `rank` begins because of `cause`. If compute is idle, saves the reasons so
    /// far.
    pub(crate) fn keep_reasons(&mut self, rank: RankIndex, at: At, cause: Cause) {
        let now = self.now;
        let state = &mut self.ranks[rank.index()];
        let idle = state.compute.running.is_none() && state.compute.idle_since < now;
        if idle
            && self.computes[state.class as usize]
            && let Some(waited) = state.waited_for(cause, now)
        {
            let before = Before { until: now, pieces: waited.pieces.clone() };
            state.before.insert(at, before);
        }
    }

    /// A collective, send or receive task of `rank` is done.
    pub(crate) fn communication_done(&mut self, rank: RankIndex, at: At, waits: Waits) {
        let layer = self.task(rank, at.task).layer;
        let of = waits.role.map_or(WaitedFor::PointToPoint, WaitedFor::Collective);
        self.note(rank, at, Awaited { cause: Cause::Communication(layer), layer, of }, waits);
        let state = &mut self.ranks[rank.index()];
        state.communicating -= 1;
        if state.communicating == 0 {
            self.record.ranks[rank.index()].communication +=
                self.now.saturating_sub(state.communicating_since);
        }
        self.task_done(rank, at, Cause::Communication(layer));
    }

    /// A memory task of `rank` has ended. Notes why compute was idle if it waited for this task.
    pub(crate) fn memory_noted(&mut self, rank: RankIndex, at: At) {
        let waits = Waits { since: self.now, ready: Time::ZERO, role: None };
        self.note(rank, at, Awaited { cause: Cause::Memory, layer: None, of: WaitedFor::Memory }, waits);
    }

    /// Notes why compute of `rank` was idle if it waited for the task that ends now.
    fn note(
        &mut self,
        rank: RankIndex,
        at: At,
        Awaited { cause, layer, of }: Awaited,
        Waits { since, ready, role }: Waits,
    ) {
        let now = self.now;
        let state = &mut self.ranks[rank.index()];
        let before = state.before.remove(&at);
        if state.waited.first().is_some_and(|waited| waited.until < now) {
            state.waited.clear();
        }
        let idle_since = state.compute.idle_since;
        if state.compute.running.is_some() || idle_since == now {
            return;
        }
        // Compute was idle when this task began, and has been since.
        let lasts = |before: &Before| idle_since + length(&before.pieces) == before.until;
        let mut pieces = before.filter(lasts).map(|before| before.pieces).unwrap_or_default();
        let begin = idle_since + length(&pieces);
        let all = now.saturating_sub(begin);
        // Others are late only from when this rank's compute became idle; before that, the rank had work to do
        // itself.
        let late = ready.min(now).saturating_sub(since.max(begin)).min(all);
        let (bubble, skew) = if role.is_some() { (Time::ZERO, late) } else { (late, Time::ZERO) };
        let exposed = all.saturating_sub(late);
        let first = if late.is_zero() { exposed } else { since.saturating_sub(begin) };
        match pieces.last_mut() {
            Some(last) if (last.layer, last.of) == (layer, of) => {
                last.exposed += exposed;
                last.bubble += bubble;
                last.skew += skew;
            }
            Some(_) if all.is_zero() => {}
            _ => pieces.push(Piece { layer, of, exposed, first, bubble, skew }),
        }
        state.waited.push(Waited { until: now, cause, pieces });
    }

    /// Books the time in which compute was idle to its reasons; `cause` is the last one.
    pub(crate) fn book_idle(&mut self, rank: RankIndex, since: Time, cause: Cause) {
        let idle = self.now.saturating_sub(since);
        if idle.is_zero() {
            return;
        }
        let state = &mut self.ranks[rank.index()];
        match cause {
            Cause::Communication(_) | Cause::Memory => {
                let (layer, of) = match cause {
                    Cause::Communication(layer) => (layer, WaitedFor::PointToPoint),
                    _ => (None, WaitedFor::Memory),
                };
                let unknown = Piece { layer, of, exposed: idle, first: idle, ..Piece::default() };
                let pieces = state.waited_for(cause, self.now).map(|waited| waited.pieces.clone());
                let mut start = since;
                for piece in pieces.unwrap_or_else(|| [unknown].into_iter().collect()) {
                    self.book(rank, start, &piece);
                    start += piece.length();
                }
            }
            Cause::Start | Cause::Compute => {}
        }
    }

    /// Books the part of the idle time of `rank` that has one reason.
    fn book(&mut self, rank: RankIndex, start: Time, piece: &Piece) {
        let Piece { layer, of, exposed, first, bubble, skew } = *piece;
        let record = &mut self.record.ranks[rank.index()];
        let axis = match of {
            WaitedFor::Memory => {
                record.exposed_memory += exposed;
                return;
            }
            WaitedFor::Collective(role) => role.index(),
            WaitedFor::PointToPoint => self.job.workload.roles.len(),
        };
        record.exposed_communication += exposed;
        record.bubble += bubble;
        record.skew += skew;
        let index = self.row_of(layer);
        self.record.layers[index].exposed += u128::from(exposed.0);
        self.record.axes[axis] += u128::from(exposed.0);
        self.ranks[rank.index()].tail.push(ExposedTime { layer: index, time: exposed });
        let (from, others) = (start + first, if bubble.is_zero() { Track::Skew } else { Track::Bubble });
        let (goes_on, end) = (from + bubble + skew, start + piece.length());
        for (track, start, end) in
            [(Track::Exposed, start, from), (others, from, goes_on), (Track::Exposed, goes_on, end)]
        {
            self.tracer.mark(Mark { rank, track, start, end, label: Label::Wait { layer }, bytes: 0 });
        }
    }
}

/// Total length of `pieces`.
fn length(pieces: &[Piece]) -> Time {
    pieces.iter().fold(Time::ZERO, |sum, piece| sum + piece.length())
}

/// Whether the graph contains compute tasks.
pub(crate) fn computes(graph: &syncline_workload::TaskGraph) -> bool {
    graph.tasks.iter().any(|task| matches!(task.kind, TaskKind::Compute(_)))
}
