//! Builds the [`Workload`] from a scenario's job.

use crate::files::Files;
use crate::placement;
use crate::watch::Watch;
use std::borrow::Cow;
use syncline_compute::{ComputeModel, Timing};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::Fabric;
use syncline_scenario::{Comm, Layer, Sample, Scenario, Work, Workload as Spec};
use syncline_units::{Bytes, Flops};
use syncline_workload::batch::{Batch, Number};
use syncline_workload::job::Training;
use syncline_workload::memory::{Footprint, footprints};
use syncline_workload::mesh::{FabricAxis, Mesh};
use syncline_workload::operators::{self, OperatorFile};
use syncline_workload::parallel::{Axes, DATA, MeshSpec};
use syncline_workload::remedy::{Asked, fits};
use syncline_workload::{GraphBuilder, Part, RoleId, Task, TaskKind, Workload};

/// A job, built for a fabric.
pub struct Built {
    /// The tasks of all ranks.
    pub workload: Workload,
    /// What ranks of each stage hold in memory, if that is known.
    pub memory: Vec<Footprint>,
    /// Why it does not fit into memory, if it does not.
    pub does_not_fit: Option<Diagnostic>,
    /// What a step works on, if the job is training.
    pub step: Option<StepWork>,
}

/// What a training step works on.
#[derive(Clone, Copy, Debug)]
pub struct StepWork {
    /// Micro-batches of each copy of the model.
    pub micro_batches: u32,
    /// Samples of a step over all copies; `None` if the size of a micro-batch is not known.
    pub samples: Option<u64>,
    /// What a sample is.
    pub sample: Option<Sample>,
    /// Parameters of the model.
    pub parameters: u64,
}

/// Builds the job for a fabric.
///
/// # Errors
/// Everything that is impossible about the job, or unreadable in the files that it names; `LimitReached` if `watch`
/// says to stop.
pub fn workload(
    scenario: &Scenario,
    compute: &ComputeModel,
    fabric: &Fabric,
    files: &Files,
    watch: &Watch<'_>,
) -> Result<Built> {
    let workload = match &scenario.workload {
        Spec::Layers {
            model,
            layers,
            parallel,
            iterations,
            micro_batches,
            global_batch,
            types,
            optimizer,
            batch_per_npu,
            sample,
            notes: _,
        } => {
            positive("workload.iterations", *iterations)?;
            positive("workload.micro_batches", *micro_batches)?;
            check_layers(layers)?;
            let layers = measured(layers, compute)?;
            let axes = axes(scenario, fabric)?;
            let number = global_batch.map_or(Number::MicroBatches(*micro_batches), Number::Global);
            let batch = Batch { micro_batch: *batch_per_npu, number };
            let training = Training::new(&layers, &axes, parallel, *iterations, batch, *types)?;
            let (micro_batches, copies) = (training.stages.pipeline.micro_batches, training.copies());
            countable(*iterations, micro_batches)?;
            let memory = footprints(&training, *optimizer);
            let does_not_fit = scenario.npu_memory.and_then(|capacity| {
                let asked = Asked {
                    layers: &layers,
                    axes: &axes,
                    parallel,
                    optimizer: *optimizer,
                    batch,
                    types: *types,
                };
                fits(&asked, &memory, capacity).err()
            });
            let at_once = u64::from(micro_batches) * u64::from(copies);
            let step = StepWork {
                micro_batches,
                samples: batch_per_npu.map(|each| u64::from(each).saturating_mul(at_once)),
                sample: sample.as_deref().copied(),
                parameters: layers.iter().fold(0, |sum: u64, layer| sum.saturating_add(layer.parameters)),
            };
            return Ok(Built { workload: training.workload(model)?, memory, does_not_fit, step: Some(step) });
        }
        Spec::Collectives { collectives, iterations } => {
            positive("workload.iterations", *iterations)?;
            bare_collectives(collectives, *iterations, &axes(scenario, fabric)?)
        }
        Spec::Chakra { prefix, groups } => {
            let mismatch = |what: &str, ranks| placement::mismatch(&scenario.placement, fabric, what, ranks);
            let axes = axes(scenario, fabric)?;
            crate::chakra::workload(prefix, groups.as_deref(), &axes, &mismatch, files, watch)
        }
        Spec::Jobs { .. } => {
            let message = "a list of jobs must be built job by job";
            Err(Diagnostic::error(Code::BadWorkload, message).key("workload").into())
        }
        Spec::Operators { file, iterations } => {
            positive("workload.iterations", *iterations)?;
            operators(scenario, fabric, &*files.operators(file)?, *iterations)
        }
        Spec::FlexNet { file, iterations } => {
            positive("workload.iterations", *iterations)?;
            let mismatch = |what: &str, ranks| placement::mismatch(&scenario.placement, fabric, what, ranks);
            let ranks = placement::count(&scenario.placement, fabric);
            crate::flexnet::workload(&*files.task_graph(file)?, file, *iterations, ranks, &mismatch)
        }
        Spec::AstraText { file, iterations } => {
            positive("workload.iterations", *iterations)?;
            crate::astra_text::workload(&*files.text(file)?, *iterations, &axes(scenario, fabric)?)
        }
    }?;
    Ok(Built { workload, memory: Vec::new(), does_not_fit: None, step: None })
}

