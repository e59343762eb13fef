//! Joins several jobs that share a fabric into the one that the engine executes.
//!
//! The ranks, roles and layers of a job are numbered after those of the jobs before it. Nothing else is shared: each
//! group and each message belongs to one job.

use crate::{ClassRun, Peer, Role, RoleId, Source, TaskGraph, TaskKind, Workload};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_units::RankId;

/// Where the numbers of a job begin, and how many it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: String,
    /// Its first rank.
    pub first_rank: u32,
    /// Number of ranks.
    pub ranks: u32,
    /// Its first layer.
    pub first_layer: u32,
    /// Number of layers.
    pub layers: u32,
    /// Its training iterations.
    pub iterations: u32,
}

/// Joins jobs, and returns the share of each. Names of roles and layers begin with the job's name.
///
/// # Errors
/// More ranks than fit 32 bits, or more roles than fit 16 bits; jobs that differ in the number of micro-batches per
/// iteration.
pub fn join(jobs: &[(&str, Workload)]) -> Result<(Workload, Vec<Share>), Diagnostic> {
    let bad = |message: &str| Diagnostic::error(Code::BadWorkload, message).key("workload.jobs");
    let ranks = jobs.iter().try_fold(0u32, |sum, (_, job)| sum.checked_add(job.ranks));
    let ranks = ranks.ok_or_else(|| bad("the jobs have more ranks than a 32-bit number can count"))?;
    let roles: usize = jobs.iter().map(|(_, job)| job.roles.len()).sum();
    if roles > usize::from(u16::MAX) {
        return Err(bad("the jobs have too many process groups")
            .found(roles.to_string())
            .allowed(format!("at most {}", u16::MAX)));
    }
    let mut micro_batches: Vec<u32> = jobs.iter().map(|(_, job)| job.micro_batches()).collect();
    micro_batches.dedup();
    if micro_batches.len() > 1 {
        let found: Vec<String> = micro_batches.iter().map(u32::to_string).collect();
        return Err(bad("all jobs of a scenario need the same number of micro-batches per iteration")
            .found(found.join(", "))
            .help("give all jobs the same `micro_batches`"));
    }
    let mut shares: Vec<Share> = Vec::new();
    let mut all = Workload {
        name: jobs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" + "),
        ranks: 0,
        classes: Vec::new(),
        class_runs: Vec::new(),
        axes: Vec::new(),
        roles: Vec::new(),
        layers: Vec::new(),
        iterations: jobs.iter().map(|(_, job)| job.iterations).max().unwrap_or(1),
        source: Source::Built,
    };
    for (name, job) in jobs {
        let share = Share {
            name: (*name).to_owned(),
            first_rank: all.ranks,
            ranks: job.ranks,
            first_layer: all.layers.len() as u32,
            layers: job.layers.len() as u32,
            iterations: job.iterations,
        };
        let first_class = all.classes.len() as u32;
        let first_role = all.roles.len() as u16;
        let moved_run =
            |run: &ClassRun| ClassRun { first: share.first_rank + run.first, class: first_class + run.class };
        all.class_runs.extend(job.class_runs.iter().map(moved_run));
        let moved = |graph: &TaskGraph| moved(graph, share.first_rank, first_role, share.first_layer);
        all.classes.extend(job.classes.iter().map(moved));
        for role in &job.roles {
            all.roles.push(moved_role(role, name, share.first_rank, ranks)?);
        }
        all.layers.extend(job.layers.iter().map(|layer| format!("{name}/{layer}")));
        all.ranks += job.ranks;
        shares.push(share);
    }
    Ok((all, shares))
}

/// A copy of the graph with its peers, roles and layers renumbered.
fn moved(graph: &TaskGraph, ranks: u32, roles: u16, layers: u32) -> TaskGraph {
    let mut graph = graph.clone();
    for task in &mut graph.tasks {
        match &mut task.kind {
            TaskKind::Collective { role, .. } => *role = RoleId(role.0 + roles),
            TaskKind::Send { to: peer, .. } | TaskKind::Receive { from: peer, .. } => {
                // A peer that is given relative to the rank stays so.
                if let Peer::Rank(peer) = peer {
                    *peer = RankId(peer.0 + ranks);
                }
            }
            TaskKind::Compute(_) | TaskKind::Memory(_) | TaskKind::Join => {}
        }
        task.layer = task.layer.map(|layer| layer + layers);
    }
    graph
}

/// The role with renumbered ranks, as lists, because ranks no longer follow from each other by arithmetic.
fn moved_role(role: &Role, job: &str, first: u32, ranks: u32) -> Result<Role, Diagnostic> {
    let groups =
        (0..role.groups()).map(|group| role.ranks(group).into_iter().map(|rank| first + rank).collect());
    Role::lists(&format!("{job}/{}", role.name), groups.collect(), role.axes.clone(), ranks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Part, Peer};
    use crate::{GraphBuilder, Task};
    use syncline_units::{Bytes, CollectiveKind};

    fn job(ranks: u32, peer: u32) -> Workload {
        let mut builder = GraphBuilder::new();
        let kinds = [
            TaskKind::Collective {
                role: RoleId(0),
                kind: CollectiveKind::AllReduce,
                bytes: Bytes(8),
                blocking: true,
                when: None,
            },
            TaskKind::Send { to: Peer::Rank(RankId(peer)), bytes: Bytes(8), tag: 0 },
            TaskKind::Join,
        ];
        for (layer, kind) in [Some(0), Some(0), None].into_iter().zip(kinds) {
            builder.task(Task { kind, layer, part: Part::Other, name: String::new() });
        }
        let role = Role::grid("all", &[ranks], &[None], &[0]);
        Workload::uniform(
            "job".to_owned(),
            ranks,
            builder.build(2).unwrap(),
            vec![role],
            vec!["layer".to_owned()],
        )
    }

    #[test]
    fn later_jobs_are_numbered_after_earlier_ones() {
        let (all, shares) = join(&[("a", job(2, 1)), ("b", job(3, 2))]).unwrap();
        assert_eq!((all.ranks, all.class_of(1), all.class_of(2)), (5, 0, 1));
        assert_eq!(all.layers, ["a/layer", "b/layer"]);
        assert_eq!((shares[1].first_rank, shares[1].ranks, shares[1].first_layer), (2, 3, 1));
        let second = &all.classes[1].tasks;
        assert!(matches!(second[0].kind, TaskKind::Collective { role: RoleId(1), .. }));
        assert!(matches!(second[1].kind, TaskKind::Send { to: Peer::Rank(RankId(4)), .. }));
        assert_eq!((second[1].layer, second[2].layer), (Some(1), None));
        assert_eq!((all.roles[1].ranks(0), all.roles[1].position_of(1)), (vec![2, 3, 4], None));
        assert_eq!(all.roles[0].position_of(4), None);
    }

    #[test]
    fn jobs_that_cannot_be_joined_are_refused() {
        let mut builder = GraphBuilder::new();
        builder.task(Task { kind: TaskKind::Join, layer: None, part: Part::Other, name: String::new() });
        let graph = builder.build_steps(1, 4).unwrap();
        let four = Workload::uniform(String::new(), 2, graph, Vec::new(), Vec::new());
        let error = join(&[("a", job(2, 1)), ("b", four)]).unwrap_err();
        assert_eq!(error.found.as_deref(), Some("1, 4"));
    }
}
