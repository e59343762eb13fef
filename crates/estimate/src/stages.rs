//! Layers divided among the stages of a pipeline.

use crate::job::{Job, Split};
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
    let mut blocks = blocks(model);
    counts(model, job).into_iter().map(|count| blocks.by_ref().take(count).collect()).collect()
}

/// All blocks, in the order of the forward pass. Layers of multi-token prediction come last.
fn blocks(model: &Model) -> impl Iterator<Item = Block> {
    std::iter::once(Block::Embedding)
        .chain((0..model.layers + model.prediction_layers).map(Block::Layer))
        .chain(std::iter::once(Block::Output))
}

/// The number of blocks in each chunk.
fn counts(model: &Model, job: &Job) -> Vec<usize> {
    let chunks = (job.pipeline.max(1) * job.virtual_stages.max(1)) as usize;
    let layers = (model.layers + model.prediction_layers) as usize;
    // The first chunk has the embedding, too, and the last one the output layer.
    let ends = |chunk: usize, chunks: usize| usize::from(chunk == 0) + usize::from(chunk + 1 == chunks);
    if !job.chunk_layers.is_empty() {
        let given = job.chunk_layers.iter().enumerate();
        return given.map(|(chunk, &layers)| layers as usize + ends(chunk, job.chunk_layers.len())).collect();
    }
    match job.split {
        Split::Even => {
            let (each, more) = (layers / chunks, layers % chunks);
            (0..chunks)
                .map(|chunk| each + usize::from(chunk >= chunks - more) + ends(chunk, chunks))
                .collect()
        }
        Split::Ends => {
            let (each, more) = ((layers + 2) / chunks, (layers + 2) % chunks);
            (0..chunks).map(|chunk| each + usize::from(chunk < more)).collect()
        }
        Split::Rest => {
            let each = model.layers.div_ceil(chunks as u32) as usize;
            let mut left = model.layers as usize;
            let mut counts = vec![0; chunks];
            for (chunk, count) in counts.iter_mut().enumerate() {
                let taken = if chunk + 1 == chunks { layers + 2 } else { each.min(left) };
                left -= taken.min(left);
                *count = taken + usize::from(chunk == 0);
            }
            counts
        }
        Split::Cost => by_cost(model, job, chunks),
    }
}

/// The number of blocks in each of some chunks, which end as soon as all blocks so far have more than the chunks' share of all
/// parameters of matrices.
fn by_cost(model: &Model, job: &Job, chunks: usize) -> Vec<usize> {
    let cost = |block: Block| match block {
        Block::Embedding => 0,
        Block::Layer(_) => 4 * model.hidden * model.hidden + 3 * model.hidden * model.ffn,
        Block::Output => job.padded_vocab(model) * model.hidden,
    };
    let total: u64 = blocks(model).map(cost).sum();
    let mut counts = vec![0; chunks];
    let (mut chunk, mut sum) = (0, 0);
    for block in blocks(model) {
        counts[chunk] += 1;
        sum += cost(block);
        while chunk + 1 < chunks && sum * chunks as u64 > total * (chunk as u64 + 1) {
            chunk += 1;
        }
    }
    counts
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
