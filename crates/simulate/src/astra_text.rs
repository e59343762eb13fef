//! ASTRA-sim 1 text workloads: each policy's training loop as a task graph.
//!
//! What is exchanged along which dimensions, and who waits for what, follows ASTRA-sim 1.0, `Workload.cc:iterate_*`:
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
//! - A forward exchange is awaited by the next layer; an input-gradient exchange by the layer below, and overlaps the same
//!   layer's weight gradient; a weight-gradient exchange only by the layer's own next forward pass. The embedding's
//!   exchanges are awaited after the last layer of the bottom MLP (forward), and after the embedding's weight gradient
//!   (backward, started when the input gradient of the layer above the bottom MLP is done).
//! - The first layer's input gradient is exchanged with nobody. The loops that take the weight gradient first do not
//!   compute it either.
//! - The update time is added once to every finished collective of the layer. Here it occupies the NPU's compute; in
//!   ASTRA-sim 1 it is a mere delay.
//! - A cycle is a nanosecond.
//! - An all-gather's bytes are the shard of one NPU, as in all versions of ASTRA-sim (`Ring.cc`: what a rank ends with is
//!   the size times the ranks), so it gathers that many times the size of its group. All other sizes are the full vector
//!   of one NPU, as in this project.
//! - A `HYBRID_TRANSFORMER` file of July 2020 has no group size: as there, the model is shared along all dimensions but
//!   dimension 1.

use crate::jobs::Axis;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::astra1::{Collective, Layer, Pass, Policy, TextWorkload};
use syncline_units::{Bytes, CollectiveKind, Time};
use syncline_workload::layer::{Axes, Comm, Parallel};
use syncline_workload::training::{Grid, GroupComm};
use syncline_workload::{GraphBuilder, Part, Role, RoleId, Task, TaskGraph, TaskKind, Work, Workload};

/// Reads a file as the job of the ranks along `axes`.
///
/// # Errors
/// What is wrong with the file, and policies that have no task graph here.
pub(crate) fn workload(file: &str, iterations: u32, axes: &[Axis]) -> Result<Workload> {
    let text = TextWorkload::read(Path::new(file))?;
    runnable(&text)?;
    let mut layout = Layout::new(&text, axes)?;
    let mut steps = Vec::with_capacity(text.layers.len());
    let mut problems = Diagnostics::new();
    for (index, layer) in text.layers.iter().enumerate() {
        match layout.step(&text, index, layer) {
            Ok(step) => steps.push(step),
            Err(problem) => problems.push(*problem),
        }
    }
    problems.into_result()?;
    let graph = match text.policy {
        Policy::Micro => micro(&steps, iterations)?,
        Policy::Data => training(&steps, Loop::WeightFirst { last_bottom: None }, iterations)?,
        Policy::HybridDlrm => {
            let last_bottom = text.header.last_bottom.map(|last| last as usize);
            training(&steps, Loop::WeightFirst { last_bottom }, iterations)?
        }
        _ => training(&steps, Loop::InputFirst, iterations)?,
    };
    let name = Path::new(file).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let layers = text.layers.iter().map(|layer| layer.name.clone()).collect();
    let ranks = layout.sizes.iter().product();
    Ok(Workload::uniform(name, ranks, graph, layout.roles.into_iter().map(|(_, role)| role).collect(), layers))
}

/// Refuses what has no task graph here, by name.
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

/// A layer with its times, and its exchanges among groups.
struct Step {
    forward: Time,
    input_grad: Time,
    weight_grad: Time,
    update: Time,
    forward_comm: Option<GroupComm>,
    input_grad_comm: Option<GroupComm>,
    weight_grad_comm: Option<GroupComm>,
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
    fn new(text: &TextWorkload, axes: &[Axis]) -> Result<Self> {
        let mut layout = Self {
            sizes: axes.iter().map(|axis| axis.size).collect(),
            dims: axes.iter().map(|axis| axis.dim).collect(),
            model: Vec::new(),
            roles: Vec::new(),
        };
        match text.header.model_group {
            Some(group) => {
                let parallel = Parallel { model: Axes::Degree(group), data: Axes::Rest, ..Parallel::default() };
                let grid = Grid::new(axes, &parallel).map_err(|error| {
                    error
                        .at(text.source.file(), 1)
                        .key("model_parallel_NPU_group")
                        .found(group.to_string())
                        .note("the group fills the lowest dimensions of the fabric")
                })?;
                (layout.sizes, layout.dims, layout.model) = (grid.sizes, grid.dims, grid.model);
            }
            None => layout.model = layout.all_but(1),
        }
        Ok(layout)
    }

    fn all_but(&self, axis: usize) -> Vec<usize> {
        (0..self.sizes.len()).filter(|&other| other != axis).collect()
    }

    /// Axes of the exchanges of activations and of weight gradients; `None` where the policy has none at all.
    fn spread(&self, policy: Policy) -> Option<[Vec<usize>; 2]> {
        let all = || (0..self.sizes.len()).collect();
        Some(match policy {
            Policy::Data | Policy::Micro => [Vec::new(), all()],
            Policy::Model => [all(), Vec::new()],
            Policy::HybridDlrm => [all(), all()],
            Policy::HybridDataModel => [vec![0], self.all_but(0)],
            Policy::HybridModelData => [self.all_but(0), vec![0]],
            Policy::HybridTransformer => {
                let data = (0..self.sizes.len()).filter(|axis| !self.model.contains(axis)).collect();
                [self.model.clone(), data]
            }
            _ => return None,
        })
    }

