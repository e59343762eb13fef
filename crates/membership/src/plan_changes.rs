//! Changes of plans while a job runs: all ranks of a group prepare the new plans, then adopt them from the same
//! operation on, or all keep the old ones.
//!
//! A rank that has prepared an edition promises a last operation that it begins before it knows the decision. The new
//! plans apply from the first operation after all promises, so no rank has begun it. Ranks promise operations ahead, so
//! that they need not wait.

use super::message::{FromCoordinator, PlanDecision, PlanProposal};
use std::collections::BTreeMap;
use std::time::Duration;
use syncline_units::rank_list;

/// How long ranks have to answer whether they can run new plans.
const PATIENCE: Duration = Duration::from_secs(2);

/// A change that is not decided.
#[derive(Debug)]
struct Change {
    edition: u32,
    proposer: u32,
    proposal: PlanProposal,
    opened: Duration,
    /// The last operation that each rank begins before it knows the decision.
    promises: BTreeMap<u32, u64>,
}

/// The changes of plans of all groups of an epoch.
#[derive(Debug, Default)]
pub(crate) struct PlanChanges {
    editions: u32,
    /// By group.
    open: BTreeMap<u64, Change>,
    out: Vec<(u32, FromCoordinator)>,
}

impl PlanChanges {
    /// Handles a proposal. `absent` says which of the group's ranks take no part, or no longer.
    pub(crate) fn propose(
        &mut self,
        proposer: u32,
        proposal: PlanProposal,
        absent: impl Fn(u32) -> bool,
        now: Duration,
    ) {
        let absent: Vec<u32> = proposal.ranks.iter().copied().filter(|&rank| absent(rank)).collect();
        let refusal = if absent.is_empty() {
            let other = self.open.get(&proposal.group).map(|change| change.proposer);
            other.map(|rank| format!("rank {rank} has proposed other plans, which are not decided yet"))
        } else {
            Some(format!("{} left the job", rank_list(&absent)))
        };
        if let Some(why) = refusal {
            let decision = PlanDecision {
                group: proposal.group,
                proposer,
                request: proposal.request,
                edition: 0,
                outcome: Err(why),
            };
            self.out.push((proposer, FromCoordinator::DecidePlans(decision)));
            return;
        }
        self.editions += 1;
        let edition = self.editions;
        for &rank in &proposal.ranks {
            let proposal = proposal.clone();
            self.out.push((rank, FromCoordinator::PreparePlans { edition, proposal }));
        }
        let change = Change { edition, proposer, opened: now, promises: BTreeMap::new(), proposal };
        self.open.insert(change.proposal.group, change);
    }

    /// Handles a rank's answer.
    pub(crate) fn answer(&mut self, rank: u32, edition: u32, group: u64, answer: Result<u64, String>) {
        let Some(change) = self.open.get_mut(&group).filter(|change| change.edition == edition) else {
            return;
        };
        match answer {
            Err(why) => self.decide(group, Err(format!("rank {rank} cannot run the new plans: {why}"))),
            Ok(promise) => {
                change.promises.insert(rank, promise);
                if change.proposal.ranks.iter().all(|rank| change.promises.contains_key(rank)) {
                    let from = change.promises.values().max().map_or(1, |last| last + 1);
                    self.decide(group, Ok(from));
                }
            }
        }
    }

    /// Keeps the old plans of groups with a rank that has left.
    pub(crate) fn left(&mut self, rank: u32) {
        let with_rank = self.open.values().filter(|change| change.proposal.ranks.contains(&rank));
        let groups: Vec<u64> = with_rank.map(|change| change.proposal.group).collect();
        for group in groups {
            self.decide(group, Err(format!("rank {rank} left the job")));
        }
    }

    /// Keeps the old plans of groups whose ranks have not all answered in time.
    pub(crate) fn tick(&mut self, now: Duration) {
        let late = self.open.values().filter(|change| now.saturating_sub(change.opened) >= PATIENCE);
        let late: Vec<(u64, Vec<u32>)> = late
            .map(|Change { proposal, promises, .. }| {
                let silent = |rank: &u32| !promises.contains_key(rank);
                (proposal.group, proposal.ranks.iter().copied().filter(silent).collect())
            })
            .collect();
        for (group, silent) in late {
            let seconds = PATIENCE.as_secs();
            let why = format!("{} did not confirm the new plans within {seconds} s", rank_list(&silent));
            self.decide(group, Err(why));
        }
    }

