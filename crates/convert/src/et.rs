//! Writes a workload as Chakra traces.

use crate::aside::Aside;
use crate::aside::folder;
use crate::converted::Converted;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};
use syncline_formats::astra2::Groups;
use syncline_formats::chakra::load::rank_file;
use syncline_formats::chakra::{CollectiveType, Metadata, Node, Writer};
use syncline_units::{Bytes, CollectiveKind, Time};
use syncline_workload::{Peer, Role, Task, TaskGraph, TaskKind, Workload};

/// Picoseconds of a microsecond.
const MICRO: u64 = 1_000_000;

/// Writes `<prefix>.<rank>.et` for every rank, and `<prefix>.groups.json` if there are groups. `durations` holds the
/// times of each class's tasks, `dims` the sizes of the fabric's dimensions.
pub(super) fn write(
    workload: &Workload,
    durations: &[Vec<Time>],
    dims: &[u32],
    prefix: &Path,
) -> Result<Converted> {
    let beyond = rank_file(prefix, workload.ranks);
    if beyond.exists() {
        return Err(Diagnostic::error(Code::CannotWrite, "a trace of more ranks already exists")
            .at(beyond.display().to_string(), 0)
            .help("choose another output, or remove the old files: readers would take them for part of this job")
            .into());
    }
    let mut warnings = Diagnostics::new();
    let groups = GroupNumbers::new(workload, dims, &mut warnings);
    let mut classes = Vec::new();
    for (graph, durations) in workload.classes.iter().zip(durations) {
        classes.push(Class::new(workload, graph, durations, &groups)?);
    }
    warn_of_rounding(&classes, &mut warnings);
    warn_of_shards(workload, &groups, &mut warnings);
    folder(prefix)?;
    let mut summary =
        Converted { ranks: workload.ranks, groups: groups.members.len() as u32, ..Converted::default() };
    let mut aside = Aside::default();
    let mut written: Option<(u32, Vec<u32>, Vec<u8>)> = None;
    for rank in 0..workload.ranks {
        let index = workload.class_of(rank);
        let class = &classes[index as usize];
        let own = groups.of_rank(workload, rank);
        let same = written
            .as_ref()
            .is_some_and(|(last, last_own, _)| (*last, last_own) == (index, &own) && !class.has_messages);
        if !same {
            written = Some((index, own.clone(), class.trace(rank, &own)?));
        }
        let path = rank_file(prefix, rank);
        let bytes = written.as_ref().map_or(&[][..], |(_, _, bytes)| bytes);
        aside.write(&path, bytes)?;
        summary.nodes += (class.kept * u64::from(class.graph.iterations)).max(1);
        summary.files.push(path);
    }
    if !groups.members.is_empty() {
        let path = groups_file(prefix);
        if Groups::ignored(&path) {
            let message = "ASTRA-sim ignores a file of groups whose path contains \"empty\"";
            return Err(Diagnostic::error(Code::CannotWrite, message)
                .at(path.display().to_string(), 0)
                .help("choose another name for the output")
                .into());
        }
        aside.write(&path, groups.json().as_bytes())?;
        summary.files.push(path);
    }
    aside.commit()?;
    summary.warnings = warnings;
    Ok(summary)
}

/// The file of communicator groups that belongs to a prefix.
fn groups_file(prefix: &Path) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(".groups.json");
    PathBuf::from(name)
}

/// How a trace expresses a role's groups.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spread {
    /// Groups of one: there is nothing to exchange.
    Nobody,
    /// All ranks.
    Everyone,
    /// Whole dimensions.
    Dims(Vec<bool>),
    /// Numbered groups.
    Groups,
}

/// The groups that need a number. Numbers depend only on the members, so that reading traces and writing them again
/// keeps the numbers.
struct GroupNumbers {
    spreads: Vec<Spread>,
    /// For each role, the numbers of its groups.
    numbers: Vec<Vec<u32>>,
    /// Members, by number less 1.
    members: Vec<Vec<u32>>,
}

impl GroupNumbers {
    fn new(workload: &Workload, dims: &[u32], warnings: &mut Diagnostics) -> Self {
        let mut spreads = Vec::new();
        let mut lists: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
        for (role, used) in workload.roles.iter().zip(workload.with_collectives()) {
            let spread = if used { spread(role, workload.ranks, dims) } else { Spread::Nobody };
            if spread == Spread::Everyone
                && role.ranks(0).iter().enumerate().any(|(at, &rank)| at as u32 != rank)
            {
                warnings.push(
                    Diagnostic::warning(
                        Code::BadGroup,
                        "the traces do not keep the order of ranks in a group of all ranks",
                    )
                    .key(format!("group `{}`", role.name))
                    .note("ASTRA-sim orders such a group by the network's dimensions"),
                );
            }
            if spread == Spread::Groups {
                lists.extend((0..role.groups()).map(|group| (role.ranks(group), 0)));
            }
            spreads.push(spread);
        }
        for (number, entry) in (1..).zip(lists.values_mut()) {
            *entry = number;
        }
        let number = |(role, spread): (&Role, &Spread)| match spread {
            Spread::Groups => (0..role.groups()).map(|group| lists[&role.ranks(group)]).collect(),
            _ => Vec::new(),
        };
        let numbers = workload.roles.iter().zip(&spreads).map(number).collect();
        Self { spreads, numbers, members: lists.into_keys().collect() }
    }

