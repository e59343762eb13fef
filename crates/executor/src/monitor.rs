//! The thread that monitors the lanes: it fails operations after a fault, and finds those that miss their
//! deadlines.

use super::command::Command;
use super::group_info::GroupInfo;
use super::report::Report;
use super::state::{RunningOperation, RunningTransfer, Shared, State, fail_all};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use syncline_membership::coordinator_link::CoordinatorLink;
use syncline_membership::fault_rules::{FaultRules, Late, Oldest, Reaction};
use syncline_membership::message::{LateOperation, PlanProposal};
use syncline_protocol::fault::{Blame, Fault, FaultKind, Task, Trouble};

/// The monitor of a communicator's lanes.
pub(super) struct Monitor {
    reports: Receiver<Report>,
    shared: Arc<Shared>,
    /// The group of all members.
    job: Arc<GroupInfo>,
    /// `None` if this rank decides by itself who is at fault.
    coordinator: Option<Box<dyn CoordinatorLink>>,
    rules: FaultRules,
    started: Instant,
    /// Lanes that have given up.
    aborted: usize,
    /// Lanes whose threads have ended.
    stopped: usize,
}

/// A transfer that has missed its deadline.
struct LateTransfer {
    /// The group, by its number on this rank.
    slot: u32,
    trouble: Trouble,
    /// The name of the rank at the other side; absent in a receive from any rank.
    peer: Option<u32>,
}

impl Monitor {
    /// Creates the monitor of lanes that send to `reports`.
    pub(super) fn new(
        shared: Arc<Shared>,
        job: Arc<GroupInfo>,
        reports: Receiver<Report>,
        coordinator: Option<Box<dyn CoordinatorLink>>,
    ) -> Self {
        let rules = FaultRules::new(job.own_name(), coordinator.is_some(), shared.settings.patience);
        let (started, aborted, stopped) = (Instant::now(), 0, 0);
        Self { reports, shared, job, coordinator, rules, started, aborted, stopped }
    }

    /// Monitors the lanes until all their threads have ended. If the monitor itself panics, which is a bug,
    /// operations under way still fail as after any fault, once their inputs are restored, so that no caller
    /// waits forever.
    pub(super) fn run(mut self) {
        let runs_to_end =
            |monitor: &mut Self| catch_unwind(AssertUnwindSafe(|| monitor.monitor_lanes())).is_ok();
        if runs_to_end(&mut self) {
            return;
        }
        // The coordinator may be what panicked.
        self.coordinator = None;
        self.rules.lose_coordinator();
        self.verdict(Blame::Rank(self.own_name()), Trouble::bug());
        // The panic may have come between a verdict and the abort that follows from it.
        self.abort(Blame::Rank(self.own_name()), Trouble::bug());
        if !runs_to_end(&mut self) {
            self.fail_all();
        }
    }

