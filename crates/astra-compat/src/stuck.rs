//! Reports which ranks wait for what when no events are left. ASTRA-sim 2 exits 0 in this case; the ranks are
//! just missing from its output.

use crate::network::channel::{Awaits, Channel};
use crate::system::tags;
use crate::world::World;
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic};

/// Most ranks that are described.
const MAX_RANKS: usize = 12;
/// Most waits of a rank that are described.
const MAX_WAITS: usize = 3;

impl World<'_> {
    /// Returns the report on ranks that wait forever.
    pub(crate) fn stuck_report(&self) -> Diagnostic {
        let stuck: Vec<u32> =
            (0..self.ranks.len() as u32).filter(|&rank| !self.ranks[rank as usize].work.done).collect();
        let mut waits: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let mut key = None;
        for (channel, awaits) in self.channels.all_waiting() {
            let (node, text) = match awaits {
                Awaits::Nobody => continue,
                Awaits::Node(node) => (node, self.describe(&channel)),
                Awaits::Stream(number) => {
                    let stream = &self.streams[number];
                    let dataset = &self.datasets[stream.dataset];
                    let phases = dataset.plan.as_ref().map_or(0, |plan| plan.phases.len());
                    (
                        dataset.node,
                        format!("phase {} of {phases}, {}", stream.next_phase, self.describe(&channel)),
                    )
                }
                Awaits::Custom { stream: number, node } => {
                    let dataset = &self.datasets[self.streams[number].dataset];
                    let of = self.custom_node(number, node);
                    (dataset.node, format!("{of}, {}", self.describe(&channel)))
                }
                Awaits::Rendezvous(number) => {
                    let send = self.deferred_send(number);
                    let node = self.ranks[send.src as usize].work.busy[2].unwrap_or(0);
                    (node, format!("{}, {}", self.describe(&channel), tags::describe(send.tag)))
                }
            };
            let rank = channel.dst;
            let of = waits.entry(rank).or_default();
            if of.len() < MAX_WAITS {
                of.push(format!("{} waits for {text}", self.node(rank, node)));
            }
            key.get_or_insert_with(|| (rank, self.node(rank, node)));
        }
        for &rank in &stuck {
            if let Some(node) = self.ranks[rank as usize].work.idle_node() {
                let note = format!(
                    "{} could start, but the rank only looks for nodes when another one completes",
                    self.node(rank, node)
                );
                key.get_or_insert_with(|| (rank, self.node(rank, node)));
                waits.entry(rank).or_default().push(note);
            }
        }
        let (first, key) = key.unwrap_or_else(|| {
            let rank = stuck.first().copied().unwrap_or(0);
            (rank, format!("rank {rank}"))
        });
        let mut problem = Diagnostic::error(
            Code::AstraStuck,
            format!("{} of {} ranks never finish: they wait for each other", stuck.len(), self.ranks.len()),
        )
        .at(self.job.traces.file(first), 0)
        .key(key)
        .found(format!("nothing is left to happen after {} ns", self.now));
        for &rank in stuck.iter().take(MAX_RANKS) {
            let lines =
                waits.remove(&rank).unwrap_or_else(|| vec![format!("rank {rank} {}", self.doing(rank))]);
            problem.notes.extend(lines);
        }
        if stuck.len() > MAX_RANKS {
            problem.notes.push(format!("{} more ranks wait", stuck.len() - MAX_RANKS));
        }
        problem.help(
            "ranks must issue their collectives and messages in compatible orders: each rank numbers its streams of \
             collectives, including those of communicator groups, and only equal numbers match",
        )
    }

    /// Describes a message that does not arrive, and what its sender does instead.
    fn describe(&self, channel: &Channel) -> String {
        format!(
            "{} bytes from rank {} ({}), which {}",
            channel.bytes,
            channel.src,
            tags::describe(channel.tag),
            self.doing(channel.src)
        )
    }

    /// Describes what a rank does.
    fn doing(&self, rank: u32) -> String {
        let work = &self.ranks[rank as usize].work;
        if work.done {
            return "is done".to_owned();
        }
        match work.busy.iter().rev().flatten().next() {
            Some(&node) => {
                let stream =
                    self.streams.places().iter().find(|stream| stream.rank == rank && stream.queue.is_some());
                let stream = stream.map_or_else(String::new, |stream| format!(", stream {}", stream.number));
                let graph = self.job.traces.graph(rank);
                format!("is in node {} `{}`{stream}", graph.id(node as usize), graph.name(node as usize))
            }
            None => "waits as well".to_owned(),
        }
    }

    fn node(&self, rank: u32, node: u32) -> String {
        let graph = self.job.traces.graph(rank);
        format!("rank {rank} node {} `{}`", graph.id(node as usize), graph.name(node as usize))
    }
}
