//! The algorithms that a scenario names, and the compositions in which all of them have a phase.
//!
//! `algorithms.DIMENSION.COLLECTIVE` names the algorithm of a collective in a dimension; `default` is for dimensions
//! without an entry of their own. Some compositions carry out an all-reduce as a reduce-scatter and an all-gather: an
//! algorithm named for `all_reduce` then runs both, unless they have entries of their own. If it offers neither, `auto`
//! takes a composition in which the dimension has an all-reduce; a composition that the scenario names is refused.
//!
//! `by_shape` names the algorithm of hier2021 Table I for the shape of the dimension.

use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_fabric::Fabric;
use syncline_plan::{Algorithm, Composition, Grid, Phase, registry};
use syncline_scenario::{AllReduce, Collectives};
use syncline_units::{CollectiveKind, DimKind};
use syncline_workload::{Axis, Role};

/// The compositions from which `auto` chooses: each sends at most as many bytes as the next.
const CHOICE: [Composition; 4] = [
    Composition::Hierarchical2n,
    Composition::Hierarchical2nMerged,
    Composition::Enhanced,
    Composition::Baseline,
];
/// The entry for all dimensions without their own entry.
const DEFAULT: &str = "default";

/// The algorithm of hier2021 Table I.
const BY_SHAPE: &str = "by_shape";

/// The algorithms and the composition that a scenario names.
pub(super) struct Named<'a> {
    fabric: &'a Fabric,
    /// `None` for [`BY_SHAPE`].
    algorithms: BTreeMap<(&'a str, CollectiveKind), Option<Arc<dyn Algorithm>>>,
    all_reduce: AllReduce,
}

impl<'a> Named<'a> {
    /// # Errors
    /// Unknown dimensions and algorithms.
    pub(super) fn new(spec: &'a Collectives, fabric: &'a Fabric) -> Result<Self> {
        let mut errors = Diagnostics::new();
        let mut algorithms = BTreeMap::new();
        for (dim, by_kind) in &spec.algorithms {
            let names = fabric.dims().iter().map(|d| d.name.as_str()).chain([DEFAULT]);
            if !names.clone().any(|name| name == dim) {
                errors.push(
                    Diagnostic::error(Code::BadValue, "no such dimension")
                        .key(format!("collectives.algorithms.{dim}"))
                        .one_of(dim, names),
                );
            }
            for (&kind, name) in by_kind {
                if name.trim() == BY_SHAPE {
                    algorithms.insert((dim.as_str(), kind), None);
                    continue;
                }
                match registry::by_name(name) {
                    Ok(algorithm) => {
                        algorithms.insert((dim.as_str(), kind), Some(algorithm));
                    }
                    Err(found) => {
                        let key = format!("collectives.algorithms.{dim}.{kind}");
                        errors.0.extend(found.0.into_iter().map(|d| d.key(key.clone())));
                    }
                }
            }
        }
        errors.into_result()?;
        Ok(Self { fabric, algorithms, all_reduce: spec.all_reduce })
    }

    /// Every key that names an algorithm of a collective, below `collectives`.
    pub(super) fn keys(&self) -> impl Iterator<Item = (CollectiveKind, String)> {
        self.algorithms.keys().map(|(dim, kind)| (*kind, format!("algorithms.{dim}.{kind}")))
    }

    /// The algorithm that the entry of collective `named` gives for phases of kind `phase` along an axis, and its key.
    fn find(
        &self,
        axis: Axis,
        named: CollectiveKind,
        phase: CollectiveKind,
    ) -> Option<(String, Arc<dyn Algorithm>)> {
        let dim = axis.dim.map(|dim| &self.fabric.dims()[usize::from(dim)]);
        let own = dim.map_or("", |dim| dim.name.as_str());
        let (name, found) =
            [own, DEFAULT].into_iter().find_map(|dim| Some((dim, self.algorithms.get(&(dim, named))?)))?;
        let by_shape = || {
            let ring =
                if phase == CollectiveKind::AllToAll { DimKind::FullyConnected } else { DimKind::Ring };
            registry::for_dimension(phase, dim.map_or(ring, |dim| dim.kind))
        };
        Some((format!("algorithms.{name}.{named}"), found.clone().unwrap_or_else(by_shape)))
    }

