//! The phases of a collective and the algorithm of each: the one that the scenario names, or the quickest of the
//! library.
//!
//! If the scenario names neither a composition nor an algorithm for an all-reduce, the quickest composition is chosen
//! too.

use super::{Collective, Planner};
use std::num::NonZeroU32;
use std::sync::Arc;
use syncline_diagnostics::Result;
use syncline_plan::choice::{self, Choice, Chunking, Pieces, SLACK, Work, choose};
use syncline_plan::{Algorithm, Composition, Grid, Phase};
use syncline_units::{Bytes, Time};

/// A phase with its algorithm.
pub(super) struct ChosenPhase {
    pub(super) phase: Phase,
    pub(super) algorithm: Arc<dyn Algorithm>,
    /// Whether the scenario names no algorithm for it.
    pub(super) is_chosen: bool,
}

/// A composition with the algorithms of its phases.
pub(super) struct Composed {
    phases: Vec<Phase>,
    /// The algorithm that the scenario names for each phase, with its key.
    named: Vec<Option<(String, Arc<dyn Algorithm>)>>,
    pub(super) choice: Choice,
}

impl Planner<'_> {
    /// The phases of a collective, with their algorithms.
    ///
    /// # Errors
    /// An algorithm that the scenario names has no phase in any composition that the scenario allows; the phases given
    /// for a single collective are not the phases of any composition.
    pub(super) fn choose_phases(&mut self, of: &Collective<'_>, grid: &Grid) -> Result<Vec<ChosenPhase>> {
        if let Some((key, phases)) = self.single.phases(of, grid)? {
            self.used.insert(key.to_owned());
            // A key that names the same algorithm as the entry counts as used too.
            for ChosenPhase { phase, algorithm, .. } in &phases {
                let named = self.named.of(of.role.axes[phase.axis], phase.size, of.kind, phase.kind);
                if let Some((key, named)) = named.filter(|(_, named)| named.name() == algorithm.name()) {
                    self.mark_used(of, *phase, key, &*named);
                }
            }
            return Ok(phases);
        }
        let compositions = self.named.compositions(of.role, of.kind, grid)?;
        let mut best: Option<Composed> = None;
        for composition in compositions {
            let found = self.composed(of, composition, grid);
            // Earlier compositions send fewer bytes, so a later one must be clearly quicker.
            let much = |time: Time| time.0 - time.0 / SLACK;
            if best.as_ref().is_none_or(|best| found.choice.time.0 < much(best.choice.time)) {
                best = Some(found);
            }
        }
        let Composed { phases, named, choice } = best.expect("there is a composition");
        let mut planned = Vec::with_capacity(phases.len());
        for ((phase, named), candidate) in phases.into_iter().zip(named).zip(choice.candidates) {
            planned.push(match (named, candidate) {
                (None, Some(candidate)) => {
                    ChosenPhase { phase, algorithm: candidate.algorithm(), is_chosen: true }
                }
                (Some((key, algorithm)), _) => {
                    self.mark_used(of, phase, key, &*algorithm);
                    ChosenPhase { phase, algorithm, is_chosen: false }
                }
                (None, None) => unreachable!("a phase without a named algorithm has a chosen one"),
            });
        }
        Ok(planned)
    }

    /// Marks the key that names an algorithm as used. If a part of an all-reduce has a key of its own that names the
    /// same algorithm as the key of the whole, both are used.
    fn mark_used(&mut self, of: &Collective<'_>, phase: Phase, key: String, algorithm: &dyn Algorithm) {
        self.used.insert(key);
        let whole = self.named.of(of.role.axes[phase.axis], phase.size, of.kind, of.kind);
        self.used.extend(whole.filter(|whole| whole.1.name() == algorithm.name()).map(|whole| whole.0));
    }

    /// A composition of a collective, with the quickest algorithms for the phases for which the scenario names none.
    pub(super) fn composed(
        &mut self,
        of: &Collective<'_>,
        composition: Composition,
        grid: &Grid,
    ) -> Composed {
        let phases = composition.phases(of.kind, grid);
        let axes = &of.role.axes;
        let name = |phase: &Phase| self.named.of(axes[phase.axis], phase.size, of.kind, phase.kind);
        let named: Vec<_> = phases.iter().map(name).collect();
        if named.iter().all(Option::is_some) {
            let choice = Choice { candidates: vec![None; phases.len()], time: Time::ZERO };
            return Composed { phases, named, choice };
        }
        let context = self.context;
        let others = *self.lanes.last().expect("the last lanes are for phases that run in no dimension");
        let networks = self
            .along
            .entry(of.id)
            .or_insert_with(|| (0..axes.len()).map(|axis| context.along(of.role, axis, others)).collect());
        let lanes = |phase: &Phase| axes[phase.axis].dim.map_or(self.lanes.len() - 1, usize::from);
        let work = |phase: &Phase| {
            let lower = &grid.sizes()[..phase.cut];
            let bytes = Bytes(lower.iter().fold(of.bytes.0, |held, &size| held / u64::from(size)));
            let lanes = self.lanes[lanes(phase)].queues_of(phase.kind);
            let of_dim = context.spec.outstanding.map(|limit| limit.get().div_ceil(lanes));
            let of_queue = context.spec.active_chunks.map(NonZeroU32::get);
            // For the estimate, zero means no limit.
            let active = of_queue.into_iter().chain(of_dim).min().unwrap_or(0);
            let pieces = Pieces { chunks: of.chunks, active, lanes };
            let chunking = Chunking::Fixed(pieces);
            Work { kind: phase.kind, ranks: phase.size, bytes, chunking, network: &networks[phase.axis] }
        };
        let candidates: Vec<_> =
            phases.iter().map(|phase| self.turns.candidates(axes[phase.axis], phase.kind)).collect();
        let wanted: Vec<choice::Phase<'_>> = phases
            .iter()
            .zip(&named)
            .zip(&candidates)
            .map(|((phase, named), candidates)| choice::Phase {
                work: work(phase),
                axis: phase.axis,
                candidates,
                named: named.as_ref().map(|named| &*named.1),
            })
            .collect();
        let choice = choose(&wanted);
        Composed { phases, named, choice }
    }
}
