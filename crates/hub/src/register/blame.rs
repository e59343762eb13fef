//! Decides who is at fault when a worker or a hub is lost, or an exchange takes too long.

use super::{Action, Connection, EventKind, Register, RegisteredJob, State};
use crate::shard::{Blocked, Waits};
use crate::terms::LossPolicy;
use std::collections::btree_map::Entry;
use std::time::Duration;
use syncline_protocol::fault::{Blame, FaultKind, Trouble};

/// The most characters of a worker's description of a trouble.
const LONGEST_WHAT: usize = 1 << 10;

/// A late worker's question: which workers does it wait for?
#[derive(Debug)]
pub(super) struct Inquiry {
    since: Duration,
    /// How many cores have reported.
    reports: u32,
    /// What they have reported, together.
    waits: Waits,
}

/// A connection that a worker has lost. The hub may be at fault, or the worker.
#[derive(Debug)]
pub(super) struct LostConnection {
    /// The other hub that the connection led to; `None` if it led to a core of this hub.
    hub: Option<u32>,
    trouble: Trouble,
    since: Duration,
}

impl Register {
    /// Handles the loss of a control connection.
    pub fn disconnected(&mut self, connection: u32, trouble: Trouble) {
        let Some(Connection { job, worker, .. }) = self.connections.get(&connection) else { return };
        let (name, worker) = (job.clone(), *worker);
        self.release(connection);
        // A worker that has reported the loss of another hub ends because of that, which is decided soon.
        let reported = self.jobs.get(&name).and_then(|job| job.lost_connections.get(&worker));
        if reported.is_none_or(|lost| lost.hub.is_none()) {
            self.remove_worker(connection, &name, worker, State::Lost(trouble));
        }
    }

    /// Handles the loss of the connection between a worker and a core. Under [`LossPolicy::Fail`], the worker may still
    /// report why.
    pub fn core_connection_lost(&mut self, job: u32, worker: u32, trouble: Trouble, now: Duration) {
        let known = self.jobs.values_mut().find(|known| known.number == job);
        if let Some(known) = known
            && known.begun
            && known.contract.terms.policy == LossPolicy::Fail
            && trouble.kind == FaultKind::Closed
        {
            known.lost_connections.entry(worker).or_insert(LostConnection { hub: None, trouble, since: now });
        } else {
            self.expel(job, worker, trouble);
        }
    }

