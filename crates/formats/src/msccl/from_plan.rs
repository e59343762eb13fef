//! Converts a plan to a program.
//!
//! A stream with at most one peer in each direction becomes a [thread block](super::stream); a stream with several is
//! [spread](super::spread) over thread blocks.

use super::draft::{Part, Written, settle};
use super::layout::Layout;
use super::program::{Gpu, Program};
use super::{spread, stream};
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::Result;
use syncline_plan::custom::{MscclEntry, OpEntry, Protocol};
use syncline_plan::{Custom, PlanFile};

/// Converts a plan to a program, after proving the plan.
///
/// # Errors
/// `NotMsccl` if MSCCL cannot express it; errors of the plan itself.
pub fn program(plan: &PlanFile) -> Result<Program> {
    Custom::new(plan)?;
    let layout = Layout::new(plan)?;
    let mut gpus = Vec::with_capacity(plan.seats.len());
    for seat in 0..plan.seats.len() {
        gpus.push(gpu(plan, seat, &layout)?);
    }
    Ok(Program {
        name: plan.name.clone(),
        entry: plan.msccl.unwrap_or(MscclEntry {
            protocol: Protocol::default(),
            min_bytes: 0,
            max_bytes: 0,
            in_place: layout.in_place,
            out_of_place: !layout.in_place,
        }),
        kind: plan.kind,
        in_place: layout.in_place,
        chunks: layout.chunks,
        gpus,
    })
}

fn gpu(plan: &PlanFile, seat: usize, layout: &Layout) -> Result<Gpu> {
    let streams = &plan.seats[seat].streams;
    let mut marks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for op in streams.iter().flat_map(|stream| &stream.ops) {
        if let OpEntry::After { stream, ops } = *op {
            marks.entry(stream).or_default().insert(ops);
        }
    }
    let none = BTreeSet::new();
    let mut written: Vec<Written> = Vec::with_capacity(streams.len());
    for (index, stream) in (0..).zip(streams) {
        let part = Part {
            layout,
            seat: seat as u32,
            stream: index,
            channel: stream.channel.unwrap_or(index),
            marks: marks.get(&index).unwrap_or(&none),
        };
        let write = if has_one_peer(&stream.ops) { stream::write } else { spread::write };
        let drafts = write(&part, &stream.ops);
        written.push(drafts.map_err(|found| found.key(format!("seat {seat}, stream {index}")))?);
    }
    Ok(settle(written))
}

/// Whether one thread block suffices: one peer to send to, one to receive from.
fn has_one_peer(ops: &[OpEntry]) -> bool {
    let (mut to, mut from) = (None, None);
    ops.iter().all(|op| match *op {
        OpEntry::Send { to: peer, .. } => *to.get_or_insert(peer) == peer,
        OpEntry::Receive { from: peer, .. } => *from.get_or_insert(peer) == peer,
        _ => true,
    })
}
