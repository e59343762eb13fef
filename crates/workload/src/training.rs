//! Layers and a parallelisation into the task graph of a training loop.
//!
//! The rules of blocking follow ASTRA-sim's training loops (astra2020 III-A, III-E): forward exchanges block the next
//! layer; weight gradients are reduced in the background, and only the layer's own next forward pass waits for them;
//! input-gradient exchanges block the layer below.

use crate::graph::{GraphBuilder, Part, Task, TaskGraph, TaskKind};
use crate::layer::{Axes, BackwardOrder, Comm, Layer, Parallel, Sharding, Work};
use crate::product::Cut;
use crate::role::{Role, RoleId};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::{Bytes, CollectiveKind, Flops, Time};

/// A collective of a layer: among which group, what, how much.
pub type GroupComm = (RoleId, Comm);

/// A layer with its work and communication settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of the layer.
    pub name: String,
    /// Forward pass.
    pub forward: Work,
    /// Gradient with respect to the input.
    pub input_grad: Work,
    /// Gradient with respect to the parameters.
    pub weight_grad: Work,
    /// Parameter update.
    pub update: Work,
    /// Exchange after the forward pass; the next layer waits for it.
    pub forward_comm: Option<GroupComm>,
    /// Exchange after the input gradient; the layer below waits for it.
    pub input_grad_comm: Option<GroupComm>,
    /// Exchange after the weight gradient; the layer's next forward pass waits for it.
    pub weight_grad_comm: Option<GroupComm>,
}

/// What the training loop does besides the common rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rules {
    /// Order of the two gradients of a layer.
    pub backward: BackwardOrder,
    /// The recommendation-model loop (dlrm2020 Fig. 3): step 0 is the embedding, whose forward exchange is awaited only
    /// after step `last_bottom`, and whose backward exchange starts once step `last_bottom + 1` is done.
    pub last_bottom: Option<u32>,
}

/// One axis that ranks can be laid out along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GridAxis {
    /// Its name, by which a parallelisation claims it.
    pub name: String,
    /// Ranks along it.
    pub size: u32,
    /// The fabric's dimension that it runs along, if it runs along one.
    pub dim: Option<u16>,
}

/// The grid of ranks that a parallelisation needs: the fabric's dimensions, one of them split where a degree fills it
/// only partly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Axis sizes, lowest first.
    pub sizes: Vec<u32>,
    /// Fabric dimension of each axis.
    pub dims: Vec<Option<u16>>,
    /// Axes of the model-parallel groups.
    pub model: Vec<usize>,
    /// Axes of the data-parallel groups.
    pub data: Vec<usize>,
}

