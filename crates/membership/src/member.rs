//! A member's side of its connection to the coordinator.

use super::message::{Down, Progress, Up};
use std::time::Duration;
use syncline_protocol::fault::{Blame, Kind, Trouble};
use syncline_protocol::heartbeat::{Patience, Pulse};

/// One member. Times count from any one moment.
#[derive(Debug)]
pub struct Member {
    pulse: Pulse,
    /// Whether the coordinator has left, as it said.
    alone: bool,
    verdict: Option<(Blame, Trouble)>,
    /// Ranks that wait for the next epoch.
    waiting: Vec<u32>,
    /// Ranks from which something has come of late.
    hears: Vec<u32>,
    /// Why this member takes no part any more.
    dismissed: Option<String>,
    out: Vec<Up>,
}

impl Member {
    /// A member that the coordinator knows.
    pub fn new(patience: Patience, now: Duration) -> Self {
        let mut pulse = Pulse::new(patience, now);
        pulse.join(0, now);
        pulse.heard(0, now);
        let (waiting, hears, out) = (Vec::new(), Vec::new(), Vec::new());
        Self { pulse, alone: false, verdict: None, waiting, hears, dismissed: None, out }
    }

    /// From which ranks something has come of late, on connections to them. To be told before what the coordinator says.
    pub fn hears(&mut self, ranks: Vec<u32>) {
        self.hears = ranks;
    }

    /// Something is wrong with a peer. The coordinator will decide.
    pub fn report(&mut self, peer: u32, trouble: Trouble) {
        self.out.push(Up::Trouble { peer, trouble });
    }

    /// Something takes too long, and nobody is known to be at fault: an operation of a group, by its number and ranks.
    pub fn late(&mut self, (group, ranks): (u64, Vec<u32>), sequence: u64, trouble: Trouble) {
        self.out.push(Up::Late { group, ranks, sequence, trouble });
    }

    /// The member leaves.
    pub fn leave(&mut self) {
        self.out.push(Up::Leave);
    }

    /// The coordinator has said something; `progress` is how far this member is in a group.
    pub fn heard(&mut self, message: Down, progress: impl FnOnce(u64) -> Progress, now: Duration) {
        self.pulse.heard(0, now);
        match message {
            Down::Alive | Down::Meet { .. } | Down::Begun | Down::Missing { .. } => {}
            Down::Waiting { ranks } => self.waiting = ranks,
            Down::Dismissed { why } => {
                self.lost(Trouble { kind: Kind::Closed, what: format!("says that this rank {why}") });
                self.dismissed = Some(why);
            }
            Down::Leave => {
                self.alone = true;
                self.pulse.leave(0);
            }
            Down::Roll { call, group } => {
                self.out.push(Up::Here { call, progress: progress(group), hears: self.hears.clone() });
            }
            Down::Verdict { blame, trouble } => _ = self.verdict.get_or_insert((blame, trouble)),
        }
    }

    /// The connection is closed, or what comes on it cannot be believed.
    pub fn lost(&mut self, trouble: Trouble) {
        self.pulse.leave(0);
        if !self.alone {
            self.verdict.get_or_insert((Blame::Coordinator, trouble));
        }
    }

    /// Time has passed. To be told about every [`Member::interval`], after what came in has been heard.
    pub fn tick(&mut self, now: Duration) {
        if let Some(&(_, silence)) = self.pulse.silent(now).first() {
            let mut trouble = Trouble::silent(silence);
            // It may hear us, where we do not hear it.
            self.out.push(Up::Deaf { hears: self.hears.clone(), trouble: trouble.clone() });
            if !self.hears.is_empty() && !self.hears.contains(&0) {
                trouble.what.push_str(", nor did rank 0, where it is: other ranks do");
            }
            self.lost(trouble);
        }
        if !self.pulse.due(now).is_empty() {
            self.out.push(Up::Alive);
        }
    }

    /// Whether the coordinator has left, as it said: members decide for themselves then.
    pub fn alone(&self) -> bool {
        self.alone
    }

    /// Why this member takes no part any more, as the coordinator has said: a clause about it.
    pub fn dismissed(&self) -> Option<&str> {
        self.dismissed.as_deref()
    }

    /// Ranks that wait for the next epoch, as far as is known here.
    pub fn waiting(&self) -> &[u32] {
        &self.waiting
    }

    /// How often [`Member::tick`] is to be told.
    pub fn interval(&self) -> Duration {
        self.pulse.interval()
    }

    /// What is to be said.
    pub fn say(&mut self) -> Vec<Up> {
        std::mem::take(&mut self.out)
    }

    /// Who is at fault, once this member knows it.
    pub fn verdict(&self) -> Option<&(Blame, Trouble)> {
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
        let mut member = Member::new(Patience::default(), ms(0));
        let lost = (0..4000).step_by(100).find(|&now| {
            member.tick(ms(now));
            member.verdict().is_some()
        });
        assert!(lost.is_some_and(|now| now <= 2000), "{lost:?}");
        assert_eq!(member.verdict().unwrap().0, Blame::Coordinator);
        assert!(member.say().iter().filter(|&up| *up == Up::Alive).count() >= 3);
    }

    #[test]
    fn whoever_does_not_hear_the_coordinator_says_whom_it_hears() {
        for (hears, what) in [(vec![0, 2], false), (vec![2], true), (vec![], false)] {
            let mut member = Member::new(Patience::default(), ms(0));
            member.hears(hears.clone());
            (0..4000).step_by(100).for_each(|now| member.tick(ms(now)));
            let (blame, trouble) = member.verdict().cloned().unwrap();
            assert_eq!((blame, trouble.what.contains("nor did rank 0")), (Blame::Coordinator, what));
            let said = member.say();
            let deaf = said.iter().filter_map(|up| match up {
                Up::Deaf { hears, .. } => Some(hears.clone()),
                _ => None,
            });
            assert_eq!(deaf.collect::<Vec<_>>(), [hears]);
        }
    }

    #[test]
    fn the_first_verdict_counts() {
        let mut member = Member::new(Patience::default(), ms(0));
        let trouble = Trouble::left();
        member.heard(
            Down::Verdict { blame: Blame::Rank(3), trouble: trouble.clone() },
            |_| Progress::default(),
            ms(1),
        );
        member.lost(Trouble::closed("end of file"));
        assert_eq!(member.verdict(), Some(&(Blame::Rank(3), trouble)));
    }

    #[test]
    fn a_coordinator_that_leaves_is_not_lost() {
        let mut member = Member::new(Patience::default(), ms(0));
        member.heard(Down::Leave, |_| Progress::default(), ms(1));
        member.lost(Trouble::closed("end of file"));
        (0..5000).step_by(100).for_each(|now| member.tick(ms(now)));
        assert!(member.alone() && member.verdict().is_none());
    }

    #[test]
    fn a_roll_call_is_answered_with_progress() {
        let mut member = Member::new(Patience::default(), ms(0));
        let progress = Progress { begun: 5, over: 4 };
        member.heard(Down::Roll { call: 9, group: 3 }, |group| Progress { begun: group + 2, over: 4 }, ms(1));
        assert_eq!(member.say(), [Up::Here { call: 9, progress, hears: vec![] }]);
        member.hears(vec![1, 2]);
        member.heard(Down::Roll { call: 10, group: 3 }, |_| progress, ms(1));
        assert_eq!(member.say(), [Up::Here { call: 10, progress, hears: vec![1, 2] }]);
    }
}