    /// For each role, the number of the group that `rank` belongs to; 0 if there is none.
    fn of_rank(&self, workload: &Workload, rank: u32) -> Vec<u32> {
        let number = |(role, numbers): (&Role, &Vec<u32>)| {
            let group = if numbers.is_empty() { None } else { role.position_of(rank) };
            group.map_or(0, |seat| numbers[seat.group as usize])
        };
        workload.roles.iter().zip(&self.numbers).map(number).collect()
    }

    fn json(&self) -> String {
        let line = |(number, members): (u32, &Vec<u32>)| format!("  \"{number}\": {members:?}");
        let lines: Vec<String> = (1..).zip(&self.members).map(line).collect();
        format!("{{\n{}\n}}\n", lines.join(",\n"))
    }
}

fn spread(role: &Role, ranks: u32, dims: &[u32]) -> Spread {
    if role.size() < 2 {
        return Spread::Nobody;
    }
    if role.size() == ranks {
        return Spread::Everyone;
    }
    let mut involved = vec![false; dims.len()];
    for axis in role.axes.iter().filter(|axis| axis.size > 1) {
        match axis
            .dim
            .and_then(|dim| Some((dims.get(usize::from(dim))?, involved.get_mut(usize::from(dim))?)))
        {
            Some((&size, involved)) if role.is_grid() && size == axis.size => *involved = true,
            _ => return Spread::Groups,
        }
    }
    Spread::Dims(involved)
}

/// A class of ranks, prepared for writing.
struct Class<'a> {
    graph: &'a TaskGraph,
    names: Vec<String>,
    durations: Vec<u64>,
    spreads: &'a [Spread],
    sizes: Vec<u32>,
    /// The tasks that each task waits for, and how many iterations earlier these are.
    waits: Vec<Vec<(u32, u8)>>,
    /// Tasks in an order that respects the dependencies within an iteration.
    order: Vec<u32>,
    /// Number of each task among those that are written; `None` for the others.
    number: Vec<Option<u64>>,
    /// How many tasks are written in an iteration.
    kept: u64,
    has_messages: bool,
    rounding: Rounding,
}

/// The changes of times by rounding to microseconds, in one iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Rounding {
    tasks: u64,
    changed: u64,
    to_zero: u64,
    before: u128,
    after: u128,
    /// Sum of the absolute changes.
    error: u128,
}

impl<'a> Class<'a> {
    fn new(
        workload: &Workload,
        graph: &'a TaskGraph,
        durations: &[Time],
        groups: &'a GroupNumbers,
    ) -> Result<Self> {
        let count = graph.tasks.len();
        let mut problems = Diagnostics::new();
        let mut rounding = Rounding::default();
        let mut micros = vec![0; count];
        let mut number = Vec::with_capacity(count);
        let mut kept = 0;
        for (index, task) in graph.tasks.iter().enumerate() {
            let written = match task.kind {
                TaskKind::Join => false,
                TaskKind::Collective { role, kind, bytes, .. } => {
                    let written = groups.spreads[role.index()] != Spread::Nobody;
                    if written && comm_type(kind).is_none() {
                        problems.push(refused(workload, task, format!("ASTRA-sim 2 cannot simulate {kind}")));
                    }
                    if written && i64::try_from(bytes.0).is_err() {
                        problems.push(refused(
                            workload,
                            task,
                            format!("{bytes} are more than a trace can express"),
                        ));
                    }
                    written
                }
                TaskKind::Memory(_) => {
                    let message =
                        "ASTRA-sim 2 derives the time of remote memory from bytes, which are not known here";
                    problems.push(refused(workload, task, message.to_owned()));
                    false
                }
                TaskKind::Compute(_) => {
                    micros[index] = rounding.add(durations[index]);
                    true
                }
                TaskKind::Send { to: peer, bytes, tag } | TaskKind::Receive { from: peer, bytes, tag } => {
                    if matches!(peer, Peer::Rank(peer) if i32::try_from(peer.0).is_err())
                        || i32::try_from(tag).is_err()
                        || i64::try_from(bytes.0).is_err()
                    {
                        problems.push(refused(
                            workload,
                            task,
                            "a message's peer, tag or size is too large".to_owned(),
                        ));
                    }
                    true
                }
            };
            number.push(written.then_some(kept));
            kept += u64::from(written);
            if problems.0.len() >= 8 {
                break;
            }
        }
        problems.into_result()?;
        let mut waits = vec![Vec::new(); count];
        for from in 0..count as u32 {
            for next in graph.successors(from) {
                waits[next.task as usize].push((from, next.lag));
            }
        }
        // Without dependencies between iterations, each begins when the one before has ended.
        if waits.iter().flatten().all(|&(_, lag)| lag == 0) {
            let last: Vec<u32> =
                (0..count as u32).filter(|&task| graph.successors(task).is_empty()).collect();
            for waits in waits.iter_mut().filter(|waits| waits.is_empty()) {
                waits.extend(last.iter().map(|&task| (task, 1)));
            }
        }
        let messages = |task: &Task| matches!(task.kind, TaskKind::Send { .. } | TaskKind::Receive { .. });
        Ok(Self {
            graph,
            names: graph.tasks.iter().map(|task| name(workload, task)).collect(),
            durations: micros,
            spreads: &groups.spreads,
            sizes: workload.roles.iter().map(Role::size).collect(),
            order: order(graph),
            waits,
            number,
            kept,
            has_messages: graph.tasks.iter().any(messages),
            rounding,
        })
    }