impl Grid {
    /// Lays `parallel` out on axes, lowest first.
    ///
    /// # Errors
    /// Unknown dimension names, dimensions claimed by both strategies or by none, degrees that do not divide.
    pub fn new(dims: &[GridAxis], parallel: &Parallel) -> Result<Self, Diagnostic> {
        let mut sizes: Vec<u32> = dims.iter().map(|axis| axis.size).collect();
        // Index into `dims` of each axis of the grid.
        let mut of: Vec<usize> = (0..dims.len()).collect();
        let bad = |key: &str, message: String| {
            Diagnostic::error(Code::BadWorkload, message).key(format!("workload.parallel.{key}"))
        };
        if let (Axes::Degree(_), Axes::Degree(_)) = (&parallel.model, &parallel.data) {
            let total: u64 = sizes.iter().map(|&s| u64::from(s)).product();
            let (Axes::Degree(m), Axes::Degree(d)) = (&parallel.model, &parallel.data) else {
                unreachable!()
            };
            if u64::from(*m) * u64::from(*d) != total {
                return Err(Diagnostic::error(
                    Code::RankMismatch,
                    format!("model {m} x data {d} is not the {total} NPUs of the fabric"),
                )
                .key("workload.parallel")
                .help("give only one of the two degrees; the other follows"));
            }
        }
        // A model-parallel degree fills the lowest dimensions; a data-parallel one is what remains.
        let degree = match (&parallel.model, &parallel.data) {
            (Axes::Degree(degree), _) => Some(*degree),
            (Axes::Rest, Axes::Degree(degree)) => {
                let total: u64 = sizes.iter().map(|&s| u64::from(s)).product();
                let degree = u64::from((*degree).max(1));
                if !total.is_multiple_of(degree) {
                    return Err(bad(
                        "data",
                        format!("{degree} does not divide the {total} NPUs of the fabric"),
                    ));
                }
                Some((total / degree) as u32)
            }
            _ => None,
        };
        let mut model = Vec::new();
        if let Some(degree) = degree {
            if degree == 0 {
                return Err(bad("model", "a degree must be at least 1".to_owned()));
            }
            let mut left = degree;
            let mut axis = 0;
            while left > 1 {
                let Some(&size) = sizes.get(axis) else {
                    return Err(bad("model", format!("{degree} ranks are more than the fabric has")));
                };
                if left.is_multiple_of(size) {
                    left /= size;
                } else if size.is_multiple_of(left) {
                    sizes[axis] = left;
                    sizes.insert(axis + 1, size / left);
                    of.insert(axis + 1, of[axis]);
                    left = 1;
                } else {
                    return Err(bad("model", format!("{degree} ranks do not fill the dimensions evenly"))
                        .note(format!("{left} remain to be placed on a dimension of {size}"))
                        .help(
                            "use a degree that divides, or is a multiple of, each dimension that it reaches",
                        ));
                }
                model.push(axis);
                axis += 1;
            }
        } else {
            model = match &parallel.model {
                Axes::All => (0..sizes.len()).collect(),
                Axes::Dims(names) => named(dims, names, "model")?,
                Axes::Rest => match &parallel.data {
                    Axes::Dims(names) => {
                        let data = named(dims, names, "data")?;
                        (0..sizes.len()).filter(|axis| !data.contains(axis)).collect()
                    }
                    Axes::None => (0..sizes.len()).collect(),
                    _ => Vec::new(),
                },
                _ => Vec::new(),
            };
        }
        let rest: Vec<usize> = (0..sizes.len()).filter(|axis| !model.contains(axis)).collect();
        let data = match &parallel.data {
            Axes::All => (0..sizes.len()).collect(),
            Axes::Dims(names) => named(dims, names, "data")?,
            Axes::None => Vec::new(),
            Axes::Rest | Axes::Degree(_) => rest,
        };
        if let Some(&axis) = data.iter().find(|axis| model.contains(axis)) {
            let name = &dims[of[axis]].name;
            return Err(bad(
                "data",
                format!("dimension `{name}` is used for both model and data parallelism"),
            )
            .help("give each dimension to one of them"));
        }
        if let Some(axis) =
            (0..sizes.len()).find(|axis| sizes[*axis] > 1 && !data.contains(axis) && !model.contains(axis))
        {
            let name = &dims[of[axis]].name;
            return Err(bad(
                "data",
                format!("dimension `{name}` is used for neither model nor data parallelism"),
            )
            .help("add it to `data`, or write `data: rest`"));
        }
        let dims = of.into_iter().map(|axis| dims[axis].dim).collect();
        Ok(Self { sizes, dims, model, data })
    }

    /// The groups along `axes`.
    pub fn role(&self, name: &str, axes: &[usize]) -> Role {
        Role::grid(name, &self.sizes, &self.dims, axes)
    }

    /// Ranks along `axes`.
    pub fn degree(&self, axes: &[usize]) -> u32 {
        axes.iter().map(|&axis| self.sizes[axis]).product()
    }
}

fn named(dims: &[GridAxis], names: &[String], key: &str) -> Result<Vec<usize>, Diagnostic> {
    let mut axes = Vec::new();
    for name in names {
        let axis = dims.iter().position(|axis| axis.name == *name).ok_or_else(|| {
            Diagnostic::error(Code::BadWorkload, "no such dimension")
                .key(format!("workload.parallel.{key}"))
                .one_of(name, dims.iter().map(|axis| axis.name.as_str()))
        })?;
        if axes.contains(&axis) {
            return Err(Diagnostic::error(Code::BadWorkload, format!("dimension `{name}` is named twice"))
                .key(format!("workload.parallel.{key}")));
        }
        axes.push(axis);
    }
    axes.sort_unstable();
    Ok(axes)
}