    /// Returns the messages to send, each with its receiver.
    pub(crate) fn take_messages(&mut self) -> Vec<(u32, FromCoordinator)> {
        std::mem::take(&mut self.out)
    }

    fn decide(&mut self, group: u64, outcome: Result<u64, String>) {
        let Some(Change { edition, proposer, proposal, .. }) = self.open.remove(&group) else { return };
        let decision = PlanDecision { group, proposer, request: proposal.request, edition, outcome };
        for rank in proposal.ranks {
            self.out.push((rank, FromCoordinator::DecidePlans(decision.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::policy;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn proposal(ranks: &[u32]) -> PlanProposal {
        PlanProposal { group: 0, ranks: ranks.to_vec(), request: 5, policy: policy() }
    }

    /// Returns the ranks that were asked to prepare plans, and the decision that each rank received.
    fn sent(changes: &mut PlanChanges) -> (Vec<u32>, BTreeMap<u32, Result<u64, String>>) {
        let (mut prepare, mut decided) = (Vec::new(), BTreeMap::new());
        for (rank, message) in changes.take_messages() {
            match message {
                FromCoordinator::PreparePlans { .. } => prepare.push(rank),
                FromCoordinator::DecidePlans(decision) => {
                    assert_eq!(decision.request, 5);
                    decided.insert(rank, decision.outcome);
                }
                other => panic!("{other:?}"),
            }
        }
        (prepare, decided)
    }

    #[test]
    fn plans_apply_after_the_last_operation_that_a_rank_promised() {
        let mut changes = PlanChanges::default();
        changes.propose(2, proposal(&[0, 1, 2]), |_| false, ms(0));
        assert_eq!(sent(&mut changes).0, [0, 1, 2]);
        changes.answer(0, 1, 0, Ok(7));
        changes.answer(2, 1, 0, Ok(11));
        // An answer to another edition counts for nothing.
        changes.answer(1, 2, 0, Ok(99));
        changes.tick(ms(1999));
        assert!(sent(&mut changes).1.is_empty());
        changes.answer(1, 1, 0, Ok(3));
        assert_eq!(sent(&mut changes).1, (0..3).map(|rank| (rank, Ok(12))).collect());
        changes.tick(ms(9000));
        assert!(changes.take_messages().is_empty());
    }

    #[test]
    fn all_ranks_keep_the_old_plans_if_one_refuses_is_silent_or_leaves() {
        type Way = fn(&mut PlanChanges);
        let ways: [(Way, &str); 3] = [
            (|changes| changes.answer(1, 1, 0, Err("no".to_owned())), "rank 1 cannot run the new plans: no"),
            (|changes| changes.tick(ms(2000)), "ranks 1, 2 did not confirm the new plans within 2 s"),
            (|changes| changes.left(2), "rank 2 left the job"),
        ];
        for (way, why) in ways {
            let mut changes = PlanChanges::default();
            changes.propose(0, proposal(&[0, 1, 2]), |_| false, ms(0));
            changes.answer(0, 1, 0, Ok(7));
            sent(&mut changes);
            way(&mut changes);
            let outcomes = sent(&mut changes).1;
            assert_eq!(outcomes, (0..3).map(|rank| (rank, Err(why.to_owned()))).collect());
            // The rank that answers later changes nothing, and the next proposal is another edition.
            changes.answer(2, 1, 0, Ok(7));
            assert!(changes.take_messages().is_empty());
            changes.propose(0, proposal(&[0, 1, 2]), |_| false, ms(3000));
            let messages = changes.take_messages();
            assert!(matches!(messages[0].1, FromCoordinator::PreparePlans { edition: 2, .. }));
        }
    }

    #[test]
    fn only_the_rank_that_proposes_hears_of_a_proposal_that_is_refused_at_once() {
        let mut changes = PlanChanges::default();
        changes.propose(0, proposal(&[0, 1, 2]), |rank| rank == 2, ms(0));
        let refused = BTreeMap::from([(0, Err("rank 2 left the job".to_owned()))]);
        assert_eq!(sent(&mut changes), (vec![], refused));
        changes.propose(0, proposal(&[0, 1]), |_| false, ms(0));
        changes.propose(1, proposal(&[0, 1]), |_| false, ms(0));
        let (prepare, decided) = sent(&mut changes);
        assert_eq!((prepare, decided.keys().copied().collect::<Vec<_>>()), (vec![0, 1], vec![1]));
    }
}
