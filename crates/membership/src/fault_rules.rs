//! How a member reacts to trouble: it reports it to the coordinator. It decides for itself if there is no
//! coordinator, or if the coordinator does not answer.

use std::collections::BTreeMap;
use std::time::Duration;
use syncline_protocol::fault::{Blame, FaultKind, Trouble};
use syncline_protocol::heartbeat::Patience;

/// How a member reacts to trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Report to the coordinator that something is wrong with this peer.
    Report {
        /// The peer's rank.
        peer: u32,
        /// What is wrong.
        trouble: Trouble,
    },
    /// Report to the coordinator that an operation takes too long.
    Late(Late),
    /// Abort what is under way.
    Abort {
        /// Who is at fault.
        blame: Blame,
        /// What happened.
        trouble: Trouble,
    },
}

/// An operation or transfer that takes too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The group, by its number on this member.
    pub group: u32,
    /// The operation's number in the group; `None` for a transfer.
    pub sequence: Option<u64>,
    /// How long it has taken.
    pub trouble: Trouble,
}

/// The oldest operation under way of a group.
#[derive(Clone, Copy, Debug)]
pub struct Oldest {
    /// The group, by its number on this member.
    pub group: u32,
    /// The operation's number in the group.
    pub sequence: u64,
    /// How long operations of the group may take.
    pub deadline: Duration,
}

/// The rules of one member, without lanes, clocks or threads. All times count from one common moment.
#[derive(Clone, Debug)]
pub struct FaultRules {
    own_rank: u32,
    /// Whether there is a coordinator that decides.
    has_coordinator: bool,
    patience: Patience,
    /// The first report to the coordinator, and when it was made. The coordinator has to decide.
    reported: Option<Reported>,
    /// The oldest operation under way of each group, and since when it has been the oldest. Its deadline counts from
    /// then, because it may have waited for operations before it.
    oldest: BTreeMap<u32, (u64, Duration)>,
    decided: bool,
}

/// A report to the coordinator, and the member's own opinion of who is at fault.
#[derive(Clone, Debug)]
struct Reported {
    when: Duration,
    blame: Blame,
    trouble: Trouble,
}

impl FaultRules {
    /// Creates the rules of the member with this rank. `has_coordinator` says whether a coordinator decides.
    pub const fn new(own_rank: u32, has_coordinator: bool, patience: Patience) -> Self {
        Self { own_rank, has_coordinator, patience, reported: None, oldest: BTreeMap::new(), decided: false }
    }

    /// Whether it is decided who is at fault. The first decision counts.
    pub const fn decided(&self) -> bool {
        self.decided
    }

    /// Whether there is a coordinator that decides.
    pub const fn has_coordinator(&self) -> bool {
        self.has_coordinator
    }

    /// Notes that the coordinator is gone: the member decides for itself from now on.
    pub const fn lose_coordinator(&mut self) {
        self.has_coordinator = false;
    }

    /// Reacts to trouble with a peer, given by its rank. `cut_off` says whether this member hears none of its peers,
    /// of which it has two or more.
    pub fn trouble(&mut self, peer: u32, trouble: Trouble, cut_off: bool, now: Duration) -> Option<Reaction> {
        let blame = match trouble.kind {
            FaultKind::Silent | FaultKind::Corrupt => Blame::link(self.own_rank, peer),
            FaultKind::Changed => Blame::Rank(self.own_rank),
            _ => Blame::Rank(peer),
        };
        if !self.has_coordinator {
            return self.verdict(blame, trouble, cut_off);
        }
        self.reported.get_or_insert_with(|| Reported { when: now, blame, trouble: trouble.clone() });
        Some(Reaction::Report { peer, trouble })
    }

