//! Groups of a communicator: ranks that run operations and transfers among themselves. All groups use the
//! same threads and connections.

use super::command::{Command, LaneTransfer};
use super::group_info::GroupInfo;
use super::pending::{Completion, Pending};
use super::plan_changes::PlanChange;
use super::report::Report;
use super::signals::{OperationTimes, SizeClass};
use super::state::{GroupState, RunningOperation, RunningTransfer, Shared};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic};
use syncline_protocol::fault::{Blame, FailedOperation, Fault, Task, Trouble};
use syncline_protocol::lane::transfers::{Label, Transfer};
use syncline_protocol::lane::{MAX_GROUPS, Opening, StartedOperation};
use syncline_protocol::memory::{Operands, Region};
use syncline_protocol::operation::Operation;
use syncline_protocol::plan_book::PlanBook;
use syncline_protocol::policy::PlanPolicy;
use syncline_units::CollectiveKind;

/// Decisions on the plans of a group, to wait for.
#[derive(Debug)]
pub struct PlanDecisions {
    shared: Arc<Shared>,
    slot: u32,
}

impl PlanDecisions {
    /// Whether the next operation must wait for a decision. [`Group::begin`] waits for it, too.
    pub fn next_must_wait(&self) -> bool {
        self.shared.waits_for_decision(self.slot)
    }

    /// Waits until the next operation may begin. The coordinator decides within seconds, or the job ends.
    pub fn wait_for_next(&self) {
        drop(self.shared.lock_for_next(self.slot));
    }

    /// Waits until no decision is awaited. Afterwards all ranks of an epoch that has ended have adopted the same plans.
    pub fn wait(&self) {
        self.shared.wait_until_decided(self.slot);
    }
}

/// What a transfer is matched by, besides the two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferTag {
    /// 0 for applications; each other space belongs to one collective.
    pub space: u64,
    /// The application's tag.
    pub tag: i64,
}

/// The number that all members use for a group: from its name, and from how many groups had that name before
/// it.
fn group_id(name: u64, earlier: u64) -> u64 {
    // SplitMix64's step: two groups of different names remain as unlikely to get the same number.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    name.wrapping_add(earlier.wrapping_mul(STEP)).max(1)
}

/// Most operations of a group that may begin before the oldest is over: frames carry 20 bits of an
/// operation's number.
const MAX_UNDER_WAY: u64 = 1 << 14;

/// Whether a collective overwrites its input if input and output are the same memory.
const fn overwrites_input(kind: CollectiveKind) -> bool {
    !matches!(kind, CollectiveKind::Broadcast | CollectiveKind::AllGather)
}

/// A group of ranks that run collectives and transfers among themselves. Dropping it leaves the group: its
/// operations and transfers under way fail, and other groups go on.
#[derive(Debug)]
pub struct Group {
    shared: Arc<Shared>,
    info: Arc<GroupInfo>,
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.info.slot > 0 {
            let blame = Blame::Rank(self.info.own_name());
            let fault = Fault { blame, trouble: Trouble::left(), during: None };
            self.shared.close_group(self.info.slot, &Arc::new(fault), None);
            let mut state = self.shared.lock();
            if let Some(group) = state.groups.get_mut(&self.info.slot) {
                group.left = true;
            }
            state.remove_unused_group(self.info.slot, self.shared.lanes.len());
        }
    }
}

impl Group {
    pub(super) fn new(shared: Arc<Shared>, info: Arc<GroupInfo>) -> Self {
        Self { shared, info }
    }

    /// See [`Communicator::group`](crate::Communicator::group).
    pub(super) fn create(
        shared: &Arc<Shared>,
        name: u64,
        members: Vec<u32>,
        book: PlanBook,
        deadline: Duration,
    ) -> syncline_diagnostics::Result<Self> {
        let bad = |what: String| Err(Diagnostic::error(Code::BadValue, what).into());
        let mut state = shared.lock();
        if name == 0 || state.groups.values().any(|group| group.name == name && !group.left) {
            return bad(format!(
                "group number {name} is already in use: close that group, or use another name"
            ));
        }
        let taken: BTreeSet<u32> = state.groups.keys().copied().collect();
        let Some(slot) = (1..MAX_GROUPS).find(|slot| !taken.contains(slot)) else {
            return bad(format!("a rank can be in at most {MAX_GROUPS} groups at a time: leave one first"));
        };
        // Members leave at different times, and must not mistake a new group for an old one of the same name.
        let earlier = state.made.entry(name).or_default();
        let id = group_id(name, *earlier);
        *earlier += 1;
        let counters = shared.counters().add_group(id);
        let info = Arc::new(GroupInfo { slot, id, book: Arc::new(book), members, counters });
        state.groups.insert(slot, GroupState::new(Arc::clone(&info), name, deadline));
        // Hold the lock until every lane has this command, so that no command of the group's operations
        // precedes it.
        for lane in &shared.lanes {
            let (book, members) = (Arc::clone(&info.book), info.members.clone());
            lane.send(Command::Open(Opening { slot, id, book, members }));
        }
        drop(state);
        Ok(Self { shared: Arc::clone(shared), info })
    }

