//! A step in detail, for a report: the pipeline turn by turn, memory over the step, communication, kernels.
//!
//! An estimate adds up what a step takes. A profile says the same of one job piece by piece, from the same times: turns are
//! executed one by one ([`crate::schedule::run::timeline`]), each as early as it can be. The end of the last one therefore
//! checks the closed form of the pipeline, and the most that a stage keeps checks the memory.

use crate::adapters::adapted;
use crate::job::{Job, Module, Precision, Recompute, Schedule};
use crate::kept::{Kept, kept_by_chunk};
use crate::layer::{Pass, Setting};
use crate::machine::{AttentionWork, Cluster, Collective, Costs, Group, MemorySoftware, Product, Software};
use crate::memory::{Memory, memory_by_stage};
use crate::model::Model;
use crate::schedule::order::{Piece, Turn};
use crate::schedule::places;
use crate::schedule::run::{ChunkTimes, timeline};
use crate::stages::{Block, divide_chunks};
use crate::step::estimate;
use crate::work::{LayerWork, Linear, Part, layer_work};
use serde::Serialize;
use std::cell::{Cell, RefCell};

/// A step in detail.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Seconds of the step, by the estimate.
    pub step_s: f64,
    /// Seconds until the last stage has done its last turn.
    pub pipeline_s: f64,
    /// Seconds of exposed gradients and parameters after that.
    pub exchange_s: f64,
    /// Seconds of the optimizer after that, and of its exposed copies from and to the host.
    pub update_s: f64,
    /// The stage that computes most.
    pub slowest: usize,
    /// All turns, by stage and time.
    pub spans: Vec<Span>,
    /// The memory of each stage.
    pub memory: Vec<StageMemory>,
    /// Communication of a rank of the slowest stage, by axis.
    pub communication: Vec<Communication>,
    /// Kernels of a rank of the slowest stage.
    pub kernels: Vec<Kernel>,
}

/// What a stage does in a part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// The stage.
    pub stage: usize,
    /// What it does.
    pub kind: SpanKind,
    /// The micro-batch, from 0; of two at once, that of the forward pass.
    pub micro_batch: u32,
    /// The chunk of the stage.
    pub chunk: u32,
    /// Begin, in seconds.
    pub begin_s: f64,
    /// End, in seconds.
    pub end_s: f64,
}

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// A forward pass.
    Forward,
    /// A backward pass.
    Backward,
    /// Gradients of inputs alone.
    Input,
    /// Gradients of weights alone.
    Weight,
    /// A forward and a backward pass at once.
    Both,
    /// An exposed message.
    Message,
}

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

/// One kind of communication of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Communication {
    /// The part of the step that it belongs to.
    pub part: &'static str,
    /// The collective.
    pub collective: &'static str,
    /// Its bytes, as those of [`Collective`].
    pub bytes: f64,
    /// Ranks in each NVLink domain.
    pub in_domain: u32,
    /// NVLink domains; more than 1 if it goes through the network.
    pub domains: u32,
    /// How many of these a rank takes part in, in a step.
    pub times: f64,
    /// Seconds of each.
    pub each_s: f64,
}

/// One kernel of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kernel {
    /// What it computes.
    pub name: String,
    /// Forward, or which gradient.
    pub pass: &'static str,
    /// The data type whose peak counts; none for kernels that only move bytes.
    pub precision: Option<&'static str>,
    /// How often it runs in a step.
    pub times: f64,
    /// Seconds of each.
    pub each_s: f64,
    /// Floating-point operations of each.
    pub flop: f64,
    /// Bytes between memory and registers, if each operand and result moves once.
    pub bytes: f64,
}

