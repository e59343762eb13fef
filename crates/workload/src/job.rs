//! Builds a whole job from layers and a parallelisation.

use crate::Workload;
use crate::batch::Batch;
use crate::classes::{Class, Classes};
use crate::division::{Division, Group};
use crate::exchange::{Comm, Exchange};
use crate::layer::Layer;
use crate::layer_share::{LayerShare, divide};
use crate::mesh::{FabricAxis, Mesh};
use crate::parallel::{DATA, PIPELINE, Parallel, Recompute, Rules, TENSOR};
use crate::pipeline::{StageRanks, Stages};
use crate::roles::Roles;
use crate::schedule::Pipeline;
use crate::training::training_loop;
use crate::types::Types;
use std::borrow::Cow;
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

/// A training job: its layers, and which ranks hold their parts, copies and stages.
#[derive(Clone, Debug)]
pub struct Training<'a> {
    /// The layers, from input to output.
    pub layers: &'a [Layer],
    /// The mesh of ranks.
    pub mesh: Mesh,
    /// Which stage holds which layers.
    pub stages: Stages,
    /// How each layer is divided.
    divisions: Vec<Division>,
    /// The layer that first needs the output of each layer, if the layer says so.
    needed_by: Vec<Option<usize>>,
    /// Exchanges of layers that give their own.
    given: Vec<Option<Vec<Exchange>>>,
    /// Ranks that have the same layers.
    classes: Classes,
    roles: Roles,
    rules: Rules,
    iterations: u32,
}

impl<'a> Training<'a> {
    /// Lays `layers` out on the axes of `fabric`, for a number of iterations of steps on `batch`, with elements of
    /// these types.
    ///
    /// # Errors
    /// Everything that is impossible about it.
    pub fn new(
        layers: &'a [Layer],
        fabric: &[FabricAxis],
        parallel: &Parallel,
        iterations: u32,
        batch: Batch,
        types: Types,
    ) -> Result<Self, Diagnostics> {
        let mesh = Mesh::place(fabric, &parallel.mesh())?;
        let mut meshes = BTreeMap::new();
        for (name, spec) in &parallel.meshes {
            meshes.insert(name.as_str(), mesh.place_beside(fabric, name, spec)?);
        }
        let mut problems = Diagnostics::new();
        let needed_by = keep(&mut problems, needed_by(layers)).unwrap_or_default();
        let stages = mesh.degree(PIPELINE);
        problems.extend(check(layers, parallel));
        problems.extend(crate::roles::check(layers, &mesh, &meshes));
        if stages > 1 && needed_by.iter().any(Option::is_some) {
            problems.push(
                Diagnostic::error(
                    Code::BadWorkload,
                    "a model with a layer that has `sharding: exchange` or `needed_by` cannot be divided into pipeline \
                     stages",
                )
                .key("workload.parallel.pipeline")
                .found(format!("{stages} stages"))
                .allowed("1"),
            );
        }
        let micro_batches = keep(&mut problems, batch.micro_batches(mesh.degree(DATA)).map_err(Into::into));
        let (Some(micro_batches), true) = (micro_batches, problems.0.is_empty()) else {
            return Err(problems);
        };
        let mut roles = Roles::new(&mesh);
        let division = |roles: &mut Roles, layer: &Layer| {
            let of = layer.mesh.as_deref().map_or((None, &mesh), |name| (Some(name), &meshes[name]));
            let mut group = |axis: &str| roles.group(of, &[axis.to_owned()], &layer.ranks);
            let (tensor, data): (Group, Group) = (group(TENSOR), group(DATA));
            Division {
                zero: parallel.zero,
                sequence: parallel.sequence,
                divided_checkpoints: parallel.divided_checkpoints,
                recompute: parallel.recompute,
                ..Division::plain(tensor, data, types)
            }
        };
        let divisions: Vec<Division> = layers.iter().map(|layer| division(&mut roles, layer)).collect();
        let given = |layer: &Layer| {
            let of = layer.mesh.as_deref().map_or((None, &mesh), |name| (Some(name), &meshes[name]));
            let exchanges = layer.exchanges.as_ref()?;
            let one = |given: &crate::exchange::GivenExchange| Exchange {
                when: given.when,
                role: roles.group(of, &given.axes, &layer.ranks).role,
                comm: Comm { kind: given.kind, bytes: given.bytes },
                blocks: given.blocks.unwrap_or(given.when.blocks()),
                each_micro_batch: given.each_micro_batch,
            };
            Some(exchanges.iter().filter(|given| !given.bytes.is_zero()).map(one).collect())
        };
        let given = layers.iter().map(given).collect();
        roles.countable()?;
        let mut problems = uneven(layers, &divisions, parallel);
        let pipeline =
            keep(&mut problems, Pipeline::new(parallel, stages, micro_batches).map_err(Into::into));
        let stages = pipeline
            .and_then(|pipeline| keep(&mut problems, Stages::new(pipeline, layers).map_err(Into::into)));
        let (Some(stages), true) = (stages, problems.0.is_empty()) else { return Err(problems) };
        let classes = Classes::new(layers, &mesh, &meshes);
        let rules = Rules::from(parallel);
        Ok(Self { layers, mesh, stages, divisions, needed_by, given, classes, roles, rules, iterations })
    }

