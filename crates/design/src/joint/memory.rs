//! The memory of servers: what a strategy needs, and strategies that fit.

use super::moves::{place, starts};
use super::step::Model;
use syncline_diagnostics::Result;
use syncline_workload::operators::{Placed, Strategy};

/// The memory of servers under a strategy that changes.
pub(super) struct Memory<'a> {
    model: &'a Model,
    limit: Option<u64>,
    used: Vec<u64>,
}

impl<'a> Memory<'a> {
    /// The memory under `strategy`.
    pub(super) fn new(model: &'a Model, strategy: &Strategy, servers: u32) -> Self {
        let limit = model.graph.server.memory.map(|limit| limit.0);
        let used = strategy.memory(&model.graph, servers).into_iter().map(|bytes| bytes.0).collect();
        Self { model, limit, used }
    }

    fn part(&self, operator: usize, placed: &Placed) -> u64 {
        self.model.graph.operators[operator].choices[placed.choice as usize].memory.0
    }

    /// Whether the strategy fits with these changes.
    pub(super) fn fits(&self, strategy: &Strategy, changes: &[(usize, Placed)]) -> bool {
        let Some(limit) = self.limit else { return true };
        let mut used = self.used.clone();
        for (operator, _) in changes {
            let old = &strategy.placed[*operator];
            old.servers.iter().for_each(|&server| used[server as usize] -= self.part(*operator, old));
        }
        changes.iter().all(|(operator, placed)| {
            placed.servers.iter().all(|&server| {
                used[server as usize] = used[server as usize].saturating_add(self.part(*operator, placed));
                used[server as usize] <= limit
            })
        })
    }

    /// Replaces what operators need.
    pub(super) fn change<'b>(
        &mut self,
        old: impl Iterator<Item = (usize, &'b Placed)>,
        new: &[(usize, Placed)],
    ) {
        if self.limit.is_none() {
            return;
        }
        for (operator, placed) in old {
            let part = self.part(operator, placed);
            placed.servers.iter().for_each(|&server| self.used[server as usize] -= part);
        }
        for (operator, placed) in new {
            let part = self.part(*operator, placed);
            placed.servers.iter().for_each(|&server| self.used[server as usize] += part);
        }
    }
}

/// Makes a strategy fit into the memory of servers: operator by operator, those that need most first, takes the division
/// and servers that leave the fullest server emptiest, until it fits.
///
/// # Errors
/// `DoesNotFit` if it does not fit even so.
pub(super) fn fitting(model: &Model, mut strategy: Strategy, servers: u32) -> Result<Strategy> {
    let graph = &model.graph;
    if strategy.check(graph, servers).is_ok() {
        return Ok(strategy);
    }
    let whole = |at: &usize| {
        let operator = &graph.operators[*at];
        operator.choices.iter().map(|choice| choice.memory.0.saturating_mul(u64::from(choice.parts()))).max()
    };
    let mut order: Vec<usize> = (0..graph.operators.len()).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(whole(at)), *at));
    let mut used = vec![0u64; servers as usize];
    for operator in order {
        let choices = &graph.operators[operator].choices;
        let placements = choices.iter().enumerate().flat_map(|(number, choice)| {
            (0..starts(choice, servers)).map(move |start| (number, place(choice, start, servers)))
        });
        let best = placements.min_by_key(|(number, on)| {
            let most = on
                .iter()
                .map(|&server| used[server as usize].saturating_add(choices[*number].memory.0))
                .max();
            (most, std::cmp::Reverse(choices[*number].samples))
        });
        let Some((choice, on)) = best else { continue };
        on.iter().for_each(|&server| used[server as usize] += choices[choice].memory.0);
        strategy.placed[operator] = Placed { choice: choice as u32, servers: on };
    }
    strategy.check(graph, servers)?;
    Ok(strategy)
}