/// A step in detail. The job must be one that [`crate::check::check`] accepts.
pub fn profile<C: Costs>(
    model: &Model,
    job: &Job,
    cluster: Cluster,
    software: &Software,
    memory: &MemorySoftware,
    costs: &C,
) -> Profile {
    let setting = Setting { model, job, cluster, software, costs };
    let step = estimate(model, job, cluster, software, costs);
    let chunks = setting.chunk_times();
    let slowest =
        (0..step.stages_s.len()).max_by(|&a, &b| step.stages_s[a].total_cmp(&step.stages_s[b])).unwrap_or(0);
    let exposed = if job.overlap.pipeline { software.pipeline_exposed } else { 1.0 };
    let message_s = setting.message_s();
    let wait_s = exposed * message_s;
    let turns = executed(job, &chunks, wait_s, message_s - wait_s);
    let pipeline_s = turns.iter().flatten().map(|(_, _, end)| *end).fold(0.0, f64::max);
    Profile {
        step_s: step.seconds(),
        pipeline_s,
        exchange_s: step.exchange_s,
        update_s: step.update_s + step.copies_s,
        slowest,
        spans: spans(&turns, wait_s),
        memory: over_time(model, job, memory, &turns),
        communication: communication(&setting, slowest),
        kernels: kernels(&setting, slowest),
    }
}

/// The turns of each stage: each waits for its message for `wait_s` after it has computed, and the next stage has it
/// `late_s` later.
fn executed(job: &Job, chunks: &[ChunkTimes], wait_s: f64, late_s: f64) -> Vec<Vec<(Turn, f64, f64)>> {
    let chunks: Vec<ChunkTimes> = chunks
        .iter()
        .map(|&times| ChunkTimes { forward: times.forward + wait_s, input: times.input + wait_s, ..times })
        .collect();
    timeline(job, &chunks, late_s)
}

fn spans(turns: &[Vec<(Turn, f64, f64)>], wait_s: f64) -> Vec<Span> {
    let mut found = Vec::new();
    for (stage, turns) in turns.iter().enumerate() {
        for &(turn, begin, end) in turns {
            let (kind, Piece { local, micro_batch }, waits) = match turn {
                Turn::Forward(piece) => (SpanKind::Forward, piece, 1.0),
                Turn::Backward(piece) => (SpanKind::Backward, piece, 1.0),
                Turn::Input(piece) => (SpanKind::Input, piece, 1.0),
                Turn::Weight(piece) => (SpanKind::Weight, piece, 0.0),
                Turn::Both { forward, .. } => (SpanKind::Both, forward, 2.0),
            };
            let until = (end - waits * wait_s).max(begin);
            let span = |kind, begin_s, end_s| Span { stage, kind, micro_batch, chunk: local, begin_s, end_s };
            found.push(span(kind, begin, until));
            if end > until {
                found.push(span(SpanKind::Message, until, end));
            }
        }
    }
    found
}

