//! ASTRA-sim 1 text workloads: each policy's training loop as a task graph.
//!
//! Which data is exchanged along which dimensions, and which pass waits for which exchange, follows ASTRA-sim 1.0,
//! `Workload.cc:iterate_*`:
//!
//! | policy | forward and input-gradient exchange | weight-gradient exchange | backward order |
//! |---|---|---|---|
//! | `DATA` | none | all dimensions | weight gradient first |
//! | `MODEL` | all | none | input gradient first |
//! | `HYBRID_DATA_MODEL` | dimension 0 | the others | input gradient first |
//! | `HYBRID_MODEL_DATA` | all but dimension 0 | dimension 0 | input gradient first |
//! | `HYBRID_TRANSFORMER` | the model group, which fills the lowest dimensions and may split one | the rest | input gradient first |
//! | `HYBRID_CUSTOMIZED` | as the layer's own policy says | | input gradient first |
//! | `HYBRID_DLRM` | all (the embedding, layer 0, alone) | all | weight gradient first |
//! | `MICRO` | none | all: layer 0's alone, once an iteration, all at once, without compute | |
//!
//! - The next layer waits for a forward exchange. The layer below waits for an input-gradient exchange, which overlaps
//!   the weight gradient of its own layer. Only the layer's own next forward pass waits for a weight-gradient exchange.
//! - The embedding's forward exchange is awaited after the last layer of the bottom MLP. Its backward exchange starts
//!   when the input gradient of the layer above the bottom MLP is done, and is awaited after the embedding's weight
//!   gradient. ASTRA-sim lets both overtake all other exchanges; here, `collectives: { order: priority }` does.
//! - The first layer's input gradient is not exchanged. The loops that take the weight gradient first do not compute it
//!   either.
//! - The update time is added once to every finished collective of the layer. Here it occupies the NPU's compute; in
//!   ASTRA-sim 1 it is only a delay.
//! - A cycle is a nanosecond.
//! - An all-gather's bytes are the shard of one NPU, as in all versions of ASTRA-sim (`Ring.cc`: a rank's result has
//!   the size times the number of ranks). So it gathers these bytes times the size of its group. All other sizes are
//!   the full vector of one NPU, as elsewhere in syncline.
//! - A `HYBRID_TRANSFORMER` file of July 2020 has no group size. As in ASTRA-sim then, the model is shared along all
//!   dimensions but dimension 1.

use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::astra1::{Collective, Layer, Pass, Policy, TextWorkload};
use syncline_units::{Bytes, CollectiveKind, Time};
use syncline_workload::exchange::Comm;
use syncline_workload::mesh::{FabricAxis, Mesh};
use syncline_workload::parallel::{Axes, MeshSpec, TENSOR};
use syncline_workload::{GraphBuilder, Part, Role, RoleId, Task, TaskGraph, TaskKind, Work, Workload};

/// A file's job for the ranks along `axes`.
///
/// # Errors
/// Everything about the job that is impossible; policies that syncline cannot simulate.
pub fn workload(text: &TextWorkload, iterations: u32, axes: &[FabricAxis]) -> Result<Workload> {
    runnable(text)?;
    let mut layout = Layout::new(text, axes)?;
    let mut steps = Vec::with_capacity(text.layers.len());
    let mut problems = Diagnostics::new();
    for (index, layer) in text.layers.iter().enumerate() {
        match layout.step(text, index, layer) {
            Ok(step) => steps.push(step),
            Err(problem) => problems.push(*problem),
        }
    }
    problems.into_result()?;
    let graph = match text.policy {
        Policy::Micro => micro(&steps, iterations)?,
        Policy::Data => training(&steps, GradientOrder::WeightFirst { last_bottom: None }, iterations)?,
        Policy::HybridDlrm => {
            let last_bottom = text.header.last_bottom.map(|last| last as usize);
            training(&steps, GradientOrder::WeightFirst { last_bottom }, iterations)?
        }
        _ => training(&steps, GradientOrder::InputFirst, iterations)?,
    };
    let name = Path::new(text.source.file())
        .file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let layers = text.layers.iter().map(|layer| layer.name.clone()).collect();
    let ranks = layout.sizes.iter().product();
    Ok(Workload::uniform(
        name,
        ranks,
        graph,
        layout.roles.into_iter().map(|(_, role)| role).collect(),
        layers,
    ))
}

