//! The groups that layers exchange within, each once.

use crate::division::Group;
use crate::exchange::{GivenExchange, When};
use crate::layer::Layer;
use crate::mesh::Mesh;
use crate::parallel::{DATA, PIPELINE, TENSOR};
use crate::role::{Axis, Role, RoleId};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

/// The ranks of a layer: coordinates by axis. Axes that are not named are not limited.
pub(crate) type Coordinates = BTreeMap<String, Vec<u32>>;

/// A mesh, and its name if it is not the job's first.
pub(crate) type Named<'a> = (Option<&'a str>, &'a Mesh);

/// The roles of a job.
#[derive(Clone, Debug)]
pub(crate) struct Roles {
    roles: Vec<Role>,
}

impl Roles {
    /// The roles that every job has: tensor parallelism, then data parallelism.
    pub(crate) fn new(mesh: &Mesh) -> Self {
        Self { roles: [TENSOR, DATA].map(|axis| mesh.groups(axis, &[axis])).into() }
    }

    pub(crate) fn all(&self) -> &[Role] {
        &self.roles
    }

    /// The groups along `axes` of a mesh, limited to the ranks with these coordinates.
    pub(crate) fn group(
        &mut self,
        (mesh_name, mesh): Named<'_>,
        axes: &[String],
        limits: &Coordinates,
    ) -> Group {
        let named: Vec<&str> = mesh.names().filter(|name| axes.iter().any(|axis| axis == name)).collect();
        let limits: Vec<(&str, &[u32])> =
            named.iter().filter_map(|&axis| Some((axis, &**limits.get(axis)?))).collect();
        let limited = |&axis: &&str| match limits.iter().find(|(limited, _)| *limited == axis) {
            Some((_, coordinates)) => {
                let coordinates: Vec<String> = coordinates.iter().map(u32::to_string).collect();
                format!("{axis}[{}]", coordinates.join(","))
            }
            None => axis.to_owned(),
        };
        let name = named.iter().map(limited).collect::<Vec<_>>().join("+");
        let name = mesh_name.map_or_else(|| name.clone(), |mesh| format!("{mesh}.{name}"));
        let index = self.roles.iter().position(|role| role.name == name).unwrap_or_else(|| {
            let whole = mesh.groups(&name, &named);
            self.roles.push(if limits.is_empty() { whole } else { limit(mesh, &whole, &limits) });
            self.roles.len() - 1
        });
        // More than fit are refused once all are known.
        Group { role: RoleId(index as u16), size: self.roles[index].size() }
    }

    /// Refuses more roles than there are numbers.
    pub(crate) fn countable(&self) -> Result<(), Diagnostic> {
        if self.roles.len() <= usize::from(u16::MAX) {
            return Ok(());
        }
        Err(Diagnostic::error(Code::BadWorkload, "layers exchange within too many different groups")
            .key("workload.layers")
            .found(self.roles.len().to_string())
            .allowed(format!("at most {}", u16::MAX)))
    }
}

/// The groups of `whole` without the ranks that lie elsewhere.
fn limit(mesh: &Mesh, whole: &Role, limits: &[(&str, &[u32])]) -> Role {
    let has = |&rank: &u32| limits.iter().all(|(axis, at)| at.contains(&mesh.coordinate(rank, axis)));
    let groups: Vec<Vec<u32>> =
        (0..whole.groups()).map(|group| whole.ranks(group).into_iter().filter(has).collect()).collect();
    let axis = Axis { size: groups.first().map_or(1, |group| group.len() as u32), stride: 0, dim: None };
    Role::lists(&whole.name, groups, vec![axis], mesh.ranks()).expect("a rank is in one group of a mesh")
}