/// The memory of each stage before and after each of its turns.
fn over_time(
    model: &Model,
    job: &Job,
    software: &MemorySoftware,
    turns: &[Vec<(Turn, f64, f64)>],
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

fn points(
    job: &Job,
    software: &MemorySoftware,
    peak: &Memory,
    held: &[Kept],
    turns: &[(Turn, f64, f64)],
) -> Vec<Point> {
    let streams = if job.tensor > 1 { software.stream_fragmentation } else { 0.0 };
    let lost = software.fragmentation + streams;
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

/// The communication of a rank of a stage.
fn communication<C: Costs>(setting: &Setting<'_, C>, stage: usize) -> Vec<Communication> {
    let noted = Noted::of(setting.costs);
    let inner = setting.with(&noted);
    let (model, job) = (setting.model, setting.job);
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let modules = job.modules_again();
    let mut found: Vec<Communication> = Vec::new();
    let mut add = |part: &'static str, times: &dyn Fn(Collective) -> f64| {
        for (collective, bytes, group, each_s) in noted.calls.take() {
            let made = Communication {
                part,
                collective: name(collective),
                bytes,
                in_domain: group.in_domain,
                domains: group.domains,
                times: times(collective),
                each_s,
            };
            let alike =
                |each: &&mut Communication| Communication { times: made.times, ..(**each).clone() } == made;
            match found.iter_mut().find(alike) {
                Some(each) => each.times += made.times,
                None => found.push(made),
            }
        }
    };
    for (block, again) in computed(model, job, stage) {
        let number = match block {
            Block::Layer(number) => number,
            Block::Embedding => {
                inner.around_embedding(false);
                inner.around_embedding(true);
                add("tensor", &|_| batches);
                continue;
            }
            Block::Output => {
                inner.around_output(false);
                inner.around_output(true);
                add("tensor", &|_| batches * f64::from(1 + model.prediction_layers));
                continue;
            }
        };
        let work = layer_work(model, job, number.min(model.layers - 1));
        let again = job.recompute == Recompute::Full && again;
        let repeated = |module| if again || modules.has(module) { 2.0 } else { 1.0 };
        // The backward pass has the collectives of the forward pass.
        inner.tensor(&work);
        add("tensor", &|_| batches * if again { 3.0 } else { 2.0 });
        inner.heads(&work, Collective::AllGather);
        add("tensor", &|_| batches * if again { 2.0 } else { 1.0 });
        inner.heads(&work, Collective::ReduceScatter);
        add("tensor", &|_| batches);
        if job.recompute == Recompute::Selective {
            inner.parts_again(&work, &Pass::default());
            add("tensor", &|_| batches);
        }
        inner.context(&work, inner.attention(&work, false), false);
        add("context", &|_| batches * repeated(Module::CoreAttention));
        inner.context(&work, inner.attention(&work, true), true);
        add("context", &|_| batches);
        inner.gathered(&work);
        if let Some((bytes, group, seconds)) = inner.exchanged(&work) {
            let mut calls = noted.calls.borrow_mut();
            // Kernels of their own are no collective of NCCL.
            if calls.iter().all(|call| call.0 != Collective::AllToAll) {
                calls.push((Collective::AllToAll, bytes, group, seconds / 2.0));
            }
        }
        // Tokens go to experts and come back; where ranks divide an expert, they gather tokens once and sum outputs once.
        add("expert", &|collective| {
            let ways = if collective == Collective::AllToAll { 2.0 } else { 1.0 };
            ways * batches * (1.0 + repeated(Module::Moe))
        });
    }
    if job.pipeline > 1 {
        inner.message_s();
        add("messages", &|_| 2.0 * batches * f64::from(job.virtual_stages.max(1)));
    }
    inner.exchange(inner.held(), 0.0, 0.0);
    let every = f64::from(job.micro_batches);
    add("exchange", &|collective| match (job.zero, job.pipeline, collective) {
        (3, 1, Collective::AllGather) => 2.0 * every,
        (3, 1, Collective::ReduceScatter) | (2, _, Collective::ReduceScatter) => every,
        _ => 1.0,
    });
    found
}

/// The blocks of a stage, and whether the backward pass computes each of its layers again.
fn computed(model: &Model, job: &Job, stage: usize) -> Vec<(Block, bool)> {
    let chunks = divide_chunks(model, job);
    let mut found = Vec::new();
    for place in places(job, stage as u32) {
        let mut nth = 0;
        for &block in &chunks[place.chunk as usize] {
            let layer = matches!(block, Block::Layer(_));
            found.push((block, layer && job.computes_again(nth)));
            nth += u32::from(layer);
        }
    }
    found
}

const fn name(collective: Collective) -> &'static str {
    match collective {
        Collective::AllReduce => "all-reduce",
        Collective::AllGather => "all-gather",
        Collective::ReduceScatter => "reduce-scatter",
        Collective::AllToAll => "all-to-all",
        Collective::Send => "send",
    }
}

/// Costs that note collectives, and the bytes of the last kernel that only moves some.
struct Noted<'a, C: Costs> {
    inner: &'a C,
    calls: RefCell<Vec<(Collective, f64, Group, f64)>>,
    moved: Cell<f64>,
}

impl<'a, C: Costs> Noted<'a, C> {
    fn of(inner: &'a C) -> Self {
        Self { inner, calls: RefCell::default(), moved: Cell::default() }
    }
}

