//! Collective algorithms given as execution traces: sends, receives and computation of each position of the
//! group, in the order of their dependencies. Nodes that become free together are issued in ascending order
//! of id; ASTRA-sim uses the order of a C++ hash set, on which no trace can rely.
//! ASTRA-sim 2, `CustomAlgorithm.cc`, `Sys.cc:generate_collective`.

use super::tags;
use super::timers::Timer;
use crate::network::channel::{Awaits, Channel, Sent};
use crate::workload::recorded_time;
use crate::world::World;
use std::collections::BTreeSet;
use syncline_formats::chakra::{NodeKind, Work};

/// An algorithm running on one rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// Which of the job's algorithms.
    algorithm: u32,
    /// The position of this rank, which is also the number of its trace.
    position: u32,
    /// The group whose list maps positions to ranks; `None` for all ranks in order.
    group: Option<u32>,
    /// For each node, how many nodes it still waits for.
    waiting: Vec<u32>,
    /// Nodes whose dependencies are met but that were not issued yet.
    free: BTreeSet<u32>,
    /// Number of nodes that were issued but are not done.
    ongoing: u32,
}

impl World<'_> {
    /// Returns an algorithm on a rank before it starts.
    pub(crate) fn custom_run(&self, algorithm: u32, rank: u32, group: Option<u32>) -> Box<Run> {
        let position =
            group.map_or(rank, |group| self.tasks.groups[group as usize].position(rank).unwrap_or(0));
        let waiting = self.job.custom[algorithm as usize].traces.graph(position).dependencies().to_vec();
        let free = (0u32..).zip(&waiting).filter(|&(_, &waits)| waits == 0).map(|(node, _)| node).collect();
        Box::new(Run { algorithm, position, group, waiting, free, ongoing: 0 })
    }

    /// Issues every free node of a stream's algorithm.
    pub(crate) fn issue_custom(&mut self, stream: u32) {
        let Some(run) = self.streams[stream].custom.as_deref_mut() else { return };
        let free = std::mem::take(&mut run.free);
        run.ongoing += free.len() as u32;
        for node in free {
            self.issue_node_of(stream, node);
        }
    }

    fn issue_node_of(&mut self, stream: u32, node: u32) {
        let rank = self.streams[stream].rank;
        let Some(run) = self.streams[stream].custom.as_deref() else { return };
        let op = self.job.custom[run.algorithm as usize].traces.graph(run.position).ops()[node as usize];
        let real = |position: u32| match run.group {
            None => position,
            Some(group) => self.tasks.groups[group as usize].members[position as usize],
        };
        match op.work {
            Work::PointToPoint(message) => {
                let (tag, bytes) = (tags::native(message.tag.unwrap_or(0)), message.bytes.unwrap_or(0));
                if op.kind == NodeKind::CommSend {
                    let dst = real(message.dst.unwrap_or(0));
                    self.send(Channel { tag, src: rank, dst, bytes }, Sent::Custom { stream, node });
                } else {
                    let src = real(message.src.unwrap_or(0));
                    self.receive(Channel { tag, src, dst: rank, bytes }, Awaits::Custom { stream, node });
                }
            }
            _ => self.set_timer(rank, recorded_time(&op), Timer::Custom { stream, node }),
        }
    }

    /// Called when a node of a stream's algorithm is done; the last one completes the phase.
    pub(crate) fn custom_done(&mut self, stream: u32, node: u32) {
        let Some(run) = self.streams[stream].custom.as_deref_mut() else { return };
        run.ongoing -= 1;
        let graph = self.job.custom[run.algorithm as usize].traces.graph(run.position);
        for &next in graph.successors(node as usize) {
            run.waiting[next as usize] -= 1;
            if run.waiting[next as usize] == 0 {
                run.free.insert(next);
            }
        }
        self.issue_custom(stream);
        if self.streams[stream].custom.as_deref().is_some_and(|run| run.ongoing == 0) {
            self.leave_phase(stream);
        }
    }

    /// Returns the name of a node of a stream's algorithm, for reports.
    pub(crate) fn custom_node(&self, stream: u32, node: u32) -> String {
        let Some(run) = self.streams[stream].custom.as_deref() else { return String::new() };
        let traces = &self.job.custom[run.algorithm as usize].traces;
        let graph = traces.graph(run.position);
        format!(
            "node {} `{}` of {}",
            graph.id(node as usize),
            graph.name(node as usize),
            traces.file(run.position)
        )
    }
}
