//! Changes of a group's plans while it runs operations: see [`PlanBook`](syncline_protocol::plan_book).
//!
//! From the moment at which a rank has prepared new plans until it knows whether they apply, it begins no operation
//! beyond one that it has promised. It promises as many operations ahead as it has begun recently in the time that a
//! decision takes, so it seldom waits.

use super::group_info::GroupInfo;
use super::state::{GroupState, Shared, State};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use syncline_diagnostics::{Diagnostic, Diagnostics};
use syncline_membership::message::{PlanDecision, PlanProposal};
use syncline_protocol::policy::PlanPolicy;

/// Most changes that a group remembers.
const MAX_REMEMBERED: usize = 1 << 10;

/// How long a rank waits for its own program to make a group whose plans another rank changes.
const JOINING: Duration = Duration::from_secs(1);

/// The time for which operations are counted: a decision takes less.
const DECISION: Duration = Duration::from_millis(50);

/// A change of plans that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// The number of the edition.
    pub edition: u32,
    /// The rank that proposed it.
    pub proposer: u32,
    /// The first operation that runs by the new plans; or why all ranks keep the old ones.
    pub outcome: Result<u64, String>,
}

/// How many operations began recently.
#[derive(Debug)]
struct Pace {
    since: Instant,
    current: u64,
    before: u64,
}

impl Pace {
    /// How many operations are expected to begin until a decision is known.
    fn expected(&self, time: Instant) -> u64 {
        let recent = time.saturating_duration_since(self.since) < 2 * DECISION;
        if recent { self.current.max(self.before) } else { 0 }
    }

    fn count(&mut self, time: Instant) {
        if time.saturating_duration_since(self.since) >= DECISION {
            (self.since, self.before, self.current) = (time, self.current, 0);
        }
        self.current += 1;
    }
}

/// The changes of a group's plans: those decided, and one that may be under way.
#[derive(Debug)]
pub(super) struct PlanChanges {
    pace: Pace,
    /// The edition under way, its plans, and the last operation that may begin before the decision.
    open: Option<(u32, PlanPolicy, u64)>,
    /// The plans that were adopted last, and the number of their edition.
    pub adopted: Option<(u32, PlanPolicy)>,
    /// The first operation that runs by these.
    adopted_from: u64,
    pub decided: Vec<PlanChange>,
}

impl PlanChanges {
    pub(super) fn new() -> Self {
        let pace = Pace { since: Instant::now(), current: 0, before: 0 };
        Self { pace, open: None, adopted: None, adopted_from: 0, decided: Vec::new() }
    }

    /// Counts an operation that begins.
    pub(super) fn count(&mut self, time: Instant) {
        self.pace.count(time);
    }
}

impl GroupState {
    /// Whether the next operation must wait for a decision.
    fn waits_for_decision(&self) -> bool {
        self.failed.is_none() && self.changes.open.as_ref().is_some_and(|&(.., last)| self.newest >= last)
    }
}

impl Shared {
    /// Locks the state once the next operation of a group need not wait for a decision on its plans.
    pub(super) fn lock_for_next(&self, slot: u32) -> MutexGuard<'_, State> {
        let waits = |state: &mut State| {
            state.failed.is_none() && state.groups.get(&slot).is_some_and(GroupState::waits_for_decision)
        };
        let guard = self.decided.wait_while(self.lock(), waits);
        guard.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no decision on a group's plans is awaited.
    pub(super) fn wait_until_decided(&self, slot: u32) {
        let is_open = |state: &mut State| {
            let group = state.groups.get(&slot).filter(|group| group.failed.is_none());
            state.failed.is_none() && group.is_some_and(|group| group.changes.open.is_some())
        };
        drop(self.decided.wait_while(self.lock(), is_open));
    }

    /// Whether the next operation of a group must wait for a decision on its plans.
    pub(super) fn waits_for_decision(&self, slot: u32) -> bool {
        self.undecided.load(Ordering::Relaxed) > 0 && {
            let state = self.lock();
            state.failed.is_none() && state.groups.get(&slot).is_some_and(GroupState::waits_for_decision)
        }
    }

    /// Registers a proposal, and returns where its decision arrives.
    pub(super) fn register_proposal(
        &self,
        group: &GroupInfo,
        policy: PlanPolicy,
    ) -> Result<(PlanProposal, Receiver<PlanChange>), String> {
        let mut state = self.lock();
        let failed = state.groups.get(&group.slot).is_none_or(|group| group.failed.is_some());
        if state.failed.is_some() || failed {
            return Err("the job or the group has ended".to_owned());
        }
        state.newest_proposal += 1;
        let request = state.newest_proposal;
        let (sender, receiver) = std::sync::mpsc::channel();
        state.proposals.insert(request, sender);
        Ok((PlanProposal { group: group.id, ranks: group.names(), request, policy }, receiver))
    }