    /// Handles the loss of the hub of another rack.
    pub fn rack_lost(&mut self, job: u32, rack: u32, trouble: Trouble) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let name = name.clone();
        // A rack that has completed all steps may end first.
        if known.is_deserted() {
            return;
        }
        self.fail(&name, Blame::Rack(rack), trouble);
    }

    /// Handles a core's report that a job cannot go on without a worker that is gone.
    pub fn worker_missed(&mut self, job: u32, worker: u32) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let trouble = match &known.workers[worker as usize] {
            State::Lost(trouble) => trouble.clone(),
            State::Left => Trouble::left(),
            _ => return,
        };
        let name = name.clone();
        self.fail(&name, Blame::Rank(worker), trouble);
    }

    /// Removes a worker as lost, and sends it the verdict. The job goes on without it or fails, as its policy says.
    fn expel(&mut self, job: u32, worker: u32, trouble: Trouble) {
        let Some((name, known)) = self.jobs.iter().find(|(_, known)| known.number == job) else { return };
        let name = name.clone();
        let Some(connection) = known.workers[worker as usize].connection() else { return };
        self.send_verdict(connection, Blame::Rank(worker), trouble.clone());
        self.remove_worker(connection, &name, worker, State::Lost(trouble));
    }

    /// Handles a worker that gives up. Under [`LossPolicy::Fail`] the job fails, for the reason that the worker or
    /// another hub has found; under other policies only the worker leaves.
    pub(super) fn gives_up(
        &mut self,
        connection: u32,
        name: &str,
        worker: u32,
        blame: Blame,
        mut trouble: Trouble,
        now: Duration,
    ) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if !job.begun || job.contract.terms.policy != LossPolicy::Fail {
            job.hub_lost |= matches!(blame, Blame::Hub(_));
            self.release(connection);
            return self.remove_worker(connection, name, worker, State::Left);
        }
        trouble.what = trouble.what.chars().take(LONGEST_WHAT).collect();
        match (blame, &job.hubs) {
            // If the hub is lost, and not only this worker's connection to it, other workers report it, too.
            (Blame::Hub(hub), Some(list)) if hub != list.own && (hub as usize) < list.hubs.len() => {
                let lost = LostConnection { hub: Some(hub), trouble, since: now };
                job.lost_connections.insert(worker, lost);
                self.decide(now);
            }
            (Blame::Rank(rank), _) if rank < job.contract.terms.workers => self.fail(name, blame, trouble),
            (Blame::Rack(_) | Blame::SomeRank, _) => self.fail(name, blame, trouble),
            _ => self.fail(name, Blame::Rank(worker), trouble),
        }
    }

    /// Decides lost connections and inquiries that have waited long enough for others to report the same.
    pub(super) fn decide(&mut self, now: Duration) {
        let grace = self.heartbeats.patience().interval * 3 / 2;
        let (mut verdicts, mut answered, mut expelled) = (Vec::new(), Vec::new(), Vec::new());
        for (name, job) in &self.jobs {
            for (&worker, LostConnection { hub, trouble, since }) in &job.lost_connections {
                let due = now >= *since + grace;
                let Some(lost) = hub else {
                    expelled.extend(due.then(|| (job.number, worker, trouble.clone())));
                    continue;
                };
                let confirmed = job.lost_connections.values().filter(|other| other.hub == *hub).count() > 1;
                if confirmed || job.workers.iter().filter(|state| state.connection().is_some()).count() <= 1 {
                    verdicts.push((name.clone(), Blame::Hub(*lost), trouble.clone()));
                } else if due {
                    let trouble =
                        Trouble { what: format!("has lost hub {lost}, which {trouble}"), ..trouble.clone() };
                    verdicts.push((name.clone(), Blame::Rank(worker), trouble));
                }
            }
            let due = |(_, inquiry): &(&u32, &Inquiry)| {
                inquiry.reports >= self.cores && now >= inquiry.since + self.heartbeats.patience().interval
            };
            answered.extend(job.inquiries.iter().filter(due).map(|(&asker, _)| (name.clone(), asker)));
        }
        verdicts.into_iter().for_each(|(name, blame, trouble)| self.fail(&name, blame, trouble));
        expelled.into_iter().for_each(|(job, worker, trouble)| self.expel(job, worker, trouble));
        answered.into_iter().for_each(|(name, asker)| self.answer(&name, asker));
    }

    /// Handles a worker that has waited too long: for the job to begin, to rejoin, or for a step of a vector.
    pub(super) fn late(
        &mut self,
        connection: u32,
        name: &str,
        worker: u32,
        key: u32,
        step: u64,
        now: Duration,
    ) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        if let Some(planning) = &mut job.planning {
            // Answer once the plan is known: the hub may refuse the job for want of memory.
            planning.late.insert(worker, connection);
            return;
        }
        if !job.begun {
            return self.begins_too_late(name);
        }
        if job.workers[worker as usize] != State::Active(connection) {
            // A worker that does not take part yet blocks no other.
            let what = "was not admitted in time by the ranks that take part in the job".to_owned();
            let trouble = Trouble { kind: FaultKind::Deadline, what };
            self.send_verdict(connection, Blame::Rank(worker), trouble);
            return self.remove_worker(connection, name, worker, State::Left);
        }
        if key as usize >= job.contract.catalogue.keys().len() {
            return;
        }
        if let Entry::Vacant(entry) = job.inquiries.entry(worker) {
            entry.insert(Inquiry { since: now, reports: 0, waits: Waits::default() });
            self.actions.push(Action::ReportWaits { job: job.number, worker, key, step });
        }
    }

    /// Ends a job that has not begun in time. Blames the first rank that is not ready.
    pub(super) fn begins_too_late(&mut self, name: &str) {
        let Some(job) = self.jobs.get(name) else { return };
        let absent = (0u32..)
            .zip(&job.workers)
            .find(|(_, state)| !matches!(state, State::Ready(_) | State::OtherRack));
        let different = absent.and_then(|(worker, _)| job.different.get(&worker));
        let what = match different {
            Some(what) => format!("asked to join with different terms than the job's: {what}"),
            None => "has not joined".to_owned(),
        };
        let trouble = Trouble { kind: FaultKind::Deadline, what };
        let blame = absent.map_or(Blame::SomeRank, |(worker, _)| Blame::Rank(worker));
        self.fail(name, blame, trouble);
    }

    /// Adds a core's report of the workers that a late worker waits for there ([`Action::ReportWaits`]).
    pub fn waits_reported(&mut self, number: u32, asker: u32, waits: Waits) {
        let Some(job) = self.jobs.values_mut().find(|known| known.number == number) else { return };
        let Some(inquiry) = job.inquiries.get_mut(&asker) else { return };
        inquiry.reports += 1;
        inquiry.waits.blocked = inquiry.waits.blocked.take().or(waits.blocked);
        inquiry.waits.waiting.extend(waits.waiting);
    }

    /// Decides the inquiry of a late worker about which all cores have reported. Does nothing if the worker waits for
    /// no other worker here: it has gone on since, or it waits at another hub.
    fn answer(&mut self, name: &str, asker: u32) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        // Workers that ask wait, too, perhaps at another hub.
        let asking: Vec<u32> = job.inquiries.keys().copied().collect();
        let Some(Waits { blocked: Some(Blocked { chunk, step, missing }), mut waiting }) =
            job.inquiries.remove(&asker).map(|inquiry| inquiry.waits)
        else {
            return;
        };
        waiting.extend(asking);
        let number = job.number;
        // A worker that waits for others has usually not pushed because of them.
        let (blocked, idle): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|worker| waiting.contains(worker));
        let at_fault = if idle.is_empty() { blocked } else { idle };
        let key = job.contract.name(chunk);
        let trouble = |worker: u32| {
            let what = match &job.workers[worker as usize] {
                State::Lost(trouble) => format!("{trouble}, and has not rejoined"),
                State::Left => "has left, but other ranks still need it".to_owned(),
                _ => format!("has not pushed `{key}` (step {step}), and other ranks wait for it"),
            };
            (worker, Trouble { kind: FaultKind::Deadline, what })
        };
        let at_fault: Vec<_> = at_fault.into_iter().map(trouble).collect();
        if job.contract.terms.policy == LossPolicy::Shrink {
            at_fault.into_iter().for_each(|(worker, trouble)| self.expel(number, worker, trouble));
        } else if let Some((worker, trouble)) = at_fault.into_iter().next() {
            self.fail(name, Blame::Rank(worker), trouble);
        }
    }

    /// Ends a job, and sends the verdict to all its workers.
    pub(super) fn fail(&mut self, name: &str, blame: Blame, trouble: Trouble) {
        let Some(RegisteredJob { number, workers, .. }) = self.jobs.remove(name) else { return };
        for connection in workers.iter().filter_map(State::connection) {
            self.send_verdict(connection, blame, trouble.clone());
        }
        self.actions.push(Action::EndJob { job: number });
        self.note(EventKind::JobFailed, name, None, Some(format!("{blame} {trouble}")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_hub::{Hub, NOW, SOON, terms};
    use super::*;
    use crate::assignment::Cores;
    use crate::message::{FromHub, FromWorker};
    use crate::status::RankState::{Active, Left, Lost};

    /// A job of four ranks that has begun. Ranks 0 and 1 are late.
    fn two_late_ranks(policy: &str) -> Hub {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        for connection in 0..4 {
            hub.open(connection, connection, &terms(4, policy));
            hub.ready(connection);
        }
        hub.0.actions();
        for connection in 0..2 {
            hub.0.received(connection, FromWorker::Late { key: 0, step: 7 }, 0, NOW);
            // A rank that asks again before it has an answer starts no second inquiry.
            hub.0.received(connection, FromWorker::Late { key: 0, step: 7 }, 0, NOW);
        }
        let asked = hub.0.actions();
        assert!(
            matches!(
                asked[..],
                [
                    Action::ReportWaits { job: 1, worker: 0, key: 0, step: 7 },
                    Action::ReportWaits { job: 1, worker: 1, key: 0, step: 7 }
                ]
            ),
            "{asked:?}"
        );
        hub
    }

    /// A core's report: which ranks are missing at a chunk, and which ranks wait.
    fn report(missing: &[u32], waiting: &[u32]) -> Waits {
        let blocked = Blocked { chunk: 0, step: 7, missing: missing.to_vec() };
        let blocked = (!missing.is_empty()).then_some(blocked);
        Waits { blocked, waiting: waiting.iter().copied().collect() }
    }

    #[test]
    fn all_ranks_that_block_others_are_lost_and_no_other() {
        let mut hub = two_late_ranks("shrink");
        hub.0.waits_reported(1, 0, report(&[], &[]));
        hub.0.waits_reported(1, 0, report(&[1, 2, 3], &[0]));
        hub.0.tick(NOW);
        assert!(hub.0.actions().is_empty());
        // Rank 1 waits itself: it has asked, too.
        hub.0.tick(SOON);
        assert_eq!(hub.0.jobs(NOW)[0].workers, [Active, Active, Lost, Lost]);
        let actions = hub.0.actions();
        let verdict = |connection| {
            let at_fault = Blame::Rank(connection);
            let sent = Hub::sent(&actions, connection);
            sent.iter().any(|message| matches!(message, FromHub::Verdict { blame, .. } if *blame == at_fault))
        };
        assert!(verdict(2) && verdict(3), "{actions:?}");
        // No rank blocks rank 1 any more.
        hub.0.waits_reported(1, 1, report(&[], &[]));
        hub.0.waits_reported(1, 1, report(&[], &[]));
        hub.0.tick(SOON);
        assert_eq!(hub.0.jobs(NOW)[0].workers, [Active, Active, Lost, Lost]);
        assert!(hub.0.actions().is_empty());
    }

    #[test]
    fn the_first_rank_is_at_fault_if_all_wait_for_each_other() {
        let mut hub = two_late_ranks("fail");
        hub.0.waits_reported(1, 0, report(&[1], &[0, 1]));
        hub.0.waits_reported(1, 0, report(&[], &[0, 1]));
        hub.0.tick(SOON);
        let actions = hub.0.actions();
        for connection in 0..4 {
            let sent = Hub::sent(&actions, connection);
            assert!(matches!(sent.last(), Some(FromHub::Verdict { blame: Blame::Rank(1), .. })), "{sent:?}");
        }
        assert!(hub.0.jobs(NOW).is_empty());
    }

    /// A job of three ranks that has begun on two hubs. This hub is the first.
    fn at_two_hubs(policy: &str) -> Hub {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        for connection in 0..3 {
            hub.open(connection, connection, &terms(3, policy));
            let hubs = vec![Cores { cores: 2, interfaces: 1 }; 2];
            hub.0.received(connection, FromWorker::Ready { hubs, hub: 0, save: None }, 0, NOW);
            hub.plan();
        }
        hub.0.actions();
        hub
    }

    /// The rank or hub at fault in the verdict that all three ranks get, if they get one.
    fn verdict(hub: &mut Hub) -> Option<Blame> {
        let actions = hub.0.actions();
        let blamed = |connection| {
            Hub::sent(&actions, connection).into_iter().find_map(|message| match message {
                FromHub::Verdict { blame, .. } => Some(*blame),
                _ => None,
            })
        };
        let first = blamed(0);
        assert!((1..3).all(|connection| blamed(connection) == first), "{actions:?}");
        first
    }

    #[test]
    fn a_hub_is_at_fault_if_two_ranks_have_lost_it_and_the_rank_if_only_one_has() {
        let trouble = Trouble::closed("reset");
        let reports = |hub: &mut Hub, connection, blame| {
            let trouble = Trouble { what: "x".repeat(1 << 20), ..trouble.clone() };
            hub.0.received(connection, FromWorker::GivesUp { blame, trouble }, 0, NOW);
            hub.0.disconnected(connection, Trouble::closed("end of file"));
        };
        let mut both = at_two_hubs("fail");
        reports(&mut both, 2, Blame::Hub(1));
        assert_eq!(verdict(&mut both), None);
        reports(&mut both, 0, Blame::Hub(1));
        assert!(both.0.jobs(NOW).is_empty());
        let actions = both.0.actions();
        let Some(FromHub::Verdict { blame: Blame::Hub(1), trouble: sent }) = Hub::sent(&actions, 1).pop()
        else {
            panic!("{actions:?}")
        };
        assert!(sent.what.len() <= LONGEST_WHAT);
        let mut one = at_two_hubs("fail");
        reports(&mut one, 2, Blame::Hub(1));
        one.0.tick(SOON);
        let actions = one.0.actions();
        for connection in 0..2 {
            let sent = Hub::sent(&actions, connection);
            assert!(matches!(sent.last(), Some(FromHub::Verdict { blame: Blame::Rank(2), .. })), "{sent:?}");
        }
        // A rank that blames what it cannot know is at fault itself.
        for unknowable in [Blame::Hub(0), Blame::Hub(7), Blame::Rank(3), Blame::Coordinator] {
            let mut hub = at_two_hubs("fail");
            hub.0.received(1, FromWorker::GivesUp { blame: unknowable, trouble: trouble.clone() }, 0, NOW);
            assert_eq!(verdict(&mut hub), Some(Blame::Rank(1)));
        }
    }

    #[test]
    fn a_verdict_of_another_hub_ends_the_job_only_under_policy_fail() {
        let gives_up = FromWorker::GivesUp { blame: Blame::Rank(0), trouble: Trouble::closed("reset") };
        let mut hub = at_two_hubs("fail");
        hub.0.received(2, gives_up.clone(), 0, NOW);
        assert_eq!(verdict(&mut hub), Some(Blame::Rank(0)));
        // The other ranks go on without it.
        let mut hub = at_two_hubs("shrink");
        hub.0.received(2, gives_up, 0, NOW);
        assert_eq!(hub.0.jobs(NOW)[0].workers, [Active, Active, Left]);
    }

    #[test]
    fn only_the_restarted_rank_fails_if_it_is_not_admitted_in_time() {
        let mut hub = Hub::begun("shrink");
        hub.0.disconnected(1, Trouble::closed("reset"));
        hub.open(5, 1, &terms(2, "shrink"));
        hub.ready(5);
        hub.0.actions();
        hub.0.received(5, FromWorker::Late { key: 0, step: 1 }, 0, NOW);
        let actions = hub.0.actions();
        assert!(
            matches!(Hub::sent(&actions, 5)[..], [FromHub::Verdict { blame: Blame::Rank(1), .. }]),
            "{actions:?}"
        );
        assert_eq!(hub.0.jobs(NOW)[0].workers, [Active, Left]);
    }

    #[test]
    fn a_silent_rank_is_told_that_it_is_lost() {
        for policy in ["fail", "shrink", "wait"] {
            let mut hub = Hub::begun(policy);
            for now in (0..2000).step_by(100).map(Duration::from_millis) {
                hub.0.received(0, FromWorker::Alive, 0, now);
                hub.0.tick(now);
            }
            let actions = hub.0.actions();
            let Some(FromHub::Verdict { blame: Blame::Rank(1), trouble }) = Hub::sent(&actions, 1).pop()
            else {
                panic!("{policy}: {actions:?}");
            };
            assert!(trouble.to_string().contains("sent nothing for"), "{trouble}");
        }
    }
}
