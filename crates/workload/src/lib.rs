//! The job as data: a task graph per rank class, and process groups.
//!
//! The engine has no notion of training loops. Builders turn layers and a parallelisation into a [`TaskGraph`] whose
//! dependencies express the whole loop; readers of foreign files build the same kind of graph; one engine executes
//! it.
//!
//! - [`graph`]: tasks, dependencies, and iterations without copies;
//! - [`role`]: process groups, by grid axes or by lists;
//! - [`product`]: shapes of matrix products;
//! - [`types`]: element types of what is computed, kept and sent;
//! - [`layer`]: layers with their work, undivided;
//! - [`exchange`]: when ranks exchange what, and within which group;
//! - [`parallel`]: how a job divides its work, as scenarios give it;
//! - [`mesh`]: ranks along named axes, and their place on the fabric;
//! - [`division`]: how a mesh divides a layer;
//! - [`layer_share`]: a layer on one rank, with its share of the work and its exchanges;
//! - [`exchanged`]: layers whose rows are divided among data-parallel ranks;
//! - [`batch`]: the samples of a step, and their micro-batches;
//! - [`training`]: the task graph for ranks that each have a part of every layer;
//! - [`schedule`]: the order in which a stage of a pipeline works;
//! - [`pipeline`]: the task graphs of stages;
//! - [`memory`]: the memory that ranks of each stage need;
//! - [`remedy`]: changes that would make a job fit into memory;
//! - [`server_groups`]: groups of servers that reduce gradients, for jobs without a mesh;
//! - [`operators`]: models whose operators run on servers of their own, instead of layers on a mesh;
//! - [`job`]: builds a whole job from layers and a parallelisation;
//! - [`mod@join`]: joins several jobs into one;
//! - [`matching`]: proof, before the run, that every send has its receive and that groups agree.

pub mod batch;
mod classes;
pub mod division;
pub mod exchange;
pub mod exchanged;
pub mod graph;
pub mod job;
pub mod join;
pub mod layer;
pub mod layer_share;
pub mod matching;
pub mod memory;
pub mod mesh;
pub mod operators;
pub mod parallel;
mod passes;
pub mod pipeline;
pub mod product;
pub mod remedy;
pub mod role;
mod roles;
#[cfg(test)]
mod samples;
pub mod schedule;
pub mod server_groups;
pub mod training;
pub mod types;

pub use graph::{Dependency, GraphBuilder, Part, Peer, Task, TaskGraph, TaskKind};
pub use join::{Share, join};
pub use layer::Work;
pub use product::Product;
pub use role::{Axis, GroupPosition, RankLine, Role, RoleId};
pub use server_groups::ServerGroups;
pub use types::Types;

/// The files that a job was read from, for messages.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Source {
    /// None: the job was built from a description.
    #[default]
    Built,
    /// A file for each rank, `<prefix>.<rank>.et`.
    Traces {
        /// The common prefix of the paths.
        prefix: String,
    },
}

impl Source {
    /// The file that describes `rank`.
    pub fn file(&self, rank: u32) -> Option<String> {
        match self {
            Self::Built => None,
            Self::Traces { prefix } => Some(format!("{prefix}.{rank}.et")),
        }
    }
}

/// Adjacent ranks of one class, up to the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassRun {
    /// The first of these ranks.
    pub first: u32,
    /// Their class.
    pub class: u32,
}

/// A whole job: the tasks of each rank, and the groups.
#[derive(Clone, Debug)]
pub struct Workload {
    /// A name for people.
    pub name: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Task graphs; ranks of one class do the same tasks.
    pub classes: Vec<TaskGraph>,
    /// Class of each rank, in ascending order of ranks; the first run starts at rank 0.
    pub class_runs: Vec<ClassRun>,
    /// Process groups that tasks refer to.
    pub roles: Vec<Role>,
    /// Names and sizes of the mesh's axes of more than one rank, if ranks are laid out on a mesh.
    pub axes: Vec<(String, u32)>,
    /// Names of the layers that tasks refer to.
    pub layers: Vec<String>,
    /// Training iterations, for reporting per step.
    pub iterations: u32,
    /// Where the job comes from.
    pub source: Source,
}

