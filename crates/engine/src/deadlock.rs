//! The deadlock report: what each rank waits for when no event is left and some ranks have not finished.

use crate::Engine;
use crate::quotient::RankIndex;
use crate::state::{At, ChannelKey, Issue, PostedReceive};
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic};
use syncline_net_api::{Halt, NetworkModel};
use syncline_units::{RankId, rank_list};
use syncline_workload::graph::describe;
use syncline_workload::{RoleId, TaskKind};

/// Most distinct waits in a report, and most of each rank.
const LISTED: usize = 8;
const OF_A_RANK: usize = 4;
/// Most messages in a report that were sent and not received.
const LISTED_SENT: usize = 4;

impl<N: NetworkModel> Engine<'_, N> {
    pub(crate) fn deadlock(&self) -> Diagnostic {
        let stuck: Vec<RankIndex> =
            self.rank_indices().filter(|rank| self.ranks[rank.index()].tasks_left > 0).collect();
        let mut report = Diagnostic::error(
            Code::Deadlock,
            format!(
                "the job deadlocks at {}: {} of {} ranks wait forever",
                self.now,
                stuck.len() * self.quotient.members() as usize,
                self.job.workload.ranks
            ),
        )
        .help("make every rank reach the same sends, receives and collectives in an order without circular waits");
        if let Some(Halt { why, help }) = self.network.stuck() {
            report = report.note(format!("network: {why}")).help(help);
        }
        if let Some(file) =
            stuck.first().and_then(|&rank| self.job.workload.source.file(self.quotient.rank(rank).0))
        {
            report = report.at(file, 0);
        }
        // Lists the first wait of every rank before the second of any. Ranks that wait for the same thing share one
        // line, at the place of the first of them.
        let mut waits: Vec<(String, Vec<u32>)> = Vec::new();
        let mut known = BTreeMap::new();
        let mut of_ranks: Vec<_> = stuck.iter().map(|&index| self.waits_of(index).into_iter()).collect();
        for _ in 0..OF_A_RANK {
            for (&index, of_rank) in stuck.iter().zip(&mut of_ranks) {
                let Some(what) = of_rank.next() else { continue };
                let rank = self.quotient.rank(index);
                let index = *known.entry(what.clone()).or_insert_with(|| {
                    waits.push((what, Vec::new()));
                    waits.len() - 1
                });
                waits[index].1.push(rank.0);
            }
        }
        for (what, ranks) in waits.iter().take(LISTED) {
            let file = self.job.workload.source.file(ranks[0]);
            let file = file.map_or_else(String::new, |file| format!(" [{file}]"));
            report = report.note(format!("{}: {what}{file}", rank_list(ranks)));
        }
        if waits.len() > LISTED {
            report = report.note(format!("and {} more waits", waits.len() - LISTED));
        }
        let sent = self.undelivered(&stuck);
        for line in sent.iter().take(LISTED_SENT) {
            report = report.note(line.clone());
        }
        if sent.len() > LISTED_SENT {
            report = report
                .note(format!("and {} more messages that have not been received", sent.len() - LISTED_SENT));
        }
        report
    }

    /// Messages between two ranks that never arrive, or have arrived and that no receive has taken yet.
    fn undelivered(&self, stuck: &[RankIndex]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for message in self.point_to_point.alive() {
            let (rank, name) = (self.quotient.rank(message.from), self.name(message.from, message.at));
            lines.push(format!(
                "{rank}: the message of {name} does not reach {} (tag {})",
                message.to, message.tag
            ));
        }
        lines.sort_unstable();
        for &index in stuck {
            let to = self.quotient.rank(index);
            for (&ChannelKey { sender, tag }, channel) in &self.ranks[index.index()].channels {
                let (what, them) = match channel.arrived.len() {
                    0 => continue,
                    1 => ("a message".to_owned(), "it"),
                    count => (format!("{count} messages"), "them"),
                };
                let (rank, senders) = (self.quotient.rank(sender), self.senders(sender, to, tag));
                lines.push(format!(
                    "{rank}: {senders} has sent {what} to {to} (tag {tag}), which has not received {them} yet"
                ));
            }
        }
        lines
    }

    /// Names the task of `from` that sends to `to` with `tag`, and counts other such tasks.
    fn senders(&self, from: RankIndex, to: RankId, tag: u32) -> String {
        let rank = self.quotient.rank(from).0;
        let mut sends = self.graph(from).tasks.iter().zip(0..).filter(|(task, _)| {
            matches!(task.kind, TaskKind::Send { to: peer, tag: of, .. } if of == tag && peer.of_checked(rank) == to)
        });
        let first = sends.next().map_or_else(|| "no task".to_owned(), |(task, index)| describe(task, index));
        match sends.count() {
            0 => first,
            1 => format!("{first} or one other"),
            others => format!("{first} or one of {others} others"),
        }
    }

    fn name(&self, rank: RankIndex, at: At) -> String {
        let name = describe(self.task(rank, at.task), at.task);
        let graph = self.graph(rank);
        let (step, micro_batch) = (at.iteration / graph.micro_batches, at.iteration % graph.micro_batches);
        let name = match graph.micro_batches {
            1 => name,
            _ => format!("{name} of micro-batch {}", micro_batch + 1),
        };
        match graph.iterations / graph.micro_batches {
            1 => name,
            _ => format!("{name} of iteration {}", step + 1),
        }
    }

    /// Describes what `rank` waits for, without naming `rank`, so that equal waits give equal text. Alternates
    /// collectives and receives, so that many of one kind do not hide the other.
    fn waits_of(&self, rank: RankIndex) -> Vec<String> {
        let (collectives, receives) = (self.collectives_of(rank), self.receives_of(rank));
        let longer = collectives.len().max(receives.len());
        let mut lines: Vec<String> =
            (0..longer).flat_map(|at| [collectives.get(at), receives.get(at)]).flatten().cloned().collect();
        // A rank may wait only for its own message to leave; that message is listed as sent.
        if lines.is_empty() && !self.point_to_point.alive().any(|message| message.from == rank) {
            lines.push(format!("{} tasks wait for each other", self.ranks[rank.index()].tasks_left));
        }
        lines.truncate(OF_A_RANK);
        lines
    }

    fn receives_of(&self, rank: RankIndex) -> Vec<String> {
        let state = &self.ranks[rank.index()];
        let mut lines = Vec::new();
        for (&ChannelKey { sender, tag }, channel) in &state.channels {
            if channel.posted.is_empty() {
                continue;
            }
            let senders = self.senders(sender, self.quotient.rank(rank), tag);
            let from = self.quotient.rank(sender);
            for &PostedReceive { at, .. } in &channel.posted {
                let name = self.name(rank, at);
                lines.push(format!(
                    "{name} waits for a message from {from} (tag {tag}), to be sent by {senders}"
                ));
            }
        }
        lines
    }

    fn collectives_of(&self, rank: RankIndex) -> Vec<String> {
        let state = &self.ranks[rank.index()];
        let mut lines = Vec::new();
        let roles = (0..).map(RoleId).zip(&self.job.workload.roles);
        for (((id, role), membership), windows) in roles.zip(&state.memberships).zip(&self.windows) {
            let Some(membership) = membership else { continue };
            let instances = windows[membership.group as usize].instances.iter();
            for instance in instances.filter_map(|life| life.under_way()) {
                let sets = &self.instances[instance].sets;
                let set = sets[membership.slot as usize];
                let Some(Issue { at, .. }) = set.under_way().and_then(|set| self.sets[set].issued) else {
                    continue;
                };
                let absent = sets.iter().enumerate().filter(|&(_, &set)| !self.has_issued(set));
                let position = |slot: usize| self.quotient.position(id, slot as u32);
                let mut absent: Vec<u32> =
                    absent.map(|(slot, _)| role.rank(membership.group, position(slot))).collect();
                absent.sort_unstable();
                let (name, group) = (self.name(rank, at), &role.name);
                lines.push(if absent.is_empty() {
                    format!("{name} in group `{group}` waits for messages that never arrive")
                } else {
                    format!("{name} waits for {} to join it in group `{group}`", rank_list(&absent))
                });
            }
        }
        lines
    }
}
