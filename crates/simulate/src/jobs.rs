//! The scenario's job as a [`Workload`].

use crate::placement;
use crate::scenario::{Axes, BackwardOrder, Comm, Parallel, Scenario, Workload as Spec};
use crate::watch::Watch;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::Fabric;
use syncline_workload::training::{Grid, Rules, settle, training_loop};
use syncline_workload::{GraphBuilder, Part, RoleId, Task, TaskKind, Workload};

/// Builds the job for a fabric.
///
/// # Errors
/// Everything that is impossible about it, or unreadable in the files it names; `LimitReached` where `watch` says stop.
pub(crate) fn workload(scenario: &Scenario, fabric: &Fabric, watch: &Watch<'_>) -> Result<Workload> {
    match &scenario.workload {
        Spec::Layers { model, layers, parallel, iterations, data_type } => {
            positive("workload.iterations", *iterations)?;
            check_layers(layers)?;
            let grid = Grid::new(&axes(scenario, fabric)?, parallel)?;
            let roles = vec![grid.role("model", &grid.model), grid.role("data", &grid.data)];
            let degrees = [grid.degree(&grid.model), grid.degree(&grid.data)];
            let steps: Vec<_> = layers
                .iter()
                .map(|layer| {
                    settle(layer, (RoleId(0), degrees[0]), (RoleId(1), degrees[1]), data_type.bytes())
                })
                .collect();
            let rules = Rules { backward: parallel.backward, last_bottom: None };
            let graph = training_loop(&steps, rules, *iterations)?;
            let names = layers.iter().map(|layer| layer.name.clone()).collect();
            Ok(Workload::uniform(model.clone(), grid.sizes.iter().product(), graph, roles, names))
        }
        Spec::Collectives { collectives, iterations } => {
            positive("workload.iterations", *iterations)?;
            bare_collectives(collectives, *iterations, &axes(scenario, fabric)?)
        }
        Spec::Chakra { prefix, groups } => {
            let mismatch = |what: &str, ranks| placement::mismatch(&scenario.placement, fabric, what, ranks);
            crate::chakra::workload(prefix, groups.as_deref(), &axes(scenario, fabric)?, &mismatch, watch)
        }
        Spec::AstraText { file, iterations } => {
            positive("workload.iterations", *iterations)?;
            crate::astra_text::workload(file, *iterations, &axes(scenario, fabric)?)
        }
    }
}

/// Names and sizes of the rank grid's axes: the logical ones where given, else the fabric's dimensions, else (on a
/// graph, or where only some NPUs are used) one axis of all ranks.
fn axes(scenario: &Scenario, fabric: &Fabric) -> Result<Vec<Axis>> {
    let ranks = placement::count(&scenario.placement, fabric);
    if let Some(sizes) = &scenario.collectives.logical {
        let product = sizes.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
        if product != Some(ranks) || ranks == 0 {
            let seats = product.map_or_else(|| "too many".to_owned(), |product| product.to_string());
            let counted = placement::counted(&scenario.placement, fabric);
            return Err(Diagnostic::error(
                Code::BadValue,
                format!("the logical topology has {seats} ranks, {counted}"),
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
            .map(|(index, &size)| Axis {
                name: if same { dims[index].name.clone() } else { format!("axis{index}") },
                size,
                dim: same.then_some(index as u16),
            })
            .collect());
    }
    if fabric.is_graph() || ranks != fabric.npus() {
        return Ok(vec![Axis { name: "all".to_owned(), size: ranks, dim: None }]);
    }
    Ok(fabric
        .dims()
        .iter()
        .enumerate()
        .map(|(index, dim)| Axis { name: dim.name.clone(), size: dim.size, dim: Some(index as u16) })
        .collect())
}

/// One axis of the rank grid.
pub(crate) use syncline_workload::training::GridAxis as Axis;

fn positive(key: &str, value: u32) -> Result<()> {
    if value > 0 {
        return Ok(());
    }
    Err(Diagnostic::error(Code::BadValue, "must be at least 1").key(key).found("0").into())
}

fn check_layers(layers: &[crate::scenario::Layer]) -> Result<()> {
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
                .help("layer names tell rows of the results apart"),
        );
    }
    errors.into_result().map(|_| ())
}

/// Collectives alone, one after the other, over all ranks.
fn bare_collectives(collectives: &[Comm], iterations: u32, axes: &[Axis]) -> Result<Workload> {
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
    let parallel = Parallel { model: Axes::None, data: Axes::All, backward: BackwardOrder::WeightFirst };
    let grid = Grid::new(axes, &parallel)?;
    let role = grid.role("all", &grid.data);
    let mut builder = GraphBuilder::new();
    let mut names = Vec::new();
    for (index, comm) in collectives.iter().enumerate() {
        names.push(format!("{} {}", comm.kind, comm.bytes));
        let kind =
            TaskKind::Collective { role: RoleId(0), kind: comm.kind, bytes: comm.bytes, blocking: true };
        let task = builder.task(Task { kind, layer: index as u32, part: Part::Other, name: String::new() });
        if index > 0 {
            builder.after(task, task - 1);
        }
    }
    builder.after_previous(0, collectives.len() as u32 - 1);
    let graph = builder.build(iterations)?;
    let ranks = role.size();
    Ok(Workload::uniform("collectives".to_owned(), ranks, graph, vec![role], names))
}