    /// Copies of the model.
    pub fn copies(&self) -> u32 {
        self.mesh.degree(DATA)
    }

    /// How a layer is divided.
    pub fn division(&self, layer: usize) -> &Division {
        &self.divisions[layer]
    }

    /// The different sets of layers that ranks of `stage` have: for each set, whether a layer belongs to it.
    pub(crate) fn sets(&self, stage: u32) -> Vec<Vec<bool>> {
        let of_stage = self.classes.classes.iter().filter(|class| class.stage == stage);
        of_stage.map(|class| self.classes.present(class)).collect()
    }

    /// Builds the job. Ranks of a stage that have the same layers are a class.
    ///
    /// # Errors
    /// As [`GraphBuilder::build`](crate::GraphBuilder::build).
    pub fn workload(&self, name: &str) -> Result<Workload, Diagnostic> {
        let pipeline = &self.stages.pipeline;
        let held = self.stages.held(self.layers);
        let role = self.mesh.groups(PIPELINE, &[PIPELINE]);
        let firsts: Vec<u32> = (0..pipeline.stages).map(|stage| role.rank(0, stage)).collect();
        let graph = |class: &Class| {
            let shares = self.shares(&held, &self.classes.present(class));
            if !self.stages.differ {
                training_loop(&shares, self.rules, self.iterations, pipeline.micro_batches)
            } else {
                let division = |layer: usize| &self.divisions[layer];
                self.stages.graph(
                    &shares,
                    self.layers,
                    &division,
                    self.rules,
                    StageRanks { stage: class.stage, firsts: &firsts },
                    self.iterations,
                )
            }
        };
        let classes = self.classes.classes.iter().map(graph).collect::<Result<_, _>>()?;
        let mut roles = self.roles.all().to_vec();
        if pipeline.stages > 1 {
            roles.push(role);
        }
        let axes = self.mesh.names().map(|name| (name.to_owned(), self.mesh.degree(name)));
        Ok(Workload {
            name: name.to_owned(),
            ranks: self.mesh.ranks(),
            classes,
            class_runs: self.classes.runs.clone(),
            roles,
            axes: axes.filter(|&(_, size)| size > 1).collect(),
            layers: self.layers.iter().map(|layer| layer.name.clone()).collect(),
            iterations: self.iterations,
            source: crate::Source::Built,
        })
    }