    /// Handles reports and checks deadlines until all lanes' threads have ended.
    fn monitor_lanes(&mut self) {
        const INTERVAL: Duration = Duration::from_millis(100);
        // The coordinator has a sender of reports, too, so the channel stays open when the lanes end: count them.
        while self.stopped < self.shared.lanes.len() {
            match self.reports.recv_timeout(INTERVAL) {
                Ok(Report::Trouble { peer, trouble }) => self.trouble(peer, trouble),
                Ok(Report::Verdict { blame, trouble }) => self.verdict(blame, trouble),
                Ok(Report::CoordinatorGone) => {
                    self.rules.lose_coordinator();
                    self.shared.drop_undecided_plans();
                }
                Ok(Report::ProposePlans(proposal)) => self.propose_plans(proposal),
                Ok(Report::PreparePlans { edition, proposal }) => self.prepare_plans(edition, proposal),
                Ok(Report::PlansPrepared { edition, group, answer }) => {
                    self.answer_plans(edition, group, answer);
                }
                Ok(Report::Failed(trouble)) => self.failed(trouble),
                Ok(Report::Deserted { slot, member }) => self.close_deserted_group(slot, member),
                Ok(Report::Released { slot }) => self.shared.release(slot),
                Ok(Report::Aborted) => self.lane_aborted(),
                Ok(Report::Stopped { aborted }) => {
                    self.stopped += 1;
                    if !aborted {
                        self.lane_aborted();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stopped = self.shared.lanes.len(),
            }
            self.check_deadlines();
        }
        self.fail_rest();
    }

    /// The name of this rank.
    fn own_name(&self) -> u32 {
        self.job.own_name()
    }

    /// Counts a lane that has given up. Once all have, fails everything under way.
    fn lane_aborted(&mut self) {
        self.aborted += 1;
        if self.aborted == self.shared.lanes.len() {
            self.fail_all();
        }
    }

    /// Whether this rank has two or more peers and hears none of them. A lane may be connected with fewer.
    fn cut_off(&self) -> bool {
        let lanes = || self.shared.lanes.iter().map(|lane| &lane.status);
        lanes().any(|status| status.cut_off()) && !lanes().any(|status| status.hears_some())
    }

    /// Looks for operations and transfers that have missed their deadlines.
    fn check_deadlines(&mut self) {
        let mut state = self.shared.lock();
        state.remove_finished();
        if state.failed.is_some() {
            return;
        }
        let mut oldest: Vec<Oldest> = Vec::new();
        for (&(group, sequence), each) in &state.operations {
            if oldest.last().is_none_or(|last| last.group != group) {
                oldest.push(Oldest { group, sequence, deadline: each.deadline });
            }
        }
        let transfer = Self::late_transfer(&state);
        drop(state);
        let (cut_off, now) = (self.cut_off(), self.started.elapsed());
        let reaction = self.rules.check(oldest, cut_off, now).or_else(|| {
            let LateTransfer { slot, trouble, peer } = transfer?;
            self.rules.late_transfer(slot, peer, trouble, cut_off, now)
        });
        self.act(reaction);
    }

    /// Finds a transfer that has missed its deadline.
    fn late_transfer(state: &State) -> Option<LateTransfer> {
        let is_late =
            |each: &&RunningTransfer| !each.completion.over() && each.began.elapsed() > each.deadline;
        let RunningTransfer { task, group, began, .. } = state.transfers.values().find(is_late)?;
        let Task::Transfer { sends, peer, .. } = *task else { return None };
        let us = group.own_name();
        let seconds = began.elapsed().as_secs_f64();
        let what = match (sends, peer) {
            (true, _) => format!("has not received the message from rank {us}, after {seconds:.1} s"),
            (false, Some(_)) => {
                format!("has not sent the message that rank {us} waits for, after {seconds:.1} s")
            }
            (false, None) => {
                format!(
                    "has not sent the message that rank {us} waits for from any rank, after {seconds:.1} s"
                )
            }
        };
        let trouble = Trouble { kind: FaultKind::Deadline, what };
        Some(LateTransfer { slot: group.slot, trouble, peer })
    }

    /// Closes a group, because a member that it needs has left it.
    fn close_deserted_group(&self, slot: u32, member: u32) {
        let rank = self.job.book.name(member);
        let what = "has left the group, but other ranks still need it".to_owned();
        let trouble = Trouble { kind: FaultKind::Left, what };
        let fault = Arc::new(Fault { blame: Blame::Rank(rank), trouble, during: None });
        self.shared.close_group(slot, &fault, Some(member));
    }

    /// Handles trouble with a peer, given by its place in the job.
    fn trouble(&mut self, peer: u32, trouble: Trouble) {
        let peer = self.job.book.name(peer);
        let reaction = self.rules.trouble(peer, trouble, self.cut_off(), self.started.elapsed());
        self.act(reaction);
    }

    /// Reports to the coordinator that this rank has failed, and aborts.
    fn failed(&mut self, trouble: Trouble) {
        if let Some(coordinator) = self.coordinator.as_ref().filter(|_| !self.rules.decided()) {
            coordinator.report(self.own_name(), trouble.clone());
        }
        self.verdict(Blame::Rank(self.own_name()), trouble);
    }

    fn verdict(&mut self, blame: Blame, trouble: Trouble) {
        let reaction = self.rules.verdict(blame, trouble, self.cut_off());
        self.act(reaction);
    }

    /// Does what the rules say.
    fn act(&self, reaction: Option<Reaction>) {
        match (reaction, &self.coordinator) {
            (Some(Reaction::Report { peer: rank, trouble }), Some(coordinator)) => {
                coordinator.report(rank, trouble)
            }
            (Some(Reaction::Late(Late { group, sequence, trouble })), Some(coordinator)) => {
                let state = self.shared.lock();
                let group = state.groups.get(&group).map(|group| Arc::clone(&group.info));
                drop(state);
                // Nothing is late in a group that was left meanwhile.
                if let Some(group) = group {
                    coordinator.late(LateOperation {
                        group: group.id,
                        ranks: group.names(),
                        sequence,
                        trouble,
                    });
                }
            }
            (Some(Reaction::Abort { blame, trouble }), _) => self.abort(blame, trouble),
            _ => {}
        }
    }

    /// Passes on a proposal of this rank.
    fn propose_plans(&self, proposal: PlanProposal) {
        match &self.coordinator {
            Some(coordinator) if self.rules.has_coordinator() => coordinator.propose_plans(proposal),
            // Drops where the decision would arrive.
            _ => _ = self.shared.lock().proposals.remove(&proposal.request),
        }
    }

    /// Prepares plans on a thread of their own, because a long plan takes long to prove.
    fn prepare_plans(&self, edition: u32, proposal: PlanProposal) {
        let (shared, group) = (Arc::clone(&self.shared), proposal.group);
        let prepare = move || {
            let answer = shared.prepare_plans(edition, proposal);
            // Fails only if the job has ended.
            _ = shared.reports.send(Report::PlansPrepared { edition, group, answer });
        };
        let thread = std::thread::Builder::new().name("plans".to_owned()).spawn(prepare);
        if let Err(error) = thread {
            self.answer_plans(edition, group, Err(format!("a thread cannot start: {error}")));
        }
    }

    fn answer_plans(&self, edition: u32, group: u64, answer: Result<u64, String>) {
        if let Some(coordinator) = &self.coordinator {
            coordinator.answer_plans(edition, group, answer);
        }
    }

    /// Tells all lanes to abort. Operations fail once every lane has restored their inputs.
    fn abort(&self, blame: Blame, trouble: Trouble) {
        let mut state = self.shared.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(Arc::new(Fault { blame, trouble, during: None }));
        drop(state);
        self.shared.drop_undecided_plans();
        self.shared.lanes.iter().for_each(|lane| lane.send(Command::Abort));
    }

    /// Fails all operations and transfers under way, if there was a fault.
    fn fail_all(&self) {
        let mut state = self.shared.lock();
        let Some(fault) = state.failed.clone() else { return };
        // Before operations end: a caller may ask at once whether an input is lost.
        state.consumed = state.lost_input();
        let operations: Vec<(u64, RunningOperation)> = std::mem::take(&mut state.operations)
            .into_iter()
            .map(|((_, sequence), each)| (sequence, each))
            .collect();
        let transfers: Vec<RunningTransfer> = std::mem::take(&mut state.transfers).into_values().collect();
        drop(state);
        fail_all(&fault, operations, transfers);
    }

    /// Fails what is still under way when the communicator is dropped.
    fn fail_rest(&self) {
        self.shared.lock().failed.get_or_insert_with(|| {
            Arc::new(Fault { blame: Blame::Rank(self.own_name()), trouble: Trouble::left(), during: None })
        });
        // Wakes callers that wait for a decision.
        self.shared.drop_undecided_plans();
        self.fail_all();
    }
}
