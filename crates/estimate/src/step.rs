//! A step of training, and where its time goes.

use crate::activations::Treatment;
use crate::exchange::Exchange;
use crate::held::Held;
use crate::job::{Job, Precision};
use crate::layer::{Layer, Pass, Setting};
use crate::machine::{Cluster, Collective, Costs, Group, Product, Software};
use crate::model::Model;
use crate::offload::Copies;
use crate::schedule::places;
use crate::schedule::run::{ChunkTimes, Pipelined, pipelined};
use crate::stages::{Block, divide, divide_chunks};
use crate::work::{Linear, Part, cast_bytes};

/// The time of a step. All parts together are the step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What the slowest stage does with all micro-batches.
    pub stage: Pass,
    /// Embedding, output layer and loss in that stage, seconds.
    pub ends_s: f64,
    /// Waiting while the pipeline fills and drains, and for the slowest stage, seconds.
    pub bubble_s: f64,
    /// Exposed messages between stages, seconds.
    pub messages_s: f64,
    /// Exposed gradients and parameters, seconds.
    pub exchange_s: f64,
    /// The update of parameters, seconds.
    pub update_s: f64,
    /// Its exposed copies from and to the host, seconds.
    pub copies_s: f64,
    /// Seconds of a micro-batch in each stage.
    pub stages_s: Vec<f64>,
    /// Gradients and parameters, hidden or not, seconds.
    pub whole_exchange_s: f64,
    /// What an accelerator computes with all micro-batches, without the update: the mean over stages, seconds.
    pub computing_s: f64,
}

impl Step {
    /// The whole step, in seconds.
    pub fn seconds(&self) -> f64 {
        self.stage.seconds()
            + self.ends_s
            + self.bubble_s
            + self.messages_s
            + self.exchange_s
            + self.update_s
            + self.copies_s
    }

    /// Seconds in which accelerators compute, the mean over stages, plus `waiting` for each second in which they do not:
    /// with the part of its power that an accelerator draws while it waits, what a step takes of energy.
    pub fn weighted(&self, waiting: f64) -> f64 {
        let computing = self.computing_s + self.update_s;
        computing + waiting * (self.seconds() - computing)
    }
}

/// Times of embedding and output, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) embedding: End,
    pub(crate) output: End,
    /// What a layer of multi-token prediction has beside a layer and an output layer.
    pub(crate) joining: End,
}

/// Times of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(crate) struct End {
    /// Both passes.
    pub(crate) seconds: f64,
    /// Of these, the forward pass.
    pub(crate) forward: f64,
    /// And the gradients of weights.
    pub(crate) weight: f64,
    /// Collectives of tensor parallelism, forward and backward, besides.
    pub(crate) tensor: [f64; 2],
}

impl End {
    /// Seconds of the forward pass, of both, and of gradients of weights, `times` of them, with its collectives.
    pub(crate) fn passes(&self, times: f64) -> [f64; 3] {
        let [forward, backward] = self.tensor;
        [self.forward + forward, self.seconds + forward + backward, self.weight].map(|each| each * times)
    }
}

/// The times of one micro-batch in some blocks.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
struct BlockTimes {
    /// Layers, forward and backward.
    pass: Pass,
    /// Layers forward, seconds.
    forward_s: f64,
    /// Gradients of layers' weights, seconds.
    weight_s: f64,
    /// Computing and dispatch of layers, forward and backward.
    computing: [f64; 2],
    dispatch: [f64; 2],
    /// Embedding and output layer.
    end: End,
}

impl BlockTimes {
    /// Adds the blocks of a chunk: `layer` has the times of a layer, and its bytes in the host's memory, by its number and its
    /// treatment.
    fn add<C: Costs>(
        &mut self,
        setting: &Setting<'_, C>,
        blocks: &[Block],
        mut layer: impl FnMut(u32, Treatment) -> (Layer, f64),
        ends: Ends,
        predicted: f64,
    ) {
        let (mut nth, mut copies, mut turns) = (0, Copies::default(), None);
        for block in blocks {
            match *block {
                Block::Embedding => self.add_end(ends.embedding, 1.0),
                Block::Output => {
                    self.add_end(ends.output, 1.0 + predicted);
                    self.add_end(ends.joining, predicted);
                    let forward = ends.output.forward * (1.0 + predicted);
                    turns = Some((forward, ends.output.seconds * (1.0 + predicted) - forward));
                }
                Block::Layer(number) => {
                    let (found, bytes) = layer(number, Treatment::of(setting.job, nth, blocks));
                    nth += 1;
                    copies.add(&found, bytes);
                    self.forward_s += found.forward.seconds();
                    self.pass += found.forward;
                    self.pass += found.backward;
                    self.weight_s += found.weight_s;
                    for (at, pass) in [found.forward, found.backward].into_iter().enumerate() {
                        self.computing[at] += pass.compute();
                        self.dispatch[at] += pass.expert;
                    }
                }
            }
        }
        let (out, back) = copies.exposed(setting.cluster.host, turns);
        self.pass.offload += out + back;
        self.forward_s += out;
    }

