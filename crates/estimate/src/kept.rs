//! Activations that a chunk of layers keeps of one micro-batch from its forward to its backward pass.

use crate::activations::{
    Activations, Treatment, embedding, embedding_weights, layer_activations, output_layer, output_weights,
};
use crate::job::Job;
use crate::memory_software::MemorySoftware;
use crate::model::Model;
use crate::schedule::run::ChunkBytes;
use crate::stages::{Block, divide_chunks};

/// Bytes that one micro-batch keeps in a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kept {
    /// Of embedding and layers, from forward to backward pass.
    pub layers: f64,
    /// From the gradients of inputs to the gradients of weights, in schedules that separate these.
    pub weights: f64,
    /// Of the output layer, from forward to backward pass; it keeps one micro-batch at a time.
    pub output: f64,
    /// Logits and their gradients.
    pub logits: f64,
    /// Of the layer that needs the most memory while it computes backward.
    pub working: f64,
    /// Of layers, in host memory.
    pub host: f64,
}

impl Kept {
    /// The bytes by which [`crate::schedule`] finds the peak of a schedule that separates gradients of weights.
    pub(crate) fn ordered(self) -> ChunkBytes {
        ChunkBytes { forward: self.layers + self.output, weight: self.weights }
    }
}

/// The bytes of each chunk of a job.
pub(crate) fn kept_by_chunk(model: &Model, job: &Job, software: &MemorySoftware) -> Vec<Kept> {
    let kinds = Kinds::of_model(model, job, software);
    divide_chunks(model, job).iter().map(|blocks| kept(model, job, software, &kinds, blocks)).collect()
}

fn kept(model: &Model, job: &Job, software: &MemorySoftware, kinds: &Kinds, blocks: &[Block]) -> Kept {
    let (mut found, mut nth) = (Kept::default(), 0);
    for block in blocks {
        match *block {
            Block::Embedding => {
                found.layers += embedding(model, job);
                found.weights += embedding_weights(model, job);
            }
            Block::Layer(layer) => {
                let each = kinds.of(job, layer, nth, blocks);
                nth += 1;
                found.layers += each.kept;
                found.weights += each.weights;
                found.working = found.working.max(each.working);
                found.host += each.host;
            }
            Block::Output => {
                let losses = f64::from(1 + model.prediction_layers);
                let vocab = job.rank_vocab(model) as f64;
                found.output += losses * output_layer(model, job);
                found.weights += losses * output_weights(model, job);
                found.logits += losses * software.logit_bytes * job.tokens() as f64 * vocab;
            }
        }
    }
    found
}

/// What layers keep: those without experts and those with, as they are and as they are computed again, in the precision of the
/// job and in 16 bits.
struct Kinds<'a> {
    model: &'a Model,
    kept: [[[[Activations; 2]; 2]; 2]; 2],
}

impl<'a> Kinds<'a> {
    fn of_model(model: &'a Model, job: &Job, software: &MemorySoftware) -> Self {
        let bf16 = job.of_bf16_layers();
        let kept = [Some(job), bf16.as_ref()].map(|job| {
            [false, true].map(|experts| {
                let layer = (0..model.layers).find(|layer| model.has_experts(*layer) == experts);
                [false, true].map(|again| {
                    [false, true].map(|offloaded| {
                        job.zip(layer).map_or_else(Activations::default, |(job, layer)| {
                            layer_activations(model, job, software, layer, Treatment { again, offloaded })
                        })
                    })
                })
            })
        });
        Self { model, kept }
    }

    /// Those of a layer that is the `nth` of a chunk.
    fn of(&self, job: &Job, layer: u32, nth: u32, blocks: &[Block]) -> Activations {
        // Layers of multi-token prediction are like the last layer.
        let experts = self.model.has_experts(layer.min(self.model.layers - 1));
        let Treatment { again, offloaded } = Treatment::of(job, nth, blocks);
        let bf16 = usize::from(job.is_bf16(self.model, layer));
        self.kept[bf16][usize::from(experts)][usize::from(again)][usize::from(offloaded)]
    }
}