    pub(super) fn info(&self) -> &Arc<GroupInfo> {
        &self.info
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The plans that run the group's collectives.
    pub fn book(&self) -> &PlanBook {
        &self.info.book
    }

    /// The fault after which nothing can begin any more in this group, if there was one.
    pub fn failed(&self) -> Option<Arc<Fault>> {
        let state = self.shared.lock();
        let of_group = || state.groups.get(&self.info.slot).and_then(|group| group.failed.clone());
        state.failed.clone().or_else(of_group)
    }

    /// Sets how long operations and transfers that begin from now on may take. Those under way keep their
    /// deadlines.
    pub fn set_deadline(&self, deadline: Duration) {
        if let Some(group) = self.shared.lock().groups.get_mut(&self.info.slot) {
            group.deadline = deadline;
        }
    }

    /// Begins an operation. All ranks of the group must begin the same operations in the same order. `input`
    /// is this rank's contribution and `output` is where its result goes; both may be the same memory. A rank
    /// without a contribution or a result gives [`Region::EMPTY`]. With `keep`, the input is unchanged if the
    /// operation fails.
    ///
    /// # Errors
    /// The operation is invalid, no plan offers it, a region has the wrong length, memory is in use by an
    /// operation under way (unless both only read it), or the oldest of the last 16,384 operations is not
    /// over. Nothing has begun then. Whatever happens later is the [`Pending`]'s outcome.
    pub fn begin(
        &self,
        operation: &Operation,
        input: Region,
        output: Region,
        keep: bool,
    ) -> syncline_diagnostics::Result<Pending> {
        let (book, slot) = (&self.info.book, self.info.slot);
        let next = self.info.counters.begun.load(Ordering::Relaxed) + 1;
        let mut shape = book.shape(next, operation)?;
        self.check_regions(operation, input, output)?;
        let completion = Completion::new(self.shared.lanes.len() as u32);
        let pending = Pending::new(Arc::clone(&completion)).polling(&self.shared.polled);
        // Deciding a shape may take long, so it is not done under the lock, and other plans may be in force meanwhile.
        let mut state = loop {
            let state = self.shared.lock_for_next(slot);
            let next = state.groups[&slot].newest + 1;
            if book.edition(next) == shape.edition {
                break state;
            }
            drop(state);
            shape = book.shape(next, operation)?;
        };
        state.remove_oldest_finished(&self.info);
        let group = state.groups.get(&slot).expect("a group has a state until it is dropped");
        let sequence = group.newest + 1;
        if let Some(fault) = state.failed.as_ref().or(group.failed.as_ref()) {
            let task = Task::Collective { number: sequence, operation: *operation };
            let during = Some(FailedOperation { task, elapsed: Duration::ZERO });
            completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
            return Ok(pending);
        }
        let memory = Operands { input, output };
        let mut others = state.operations.iter().filter(|(_, other)| !other.completion.over());
        if let Some((&(_, number), other)) = others.find(|(_, other)| other.memory.conflicts(memory)) {
            let message = format!(
                "memory of {operation} (operation {sequence}) is in use by {} (operation {number})",
                other.operation
            );
            let help = format!("wait for operation {number} before this one begins");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        let mut of_group = state.operations.range((slot, 0)..(slot + 1, 0));
        let oldest = of_group.next().map_or(sequence, |(&(_, oldest), _)| oldest);
        if sequence - oldest >= MAX_UNDER_WAY {
            let message = format!(
                "operation {oldest} is still under way, and {operation} would be number {MAX_UNDER_WAY} after it"
            );
            let help = format!("wait for operation {oldest} before this one begins");
            return Err(Diagnostic::error(Code::BadValue, message).help(help).into());
        }
        let group = state.groups.get_mut(&slot).expect("as above");
        group.newest = sequence;
        let (deadline, began) = (group.deadline, Instant::now());
        group.changes.count(began);
        self.info.counters.begun.store(sequence, Ordering::Relaxed);
        let running = RunningOperation {
            completion: Arc::clone(&completion),
            operation: *operation,
            began,
            deadline,
            memory,
            consumes: !keep
                && overwrites_input(operation.kind)
                && input.overlaps(output)
                && !input.is_empty(),
        };
        state.operations.insert((slot, sequence), running);
        let job = Arc::new(StartedOperation { sequence, shape, input, output, keep });
        // Hold the lock until every lane has this command, so that all lanes get operations in the same
        // order.
        for lane in &self.shared.lanes {
            let (job, completion) = (Arc::clone(&job), Arc::clone(&completion));
            lane.send(Command::Start { slot, job, completion });
        }
        Ok(pending)
    }

    /// Proposes new plans for this group. The decision arrives from the returned channel, which is closed without one
    /// if the job ends. Operations go on meanwhile. All ranks of the group run operations by the new plans from one
    /// operation on, or all keep the old ones.
    ///
    /// # Errors
    /// A clause that says why none can be proposed: the job or the group has ended.
    pub fn propose_plans(&self, policy: PlanPolicy) -> Result<Receiver<PlanChange>, String> {
        let (proposal, decision) = self.shared.register_proposal(&self.info, policy)?;
        // Fails only if the job has ended, which also closes the channel.
        if self.shared.reports.send(Report::ProposePlans(proposal)).is_err() {
            self.shared.drop_undecided_plans();
        }
        Ok(decision)
    }

    /// The changes of plans that were decided, the oldest first. The group remembers the last 1,024.
    pub fn plan_changes(&self) -> Vec<PlanChange> {
        let state = self.shared.lock();
        state.groups.get(&self.info.slot).map_or_else(Vec::new, |group| group.changes.decided.clone())
    }

    /// The number of the edition that was adopted last, and its plans; `None` if those with which the group began are in
    /// force.
    pub fn adopted_plans(&self) -> Option<(u32, PlanPolicy)> {
        let state = self.shared.lock();
        state.groups.get(&self.info.slot).and_then(|group| group.changes.adopted.clone())
    }

    /// The number of the edition that was adopted last; 0 if the plans with which the group began are in force.
    pub fn edition(&self) -> u32 {
        let state = self.shared.lock();
        let adopted = state.groups.get(&self.info.slot).and_then(|group| group.changes.adopted.as_ref());
        adopted.map_or(0, |&(edition, _)| edition)
    }

    /// The number of the newest operation that has begun.
    pub fn begun(&self) -> u64 {
        self.info.counters.begun.load(Ordering::Relaxed)
    }

    /// The number that all members use for this group; 0 for the whole job.
    pub fn id(&self) -> u64 {
        self.info.id
    }

    /// How long this group's operations have taken that are over, by kind and size.
    pub fn operation_times(&self) -> Vec<(SizeClass, OperationTimes)> {
        let mut state = self.shared.lock();
        state.remove_finished();
        let group = state.groups.get(&self.info.slot);
        group.map_or_else(Vec::new, |group| {
            group.times.0.iter().map(|(&class, &times)| (class, times)).collect()
        })
    }

    /// The decisions on this group's plans, to wait for.
    pub fn plan_decisions(&self) -> PlanDecisions {
        PlanDecisions { shared: Arc::clone(&self.shared), slot: self.info.slot }
    }

    /// Sends bytes to a rank of the group, which must receive as many with the same space and tag.
    ///
    /// # Errors
    /// [`Code::BadValue`] if `to` is not another rank of the group.
    pub fn send(&self, region: Region, to: u32, tag: TransferTag) -> syncline_diagnostics::Result<Pending> {
        self.transfer(true, region, Some(to), tag)
    }

    /// Receives bytes from a rank of the group, or from any: [`Pending::source`] then returns which one. What
    /// a rank sends with one space and tag is received in the order in which it was sent.
    ///
    /// # Errors
    /// [`Code::BadValue`] if `from` is not another rank of the group, or is absent in a space other than 0.
    pub fn receive(
        &self,
        region: Region,
        from: Option<u32>,
        tag: TransferTag,
    ) -> syncline_diagnostics::Result<Pending> {
        self.transfer(false, region, from, tag)
    }

    fn transfer(
        &self,
        sends: bool,
        region: Region,
        peer: Option<u32>,
        tag: TransferTag,
    ) -> syncline_diagnostics::Result<Pending> {
        let GroupInfo { id, book, members, .. } = &*self.info;
        if let Some(peer) = peer.filter(|&peer| peer >= book.ranks() || peer == book.member()) {
            let (what, way) = if sends { ("send", "to") } else { ("receive", "from") };
            let message = format!("rank {} cannot {what} {way} rank {peer}", book.member());
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed(format!("another rank: 0 to {}", book.ranks() - 1))
                .into());
        }
        let TransferTag { space, tag } = tag;
        if peer.is_none() && space != 0 {
            let message = "a collective cannot receive from any rank: it must name one";
            return Err(Diagnostic::error(Code::BadValue, message).into());
        }
        let label = Label { group: *id, space, tag };
        let other = peer.map(|peer| members[peer as usize]);
        let task = Task::Transfer {
            sends,
            peer: peer.map(|peer| book.name(peer)),
            tag: (space == 0).then_some(tag),
            bytes: region.len() as u64,
        };
        let completion = Completion::new(1);
        let pending = Pending::new(Arc::clone(&completion)).polling(&self.shared.polled);
        let mut state = self.shared.lock();
        while let Some(first) = state.transfers.first_entry().filter(|first| first.get().completion.over()) {
            first.remove();
        }
        let own = state.groups.get(&self.info.slot).expect("a group has a state until it is dropped");
        let deadline = own.deadline;
        if let Some(fault) = state.failed.as_ref().or(own.failed.as_ref()) {
            let during = Some(FailedOperation { task, elapsed: Duration::ZERO });
            completion.end(Err(Arc::new(Fault { during, ..(**fault).clone() })));
            return Ok(pending);
        }
        state.newest_transfer += 1;
        let number = state.newest_transfer;
        let began = Instant::now();
        let running = RunningTransfer {
            completion: Arc::clone(&completion),
            task: task.clone(),
            began,
            deadline,
            group: Arc::clone(&self.info),
        };
        state.transfers.insert(number, running);
        let lane = &self.shared.lanes[self.lane_of(label, other)];
        let transfer = Transfer { id: number, label, peer: other, region };
        let group = Arc::clone(&self.info);
        let receiver = lane.clone();
        pending.allow_withdrawal(move || receiver.send(Command::Withdraw { label, number }));
        lane.send(Command::Transfer(Box::new(LaneTransfer {
            sends,
            transfer,
            completion: Arc::clone(&completion),
            task,
            began,
            group,
        })));
        Ok(pending)
    }

    /// The lane of a transfer. All transfers of an application's tag use one lane, so that a receive from any
    /// rank finds them there. The lane of a collective's transfer depends on the two ranks.
    fn lane_of(&self, label: Label, other: Option<u32>) -> usize {
        let own = self.info.members[self.info.book.member() as usize];
        let which = match label.space {
            0 => label.group ^ label.tag.cast_unsigned(),
            space => space.wrapping_add(u64::from(own) + u64::from(other.unwrap_or(own))),
        };
        // Consecutive values use different lanes, for any number of lanes.
        (which % self.shared.lanes.len() as u64) as usize
    }

    /// Checks that regions have the lengths that an operation needs, and that they overlap only where they
    /// may.
    fn check_regions(
        &self,
        operation: &Operation,
        input: Region,
        output: Region,
    ) -> syncline_diagnostics::Result<()> {
        let (rank, whole) = (self.info.book.member(), operation.bytes() as usize);
        let block = whole / self.info.book.ranks() as usize;
        let root = rank == operation.root;
        let (from, to) = match operation.kind {
            _ if rank >= self.info.book.ranks() => (Some(0), Some(0)),
            CollectiveKind::AllReduce | CollectiveKind::AllToAll => (Some(whole), Some(whole)),
            CollectiveKind::ReduceScatter => (Some(whole), Some(block)),
            CollectiveKind::AllGather => (Some(block), Some(whole)),
            CollectiveKind::Broadcast => (root.then_some(whole), Some(whole)),
            CollectiveKind::Reduce => (Some(whole), Some(if root { whole } else { 0 })),
        };
        for (name, region, length) in [("input", input, from), ("output", output, to)] {
            if length.is_some_and(|length| region.len() != length) {
                return Err(Diagnostic::error(
                    Code::BadValue,
                    format!("the {name} of {operation} has the wrong length"),
                )
                .found(format!("{} bytes", region.len()))
                .allowed(format!("{} bytes", length.unwrap_or(0)))
                .into());
            }
        }
        // Input and output may be the same memory, or a rank's block may lie at its place in the whole. With
        // any other overlap, input would be overwritten before it is read.
        let own_block = |whole: Region| whole.part(block * rank as usize..block * (rank as usize + 1));
        let in_place = match operation.kind {
            _ if rank >= self.info.book.ranks() || input.is_empty() || output.is_empty() => true,
            CollectiveKind::ReduceScatter => output.same(own_block(input)),
            CollectiveKind::AllGather => input.same(own_block(output)),
            _ => input.same(output),
        };
        if !in_place && input.overlaps(output) {
            let message = format!("input and output of {operation} overlap");
            return Err(Diagnostic::error(Code::BadValue, message)
                .allowed("the same memory, a rank's own block of it, or separate memory")
                .into());
        }
        Ok(())
    }
}
