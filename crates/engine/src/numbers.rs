//! Numbers of collectives. All ranks number them alike and without gaps, so they agree which collective is meant and
//! which comes first.
//!
//! There are two numberings. A *sequence* number counts the collectives of one role. A *number* counts those of all
//! roles: by iteration, then role, then place within the role. So any two collectives have the same order in every
//! iteration, however many collectives other roles have. The last micro-batch of a step may have more collectives
//! than the others, so each count is a pair: `[usual, last]`.

use syncline_workload::{RoleId, TaskGraph, TaskKind};

/// What the engine often looks up about the tasks of a class.
#[derive(Debug)]
pub(crate) struct ClassIndex {
    /// By task: for collectives, the number among the role's collectives of one iteration.
    ordinal: Vec<[u32; 2]>,
    /// Collectives of each role in one iteration.
    of_role: Vec<[u32; 2]>,
}

impl ClassIndex {
    /// Counts the collectives of `graph`, which uses `roles` roles.
    pub(crate) fn new(graph: &TaskGraph, roles: usize) -> Self {
        let mut of_role = vec![[0; 2]; roles];
        let ordinal = (0u32..).zip(&graph.tasks).map(|(index, task)| match task.kind {
            TaskKind::Collective { role, .. } => {
                let [usual, last] = &mut of_role[role.index()];
                let ordinal = [*usual, *last];
                // A single micro-batch is the last one.
                *usual += u32::from(graph.times_a_step(index) > 1);
                *last += 1;
                ordinal
            }
            _ => [0; 2],
        });
        Self { ordinal: ordinal.collect(), of_role }
    }
}

/// A collective's number in each numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveNumbers {
    /// Among the collectives of its role, from 0.
    pub(crate) sequence: u32,
    /// Among the collectives of all roles. Starts at 1, so that keys of point-to-point messages are below all others.
    pub(crate) number: u64,
}

/// The numbering of the collectives of all roles.
#[derive(Debug)]
pub(crate) struct Numbers {
    micro_batches: u32,
    /// Collectives of each role in one iteration; the same for every class that has any.
    of_role: Vec<[u32; 2]>,
    /// By role: collectives of the roles before it.
    before: Vec<[u64; 2]>,
    /// Collectives of all roles.
    all: [u64; 2],
}

impl Numbers {
    pub(crate) fn new(classes: &[ClassIndex], roles: usize, micro_batches: u32) -> Self {
        let most = |role: usize, which: usize| {
            classes.iter().map(|class| class.of_role[role][which]).max().unwrap_or(0)
        };
        let of_role: Vec<[u32; 2]> = (0..roles).map(|role| [most(role, 0), most(role, 1)]).collect();
        let (mut before, mut all) = (Vec::new(), [0; 2]);
        for own in &of_role {
            before.push(all);
            all = [all[0] + u64::from(own[0]), all[1] + u64::from(own[1])];
        }
        Self { micro_batches, of_role, before, all }
    }

    /// How many collectives precede `iteration`, with the given counts per iteration.
    fn until(&self, iteration: u32, [usual, last]: [u64; 2]) -> u64 {
        let [step, micro_batch] = [iteration / self.micro_batches, iteration % self.micro_batches];
        let of_step = u64::from(self.micro_batches - 1) * usual + last;
        u64::from(step).wrapping_mul(of_step).wrapping_add(u64::from(micro_batch) * usual)
    }

    /// Which of the two counts applies to `iteration`.
    fn which(&self, iteration: u32) -> usize {
        usize::from(iteration % self.micro_batches == self.micro_batches - 1)
    }

    /// The sequence number of the first collective of `role` in `iteration`.
    pub(crate) fn first(&self, role: RoleId, iteration: u32) -> u32 {
        self.until(iteration, self.of_role[role.index()].map(u64::from)) as u32
    }

    /// The numbers of a class's collective task of `role` in `iteration`.
    pub(crate) fn of(
        &self,
        class: &ClassIndex,
        role: RoleId,
        iteration: u32,
        task: u32,
    ) -> CollectiveNumbers {
        let which = self.which(iteration);
        let ordinal = class.ordinal[task as usize][which];
        let number = self.until(iteration, self.all) + self.before[role.index()][which] + u64::from(ordinal);
        CollectiveNumbers { sequence: self.first(role, iteration) + ordinal, number: 1 + number }
    }

    /// By how much numbers grow over `iterations` iterations from `start`.
    pub(crate) fn all_in(&self, start: u32, iterations: u32) -> u64 {
        self.until(start + iterations, self.all) - self.until(start, self.all)
    }

    /// By how much the sequence numbers of `role` grow over `iterations` iterations from `start`.
    pub(crate) fn of_role_in(&self, role: RoleId, start: u32, iterations: u32) -> u32 {
        self.first(role, start + iterations).wrapping_sub(self.first(role, start))
    }

    /// How many collectives a rank of `class` issues in `iterations` iterations from `start`.
    pub(crate) fn issued_in(&self, class: &ClassIndex, start: u32, iterations: u32) -> u64 {
        let in_all = |own: &[u32; 2]| {
            let own = own.map(u64::from);
            self.until(start + iterations, own) - self.until(start, own)
        };
        class.of_role.iter().map(in_all).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syncline_units::{Bytes, CollectiveKind};
    use syncline_workload::{GraphBuilder, Part, Task};

    #[test]
    fn numbers_have_no_gaps_with_extra_collectives_in_the_last_micro_batch() {
        for micro_batches in [1, 2, 5] {
            let mut builder = GraphBuilder::new();
            for (role, only_last) in [(1, false), (0, true), (0, false), (1, true)] {
                let kind = TaskKind::Collective {
                    role: RoleId(role),
                    kind: CollectiveKind::AllReduce,
                    bytes: Bytes(8),
                    blocking: false,
                    when: None,
                };
                let task =
                    builder.task(Task { kind, layer: Some(0), part: Part::Other, name: String::new() });
                if only_last {
                    builder.only_in_last(task);
                }
            }
            let graph = builder.build_steps(3, micro_batches).unwrap();
            let class = ClassIndex::new(&graph, 2);
            let numbers = Numbers::new(std::slice::from_ref(&class), 2, micro_batches);
            let (mut all, mut of_role) = (Vec::new(), [Vec::new(), Vec::new()]);
            for iteration in 0..graph.iterations {
                for (task, role) in [(1, 0), (2, 0), (0, 1), (3, 1)] {
                    if graph.is_done_in(task, iteration) {
                        let CollectiveNumbers { sequence, number } =
                            numbers.of(&class, RoleId(role), iteration, task);
                        all.push(number);
                        of_role[usize::from(role)].push(sequence);
                    }
                }
            }
            let count = all.len() as u64;
            assert_eq!(all, (1..=count).collect::<Vec<_>>());
            for (role, sequence) in (0..).map(RoleId).zip(&of_role) {
                let count = sequence.len() as u32;
                assert_eq!(*sequence, (0..count).collect::<Vec<_>>());
                assert_eq!(numbers.of_role_in(role, 0, graph.iterations), count);
            }
            assert_eq!(numbers.all_in(0, graph.iterations), count);
            assert_eq!(numbers.issued_in(&class, 0, graph.iterations), count);
        }
    }
}
