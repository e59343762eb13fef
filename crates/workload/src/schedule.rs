//! The order in which a stage of a pipeline works on the micro-batches of a training step.
//!
//! With p stages, m micro-batches, v parts of the model in each stage, and communication that takes no time, a step
//! takes the time of m + (p - 1) / v micro-batches. The second term is the *bubble* (Narayanan et al. 2021, 2.2). The
//! schedules differ in how many micro-batches, whose activations a stage must keep, are in flight in a stage: all m
//! with GPipe, at most p with 1F1B.

use crate::parallel::{Parallel, Schedule};
use std::ops::Range;
use syncline_diagnostics::{Code, Diagnostic};

/// One piece of a stage's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Whether it is a backward pass.
    pub backward: bool,
    /// The micro-batch.
    pub micro_batch: u32,
    /// The stage's part of the model, counted from its input to its output.
    pub chunk: u32,
}

/// A pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// The order in which stages work.
    pub schedule: Schedule,
    /// Number of stages.
    pub stages: u32,
    /// Number of parts of the model in each stage.
    pub chunks: u32,
    /// Micro-batches of a training step.
    pub micro_batches: u32,
    /// Whether a forward turn and the backward turn of an earlier micro-batch are combined, so that each hides the exchanges
    /// of the other (DeepSeek-V3 report, 3.2.1; Megatron Core's combined 1F1B). One more turn goes forward before: else the last
    /// stage would combine the two passes of one micro-batch. Each of both may take the time of both, so that a micro-batch
    /// comes back twice as late: as when interleaved, twice as many go forward before on each earlier stage.
    pub combined: bool,
}

impl Pipeline {
    /// The pipeline of `stages` stages that `parallel` describes.
    ///
    /// # Errors
    /// Several parts in a stage without a schedule for them, or the reverse; micro-batches that do not divide.
    pub fn new(parallel: &Parallel, stages: u32, micro_batches: u32) -> Result<Self, Diagnostic> {
        let (schedule, chunks) = (parallel.schedule, parallel.virtual_stages);
        let bad = |key: &str, message: String| {
            Diagnostic::error(Code::BadWorkload, message).key(format!("workload.{key}"))
        };
        let interleaved = schedule == Schedule::Interleaved;
        if chunks == 0 || interleaved != (chunks > 1) {
            let allowed = if interleaved { "at least 2" } else { "1" };
            return Err(bad(
                "parallel.virtual_stages",
                format!("the schedule {} does not allow this number of virtual stages", schedule.name()),
            )
            .found(chunks.to_string())
            .allowed(allowed)
            .help("use `schedule: interleaved` if and only if there are several virtual stages"));
        }
        if stages == 1 && chunks > 1 {
            return Err(bad("parallel.virtual_stages", "virtual stages need a pipeline".to_owned())
                .found(chunks.to_string())
                .help("give `pipeline` at least 2 ranks"));
        }
        // Narayanan et al. 2021, 2.2.2: "the number of microbatches in a batch [is] an integer multiple" of the stages.
        if interleaved && !micro_batches.is_multiple_of(stages) {
            let (below, above) = (micro_batches / stages * stages, micro_batches.next_multiple_of(stages));
            let near = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
            return Err(bad(
                "micro_batches",
                "the micro-batches of an interleaved schedule must be a multiple of the stages".to_owned(),
            )
            .found(micro_batches.to_string())
            .allowed(format!("multiples of {stages}, such as {near}")));
        }
        let combined = parallel.combined;
        if combined && schedule == Schedule::GPipe {
            return Err(bad(
                "parallel.combined",
                "no micro-batch goes forward while another goes backward".to_owned(),
            )
            .found(schedule.name())
            .help("write `schedule: 1f1b`, or leave out `combined`"));
        }
        Ok(Self { schedule, stages, chunks, micro_batches, combined })
    }

    /// Number of parts of the model over all stages.
    pub const fn parts(&self) -> u32 {
        self.stages * self.chunks
    }

    /// The turns of `stage` in a training step, in order.
    pub fn turns(&self, stage: u32) -> Vec<Turn> {
        let (m, v) = (self.micro_batches, self.chunks);
        let forward = |at| self.turn(at, false);
        let backward = |at| self.turn(at, true);
        let all = m * v;
        if self.schedule == Schedule::GPipe {
            // Backward passes start with the last micro-batch.
            return (0..m).map(forward).chain((0..m).rev().map(backward)).collect();
        }
        let warm_up = self.warm_up(stage);
        let steady = (0..all - warm_up).flat_map(|at| [forward(warm_up + at), backward(at)]);
        (0..warm_up).map(forward).chain(steady).chain((all - warm_up..all).map(backward)).collect()
    }

