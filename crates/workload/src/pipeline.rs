//! The task graphs of a pipeline's stages.
//!
//! A model is cut into consecutive parts with equal numbers of blocks: part k is the (k / p)-th chunk of stage k mod
//! p (Narayanan et al. 2021, 2.2). The ranks of a stage are a class with one task graph. The graph is a whole
//! training step, because micro-batches differ: the first ones fill the pipeline and the last ones empty it. Between
//! parts, activations are sent forward and their gradients backward; while a stage works on one micro-batch, it
//! receives the next.

use crate::division::Division;
use crate::exchange::When;
use crate::graph::{Part, Peer, TaskGraph};
use crate::layer::Layer;
use crate::layer_share::LayerShare;
use crate::parallel::Rules;
use crate::passes::{Message, Passes, Reduction, Shared};
use crate::schedule::{Pipeline, Turn};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::Bytes;

/// Approximate limit on the tasks of all stages. A step is expanded in full.
const TASKS: u64 = 1 << 22;

/// A model cut into the parts of a pipeline.
#[derive(Clone, Debug)]
pub struct Stages {
    /// Schedule and sizes.
    pub pipeline: Pipeline,
    /// Layers of each part.
    parts: Vec<Range<usize>>,
    /// Layers that share parameters, and the layers that own these.
    shared: Vec<(usize, usize)>,
    /// Whether micro-batches of a step differ in what ranks do, so that the task graph is a whole step.
    pub(crate) differ: bool,
}

impl Stages {
    /// Cuts `layers` into the parts of `pipeline`: by blocks if there are any, else by layers. Layers before the
    /// first block belong to the first part, and layers after the last block to the last part.
    ///
    /// # Errors
    /// Blocks that do not divide; a cut at a layer without `outputs`; too many tasks.
    pub fn new(pipeline: Pipeline, layers: &[Layer]) -> Result<Self, Diagnostic> {
        let parts = pipeline.parts() as usize;
        let blocks = blocks(layers);
        let bad =
            |message: String| Diagnostic::error(Code::BadWorkload, message).key("workload.parallel.pipeline");
        if !blocks.len().is_multiple_of(parts) || blocks.is_empty() {
            let what = if layers.iter().any(|layer| layer.block.is_some()) { "blocks" } else { "layers" };
            let fitting: Vec<String> = (1..=blocks.len())
                .filter(|by| blocks.len().is_multiple_of(*by))
                .map(|by| by.to_string())
                .collect();
            let of = if pipeline.chunks > 1 {
                format!("{} stages of {} virtual ones", pipeline.stages, pipeline.chunks)
            } else {
                format!("{} stages", pipeline.stages)
            };
            return Err(bad(format!("{} {what} do not divide into {parts} equal parts", blocks.len()))
                .found(of)
                .allowed(format!("{} parts", fitting.join(", "))));
        }
        let before = |layer: &Layer| {
            layer.exchanges.iter().flatten().any(|exchange| exchange.when == When::BeforeStep)
        };
        let differ = parts > 1 || pipeline.combined || layers.iter().any(before);
        let tasks = 4 * layers.len() as u64 * u64::from(pipeline.micro_batches);
        if differ && tasks > TASKS {
            return Err(Diagnostic::error(Code::BadWorkload, "a step of this pipeline has too many tasks")
                .key("workload.micro_batches")
                .found(format!("{} micro-batches of {} layers", pipeline.micro_batches, layers.len()))
                .allowed(format!("at most {}", TASKS / (4 * layers.len() as u64)))
                .help("simulate fewer micro-batches: those in the middle of a step are alike"));
        }
        let each = blocks.len() / parts;
        let end = |part: usize| match blocks.get((part + 1) * each) {
            Some(next) if part + 1 < parts => next.start,
            _ => layers.len(),
        };
        let mut start = 0;
        let parts: Vec<Range<usize>> =
            (0..parts).map(|part| std::mem::replace(&mut start, end(part))..end(part)).collect();
        if let Some(cut) = parts.iter().rev().skip(1).find(|part| layers[part.end - 1].outputs == 0) {
            let layer = &layers[cut.end - 1];
            return Err(bad(format!("layer `{}` ends a stage but has no `outputs`", layer.name))
                .key(format!("workload.layers.{}.outputs", cut.end - 1))
                .found("0")
                .help("give the number of its output elements: they are sent to the next stage"));
        }
        Ok(Self { pipeline, parts, shared: shared(layers)?, differ })
    }