    /// The algorithm that is named for a phase of `collective` over `ranks` ranks of an axis, and its key.
    pub(super) fn of(
        &self,
        axis: Axis,
        ranks: u32,
        collective: CollectiveKind,
        phase: CollectiveKind,
    ) -> Option<(String, Arc<dyn Algorithm>)> {
        self.find(axis, phase, phase).or_else(|| {
            let part = collective == CollectiveKind::AllReduce && phase != collective;
            let found = self.find(axis, collective, phase).filter(|_| part)?;
            found.1.offers(phase, ranks).is_ok().then_some(found)
        })
    }

    /// The compositions to choose from for `kind` over the groups of a role, at least one.
    ///
    /// # Errors
    /// An algorithm named for this all-reduce has no phase in any composition that may be chosen.
    pub(super) fn compositions(
        &self,
        role: &Role,
        kind: CollectiveKind,
        grid: &Grid,
    ) -> Result<Vec<Composition>> {
        if kind != CollectiveKind::AllReduce {
            return Ok(vec![match self.all_reduce {
                AllReduce::Auto => CHOICE[0],
                AllReduce::Composed(composition) => composition,
            }]);
        }
        let uses = |c: &Composition| self.idle(*c, role, grid).is_none();
        let AllReduce::Composed(composition) = self.all_reduce else {
            if !self.names_any(role) {
                return Ok(CHOICE.to_vec());
            }
            let first = CHOICE.into_iter().find(uses).ok_or_else(|| {
                let (axis, key) = self.idle(CHOICE[0], role, grid).unwrap_or_default();
                Diagnostics::from(self.refusal(AllReduce::Auto.name(), role, axis, &key, &[]))
            })?;
            return Ok(vec![first]);
        };
        let Some((axis, key)) = self.idle(composition, role, grid) else { return Ok(vec![composition]) };
        let others: Vec<Composition> = Composition::ALL.into_iter().filter(uses).collect();
        Err(self.refusal(composition.name(), role, axis, &key, &others).into())
    }

    /// Whether an algorithm is named for an all-reduce or a part of one along an axis of a role.
    fn names_any(&self, role: &Role) -> bool {
        use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
        let kinds = [AllReduce, ReduceScatter, AllGather];
        let axes = role.axes.iter().filter(|axis| axis.size > 1);
        axes.flat_map(|axis| kinds.map(|kind| self.find(*axis, kind, kind))).any(|found| found.is_some())
    }

    /// An axis for which an all-reduce algorithm is named that runs no phase of a composition, and the algorithm's key.
    /// Ignores axes all of whose phases have their own algorithms.
    fn idle(&self, composition: Composition, role: &Role, grid: &Grid) -> Option<(usize, String)> {
        let all_reduce = CollectiveKind::AllReduce;
        let phases = composition.phases(all_reduce, grid);
        let idle = |index: usize| {
            let axis = role.axes[index];
            let (key, _) = self.find(axis, all_reduce, all_reduce).filter(|_| axis.size > 1)?;
            let named = |phase: &Phase| self.of(axis, phase.size, all_reduce, phase.kind).is_some();
            let meant = phases.iter().filter(|phase| phase.axis == index).all(named);
            (!meant).then_some((index, key))
        };
        (0..role.axes.len()).find_map(idle)
    }

    fn refusal(
        &self,
        composition: &str,
        role: &Role,
        axis: usize,
        key: &str,
        others: &[Composition],
    ) -> Diagnostic {
        let axis = role.axes[axis];
        let found = self.find(axis, CollectiveKind::AllReduce, CollectiveKind::AllReduce);
        let name = found.map_or_else(String::new, |(_, algorithm)| algorithm.name().to_owned());
        let place = match axis.dim {
            Some(dim) => format!("dimension {}", self.fabric.dims()[usize::from(dim)].name),
            None => format!("a group of {} ranks", axis.size),
        };
        let error = Diagnostic::error(
            Code::NoPlan,
            format!(
                "`{composition}` carries out an all-reduce in {place} as a reduce-scatter and an all-gather, and \
                 `{name}` runs neither"
            ),
        )
        .key(format!("collectives.{key}"))
        .found(&*name);
        match others.first() {
            Some(_) => error
                .allowed(format!(
                    "collectives.all_reduce: auto, or one of {}",
                    others.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ")
                ))
                .help("remove `collectives.all_reduce`: a composition in which the algorithm has a phase is then chosen"),
            None => error.help(
                "name an algorithm that offers reduce_scatter and all_gather, such as `ring`, or remove the algorithms \
                 named for these two",
            ),
        }
    }
}
