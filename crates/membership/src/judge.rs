//! What a member makes of trouble: it tells the coordinator, and decides for itself where there is none, or it does not answer.

use std::collections::BTreeMap;
use std::time::Duration;
use syncline_protocol::fault::{Blame, Kind, Trouble};
use syncline_protocol::heartbeat::Patience;

/// What a member does about trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Tell the coordinator that something is wrong with a peer.
    Report(u32, Trouble),
    /// Tell the coordinator that something takes too long.
    Late(Late),
    /// Give up what is under way: who is at fault, and what happened.
    Abort(Blame, Trouble),
}

/// What takes too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The group, by its number on this member.
    pub group: u32,
    /// The operation's number in the group; 0 for a transfer.
    pub sequence: u64,
    /// How long it took.
    pub trouble: Trouble,
}

/// The first operation under way of a group.
#[derive(Clone, Copy, Debug)]
pub struct Oldest {
    /// The group, by its number on this member.
    pub group: u32,
    /// The operation's number in the group.
    pub sequence: u64,
    /// How long operations of the group may take.
    pub deadline: Duration,
}

/// One member's rules. No lanes, clocks or threads: times count from any one moment.
#[derive(Clone, Debug)]
pub struct Judge {
    us: u32,
    /// Whether there is a coordinator that decides.
    court: bool,
    patience: Patience,
    /// What the coordinator has been told first, and when: it has to decide.
    reported: Option<(Duration, Blame, Trouble)>,
    /// The oldest operation under way of each group, and since when it is that: one behind the other has its time.
    oldest: BTreeMap<u32, (u64, Duration)>,
    decided: bool,
}

impl Judge {
    /// Of a member that goes by this name, with or without a coordinator.
    pub const fn new(us: u32, court: bool, patience: Patience) -> Self {
        Self { us, court, patience, reported: None, oldest: BTreeMap::new(), decided: false }
    }

    /// Whether it is decided who is at fault: the first decision counts.
    pub const fn decided(&self) -> bool {
        self.decided
    }

    /// Decides for itself from now on.
    pub const fn alone(&mut self) {
        self.court = false;
    }

    /// Something is wrong with a peer, by its name. `cut_off` is whether this member hears nobody, of two or more.
    pub fn trouble(&mut self, peer: u32, trouble: Trouble, cut_off: bool, now: Duration) -> Option<Act> {
        let blame = match trouble.kind {
            Kind::Silent | Kind::Corrupt => Blame::link(self.us, peer),
            Kind::Changed => Blame::Rank(self.us),
            _ => Blame::Rank(peer),
        };
        if !self.court {
            return self.verdict(blame, trouble, cut_off);
        }
        self.reported.get_or_insert_with(|| (now, blame, trouble.clone()));
        Some(Act::Report(peer, trouble))
    }

