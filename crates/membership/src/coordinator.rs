//! The coordinator: decides who is alive, and who is at fault.

use super::message::{FromCoordinator, FromMember, LateOperation, Progress, Verdict};
use super::plan_changes::PlanChanges;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, Patience};
use syncline_units::rank_list;

/// How long members have to answer a request for progress. After that, members that have not answered are at fault.
const GRACE: Duration = Duration::from_millis(400);

/// What the coordinator knows about a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Present,
    Left,
    Lost,
}

/// The coordinator of all members of an epoch. All times count from one common moment.
#[derive(Debug)]
pub struct Coordinator {
    /// The rank in whose process it runs.
    host: u32,
    /// The members, by rank.
    members: BTreeMap<u32, State>,
    heartbeats: Heartbeats,
    /// The number of requests for progress so far.
    calls: u64,
    investigation: Option<Investigation>,
    verdict: Option<Verdict>,
    lost: Vec<LostMember>,
    plan_changes: PlanChanges,
    out: Vec<(u32, FromCoordinator)>,
}

/// A member that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostMember {
    /// Its rank.
    pub rank: u32,
    /// Whether its process may live, and only the network carries nothing between it and the coordinator.
    pub may_live: bool,
}

/// What is known about a fault before the verdict.
#[derive(Debug)]
struct Investigation {
    /// The rank on whose host the coordinator runs.
    host: u32,
    opened: Duration,
    /// The number of the request whose answers count.
    call: u64,
    reports: Vec<Report>,
    /// Members that the coordinator does not hear, or that do not hear it, and why.
    unreachable: BTreeMap<u32, Trouble>,
    /// The first operation that was reported to take too long.
    late: Option<LateOperation>,
    answers: BTreeMap<u32, Answer>,
}

/// A member's report of trouble with a peer.
#[derive(Clone, Debug)]
struct Report {
    reporter: u32,
    peer: u32,
    trouble: Trouble,
}

/// A member's answer to a request for progress, or what it sent when it gave up.
#[derive(Debug, Default)]
struct Answer {
    progress: Progress,
    /// Ranks from which the member has received something recently.
    hears: Vec<u32>,
}

impl Investigation {
    /// Whether some other member hears this one.
    fn is_heard(&self, member: u32) -> bool {
        self.answers.iter().any(|(&other, answer)| other != member && answer.hears.contains(&member))
    }

    /// Whether a member may be unable to answer, because another member does not hear it or saw it close its
    /// connections.
    fn may_be_unable_to_answer(&self, member: u32) -> bool {
        let silent = |report: &Report| report.peer == member && report.trouble.kind == FaultKind::Silent;
        self.unreachable.contains_key(&member)
            || self.closed_elsewhere(member)
            || self.reports.iter().any(silent)
    }

    /// Whether all other hosts that answered saw a member close its connections, and the coordinator's host did not. A
    /// process that ends closes all of them at once.
    fn closed_elsewhere(&self, member: u32) -> bool {
        let saw = |reporter: u32| {
            self.reports.iter().any(|report| {
                (report.reporter, report.peer, report.trouble.kind) == (reporter, member, FaultKind::Closed)
            })
        };
        let mut others =
            self.answers.keys().filter(|&&other| other != self.host && other != member).peekable();
        !saw(self.host) && others.peek().is_some() && others.all(|&other| saw(other))
    }
}

impl Coordinator {
    /// Creates the coordinator of an epoch in which these ranks take part. All of them are connected. `host` is the rank
    /// in whose process it runs.
    pub fn new(members: &[u32], host: u32, patience: Patience, now: Duration) -> Self {
        let mut heartbeats = Heartbeats::new(patience, now);
        for &member in members {
            heartbeats.join(member as usize, now);
            heartbeats.heard(member as usize, now);
        }
        Self {
            host,
            members: members.iter().map(|&member| (member, State::Present)).collect(),
            heartbeats,
            calls: 0,
            investigation: None,
            verdict: None,
            lost: Vec::new(),
            plan_changes: PlanChanges::default(),
            out: Vec::new(),
        }
    }