    /// Checks whether an operation takes too long, or the coordinator has not decided in time. Call it regularly.
    /// `oldest` has the oldest operation under way of each group.
    pub fn check(
        &mut self,
        oldest: impl IntoIterator<Item = Oldest>,
        cut_off: bool,
        now: Duration,
    ) -> Option<Reaction> {
        if self.decided {
            return None;
        }
        if let Some(Reported { when, blame, trouble }) = self.reported.clone() {
            // If the coordinator were silent, this member would have noticed by now.
            let overdue = !self.has_coordinator || now.saturating_sub(when) > 2 * self.patience.silence;
            return if overdue { self.verdict(blame, trouble, cut_off) } else { None };
        }
        let before = std::mem::take(&mut self.oldest);
        let mut late = None;
        for Oldest { group, sequence, deadline } in oldest {
            let known = before.get(&group).filter(|(known, _)| *known == sequence);
            let since = known.map_or(now, |&(_, since)| since);
            self.oldest.insert(group, (sequence, since));
            let elapsed = now.saturating_sub(since);
            if elapsed > deadline && late.is_none() {
                late = Some(Late { group, sequence: Some(sequence), trouble: Trouble::deadline(elapsed) });
            }
        }
        self.late(late?, cut_off, now)
    }

    /// Reacts to a transfer that takes too long. `peer` is the rank of the other side, or `None` for a receive from
    /// any rank.
    pub fn late_transfer(
        &mut self,
        group: u32,
        peer: Option<u32>,
        trouble: Trouble,
        cut_off: bool,
        now: Duration,
    ) -> Option<Reaction> {
        if self.decided || self.reported.is_some() {
            return None;
        }
        match peer {
            Some(peer) => self.trouble(peer, trouble, cut_off, now),
            None => self.late(Late { group, sequence: None, trouble }, cut_off, now),
        }
    }

    fn late(&mut self, late: Late, cut_off: bool, now: Duration) -> Option<Reaction> {
        if !self.has_coordinator {
            return self.verdict(Blame::SomeRank, late.trouble, cut_off);
        }
        self.reported = Some(Reported { when: now, blame: Blame::SomeRank, trouble: late.trouble.clone() });
        Some(Reaction::Late(late))
    }

