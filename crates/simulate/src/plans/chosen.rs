//! The phases of a collective, and the algorithm of each: the one that is named, or the quickest of the library.
//!
//! Where neither a composition nor an algorithm is named for an all-reduce, its composition is the quickest, too.

use super::{Collective, Planner};
use std::sync::Arc;
use syncline_diagnostics::Result;
use syncline_plan::choice::{self, Choice, Cut, Pieces, Work, choose};
use syncline_plan::{Algorithm, Composition, Grid, Phase};
use syncline_units::{Bytes, Time};

/// A phase with its algorithm.
pub(super) struct Planned {
    pub(super) phase: Phase,
    pub(super) algorithm: Arc<dyn Algorithm>,
    /// Whether the scenario names no algorithm for it.
    pub(super) is_chosen: bool,
}

/// A composition with what runs its phases.
pub(super) struct Composed {
    phases: Vec<Phase>,
    named: Vec<Option<(String, Arc<dyn Algorithm>)>>,
    pub(super) choice: Choice,
}

/// A later composition must be quicker by more than one part in so many.
const QUICKER: u64 = 50;

impl Planner<'_> {
    /// The phases of a collective, with their algorithms.
    ///
    /// # Errors
    /// An algorithm that is named has no phase in the composition that is named.
    pub(super) fn chosen(&mut self, of: &Collective<'_>, grid: &Grid) -> Result<Vec<Planned>> {
        let compositions = self.named.compositions(of.role, of.kind, grid)?;
        let mut best: Option<Composed> = None;
        for composition in compositions {
            let found = self.composed(of, composition, grid);
            let much = |time: Time| time.0 - time.0 / QUICKER;
            if best.as_ref().is_none_or(|best| found.choice.time.0 < much(best.choice.time)) {
                best = Some(found);
            }
        }
        let Composed { phases, named, choice } = best.expect("there is a composition");
        let mut planned = Vec::with_capacity(phases.len());
        for ((phase, named), candidate) in phases.into_iter().zip(named).zip(choice.candidates) {
            planned.push(match (named, candidate) {
                (None, Some(candidate)) => {
                    Planned { phase, algorithm: candidate.algorithm(), is_chosen: true }
                }
                (Some((key, algorithm)), _) => {
                    self.use_name(of, phase, key, &*algorithm);
                    Planned { phase, algorithm, is_chosen: false }
                }
                (None, None) => unreachable!("what is not named is chosen"),
            });
        }
        Ok(planned)
    }

    /// Books that a name is used. Where parts of an all-reduce run the same by names of their own, the name of the whole is
    /// used, too.
    fn use_name(&mut self, of: &Collective<'_>, phase: Phase, key: String, algorithm: &dyn Algorithm) {
        self.used.insert(key);
        let whole = self.named.of(of.role.axes[phase.axis], phase.size, of.kind, of.kind);
        self.used.extend(whole.filter(|whole| whole.1.name() == algorithm.name()).map(|whole| whole.0));
    }

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
        let ground = self.ground;
        let networks = self
            .along
            .entry(of.id)
            .or_insert_with(|| (0..axes.len()).map(|axis| ground.along(of.role, axis)).collect());
        let lanes = |phase: &Phase| axes[phase.axis].dim.map_or(self.lanes.len() - 1, usize::from);
        let work = |phase: &Phase| {
            let lower = &grid.sizes()[..phase.cut];
            let bytes = Bytes(lower.iter().fold(of.bytes.0, |held, &size| held / u64::from(size)));
            let lanes = self.lanes[lanes(phase)].queues;
            // Zero is no limit.
            let limits = [ground.spec.active_chunks, ground.spec.outstanding.div_ceil(lanes)];
            let active = limits.into_iter().filter(|&limit| limit > 0).min().unwrap_or(0);
            let pieces = Pieces { chunks: of.chunks, active, lanes };
            let cut = Cut::Into(pieces);
            Work { kind: phase.kind, ranks: phase.size, bytes, cut, network: &networks[phase.axis] }
        };
        let from: Vec<_> =
            phases.iter().map(|phase| self.turns.candidates(axes[phase.axis], phase.kind)).collect();
        let wanted: Vec<choice::Phase<'_>> = phases
            .iter()
            .zip(&named)
            .zip(&from)
            .map(|((phase, named), from)| choice::Phase {
                work: work(phase),
                line: phase.axis,
                from,
                named: named.as_ref().map(|named| &*named.1),
            })
            .collect();
        let choice = choose(&wanted);
        Composed { phases, named, choice }
    }
}