    /// The groups along `axes`, and how many ranks each has.
    fn role(&mut self, axes: &[usize]) -> (RoleId, u32) {
        let index = self.roles.iter().position(|(known, _)| known == axes).unwrap_or_else(|| {
            let names: Vec<String> = axes.iter().map(usize::to_string).collect();
            let name = if axes.len() == self.sizes.len() {
                "all".to_owned()
            } else {
                format!("axes {}", names.join(", "))
            };
            let role = Role::grid(&name, &self.sizes, &self.dims, axes);
            self.roles.push((axes.to_vec(), role));
            self.roles.len() - 1
        });
        (RoleId(index as u16), self.roles[index].1.size())
    }

    fn step(
        &mut self,
        text: &TextWorkload,
        index: usize,
        layer: &Layer,
    ) -> std::result::Result<Step, Box<Diagnostic>> {
        let bad = |code, part: &str, message: String| {
            let key = format!("layer {index} `{}`, {part}", layer.name);
            Box::new(Diagnostic::error(code, message).at(text.source.file(), layer.line).key(key))
        };
        let policy = layer.policy.unwrap_or(text.policy);
        let customized = [Policy::Data, Policy::Model, Policy::HybridDataModel, Policy::HybridModelData];
        let spread = self.spread(policy).filter(|_| layer.policy.is_none() || customized.contains(&policy));
        let Some([activations, gradients]) = spread else {
            return Err(bad(Code::AstraUnsupported, "policy", format!("a layer cannot have the policy {policy}"))
                .allowed(customized.map(Policy::name).join(", "))
                .note("ASTRA-sim silently drops all communication of such a layer")
                .into());
        };
        // Which exchanges the policy's loop issues at all.
        let embedding_only = policy == Policy::HybridDlrm && index > 0;
        let mut exchange = |part: &str, pass: Pass, axes: &[usize], issued: bool| {
            let Some((collective, bytes)) = pass.exchange.filter(|&(_, bytes)| bytes > 0) else {
                return Ok(None);
            };
            if !issued {
                return Err(bad(Code::AstraUnsupported, part, format!("{policy} has no such exchange here"))
                    .found(format!("{collective} of {}", Bytes(bytes)))
                    .note("ASTRA-sim silently ignores it")
                    .help("write `NONE 0` there, or choose a policy that exchanges it")
                    .into());
            }
            let kind = match collective {
                Collective::AllReduce => CollectiveKind::AllReduce,
                Collective::AllToAll => CollectiveKind::AllToAll,
                Collective::AllGather => CollectiveKind::AllGather,
                Collective::ReduceScatter => CollectiveKind::ReduceScatter,
                Collective::AllReduceAllToAll => {
                    return Err(bad(
                        Code::AstraUnsupported,
                        part,
                        "the collective ALLREDUCEALLTOALL is read but not simulated".to_owned(),
                    )
                    .note("which dimensions reduce and which exchange is nowhere said")
                    .into());
                }
            };
            let (role, members) = self.role(axes);
            let factor = if kind == CollectiveKind::AllGather { u64::from(members) } else { 1 };
            let bytes = bytes.checked_mul(factor).ok_or_else(|| {
                bad(Code::Overflow, part, format!("{members} shards of this size are more than can be counted"))
            })?;
            Ok((members > 1).then_some((role, Comm { kind, bytes: Bytes(bytes) })))
        };
        let some = !activations.is_empty() && !embedding_only;
        let mut forward_comm = exchange("forward", layer.forward, &activations, some);
        let mut input_grad_comm = exchange("input gradient", layer.input_grad, &activations, some);
        let mut weight_grad_comm = exchange("weight gradient", layer.weight_grad, &gradients, !gradients.is_empty());
        for comm in [&mut forward_comm, &mut input_grad_comm, &mut weight_grad_comm] {
            // On a fabric of one dimension "all others" is nobody: nothing is exchanged, and that is no mistake.
            let few = self.sizes.iter().filter(|&&size| size > 1).count() < 2;
            let split = matches!(
                policy,
                Policy::HybridDataModel | Policy::HybridModelData | Policy::HybridTransformer
            );
            if few && split && comm.is_err() {
                *comm = Ok(None);
            }
        }
        let time = |part: &str, cycles: u64| {
            cycles.checked_mul(1_000).map(Time).ok_or_else(|| {
                bad(Code::Overflow, part, format!("{cycles} cycles are longer than can be simulated"))
            })
        };
        Ok(Step {
            forward: time("forward", layer.forward.cycles)?,
            input_grad: time("input gradient", layer.input_grad.cycles)?,
            weight_grad: time("weight gradient", layer.weight_grad.cycles)?,
            update: time("update", layer.update_cycles)?,
            forward_comm: forward_comm?,
            input_grad_comm: input_grad_comm?,
            weight_grad_comm: weight_grad_comm?,
        })
    }
}
