//! Checks that sends and receives match: their numbers must be equal for each tag, sender, receiver and size.

use super::{Problems, node_key};
use crate::job::Job;
use crate::system::tags;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::chakra::{NodeKind, Work};

/// A send or receive: sender, receiver, tag, bytes; whether it receives; its node.
type End = ((u32, u32, u32, u64), bool, u32);

/// Most near misses that are listed.
const MAX_NEAR: usize = 3;

/// Compares all sends with all receives.
pub(super) fn check(job: &Job, problems: &mut Problems) {
    let mut ends: Vec<End> = Vec::new();
    for rank in 0..job.network.npus() {
        for (node, op) in job.traces.graph(rank).ops().iter().enumerate() {
            if let Work::PointToPoint(message) = op.work {
                let channel = (
                    message.src.unwrap_or(rank),
                    message.dst.unwrap_or(rank),
                    tags::native(message.tag.unwrap_or(0)),
                    message.bytes.unwrap_or(0),
                );
                ends.push((channel, op.kind == NodeKind::CommRecv, node as u32));
            }
        }
    }
    ends.sort_unstable();
    // Unmatched sends or receives of each channel.
    let alone: Vec<End> = ends
        .chunk_by(|a, b| a.0 == b.0)
        .flat_map(|channel| {
            let sends = channel.partition_point(|end| !end.1);
            let (sends, receives) = channel.split_at(sends);
            let both = sends.len().min(receives.len());
            sends[both..].iter().chain(&receives[both..]).copied().collect::<Vec<_>>()
        })
        .collect();
    for &((src, dst, tag, bytes), receives, node) in &alone {
        let rank = if receives { dst } else { src };
        let message = if receives { "a receive has no send" } else { "a send has no receive" };
        let near = alone
            .iter()
            .filter(|end| (end.0.0, end.0.1) == (src, dst) && end.1 != receives)
            .take(MAX_NEAR)
            .map(|&((_, _, tag, bytes), _, node)| {
                let rank = if receives { src } else { dst };
                format!("{} has tag {tag} and {bytes} bytes", node_key(job, rank, node as usize))
            });
        let mut problem = Diagnostic::error(Code::Unmatched, message)
            .at(job.traces.file(rank), 0)
            .key(node_key(job, rank, node as usize))
            .found(format!("tag {tag}, rank {src} to rank {dst}, {bytes} bytes"))
            .help("sender, receiver, tag and size must be equal on both sides");
        problem.notes.extend(near);
        problems.add(problem);
    }
}