    fn add_end(&mut self, end: End, times: f64) {
        self.end.seconds += end.seconds * times;
        self.end.forward += end.forward * times;
        self.end.weight += end.weight * times;
        let [forward, backward] = end.tensor;
        self.forward_s += forward * times;
        self.pass.tensor += (forward + backward) * times;
    }

    fn seconds(&self) -> f64 {
        self.pass.seconds() + self.end.seconds
    }

    fn times(&self) -> ChunkTimes {
        let (forward, weight) = (self.forward_s + self.end.forward, self.weight_s + self.end.weight);
        ChunkTimes {
            forward,
            input: self.seconds() - forward - weight,
            weight,
            computing: self.computing,
            dispatch: self.dispatch,
        }
    }
}

/// Estimates a step. The job must be one that [`crate::check::check`] accepts.
pub fn estimate<C: Costs>(
    model: &Model,
    job: &Job,
    cluster: Cluster,
    software: &Software,
    costs: &C,
) -> Step {
    let setting = Setting { model, job, cluster, software, costs };
    let chunks = divide_chunks(model, job);
    let mut times = LayerTimes::of(&setting);
    let ends = setting.ends();
    let predicted = f64::from(model.prediction_layers);
    let mut add = |times_of: &mut BlockTimes, blocks: &[Block]| {
        times_of.add(&setting, blocks, |number, treatment| times.layer(number, treatment), ends, predicted)
    };
    let mut stages = vec![BlockTimes::default(); job.pipeline.max(1) as usize];
    for (stage, found) in (0..).zip(&mut stages) {
        for place in places(job, stage) {
            add(found, &chunks[place.chunk as usize]);
        }
    }
    let stages_s: Vec<f64> = stages.iter().map(BlockTimes::seconds).collect();
    let computing = stages.iter().map(|stage| stage.pass.compute() + stage.end.seconds).sum::<f64>()
        / stages.len() as f64;
    let slowest = (0..stages.len()).max_by(|&a, &b| stages_s[a].total_cmp(&stages_s[b])).unwrap_or(0);
    // A stage has each micro-batch in one of its chunks if these are on different ways.
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let mut stage = scaled(stages[slowest].pass, batches);
    let exposed = if job.overlap.pipeline { software.pipeline_exposed } else { 1.0 };
    let message_s = setting.message_s();
    let Pipelined { bubble_s, messages_s, hidden_s } = if job.pipeline > 1 {
        let times: Vec<ChunkTimes> = chunks
            .iter()
            .map(|blocks| {
                let mut found = BlockTimes::default();
                add(&mut found, blocks);
                found.times()
            })
            .collect();
        pipelined(job, &times, message_s, exposed, slowest)
    } else {
        Pipelined::default()
    };
    stage.expert -= hidden_s;
    let BlockTimes { forward_s, end, .. } = stages[slowest];
    // Tokens of a forward pass hide behind a backward pass of another micro-batch, and the reverse. Passes before the first
    // backward pass of the last stage have none to hide behind, nor have as many at the end; nor has one in the bubble, on every
    // other stage.
    let alone = if job.schedule.is_ordered() {
        0.0
    } else {
        stages[slowest].pass.hidden / f64::from(job.virtual_stages.max(1))
    };
    stage.expert += alone * f64::from(passes_alone(job));
    let bubble_s = bubble_s + alone * f64::from(job.pipeline.max(1) - 1);
    let backward_s = stages_s[slowest] - forward_s;
    let Exchange { whole_s, exposed_s, update_s, copies_s } =
        setting.exchange(setting.held(), backward_s, batches * stages_s[slowest]);
    Step {
        stage,
        ends_s: end.seconds * batches,
        bubble_s,
        messages_s,
        exchange_s: exposed_s,
        update_s,
        copies_s,
        stages_s,
        whole_exchange_s: whole_s,
        computing_s: computing * batches,
    }
}