    /// Layers of each of a stage's chunks.
    pub fn chunks(&self, stage: u32) -> impl Iterator<Item = Range<usize>> {
        let stride = self.pipeline.stages as usize;
        self.parts.iter().skip(stage as usize).step_by(stride).cloned()
    }

    /// The stage that holds a layer.
    pub fn stage(&self, layer: usize) -> u32 {
        (self.parts.partition_point(|part| part.end <= layer) as u32) % self.pipeline.stages
    }

    /// The layers as stages hold them: a stage has a copy of parameters that one of its layers shares with a layer of
    /// another stage.
    pub fn held<'a>(&self, layers: &'a [Layer]) -> Vec<Cow<'a, Layer>> {
        let mut held: Vec<Cow<'a, Layer>> = layers.iter().map(Cow::Borrowed).collect();
        for &(layer, lender) in self.shared.iter().filter(|pair| self.stage(pair.0) != self.stage(pair.1)) {
            let Layer { parameters, update, .. } = &layers[lender];
            let copy = Layer { parameters: *parameters, update: update.clone(), ..layers[layer].clone() };
            held[layer] = Cow::Owned(copy);
        }
        held
    }

    /// The task graph of a stage whose ranks have these shares of the layers. `division` says how a layer is divided.
    ///
    /// # Errors
    /// As [`GraphBuilder::build`](crate::GraphBuilder::build).
    pub(crate) fn graph<'a>(
        &self,
        shares: &[LayerShare],
        layers: &[Layer],
        division: &dyn Fn(usize) -> &'a Division,
        rules: Rules,
        of: StageRanks<'_>,
        iterations: u32,
    ) -> Result<TaskGraph, Diagnostic> {
        let between = Between { stages: self, layers, division, ranks: of.firsts };
        let mut passes = Passes::new(shares, rules);
        between.step(&mut passes, of.stage);
        passes.finish().build(iterations)
    }
}

/// A stage among the ranks of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageRanks<'a> {
    /// The stage.
    pub(crate) stage: u32,
    /// The first rank of each stage; the other ranks of a stage are equally far from their peers.
    pub(crate) firsts: &'a [u32],
}

/// The blocks that parts are made of; without blocks, each layer is one.
fn blocks(layers: &[Layer]) -> Vec<Range<usize>> {
    let any = layers.iter().any(|layer| layer.block.is_some());
    let mut found: Vec<Range<usize>> = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        match (layer.block, found.last_mut()) {
            (None, _) if any => {}
            (Some(block), Some(last)) if layers[last.start].block == Some(block) => last.end = index + 1,
            _ => found.push(index..index + 1),
        }
    }
    found
}

/// Layers that use the parameters of another layer, and that layer.
fn shared(layers: &[Layer]) -> Result<Vec<(usize, usize)>, Diagnostic> {
    if layers.iter().all(|layer| layer.shares.is_none()) {
        return Ok(Vec::new());
    }
    let names: BTreeMap<&str, usize> = layers.iter().map(|layer| layer.name.as_str()).zip(0..).collect();
    let mut found = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        let Some(name) = &layer.shares else { continue };
        match names.get(name.as_str()) {
            Some(&lender) if lender != index => found.push((index, lender)),
            _ => {
                let others =
                    layers.iter().map(|other| other.name.as_str()).filter(|other| *other != layer.name);
                return Err(Diagnostic::error(Code::BadWorkload, "no other layer has this name")
                    .key(format!("workload.layers.{index}.shares"))
                    .one_of(name, others));
            }
        }
    }
    Ok(found)
}

/// The messages between stages.
struct Between<'a, 'b> {
    stages: &'a Stages,
    layers: &'a [Layer],
    division: &'a dyn Fn(usize) -> &'b Division,
    ranks: &'a [u32],
}

/// What a message carries: outputs, their gradients, or gradients to be summed. Together with the part that it belongs
/// to, this gives its tag.
#[derive(Clone, Copy)]
enum MessageKind {
    Forward = 0,
    Backward = 1,
    Sum = 2,
}