    /// The trace of a rank. `groups` holds, for each role, the number of the rank's group.
    fn trace(&self, rank: u32, groups: &[u32]) -> Result<Vec<u8>> {
        let memory =
            |error: std::io::Error| Diagnostic::error(Code::Internal, format!("writing to memory: {error}"));
        let mut writer = Writer::new(Vec::new(), &Metadata::astra()).map_err(memory)?;
        let count = self.graph.tasks.len();
        // For each task that is not written, the nodes to depend on instead, in this iteration and the one before.
        let mut stands: [Vec<Vec<u64>>; 2] = [vec![Vec::new(); count], vec![Vec::new(); count]];
        for iteration in 0..self.graph.iterations {
            stands.swap(0, 1);
            for &task in self.order.iter().filter(|&&task| self.number[task as usize].is_none()) {
                stands[0][task as usize] = self.dependencies(task, iteration, &stands);
            }
            for (index, task) in self.graph.tasks.iter().enumerate() {
                let Some(number) = self.number[index] else { continue };
                let id = self.id(number, iteration);
                let name = match self.graph.iterations {
                    1 => self.names[index].clone(),
                    _ => format!("{} @{iteration}", self.names[index]),
                };
                let node = self.node(task, index, id, name, rank, groups);
                let node = node.after(&self.dependencies(index as u32, iteration, &stands));
                writer.write(&node).map_err(memory)?;
            }
        }
        // A trace has at least one node.
        if self.kept == 0 {
            writer.write(&Node::compute(1, "idle", 0)).map_err(memory)?;
        }
        Ok(writer.finish().map_err(memory)?)
    }

    /// Ids count from 1.
    fn id(&self, number: u64, iteration: u32) -> u64 {
        1 + u64::from(iteration) * self.kept + number
    }