/// Forward passes of chunks of the last stage that come before its first backward pass: with several chunks a stage, as many
/// micro-batches as stages go through all chunks but the last one first (Narayanan et al. 2021, 2.2).
fn passes_alone(job: &Job) -> u32 {
    let (stages, chunks) = (job.pipeline.max(1), job.virtual_stages.max(1));
    if chunks > 1 && job.micro_batches == stages {
        job.micro_batches * chunks
    } else {
        (chunks - 1) * stages + 1
    }
}

/// What the time of a layer depends on: experts, the window of attention, how its activations are treated, and whether it has
/// 16 bits where others have fewer.
type Kind = (bool, Option<u64>, Treatment, bool);

/// Times of layers and their bytes in the host's memory, of which those of a kind are the same.
struct LayerTimes<'a, C: Costs> {
    setting: &'a Setting<'a, C>,
    bf16: Option<Job>,
    kinds: Vec<(Kind, (Layer, f64))>,
}

impl<'a, C: Costs> LayerTimes<'a, C> {
    fn of(setting: &'a Setting<'a, C>) -> Self {
        Self { setting, bf16: setting.job.of_bf16_layers(), kinds: Vec::with_capacity(3) }
    }

    fn layer(&mut self, number: u32, treatment: Treatment) -> (Layer, f64) {
        let model = self.setting.model;
        let setting = self.setting.of_layer(number, self.bf16.as_ref());
        let bf16 = self.setting.job.is_bf16(model, number);
        // Layers of multi-token prediction are like the last layer, but never have 16 bits.
        let number = number.min(model.layers - 1);
        let kind = (model.has_experts(number), model.window(number), treatment, bf16);
        if let Some((_, found)) = self.kinds.iter().find(|(each, _)| *each == kind) {
            return *found;
        }
        let found = (setting.layer(number, treatment.again), setting.host_bytes(number, treatment));
        self.kinds.push((kind, found));
        found
    }
}

fn scaled(pass: Pass, by: f64) -> Pass {
    Pass {
        products: pass.products * by,
        attention: pass.attention * by,
        element_wise: pass.element_wise * by,
        tensor: pass.tensor * by,
        context: pass.context * by,
        expert: pass.expert * by,
        launch: pass.launch * by,
        offload: pass.offload * by,
        hidden: pass.hidden * by,
    }
}