impl<C: Costs> Costs for Noted<'_, C> {
    fn product(&self, product: Product, precision: Precision, m: u64, n: u64, k: u64, groups: u64) -> f64 {
        self.inner.product(product, precision, m, n, k, groups)
    }

    fn attention(&self, work: AttentionWork) -> f64 {
        self.inner.attention(work)
    }

    fn memory(&self, bytes: f64) -> f64 {
        self.moved.set(bytes);
        self.inner.memory(bytes)
    }

    fn collective(&self, collective: Collective, bytes: f64, group: Group) -> f64 {
        let seconds = self.inner.collective(collective, bytes, group);
        self.calls.borrow_mut().push((collective, bytes, group, seconds));
        seconds
    }
}

impl<'a, C: Costs> Setting<'a, C> {
    /// The same with other costs.
    const fn with<'b, D: Costs>(&self, costs: &'b D) -> Setting<'b, D>
    where
        'a: 'b,
    {
        Setting { model: self.model, job: self.job, cluster: self.cluster, software: self.software, costs }
    }
}

/// The kernels of a rank of a stage: those of its layers, of embedding and output layer, and of the optimizer.
fn kernels<C: Costs>(setting: &Setting<'_, C>, stage: usize) -> Vec<Kernel> {
    let costs = Noted::of(setting.costs);
    let noted = setting.with(&costs);
    let (model, job) = (setting.model, setting.job);
    let batches = f64::from(job.micro_batches) / f64::from(job.schedule.ways());
    let mut found: Vec<Kernel> = Vec::new();
    let mut add = |kernel: Kernel| {
        if kernel.each_s <= 0.0 || kernel.times <= 0.0 {
            return;
        }
        let alike = |each: &&mut Kernel| Kernel { times: kernel.times, ..(**each).clone() } == kernel;
        match found.iter_mut().find(alike) {
            Some(each) => each.times += kernel.times,
            None => found.push(kernel),
        }
    };
    let wide = job.of_wide_layers();
    for (block, again) in computed(model, job, stage) {
        match block {
            Block::Embedding => {
                let bytes = (job.tokens() * model.hidden * 10) as f64;
                add(moved("embedding", "forward and backward", batches, setting.costs.memory(bytes), bytes));
            }
            Block::Layer(number) => {
                let noted = noted.of_layer(number, wide.as_ref());
                for kernel in noted.layer_kernels(number.min(model.layers - 1), again, batches) {
                    add(kernel);
                }
            }
            Block::Output => {
                let times = batches * f64::from(1 + model.prediction_layers);
                let vocab = job.rank_vocab(model);
                let tokens = job.tokens();
                let linear =
                    Linear { tokens, inputs: model.hidden, outputs: vocab, groups: 1, part: Part::Dense };
                for product in PRODUCTS {
                    if product == Product::WeightGradient && job.adapters.is_some() {
                        continue;
                    }
                    let (m, n, k) = linear.sizes(product);
                    let precision = if job.narrow_output { job.precision } else { Precision::Bf16 };
                    let each_s = setting.product_of(product, precision, m, n, k);
                    add(multiplied("output layer", product, precision, times, each_s, &linear));
                    let joining = setting.joining();
                    let (times, each_s) =
                        (batches * f64::from(model.prediction_layers), setting.product(product, &joining));
                    add(multiplied("joined tokens", product, job.precision, times, each_s, &joining));
                }
                if job.adapters.is_none() {
                    let each_s = noted.accumulation(vocab * model.hidden);
                    add(moved("sums of gradients", "backward", times, each_s, costs.moved.get()));
                    let joining = setting.joining();
                    let each_s = noted.accumulation(joining.inputs * joining.outputs);
                    let (times, bytes) = (times - batches, costs.moved.get());
                    add(moved("sums of gradients", "backward", times, each_s, bytes));
                }
                let narrow = if job.narrow_output { job.precision } else { Precision::Bf16 };
                let bytes = setting.logit_bytes(narrow, job.tokens(), vocab);
                add(moved(
                    "logits and loss",
                    "forward and backward",
                    times,
                    setting.costs.memory(bytes),
                    bytes,
                ));
            }
        }
    }
    noted.exchange(noted.held(), 0.0, 0.0);
    // What the host updates is not among them.
    let bytes = costs.moved.get();
    add(moved("optimizer", "update", 1.0, setting.costs.memory(bytes), bytes));
    found
}

