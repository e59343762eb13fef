//! Jobs to test, and a scheduler that runs their task graphs.

pub(crate) mod scheduler;

use syncline_diagnostics::Diagnostics;
use syncline_units::{Bytes, CollectiveKind, DataType, Time};
use syncline_workload::batch::Batch;
use syncline_workload::exchange::{GivenExchange, When};
use syncline_workload::job::Training;
use syncline_workload::layer::{Layer, Sharding};
use syncline_workload::mesh::FabricAxis;
use syncline_workload::parallel::Parallel;
use syncline_workload::{Part, TaskKind, Types, Work, Workload, matching};

/// Times of a forward pass, an input gradient and a weight gradient.
pub(crate) const FORWARD: u64 = 100;
pub(crate) const INPUT_GRAD: u64 = 200;
pub(crate) const WEIGHT_GRAD: u64 = 400;

/// Dimensions `dim0`, `dim1` and so on of these sizes.
pub(crate) fn fabric(sizes: &[u32]) -> Vec<FabricAxis> {
    let axis = |(at, &size)| FabricAxis { name: format!("dim{at}"), size, dim: Some(at as u16) };
    (0u32..).zip(sizes).map(axis).collect()
}

/// A layer that takes these times, without parameters and activations.
pub(crate) fn timed(name: &str, forward: u64, input_grad: u64, weight_grad: u64) -> Layer {
    let work = |time| Work::Time(Time(time));
    Layer {
        name: name.to_owned(),
        forward: work(forward),
        input_grad: work(input_grad),
        weight_grad: work(weight_grad),
        ..Layer::default()
    }
}

/// The layer that hands on the samples. The first layer of a model computes no input gradient, so with this one in
/// front all other layers are alike.
pub(crate) fn samples() -> Layer {
    Layer { name: "samples".to_owned(), sharding: Sharding::Replicated, ..Layer::default() }
}

/// The samples, and blocks of one layer each, with 10 outputs.
pub(crate) fn blocks(number: u32) -> Vec<Layer> {
    let block = |at: u32| Layer {
        block: Some(at),
        outputs: 10,
        ..timed(&format!("block{at}"), FORWARD, INPUT_GRAD, WEIGHT_GRAD)
    };
    [samples()].into_iter().chain((0..number).map(block)).collect()
}

/// An exchange of 64 bytes.
pub(crate) fn given(when: When, axes: &[&str], kind: CollectiveKind) -> GivenExchange {
    let axes = axes.iter().map(|&axis| axis.to_owned()).collect();
    GivenExchange { when, axes, kind, bytes: Bytes(64), blocks: None, each_micro_batch: false }
}

/// Types of different sizes: 2 bytes for what is computed, activations and parameters, 4 for gradients, 8 for states
/// of the optimizer, 1 for what is sent.
pub(crate) fn types() -> Types {
    Types {
        gradients: DataType::Float32,
        optimizer: DataType::Float64,
        communication: DataType::Float8,
        ..Types::uniform(DataType::BFloat16)
    }
}

/// A job of `(iterations, micro-batches)`, with elements of [`types`].
pub(crate) fn train<'a>(
    layers: &'a [Layer],
    sizes: &[u32],
    parallel: &Parallel,
    (iterations, micro_batches): (u32, u32),
) -> Result<Training<'a>, Diagnostics> {
    Training::new(layers, &fabric(sizes), parallel, iterations, Batch::of(micro_batches), types())
}

/// The tasks of such a job, which match.
pub(crate) fn job(layers: &[Layer], sizes: &[u32], parallel: &Parallel, times: (u32, u32)) -> Workload {
    let workload = train(layers, sizes, parallel, times).unwrap().workload("job").unwrap();
    let problems = matching::check(&workload);
    assert!(problems.0.is_empty(), "{problems}");
    workload
}

/// A collective as one rank runs it in its first step: layer, part, name of the group, kind, bytes, how often.
pub(crate) type Collective = (String, Part, String, &'static str, u64, u32);

/// The collectives of a rank in a step, in task order.
pub(crate) fn collectives(workload: &Workload, rank: u32) -> Vec<Collective> {
    let graph = &workload.classes[workload.class_of(rank) as usize];
    let one = |(at, task): (u32, &syncline_workload::Task)| match task.kind {
        TaskKind::Collective { role, kind, bytes, .. } => Some((
            workload.layer_name(task.layer).to_owned(),
            task.part,
            workload.roles[role.index()].name.clone(),
            kind.name(),
            bytes.0,
            graph.times_a_step(at),
        )),
        _ => None,
    };
    (0..).zip(&graph.tasks).filter_map(one).collect()
}