    /// Time has passed: whether an operation takes too long. `oldest` has the first one under way of each group.
    pub fn look(
        &mut self,
        oldest: impl IntoIterator<Item = Oldest>,
        cut_off: bool,
        now: Duration,
    ) -> Option<Act> {
        if self.decided {
            return None;
        }
        if let Some((since, blame, trouble)) = &self.reported {
            // The coordinator itself would have been found silent by now.
            let overdue = !self.court || now.saturating_sub(*since) > 2 * self.patience.silence;
            let (blame, trouble) = (*blame, trouble.clone());
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
                late = Some(Late { group, sequence, trouble: Trouble::deadline(elapsed) });
            }
        }
        self.late(late?, cut_off, now)
    }

    /// A transfer takes too long: one with a `peer`, by its name, or a receive from any.
    pub fn late_transfer(
        &mut self,
        group: u32,
        peer: Option<u32>,
        trouble: Trouble,
        cut_off: bool,
        now: Duration,
    ) -> Option<Act> {
        if self.decided || self.reported.is_some() {
            return None;
        }
        match peer {
            Some(peer) => self.trouble(peer, trouble, cut_off, now),
            None => self.late(Late { group, sequence: 0, trouble }, cut_off, now),
        }
    }

    fn late(&mut self, late: Late, cut_off: bool, now: Duration) -> Option<Act> {
        if !self.court {
            return self.verdict(Blame::Nobody, late.trouble, cut_off);
        }
        self.reported = Some((now, Blame::Nobody, late.trouble.clone()));
        Some(Act::Late(late))
    }

    /// Decides who is at fault, once: the coordinator has decided, or is lost; or this member itself cannot go on.
    pub fn verdict(&mut self, blame: Blame, trouble: Trouble, cut_off: bool) -> Option<Act> {
        if std::mem::replace(&mut self.decided, true) {
            return None;
        }
        self.reported = None;
        // Whoever hears nobody else has no reason to say that it is their fault.
        let guess = !self.court || blame == Blame::Coordinator;
        Some(match guess && cut_off && trouble.kind == Kind::Silent {
            true => Act::Abort(Blame::Rank(self.us), Trouble::cut_off()),
            false => Act::Abort(blame, trouble),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn judge(court: bool) -> Judge {
        Judge::new(2, court, Patience::default())
    }

    /// The first operation under way, of the whole job.
    fn first(sequence: u64) -> [Oldest; 1] {
        [Oldest { group: 0, sequence, deadline: s(10) }]
    }

    fn silent() -> Trouble {
        Trouble::silent(s(2))
    }

    #[test]
    fn the_coordinator_decides_and_the_first_decision_counts() {
        let mut judge = judge(true);
        assert_eq!(judge.trouble(1, silent(), true, s(1)), Some(Act::Report(1, silent())));
        assert_eq!(judge.look(first(1), true, s(2)), None);
        let verdict = judge.verdict(Blame::link(0, 3), silent(), true);
        assert_eq!(verdict, Some(Act::Abort(Blame::Link(0, 3), silent())), "it knows more");
        assert_eq!(judge.verdict(Blame::Rank(1), silent(), false), None);
        assert!(judge.decided() && judge.look(first(1), true, s(99)).is_none());
    }

    #[test]
    fn without_an_answer_a_member_decides_for_itself() {
        let mut judge = judge(true);
        judge.trouble(1, silent(), false, s(1));
        judge.trouble(3, Trouble::left(), false, s(2));
        assert_eq!(judge.look([], false, s(4)), None);
        assert_eq!(judge.look([], false, s(5)), Some(Act::Abort(Blame::Link(1, 2), silent())));
    }

    #[test]
    fn where_the_coordinator_has_left_a_member_decides_at_once() {
        let mut before = judge(true);
        before.alone();
        let left = before.trouble(1, Trouble::closed("reset"), false, s(1));
        assert_eq!(left, Some(Act::Abort(Blame::Rank(1), Trouble::closed("reset"))));
        let mut meanwhile = judge(true);
        meanwhile.trouble(1, silent(), false, s(1));
        meanwhile.alone();
        assert_eq!(meanwhile.look([], false, s(1)), Some(Act::Abort(Blame::Link(1, 2), silent())));
    }

    #[test]
    fn whoever_hears_nobody_blames_itself() {
        let cut_off = Some(Act::Abort(Blame::Rank(2), Trouble::cut_off()));
        assert_eq!(judge(true).verdict(Blame::Coordinator, silent(), true), cut_off);
        assert_eq!(judge(false).trouble(1, silent(), true, s(1)), cut_off);
        let closed = Trouble::closed("end of file");
        let lost = Some(Act::Abort(Blame::Coordinator, closed.clone()));
        assert_eq!(judge(true).verdict(Blame::Coordinator, closed, true), lost);
    }

    #[test]
    fn operations_one_behind_the_other_have_their_time_each() {
        let mut judge = judge(true);
        for (sequence, now) in [(1, 0), (1, 9), (2, 11), (2, 20)] {
            assert_eq!(judge.look(first(sequence), false, s(now)), None);
        }
        let late = Late { group: 0, sequence: 2, trouble: Trouble::deadline(s(11)) };
        assert_eq!(judge.look(first(2), false, s(22)), Some(Act::Late(late)));
        assert_eq!(judge.look(first(2), false, s(23)), None, "it is told once");
        judge.alone();
        let overdue = judge.look(first(2), false, s(30));
        assert!(matches!(overdue, Some(Act::Abort(Blame::Nobody, _))), "{overdue:?}");
    }

    #[test]
    fn each_group_has_its_own_deadline() {
        let mut judge = judge(true);
        let groups = [(0, 7, s(10)), (3, 1, s(2))];
        let oldest = groups.map(|(group, sequence, deadline)| Oldest { group, sequence, deadline });
        assert_eq!(judge.look(oldest, false, s(1)), None);
        assert_eq!(judge.look(oldest, false, s(3)), None);
        let late = Late { group: 3, sequence: 1, trouble: Trouble::deadline(s(3)) };
        assert_eq!(judge.look(oldest, false, s(4)), Some(Act::Late(late)));
    }

    #[test]
    fn the_peer_of_a_late_transfer_is_reported_and_the_first_report_counts() {
        let slow = Trouble::deadline(s(11));
        let mut judge = judge(true);
        assert_eq!(
            judge.late_transfer(0, Some(1), slow.clone(), false, s(11)),
            Some(Act::Report(1, slow.clone()))
        );
        assert_eq!(judge.late_transfer(0, None, slow.clone(), false, s(12)), None);
        let mut alone = Judge::new(2, false, Patience::default());
        let blamed = alone.late_transfer(0, Some(1), slow.clone(), false, s(11));
        assert_eq!(blamed, Some(Act::Abort(Blame::Rank(1), slow)));
    }
}
