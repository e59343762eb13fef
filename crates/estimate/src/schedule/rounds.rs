//! The time of `GPipe`, 1F1B and interleaving, whose chunks may take different times.
//!
//! All stages of 1F1B work on the same pieces, a micro-batch in a chunk each, in the same order: as many micro-batches as there
//! are stages go through one chunk after the other (Narayanan et al. 2021, 2.2). A stage works on some pieces forward first, and
//! then on one forward and one backward in turn. So piece `n` of a stage needs piece `n` of the stage before, and the first stage
//! piece `n - p` of the last one. In round `t`, stage `s` computes piece `t - s` forward, and a piece backward once it has enough
//! pieces in flight: whatever a round needs was computed in it or in the round before. Only the last times of each stage are
//! kept.
//!
//! After some rounds, the pipeline repeats itself: each stage is later by the same time after as many rounds as a stage has
//! pieces of `p` micro-batches. The rounds until the last micro-batch enters are then skipped, with no error but rounding.

use super::run::ChunkTimes;

/// Seconds until the last stage is done with `micro_batches` of `GPipe`: all of them go forward, then all go backward. Each stage
/// has one of the `chunks`, and what it sends is there `late_s` after it has computed.
///
/// All micro-batches take the same time in a stage, so that they wait in front of the slowest one only (in a flow shop of equal
/// jobs, the last one ends after one job on every machine and the others on the slowest).
pub fn gpipe(chunks: &[ChunkTimes], micro_batches: u32, late_s: f64) -> f64 {
    let others = f64::from(micro_batches.saturating_sub(1));
    let pass = |seconds: fn(&ChunkTimes) -> f64| {
        let slowest = chunks.iter().map(seconds).fold(0.0, f64::max);
        let first: f64 = chunks.iter().map(seconds).sum();
        first + others * slowest + late_s * (chunks.len() as f64 - 1.0)
    };
    pass(|times| times.forward) + pass(|times| times.input + times.weight)
}

/// Seconds until the last stage is done with `micro_batches` of 1F1B: the `chunks` of the model go round `stages`, of which there
/// are at least two, and what a stage sends is there `late_s` after it has computed. Interleaved, the last micro-batches may be
/// fewer than stages.
pub fn one_forward_one_backward(chunks: &[ChunkTimes], stages: u32, micro_batches: u32, late_s: f64) -> f64 {
    if chunks.iter().any(|times| !times.seconds().is_finite()) {
        return f64::INFINITY;
    }
    let mut rounds = Rounds::new(chunks, stages as usize, micro_batches as usize, late_s);
    let (mut round, mut before) = (0, None);
    while round < rounds.pieces + rounds.ahead(0) {
        let full = round > rounds.ahead(0) + rounds.stages && round + rounds.period <= rounds.whole;
        if full && round.is_multiple_of(rounds.period) {
            if let Some(each) = before.as_ref().and_then(|before| rounds.times.later_than(before)) {
                let skipped = (rounds.whole - round) / rounds.period;
                rounds.times.shift(each * skipped as f64);
                round += skipped * rounds.period;
                before = None;
            } else {
                before = Some(rounds.times.clone());
            }
        }
        rounds.compute(round);
        round += 1;
    }
    rounds.times.free.into_iter().fold(0.0, f64::max)
}

/// Where the stages are.
struct Rounds {
    /// Seconds of each chunk of the model, forward and backward.
    seconds: [Vec<f64>; 2],
    late_s: f64,
    stages: usize,
    chunks: usize,
    /// Pieces of a stage in a step; those of the last micro-batches as if they were as many as stages.
    pieces: usize,
    /// Pieces before these, and how many micro-batches the last ones are.
    whole: usize,
    rest: usize,
    /// Pieces after which chunks and micro-batches come in the same order again.
    period: usize,
    times: Times,
    /// Place of the next piece of each stage in its period, forward and backward.
    next: [Vec<usize>; 2],
}

/// When stages were done.
#[derive(Clone, Debug)]
struct Times {
    /// With their last piece.
    free: Vec<f64>,
    /// With their last piece forward and backward.
    passes: [Vec<f64>; 2],
}