/// What `model`-way model parallelism and data parallelism make of a layer: its share of the work, and its exchanges.
/// `element` is the size of one parameter, activation or gradient in bytes.
pub fn settle(layer: &Layer, model: (RoleId, u32), data: (RoleId, u32), element: u64) -> Step {
    let (model_role, degree) = model;
    let (data_role, copies) = data;
    let divided = degree > 1 && layer.sharding != Sharding::Replicated;
    let share = |work: &Work, outputs: Cut, inputs: Cut| match layer.sharding {
        _ if !divided => work.clone(),
        Sharding::Gather | Sharding::Column => divide(work, degree, outputs),
        Sharding::Row => divide(work, degree, inputs),
        Sharding::Divided | Sharding::Replicated => divide(work, degree, Cut::Count),
    };
    let comm = |role, kind, elements: u64| {
        let bytes = Bytes(elements.saturating_mul(element));
        (!bytes.is_zero()).then_some((role, Comm { kind, bytes }))
    };
    let parameters = if divided { layer.parameters.div_ceil(u64::from(degree)) } else { layer.parameters };
    let weight_grad_comm =
        if copies > 1 { comm(data_role, CollectiveKind::AllReduce, parameters) } else { None };
    let gathers = degree > 1 && layer.sharding == Sharding::Gather;
    let forward_comm = if gathers {
        comm(model_role, CollectiveKind::AllGather, layer.outputs)
    } else if degree > 1 && layer.sharding == Sharding::Row {
        comm(model_role, CollectiveKind::AllReduce, layer.outputs)
    } else {
        None
    };
    let input_grad_comm = if gathers || (degree > 1 && layer.sharding == Sharding::Column) {
        comm(model_role, CollectiveKind::AllReduce, layer.inputs)
    } else {
        None
    };
    let mut step = Step {
        name: layer.name.clone(),
        forward: share(&layer.forward, Cut::N, Cut::K),
        input_grad: share(&layer.input_grad, Cut::K, Cut::N),
        weight_grad: share(&layer.weight_grad, Cut::N, Cut::M),
        update: share(&layer.update, Cut::Count, Cut::Count),
        forward_comm,
        input_grad_comm,
        weight_grad_comm,
    };
    if let Some(given) = &layer.communication {
        let over = |role, comm: Option<Comm>| comm.filter(|c| !c.bytes.is_zero()).map(|comm| (role, comm));
        step.forward_comm = over(model_role, given.forward);
        step.input_grad_comm = over(model_role, given.input_grad);
        step.weight_grad_comm = over(data_role, given.weight_grad);
    }
    step
}

/// One rank's share of `work` where `by` ranks divide it. `cut` says what of its matrix products they divide.
fn divide(work: &Work, by: u32, cut: Cut) -> Work {
    let share = |amount: u64| amount.div_ceil(u64::from(by));
    match work {
        Work::None => Work::None,
        Work::Time(time) => Work::Time(Time(share(time.0))),
        Work::Ops { flop, memory, products } => Work::Ops {
            flop: Flops(share(flop.0)),
            memory: Bytes(share(memory.0)),
            products: products.iter().map(|product| product.share(by, cut)).collect(),
        },
    }
}