/// The job of a file of operators, each rank of which is a server.
fn operators(scenario: &Scenario, fabric: &Fabric, job: &OperatorFile, iterations: u32) -> Result<Workload> {
    if placement::count(&scenario.placement, fabric) != job.servers {
        let what = format!("the job has {} servers", job.servers);
        return Err(placement::mismatch(&scenario.placement, fabric, &what, job.servers).into());
    }
    operators::tasks::workload(&job.graph, &job.strategy, job.servers, iterations)
}

/// Names and sizes of the rank grid's axes: the logical ones if given, otherwise the fabric's dimensions or axes. On a
/// graph without axes, and if only some NPUs are used, one axis of all ranks.
fn axes(scenario: &Scenario, fabric: &Fabric) -> Result<Vec<FabricAxis>> {
    let ranks = placement::count(&scenario.placement, fabric);
    if let Some(sizes) = &scenario.collectives.logical {
        let product = sizes.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
        if product != Some(ranks) || ranks == 0 {
            let seats = product.map_or_else(|| "too many".to_owned(), |product| product.to_string());
            let counted = placement::counted(&scenario.placement, fabric);
            return Err(Diagnostic::error(
                Code::BadValue,
                format!("the logical topology has {seats} ranks, but {counted}"),
            )
            .key("collectives.logical")
            .found(format!("{sizes:?}"))
            .allowed(format!("sizes whose product is {ranks}"))
            .into());
        }
        let dims = fabric.dims();
        let same = dims.len() == sizes.len() && dims.iter().zip(sizes).all(|(dim, &size)| dim.size == size);
        return Ok(sizes
            .iter()
            .enumerate()
            .map(|(index, &size)| FabricAxis {
                name: if same { dims[index].name.clone() } else { format!("axis{index}") },
                size,
                dim: same.then_some(index as u16),
            })
            .collect());
    }
    if ranks == fabric.npus() && !fabric.axes().is_empty() {
        let axis = |(name, size): &(String, u32)| FabricAxis { name: name.clone(), size: *size, dim: None };
        return Ok(fabric.axes().iter().map(axis).collect());
    }
    if fabric.is_graph() || ranks != fabric.npus() {
        return Ok(vec![FabricAxis { name: "all".to_owned(), size: ranks, dim: None }]);
    }
    Ok(fabric
        .dims()
        .iter()
        .enumerate()
        .map(|(index, dim)| FabricAxis { name: dim.name.clone(), size: dim.size, dim: Some(index as u16) })
        .collect())
}

fn positive(key: &str, value: u32) -> Result<()> {
    if value > 0 {
        return Ok(());
    }
    Err(Diagnostic::error(Code::BadValue, "must be at least 1").key(key).found("0").into())
}

/// Refuses a job whose micro-batches, over all iterations, do not fit into 32 bits.
fn countable(iterations: u32, micro_batches: u32) -> Result<()> {
    if iterations.checked_mul(micro_batches).is_some() {
        return Ok(());
    }
    Err(Diagnostic::error(Code::BadValue, "too many micro-batches in all iterations")
        .key("workload.micro_batches")
        .found(format!("{micro_batches} in each of {iterations} iterations"))
        .allowed(format!("at most {} in {iterations}", u32::MAX / iterations))
        .help("simulate fewer iterations: later ones are like the first")
        .into())
}

