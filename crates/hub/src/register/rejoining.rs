//! Lets workers begin, and lets restarted workers take part again.
//!
//! Under [`LossPolicy::Shrink`] a worker that takes part, the *leader*, announces a restarted worker to all cores of all
//! hubs, so that all cores admit it at the same step. Otherwise, and if no worker is left to announce it, the restarted
//! worker continues where it was.

use super::{Action, Register, State};
use crate::message::FromHub;
use crate::shard::{Attempt, Joined};
use crate::terms::{LossPolicy, StepMode};
use std::collections::BTreeMap;

/// A restarted worker that wants to take part again.
#[derive(Debug)]
pub(super) struct Rejoining {
    /// The number of the attempt. Reports about earlier ones do not count.
    attempt: u64,
    /// The control connection of the leader, if one announces the worker. All cores must report the same steps then.
    leader: Option<u32>,
    /// What each core has reported: for each vector with chunks there, the steps that the worker has completed.
    reports: BTreeMap<u32, BTreeMap<u32, u64>>,
}

impl Register {
    /// Marks a worker as connected to all cores. It begins, or waits until it may.
    pub(super) fn enlist(&mut self, connection: u32, name: &str, worker: u32) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        job.workers[worker as usize] = State::Ready(connection);
        if !job.begun {
            if job.workers.iter().all(|state| matches!(state, State::Ready(_) | State::OtherRack)) {
                job.begun = true;
                if let Some(above) = job.saves.outdates() {
                    self.actions.push(Action::RemoveSaves { job: name.to_owned(), above });
                }
                (0..job.workers.len() as u32).for_each(|worker| self.begin(name, worker, true));
            }
        } else if job.contract.terms.step_mode == StepMode::Asynchronous {
            self.begin(name, worker, false);
        } else {
            self.rejoin(name);
        }
    }

    /// Starts an attempt to rejoin for each restarted worker that has none, or whose leader is gone.
    pub(super) fn rejoin(&mut self, name: &str) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let first_active = job.workers.iter().find_map(|state| match state {
            State::Active(connection) => Some(*connection),
            _ => None,
        });
        let leader = first_active.filter(|_| job.contract.terms.policy == LossPolicy::Shrink);
        for (worker, state) in (0u32..).zip(&job.workers) {
            if !matches!(state, State::Ready(_)) {
                continue;
            }
            let incarnation = job.incarnations[worker as usize];
            // Ask each leader only once.
            if leader.is_some()
                && job.rejoining.get(&worker).is_some_and(|rejoining| rejoining.leader == leader)
            {
                continue;
            }
            self.attempts += 1;
            let attempt = Attempt { incarnation, number: self.attempts };
            match leader {
                Some(leader) => {
                    self.actions.push(Action::Expect { job: job.number, worker, attempt });
                    let message = FromHub::Newcomer { worker, incarnation };
                    self.actions.push(Action::Send { connection: leader, message });
                }
                None => self.actions.push(Action::Resume { job: job.number, worker, attempt }),
            }
            let rejoining = Rejoining { attempt: self.attempts, leader, reports: BTreeMap::new() };
            job.rejoining.insert(worker, rejoining);
        }
    }

    /// Lets a waiting worker begin.
    fn begin(&mut self, name: &str, worker: u32, fresh: bool) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        let (State::Ready(connection) | State::Active(connection)) = job.workers[worker as usize] else {
            return;
        };
        job.workers[worker as usize] = State::Active(connection);
        let keys = job.contract.catalogue.keys().len() as u32;
        // Keep the entry: if a leader must announce the worker again at another hub, it does so here, too.
        let rejoining = job.rejoining.get(&worker);
        let behind = |key| {
            let reports = rejoining.into_iter().flat_map(|rejoining| rejoining.reports.values());
            reports.filter_map(move |core| core.get(&key)).min()
        };
        // No core reports a vector without chunks at this hub, so this hub does not know its steps.
        let fresh_steps = rejoining.is_none().then_some(0);
        // A restarted hub continues from a save. Every rank learns from which step.
        let restored = job.saves.steps.as_ref().filter(|_| rejoining.is_none());
        let steps = match restored {
            Some(steps) => steps.clone(),
            None => (0..keys).map(|key| behind(key).copied().or(fresh_steps)).collect(),
        };
        let synchronous = job.contract.terms.step_mode == StepMode::Synchronous;
        let exact = match restored {
            Some(_) => synchronous,
            None => rejoining.is_some_and(|rejoining| rejoining.leader.is_some()),
        };
        let fresh = fresh && restored.is_none();
        self.send(connection, FromHub::Begin { steps, fresh, exact });
    }

    /// Handles a core's report of the steps that a restarted worker has done, of each vector with chunks there. The
    /// worker begins once all cores have reported about its latest attempt.
    pub fn rejoined(&mut self, core: u32, Joined { job, worker, attempt, steps }: Joined) {
        let cores = self.cores as usize;
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == job) else { return };
        let rejoining =
            job.rejoining.get_mut(&worker).filter(|rejoining| rejoining.attempt == attempt.number);
        let Some(Rejoining { leader, reports, .. }) = rejoining else { return };
        reports.insert(core, steps);
        // With a leader, cores agree once the same announcement has reached all of them.
        let agree = (0..job.contract.catalogue.keys().len() as u32).all(|key| {
            let mut known = reports.values().filter_map(|core| core.get(&key));
            let first = known.next();
            leader.is_none() || known.all(|each| Some(each) == first)
        });
        if reports.len() == cores && agree {
            let name = name.clone();
            self.begin(&name, worker, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_hub::{Hub, terms};
    use super::*;
    use syncline_protocol::fault::Trouble;

    #[test]
    fn a_leader_announces_a_restarted_rank() {
        let mut hub = Hub::begun("shrink");
        hub.0.disconnected(1, Trouble::closed("reset"));
        assert!(matches!(hub.0.actions()[..], [Action::LoseWorker { job: 1, worker: 1 }]));
        hub.open(5, 1, &terms(2, "shrink"));
        hub.ready(5);
        let actions = hub.0.actions();
        assert!(
            actions.iter().any(|action| matches!(
                action,
                Action::Expect { job: 1, worker: 1, attempt: Attempt { incarnation: 5, number: 1 } }
            )),
            "{actions:?}"
        );
        assert_eq!(Hub::sent(&actions, 0), [&FromHub::Newcomer { worker: 1, incarnation: 5 }]);
        // Reports about earlier attempts do not count, and the rank does not begin before cores agree.
        hub.rejoined(1, 0, [3, 3]);
        hub.rejoined(1, 1, [3, 4]);
        assert!(hub.0.actions().is_empty());
        hub.rejoined(1, 1, [4, 4]);
        let actions = hub.0.actions();
        let begin = FromHub::Begin { steps: vec![Some(4)], fresh: false, exact: true };
        assert_eq!(Hub::sent(&actions, 5).last(), Some(&&begin), "{actions:?}");
        // An announcement that was meant for another hub has reached the cores here, too.
        hub.rejoined(1, 1, [5, 5]);
        let actions = hub.0.actions();
        let begin = FromHub::Begin { steps: vec![Some(5)], fresh: false, exact: true };
        assert_eq!(Hub::sent(&actions, 5), [&begin], "{actions:?}");
    }

    #[test]
    fn another_rank_announces_a_restarted_rank_if_the_leader_is_lost() {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        for connection in 0..3 {
            hub.open(connection, connection, &terms(3, "shrink"));
            hub.ready(connection);
        }
        hub.0.disconnected(2, Trouble::closed("reset"));
        hub.open(5, 2, &terms(3, "shrink"));
        hub.ready(5);
        hub.0.actions();
        hub.0.disconnected(0, Trouble::closed("reset"));
        let actions = hub.0.actions();
        assert_eq!(Hub::sent(&actions, 1), [&FromHub::Newcomer { worker: 2, incarnation: 5 }]);
        // No leader is left: the restarted rank continues where it was.
        hub.0.disconnected(1, Trouble::closed("reset"));
        assert!(hub.0.actions().iter().any(|action| matches!(
            action,
            Action::Resume { job: 1, worker: 2, attempt: Attempt { incarnation: 5, number: 3 } }
        )));
        // Reports about the earlier attempt come too late.
        hub.rejoined(2, 2, [5, 5]);
        assert!(hub.0.actions().is_empty());
        hub.rejoined(2, 3, [7, 6]);
        let actions = hub.0.actions();
        let begin = FromHub::Begin { steps: vec![Some(6)], fresh: false, exact: false };
        assert_eq!(Hub::sent(&actions, 5).last(), Some(&&begin), "{actions:?}");
    }
}