    /// Handles a message from a member.
    pub fn receive(&mut self, member: u32, message: FromMember, now: Duration) {
        if !self.has(member) {
            return;
        }
        self.heartbeats.heard(member as usize, now);
        match message {
            FromMember::Alive | FromMember::ListenAddresses(_) => {}
            FromMember::Leave | FromMember::RequestEpoch { .. } => {
                self.members.insert(member, State::Left);
                self.heartbeats.leave(member as usize);
                self.plan_changes.left(member);
            }
            // After the verdict, operations fail, by whatever plans.
            FromMember::ProposePlans(_) | FromMember::PlansPrepared { .. } if self.verdict.is_some() => {}
            FromMember::ProposePlans(proposal) => {
                let members = &self.members;
                let absent = |rank: u32| members.get(&rank) != Some(&State::Present);
                self.plan_changes.propose(member, proposal, absent, now);
            }
            FromMember::PlansPrepared { edition, group, answer } => {
                self.plan_changes.answer(member, edition, group, answer);
            }
            // After the verdict, members close their connections. Others may see that before they receive the verdict.
            FromMember::Trouble { .. } | FromMember::Late(_) | FromMember::Progress { .. }
                if self.verdict.is_some() => {}
            FromMember::Trouble { peer, trouble } if peer == member => self.lose(member, trouble),
            FromMember::Trouble { peer, trouble } if self.members.contains_key(&peer) => {
                // A rank that has left can no longer be reached.
                let left = trouble.kind == FaultKind::Silent && self.has_left(peer);
                let trouble = if left { Trouble::left() } else { trouble };
                let investigation = self.open(now);
                // A repeated report adds nothing.
                let same = |report: &Report| {
                    (report.reporter, report.peer, report.trouble.kind) == (member, peer, trouble.kind)
                };
                if !investigation.reports.iter().any(same) {
                    investigation.reports.push(Report { reporter: member, peer, trouble });
                }
            }
            FromMember::Trouble { peer, .. } => {
                let what = format!("reported trouble with rank {peer}, which takes no part in this epoch");
                self.decide(Blame::Rank(member), Trouble { kind: FaultKind::Corrupt, what });
            }
            FromMember::Late(late) => self.late(late, now),
            FromMember::Progress { call, progress, hears } => {
                if let Some(investigation) =
                    self.investigation.as_mut().filter(|investigation| investigation.call == call)
                {
                    investigation.answers.insert(member, Answer { progress, hears });
                }
            }
            FromMember::CannotHearCoordinator { hears, trouble } => {
                // Of two members, each can hear only the other, so hearing none does not mean being cut off.
                let cut_off = hears.is_empty() && self.members.len() > 2;
                let trouble = if cut_off { Trouble::cut_off() } else { trouble };
                let answer = Answer { hears, ..Answer::default() };
                self.open(now).answers.insert(member, answer);
                self.set_unreachable(member, trouble, now);
            }
        }
    }

    /// Notes that a member's connection has ended. `how` is the system's message.
    pub fn closed(&mut self, member: u32, how: &str) {
        // A member that gave up because it does not hear the coordinator closes its connection; it has said why.
        if self.has(member) && !self.is_unreachable(member) {
            self.lose(member, Trouble::closed(how));
        }
    }

    /// Whether the coordinator does not hear a member, or is not heard by it, and has not decided yet who is at fault.
    pub fn is_unreachable(&self, member: u32) -> bool {
        let investigation = self.investigation.as_ref();
        investigation.is_some_and(|investigation| investigation.unreachable.contains_key(&member))
    }

    /// Whether a member takes part in this epoch and is neither lost nor has left.
    pub fn has(&self, member: u32) -> bool {
        self.members.get(&member) == Some(&State::Present)
    }

    /// Whether a member has finished this epoch and left.
    pub fn has_left(&self, member: u32) -> bool {
        self.members.get(&member) == Some(&State::Left)
    }

    /// Returns the members that were lost since the last call.
    pub fn take_lost(&mut self) -> Vec<LostMember> {
        std::mem::take(&mut self.lost)
    }

    /// Notes that a member sent something invalid. `what` is a clause about it.
    pub fn received_invalid(&mut self, member: u32, what: String) {
        if self.has(member) {
            self.lose(member, Trouble { kind: FaultKind::Corrupt, what });
        }
    }

    /// Returns the members that have missed a heartbeat.
    pub fn quiet(&self, now: Duration) -> Vec<usize> {
        self.heartbeats.quiet(now)
    }

    /// Sets the members whose packets the network loses: they may be silent for longer.
    pub fn set_lossy(&mut self, members: Vec<usize>) {
        self.heartbeats.set_lossy(members);
    }

