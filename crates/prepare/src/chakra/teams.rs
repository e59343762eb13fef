//! Process groups: which ranks each name in the nodes means, and roles for the groups in use.

use super::{Boxed, Team, TraceJob};
use std::collections::{BTreeMap, BTreeSet};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_formats::astra2::Groups;
use syncline_workload::{Role, RoleId};

/// The groups that a name can mean.
struct Known<'a> {
    /// The groups of the file.
    file: &'a Groups,
    /// The ranks of each group by number. Groups of the file keep their numbers; groups that traces define are numbered
    /// from [`OF_TRACES`] on.
    members: BTreeMap<u32, Vec<u32>>,
    /// Numbers of the groups that traces define, by name and ranks.
    numbers: BTreeMap<(String, Vec<u32>), u32>,
}

/// The number of the first group that a trace defines.
const OF_TRACES: u32 = 1 << 31;

impl Known<'_> {
    /// The number of a group that a trace defines.
    fn of_trace(&mut self, name: &str, ranks: &[u32]) -> u32 {
        let next = OF_TRACES + self.numbers.len() as u32;
        let number = *self.numbers.entry((name.to_owned(), ranks.to_vec())).or_insert(next);
        self.members.entry(number).or_insert_with(|| ranks.to_vec());
        number
    }
    /// The name of a group.
    fn name(&self, id: u32) -> String {
        let of_trace = self.numbers.iter().find(|&(_, &number)| number == id);
        of_trace.map_or_else(|| id.to_string(), |((name, _), _)| name.clone())
    }
}

impl TraceJob<'_> {
    /// Finds the group that every `pg_name` of every graph means, and adds the roles of the groups in use.
    pub(super) fn teams(&mut self, groups: &Groups, problems: &mut Diagnostics) -> Vec<Vec<Team>> {
        let mut known = Known { file: groups, members: groups.members.clone(), numbers: BTreeMap::new() };
        let mut used = BTreeSet::new();
        let mut named: Vec<Vec<Option<u32>>> = Vec::new();
        for (index, graph) in self.traces.graphs().iter().enumerate() {
            let ids = graph.groups().iter().map(|name| match self.group(index, name, &mut known) {
                Ok(id) => {
                    used.extend(id);
                    id
                }
                Err(problem) => {
                    problems.push(*problem);
                    None
                }
            });
            named.push(ids.collect());
        }
        // Disjoint groups of equal size share a role.
        let mut shared: Vec<(Vec<u32>, BTreeSet<u32>)> = Vec::new();
        let mut of: BTreeMap<u32, usize> = BTreeMap::new();
        for &id in &used {
            let members = &known.members[&id];
            let fits = |(ids, taken): &(Vec<u32>, BTreeSet<u32>)| {
                known.members[&ids[0]].len() == members.len()
                    && members.iter().all(|rank| !taken.contains(rank))
            };
            let role = shared.iter().position(fits).unwrap_or_else(|| {
                shared.push((Vec::new(), BTreeSet::new()));
                shared.len() - 1
            });
            shared[role].0.push(id);
            shared[role].1.extend(members);
            of.insert(id, role);
        }
        for (ids, _) in &shared {
            let names: Vec<String> = ids.iter().take(4).map(|&id| known.name(id)).collect();
            let more = if ids.len() > 4 { ", ..." } else { "" };
            let name = format!("group {}{more}", names.join(", "));
            let lists: Vec<Vec<u32>> = ids.iter().map(|id| known.members[id].clone()).collect();
            let size = lists[0].len() as u32;
            let axis = syncline_workload::Axis { size, stride: 0, dim: None };
            match Role::lists(&name, lists, vec![axis], self.ranks) {
                Ok(role) => self.roles.push(role),
                Err(problem) => problems.push(problem.at(groups.source.file(), 0)),
            }
        }
        if shared.len() > usize::from(u16::MAX) / 2 {
            problems.push(
                Diagnostic::error(Code::BadGroup, "the groups overlap in too many ways")
                    .at(groups.source.file(), 0)
                    .found(format!("{} sets of disjoint groups", shared.len())),
            );
        }
        let team = |id: Option<u32>| match id {
            None => Team::Everyone,
            Some(id) if known.members[&id].len() < 2 => Team::Alone,
            Some(id) => {
                Team::Listed { role: RoleId(of[&id] as u16), members: known.members[&id].len() as u32 }
            }
        };
        named.into_iter().map(|ids| ids.into_iter().map(team).collect()).collect()
    }

    /// The number of the group called `name`; `None` for the whole machine. Groups that the trace itself defines take
    /// precedence over those of the file.
    fn group(&self, graph: usize, name: &str, known: &mut Known<'_>) -> Boxed<Option<u32>> {
        let first = self.sharers[graph][0];
        let bad = |message: String| {
            let error = Diagnostic::error(Code::BadGroup, message);
            Box::new(error.at(self.traces.file(first), 0).key(format!("rank {first}, pg_name")).found(name))
        };
        if name.is_empty() {
            return Ok(None);
        }
        let defined = self.traces.graphs()[graph].process_groups();
        let id = if let Some(defined) = defined.iter().find(|group| group.name == name) {
            if defined.ranks.is_empty() {
                return Ok(None);
            }
            known.of_trace(name, &defined.ranks)
        } else {
            let Ok(id) = name.parse::<u32>() else {
                return Err(bad(
                    "a process group's name must be a whole number, or one that the trace defines".to_owned(),
                ));
            };
            if id == 0 {
                return Ok(None);
            }
            id
        };
        let Some(members) = known.members.get(&id) else {
            let mut error = bad("no such process group".to_owned());
            let ids: Vec<String> = known.file.members.keys().take(20).map(u32::to_string).collect();
            error.allowed = Some(if ids.is_empty() { "0 (all ranks)".to_owned() } else { ids.join(", ") });
            if known.file.members.is_empty() {
                error.help = Some("name the file of communicator groups with `workload.groups`".to_owned());
            }
            return Err(error);
        };
        if let Some(rank) = members.iter().find(|&&rank| rank >= self.ranks) {
            let mut error = bad(format!("rank {rank} of process group {name} does not exist"));
            error.allowed = Some(format!("0 to {}", self.ranks.saturating_sub(1)));
            return Err(error);
        }
        let within: BTreeSet<u32> = members.iter().copied().collect();
        if let Some(rank) = self.sharers[graph].iter().find(|rank| !within.contains(rank)) {
            return Err(bad(format!("rank {rank} uses process group {name}, to which it does not belong")));
        }
        Ok(Some(id).filter(|_| members.len() < self.ranks as usize))
    }
}