/// Refuses the policies that syncline cannot simulate.
fn runnable(text: &TextWorkload) -> Result<()> {
    let reason = match text.policy {
        Policy::HybridDlrmEnhanced => {
            "it never awaits the embedding's backward exchange, so its result depends on when the simulator stops"
        }
        Policy::HybridTransformerFwdInBckwd => {
            "it computes forward passes again in the backward pass, which these task graphs do not express"
        }
        Policy::DistributedInference => "it has forward passes only, and no training step to report on",
        Policy::Micro if text.layers.len() > 1 => "ASTRA-sim runs only the first layer of such a file",
        _ => return Ok(()),
    };
    Err(Diagnostic::error(Code::AstraUnsupported, format!("the policy {} is read but not simulated", text.policy))
        .at(text.source.file(), 1)
        .key("workload.file")
        .found(text.policy.name())
        .allowed(
            "DATA, MODEL, MICRO with one layer, HYBRID_DATA_MODEL, HYBRID_MODEL_DATA, HYBRID_CUSTOMIZED, HYBRID_DLRM, \
             HYBRID_TRANSFORMER",
        )
        .note(reason)
        .into())
}

/// A collective, and the role whose groups carry it out.
type Among = (RoleId, Comm);

/// A layer: the times of its passes, and its exchanges within groups.
struct TextLayer {
    forward: Time,
    input_grad: Time,
    weight_grad: Time,
    update: Time,
    forward_comm: Option<Among>,
    input_grad_comm: Option<Among>,
    weight_grad_comm: Option<Among>,
}

/// The grid of ranks and the groups on it.
struct Layout {
    sizes: Vec<u32>,
    dims: Vec<Option<u16>>,
    /// Axes of the model group of `HYBRID_TRANSFORMER`.
    model: Vec<usize>,
    /// Groups in use, by their axes.
    roles: Vec<(Vec<usize>, Role)>,
}

impl Layout {
    fn new(text: &TextWorkload, axes: &[FabricAxis]) -> Result<Self> {
        let mut layout = Self {
            sizes: axes.iter().map(|axis| axis.size).collect(),
            dims: axes.iter().map(|axis| axis.dim).collect(),
            model: Vec::new(),
            roles: Vec::new(),
        };
        match text.header.model_group {
            Some(group) => {
                let spec = MeshSpec { tensor: Axes::Degree(group), ..MeshSpec::default() };
                let mesh = Mesh::place(axes, &spec).map_err(|error| {
                    error
                        .at(text.source.file(), 1)
                        .key("model_parallel_NPU_group")
                        .found(group.to_string())
                        .note("the group fills the lowest dimensions of the fabric")
                })?;
                layout.model = mesh.along(TENSOR).to_vec();
                (layout.sizes, layout.dims) = (mesh.sizes, mesh.dims);
            }
            None => layout.model = layout.all_but(1),
        }
        Ok(layout)
    }

    fn all_but(&self, axis: usize) -> Vec<usize> {
        (0..self.sizes.len()).filter(|&other| other != axis).collect()
    }

    /// Axes of the exchange of activations and of the exchange of weight gradients; `None` if the policy has no such
    /// exchange. (An empty list means groups of one rank: on a fabric of one dimension, "all but dimension 0" is
    /// empty.)
    fn spread(&self, policy: Policy) -> [Option<Vec<usize>>; 2] {
        let all = || Some((0..self.sizes.len()).collect());
        match policy {
            Policy::Data | Policy::Micro => [None, all()],
            Policy::Model => [all(), None],
            Policy::HybridDlrm => [all(), all()],
            Policy::HybridDataModel => [Some(vec![0]), Some(self.all_but(0))],
            Policy::HybridModelData => [Some(self.all_but(0)), Some(vec![0])],
            Policy::HybridTransformer => {
                let data = (0..self.sizes.len()).filter(|axis| !self.model.contains(axis)).collect();
                [Some(self.model.clone()), Some(data)]
            }
            _ => [None, None],
        }
    }

    /// The groups along `axes`, and how many ranks each has.
    fn role(&mut self, axes: &[usize]) -> (RoleId, u32) {
        let index = self.roles.iter().position(|(known, _)| known == axes).unwrap_or_else(|| {
            let names: Vec<String> = axes.iter().map(usize::to_string).collect();
            let whole = axes.len() == self.sizes.len();
            let name = if whole { "all".to_owned() } else { format!("axes {}", names.join(", ")) };
            self.roles.push((axes.to_vec(), Role::grid(&name, &self.sizes, &self.dims, axes)));
            self.roles.len() - 1
        });
        (RoleId(index as u16), self.roles[index].1.size())
    }