impl Workload {
    /// The name of a layer; empty for no layer.
    pub fn layer_name(&self, layer: Option<u32>) -> &str {
        layer.and_then(|layer| self.layers.get(layer as usize)).map_or("", String::as_str)
    }

    /// The same job, whose groups have an axis for each part of one along which other groups lie: groups of all 32 ranks of
    /// an axis have axes of 8 and 4 if others are 8 neighbours of these. Collectives then have a phase for each.
    #[must_use]
    pub fn divided(mut self) -> Self {
        let ends = |axis: &Axis| [Some(axis.stride), axis.stride.checked_mul(axis.size)];
        let all = self.roles.iter().filter(|role| role.is_grid()).flat_map(|role| &role.axes);
        let mut strides: Vec<u32> = all.filter(|axis| axis.size > 1).flat_map(ends).flatten().collect();
        strides.sort_unstable();
        strides.dedup();
        self.roles = self.roles.into_iter().map(|role| role.divided(&strides)).collect();
        self
    }

    /// Creates a job whose ranks all do the same.
    pub fn uniform(
        name: String,
        ranks: u32,
        graph: TaskGraph,
        roles: Vec<Role>,
        layers: Vec<String>,
    ) -> Self {
        let iterations = graph.iterations / graph.micro_batches;
        let (classes, class_runs) = (vec![graph], vec![ClassRun { first: 0, class: 0 }]);
        Self {
            name,
            ranks,
            classes,
            class_runs,
            roles,
            axes: Vec::new(),
            layers,
            iterations,
            source: Source::Built,
        }
    }

    /// Micro-batches in a training iteration.
    pub fn micro_batches(&self) -> u32 {
        self.classes.first().map_or(1, |graph| graph.micro_batches)
    }

    /// The class of `rank`.
    pub fn class_of(&self, rank: u32) -> u32 {
        let run = self.class_runs.partition_point(|run| run.first <= rank);
        self.class_runs[run - 1].class
    }

    /// Number of ranks of a class.
    pub fn ranks_of(&self, class: u32) -> u32 {
        let ends = self.class_runs.iter().skip(1).map(|run| run.first).chain([self.ranks]);
        let runs = self.class_runs.iter().zip(ends).filter(|(run, _)| run.class == class);
        runs.map(|(run, end)| end.saturating_sub(run.first)).sum()
    }

    /// For each role, whether the job has collectives in its groups.
    pub fn with_collectives(&self) -> Vec<bool> {
        let mut with = vec![false; self.roles.len()];
        for task in self.classes.iter().flat_map(|graph| &graph.tasks) {
            if let TaskKind::Collective { role, .. } = task.kind {
                with[role.index()] = true;
            }
        }
        with
    }

    /// Sums a number over all ranks. `of` returns it for the ranks of a class, given their task graph.
    pub fn sum(&self, of: impl Fn(&TaskGraph) -> u128) -> u128 {
        self.sum_by_class(|class| of(&self.classes[class]))
    }

    /// Sums a number over all ranks. `of` returns it for the ranks of a class, given the class's number.
    pub fn sum_by_class(&self, of: impl Fn(usize) -> u128) -> u128 {
        let ends = self.class_runs.iter().skip(1).map(|run| run.first).chain([self.ranks]);
        let sums: Vec<u128> = (0..self.classes.len()).map(of).collect();
        let runs = self.class_runs.iter().zip(ends);
        let sum = |(&ClassRun { first, class }, end): (&ClassRun, u32)| {
            sums[class as usize].saturating_mul(u128::from(end.saturating_sub(first)))
        };
        runs.map(sum).fold(0, u128::saturating_add)
    }

    /// The first rank of each class, in rank order.
    pub fn first_ranks(&self) -> impl Iterator<Item = u32> {
        let mut seen = vec![false; self.classes.len()];
        let first = move |run: &&ClassRun| !std::mem::replace(&mut seen[run.class as usize], true);
        self.class_runs.iter().filter(first).map(|run| run.first)
    }

    /// A description of a task of `rank` for messages: its name, and its file.
    pub fn describe(&self, rank: u32, task: u32) -> String {
        let graph = &self.classes[self.class_of(rank) as usize];
        let name = graph::describe(&graph.tasks[task as usize], task);
        match self.source.file(rank) {
            Some(file) => format!("{name} ({file})"),
            None => name,
        }
    }
}
