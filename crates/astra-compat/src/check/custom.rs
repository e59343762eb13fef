//! Checks whether each position of a group can follow its trace of a custom algorithm.

use super::{Problems, Tasks};
use crate::job::Job;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_formats::chakra::NodeKind;

/// Checks an algorithm for a group, or for all ranks.
pub(super) fn check(job: &Job, tasks: &Tasks, algorithm: u32, group: Option<u32>, problems: &mut Problems) {
    let traces = &job.custom[algorithm as usize].traces;
    let positions =
        group.map_or_else(|| job.network.npus(), |group| tasks.groups[group as usize].members.len() as u32);
    if traces.ranks() < positions {
        problems.add(
            Diagnostic::error(
                Code::RankMismatch,
                "a custom algorithm has no trace for some positions of its group",
            )
            .at(traces.file(traces.ranks()), 0)
            .found(format!("{} traces, {positions} ranks", traces.ranks()))
            .help("write one trace for each rank of the group, numbered from 0"),
        );
        return;
    }
    for position in 0..positions {
        let graph = traces.graph(position);
        for (node, op) in graph.ops().iter().enumerate() {
            let problem = |message: String| {
                Diagnostic::error(Code::ChakraNode, message).at(traces.file(position), 0).key(format!(
                    "node {} `{}`",
                    graph.id(node),
                    graph.name(node)
                ))
            };
            let peer =
                match op.work {
                    syncline_formats::chakra::Work::PointToPoint(message) => {
                        if op.kind == NodeKind::CommSend { message.dst } else { message.src }
                    }
                    _ => None,
                };
            match (op.kind, peer) {
                (NodeKind::CommSend | NodeKind::CommRecv, Some(peer))
                    if peer == position || peer >= positions =>
                {
                    problems.add(
                        problem("a custom algorithm names an invalid peer".to_owned())
                            .found(format!("position {peer}"))
                            .allowed(format!("0 to {}, without {position}", positions.saturating_sub(1))),
                    );
                }
                (NodeKind::CommSend | NodeKind::CommRecv | NodeKind::Comp, _) => {}
                (kind, _) => problems.add(
                    problem(format!("a custom algorithm has a node of type {kind}"))
                        .allowed("COMM_SEND_NODE, COMM_RECV_NODE, COMP_NODE")
                        .note("ASTRA-sim accepts it but never finishes it"),
                ),
            }
        }
    }
}