    /// The shares of a rank that has the layers of `present`.
    fn shares(&self, layers: &[Cow<'_, Layer>], present: &[bool]) -> Vec<LayerShare> {
        let share = |(at, layer): (usize, &Cow<'_, Layer>)| {
            if !present[at] {
                return LayerShare {
                    name: layer.name.clone(),
                    absent: true,
                    block: layer.block,
                    ..LayerShare::default()
                };
            }
            let divided = divide(layer, &self.divisions[at], self.given[at].clone());
            LayerShare { needed_by: self.needed_by[at], ..divided }
        };
        layers.iter().enumerate().map(share).collect()
    }
}

/// The value of a result, whose problems are added to others.
fn keep<T>(problems: &mut Diagnostics, found: Result<T, Diagnostics>) -> Option<T> {
    found.map_err(|more| problems.extend(more)).ok()
}

/// The layer that first needs the output of each layer, for layers that say so. The next layer
/// needs the output of a layer with `sharding: exchange`, if the layer does not say otherwise.
fn needed_by(layers: &[Layer]) -> Result<Vec<Option<usize>>, Diagnostics> {
    let mut problems = Diagnostics::new();
    let bad = |index: usize, key: &str, message: &str| {
        Diagnostic::error(Code::BadWorkload, message).key(format!("workload.layers.{index}.{key}"))
    };
    let mut found = vec![None; layers.len()];
    for (index, layer) in layers.iter().enumerate() {
        let later = &layers[index + 1..];
        found[index] = match &layer.needed_by {
            Some(name) => match later.iter().position(|other| other.name == *name) {
                Some(between) => Some(index + 1 + between),
                None => {
                    problems.push(
                        bad(index, "needed_by", "no later layer has this name")
                            .one_of(name, later.iter().map(|other| other.name.as_str()))
                            .help("name a layer that comes after it"),
                    );
                    None
                }
            },
            None if layer.is_exchanged() && later.is_empty() => {
                problems.push(
                    bad(
                        index,
                        "sharding",
                        "a layer with `sharding: exchange` needs a later layer that uses its output",
                    )
                    .found("exchange")
                    .help("add the layers that follow it"),
                );
                None
            }
            None => layer.is_exchanged().then_some(index + 1),
        };
    }
    problems.into_result().map(|_| found)
}

/// Finds settings that contradict each other.
fn check(layers: &[Layer], parallel: &Parallel) -> Diagnostics {
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

/// Finds layers that tensor-parallel ranks cannot divide.
fn uneven(layers: &[Layer], divisions: &[Division], parallel: &Parallel) -> Diagnostics {
    let mut problems = Diagnostics::new();
    let bad = |key: &str, message: String| {
        Diagnostic::error(Code::BadWorkload, message).key(format!("workload.parallel.{key}"))
    };
    let each = || layers.iter().zip(divisions).map(|(layer, by)| (layer, by.tensor.size));
    let uneven = |of: Option<u32>, ranks: u32| of.filter(|&of| !of.is_multiple_of(ranks));
    if let Some((layer, ranks)) =
        each().find(|&(layer, ranks)| layer.is_exchanged() && ranks > 1 && layer.exchanges.is_none())
    {
        problems.push(
            Diagnostic::error(
                Code::BadWorkload,
                format!(
                    "layer `{}` has `sharding: exchange`, so data-parallel ranks divide it, but tensor-parallel ranks \
                     divide it too",
                    layer.name
                ),
            )
            .key("workload.parallel")
            .found(format!("{ranks} tensor-parallel ranks"))
            .allowed("1")
            .help("write `parallel: { data: all }`, or give the layer `exchanges`, or a `mesh` whose `tensor` is 1"),
        );
    }
    if let Some((layer, ranks, heads)) =
        each().find_map(|(layer, ranks)| Some((layer, ranks, uneven(layer.heads, ranks)?)))
    {
        let more =
            if ranks > heads { "there are more tensor-parallel ranks than" } else { "ranks do not divide" };
        problems.push(
            bad("tensor", format!("{more} the {heads} heads of layer `{}`", layer.name))
                .found(format!("{ranks} tensor-parallel ranks"))
                .allowed(divisors(heads))
                .help(
                    "use fewer tensor-parallel ranks: a head cannot be split (with grouped-query attention, a \
                     key-value head)",
                ),
        );
    }
    if parallel.sequence
        && let Some((layer, ranks, tokens)) =
            each().find_map(|(layer, ranks)| Some((layer, ranks, uneven(layer.tokens, ranks)?)))
    {
        problems.push(
            bad("sequence", format!("ranks do not divide the {tokens} tokens of layer `{}`", layer.name))
                .found(format!("{ranks} tensor-parallel ranks"))
                .allowed(divisors(tokens))
                .help("give a `sequence` that is a multiple of the ranks, or leave sequence parallelism out"),
        );
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TaskKind;
    use crate::exchange::{GivenExchange, When};
    use crate::layer::Sharding;
    use crate::matching;
    use crate::memory::footprints;
    use crate::parallel::{Axes, MeshSpec};
    use crate::samples::layer;
    use crate::types::Optimizer;
    use syncline_units::{Bytes, CollectiveKind, DataType};

    fn fabric(sizes: &[u32]) -> Vec<FabricAxis> {
        let axis = |(at, &size)| FabricAxis { name: format!("dim{at}"), size, dim: Some(at as u16) };
        (0u32..).zip(sizes).map(axis).collect()
    }

    fn given(when: When, axes: &[&str], kind: CollectiveKind) -> GivenExchange {
        let axes = axes.iter().map(|&axis| axis.to_owned()).collect();
        GivenExchange { when, axes, kind, bytes: Bytes(64), blocks: None, each_micro_batch: false }
    }

    fn with(name: &str, exchanges: &[GivenExchange]) -> Layer {
        Layer { exchanges: Some(exchanges.to_vec()), ..layer(name) }
    }

    fn train<'a>(
        layers: &'a [Layer],
        sizes: &[u32],
        parallel: &Parallel,
    ) -> Result<Training<'a>, Diagnostics> {
        Training::new(layers, &fabric(sizes), parallel, 1, Batch::of(2), Types::uniform(DataType::Float16))
    }

    /// The collectives of the ranks of a class, by name of their role.
    fn collectives(workload: &Workload, class: usize) -> Vec<(String, CollectiveKind)> {
        let tasks = workload.classes[class].tasks.iter();
        let of = |kind: &TaskKind| match *kind {
            TaskKind::Collective { role, kind, .. } => {
                Some((workload.roles[role.index()].name.clone(), kind))
            }
            _ => None,
        };
        tasks.filter_map(|task| of(&task.kind)).collect()
    }

    #[test]
    fn layers_exchange_along_any_axes() {
        // The sum of gradients over both data and context, in groups of 2 x 2 of 8 ranks that are 2 apart.
        let own =
            with("own", &[given(When::AfterWeightGrad, &["data", "context"], CollectiveKind::AllReduce)]);
        let layers = [own, layer("derived")];
        let parallel = Parallel {
            tensor: Axes::Degree(2),
            axes: [("context".to_owned(), Axes::Degree(2))].into(),
            ..Parallel::default()
        };
        let workload = train(&layers, &[8], &parallel).unwrap().workload("w").unwrap();
        assert!(matching::check(&workload).0.is_empty());
        let role = workload.roles.iter().find(|role| role.name == "context+data").unwrap();
        assert_eq!(role.ranks(1), [1, 3, 5, 7]);
        assert_eq!(
            workload.axes,
            [("tensor", 2), ("context", 2), ("data", 2)].map(|(n, s)| (n.to_owned(), s))
        );
        let found = collectives(&workload, 0);
        assert!(found.contains(&("context+data".to_owned(), CollectiveKind::AllReduce)));
        assert!(found.contains(&("tensor".to_owned(), CollectiveKind::AllGather)), "{found:?}");
    }

    #[test]
    fn experts_lie_on_a_mesh_of_their_own() {
        let to_all = |when| given(when, &["expert"], CollectiveKind::AllToAll);
        let moments = [When::BeforeForward, When::AfterForward, When::BeforeBackward, When::AfterInputGrad];
        let mut experts = with("experts", &moments.map(to_all));
        experts.mesh = Some("experts".to_owned());
        let mut router = layer("router");
        router.mesh = Some("experts".to_owned());
        let layers = [layer("attention"), experts, router];
        let mesh = MeshSpec {
            tensor: Axes::Degree(1),
            axes: [("expert".to_owned(), Axes::Degree(4))].into(),
            ..MeshSpec::default()
        };
        let parallel = Parallel {
            tensor: Axes::Degree(2),
            meshes: [("experts".to_owned(), mesh)].into(),
            ..Parallel::default()
        };
        let training = train(&layers, &[8], &parallel).unwrap();
        let workload = training.workload("w").unwrap();
        assert!(matching::check(&workload).0.is_empty());
        let sizes: Vec<(&str, u32)> =
            workload.roles.iter().map(|role| (role.name.as_str(), role.size())).collect();
        assert_eq!(
            sizes,
            [("tensor", 2), ("data", 4), ("experts.tensor", 1), ("experts.data", 2), ("experts.expert", 4)]
        );
        let found = collectives(&workload, 0);
        let to_alls = found.iter().filter(|(role, _)| role == "experts.expert").count();
        assert_eq!(to_alls, 4);
        // The router's gradients are reduced over the copies of its own mesh.
        assert!(found.contains(&("experts.data".to_owned(), CollectiveKind::AllReduce)));
        // Half of `attention`, all of the others.
        let parameters = footprints(&training, Optimizer::None)[0].parameters;
        assert_eq!(parameters, Bytes(2 * (50 + 100 + 100)));
    }

    #[test]
    fn a_layer_on_some_ranks_makes_classes() {
        // One rank of each copy looks up and broadcasts.
        let table = Layer { ranks: [("tensor".to_owned(), vec![0])].into(), ..layer("table") };
        let rest = with("rest", &[given(When::BeforeForward, &["tensor"], CollectiveKind::Broadcast)]);
        let layers = [table, rest];
        let parallel = Parallel { tensor: Axes::Degree(4), ..Parallel::default() };
        let training = train(&layers, &[8], &parallel).unwrap();
        let workload = training.workload("w").unwrap();
        let runs: Vec<(u32, u32)> = workload.class_runs.iter().map(|run| (run.first, run.class)).collect();
        assert_eq!(runs, [(0, 0), (1, 1), (4, 0), (5, 1)]);
        assert!(matching::check(&workload).0.is_empty());
        let names =
            |class| collectives(&workload, class).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        // The table's gradients are reduced by the ranks that have it. They are not divided, because one rank has all.
        assert_eq!(names(0), ["tensor", "data"]);
        assert_eq!(names(1), ["tensor"]);
        let role = workload.roles.iter().find(|role| role.name == "data").unwrap();
        assert_eq!(role.ranks(0), [0, 4]);
        assert_eq!(footprints(&training, Optimizer::None)[0].parameters, Bytes(2 * (100 + 25)));
    }

    #[test]
    fn groups_may_leave_out_ranks_of_an_axis() {
        // Ranks 0 and 1 of every four divide the layer; ranks 2 and 3 do not have it.
        let part = Layer { ranks: [("tensor".to_owned(), vec![0, 1])].into(), ..layer("part") };
        let layers = [layer("whole"), part];
        let parallel = Parallel { tensor: Axes::Degree(4), pipeline: Axes::Degree(2), ..Parallel::default() };
        let workload = train(&layers, &[16], &parallel).unwrap().workload("w").unwrap();
        assert!(matching::check(&workload).0.is_empty());
        let role = workload.roles.iter().find(|role| role.name == "tensor[0,1]").unwrap();
        assert_eq!(
            [0, 1, 2, 3].map(|group| role.ranks(group)),
            [[0, 1], [4, 5], [8, 9], [12, 13]].map(Vec::from)
        );
        // Two classes in each of the two stages.
        assert_eq!(workload.class_runs.len(), 8);
        assert_eq!(workload.classes.len(), 4);
        assert_eq!(workload.ranks_of(0), 4);
    }

    #[test]
    fn impossible_layers_are_refused() {
        let ranks =
            |axis: &str, at: &[u32]| Layer { ranks: [(axis.to_owned(), at.to_vec())].into(), ..layer("l") };
        let own = |exchange: GivenExchange| with("l", &[exchange]);
        let (reduce, after) = (CollectiveKind::AllReduce, When::AfterForward);
        let not_blocking = |when| GivenExchange { blocks: Some(false), ..given(when, &["data"], reduce) };
        let each = GivenExchange { each_micro_batch: true, ..given(after, &["data"], reduce) };
        for (layer, key, message) in [
            (Layer { mesh: Some("m".to_owned()), ..layer("l") }, "mesh", "no such mesh"),
            (ranks("tensro", &[0]), "ranks.tensro", "no such axis"),
            (ranks("tensor", &[2]), "ranks.tensor", "different coordinates"),
            (ranks("tensor", &[1, 1]), "ranks.tensor", "different coordinates"),
            (ranks("tensor", &[]), "ranks.tensor", "different coordinates"),
            (ranks("pipeline", &[0]), "ranks.pipeline", "cannot select pipeline stages"),
            (own(given(after, &[], reduce)), "exchanges.0.axes", "at least one axis"),
            (own(given(after, &["tensro"], reduce)), "exchanges.0.axes", "no such axis"),
            (own(given(after, &["data", "data"], reduce)), "exchanges.0.axes", "named twice"),
            (own(given(after, &["pipeline"], reduce)), "exchanges.0.axes", "different stages"),
            (own(not_blocking(When::BeforeForward)), "exchanges.0.blocks", "so it blocks"),
            (own(each), "exchanges.0.each_micro_batch", "only exchanges after the weight gradient"),
            (
                own(given(When::BeforeRecompute, &["data"], reduce)),
                "exchanges.0.when",
                "first layer of a block",
            ),
        ] {
            let parallel = Parallel { tensor: Axes::Degree(2), ..Parallel::default() };
            let layers = [layer];
            let errors = train(&layers, &[8], &parallel).unwrap_err();
            assert_eq!(errors.0.len(), 1, "{errors}");
            assert_eq!(errors.0[0].key.as_deref(), Some(&*format!("workload.layers.0.{key}")));
            assert!(errors.0[0].message.contains(message), "{errors}");
            assert!(errors.0[0].help.is_some() || errors.0[0].allowed.is_some(), "{errors}");
        }
    }

    #[test]
    fn outputs_that_nothing_could_need_are_refused() {
        let exchanged = |name: &str| Layer { sharding: Sharding::Exchange, ..layer(name) };
        let needed = |by: &str| Layer { needed_by: Some(by.to_owned()), ..exchanged("e") };
        for (layers, tensor, key, message) in [
            (vec![exchanged("e"), layer("a")], 2, "parallel", "tensor-parallel ranks divide it too"),
            (vec![exchanged("e")], 1, "layers.0.sharding", "needs a later layer"),
            (vec![needed("tpo"), layer("bottom"), layer("top")], 1, "layers.0.needed_by", "no later layer"),
            (vec![needed("e"), layer("top")], 1, "layers.0.needed_by", "no later layer"),
        ] {
            let parallel = Parallel { tensor: Axes::Degree(tensor), ..Parallel::default() };
            let errors = train(&layers, &[8], &parallel).unwrap_err();
            assert_eq!(errors.0[0].key.as_deref(), Some(&*format!("workload.{key}")));
            assert!(errors.0[0].message.contains(message), "{errors}");
            assert!(errors.0[0].help.is_some());
        }
        let misspelt = [needed("tpo"), layer("bottom"), layer("top")];
        assert_eq!(needed_by(&misspelt).unwrap_err().0[0].nearest.as_deref(), Some("top"));
        // Several layers may have `sharding: exchange`; the next layer needs them, if they do not say otherwise.
        let tables = [needed("top"), exchanged("second"), layer("bottom"), layer("top")];
        assert_eq!(needed_by(&tables), Ok(vec![Some(3), Some(2), None, None]));
    }
}