impl Between<'_, '_> {
    /// A training step of `stage`.
    fn step(&self, passes: &mut Passes<'_>, stage: u32) {
        let pipeline = &self.stages.pipeline;
        let turns = pipeline.turns(stage);
        // For each chunk, the last backward turn, which completes its gradients.
        let last = |chunk: u32| turns.iter().rposition(|turn| turn.backward && turn.chunk == chunk);
        let last: Vec<Option<usize>> = (0..pipeline.chunks).map(last).collect();
        let one = |passes: &mut Passes<'_>, at: usize| {
            let turn = turns[at];
            let part = (turn.chunk * pipeline.stages + stage) as usize;
            if turn.backward {
                let reduction = match last[turn.chunk as usize] == Some(at) {
                    true => Reduction::Now,
                    false => Reduction::Later,
                };
                self.backward(passes, stage, part, turn, reduction);
            } else {
                self.forward(passes, stage, part);
            }
        };
        let pairs = pipeline.pairs(stage);
        let mut at = 0;
        while at < turns.len() {
            if pairs.contains(&at) {
                passes.both(|passes| one(passes, at), |passes| one(passes, at + 1));
                at += 2;
            } else {
                one(passes, at);
                at += 1;
            }
        }
        passes.end_step();
    }

    fn forward(&self, passes: &mut Passes<'_>, stage: u32, part: usize) {
        let layers = self.stages.parts[part].clone();
        if part > 0 {
            let message = self.message(part - 1, stage, self.stage(part - 1), MessageKind::Forward);
            passes.receive(layers.start, Part::Forward, message);
        }
        passes.forward(layers.clone());
        if part + 1 < self.stages.parts.len() {
            let message = self.message(part, stage, self.stage(part + 1), MessageKind::Forward);
            passes.send(layers.end - 1, Part::Forward, message);
        }
    }

    fn backward(&self, passes: &mut Passes<'_>, stage: u32, part: usize, turn: Turn, reduction: Reduction) {
        debug_assert!(turn.backward);
        let layers = self.stages.parts[part].clone();
        if part + 1 < self.stages.parts.len() {
            let message = self.message(part, stage, self.stage(part + 1), MessageKind::Backward);
            passes.receive(layers.end - 1, Part::InputGrad, message);
        }
        let shared = self.shared(&layers, stage);
        passes.backward(layers.clone(), reduction, &shared);
        if part > 0 {
            let message = self.message(part - 1, stage, self.stage(part - 1), MessageKind::Backward);
            passes.send(layers.start, Part::InputGrad, message);
        }
    }

    fn stage(&self, part: usize) -> u32 {
        part as u32 % self.stages.pipeline.stages
    }

    fn peer(&self, from: u32, to: u32) -> Peer {
        Peer::Ahead((i64::from(self.ranks[to as usize]) - i64::from(self.ranks[from as usize])) as i32)
    }

    /// The message between `stage` and `other` for the outputs of `part`, or for their gradients.
    fn message(&self, part: usize, stage: u32, other: u32, kind: MessageKind) -> Message {
        let last = self.stages.parts[part].end - 1;
        let (outputs, by) = (self.layers[last].outputs, (self.division)(last));
        // With sequence parallelism, each rank has and sends its own tokens.
        let share = if by.sequence { outputs.div_ceil(u64::from(by.tensor.size)) } else { outputs };
        Message {
            peer: self.peer(stage, other),
            bytes: Bytes(share.saturating_mul(by.types.communication.bytes())),
            tag: tag(part, kind),
        }
    }

    /// The messages of `stage` for parameters of its `layers` that another stage holds too.
    fn shared(&self, layers: &Range<usize>, stage: u32) -> Vec<Shared> {
        let mut found = Vec::new();
        for &(borrower, lender) in &self.stages.shared {
            let by = (self.division)(lender);
            let elements = by.parameters(&self.layers[lender]);
            let bytes = Bytes(elements.saturating_mul(by.types.gradients.bytes()));
            for (layer, other) in [(borrower, lender), (lender, borrower)] {
                let to = self.stages.stage(other);
                if layers.contains(&layer) && to != stage && !bytes.is_zero() {
                    let message =
                        Message { peer: self.peer(stage, to), bytes, tag: tag(lender, MessageKind::Sum) };
                    found.push(Shared { layer, message });
                }
            }
        }
        found
    }
}

const fn tag(of: usize, kind: MessageKind) -> u32 {
    3 * of as u32 + kind as u32
}