    /// Forward turns of `stage` before its first backward turn, but for the one that comes with it.
    fn warm_up(&self, stage: u32) -> u32 {
        let (m, p, v) = (self.micro_batches, self.stages, self.chunks);
        let all = m * v;
        let turns = match self.schedule {
            Schedule::GPipe => all,
            Schedule::OneForwardOneBackward if self.combined => 2 * (p - 1 - stage),
            Schedule::OneForwardOneBackward => p - 1 - stage,
            // With as many micro-batches as stages, all micro-batches go forward through all chunks before any goes
            // backward.
            Schedule::Interleaved if m == p => all,
            Schedule::Interleaved => 2 * (p - 1 - stage) + (v - 1) * p,
        };
        (turns + u32::from(self.combined)).min(all)
    }

    /// The places of the turns of `stage` of which each forward turn is combined with the backward turn after it.
    pub fn pairs(&self, stage: u32) -> Range<usize> {
        let (all, warm_up) = ((self.micro_batches * self.chunks) as usize, self.warm_up(stage) as usize);
        if self.combined { warm_up..2 * all - warm_up } else { 0..0 }
    }

    /// The `at`-th forward or backward turn. Groups of as many micro-batches as there are stages go through one chunk
    /// after another.
    const fn turn(&self, at: u32, backward: bool) -> Turn {
        if self.chunks == 1 {
            return Turn { backward, micro_batch: at, chunk: 0 };
        }
        let (p, v) = (self.stages, self.chunks);
        let chunk = at % (p * v) / p;
        Turn {
            backward,
            micro_batch: at / (p * v) * p + at % p,
            chunk: if backward { v - 1 - chunk } else { chunk },
        }
    }

