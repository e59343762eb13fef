//! The state of a member's connection to the coordinator.

use super::message::{
    FromCoordinator, FromMember, LateOperation, PlanDecision, PlanProposal, Progress, Verdict,
};
use std::time::Duration;
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, Patience};

/// One member. All times count from one common moment.
#[derive(Debug)]
pub struct Member {
    /// The rank in whose process the coordinator runs.
    host: u32,
    heartbeats: Heartbeats,
    /// Whether the coordinator has announced that it leaves.
    coordinator_left: bool,
    /// Whether the coordinator is lost, perhaps after a verdict.
    coordinator_lost: bool,
    verdict: Option<Verdict>,
    /// Ranks that wait for the next epoch.
    waiting: Vec<u32>,
    /// Ranks from which this member has received something recently.
    hears: Vec<u32>,
    /// When this member last heard from a rank other than that one. Kept because other ranks that detect the fault first have
    /// left by the time this member detects it.
    heard_others: Option<Duration>,
    /// Why this member no longer takes part, if the coordinator has dismissed it.
    dismissed: Option<String>,
    /// What the coordinator said about plans, in order, which the executor has not heard yet.
    plan_news: Vec<PlanNews>,
    out: Vec<FromMember>,
}

/// What the coordinator says about new plans of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanNews {
    /// Prepare an edition.
    Prepare {
        /// The number of the edition.
        edition: u32,
        /// The proposal.
        proposal: PlanProposal,
    },
    /// The decision.
    Decide(PlanDecision),
}