    /// Advances timers. Call it once per [`Coordinator::interval`], after received messages have been handled.
    pub fn tick(&mut self, now: Duration) {
        let silent = self.heartbeats.silent(now);
        // The coordinator always hears the rank in whose process it runs, and if it hears no other, that rank is cut off.
        let host = self.host as usize;
        if silent.iter().any(|&(member, _)| member != host) && self.heartbeats.cut_off(now, Some(host)) {
            self.decide(Blame::Rank(self.host), Trouble::cut_off());
        }
        for (member, silence) in silent {
            self.set_unreachable(member as u32, Trouble::silent(silence), now);
        }
        for member in self.heartbeats.due(now) {
            self.out.push((member as u32, FromCoordinator::Alive));
        }
        self.plan_changes.tick(now);
        let Some(investigation) = &self.investigation else { return };
        let present = self.members.iter().filter(|&(_, &state)| state == State::Present);
        let answered = present
            .filter(|&(&member, _)| !investigation.may_be_unable_to_answer(member))
            .all(|(member, _)| investigation.answers.contains_key(member));
        // Wait for a while even if all have answered: another report may be on its way.
        let waited = now.saturating_sub(investigation.opened);
        // Members notice a silence one after the other. Only all of their reports together show which rank is silent.
        let silence = investigation.reports.iter().any(|report| report.trouble.kind == FaultKind::Silent);
        let unseen: Vec<u32> = self.members.keys().copied().filter(|&member| self.unseen(member)).collect();
        let least = if !unseen.is_empty() {
            // The packet that ends the coordinator's connection may have been lost. TCP sends it again after 200 ms.
            GRACE * 3 / 4
        } else if silence || !investigation.unreachable.is_empty() {
            GRACE / 2
        } else {
            GRACE / 4
        };
        if waited >= GRACE || (waited >= least && answered) {
            unseen
                .into_iter()
                .for_each(|member| self.set_unreachable(member, Trouble::unseen(member, self.host), now));
            if let Some(investigation) = &self.investigation {
                let Verdict { blame, trouble } = self.conclude(investigation);
                self.decide(blame, trouble);
            }
        }
    }

    /// Whether other hosts saw a member close its connections, and the coordinator did not: the network carries nothing
    /// between the member's host and the coordinator's.
    fn unseen(&self, member: u32) -> bool {
        self.investigation.as_ref().is_some_and(|investigation| {
            self.has(member)
                && !investigation.answers.contains_key(&member)
                && !investigation.unreachable.contains_key(&member)
                && investigation.closed_elsewhere(member)
        })
    }

    /// How often to call [`Coordinator::tick`].
    pub fn interval(&self) -> Duration {
        self.heartbeats.interval().min(GRACE / 4)
    }

    /// Returns the messages to send, each with its receiver.
    pub fn take_messages(&mut self) -> Vec<(u32, FromCoordinator)> {
        // A decision made before a verdict reaches members before it.
        let mut messages = self.plan_changes.take_messages();
        messages.append(&mut self.out);
        messages
    }

    /// Who is at fault, once that is decided.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Whether all members have left or are lost.
    pub fn is_empty(&self) -> bool {
        self.members.values().all(|&state| state != State::Present)
    }

    /// Handles the report of an operation that takes too long. Only the first such report counts. Asks the
    /// operation's group for its progress.
    fn late(&mut self, late: LateOperation, now: Duration) {
        let group = late.group;
        let investigation = self.open(now);
        if investigation.late.is_some() {
            return;
        }
        investigation.late = Some(late);
        if group != 0 && self.verdict.is_none() {
            self.calls += 1;
            let call = self.calls;
            self.send_to_all(&FromCoordinator::ProgressRequest { call, group });
            let investigation = self.open(now);
            investigation.call = call;
            if investigation.reports.is_empty() && investigation.unreachable.is_empty() {
                investigation.opened = now;
            }
            // A member that does not hear the coordinator cannot answer again, so keep its answer.
            let unreachable = &investigation.unreachable;
            investigation.answers.retain(|member, _| unreachable.contains_key(member));
        }
    }