    /// The nodes that a task waits for.
    fn dependencies(&self, task: u32, iteration: u32, stands: &[Vec<Vec<u64>>; 2]) -> Vec<u64> {
        let mut ids = Vec::new();
        for &(on, lag) in &self.waits[task as usize] {
            let Some(before) = iteration.checked_sub(lag.into()) else { continue };
            match self.number[on as usize] {
                Some(number) => ids.push(self.id(number, before)),
                None => ids.extend(&stands[usize::from(lag)][on as usize]),
            }
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    fn node(&self, task: &Task, index: usize, id: u64, name: String, rank: u32, groups: &[u32]) -> Node {
        // The ranges were checked.
        let (own, wide) = (rank as i32, |bytes: Bytes| bytes.0 as i64);
        match task.kind {
            TaskKind::Send { to, bytes, tag } => {
                Node::send(id, name, own, to.of_checked(rank).0 as i32, wide(bytes), tag as i32)
            }
            TaskKind::Receive { from, bytes, tag } => {
                Node::receive(id, name, from.of_checked(rank).0 as i32, own, wide(bytes), tag as i32)
            }
            TaskKind::Collective { role, kind, bytes, .. } => {
                let shard = Bytes(shard(kind, bytes, self.sizes[role.index()]));
                let kind = comm_type(kind).unwrap_or(CollectiveType::AllReduce);
                let node = Node::collective(id, name, kind, wide(shard));
                match &self.spreads[role.index()] {
                    Spread::Dims(involved) => node.in_dims(involved),
                    Spread::Groups => node.in_group(&groups[role.index()].to_string()),
                    Spread::Nobody | Spread::Everyone => node,
                }
            }
            TaskKind::Compute(_) | TaskKind::Memory(_) | TaskKind::Join => {
                Node::compute(id, name, self.durations[index])
            }
        }
    }
}

impl Rounding {
    /// Counts a time, and returns it in microseconds.
    fn add(&mut self, time: Time) -> u64 {
        let micros = time.0 / MICRO + u64::from(time.0 % MICRO >= MICRO / 2);
        let (before, after) = (u128::from(time.0), u128::from(micros) * u128::from(MICRO));
        self.tasks += 1;
        self.changed += u64::from(before != after);
        self.to_zero += u64::from(before != after && micros == 0);
        self.before += before;
        self.after += after;
        self.error += before.abs_diff(after);
        micros
    }
}

/// ASTRA-sim's number of bytes of a collective: an all-gather's is the shard of one rank.
fn shard(kind: CollectiveKind, bytes: Bytes, members: u32) -> u64 {
    if kind == CollectiveKind::AllGather { bytes.0.div_ceil(u64::from(members)) } else { bytes.0 }
}

const fn comm_type(kind: CollectiveKind) -> Option<CollectiveType> {
    match kind {
        CollectiveKind::AllReduce => Some(CollectiveType::AllReduce),
        CollectiveKind::ReduceScatter => Some(CollectiveType::ReduceScatter),
        CollectiveKind::AllGather => Some(CollectiveType::AllGather),
        CollectiveKind::AllToAll => Some(CollectiveType::AllToAll),
        CollectiveKind::Broadcast | CollectiveKind::Reduce => None,
    }
}

/// A task's name, or its layer, part and collective.
fn name(workload: &Workload, task: &Task) -> String {
    if !task.name.is_empty() {
        return task.name.clone();
    }
    let layer = workload.layer_name(task.layer);
    let mut words = vec![layer, task.part.name()];
    if let TaskKind::Collective { kind, .. } = task.kind {
        words.push(kind.name());
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Tasks in an order that respects the dependencies within an iteration.
fn order(graph: &TaskGraph) -> Vec<u32> {
    let count = graph.tasks.len() as u32;
    let mut waits: Vec<u32> = (0..count).map(|task| graph.waits(task, 0)).collect();
    let mut order: Vec<u32> = (0..count).filter(|&task| waits[task as usize] == 0).collect();
    let mut at = 0;
    while let Some(&task) = order.get(at) {
        at += 1;
        for next in graph.successors(task).iter().filter(|next| next.lag == 0) {
            waits[next.task as usize] -= 1;
            if waits[next.task as usize] == 0 {
                order.push(next.task);
            }
        }
    }
    order
}

fn refused(workload: &Workload, task: &Task, message: String) -> Diagnostic {
    Diagnostic::error(Code::BadWorkload, message).key(format!("task `{}`", name(workload, task)))
}

/// Warns about rounding, for the class whose times it changes most.
fn warn_of_rounding(classes: &[Class<'_>], warnings: &mut Diagnostics) {
    let worst = classes.iter().max_by_key(|class| class.rounding.error * u128::from(class.graph.iterations));
    let Some(class) = worst.filter(|class| class.rounding.changed > 0) else { return };
    let Rounding { tasks, changed, to_zero, before, after, error } = class.rounding;
    let all = |sum: u128| {
        let sum = sum.saturating_mul(class.graph.iterations.into());
        Time(u64::try_from(sum).unwrap_or(u64::MAX)).to_string()
    };
    let mut warning = Diagnostic::warning(
        Code::BadValue,
        "compute times are rounded to whole microseconds, as Chakra traces have no shorter unit",
    )
    .found(format!("{changed} of {tasks} compute tasks of an iteration do not take whole microseconds"))
    .note(format!(
        "a rank's compute changes from {} to {}; the changes add up to {}",
        all(before),
        all(after),
        all(error)
    ));
    if to_zero > 0 {
        warning = warning.note(format!("{to_zero} of them become 0, which takes 1 ns in ASTRA-sim 2"));
    }
    warnings.push(warning);
}

/// Warns about all-gathers whose shards are not a whole number of bytes.
fn warn_of_shards(workload: &Workload, groups: &GroupNumbers, warnings: &mut Diagnostics) {
    let uneven = workload.classes.iter().flat_map(|graph| &graph.tasks).filter(|task| match task.kind {
        TaskKind::Collective { role, kind: CollectiveKind::AllGather, bytes, .. } => {
            let members = u64::from(workload.roles[role.index()].size());
            groups.spreads[role.index()] != Spread::Nobody && !bytes.0.is_multiple_of(members)
        }
        _ => false,
    });
    let count = uneven.count();
    if count > 0 {
        warnings.push(
            Diagnostic::warning(Code::BadValue, "an all-gather's bytes are rounded up to whole shards")
                .found(format!("{count} all-gathers whose size is not a multiple of their ranks")),
        );
    }
}