impl Times {
    /// By how much all times are later than others, if that is the same for all.
    fn later_than(&self, before: &Self) -> Option<f64> {
        let by = self.free[0] - before.free[0];
        let same = |now: &[f64], then: &[f64]| {
            now.iter().zip(then).all(|(now, then)| (now - then - by).abs() <= ROUNDING * now)
        };
        let passes = self.passes.iter().zip(&before.passes).all(|(now, then)| same(now, then));
        (passes && same(&self.free, &before.free)).then_some(by)
    }

    fn shift(&mut self, by: f64) {
        let [forward, backward] = &mut self.passes;
        for time in self.free.iter_mut().chain(forward).chain(backward) {
            *time += by;
        }
    }
}

/// Relative difference of times that are the same but for rounding.
const ROUNDING: f64 = 1e-11;

impl Rounds {
    fn new(chunks: &[ChunkTimes], stages: usize, micro_batches: usize, late_s: f64) -> Self {
        let of_stage = chunks.len() / stages;
        let none = || vec![0.0; stages];
        // With one chunk, each micro-batch is a round of its own.
        let together = if of_stage > 1 { stages } else { 1 };
        Self {
            seconds: [
                chunks.iter().map(|times| times.forward).collect(),
                chunks.iter().map(|times| times.input + times.weight).collect(),
            ],
            late_s,
            stages,
            chunks: of_stage,
            pieces: micro_batches.next_multiple_of(together) * of_stage,
            whole: micro_batches / together * together * of_stage,
            rest: micro_batches % together,
            period: if of_stage > 1 { chunks.len() } else { 1 },
            times: Times { free: none(), passes: [none(), none()] },
            next: [vec![0; stages], vec![0; stages]],
        }
    }

    /// Pieces that a stage computes forward before it computes one forward and one backward in turn.
    const fn ahead(&self, stage: usize) -> usize {
        let later = self.stages - 1 - stage;
        if self.chunks > 1 { 2 * later + (self.chunks - 1) * self.stages } else { later }
    }

    fn compute(&mut self, round: usize) {
        // What the last stage sends to the first one, and the first one to the last, is of the round before.
        let last = self.stages - 1;
        let around = [self.times.passes[0][last], self.times.passes[1][0]];
        for stage in (0..=last).rev() {
            let Some(piece) = round.checked_sub(stage) else { continue };
            let Some(part) = self.part(0, stage, piece) else { continue };
            let ready = match (stage, part) {
                (0, 0) => 0.0,
                (0, _) => around[0] + self.late_s,
                _ => self.times.passes[0][stage - 1] + self.late_s,
            };
            self.work(0, stage, part, ready);
        }
        for at in 0..self.stages {
            // With one chunk, a piece comes back through all stages in one round; with several, it needs one for each.
            let stage = if self.chunks > 1 { at } else { last - at };
            let Some(piece) = round.checked_sub(stage + self.ahead(stage)) else { continue };
            let Some(part) = self.part(1, stage, piece) else { continue };
            let part = self.chunks - 1 - part;
            let ready = if stage < last {
                self.times.passes[1][stage + 1] + self.late_s
            } else if part + 1 == self.chunks {
                self.times.passes[0][last]
            } else {
                around[1] + self.late_s
            };
            self.work(1, stage, part, ready);
        }
    }

    /// The chunk, among those of a stage, of its next piece, counted in the direction of a pass; nothing if there is no such
    /// piece.
    fn part(&mut self, pass: usize, stage: usize, piece: usize) -> Option<usize> {
        if piece >= self.pieces {
            return None;
        }
        if self.chunks == 1 {
            return Some(0);
        }
        let next = &mut self.next[pass][stage];
        let place = *next;
        *next = if place + 1 == self.period { 0 } else { place + 1 };
        let there = piece < self.whole || place % self.stages < self.rest;
        there.then_some(place / self.stages)
    }

    fn work(&mut self, pass: usize, stage: usize, part: usize, ready: f64) {
        let end = self.times.free[stage].max(ready) + self.seconds[pass][part * self.stages + stage];
        self.times.free[stage] = end;
        self.times.passes[pass][stage] = end;
    }
}