    /// Returns the current investigation. Opens one, with a request for progress, if there is none.
    fn open(&mut self, now: Duration) -> &mut Investigation {
        if self.investigation.is_none() {
            self.calls += 1;
            let call = self.calls;
            if self.verdict.is_none() {
                self.send_to_all(&FromCoordinator::ProgressRequest { call, group: 0 });
            }
            self.investigation = Some(Investigation {
                host: self.host,
                opened: now,
                call,
                reports: Vec::new(),
                unreachable: BTreeMap::new(),
                late: None,
                answers: BTreeMap::new(),
            });
        }
        self.investigation.as_mut().expect("opened above")
    }

    /// Notes that the network carries nothing between the coordinator and a member, in one direction or both. Other
    /// members may still hear that member; their answers say so.
    fn set_unreachable(&mut self, member: u32, trouble: Trouble, now: Duration) {
        if self.verdict.is_some() {
            return self.lose(member, trouble);
        }
        self.open(now).unreachable.entry(member).or_insert(trouble);
        self.heartbeats.leave(member as usize);
    }

    /// Blames a member whose connection is closed, or that sent something invalid, whatever others report.
    fn lose(&mut self, member: u32, trouble: Trouble) {
        // Decide first, so that the verdict goes to this member too, if it can still hear.
        let may_live = trouble.kind == FaultKind::Silent;
        self.decide(Blame::Rank(member), trouble);
        self.forget(member, may_live);
    }

    fn forget(&mut self, member: u32, may_live: bool) {
        if !self.has(member) {
            return;
        }
        self.members.insert(member, State::Lost);
        self.lost.push(LostMember { rank: member, may_live });
        self.heartbeats.leave(member as usize);
    }

    fn decide(&mut self, blame: Blame, trouble: Trouble) {
        let investigation = self.investigation.take();
        if self.verdict.is_none() {
            self.verdict = Some(Verdict { blame, trouble: trouble.clone() });
            self.send_to_all(&FromCoordinator::Verdict { blame, trouble });
        }
        // The coordinator can exchange nothing more with members that are unreachable.
        let unreachable =
            investigation.into_iter().flat_map(|investigation| investigation.unreachable.into_keys());
        unreachable.for_each(|member| self.forget(member, true));
    }

    fn send_to_all(&mut self, message: &FromCoordinator) {
        let present = self.members.iter().filter(|&(_, &state)| state == State::Present);
        self.out.extend(present.map(|(&member, _)| (member, message.clone())));
    }