/// The training loop over `steps`, of so many iterations and micro-batches in each: gradients are reduced, and parameters
/// updated, in the last one.
///
/// # Errors
/// As [`GraphBuilder::build`].
pub fn training_loop(
    steps: &[Step],
    rules: Rules,
    (iterations, micro_batches): (u32, u32),
) -> Result<TaskGraph, Diagnostic> {
    let mut loop_ = Loop { graph: GraphBuilder::new(), chain: None, awaited: Vec::new() };
    let count = steps.len();
    let mut forwards = Vec::with_capacity(count);
    let mut embedding_exchange = None;
    let bottom = rules.last_bottom.map(|last| last as usize);

    for (index, step) in steps.iter().enumerate() {
        forwards.push(loop_.compute(index, Part::Forward, &step.forward));
        let exchange = loop_.exchange(index, Part::Forward, step.forward_comm, true);
        if bottom.is_some() && index == 0 {
            embedding_exchange = exchange;
        } else {
            loop_.awaited.extend(exchange);
        }
        if bottom == Some(index) {
            loop_.awaited.extend(embedding_exchange.take());
        }
    }
    loop_.awaited.extend(embedding_exchange.take());

    let mut embedding_backward = None;
    for (index, step) in steps.iter().enumerate().rev() {
        let is_embedding = bottom.is_some() && index == 0;
        if is_embedding {
            loop_.awaited.extend(embedding_backward.take());
        }
        let weight = |loop_: &mut Loop| {
            loop_.compute(index, Part::WeightGrad, &step.weight_grad);
            let exchange = loop_.exchange(index, Part::WeightGrad, step.weight_grad_comm, false);
            if let Some(exchange) = exchange {
                loop_.graph.only_in_last(exchange);
            }
            let mut last = exchange.or(loop_.chain);
            if step.update != Work::None {
                let update = loop_.add(index, Part::Update, TaskKind::Compute(step.update.clone()));
                loop_.graph.only_in_last(update);
                if let Some(on) = last {
                    loop_.graph.after(update, on);
                }
                last = Some(update);
            }
            if let Some(last) = last {
                loop_.graph.after_previous(forwards[index], last);
            }
        };
        let input = |loop_: &mut Loop| {
            // Nobody needs the gradient with respect to the samples.
            if index > 0 {
                loop_.compute(index, Part::InputGrad, &step.input_grad);
                let exchange = loop_.exchange(index, Part::InputGrad, step.input_grad_comm, true);
                loop_.awaited.extend(exchange);
            }
        };
        match rules.backward {
            BackwardOrder::WeightFirst => {
                weight(&mut loop_);
                input(&mut loop_);
            }
            BackwardOrder::InputFirst => {
                input(&mut loop_);
                // The exchange of the input gradient overlaps the same layer's weight gradient.
                let exchange = if index > 0 { std::mem::take(&mut loop_.awaited) } else { Vec::new() };
                weight(&mut loop_);
                loop_.awaited.extend(exchange);
            }
        }
        if bottom.is_some_and(|last| index == last + 1) {
            embedding_backward = loop_.exchange(0, Part::InputGrad, steps[0].input_grad_comm, true);
        }
    }
    // The next iteration begins where this one's compute and blocking exchanges end.
    if let Some(&first) = forwards.first() {
        if let Some(last) = loop_.chain {
            loop_.graph.after_previous(first, last);
        }
        for &on in &loop_.awaited {
            loop_.graph.after_previous(first, on);
        }
    }
    loop_.graph.build_steps(iterations, micro_batches)
}

/// The loop under construction: compute tasks form a chain, and what the next of them must await.
struct Loop {
    graph: GraphBuilder,
    chain: Option<u32>,
    awaited: Vec<u32>,
}

impl Loop {
    fn add(&mut self, layer: usize, part: Part, kind: TaskKind) -> u32 {
        self.graph.task(Task { kind, layer: layer as u32, part, name: String::new() })
    }

    /// The next compute task; also stands for work that takes no time, so that order is kept.
    fn compute(&mut self, layer: usize, part: Part, work: &Work) -> u32 {
        let kind = if *work == Work::None { TaskKind::Join } else { TaskKind::Compute(work.clone()) };
        let task = self.add(layer, part, kind);
        for on in self.chain.into_iter().chain(self.awaited.drain(..)) {
            self.graph.after(task, on);
        }
        self.chain = Some(task);
        task
    }

