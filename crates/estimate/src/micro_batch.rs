//! The times of one micro-batch in the chunks of a pipeline's stages.

use crate::activations::Treatment;
use crate::exchange::Computing;
use crate::job::Job;
use crate::layer::{Layer, Pass, Setting};
use crate::machine::Costs;
use crate::offload::Copies;
use crate::schedule::run::ChunkTimes;
use crate::stages::{Block, divide_chunks};
use crate::vocabulary::{Vocabulary, VocabularyLayer};

/// The times of one micro-batch in some chunks.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct MicroBatch {
    /// Layers, forward and backward.
    pub(crate) pass: Pass,
    /// Layers forward, seconds.
    pub(crate) forward_s: f64,
    /// Gradients of layers' weights, seconds.
    weight_s: f64,
    /// Computing of layers, forward and backward, seconds.
    computing: [f64; 2],
    /// Dispatch and combine of layers, forward and backward, seconds.
    dispatch: [f64; 2],
    /// Embedding and output layer.
    pub(crate) vocabulary: VocabularyLayer,
}

impl MicroBatch {
    /// Forward and backward pass, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.pass.seconds() + self.vocabulary.seconds
    }

    /// The times that an order of passes needs.
    fn times(&self) -> ChunkTimes {
        let forward = self.forward_s + self.vocabulary.forward;
        let weight = self.weight_s + self.vocabulary.weight;
        ChunkTimes {
            forward,
            input: self.seconds() - forward - weight,
            weight,
            computing: self.computing,
            dispatch: self.dispatch,
        }
    }

    fn add_layer(&mut self, layer: &Layer) {
        self.forward_s += layer.forward.seconds();
        self.pass += layer.forward;
        self.pass += layer.backward;
        self.weight_s += layer.weight_s;
        for (at, pass) in [layer.forward, layer.backward].into_iter().enumerate() {
            self.computing[at] += pass.compute();
            self.dispatch[at] += pass.expert;
        }
    }

    fn add_vocabulary(&mut self, layer: VocabularyLayer, times: f64) {
        self.vocabulary.seconds += layer.seconds * times;
        self.vocabulary.forward += layer.forward * times;
        self.vocabulary.weight += layer.weight * times;
        let [forward, backward] = layer.tensor;
        self.forward_s += forward * times;
        self.pass.tensor += (forward + backward) * times;
    }
}

/// Finds the times of chunks; layers of a kind are timed once.
pub(crate) struct ChunkTimer<'a, C: Costs> {
    setting: &'a Setting<'a, C>,
    /// The job of layers that stay in BF16.
    bf16: Option<Job>,
    vocabulary: Vocabulary,
    /// Times and bytes in the host's memory, by kind of layer.
    layers: Vec<(Kind, (Layer, f64))>,
}

/// What the time of a layer depends on: experts, the window of attention, how its activations are treated, and whether it stays
/// in BF16.
type Kind = (bool, Option<u64>, Treatment, bool);

impl<'a, C: Costs> ChunkTimer<'a, C> {
    pub(crate) fn of(setting: &'a Setting<'a, C>) -> Self {
        let bf16 = setting.job.of_bf16_layers();
        Self { setting, bf16, vocabulary: setting.vocabulary(), layers: Vec::with_capacity(3) }
    }

    /// A micro-batch in chunks of one stage.
    pub(crate) fn micro_batch<'b>(&mut self, chunks: impl Iterator<Item = &'b Vec<Block>>) -> MicroBatch {
        let mut times = MicroBatch::default();
        for blocks in chunks {
            self.add(&mut times, blocks);
        }
        times
    }

    /// The times of each chunk.
    pub(crate) fn chunks(&mut self, chunks: &[Vec<Block>]) -> Vec<ChunkTimes> {
        chunks.iter().map(|blocks| self.micro_batch(std::iter::once(blocks)).times()).collect()
    }

    /// What each block of a chunk computes.
    pub(crate) fn computing(&mut self, blocks: &[Block]) -> Vec<Computing> {
        let (mut nth, predicted) = (0, f64::from(self.setting.model.prediction_layers));
        let both = |layer: &VocabularyLayer, times: f64| {
            let [forward, both, _] = layer.passes(times);
            [forward, both - forward]
        };
        let of = |&block: &Block| {
            let (seconds, tokens) = match block {
                Block::Embedding => (both(&self.vocabulary.embedding, 1.0), [0.0; 2]),
                Block::Output => {
                    let output = both(&self.vocabulary.output, 1.0 + predicted);
                    let joining = both(&self.vocabulary.joining, predicted);
                    ([0, 1].map(|pass| output[pass] + joining[pass]), [0.0; 2])
                }
                Block::Layer(number) => {
                    let (layer, _) = self.layer(number, Treatment::of(self.setting.job, nth, blocks));
                    nth += 1;
                    let passes = [layer.forward, layer.backward];
                    (passes.map(|pass| pass.seconds() - pass.expert), passes.map(|pass| pass.expert))
                }
            };
            Computing { block, seconds, tokens }
        };
        blocks.iter().map(of).collect()
    }

    /// Adds the blocks of a chunk.
    fn add(&mut self, times: &mut MicroBatch, blocks: &[Block]) {
        let job = self.setting.job;
        let Vocabulary { embedding, output, joining } = self.vocabulary;
        let predicted = f64::from(self.setting.model.prediction_layers);
        let (mut nth, mut copies, mut turns) = (0, Copies::default(), None);
        for block in blocks {
            match *block {
                Block::Embedding => times.add_vocabulary(embedding, 1.0),
                Block::Output => {
                    times.add_vocabulary(output, 1.0 + predicted);
                    times.add_vocabulary(joining, predicted);
                    let forward = output.forward * (1.0 + predicted);
                    turns = Some((forward, output.seconds * (1.0 + predicted) - forward));
                }
                Block::Layer(number) => {
                    let (layer, host_bytes) = self.layer(number, Treatment::of(job, nth, blocks));
                    nth += 1;
                    copies.add(&layer, host_bytes);
                    times.add_layer(&layer);
                }
            }
        }
        let (out, back) = copies.exposed(self.setting.cluster.host, turns);
        times.pass.offload += out + back;
        times.forward_s += out;
    }

    /// The times of a layer, and its bytes in the host's memory.
    fn layer(&mut self, number: u32, treatment: Treatment) -> (Layer, f64) {
        let model = self.setting.model;
        let setting = self.setting.of_layer(number, self.bf16.as_ref());
        let bf16 = self.setting.job.is_bf16(model, number);
        // Layers of multi-token prediction are like the last layer, but never stay in BF16.
        let number = number.min(model.layers - 1);
        let kind = (model.has_experts(number), model.window(number), treatment, bf16);
        if let Some((_, known)) = self.layers.iter().find(|(each, _)| *each == kind) {
            return *known;
        }
        let times = (setting.layer(number, treatment.again), setting.host_bytes(number, treatment));
        self.layers.push((kind, times));
        times
    }
}

impl<C: Costs> Setting<'_, C> {
    /// The times of one micro-batch in each chunk of the model.
    pub(crate) fn chunk_times(&self) -> Vec<ChunkTimes> {
        ChunkTimer::of(self).chunks(&divide_chunks(self.model, self.job))
    }
}