    /// Locks the state once this rank has made a group, for which it waits a moment: ranks make groups one after the
    /// other. `None` if it does not make it, has left it, or the job has ended.
    fn lock_with_group(&self, id: u64) -> Option<MutexGuard<'_, State>> {
        let began = Instant::now();
        loop {
            let state = self.lock();
            if state.failed.is_some() {
                return None;
            }
            match state.groups.values().find(|group| group.info.id == id) {
                Some(group) if group.failed.is_none() && !group.left => return Some(state),
                Some(_) => return None,
                None if began.elapsed() > JOINING => return None,
                None => {}
            }
            drop(state);
            std::thread::sleep(DECISION / 10);
        }
    }

    /// Prepares an edition of a group's plan book. Returns the last operation that this rank begins before it knows the
    /// decision, or why it cannot run the plans.
    pub(super) fn prepare_plans(&self, edition: u32, proposal: PlanProposal) -> Result<u64, String> {
        let PlanProposal { group: id, policy, .. } = proposal;
        let Some(state) = self.lock_with_group(id) else { return Err("it is not in the group".to_owned()) };
        let group = state.groups.values().find(|group| group.info.id == id).expect("it is there");
        let (info, next) = (Arc::clone(&group.info), group.newest + 1);
        // A lane may not have begun an operation that is under way, and still learn of it from a peer.
        let mut under_way = state.operations.range((info.slot, 0)..(info.slot + 1, 0));
        let oldest = under_way.next().map_or(next, |(&(_, sequence), _)| sequence);
        drop(state);
        let ranks = if info.slot == 0 { info.names() } else { (0..info.book.ranks()).collect() };
        let highest = ranks.iter().max().copied().unwrap_or(0) as usize;
        if policy.racks.as_ref().is_some_and(|racks| racks.len() <= highest) {
            return Err(format!("they have no rack for rank {highest}"));
        }
        let mut left_out = Vec::new();
        let selection = policy.select(&ranks, &mut left_out).map_err(|error| first_message(&error))?;
        if let Some(plan) = left_out.first() {
            return Err(format!("`{plan}` cannot run on {} ranks", ranks.len()));
        }
        info.book.prepare(edition, selection, oldest).map_err(|error| first_message(&error))?;
        let mut state = self.lock();
        // The decision may have arrived meanwhile, which can only be to keep the plans; or none arrives any more.
        if state.undecidable || state.decided_editions.contains(&edition) {
            info.book.drop_prepared(edition);
            return Err("it was too late".to_owned());
        }
        let there = |group: &&mut GroupState| group.info.id == id && group.failed.is_none() && !group.left;
        let Some(group) = state.groups.get_mut(&info.slot).filter(there) else {
            info.book.drop_prepared(edition);
            return Err("it has left the group".to_owned());
        };
        let changes = &mut group.changes;
        let soon = group.newest + changes.pace.expected(Instant::now()) + 1;
        // A later edition applies from a later operation on.
        let promise = soon.max(changes.adopted_from);
        if changes.open.replace((edition, policy, promise)).is_none() {
            self.undecided.fetch_add(1, Ordering::Relaxed);
        }
        Ok(promise)
    }

    /// Carries out a decision on a group's plans.
    pub(super) fn decide_plans(&self, decision: PlanDecision) {
        let PlanDecision { group: id, proposer, request, edition, outcome } = decision;
        let mut state = self.lock();
        let change = PlanChange { edition, proposer, outcome };
        if state.decided_editions.len() == MAX_REMEMBERED {
            state.decided_editions.pop_front();
        }
        state.decided_editions.push_back(edition);
        let own = state.groups[&0].info.own_name();
        if let Some(group) = state.groups.values_mut().find(|group| group.info.id == id && !group.left) {
            if let Some((_, policy, _)) = group.changes.open.take_if(|(number, ..)| *number == edition) {
                self.undecided.fetch_sub(1, Ordering::Relaxed);
                match change.outcome {
                    Ok(from) if group.info.book.adopt(edition, from) => {
                        group.changes.adopted = Some((edition, policy));
                        group.changes.adopted_from = from;
                    }
                    _ => group.info.book.drop_prepared(edition),
                }
            }
            // Other ranks know nothing of a proposal that was refused at once.
            if edition > 0 {
                if group.changes.decided.len() == MAX_REMEMBERED {
                    group.changes.decided.remove(0);
                }
                group.changes.decided.push(change.clone());
            }
        }
        if proposer == own
            && let Some(sender) = state.proposals.remove(&request)
        {
            // Fails only if the caller no longer waits.
            _ = sender.send(change);
        }
        drop(state);
        self.decided.notify_all();
    }

    /// Keeps the plans in force of a group.
    pub(super) fn drop_undecided(&self, group: &mut GroupState) {
        if let Some((edition, ..)) = group.changes.open.take() {
            self.undecided.fetch_sub(1, Ordering::Relaxed);
            group.info.book.drop_prepared(edition);
        }
    }

    /// Keeps the plans in force of all groups: no decision can arrive any more.
    pub(super) fn drop_undecided_plans(&self) {
        let mut state = self.lock();
        state.undecidable = true;
        state.groups.values_mut().for_each(|group| self.drop_undecided(group));
        state.proposals.clear();
        drop(state);
        self.decided.notify_all();
    }
}

/// The first of an error's messages, and what was found, as a clause.
fn first_message(error: &Diagnostics) -> String {
    error.0.first().map_or_else(String::new, |Diagnostic { message, found, .. }| match found {
        Some(found) => format!("{message}: {found}"),
        None => message.clone(),
    })
}
