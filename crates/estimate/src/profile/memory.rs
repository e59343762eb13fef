//! The memory of each stage over a step.

use crate::job::{Job, Schedule};
use crate::kept::{Kept, kept_by_chunk};
use crate::memory::{Memory, memory_by_stage};
use crate::memory_software::MemorySoftware;
use crate::model::Model;
use crate::schedule::order::{Piece, Turn};
use crate::schedule::places;
use crate::schedule::run::Timed;
use serde::Serialize;

/// The memory of a rank of a stage over the step, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageMemory {
    /// The peak by the estimate, by kind.
    pub peak: Peak,
    /// What changes, in the order of time.
    pub points: Vec<Point>,
}

/// The kinds of [`Memory`], and their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// By kind.
    #[serde(flatten)]
    pub kinds: Memory,
    /// All of them.
    pub total: u64,
}

/// What changes during a step, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Seconds since the step began.
    pub at_s: f64,
    /// Activations of micro-batches in flight.
    pub activations: f64,
    /// Logits and their gradients.
    pub logits: f64,
    /// What a layer needs while it computes backward, and workspaces.
    pub working: f64,
    /// What the allocator loses, in proportion to what comes and goes.
    pub fragmentation: f64,
}

/// The memory of each stage before and after each of its turns.
pub(super) fn over_time(
    model: &Model,
    job: &Job,
    software: &MemorySoftware,
    turns: &[Vec<Timed>],
) -> Vec<StageMemory> {
    let kept = kept_by_chunk(model, job, software);
    let stages = memory_by_stage(model, job, software);
    (0..)
        .zip(stages.iter().zip(turns))
        .map(|(stage, (peak, turns))| {
            let held: Vec<Kept> = places(job, stage).map(|place| kept[place.chunk as usize]).collect();
            StageMemory {
                peak: Peak { kinds: *peak, total: peak.total() },
                points: points(job, software, peak, &held, turns),
            }
        })
        .collect()
}

/// The memory of one stage whose chunks keep `held`.
fn points(job: &Job, software: &MemorySoftware, peak: &Memory, held: &[Kept], turns: &[Timed]) -> Vec<Point> {
    let lost = software.fragmentation_in(job);
    let most_working = held.iter().map(|chunk| chunk.working).fold(0.0, f64::max);
    // All micro-batches have theirs at once with GPipe.
    let losses = if job.schedule == Schedule::GPipe { f64::from(job.micro_batches) } else { 1.0 };
    let logits = losses * held.iter().map(|chunk| chunk.logits).fold(0.0, f64::max);
    let point = |at_s: f64, activations: f64, logits: f64, working: f64| Point {
        at_s,
        activations,
        logits,
        working: working + software.workspace_bytes as f64,
        fragmentation: lost * (activations + logits + working + peak.gathered as f64),
    };
    // Activations of layers, and what the output layer keeps, and logits.
    let (mut now, mut outputs, mut loss) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut found = vec![point(0.0, 0.0, 0.0, 0.0)];
    for &(turn, begin, end) in turns {
        let chunk = |piece: Piece| held[piece.local as usize];
        let (forward, backward) = match turn {
            Turn::Forward(piece) => (Some(chunk(piece)), None),
            Turn::Backward(piece) | Turn::Input(piece) => (None, Some(chunk(piece))),
            Turn::Weight(_) => (None, None),
            Turn::Both { forward, backward } => (Some(chunk(forward)), Some(chunk(backward))),
        };
        // A turn of both passes has all of them from its beginning on.
        let forward_first = |most: bool| forward.filter(|_| most == backward.is_some());
        for at_once in [true, false] {
            if !at_once {
                // The memory of logits is free by the time that layers need theirs.
                let working = if backward.is_some() { (most_working - logits).max(0.0) } else { 0.0 };
                found.push(point(begin, now + outputs, loss, working));
            }
            if let Some(chunk) = forward_first(at_once) {
                now += chunk.layers;
                outputs += chunk.output;
                loss += chunk.logits;
            }
        }
        if let Some(chunk) = backward {
            now -= chunk.layers;
            outputs -= chunk.output;
            loss -= chunk.logits;
        }
        match turn {
            Turn::Input(piece) => now += chunk(piece).weights,
            Turn::Weight(piece) => now -= chunk(piece).weights,
            _ => {}
        }
        found.push(point(end, (now + outputs).max(0.0), loss.max(0.0), 0.0));
    }
    found
}