    /// Decides who is at fault, once. Called when the coordinator has decided or is lost, or when this member cannot
    /// go on.
    pub fn verdict(&mut self, blame: Blame, trouble: Trouble, cut_off: bool) -> Option<Reaction> {
        if std::mem::replace(&mut self.decided, true) {
            return None;
        }
        self.reported = None;
        // A member that hears none of its peers is more likely at fault than all of them.
        let own_decision = !self.has_coordinator || blame == Blame::Coordinator;
        Some(match own_decision && cut_off && trouble.kind == FaultKind::Silent {
            true => Reaction::Abort { blame: Blame::Rank(self.own_rank), trouble: Trouble::cut_off() },
            false => Reaction::Abort { blame, trouble },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn rules(has_coordinator: bool) -> FaultRules {
        FaultRules::new(2, has_coordinator, Patience::default())
    }

    /// The oldest operation under way, in the group of all ranks.
    fn oldest(sequence: u64) -> [Oldest; 1] {
        [Oldest { group: 0, sequence, deadline: s(10) }]
    }

    fn silent() -> Trouble {
        Trouble::silent(s(2))
    }

    fn abort(blame: Blame, trouble: Trouble) -> Option<Reaction> {
        Some(Reaction::Abort { blame, trouble })
    }

    #[test]
    fn the_coordinator_decides_and_the_first_decision_counts() {
        let mut rules = rules(true);
        assert_eq!(
            rules.trouble(1, silent(), true, s(1)),
            Some(Reaction::Report { peer: 1, trouble: silent() })
        );
        assert_eq!(rules.check(oldest(1), true, s(2)), None);
        let verdict = rules.verdict(Blame::link(0, 3), silent(), true);
        assert_eq!(verdict, abort(Blame::link(0, 3), silent()), "the coordinator knows more");
        assert_eq!(rules.verdict(Blame::Rank(1), silent(), false), None);
        assert!(rules.decided() && rules.check(oldest(1), true, s(99)).is_none());
    }

    #[test]
    fn a_member_decides_for_itself_if_the_coordinator_does_not_answer() {
        let mut rules = rules(true);
        rules.trouble(1, silent(), false, s(1));
        rules.trouble(3, Trouble::left(), false, s(2));
        assert_eq!(rules.check([], false, s(4)), None);
        assert_eq!(rules.check([], false, s(5)), abort(Blame::link(1, 2), silent()));
    }

    #[test]
    fn a_member_decides_at_once_if_the_coordinator_has_left() {
        let mut left_before = rules(true);
        left_before.lose_coordinator();
        let reaction = left_before.trouble(1, Trouble::closed("reset"), false, s(1));
        assert_eq!(reaction, abort(Blame::Rank(1), Trouble::closed("reset")));
        let mut left_after = rules(true);
        left_after.trouble(1, silent(), false, s(1));
        left_after.lose_coordinator();
        assert_eq!(left_after.check([], false, s(1)), abort(Blame::link(1, 2), silent()));
    }

    #[test]
    fn a_member_that_hears_no_peer_blames_itself() {
        let cut_off = abort(Blame::Rank(2), Trouble::cut_off());
        assert_eq!(rules(true).verdict(Blame::Coordinator, silent(), true), cut_off);
        assert_eq!(rules(false).trouble(1, silent(), true, s(1)), cut_off);
        let closed = Trouble::closed("end of file");
        let lost = abort(Blame::Coordinator, closed.clone());
        assert_eq!(rules(true).verdict(Blame::Coordinator, closed, true), lost);
    }

    #[test]
    fn the_deadline_of_an_operation_counts_from_the_end_of_the_one_before() {
        let mut rules = rules(true);
        for (sequence, now) in [(1, 0), (1, 9), (2, 11), (2, 20)] {
            assert_eq!(rules.check(oldest(sequence), false, s(now)), None);
        }
        let late = Late { group: 0, sequence: Some(2), trouble: Trouble::deadline(s(11)) };
        assert_eq!(rules.check(oldest(2), false, s(22)), Some(Reaction::Late(late)));
        assert_eq!(rules.check(oldest(2), false, s(23)), None, "it is reported once");
        rules.lose_coordinator();
        let overdue = rules.check(oldest(2), false, s(30));
        assert!(matches!(overdue, Some(Reaction::Abort { blame: Blame::SomeRank, .. })), "{overdue:?}");
    }

    #[test]
    fn each_group_has_its_own_deadline() {
        let mut rules = rules(true);
        let groups = [(0, 7, s(10)), (3, 1, s(2))];
        let oldest = groups.map(|(group, sequence, deadline)| Oldest { group, sequence, deadline });
        assert_eq!(rules.check(oldest, false, s(1)), None);
        assert_eq!(rules.check(oldest, false, s(3)), None);
        let late = Late { group: 3, sequence: Some(1), trouble: Trouble::deadline(s(3)) };
        assert_eq!(rules.check(oldest, false, s(4)), Some(Reaction::Late(late)));
    }

    #[test]
    fn the_peer_of_a_late_transfer_is_reported_and_the_first_report_counts() {
        let slow = Trouble::deadline(s(11));
        let mut rules = rules(true);
        assert_eq!(
            rules.late_transfer(0, Some(1), slow.clone(), false, s(11)),
            Some(Reaction::Report { peer: 1, trouble: slow.clone() })
        );
        assert_eq!(rules.late_transfer(0, None, slow.clone(), false, s(12)), None);
        let mut alone = FaultRules::new(2, false, Patience::default());
        let blamed = alone.late_transfer(0, Some(1), slow.clone(), false, s(11));
        assert_eq!(blamed, abort(Blame::Rank(1), slow));
    }
}