impl Member {
    /// Creates a member that has joined at the coordinator, which runs in the process of rank `host`.
    pub fn new(host: u32, patience: Patience, now: Duration) -> Self {
        let mut heartbeats = Heartbeats::new(patience, now);
        heartbeats.join(0, now);
        heartbeats.heard(0, now);
        Self {
            host,
            heartbeats,
            coordinator_left: false,
            coordinator_lost: false,
            verdict: None,
            waiting: Vec::new(),
            hears: Vec::new(),
            heard_others: None,
            dismissed: None,
            plan_news: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Sets the ranks from which this member has received something recently, on its connections to them. Call it
    /// before [`Member::receive`].
    pub fn set_hears(&mut self, ranks: Vec<u32>) {
        self.hears = ranks;
    }

    /// Returns the coordinator's number, 0, if it has missed a heartbeat.
    pub fn quiet(&self, now: Duration) -> Vec<usize> {
        self.heartbeats.quiet(now)
    }

    /// Sets whether the network loses the coordinator's packets: it may then be silent for longer.
    pub fn set_lossy(&mut self, coordinator: Vec<usize>) {
        self.heartbeats.set_lossy(coordinator);
    }

    /// Reports trouble with a peer to the coordinator, which will decide.
    pub fn report(&mut self, peer: u32, trouble: Trouble) {
        self.out.push(FromMember::Trouble { peer, trouble });
    }

    /// Reports an operation that takes too long, if this member does not know who is at fault.
    pub fn report_late(&mut self, late: LateOperation) {
        self.out.push(FromMember::Late(late));
    }

    /// Proposes new plans for a group.
    pub fn propose_plans(&mut self, proposal: PlanProposal) {
        self.out.push(FromMember::ProposePlans(proposal));
    }

    /// Answers a request to prepare plans.
    pub fn answer_plans(&mut self, edition: u32, group: u64, answer: Result<u64, String>) {
        self.out.push(FromMember::PlansPrepared { edition, group, answer });
    }

    /// Returns what the coordinator has said about plans since the last call, in order.
    pub fn take_plan_news(&mut self) -> Vec<PlanNews> {
        std::mem::take(&mut self.plan_news)
    }

    /// Tells the coordinator that this member leaves.
    pub fn leave(&mut self) {
        self.out.push(FromMember::Leave);
    }

    /// Handles a message from the coordinator. `progress` returns how far this member is in a group.
    pub fn receive(
        &mut self,
        message: FromCoordinator,
        progress: impl FnOnce(u64) -> Progress,
        now: Duration,
    ) {
        self.heartbeats.heard(0, now);
        match message {
            FromCoordinator::Alive
            | FromCoordinator::BeginEpoch { .. }
            | FromCoordinator::Begun
            | FromCoordinator::Moved(_)
            | FromCoordinator::Missing { .. } => {}
            FromCoordinator::Waiting { ranks } => self.waiting = ranks,
            FromCoordinator::Dismissed { why } => {
                self.lose_coordinator(Trouble {
                    kind: FaultKind::Closed,
                    what: format!("says that this rank {why}"),
                });
                self.dismissed = Some(why);
            }
            FromCoordinator::Leave => {
                self.coordinator_left = true;
                self.heartbeats.leave(0);
            }
            FromCoordinator::ProgressRequest { call, group } => {
                self.out.push(FromMember::Progress {
                    call,
                    progress: progress(group),
                    hears: self.hears.clone(),
                });
            }
            FromCoordinator::PreparePlans { edition, proposal } => {
                self.plan_news.push(PlanNews::Prepare { edition, proposal });
            }
            FromCoordinator::DecidePlans(decision) => self.plan_news.push(PlanNews::Decide(decision)),
            FromCoordinator::Verdict { blame, trouble } => {
                _ = self.verdict.get_or_insert(Verdict { blame, trouble })
            }
        }
    }

    /// Notes that the connection to the coordinator is closed, or that something invalid arrived on it.
    pub fn lose_coordinator(&mut self, trouble: Trouble) {
        self.heartbeats.leave(0);
        if !self.coordinator_left {
            self.coordinator_lost = true;
            self.verdict.get_or_insert(Verdict { blame: Blame::Coordinator, trouble });
        }
    }

    /// Advances timers. Call it once per [`Member::interval`], after received messages have been handled.
    pub fn tick(&mut self, now: Duration) {
        if self.hears.iter().any(|&rank| rank != self.host) {
            self.heard_others = Some(now);
        }
        if let Some(&(_, silence)) = self.heartbeats.silent(now).first() {
            let mut trouble = Trouble::silent(silence);
            // The coordinator may still hear this member.
            self.out.push(FromMember::CannotHearCoordinator {
                hears: self.hears.clone(),
                trouble: trouble.clone(),
            });
            let recent = self.heartbeats.patience().recent();
            let others_spoke_later = self.heard_others.is_some_and(|heard| heard + silence >= now + recent);
            if others_spoke_later && !self.hears.contains(&self.host) {
                let host = self.host;
                trouble.what +=
                    &format!("; rank {host}, which runs it, is silent too, and other ranks are not");
            }
            self.lose_coordinator(trouble);
        }
        if !self.heartbeats.due(now).is_empty() {
            self.out.push(FromMember::Alive);
        }
    }

    /// Whether the coordinator has announced that it leaves. Members then decide for themselves.
    pub fn coordinator_left(&self) -> bool {
        self.coordinator_left
    }

    /// Whether the coordinator is lost without having announced that it leaves.
    pub fn coordinator_lost(&self) -> bool {
        self.coordinator_lost
    }

    /// Why this member no longer takes part, as a clause about it, if the coordinator has dismissed it.
    pub fn dismissed(&self) -> Option<&str> {
        self.dismissed.as_deref()
    }

    /// The ranks that wait for the next epoch, as far as this member knows.
    pub fn waiting(&self) -> &[u32] {
        &self.waiting
    }

    /// How often to call [`Member::tick`].
    pub fn interval(&self) -> Duration {
        self.heartbeats.interval()
    }

    /// Returns the messages to send to the coordinator.
    pub fn take_messages(&mut self) -> Vec<FromMember> {
        std::mem::take(&mut self.out)
    }

    /// Who is at fault, once this member knows it.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_silent_coordinator_is_lost_within_two_seconds() {
        let mut member = Member::new(0, Patience::default(), ms(0));
        let lost = (0..4000).step_by(100).find(|&now| {
            member.tick(ms(now));
            member.verdict().is_some()
        });
        assert!(lost.is_some_and(|now| now <= 2000), "{lost:?}");
        assert_eq!(member.verdict().unwrap().blame, Blame::Coordinator);
        assert!(member.take_messages().iter().filter(|&message| *message == FromMember::Alive).count() >= 3);
    }

    #[test]
    fn a_member_that_does_not_hear_the_coordinator_reports_which_ranks_it_hears() {
        for (hears, rank_0_is_silent) in [(vec![0, 2], false), (vec![2], true), (vec![], false)] {
            let mut member = Member::new(0, Patience::default(), ms(0));
            member.set_hears(hears.clone());
            (0..4000).step_by(100).for_each(|now| member.tick(ms(now)));
            let Verdict { blame, trouble } = member.verdict().cloned().unwrap();
            let says_so = trouble.what.contains("rank 0, which runs it, is silent too");
            assert_eq!((blame, says_so), (Blame::Coordinator, rank_0_is_silent));
            let messages = member.take_messages();
            let deaf = messages.iter().filter_map(|message| match message {
                FromMember::CannotHearCoordinator { hears, .. } => Some(hears.clone()),
                _ => None,
            });
            assert_eq!(deaf.collect::<Vec<_>>(), [hears]);
        }
    }

    #[test]
    fn ranks_that_left_after_the_coordinator_fell_silent_were_not_silent() {
        for (others_leave, rank_0_is_silent) in [(1300, true), (400, false)] {
            let mut member = Member::new(0, Patience::default(), ms(0));
            for now in (0..4000).step_by(100) {
                member.set_hears(if now < others_leave { vec![1, 3] } else { Vec::new() });
                member.tick(ms(now));
            }
            let trouble = &member.verdict().unwrap().trouble;
            let says_so = trouble.what.contains("rank 0, which runs it, is silent too");
            assert_eq!(says_so, rank_0_is_silent, "others leave after {others_leave} ms");
        }
    }

    #[test]
    fn the_first_verdict_counts() {
        let mut member = Member::new(0, Patience::default(), ms(0));
        let trouble = Trouble::left();
        member.receive(
            FromCoordinator::Verdict { blame: Blame::Rank(3), trouble: trouble.clone() },
            |_| Progress::default(),
            ms(1),
        );
        assert!(!member.coordinator_lost());
        member.lose_coordinator(Trouble::closed("end of file"));
        assert_eq!(member.verdict(), Some(&Verdict { blame: Blame::Rank(3), trouble }));
        assert!(member.coordinator_lost(), "although another rank was blamed before");
    }

    #[test]
    fn a_coordinator_that_leaves_is_not_lost() {
        let mut member = Member::new(0, Patience::default(), ms(0));
        member.receive(FromCoordinator::Leave, |_| Progress::default(), ms(1));
        member.lose_coordinator(Trouble::closed("end of file"));
        (0..5000).step_by(100).for_each(|now| member.tick(ms(now)));
        assert!(member.coordinator_left() && !member.coordinator_lost() && member.verdict().is_none());
    }

    #[test]
    fn a_request_is_answered_with_progress() {
        let mut member = Member::new(0, Patience::default(), ms(0));
        let progress = Progress { begun: 5, over: 4 };
        member.receive(
            FromCoordinator::ProgressRequest { call: 9, group: 3 },
            |group| Progress { begun: group + 2, over: 4 },
            ms(1),
        );
        assert_eq!(member.take_messages(), [FromMember::Progress { call: 9, progress, hears: vec![] }]);
        member.set_hears(vec![1, 2]);
        member.receive(FromCoordinator::ProgressRequest { call: 10, group: 3 }, |_| progress, ms(1));
        assert_eq!(member.take_messages(), [FromMember::Progress { call: 10, progress, hears: vec![1, 2] }]);
    }
}