const PRODUCTS: [Product; 3] = [Product::Forward, Product::InputGradient, Product::WeightGradient];

const fn pass(product: Product) -> &'static str {
    match product {
        Product::Forward => "forward",
        Product::InputGradient => "gradients of inputs",
        Product::WeightGradient => "gradients of weights",
    }
}

/// A kernel that only moves bytes.
fn moved(name: &str, pass: &'static str, times: f64, each_s: f64, bytes: f64) -> Kernel {
    Kernel { name: name.to_owned(), pass, precision: None, times, each_s, flop: 0.0, bytes }
}

/// A product of a linear layer. Operands have the bytes of its type, results have 16 bits.
fn multiplied(
    name: &str,
    product: Product,
    precision: Precision,
    times: f64,
    each_s: f64,
    linear: &Linear,
) -> Kernel {
    let (m, n, k) = linear.sizes(product);
    let groups = linear.groups as f64;
    let (m, n, k) = (m as f64, n as f64, k as f64);
    let operands = m * k + k * n;
    Kernel {
        name: name.to_owned(),
        pass: pass(product),
        precision: Some(precision.name()),
        times,
        each_s,
        flop: 2.0 * m * n * k * groups,
        bytes: groups * (precision.bytes() * operands + 2.0 * m * n),
    }
}

impl<C: Costs> Setting<'_, Noted<'_, C>> {
    /// The kernels of a layer that the backward pass computes `again` or not, each as often as `batches` micro-batches need it.
    fn layer_kernels(&self, number: u32, again: bool, batches: f64) -> Vec<Kernel> {
        let job = self.job;
        let work = layer_work(self.model, job, number);
        let modules = job.modules_again();
        let whole = job.recompute == Recompute::Full && again;
        let operators = job.recompute == Recompute::Operators;
        let twice = |chosen: bool| if whole || chosen { 2.0 } else { 1.0 };
        let mut found = Vec::new();
        for (at, linear) in work.linears.iter().enumerate() {
            let chosen = match linear.part {
                Part::Attention | Part::AttentionOutput => false,
                Part::UpProjection => modules.has(Module::MlaUpProj),
                Part::Dense => modules.has(Module::Mlp),
                Part::Shared => modules.has(Module::SharedExperts) || modules.has(Module::Moe),
                Part::Experts => modules.has(Module::Moe),
            };
            for product in PRODUCTS {
                if product == Product::WeightGradient && job.adapters.is_some() {
                    continue;
                }
                let forward = if operators { 1.5 } else { twice(chosen) };
                let times = if product == Product::Forward { forward * batches } else { batches };
                let each_s = self.product(product, linear);
                let name = linear_name(self.model, &work.linears, at);
                found.push(multiplied(&name, product, job.precision, times, each_s, linear));
            }
        }
        if let Some(shape) = work.attention {
            let attended_in = if shape.narrow { Precision::Fp8 } else { Precision::Bf16 };
            for backward in [false, true] {
                let forward = twice(modules.has(Module::CoreAttention));
                let (flop, bytes) = attended(AttentionWork { backward, ..shape }, job.context);
                found.push(Kernel {
                    name: if job.fused_attention { "attention" } else { "attention, not fused" }.to_owned(),
                    pass: if backward { "backward" } else { "forward" },
                    precision: Some(attended_in.name()),
                    times: if backward { batches } else { forward * batches },
                    each_s: self.attention(&work, backward),
                    flop,
                    bytes,
                });
            }
        }
        let forward_s = self.element_wise(&work);
        let name = "element-wise operations, norms";
        let bytes = self.costs.moved.get();
        found.push(moved(name, "forward", twice(operators) * batches, forward_s, bytes));
        let backward_s = self.element_wise_backward(&work);
        let bytes = 2.0 * self.costs.moved.get();
        found.push(moved(name, "backward", batches, backward_s, bytes));
        if job.recompute == Recompute::Selective {
            let each_s = self.parts_again(&work, &Pass::default()).element_wise;
            found.push(moved(name, "recomputed", batches, each_s, self.costs.moved.get()));
        }
        if job.adapters.is_none() {
            let parameters = work.dense_parameters + work.expert_parameters;
            let each_s = self.accumulation(parameters);
            found.push(moved("sums of gradients", "backward", batches, each_s, self.costs.moved.get()));
        }
        found.extend(self.adapter_kernels(&work, if operators { 1.5 } else { twice(false) }, batches));
        found
    }

