//! Micro-batches in flight: those that a stage has computed forward and not yet backward, and what it keeps of them.

use crate::job::{Job, Schedule};

/// The most micro-batches in flight in a stage; a fraction of one if only some of its chunks have computed it forward.
///
/// With GPipe, a stage keeps all micro-batches. With 1F1B, it computes one more forward than there are later stages before its
/// first backward pass. With `v` chunks (interleaved 1F1B), it computes as many micro-batches as there are stages through all
/// but one chunk, and two more chunks for each later stage: the first stage keeps `1 + (p - 1) / (p v)` times what it keeps with
/// one chunk (SC21, 2.2; Korthikanti et al. 2022, 4.2.3).
pub fn in_flight(job: &Job, stage: u32) -> f64 {
    let (stages, chunks) = (f64::from(job.pipeline.max(1)), f64::from(job.virtual_stages.max(1)));
    let (later, batches) = (stages - 1.0 - f64::from(stage), f64::from(job.micro_batches));
    if job.schedule == Schedule::GPipe {
        batches
    } else if chunks > 1.0 {
        (2.0 * later + (chunks - 1.0) * stages + 1.0).min(batches * chunks) / chunks
    } else {
        (later + 1.0).min(batches)
    }
}

/// The most bytes that a stage keeps from forward to backward passes, if one micro-batch keeps `chunks` bytes in each of its
/// chunks.
///
/// If all chunks keep the same, that is [`in_flight`] times their sum. Otherwise it depends on where each micro-batch is: groups
/// of as many micro-batches as there are stages go through one chunk after the other, forward from the first and backward from
/// the last one.
///
/// `loss` is the bytes that the last stage keeps in addition while a micro-batch is in its last chunk. Peaks without them count
/// as that much lower, so that the result plus `loss` is the highest peak.
pub fn kept_at_once(job: &Job, stage: u32, chunks: &[f64], loss: f64) -> f64 {
    let all: f64 = chunks.iter().sum();
    let equal = chunks.windows(2).all(|two| two[0].to_bits() == two[1].to_bits());
    if equal || job.schedule != Schedule::OneForwardOneBackward {
        return in_flight(job, stage) * all;
    }
    let (stages, count, batches) = (job.pipeline as usize, chunks.len(), job.micro_batches as usize);
    let (round, pieces) = (stages * count, batches.next_multiple_of(stages) * count);
    // The last group may have fewer micro-batches than there are stages.
    let exists = |piece: usize| piece / round * stages + piece % stages < batches;
    let kept = |piece: usize, chunk: usize| if exists(piece) { chunks[chunk] } else { 0.0 };
    let forward = |piece: usize| kept(piece, piece % round / stages);
    let backward = |piece: usize| kept(piece, count - 1 - piece % round / stages);
    let ahead = (2 * (stages - 1 - stage as usize) + (count - 1) * stages).min(pieces);
    let mut now: f64 = (0..ahead).map(forward).sum();
    let mut most = now - loss;
    // The bytes that a stage keeps repeat after a round.
    for piece in 0..(pieces - ahead).min(round) {
        now += forward(ahead + piece);
        let last = (ahead + piece) % round / stages + 1 == count;
        most = most.max(if last { now } else { now - loss });
        now -= backward(piece);
    }
    most
}