    fn step(&mut self, text: &TextWorkload, index: usize, layer: &Layer) -> Boxed<TextLayer> {
        let at = Site { text, index, layer };
        let policy = layer.policy.unwrap_or(text.policy);
        let own = [Policy::Data, Policy::Model, Policy::HybridDataModel, Policy::HybridModelData];
        if layer.policy.is_some() && !own.contains(&policy) {
            return Err(Box::new(
                at.error(
                    Code::AstraUnsupported,
                    "policy",
                    format!("a layer cannot have the policy {policy}"),
                )
                .allowed(own.map(Policy::name).join(", "))
                .note("ASTRA-sim silently drops all communication of such a layer"),
            ));
        }
        let [activations, gradients] = self.spread(policy);
        let activations = activations.filter(|_| policy != Policy::HybridDlrm || index == 0);
        let other = layer.forward.exchange.filter(|&(kind, bytes)| kind != Collective::AllToAll && bytes > 0);
        if let (Policy::HybridDlrm, 0, Some((collective, _))) = (policy, index, other) {
            return Err(Box::new(
                at.error(Code::AstraUnsupported, "forward", "embeddings are exchanged by an all-to-all")
                    .found(collective.name())
                    .allowed(Collective::AllToAll.name())
                    .note("ASTRA-sim silently ignores any other collective there"),
            ));
        }
        Ok(TextLayer {
            forward: at.time("forward", layer.forward.cycles)?,
            input_grad: at.time("input gradient", layer.input_grad.cycles)?,
            weight_grad: at.time("weight gradient", layer.weight_grad.cycles)?,
            update: at.time("update", layer.update_cycles)?,
            forward_comm: self.exchange(at, "forward", layer.forward, activations.as_deref())?,
            input_grad_comm: self.exchange(at, "input gradient", layer.input_grad, activations.as_deref())?,
            weight_grad_comm: self.exchange(
                at,
                "weight gradient",
                layer.weight_grad,
                gradients.as_deref(),
            )?,
        })
    }

    /// The exchange after a pass, within the groups along `axes`.
    fn exchange(&mut self, at: Site, part: &str, pass: Pass, axes: Option<&[usize]>) -> Boxed<Option<Among>> {
        let Some((collective, bytes)) = pass.exchange.filter(|&(_, bytes)| bytes > 0) else {
            return Ok(None);
        };
        let refused = |message: &str, note: &str| {
            let error = at.error(Code::AstraUnsupported, part, message);
            Box::new(error.found(format!("{collective} of {}", Bytes(bytes))).note(note))
        };
        let Some(axes) = axes else {
            let mut error =
                refused("the policy has no exchange after this pass", "ASTRA-sim silently ignores it");
            error.help = Some("write `NONE 0` there, or choose a policy that has this exchange".to_owned());
            return Err(error);
        };
        let kind = match collective {
            Collective::AllReduce => CollectiveKind::AllReduce,
            Collective::AllToAll => CollectiveKind::AllToAll,
            Collective::AllGather => CollectiveKind::AllGather,
            Collective::ReduceScatter => CollectiveKind::ReduceScatter,
            Collective::AllReduceAllToAll => {
                let note = "the file does not say which dimensions reduce and which exchange";
                return Err(refused("this collective is read but not simulated", note));
            }
        };
        let (role, members) = self.role(axes);
        let factor = if kind == CollectiveKind::AllGather { u64::from(members) } else { 1 };
        let Some(bytes) = bytes.checked_mul(factor) else {
            let message = format!("{members} shards of this size have more than 2^64 bytes");
            return Err(Box::new(at.error(Code::Overflow, part, message)));
        };
        Ok((members > 1).then_some((role, Comm { kind, bytes: Bytes(bytes) })))
    }
}

type Boxed<T> = std::result::Result<T, Box<Diagnostic>>;

/// A layer of the file, for errors.
#[derive(Clone, Copy)]
struct Site<'a> {
    text: &'a TextWorkload,
    index: usize,
    layer: &'a Layer,
}

impl Site<'_> {
    fn error(self, code: Code, part: &str, message: impl Into<String>) -> Diagnostic {
        let key = format!("layer {} `{}`, {part}", self.index, self.layer.name);
        Diagnostic::error(code, message).at(self.text.source.file(), self.layer.line).key(key)
    }
    fn time(self, part: &str, cycles: u64) -> Boxed<Time> {
        cycles.checked_mul(1_000).map(Time).ok_or_else(|| {
            let message = format!("{cycles} cycles are longer than can be simulated");
            Box::new(self.error(Code::Overflow, part, message))
        })
    }
}

/// The order in which a loop computes the two gradients of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GradientOrder {
    /// The weight gradient, then the input gradient. In the loop of recommendation models, `last_bottom` is the last
    /// layer of the bottom MLP.
    WeightFirst { last_bottom: Option<usize> },
    /// The input gradient, then the weight gradient.
    InputFirst,
}

