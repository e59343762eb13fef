//! Who waits for what, when no event is left and some ranks have not finished.

use crate::state::{DONE, NONE};
use crate::{Engine, Network};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_workload::graph::describe;

/// Most ranks that are listed.
const LISTED: usize = 8;

impl<N: Network> Engine<'_, N> {
    pub(crate) fn deadlock(&self) -> Diagnostic {
        let stuck: Vec<u32> =
            (0..self.ranks.len() as u32).filter(|&rank| self.ranks[rank as usize].tasks_left > 0).collect();
        let mut report = Diagnostic::error(
            Code::Deadlock,
            format!("the job deadlocks at {}: {} of {} ranks wait for ever", self.now, stuck.len(), self.ranks.len()),
        )
        .help("make every rank reach the same sends, receives and collectives in an order that does not wait in a circle");
        for &rank in stuck.iter().take(LISTED) {
            for line in self.waits_of(rank) {
                report = report.note(line);
            }
        }
        if stuck.len() > LISTED {
            report = report.note(format!("and {} more ranks", stuck.len() - LISTED));
        }
        report
    }

    fn waits_of(&self, rank: u32) -> Vec<String> {
        let state = &self.ranks[rank as usize];
        let mut lines = Vec::new();
        for (&(from, tag), channel) in &state.channels {
            for at in &channel.posted {
                let name = describe(self.task(rank, at.task), at.task);
                lines.push(format!("rank {rank}: {name} waits for a message from rank {from} (tag {tag})"));
            }
        }
        for (index, role) in state.roles.iter().enumerate() {
            for (offset, &set) in role.sets.iter().enumerate().filter(|&(_, &set)| set != NONE && set != DONE)
            {
                let Some((at, _)) = self.sets[set].issued else { continue };
                let sequence = role.base + offset as u32;
                let members = self.job.workload.roles[index].ranks(role.group);
                let absent: Vec<String> = members
                    .iter()
                    .filter(|&&member| !self.has_issued(member, index, sequence))
                    .take(LISTED)
                    .map(u32::to_string)
                    .collect();
                let name = describe(self.task(rank, at.task), at.task);
                let group = &self.job.workload.roles[index].name;
                lines.push(if absent.is_empty() {
                    format!("rank {rank}: {name} in group `{group}` waits for messages that do not come")
                } else {
                    format!(
                        "rank {rank}: {name} waits for rank {} to join it in group `{group}`",
                        absent.join(", ")
                    )
                });
            }
        }
        if lines.is_empty() {
            lines.push(format!("rank {rank}: {} tasks wait for each other", state.tasks_left));
        }
        lines.truncate(4);
        lines
    }

    fn has_issued(&self, rank: u32, role: usize, sequence: u32) -> bool {
        let role = &self.ranks[rank as usize].roles[role];
        if sequence < role.base {
            return true;
        }
        match role.sets.get((sequence - role.base) as usize) {
            Some(&DONE) => true,
            Some(&NONE) | None => false,
            Some(&set) => self.sets[set].issued.is_some(),
        }
    }
}
