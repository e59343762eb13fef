//! Proves compositions over grids: the plans of every phase are executed on the results of the phase before.

use super::{Run, check_size, diagnostics, granularity};
use crate::compose::{Composition, Grid};
use crate::program::{Algorithm, Buffer};
use crate::symbolic::{MAX_WORDS, Storage, Want};
use crate::walk::{Fault, Site, StreamOrder};
use std::sync::Arc;
use syncline_diagnostics::Diagnostics;
use syncline_units::{CollectiveKind, Extent, lcm};

/// Proves that a composition computes `kind` over a grid, with `algorithm(axis, kind of the phase)` on each axis.
/// `elements` is the length of the vector; `None` means one that all cuts divide exactly. (All-to-all is proved only
/// on such a vector.)
///
/// # Errors
/// As [`verify`](super::verify()).
pub fn verify_composition(
    composition: Composition,
    kind: CollectiveKind,
    grid: &Grid,
    algorithm: impl Fn(usize, CollectiveKind) -> Arc<dyn Algorithm>,
    elements: Option<u64>,
    reverse: bool,
) -> Result<(), Diagnostics> {
    let phases = composition.phases(kind, grid);
    let positions = grid.positions();
    let mut exact = u64::from(positions);
    for phase in &phases {
        let algorithm = algorithm(phase.axis, phase.kind);
        crate::registry::check(&*algorithm, phase.kind, phase.size)?;
        exact = lcm(exact, u64::from(positions) * granularity(&*algorithm, phase.kind, phase.size)?);
    }
    let elements = elements.filter(|_| kind != CollectiveKind::AllToAll).unwrap_or(exact);
    check_size(u64::from(positions), positions, elements, MAX_WORDS)?;
    let whole = Extent::whole(elements);
    let owned = |position| grid.held(position, grid.sizes().len(), whole);
    let mut storage = Storage::new(positions, elements);
    for position in 0..positions {
        storage.add(false);
        let input = match kind {
            CollectiveKind::AllGather => owned(position),
            CollectiveKind::Broadcast if position > 0 => Extent::whole(0),
            _ => whole,
        };
        storage.fill(position as usize, position, input);
    }
    let share = elements / u64::from(positions);
    let target = |element: u32| (u64::from(element) / share.max(1)) as u32;
    for (number, phase) in phases.iter().enumerate() {
        let algorithm = algorithm(phase.axis, phase.kind);
        for first in (0..positions).filter(|&p| grid.coordinate(p, phase.axis) == 0) {
            let Some(extent) = phase.extent(grid, first, whole) else { continue };
            let mut members: Vec<usize> = grid.group(first, phase.axis).map(|p| p as usize).collect();
            if phase.kind == CollectiveKind::AllToAll {
                for &member in &members {
                    storage.turn_over(member, Buffer::Data, |e| grid.coordinate(target(e), phase.axis));
                }
            }
            for _ in phase.size..algorithm.seats(phase.size) {
                members.push(storage.seats.len());
                storage.add(true);
            }
            let run =
                Run { algorithm: &*algorithm, kind: phase.kind, ranks: phase.size, reverse, whole: extent };
            let note = |found: Diagnostics| {
                let place = format!("phase {number} ({} on axis {})", phase.kind.name(), phase.axis);
                Diagnostics(found.0.into_iter().map(|d| d.note(place.clone())).collect())
            };
            run.execute(&mut storage, &members, StreamOrder::First).map_err(|f| note(diagnostics(&f)))?;
            run.settle(&mut storage, &members[..phase.size as usize]).map_err(|f| note(diagnostics(&[f])))?;
            // Helpers of the next group start with empty storage.
            storage.seats.truncate(positions as usize);
        }
    }
    let faults: Vec<Fault> = (0..positions)
        .filter_map(|position| grid_fault(kind, grid, &storage, position, whole, owned(position)))
        .take(8)
        .collect();
    if faults.is_empty() { Ok(()) } else { Err(diagnostics(&faults)) }
}

/// The fault in the result of one position of a grid, if any.
fn grid_fault(
    kind: CollectiveKind,
    grid: &Grid,
    storage: &Storage,
    position: u32,
    whole: Extent,
    owned: Extent,
) -> Option<Fault> {
    let (seat, positions) = (position as usize, grid.positions());
    if kind == CollectiveKind::AllToAll {
        // The share of every position for this one. Their order is a matter of local copies.
        let share = whole.len() / u64::from(positions);
        let mut found = storage.single(seat, Buffer::Data);
        found.sort_by_key(|&(origin, from)| (from, origin));
        let wanted = (0..positions).flat_map(|from| {
            let start = u64::from(position) * share;
            (start..start + share).map(move |origin| (origin as u32, Some(from)))
        });
        return (!found.into_iter().eq(wanted)).then(|| Fault {
            site: None,
            sentence: format!(
                "rank {position} does not end with exactly the blocks that all ranks have for it"
            ),
        });
    }
    let extent = match kind {
        CollectiveKind::ReduceScatter => owned,
        CollectiveKind::Reduce if position > 0 => Extent::whole(0),
        _ => whole,
    };
    (extent.start..extent.end).find_map(|at| {
        let want = match kind {
            CollectiveKind::Broadcast => Want::Only(0),
            CollectiveKind::AllGather => {
                let owner = (0..positions).find(|&p| {
                    let owned = grid.held(p, grid.sizes().len(), whole);
                    owned.start <= at && at < owned.end
                });
                Want::Only(owner?)
            }
            _ => Want::All,
        };
        let expected = storage.expect(seat, Buffer::Data, at, at, want, positions);
        expected.err().map(|what| Fault { site: None, sentence: format!("rank {position} {what}") })
    })
}

impl Run<'_> {
    /// After a phase of a composition, its result becomes the data of the next phase.
    fn settle(self, storage: &mut Storage, ranks: &[usize]) -> Result<(), Fault> {
        let buffer = self.algorithm.result(self.kind);
        for (index, &member) in (0..).zip(ranks) {
            if self.kind == CollectiveKind::AllToAll {
                storage.turn_over(member, buffer, |_| 0);
            } else if buffer != Buffer::Data {
                let at = Site { seat: index, stream: 0, pc: 0 };
                let extent = self.seat(at).output(self.whole);
                storage
                    .read(member, buffer, extent)
                    .and_then(|values| storage.write(member, Buffer::Data, extent, &values, false))
                    .map_err(|what| Fault::at(at, what))?;
            }
        }
        Ok(())
    }
}
