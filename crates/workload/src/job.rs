//! Builds a whole job from layers and a parallelisation.

use crate::Workload;
use crate::batch::Batch;
use crate::grid::{Grid, GridAxis};
use crate::layer::{Layer, Parallel, Recompute};
use crate::pipeline::Stages;
use crate::role::{Role, RoleId};
use crate::schedule::Pipeline;
use crate::step::{Division, Step, settle};
use crate::training::{Rules, training_loop};
use crate::types::Types;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

/// A training job: its layers, and which ranks hold their parts, copies and stages.
#[derive(Clone, Debug)]
pub struct Training<'a> {
    /// The layers, from input to output.
    pub layers: &'a [Layer],
    /// The grid of ranks.
    pub grid: Grid,
    /// How layers are divided.
    pub division: Division,
    /// Which stage holds which layers.
    pub stages: Stages,
    rules: Rules,
    iterations: u32,
}

impl<'a> Training<'a> {
    /// Lays `layers` out on `axes`, for a number of iterations of steps on `batch`, with elements of these types.
    ///
    /// # Errors
    /// Everything that is impossible about it.
    pub fn new(
        layers: &'a [Layer],
        axes: &[GridAxis],
        parallel: &Parallel,
        (iterations, batch): (u32, Batch),
        types: Types,
    ) -> Result<Self, Diagnostics> {
        let grid = Grid::new(axes, parallel)?;
        let [model, data, stages] = [&grid.model, &grid.data, &grid.pipeline].map(|axes| grid.degree(axes));
        let rules = Rules::new(parallel, layers, model)?;
        let mut problems = Diagnostics::new();
        problems.extend(check(layers, parallel, model));
        if stages > 1 && rules.last_bottom.is_some() {
            problems.push(
                Diagnostic::error(
                    Code::BadWorkload,
                    "a model whose first layer is exchanged cannot be divided into stages",
                )
                .key("workload.parallel.pipeline")
                .found(format!("{stages} stages"))
                .allowed("1"),
            );
        }
        let micro_batches = batch.micro_batches(data);
        if let Err(problem) = &micro_batches {
            problems.push(problem.clone());
        }
        problems.into_result()?;
        let division = Division {
            model: (RoleId(0), model),
            data: (RoleId(1), data),
            types,
            zero: parallel.zero,
            sequence: parallel.sequence,
            divided_checkpoints: parallel.divided_checkpoints,
            recompute: parallel.recompute,
        };
        let stages = Stages::new(Pipeline::new(parallel, stages, micro_batches?)?, layers)?;
        Ok(Self { layers, grid, division, stages, rules, iterations })
    }

    /// Builds the job. The ranks of a stage are a class.
    ///
    /// # Errors
    /// As [`GraphBuilder::build`](crate::GraphBuilder::build).
    pub fn workload(&self, name: &str) -> Result<Workload, Diagnostic> {
        let grid = &self.grid;
        let mut roles = vec![grid.role("model", &grid.model), grid.role("data", &grid.data)];
        let ranks = grid.sizes.iter().product();
        let names = self.layers.iter().map(|layer| layer.name.clone()).collect();
        let pipeline = &self.stages.pipeline;
        if pipeline.stages == 1 {
            let steps: Vec<Step> = self.layers.iter().map(|layer| settle(layer, &self.division)).collect();
            let graph = training_loop(&steps, self.rules, (self.iterations, pipeline.micro_batches))?;
            return Ok(Workload::uniform(name.to_owned(), ranks, graph, roles, names));
        }
        let role = grid.role("pipeline", &grid.pipeline);
        let firsts: Vec<u32> = (0..pipeline.stages).map(|stage| role.rank(0, stage)).collect();
        let classes =
            self.stages.graphs(self.layers, &self.division, self.rules, &firsts, self.iterations)?;
        let class_runs = runs(&role, ranks);
        roles.push(role);
        Ok(Workload {
            name: name.to_owned(),
            ranks,
            classes,
            class_runs,
            roles,
            layers: names,
            iterations: self.iterations,
            source: crate::Source::Built,
        })
    }
}

/// The stage of each rank, as runs of equal stages.
fn runs(role: &Role, ranks: u32) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in 0..ranks {
        let stage = role.seat(rank).map_or(0, |seat| seat.position);
        if runs.last().is_none_or(|&(_, last)| last != stage) {
            runs.push((rank, stage));
        }
    }
    runs
}

/// Finds sizes that do not divide, and settings that contradict each other.
fn check(layers: &[Layer], parallel: &Parallel, model: u32) -> Diagnostics {
    let mut problems = Diagnostics::new();
    let bad = |key: &str, message: String| {
        Diagnostic::error(Code::BadWorkload, message).key(format!("workload.parallel.{key}"))
    };
    if parallel.zero > 3 {
        problems.push(
            bad("zero", "no such stage of ZeRO".to_owned())
                .found(parallel.zero.to_string())
                .allowed("0 to 3"),
        );
    }
    let uneven = |of: Option<u32>| of.filter(|&of| !of.is_multiple_of(model));
    if let Some((layer, heads)) = layers.iter().find_map(|layer| Some((layer, uneven(layer.heads)?))) {
        let more =
            if model > heads { "there are more model-parallel ranks than" } else { "ranks do not divide" };
        problems.push(
            bad("model", format!("{more} the {heads} heads of layer `{}`", layer.name))
                .found(format!("{model} model-parallel ranks"))
                .allowed(divisors(heads))
                .help(
                    "give `model` fewer ranks: heads are the smallest parts of attention, and where several \
                     queries share keys and values, the heads of these",
                ),
        );
    }
    if parallel.sequence
        && let Some((layer, tokens)) = layers.iter().find_map(|layer| Some((layer, uneven(layer.tokens)?)))
    {
        problems.push(
            bad("sequence", format!("ranks do not divide the {tokens} tokens of layer `{}`", layer.name))
                .found(format!("{model} model-parallel ranks"))
                .allowed(divisors(tokens))
                .help("give a `sequence` that is a multiple of the ranks, or leave sequence parallelism out"),
        );
    }
    if parallel.divided_checkpoints && parallel.recompute != Recompute::Full {
        problems.push(
            bad("divided_checkpoints", "only full recomputation keeps checkpoints".to_owned())
                .help("add `recompute: full`"),
        );
    }
    let none = |has: fn(&Layer) -> bool| !layers.iter().any(has);
    let nothing = match parallel.recompute {
        Recompute::None => None,
        Recompute::Selective => none(|layer| layer.selective).then_some((
            "layer is marked `selective`",
            "leave it out: fused attention recomputes its scores by itself. A `decoder` with `attention: unfused` keeps \
             them and can, and so can layers of your own",
        )),
        Recompute::Full => none(|layer| layer.block.is_some()).then_some((
            "layer belongs to a `block`",
            "take a model of blocks, such as `decoder`, or mark layers of your own",
        )),
    };
    if let Some((what, help)) = nothing {
        problems.push(bad("recompute", format!("there is nothing to recompute: no {what}")).help(help));
    }
    problems
}

/// The divisors of a number, as text.
fn divisors(of: u32) -> String {
    let all: Vec<String> =
        (1..=of.min(1 << 20)).filter(|by| of.is_multiple_of(*by)).map(|by| by.to_string()).collect();
    match all.len() {
        0..=8 => all.join(", "),
        more => format!("{}, ... {}", all[..7].join(", "), all[more - 1]),
    }
}
