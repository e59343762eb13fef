//! Prefers algorithms with a common symmetry, so that one rank can stand for many.
//!
//! One rank represents all ranks of an axis if every plan along the axis looks the same from each of them after the
//! same turn ([`crate::symmetry`]). A turn is cyclic, as in a ring, or an exclusive or, as in halving-doubling. So
//! algorithms along an axis are chosen among those with the same turn, as long as the job's collectives that use the
//! axis take at most 2 % longer ([`SLACK`]) than with the quickest algorithm for each.

use super::{Collective, Planner};
use crate::rank_axis::RankAxis;
use std::collections::BTreeMap;
use syncline_plan::Grid;
use syncline_plan::choice::{Candidate, SLACK};
use syncline_units::{Bytes, CollectiveKind, Turn};
use syncline_workload::{Axis, RoleId, TaskKind, Workload};

/// The turn of each axis on which one was agreed.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<RankAxis, Turn>);

impl Turns {
    /// The candidates for a phase along `axis`: those with the axis's turn, or all if it has none or no candidate has
    /// it.
    pub(super) fn candidates(&self, axis: Axis, kind: CollectiveKind) -> Vec<Candidate> {
        let Some(&settled) = self.0.get(&axis.into()) else { return Candidate::ALL.to_vec() };
        let has_turn = |candidate: &Candidate| {
            let algorithm = candidate.algorithm();
            algorithm.offers(kind, axis.size).is_ok() && algorithm.turn(kind, axis.size) == Some(settled)
        };
        let those: Vec<Candidate> = Candidate::ALL.into_iter().filter(has_turn).collect();
        if those.is_empty() { Candidate::ALL.to_vec() } else { those }
    }
}

/// A set of equal collectives of a job.
struct Demand<'a> {
    of: Collective<'a>,
    grid: Grid,
    /// Number of collectives, counted at every rank.
    times: u128,
    /// Time of one collective with the quickest algorithms, in picoseconds.
    quickest: u128,
}

impl Planner<'_> {
    /// Finds, for each axis, a turn whose algorithms take little longer than the quickest ones.
    pub(super) fn settle_turns(&mut self, workload: &Workload) {
        let mut demands = self.demands(workload);
        for demand in &mut demands {
            demand.quickest = self.takes(demand);
        }
        let axes =
            demands.iter().filter(|demand| demand.of.role.is_grid()).flat_map(|demand| &demand.of.role.axes);
        let mut axes: Vec<RankAxis> = axes.filter(|axis| axis.size > 2).map(|&axis| axis.into()).collect();
        axes.sort_unstable();
        axes.dedup();
        for along in axes {
            let uses =
                |demand: &&Demand<'_>| demand.of.role.axes.iter().any(|&axis| RankAxis::from(axis) == along);
            let sum = |of: &mut dyn FnMut(&Demand<'_>) -> u128| {
                let all = demands.iter().filter(uses).map(|demand| demand.times.saturating_mul(of(demand)));
                all.fold(0, u128::saturating_add)
            };
            let quickest = sum(&mut |demand| demand.quickest);
            let most = quickest.saturating_add(quickest / u128::from(SLACK));
            let fits = [Turn::Cyclic, Turn::Xor].into_iter().find(|&turn| {
                self.turns.0.insert(along, turn);
                sum(&mut |demand| self.takes(demand)) <= most
            });
            if fits.is_none() {
                self.turns.0.remove(&along);
            }
        }
    }

    /// Least time of a collective with the current candidates, in picoseconds; 0 if it cannot be planned, which is
    /// reported when it is planned.
    fn takes(&mut self, demand: &Demand<'_>) -> u128 {
        let Demand { of, grid, .. } = demand;
        let Ok(compositions) = self.named.compositions(of.role, of.kind, grid) else { return 0 };
        let times =
            compositions.into_iter().map(|composition| self.composed(of, composition, grid).choice.time);
        times.min().map_or(0, |time| u128::from(time.0))
    }

    /// The collectives of a job, grouped by equality.
    fn demands<'w>(&self, workload: &'w Workload) -> Vec<Demand<'w>> {
        let mut times: BTreeMap<(RoleId, CollectiveKind, Bytes), u128> = BTreeMap::new();
        for (class, graph) in (0..).zip(&workload.classes) {
            let ranks = workload.ranks_of(class);
            for task in &graph.tasks {
                if let TaskKind::Collective { role, kind, bytes, .. } = task.kind {
                    *times.entry((role, kind, bytes)).or_default() += u128::from(ranks);
                }
            }
        }
        let demand = |((id, kind, bytes), times): ((RoleId, _, _), _)| {
            let role = &workload.roles[id.index()];
            let sizes: Vec<u32> = role.axes.iter().map(|axis| axis.size).collect();
            let chunks = self.chunk_count(role, kind, bytes);
            let of = Collective { role, id, kind, bytes, chunks, phase: None };
            Some(Demand { of, grid: Grid::new(&sizes)?, times, quickest: 0 })
        };
        times
            .into_iter()
            .filter_map(demand)
            .filter(|demand| !self.own.contains_key(&demand.of.kind) && !self.single.names(&demand.of))
            .collect()
    }
}