fn check_layers(layers: &[Layer]) -> Result<()> {
    let mut errors = Diagnostics::new();
    if layers.is_empty() {
        errors.push(
            Diagnostic::error(Code::BadWorkload, "a model needs at least one layer").key("workload.layers"),
        );
    }
    let mut names: Vec<(&str, usize)> =
        layers.iter().enumerate().map(|(i, layer)| (layer.name.as_str(), i)).collect();
    names.sort_unstable();
    for pair in names.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        errors.push(
            Diagnostic::error(Code::BadWorkload, format!("two layers are named `{}`", pair[0].0))
                .key(format!("workload.layers.{}.name", pair[1].1))
                .help("rename one: rows of the results are identified by layer name"),
        );
    }
    for (index, layer) in layers.iter().enumerate() {
        let passes = [
            ("forward", &layer.forward),
            ("input_grad", &layer.input_grad),
            ("weight_grad", &layer.weight_grad),
            ("update", &layer.update),
        ];
        for (pass, work) in passes {
            check_products(work, &format!("workload.layers.{index}.{pass}.ops"), &mut errors);
        }
    }
    errors.into_result().map(|_| ())
}

/// Checks that matrix products have sizes, and that the products of a pass do not exceed the work of the pass.
fn check_products(work: &Work, key: &str, errors: &mut Diagnostics) {
    let Work::Ops { flop, memory, products, .. } = work else { return };
    let zero =
        products.iter().position(|product| [product.m, product.k, product.n, product.count].contains(&0));
    if let Some(at) = zero {
        errors.push(
            Diagnostic::error(Code::BadWorkload, "a matrix product needs sizes above zero")
                .key(format!("{key}.products.{at}")),
        );
        return;
    }
    let sums = products.iter().try_fold((0u64, 0u64), |(flop, memory), product| {
        Some((flop.checked_add(product.flop()?)?, memory.checked_add(product.memory.0)?))
    });
    let more = |what: &str, found: String, allowed: String| {
        Diagnostic::error(
            Code::BadWorkload,
            format!("matrix products have more {what} than the pass they belong to"),
        )
        .key(format!("{key}.products"))
        .found(found)
        .allowed(format!("at most {allowed}"))
    };
    match sums {
        None => errors.push(more("operations", "more than 2^64".to_owned(), flop.to_string())),
        Some((sum, _)) if sum > flop.0 => {
            errors.push(more("operations", Flops(sum).to_string(), flop.to_string()))
        }
        Some((_, sum)) if sum > memory.0 => {
            errors.push(more("memory traffic", Bytes(sum).to_string(), memory.to_string()))
        }
        Some(_) => {}
    }
}

/// The layers with measured times in place of operations, if the compute model is a table of times.
fn measured<'a>(layers: &'a [Layer], compute: &ComputeModel) -> Result<Cow<'a, [Layer]>> {
    let Timing::Table(table) = &compute.timing else { return Ok(Cow::Borrowed(layers)) };
    let mut layers = layers.to_vec();
    table.apply(&mut layers)?;
    Ok(Cow::Owned(layers))
}

/// A job that consists only of collectives, one after the other, over all ranks.
fn bare_collectives(collectives: &[Comm], iterations: u32, axes: &[FabricAxis]) -> Result<Workload> {
    let mut errors = Diagnostics::new();
    if collectives.is_empty() {
        errors
            .push(Diagnostic::error(Code::BadWorkload, "no collective is given").key("workload.collectives"));
    }
    for (index, _) in collectives.iter().enumerate().filter(|(_, comm)| comm.bytes.is_zero()) {
        errors.push(
            Diagnostic::error(Code::BadValue, "a collective needs a size above zero")
                .key(format!("workload.collectives.{index}.bytes")),
        );
    }
    errors.into_result()?;
    let mesh = Mesh::place(axes, &MeshSpec { tensor: Axes::None, data: Axes::All, ..MeshSpec::default() })?;
    let role = mesh.groups("all", &[DATA]);
    let mut builder = GraphBuilder::new();
    let mut names = Vec::new();
    for (index, comm) in collectives.iter().enumerate() {
        names.push(format!("{} {}", comm.kind, comm.bytes));
        let kind = TaskKind::Collective {
            role: RoleId(0),
            kind: comm.kind,
            bytes: comm.bytes,
            blocking: true,
            when: None,
        };
        let task =
            builder.task(Task { kind, layer: Some(index as u32), part: Part::Other, name: String::new() });
        if index > 0 {
            builder.after(task, task - 1);
        }
    }
    builder.after_previous(0, collectives.len() as u32 - 1);
    let graph = builder.build(iterations)?;
    let ranks = role.size();
    Ok(Workload::uniform("collectives".to_owned(), ranks, graph, vec![role], names))
}