impl<C: Costs> Setting<'_, C> {
    /// The times of one micro-batch in each chunk of the model.
    pub(crate) fn chunk_times(&self) -> Vec<ChunkTimes> {
        let (ends, predicted) = (self.ends(), f64::from(self.model.prediction_layers));
        let mut layers = LayerTimes::of(self);
        let chunks = divide_chunks(self.model, self.job);
        let times = chunks.iter().map(|blocks| {
            let mut found = BlockTimes::default();
            found.add(self, blocks, |number, treatment| layers.layer(number, treatment), ends, predicted);
            found.times()
        });
        times.collect()
    }

    /// Parameters of the stage that has most of them.
    pub(crate) fn held(&self) -> Held {
        let blocks = divide(self.model, self.job);
        let stages = blocks.iter().map(|stage| Held::of(self.model, self.job, stage));
        stages.fold(Held::default(), Held::larger)
    }

    /// Bytes that the loss and its gradient move, with casts of the inputs and gradients of logits as those of layers.
    pub(crate) fn logit_bytes(&self, precision: Precision, tokens: u64, vocab: u64) -> f64 {
        let elements = if precision.casts() { tokens * (self.model.hidden + vocab) } else { 0 };
        let cast = cast_bytes(self.job) * elements as f64;
        self.software.logit_bytes * (tokens * vocab) as f64 + self.software.element_wise * cast
    }

    /// Embedding and output of a micro-batch, forward and backward.
    pub(crate) fn ends(&self) -> Ends {
        let (job, tokens) = (self.job, self.job.tokens());
        let vocab = job.rank_vocab(self.model);
        let hidden = self.model.hidden;
        let precision = job.output_precision();
        let product = |product, m, n, k| self.product_of(product, precision, m, n, k);
        let logits = self.costs.memory(self.logit_bytes(precision, tokens, vocab));
        let forward = product(Product::Forward, tokens, vocab, hidden);
        let mut output = logits + forward + product(Product::InputGradient, tokens, hidden, vocab);
        let mut weight = 0.0;
        if job.adapters.is_none() {
            weight =
                product(Product::WeightGradient, vocab, hidden, tokens) + self.accumulation(vocab * hidden);
            output += weight;
        }
        let joining = self.joining();
        let joined = |product| self.product(product, &joining);
        let mut joining_s = joined(Product::Forward) + joined(Product::InputGradient);
        let mut joining_weight = 0.0;
        if job.adapters.is_none() {
            joining_weight =
                joined(Product::WeightGradient) + self.accumulation(joining.inputs * joining.outputs);
            joining_s += joining_weight;
        }
        // Rows of the table are read and written forward; their gradients are read and added backward.
        let embedding = self.costs.memory((tokens * hidden * 10) as f64);
        let read = embedding * 4.0 / 10.0;
        Ends {
            embedding: End {
                seconds: embedding,
                forward: read,
                weight: embedding - read,
                tensor: [false, true].map(|backward| self.around_embedding(backward)),
            },
            // Half of the logits' traffic is that of the loss, the other half that of its gradient.
            output: End {
                seconds: output,
                forward: forward + logits / 2.0,
                weight,
                tensor: [false, true].map(|backward| self.around_output(backward)),
            },
            joining: End {
                seconds: joining_s,
                forward: joined(Product::Forward),
                weight: joining_weight,
                tensor: [0.0; 2],
            },
        }
    }

    /// The product that joins two tokens in a layer of multi-token prediction.
    pub(crate) fn joining(&self) -> Linear {
        let hidden = self.model.hidden;
        let outputs = hidden / u64::from(self.job.tensor);
        Linear { tokens: self.job.tokens(), inputs: 2 * hidden, outputs, groups: 1, part: Part::Dense }
    }

    /// The collective of a pass around the embedding: each rank has rows of the table, and they sum what they find. With
    /// sequence parallelism, ranks gather gradients of all tokens.
    pub(crate) fn around_embedding(&self, backward: bool) -> f64 {
        match (self.job.sequence_parallel, backward) {
            (true, false) => self.tokens_of(Collective::ReduceScatter),
            (true, true) => self.tokens_of(Collective::AllGather),
            (false, false) => self.tokens_of(Collective::AllReduce),
            (false, true) => 0.0,
        }
    }

    /// The collective of a pass around the output layer, of which each rank has a part of the vocabulary.
    pub(crate) fn around_output(&self, backward: bool) -> f64 {
        match (self.job.sequence_parallel, backward) {
            (true, false) => self.tokens_of(Collective::AllGather),
            (true, true) => self.tokens_of(Collective::ReduceScatter),
            (false, false) => 0.0,
            (false, true) => self.tokens_of(Collective::AllReduce),
        }
    }

    /// Bytes of a message of one micro-batch from a rank to the next stage.
    ///
    /// Each tensor-parallel rank sends its part: with sequence parallelism it has no more, and without, the receivers gather the
    /// parts (scatter and gather, SC21, 4.1; DeepSpeed's pipelines do the same).
    pub(crate) const fn message_bytes(&self) -> u64 {
        self.job.tokens() * self.model.hidden * 2 / self.job.tensor as u64
    }

    /// A message of one micro-batch to the next stage.
    pub(crate) fn message_s(&self) -> f64 {
        let job = self.job;
        if job.pipeline < 2 {
            return 0.0;
        }
        let bytes = self.message_bytes() as f64;
        let gathered = if job.sequence_parallel || job.tensor < 2 {
            0.0
        } else {
            let whole = bytes * f64::from(job.tensor);
            self.costs.collective(Collective::AllGather, whole, Group::strided(job.tensor, 1, self.domain()))
        };
        gathered + self.costs.collective(Collective::Send, bytes, self.two_stages(1))
    }

    /// A rank and that which is `apart` stages away. The slowest message counts: if stages lie in several domains, one between
    /// two of them.
    pub(crate) fn two_stages(&self, apart: u32) -> Group {
        let (stride, domain) = (self.job.stage_ranks(), self.domain());
        if stride * self.job.pipeline > domain {
            Group { in_domain: 1, domains: 2, concurrent: stride.min(domain) }
        } else {
            Group::strided(2, stride * apart, domain)
        }
    }
}