    /// The most that `stage` keeps at once, if a micro-batch keeps `kept` of each chunk between its two passes.
    pub fn peak(&self, stage: u32, kept: impl Fn(u32) -> u128) -> u128 {
        let (mut now, mut most) = (0u128, 0);
        for turn in self.turns(stage) {
            if turn.backward {
                now -= kept(turn.chunk);
            } else {
                now += kept(turn.chunk);
                most = most.max(now);
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pipeline(schedule: Schedule, stages: u32, chunks: u32, micro_batches: u32) -> Pipeline {
        Pipeline { schedule, stages, chunks, micro_batches, combined: false }
    }

    /// When the last stage is done if forward turns take `f`, backward turns `b`, and messages no time.
    fn length(pipeline: &Pipeline, f: u64, b: u64) -> u64 {
        let parts = pipeline.parts() as usize;
        let m = pipeline.micro_batches as usize;
        // When each micro-batch has left each part, forward and backward.
        let mut done = vec![[None; 2]; parts * m];
        let mut queues: Vec<std::collections::VecDeque<Turn>> =
            (0..pipeline.stages).map(|stage| pipeline.turns(stage).into()).collect();
        let mut free = vec![0; pipeline.stages as usize];
        while queues.iter().any(|queue| !queue.is_empty()) {
            let mut moved = false;
            for stage in 0..pipeline.stages as usize {
                let Some(turn) = queues[stage].front().copied() else { continue };
                let part = turn.chunk as usize * pipeline.stages as usize + stage;
                let at = |part: usize, pass: usize| done[part * m + turn.micro_batch as usize][pass];
                let needs = match (turn.backward, part) {
                    (false, 0) => Some(0),
                    (false, _) => at(part - 1, 0),
                    (true, _) if part + 1 == parts => at(part, 0),
                    (true, _) => at(part + 1, 1),
                };
                let Some(ready) = needs else { continue };
                let end = free[stage].max(ready) + if turn.backward { b } else { f };
                free[stage] = end;
                done[part * m + turn.micro_batch as usize][usize::from(turn.backward)] = Some(end);
                queues[stage].pop_front();
                moved = true;
            }
            assert!(moved, "{pipeline:?} waits forever");
        }
        free.into_iter().max().unwrap()
    }

    #[test]
    fn the_bubble_is_that_of_narayanan() {
        // 2.2.1: a bubble of (p - 1)(f + b) in addition to m (f + b); 2.2.2: divided by v.
        for (p, m) in [(1, 1), (1, 5), (2, 1), (2, 7), (4, 4), (4, 8), (4, 9), (8, 64)] {
            for schedule in [Schedule::GPipe, Schedule::OneForwardOneBackward] {
                let found = length(&pipeline(schedule, p, 1, m), 10, 20);
                assert_eq!(found, u64::from(m + p - 1) * 30, "{schedule:?} {p} {m}");
            }
        }
        for (p, v, m) in [(2, 2, 2), (2, 3, 4), (4, 2, 8), (4, 4, 16), (8, 2, 64), (8, 4, 8)] {
            let found = length(&pipeline(Schedule::Interleaved, p, v, m), 10, 20);
            assert_eq!(found, u64::from(m * v + p - 1) * 30, "{p} {v} {m}");
        }
    }

    #[test]
    fn combined_turns_belong_to_different_micro_batches_or_chunks() {
        for (schedule, p, v, m) in [
            (Schedule::OneForwardOneBackward, 1, 1, 1),
            (Schedule::OneForwardOneBackward, 1, 1, 5),
            (Schedule::OneForwardOneBackward, 4, 1, 3),
            (Schedule::OneForwardOneBackward, 4, 1, 8),
            (Schedule::Interleaved, 4, 2, 4),
            (Schedule::Interleaved, 4, 3, 8),
        ] {
            let combined = Pipeline { combined: true, ..pipeline(schedule, p, v, m) };
            for stage in 0..p {
                let (turns, pairs) = (combined.turns(stage), combined.pairs(stage));
                for pair in turns[pairs.clone()].chunks(2) {
                    assert!(!pair[0].backward && pair[1].backward);
                    assert_ne!((pair[0].micro_batch, pair[0].chunk), (pair[1].micro_batch, pair[1].chunk));
                }
                // Before them all turns go forward, after them backward.
                assert!(turns[..pairs.start].iter().all(|turn| !turn.backward));
                assert!(turns[pairs.end..].iter().all(|turn| turn.backward));
                // One turn more is in flight; without interleaving, also one for each later stage.
                let most = |pipeline: Pipeline| pipeline.peak(stage, |_| 1);
                let more = 1 + if v == 1 { p - 1 - stage } else { 0 };
                let all = u128::from(m * v);
                assert_eq!(most(combined), (most(pipeline(schedule, p, v, m)) + u128::from(more)).min(all));
            }
            // No stage waits forever, and a bubble is longer by at most a turn of each stage.
            assert!(length(&combined, 10, 20) <= u64::from(m * v + 2 * p) * 30);
        }
        let error = Pipeline::new(
            &Parallel { schedule: Schedule::GPipe, combined: true, ..Parallel::default() },
            2,
            2,
        );
        assert_eq!(error.unwrap_err().key.as_deref(), Some("workload.parallel.combined"));
    }

    #[test]
    fn live_micro_batches_are_m_with_gpipe_and_at_most_p_with_1f1b() {
        for (p, m) in [(1, 1), (2, 7), (4, 2), (4, 4), (4, 9), (8, 64)] {
            for stage in 0..p {
                let peak = |schedule| pipeline(schedule, p, 1, m).peak(stage, |_| 1);
                assert_eq!(peak(Schedule::GPipe), u128::from(m));
                assert_eq!(peak(Schedule::OneForwardOneBackward), u128::from(m.min(p - stage)));
            }
        }
        // Interleaved, the first stage: 2 (p - 1) + (v - 1) p + 1 chunks, each a v-th of its part of the model.
        assert_eq!(pipeline(Schedule::Interleaved, 4, 2, 16).peak(0, |_| 1), 11);
        assert_eq!(pipeline(Schedule::Interleaved, 4, 2, 4).peak(0, |_| 1), 8);
    }

    proptest! {
        #[test]
        fn every_chunk_of_every_micro_batch_goes_forward_then_backward(
            which in 0..3usize, p in 1..6u32, v in 2..4u32, m in 1..12u32
        ) {
            let schedules = [Schedule::GPipe, Schedule::OneForwardOneBackward, Schedule::Interleaved];
            let schedule = schedules[which];
            let (v, p) = if schedule == Schedule::Interleaved { (v, p.max(2)) } else { (1, p) };
            let m = if v > 1 { m * p } else { m };
            let pipeline = pipeline(schedule, p, v, m);
            for stage in 0..p {
                let turns = pipeline.turns(stage);
                prop_assert_eq!(turns.len() as u32, 2 * m * v);
                for chunk in 0..v {
                    for micro_batch in 0..m {
                        let at = |backward| turns.iter().position(|t| *t == Turn { backward, micro_batch, chunk });
                        prop_assert!(at(false).unwrap() < at(true).unwrap());
                    }
                }
            }
            length(&pipeline, 3, 5);
        }
    }

    #[test]
    fn impossible_pipelines_are_refused() {
        let of = |schedule, virtual_stages| Parallel { schedule, virtual_stages, ..Parallel::default() };
        for (parallel, stages, micro_batches, key, message) in [
            (of(Schedule::Interleaved, 1), 4, 8, "parallel.virtual_stages", "does not allow this number"),
            (of(Schedule::GPipe, 2), 4, 8, "parallel.virtual_stages", "does not allow this number"),
            (of(Schedule::GPipe, 0), 4, 8, "parallel.virtual_stages", "does not allow this number"),
            (of(Schedule::Interleaved, 2), 1, 8, "parallel.virtual_stages", "need a pipeline"),
            (of(Schedule::Interleaved, 2), 4, 6, "micro_batches", "a multiple of the stages"),
        ] {
            let error = Pipeline::new(&parallel, stages, micro_batches).unwrap_err();
            assert!(error.message.contains(message), "{error}");
            assert_eq!(error.key.as_deref(), Some(&*format!("workload.{key}")));
        }
        let error = Pipeline::new(&of(Schedule::Interleaved, 2), 4, 6).unwrap_err();
        assert_eq!(error.allowed.as_deref(), Some("multiples of 4, such as 4 or 8"));
    }
}