/// Finds meshes, axes and coordinates that do not exist, and exchanges that could never happen.
pub(crate) fn check(layers: &[Layer], mesh: &Mesh, meshes: &BTreeMap<&str, Mesh>) -> Diagnostics {
    let mut problems = Diagnostics::new();
    for (index, layer) in layers.iter().enumerate() {
        let at = |key: &str| format!("workload.layers.{index}.{key}");
        let mesh = match &layer.mesh {
            None => mesh,
            Some(name) => match meshes.get(name.as_str()) {
                Some(mesh) => mesh,
                None => {
                    let problem = Diagnostic::error(Code::BadWorkload, "no such mesh").key(at("mesh"));
                    problems.push(if meshes.is_empty() {
                        problem.found(name).help("describe it in `parallel.meshes`")
                    } else {
                        problem.one_of(name, meshes.keys().copied())
                    });
                    continue;
                }
            },
        };
        limits(mesh, layer, &at, &mut problems);
        for (number, exchange) in layer.exchanges.iter().flatten().enumerate() {
            let first = layers[..index].last().is_none_or(|below| below.block != layer.block);
            let begins_block = layer.block.is_some() && first;
            exists(
                mesh,
                exchange,
                begins_block,
                &|key| at(&format!("exchanges.{number}.{key}")),
                &mut problems,
            );
        }
    }
    problems
}

/// Checks the coordinates of the ranks that have a layer.
fn limits(mesh: &Mesh, layer: &Layer, at: &dyn Fn(&str) -> String, problems: &mut Diagnostics) {
    for (axis, coordinates) in &layer.ranks {
        let bad =
            |message: &str| Diagnostic::error(Code::BadWorkload, message).key(at(&format!("ranks.{axis}")));
        if axis == PIPELINE {
            problems.push(
                bad("`ranks` cannot select pipeline stages: the pipeline decides which stage has a layer")
                    .help("remove the key"),
            );
        } else if !mesh.has(axis) {
            problems.push(bad("no such axis").one_of(axis, mesh.names().filter(|name| *name != PIPELINE)));
        } else {
            let size = mesh.degree(axis);
            let mut sorted = coordinates.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != coordinates.len() || sorted.last().is_none_or(|&last| last >= size) {
                problems.push(
                    bad("these are not different coordinates on the axis")
                        .found(format!("{coordinates:?}"))
                        .allowed(format!("some of 0 to {}, each once", size.saturating_sub(1))),
                );
            }
        }
    }
}

/// Checks that an exchange can happen.
fn exists(
    mesh: &Mesh,
    exchange: &GivenExchange,
    begins_block: bool,
    at: &dyn Fn(&str) -> String,
    problems: &mut Diagnostics,
) {
    let bad = |key: &str, message: &str| Diagnostic::error(Code::BadWorkload, message).key(at(key));
    if exchange.axes.is_empty() {
        problems.push(bad("axes", "an exchange needs at least one axis").one_of("", mesh.names()));
    }
    for (number, axis) in exchange.axes.iter().enumerate() {
        if !mesh.has(axis) {
            problems.push(bad("axes", "no such axis").one_of(axis, mesh.names()));
        } else if axis == PIPELINE {
            problems.push(
                bad("axes", "layers of different stages have no collectives together")
                    .found(axis)
                    .help("name other axes"),
            );
        } else if exchange.axes[..number].contains(axis) {
            problems.push(bad("axes", "an axis is named twice").found(axis).help("name it once"));
        }
    }
    if exchange.blocks == Some(false) && exchange.when.provides() {
        problems.push(
            bad("blocks", "this exchange provides what the next compute needs, so it blocks")
                .found("false")
                .help(format!("remove `blocks`: an exchange {} always blocks", exchange.when.name())),
        );
    }
    if exchange.each_micro_batch && exchange.when != When::AfterWeightGrad {
        problems.push(
            bad(
                "each_micro_batch",
                "only exchanges after the weight gradient may be left to the last micro-batch",
            )
            .found(format!("true {}", exchange.when.name()))
            .help("remove the key"),
        );
    }
    if exchange.when == When::BeforeRecompute && !begins_block {
        problems.push(
            bad("when", "only the first layer of a block has a kept input")
                .found(exchange.when.name())
                .help("move the exchange to the first layer of the `block`"),
        );
    }
}