    /// Decides who is at fault, from reports and answers.
    fn conclude(&self, investigation: &Investigation) -> Verdict {
        let missing = |member: u32| self.has(member) && !investigation.answers.contains_key(&member);
        // An unreachable member that hears no other, or that no other hears, is cut off. If others hear it, the fault
        // lies between it and the coordinator.
        let mut reports = Vec::new();
        for (&member, trouble) in &investigation.unreachable {
            let cut_off = match investigation.answers.get(&member) {
                Some(answer) => answer.hears.is_empty() && self.members.len() > 2,
                None => !investigation.is_heard(member) && !investigation.closed_elsewhere(member),
            };
            if member == self.host || cut_off {
                return Verdict { blame: Blame::Rank(member), trouble: trouble.clone() };
            }
            reports.push(Report { reporter: self.host, peer: member, trouble: trouble.clone() });
        }
        // A rank that was reported, did not answer and is not heard by others is stopped or cut off.
        let gone = |peer: u32| {
            missing(peer) && !investigation.is_heard(peer) && !investigation.unreachable.contains_key(&peer)
        };
        if let Some(report) = investigation.reports.iter().find(|report| gone(report.peer)) {
            return Verdict { blame: Blame::Rank(report.peer), trouble: report.trouble.clone() };
        }
        // A rank that reports that its own memory changed is at fault. Reports of other ranks are consequences of that.
        let own = investigation.reports.iter().find(|report| report.trouble.kind == FaultKind::Changed);
        if let Some(report) = own {
            return Verdict { blame: Blame::Rank(report.reporter), trouble: report.trouble.clone() };
        }
        reports.extend(investigation.reports.iter().cloned());
        // A rank that receives something invalid closes the connection. Its report counts, and not the other side's
        // report of a closed connection.
        let most = reports.iter().map(|report| significance(report.trouble.kind)).max();
        reports.retain(|report| Some(significance(report.trouble.kind)) == most);
        let pair = |report: &Report| (report.reporter.min(report.peer), report.reporter.max(report.peer));
        let pairs: BTreeSet<(u32, u32)> = reports.iter().map(pair).collect();
        let common: Vec<u32> = (self.members.keys().copied())
            .filter(|&member| pairs.iter().all(|&(a, b)| a == member || b == member))
            .collect();
        // If several connections fail and all of them end at one rank, that rank is at fault.
        if let ([rank], true) = (&common[..], pairs.len() > 1) {
            let about = reports.iter().find(|report| report.peer == *rank);
            let trouble = &about.unwrap_or(&reports[0]).trouble;
            return Verdict { blame: Blame::Rank(*rank), trouble: trouble.clone() };
        }
        if let Some(Report { reporter, peer, trouble }) = reports.first() {
            // Trouble of these kinds is the fault of a rank, and not of a connection.
            let of_rank = matches!(trouble.kind, FaultKind::Differs | FaultKind::Left | FaultKind::Deadline);
            let blame = if of_rank { Blame::Rank(*peer) } else { Blame::link(*reporter, *peer) };
            return Verdict { blame, trouble: trouble.clone() };
        }
        let trouble = Trouble::deadline(Duration::ZERO);
        let late = LateOperation { group: 0, ranks: Vec::new(), sequence: None, trouble };
        let LateOperation { group, ranks, sequence, trouble } = investigation.late.clone().unwrap_or(late);
        let of_group = |member: u32| group == 0 || ranks.contains(&member);
        // The first rank that is missing, or has not begun the operation.
        let behind = self.members.keys().find_map(|&member| {
            if missing(member) {
                return Some((member, None));
            }
            let begun = investigation.answers.get(&member).map(|answer| answer.progress.begun);
            let sequence = sequence.filter(|&sequence| begun.is_some_and(|begun| begun < sequence))?;
            of_group(member).then_some((member, Some(sequence)))
        });
        match behind {
            Some((rank, None)) => Verdict { blame: Blame::Rank(rank), trouble },
            Some((rank, Some(sequence))) => {
                let of =
                    if group == 0 { String::new() } else { format!(" of a group of {}", rank_list(&ranks)) };
                let what = format!("has not begun operation {sequence}{of}, for which others wait");
                Verdict { blame: Blame::Rank(rank), trouble: Trouble { kind: FaultKind::Deadline, what } }
            }
            None => Verdict { blame: Blame::SomeRank, trouble },
        }
    }
}