/// The training loop over `steps`.
fn training(steps: &[TextLayer], order: GradientOrder, iterations: u32) -> Result<TaskGraph> {
    let mut training = Training { graph: GraphBuilder::new(), chain: None, awaited: Vec::new() };
    let last_bottom = match order {
        GradientOrder::WeightFirst { last_bottom } => last_bottom,
        GradientOrder::InputFirst => None,
    };
    let mut forwards = Vec::with_capacity(steps.len());
    let mut embedding = None;
    for (index, step) in steps.iter().enumerate() {
        forwards.push(training.compute(index, Part::Forward, step.forward));
        let exchange = training.exchange(index, Part::Forward, step, step.forward_comm, true);
        match last_bottom {
            Some(_) if index == 0 => embedding = exchange,
            _ => training.awaited.extend(exchange),
        }
        if last_bottom == Some(index) {
            training.awaited.extend(embedding.take());
        }
    }
    training.awaited.extend(embedding.take());
    for (index, step) in steps.iter().enumerate().rev() {
        match order {
            GradientOrder::WeightFirst { .. } => {
                training.weight_gradient(index, step, forwards[index]);
                if index > 0 {
                    training.compute(index, Part::InputGrad, step.input_grad);
                }
                if last_bottom.is_some_and(|last| index == last + 1) {
                    let first = &steps[0];
                    embedding = training.exchange(0, Part::InputGrad, first, first.input_grad_comm, true);
                }
                if index == 0 {
                    training.awaited.extend(embedding.take());
                }
            }
            GradientOrder::InputFirst => {
                training.compute(index, Part::InputGrad, step.input_grad);
                let comm = step.input_grad_comm.filter(|_| index > 0);
                let exchange = training.exchange(index, Part::InputGrad, step, comm, true);
                training.weight_gradient(index, step, forwards[index]);
                training.awaited.extend(exchange);
            }
        }
    }
    // The next iteration begins when this one's compute and awaited exchanges have ended.
    if let Some(&first) = forwards.first() {
        for &on in training.chain.iter().chain(&training.awaited) {
            training.graph.after_previous(first, on);
        }
    }
    Ok(training.graph.build(iterations)?)
}

/// The micro-benchmark: layer 0's weight-gradient collective once an iteration, all of them at once.
fn micro(steps: &[TextLayer], iterations: u32) -> Result<TaskGraph> {
    let mut training = Training { graph: GraphBuilder::new(), chain: None, awaited: Vec::new() };
    // An empty task lets the next iteration begin at once.
    let start = training.compute(0, Part::WeightGrad, Time::ZERO);
    training.graph.after_previous(start, start);
    if let Some(step) = steps.first() {
        training.exchange(0, Part::WeightGrad, step, step.weight_grad_comm, false);
    }
    Ok(training.graph.build(iterations)?)
}

/// A loop under construction: a chain of compute tasks, and the exchanges that the next compute task waits for.
struct Training {
    graph: GraphBuilder,
    chain: Option<u32>,
    awaited: Vec<u32>,
}

impl Training {
    fn add(&mut self, layer: usize, part: Part, kind: TaskKind) -> u32 {
        self.graph.task(Task { kind, layer: Some(layer as u32), part, name: String::new() })
    }

    /// Adds the next compute task. A task that takes no time is added too, to keep the order.
    fn compute(&mut self, layer: usize, part: Part, time: Time) -> u32 {
        let kind = if time.is_zero() { TaskKind::Join } else { TaskKind::Compute(Work::Time(time)) };
        let task = self.add(layer, part, kind);
        for on in self.chain.into_iter().chain(self.awaited.drain(..)) {
            self.graph.after(task, on);
        }
        self.chain = Some(task);
        task
    }

    /// Adds a collective that starts when the chain's last task is done, and the update after it. Returns the task that
    /// others wait for.
    fn exchange(
        &mut self,
        layer: usize,
        part: Part,
        step: &TextLayer,
        comm: Option<Among>,
        blocking: bool,
    ) -> Option<u32> {
        let (role, Comm { kind, bytes }) = comm?;
        let task = self.add(layer, part, TaskKind::Collective { role, kind, bytes, blocking, when: None });
        if let Some(on) = self.chain {
            self.graph.after(task, on);
        }
        if step.update.is_zero() {
            return Some(task);
        }
        let update = self.add(layer, Part::Update, TaskKind::Compute(Work::Time(step.update)));
        self.graph.after(update, task);
        Some(update)
    }

    fn weight_gradient(&mut self, index: usize, step: &TextLayer, forward: u32) {
        self.compute(index, Part::WeightGrad, step.weight_grad);
        if let Some(last) = self.exchange(index, Part::WeightGrad, step, step.weight_grad_comm, false) {
            self.graph.after_previous(forward, last);
        }
    }
}
