//! Layers divided among the stages of a pipeline, and the micro-batches in flight in each.

use crate::job::{Job, Schedule, Split};
use crate::model::Model;
use crate::schedule::places;

/// A part of the model that a stage computes at once, in the order of the forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// The table of tokens.
    Embedding,
    /// A layer.
    Layer(u32),
    /// Output layer and loss.
    Output,
}

/// The number of layers of a chunk.
pub fn layers_of(blocks: &[Block]) -> u32 {
    blocks.iter().filter(|block| matches!(block, Block::Layer(_))).count() as u32
}

/// Whether the `nth` layer of a chunk is the last one before the loss.
pub fn is_last(blocks: &[Block], nth: u32) -> bool {
    blocks.last() == Some(&Block::Output) && nth + 1 == layers_of(blocks)
}

/// The blocks of each chunk of the model, in the order of the forward pass: `virtual_stages` chunks for each stage.
pub fn divide_chunks(model: &Model, job: &Job) -> Vec<Vec<Block>> {
    let chunks = (job.pipeline.max(1) * job.virtual_stages.max(1)) as usize;
    let layers = model.layers + model.prediction_layers;
    let mut found = Vec::with_capacity(chunks);
    let blocks = std::iter::once(Block::Embedding)
        .chain((0..layers).map(Block::Layer))
        .chain(std::iter::once(Block::Output));
    if !job.chunk_layers.is_empty() {
        let (mut blocks, last) = (blocks, job.chunk_layers.len() - 1);
        let counts = job.chunk_layers.iter().enumerate();
        found.extend(counts.map(|(chunk, layers)| {
            let ends = usize::from(chunk == 0) + usize::from(chunk == last);
            blocks.by_ref().take(*layers as usize + ends).collect()
        }));
        return found;
    }
    match job.split {
        Split::Even => {
            let (least, more) = (layers as usize / chunks, layers as usize % chunks);
            let mut blocks = blocks;
            for chunk in 0..chunks {
                let ends = usize::from(chunk == 0) + usize::from(chunk + 1 == chunks);
                let count = least + usize::from(chunk >= chunks - more) + ends;
                found.push(blocks.by_ref().take(count).collect());
            }
        }
        Split::Ends => {
            let count = layers as usize + 2;
            let (least, more) = (count / chunks, count % chunks);
            let mut blocks = blocks;
            for chunk in 0..chunks {
                found.push(blocks.by_ref().take(least + usize::from(chunk < more)).collect());
            }
        }
        Split::Rest => {
            let each = model.layers.div_ceil(chunks as u32) as usize;
            let (mut blocks, mut left) = (blocks, model.layers as usize);
            for chunk in 0..chunks {
                let count = if chunk + 1 == chunks { layers as usize + 2 } else { each.min(left) };
                left -= count.min(left);
                found.push(blocks.by_ref().take(count + usize::from(chunk == 0)).collect());
            }
        }
        Split::Cost => {
            let cost = |block: Block| match block {
                Block::Embedding => 0,
                Block::Layer(_) => 4 * model.hidden * model.hidden + 3 * model.hidden * model.ffn,
                Block::Output => job.padded_vocab(model) * model.hidden,
            };
            let total: u64 = blocks.clone().map(cost).sum();
            found.resize(chunks, Vec::new());
            let (mut chunk, mut sum) = (0, 0);
            for block in blocks {
                found[chunk].push(block);
                sum += cost(block);
                while chunk + 1 < chunks && sum * chunks as u64 > total * (chunk as u64 + 1) {
                    chunk += 1;
                }
            }
        }
    }
    found
}

/// The blocks of each stage.
pub fn divide(model: &Model, job: &Job) -> Vec<Vec<Block>> {
    let chunks = divide_chunks(model, job);
    if job.virtual_stages < 2 && job.schedule.ways() < 2 {
        return chunks;
    }
    (0..job.pipeline.max(1))
        .map(|stage| {
            places(job, stage).flat_map(|place| chunks[place.chunk as usize].iter().copied()).collect()
        })
        .collect()
}

/// Micro-batches whose activations a stage keeps at most, a part of one if only some chunks have come to it.
///
/// With GPipe, a stage keeps all of them. With 1F1B, it computes a micro-batch forward for each later stage before its
/// first one backward. With `v` chunks, it computes all but one chunk of as many micro-batches as there are stages, and two
/// more chunks for each later stage: the first stage keeps `1 + (p - 1) / (p v)` times what it keeps with one chunk (SC21, 2.2;
/// Korthikanti et al. 2022, 4.2.3).
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

/// What a stage keeps at most if a micro-batch keeps `chunks` in each of its chunks, from its forward to its backward pass: with
/// [`in_flight`] micro-batches where these are equal. Elsewhere it matters which chunks they have come to: as many micro-batches
/// as there are stages go through one chunk after the other, forward from the first and backward from the last one.
///
/// `loss` is what the last stage keeps besides while a micro-batch is in its last chunk. A peak without it counts that much
/// less, so that the sum of both is the most of all.
pub fn kept_at_once(job: &Job, stage: u32, chunks: &[f64], loss: f64) -> f64 {
    let all: f64 = chunks.iter().sum();
    let equal = chunks.windows(2).all(|two| two[0].to_bits() == two[1].to_bits());
    if equal || job.schedule != Schedule::OneForwardOneBackward {
        return in_flight(job, stage) * all;
    }
    let (stages, count, batches) = (job.pipeline as usize, chunks.len(), job.micro_batches as usize);
    let (round, pieces) = (stages * count, batches.next_multiple_of(stages) * count);
    // The last micro-batches may be fewer than stages: others do not exist.
    let exists = |piece: usize| piece / round * stages + piece % stages < batches;
    let kept = |piece: usize, chunk: usize| if exists(piece) { chunks[chunk] } else { 0.0 };
    let forward = |piece: usize| kept(piece, piece % round / stages);
    let backward = |piece: usize| kept(piece, count - 1 - piece % round / stages);
    let ahead = (2 * (stages - 1 - stage as usize) + (count - 1) * stages).min(pieces);
    let mut now: f64 = (0..ahead).map(forward).sum();
    let mut most = now - loss;
    // Whatever a stage keeps, it keeps again after a round.
    for piece in 0..(pieces - ahead).min(round) {
        now += forward(ahead + piece);
        let last = (ahead + piece) % round / stages + 1 == count;
        most = most.max(if last { now } else { now - loss });
        now -= backward(piece);
    }
    most
}