/// How much a kind of trouble reveals about the cause: the report with the highest value counts.
const fn significance(kind: FaultKind) -> u32 {
    match kind {
        FaultKind::Changed => 5,
        FaultKind::Differs => 4,
        FaultKind::Corrupt => 3,
        FaultKind::Left => 2,
        FaultKind::Silent | FaultKind::Deadline => 1,
        FaultKind::Closed => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::member_messages;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn coordinator(members: u32) -> Coordinator {
        Coordinator::new(&(0..members).collect::<Vec<_>>(), 0, Patience::default(), ms(0))
    }

    /// Runs the coordinator until the verdict. The members in `answering` answer requests for progress, and hear each other.
    /// Returns who is at fault, and when that was decided.
    fn run(coordinator: &mut Coordinator, answering: &[u32], from: u64, to: u64) -> Option<(Blame, u64)> {
        run_hearing(coordinator, answering, |_| answering.to_vec(), (from, to))
    }

    /// As [`run`]. `heard` returns the ranks that a member hears.
    fn run_hearing(
        coordinator: &mut Coordinator,
        answering: &[u32],
        heard: impl Fn(u32) -> Vec<u32>,
        (from, to): (u64, u64),
    ) -> Option<(Blame, u64)> {
        for now in (from..to).step_by(50) {
            for (member, message) in coordinator.take_messages() {
                if let FromCoordinator::ProgressRequest { call, .. } = message
                    && answering.contains(&member)
                {
                    let progress = Progress { begun: u64::from(member), over: 0 };
                    let hears = heard(member);
                    coordinator.receive(member, FromMember::Progress { call, progress, hears }, ms(now));
                }
            }
            answering.iter().for_each(|&member| coordinator.receive(member, FromMember::Alive, ms(now)));
            coordinator.tick(ms(now));
            if let Some(verdict) = coordinator.verdict() {
                return Some((verdict.blame, now));
            }
        }
        None
    }

    /// A rank that is lost, but whose process may live.
    fn silent(rank: u32) -> Vec<LostMember> {
        vec![LostMember { rank, may_live: true }]
    }

    fn late(group: u64, ranks: &[u32], sequence: u64) -> FromMember {
        FromMember::Late(LateOperation {
            group,
            ranks: ranks.to_vec(),
            sequence: Some(sequence),
            trouble: Trouble::deadline(ms(5000)),
        })
    }

    #[test]
    fn a_rank_outside_a_group_is_not_at_fault_for_its_late_operations() {
        let mut four = coordinator(4);
        // Rank n answers that it has begun n operations.
        four.receive(3, late(7, &[2, 3], 3), ms(100));
        let (blame, _) = run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        let what = &four.verdict().unwrap().trouble.what;
        assert!(what.contains("has not begun operation 3 of a group of ranks 2, 3"), "{what}");
    }

    #[test]
    fn a_rank_that_does_not_send_what_another_waits_for_is_named() {
        let mut four = coordinator(4);
        let trouble = Trouble { kind: FaultKind::Deadline, what: "has not sent it".to_owned() };
        four.receive(0, FromMember::Trouble { peer: 2, trouble }, ms(100));
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap().0, Blame::Rank(2));
    }

    fn reports(coordinator: &mut Coordinator, pairs: &[(u32, u32)], now: u64) {
        for &(member, peer) in pairs {
            let trouble = Trouble::silent(ms(1600));
            coordinator.receive(member, FromMember::Trouble { peer, trouble }, ms(now));
        }
    }

    #[test]
    fn a_closed_connection_means_a_dead_process_whatever_others_report() {
        let mut four = coordinator(4);
        reports(&mut four, &[(0, 1)], 100);
        four.closed(2, "reset by peer");
        assert_eq!(four.verdict().unwrap().blame, Blame::Rank(2));
        let receivers: Vec<u32> = four
            .take_messages()
            .into_iter()
            .filter_map(|(member, message)| {
                matches!(message, FromCoordinator::Verdict { .. }).then_some(member)
            })
            .collect();
        assert_eq!(receivers, [0, 1, 2, 3]);
    }

    #[test]
    fn silence_is_found_within_two_seconds() {
        let mut four = coordinator(4);
        let (blame, when) = run(&mut four, &[0, 1, 3], 0, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        assert!(when <= 2000, "{when}");
    }

    #[test]
    fn a_coordinator_that_hears_no_member_blames_rank_0() {
        let mut four = coordinator(4);
        let (blame, when) = run(&mut four, &[0], 0, 10_000).unwrap();
        // All others may have died at once, so the message says that too.
        assert!(four.verdict().unwrap().trouble.what.contains("or all others have ended"));
        assert_eq!(blame, Blame::Rank(0));
        assert!(when <= 2000, "{when}");
        assert_eq!(run(&mut coordinator(2), &[0], 0, 10_000).unwrap().0, Blame::Rank(1));
    }

    #[test]
    fn a_member_that_others_hear_is_cut_off_only_from_the_coordinator() {
        // The coordinator does not hear rank 2. Ranks 1 and 3 hear it.
        let mut four = coordinator(4);
        let heard = |member| if member == 0 { vec![1, 3] } else { vec![0, 2] };
        let (blame, when) = run_hearing(&mut four, &[0, 1, 3], heard, (0, 10_000)).unwrap();
        assert_eq!(blame, Blame::link(0, 2));
        assert!(when <= 2000, "{when}");
        assert_eq!((four.has(2), four.take_lost()), (false, silent(2)), "the coordinator cannot reach it");
        // Nothing that rank 0's host sends reaches rank 2, which gives up and tells the coordinator.
        for (hears, blame, kind) in [
            (vec![1, 3], Blame::link(0, 2), "sent nothing"),
            (vec![], Blame::Rank(2), "receives nothing from any peer"),
        ] {
            let mut four = coordinator(4);
            four.receive(
                2,
                FromMember::CannotHearCoordinator { hears, trouble: Trouble::silent(ms(1600)) },
                ms(100),
            );
            four.closed(2, "end of file");
            assert_eq!(four.verdict(), None, "it has announced that it gives up");
            let (found, when) = run_hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
            assert_eq!(found, blame);
            assert!(
                when <= 500 && four.verdict().unwrap().trouble.what.contains(kind),
                "{:?}",
                four.verdict()
            );
        }
    }

    #[test]
    fn a_member_that_only_others_see_close_its_connections_is_cut_off_from_the_coordinator() {
        let closes = |coordinator: &mut Coordinator, by: &[u32]| {
            for &member in by {
                let trouble = Trouble::closed("end of file");
                coordinator.receive(member, FromMember::Trouble { peer: 2, trouble }, ms(100));
            }
        };
        // Rank 2 gave up, and its message to the coordinator is lost.
        let mut four = coordinator(4);
        closes(&mut four, &[1, 3]);
        let (blame, when) = run_hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::link(0, 2));
        assert!((300..=500).contains(&when), "{when}");
        assert_eq!((four.has(2), four.take_lost()), (false, silent(2)), "the coordinator cannot reach it");
        // The end of rank 2's connection to the coordinator only arrives late: its process has ended.
        let mut four = coordinator(4);
        closes(&mut four, &[1, 3]);
        assert_eq!(run_hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 300)), None);
        four.closed(2, "end of file");
        assert_eq!(four.verdict().unwrap().blame, Blame::Rank(2));
        // Rank 0, on the coordinator's host, saw rank 2 close its connection too: the network works, and the process
        // hangs.
        let mut four = coordinator(4);
        closes(&mut four, &[0, 1, 3]);
        let (blame, _) = run_hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        // The connection of ranks 1 and 2 was reset, and rank 2 answers late. Rank 3 still hears it.
        let mut four = coordinator(4);
        closes(&mut four, &[1]);
        let (blame, _) = run_hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 2, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::link(1, 2));
        // Rank 0 reports that rank 2 is silent, which has the same cause.
        let mut four = coordinator(4);
        reports(&mut four, &[(0, 2)], 100);
        closes(&mut four, &[1, 3]);
        let (blame, _) = run_hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::link(0, 2));
    }

    #[test]
    fn members_that_close_connections_after_a_verdict_are_not_lost() {
        let mut four = coordinator(4);
        four.closed(3, "end of file");
        assert_eq!(four.verdict().unwrap().blame, Blame::Rank(3));
        for (member, peer) in [(1, 0), (2, 0), (1, 2)] {
            four.receive(
                member,
                FromMember::Trouble { peer, trouble: Trouble::closed("end of file") },
                ms(50),
            );
        }
        assert_eq!(run_hearing(&mut four, &[0, 1, 2], |_| vec![], (50, 100)).unwrap().0, Blame::Rank(3));
        for now in (100..1200).step_by(50) {
            (0..3).for_each(|member| four.receive(member, FromMember::Alive, ms(now)));
            four.tick(ms(now));
        }
        let ended = vec![LostMember { rank: 3, may_live: false }];
        assert_eq!((four.take_lost(), four.has(0), four.has(2)), (ended, true, true));
    }

    #[test]
    fn a_member_that_reports_its_own_failure_is_at_fault() {
        let mut two = coordinator(2);
        two.receive(1, FromMember::Trouble { peer: 1, trouble: Trouble::bug() }, ms(10));
        assert_eq!(two.verdict().unwrap().blame, Blame::Rank(1));
        assert!(two.verdict().unwrap().trouble.what.contains("bug"));
    }

    #[test]
    fn rank_0_is_at_fault_if_no_member_hears_the_coordinator() {
        let mut four = coordinator(4);
        for member in 1..4 {
            let hears = (1..4).filter(|&other| other != member).collect();
            four.receive(
                member,
                FromMember::CannotHearCoordinator { hears, trouble: Trouble::silent(ms(1600)) },
                ms(100),
            );
        }
        assert_eq!(run(&mut four, &[0], 100, 5000).unwrap().0, Blame::Rank(0));
    }

    #[test]
    fn the_link_is_at_fault_if_two_members_do_not_hear_each_other() {
        let mut two = coordinator(2);
        two.receive(
            1,
            FromMember::CannotHearCoordinator { hears: vec![], trouble: Trouble::silent(ms(1600)) },
            ms(100),
        );
        assert_eq!(run(&mut two, &[0], 100, 5000).unwrap().0, Blame::link(0, 1));
    }

    #[test]
    fn a_link_is_at_fault_if_both_of_its_ranks_answer() {
        let mut four = coordinator(4);
        reports(&mut four, &[(1, 3), (3, 1)], 100);
        let (blame, when) = run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::link(1, 3));
        assert!(when <= 600, "{when}");
    }

    #[test]
    fn a_reported_rank_that_does_not_answer_is_at_fault() {
        let mut four = coordinator(4);
        reports(&mut four, &[(1, 2)], 100);
        let (blame, when) = run(&mut four, &[0, 1, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        assert!(when <= 600, "{when}");
    }

    #[test]
    fn a_rank_is_at_fault_if_all_failed_links_end_at_it() {
        let mut four = coordinator(4);
        reports(&mut four, &[(2, 0), (2, 1), (3, 2)], 100);
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap().0, Blame::Rank(2));
    }

    #[test]
    fn a_rank_that_has_not_begun_a_late_operation_is_at_fault() {
        let mut four = coordinator(4);
        four.receive(3, late(0, &[], 1), ms(100));
        let (blame, _) = run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(0));
        assert!(four.verdict().unwrap().trouble.what.contains("has not begun operation 1"));
        let mut four = coordinator(4);
        four.receive(3, late(0, &[], 0), ms(100));
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap().0, Blame::SomeRank);
    }

    #[test]
    fn a_member_that_leaves_is_not_lost() {
        let mut two = coordinator(2);
        two.receive(1, FromMember::Leave, ms(10));
        two.closed(1, "end of file");
        assert_eq!(run(&mut two, &[0], 0, 5000), None);
        two.receive(0, FromMember::Leave, ms(5000));
        assert!(two.is_empty());
    }

    #[test]
    fn a_rank_that_runs_another_operation_is_named_with_both_operations() {
        let mut two = coordinator(2);
        let trouble =
            Trouble { kind: FaultKind::Differs, what: "asks for 3, but rank 0 asks for 4".to_owned() };
        two.receive(0, FromMember::Trouble { peer: 1, trouble }, ms(10));
        assert_eq!(run(&mut two, &[0, 1], 10, 5000).unwrap().0, Blame::Rank(1));
        assert!(two.verdict().unwrap().trouble.what.contains("rank 0 asks for 4"));
    }

    #[test]
    fn a_rank_that_changed_memory_while_it_was_sent_is_at_fault() {
        let mut four = coordinator(4);
        let corrupt =
            Trouble { kind: FaultKind::Corrupt, what: "sent a frame that changed on its way".to_owned() };
        four.receive(3, FromMember::Trouble { peer: 1, trouble: corrupt }, ms(10));
        four.receive(1, FromMember::Trouble { peer: 3, trouble: Trouble::changed(7, 2) }, ms(15));
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 20, 5000).unwrap().0, Blame::Rank(1));
        assert!(
            four.verdict().unwrap().trouble.what.contains("operation 7, chunk 2"),
            "{:?}",
            four.verdict()
        );
    }

    #[test]
    fn a_member_that_sends_something_invalid_is_at_fault() {
        let mut two = coordinator(2);
        two.receive(1, FromMember::Trouble { peer: 7, trouble: Trouble::left() }, ms(10));
        assert_eq!(two.verdict().unwrap().blame, Blame::Rank(1));
        let mut two = coordinator(2);
        two.received_invalid(1, "sent something that is no message".to_owned());
        assert_eq!(two.verdict().unwrap().blame, Blame::Rank(1));
    }

    proptest! {
        /// Whatever messages arrive in whatever order, there is at most one verdict, and memory does not grow with
        /// their number.
        #[test]
        fn any_messages_in_any_order_lead_to_at_most_one_verdict(
            received in prop::collection::vec((0..6u32, member_messages(), 0..300u64), 0..200),
        ) {
            let mut four = coordinator(4);
            let (mut now, mut verdict) = (0, None);
            for (member, message, pause) in received {
                now += pause;
                four.receive(member, message, ms(now));
                four.tick(ms(now));
                let sent: Vec<FromCoordinator> = four.take_messages().into_iter().map(|(_, message)| message).collect();
                prop_assert!(sent.len() <= 16, "{sent:?}");
                if verdict.is_some() {
                    prop_assert_eq!(four.verdict(), verdict.as_ref());
                    let again = sent.iter().any(|message| matches!(message, FromCoordinator::Verdict { .. }));
                    prop_assert!(!again, "two verdicts");
                }
                verdict = verdict.or(four.verdict().cloned());
                // At most one report of each kind from each member about each other one.
                let reports = four.investigation.as_ref().map_or(0, |investigation| investigation.reports.len());
                prop_assert!(reports <= 4 * 3 * 7, "{reports}");
            }
        }
    }
}