    /// The kernels of adapters, all of a layer as one for each pass; the forward pass `times` for each micro-batch.
    fn adapter_kernels(&self, work: &LayerWork, times: f64, batches: f64) -> Vec<Kernel> {
        let Some(rank) = self.job.adapters.map(f64::from) else { return Vec::new() };
        let seconds = self.adapters(work);
        let (mut flop, mut bytes, mut added, mut gradients) = (0.0, 0.0, 0.0, 0.0);
        for each in adapted(self.job, work) {
            let (copies, i, o) = (each.copies as f64, each.inputs as f64, each.outputs as f64);
            let t = copies * each.tokens as f64;
            flop += 2.0 * t * rank * (i + o);
            bytes += 2.0 * (t * (i + o + 2.0 * rank) + copies * rank * (i + o));
            added += 6.0 * t * o;
            gradients += 6.0 * t * i;
        }
        let product = |product, times, each_s| Kernel {
            name: "adapters".to_owned(),
            pass: pass(product),
            precision: Some(Precision::Bf16.name()),
            times,
            each_s,
            flop,
            bytes,
        };
        // Every second product is computed again, and all between them.
        let between = if times > 1.0 { 2.0 } else { 1.0 };
        vec![
            product(Product::Forward, times * batches, seconds.forward),
            product(Product::InputGradient, batches, seconds.backward - seconds.weights),
            product(Product::WeightGradient, batches, seconds.weights),
            moved("sums of adapters", "forward", between * batches, seconds.added, added),
            moved("sums of adapters", "backward", batches, seconds.gradients, gradients),
        ]
    }
}

/// Operations and bytes of causal attention on one rank of a sequence: bytes are queries, keys, values and outputs, backward
/// with the gradients of each.
fn attended(work: AttentionWork, context: u32) -> (f64, f64) {
    let AttentionWork { batch, sequence, heads, kv_heads, key_dim, value_dim, backward, narrow, .. } = work;
    let parts = f64::from(context);
    let flop = work.flop() / parts;
    let (key, value) = (key_dim as f64, value_dim as f64);
    let tokens = batch as f64 * sequence as f64 / parts;
    let element = if narrow { 1.0 } else { 2.0 };
    let once = element * tokens * (heads as f64 * (key + value) + kv_heads as f64 * (key + value) * parts);
    (flop, if backward { 2.0 * once } else { once })
}

/// What a linear layer is called, from its place among those of its layer.
fn linear_name(model: &Model, linears: &[Linear], at: usize) -> String {
    use crate::model::Attention;
    let attention: &[&str] = match model.attention {
        Attention::Full | Attention::Window { .. } => &["queries, keys, values", "output of attention"],
        Attention::Latent(latent) if latent.query_rank > 0 => &[
            "compressed queries",
            "queries",
            "compressed keys and values",
            "keys and values",
            "output of attention",
        ],
        Attention::Latent(_) => {
            &["queries", "compressed keys and values", "keys and values", "output of attention"]
        }
    };
    if let Some(name) = attention.get(at) {
        return (*name).to_owned();
    }
    let part = linears[at].part;
    let block = match part {
        Part::Shared => "shared experts",
        Part::Experts => "experts",
        Part::Attention | Part::AttentionOutput | Part::UpProjection | Part::Dense => "feed-forward",
    };
    let first = linears[..at].iter().all(|linear| linear.part != part);
    format!("{block}, {}", if first { "first" } else { "second" })
}