    /// A collective that starts when the chain's last task is done.
    fn exchange(&mut self, layer: usize, part: Part, comm: Option<GroupComm>, blocking: bool) -> Option<u32> {
        let (role, Comm { kind, bytes }) = comm?;
        let task = self.add(layer, part, TaskKind::Collective { role, kind, bytes, blocking });
        if let Some(on) = self.chain {
            self.graph.after(task, on);
        }
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::Product;

    fn dims() -> Vec<GridAxis> {
        let axis = |name: &str, size, dim| GridAxis { name: name.to_owned(), size, dim: Some(dim) };
        vec![axis("local", 8, 0), axis("rack", 128, 1)]
    }
    fn parallel(model: Axes, data: Axes) -> Parallel {
        Parallel { model, data, ..Parallel::default() }
    }

    #[test]
    fn a_degree_splits_the_dimension_that_it_fills_partly() {
        // GPT-3 with model parallelism over 16 on 8x128 (hier2021): dimension 2 is shared.
        let grid = Grid::new(&dims(), &parallel(Axes::Degree(16), Axes::Rest)).unwrap();
        assert_eq!(grid.sizes, [8, 2, 64]);
        assert_eq!(grid.dims, [Some(0), Some(1), Some(1)]);
        assert_eq!((grid.model.clone(), grid.data.clone()), (vec![0, 1], vec![2]));
        assert_eq!((grid.degree(&grid.model), grid.degree(&grid.data)), (16, 64));
    }

    #[test]
    fn bad_parallelisations_are_refused() {
        let names = |names: &[&str]| Axes::Dims(names.iter().map(|&n| n.to_owned()).collect());
        for (model, data, message) in [
            (Axes::Degree(3), Axes::Rest, "do not fill"),
            (Axes::Degree(2048), Axes::Rest, "more than the fabric has"),
            (Axes::Degree(0), Axes::Rest, "at least 1"),
            (Axes::Degree(2), Axes::Degree(2), "is not the 1024 NPUs"),
            (names(&["locla"]), Axes::Rest, "no such dimension"),
            (names(&["local"]), Axes::All, "both"),
            (names(&["local"]), Axes::None, "neither"),
            (names(&["local", "local"]), Axes::Rest, "named twice"),
        ] {
            let error = Grid::new(&dims(), &parallel(model, data)).unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }

    fn layer(name: &str) -> Layer {
        let work = Work::Time(Time(8_000));
        Layer {
            name: name.to_owned(),
            forward: work.clone(),
            input_grad: work.clone(),
            weight_grad: work,
            parameters: 100,
            inputs: 10,
            outputs: 20,
            ..Layer::default()
        }
    }

    #[test]
    fn model_parallelism_follows_the_sharding() {
        let settle_as = |sharding| {
            let layer = Layer { sharding, ..layer("l") };
            settle(&layer, (RoleId(0), 4), (RoleId(1), 2), 2)
        };
        let kinds = |step: &Step| {
            [step.forward_comm, step.input_grad_comm, step.weight_grad_comm]
                .map(|comm| comm.map(|(role, comm)| (role.0, comm.kind.name(), comm.bytes.0)))
        };
        let grads = |bytes| Some((1, "all_reduce", bytes));
        assert_eq!(
            kinds(&settle_as(Sharding::Gather)),
            [Some((0, "all_gather", 40)), Some((0, "all_reduce", 20)), grads(50)]
        );
        assert_eq!(kinds(&settle_as(Sharding::Column)), [None, Some((0, "all_reduce", 20)), grads(50)]);
        assert_eq!(kinds(&settle_as(Sharding::Row)), [Some((0, "all_reduce", 40)), None, grads(50)]);
        assert_eq!(kinds(&settle_as(Sharding::Divided)), [None, None, grads(50)]);
        assert_eq!(kinds(&settle_as(Sharding::Replicated)), [None, None, grads(200)]);
        assert_eq!(settle_as(Sharding::Replicated).forward, Work::Time(Time(8_000)));
        assert_eq!(settle_as(Sharding::Row).forward, Work::Time(Time(2_000)));
    }

    #[test]
    fn matrix_products_are_divided_as_their_operands_are() {
        let product = |m, k, n| Product { m, k, n, count: 1, memory: Bytes(400) };
        let work =
            |product| Work::Ops { flop: Flops(8_000), memory: Bytes(800), products: Box::new([product]) };
        // 100 rows, 20 inputs, 40 outputs.
        let shares = |sharding| {
            let layer = Layer {
                sharding,
                forward: work(product(100, 20, 40)),
                input_grad: work(product(100, 40, 20)),
                weight_grad: work(product(20, 100, 40)),
                ..layer("l")
            };
            let step = settle(&layer, (RoleId(0), 4), (RoleId(1), 2), 2);
            [step.forward, step.input_grad, step.weight_grad].map(|work| match work {
                Work::Ops { flop: Flops(2_000), memory: Bytes(200), products } => {
                    assert_eq!(products[0].memory, Bytes(100));
                    (products[0].m, products[0].k, products[0].n)
                }
                other => panic!("{other:?}"),
            })
        };
        let by_outputs = [(100, 20, 10), (100, 10, 20), (20, 100, 10)];
        assert_eq!(shares(Sharding::Gather), by_outputs);
        assert_eq!(shares(Sharding::Column), by_outputs);
        assert_eq!(shares(Sharding::Row), [(100, 5, 40), (100, 40, 5), (5, 100, 40)]);
        // Attention's products are divided by heads; one alone is divided by rows.
        assert_eq!(shares(Sharding::Divided), [(25, 20, 40), (25, 40, 20), (5, 100, 40)]);
    }

    /// Tasks that `name` waits for, as `layer part kind`, with `'` for the previous iteration.
    fn waits(graph: &TaskGraph, layer: u32, part: Part, collective: bool) -> Vec<String> {
        let is = |t: &Task| t.layer == layer && t.part == part && t.kind.is_communication() == collective;
        let at = graph.tasks.iter().position(is).unwrap() as u32;
        let mut names: Vec<String> = graph
            .dependencies(at)
            .iter()
            .map(|d| {
                let task = &graph.tasks[d.task as usize];
                let kind = if task.kind.is_communication() { "comm" } else { "compute" };
                format!("{}{} {kind}{}", task.layer, task.part.name(), if d.lag == 1 { "'" } else { "" })
            })
            .collect();
        names.sort();
        names
    }

    #[test]
    fn data_parallel_training_blocks_where_the_paper_says() {
        let steps: Vec<Step> =
            ["a", "b"].iter().map(|name| settle(&layer(name), (RoleId(0), 1), (RoleId(1), 4), 4)).collect();
        let graph = training_loop(&steps, Rules::default(), (2, 1)).unwrap();
        assert_eq!(waits(&graph, 0, Part::Forward, false), ["0weight grad comm'", "0weight grad compute'"]);
        assert_eq!(waits(&graph, 1, Part::Forward, false), ["0forward compute", "1weight grad comm'"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["1forward compute"]);
        assert_eq!(waits(&graph, 1, Part::InputGrad, false), ["1weight grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["1input grad compute"]);
        assert!(!graph.tasks.iter().any(|t| t.layer == 0 && t.part == Part::InputGrad));
    }

    #[test]
    fn transformer_order_overlaps_the_input_exchange_with_the_weight_gradient() {
        let steps: Vec<Step> =
            ["a", "b"].iter().map(|name| settle(&layer(name), (RoleId(0), 2), (RoleId(1), 4), 4)).collect();
        let rules = Rules { backward: BackwardOrder::InputFirst, last_bottom: None };
        let graph = training_loop(&steps, rules, (1, 1)).unwrap();
        assert_eq!(waits(&graph, 1, Part::InputGrad, true), ["1input grad compute"]);
        assert_eq!(waits(&graph, 1, Part::WeightGrad, false), ["1input grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["1input grad comm", "1weight grad compute"]);
    }

    #[test]
    fn recommendation_loop_awaits_the_embedding_late() {
        let exchange = Some((RoleId(0), Comm { kind: CollectiveKind::AllToAll, bytes: Bytes(64) }));
        let mut steps: Vec<Step> = ["embedding", "bottom", "top"]
            .iter()
            .map(|name| settle(&layer(name), (RoleId(0), 1), (RoleId(1), 4), 4))
            .collect();
        steps[0].forward_comm = exchange;
        steps[0].input_grad_comm = exchange;
        steps[0].weight_grad_comm = None;
        let rules = Rules { backward: BackwardOrder::WeightFirst, last_bottom: Some(1) };
        let graph = training_loop(&steps, rules, (1, 1)).unwrap();
        assert_eq!(waits(&graph, 1, Part::Forward, false), ["0forward compute", "1weight grad comm'"]);
        assert_eq!(
            waits(&graph, 2, Part::Forward, false),
            ["0forward comm", "1forward compute", "2weight grad comm'"]
        );
        assert_eq!(waits(&graph, 0, Part::InputGrad, true), ["2input grad compute"]);
        assert_eq!(waits(&graph, 0, Part::WeightGrad, false), ["0input grad comm", "1input grad compute"]);
    }
}
