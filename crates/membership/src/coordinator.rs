//! The coordinator: who lives, and who is at fault.

use super::message::{Down, Progress, Up};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use syncline_protocol::fault::{Blame, Kind, Trouble};
use syncline_protocol::heartbeat::{Patience, Pulse};

/// How long members have to answer a roll call before those that have not are at fault.
const GRACE: Duration = Duration::from_millis(400);

/// What a coordinator knows of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Here,
    Left,
    Lost,
}

/// One for all members of an epoch. Times count from any one moment.
#[derive(Debug)]
pub struct Coordinator {
    /// By rank.
    members: BTreeMap<u32, State>,
    pulse: Pulse,
    calls: u64,
    inquest: Option<Inquest>,
    verdict: Option<(Blame, Trouble)>,
    lost: Vec<u32>,
    out: Vec<(u32, Down)>,
}

/// What is known about a fault before it is decided.
#[derive(Debug)]
struct Inquest {
    opened: Duration,
    call: u64,
    /// Who reported what of whom.
    reports: Vec<(u32, u32, Trouble)>,
    /// Members that the coordinator does not hear, or that do not hear it, and why.
    doubts: BTreeMap<u32, Trouble>,
    /// Something that takes too long.
    late: Option<Late>,
    answers: BTreeMap<u32, Answer>,
}

/// What a member has answered to a roll call, or said when it gave up.
#[derive(Debug, Default)]
struct Answer {
    progress: Progress,
    /// Ranks from which something has come to it of late.
    hears: Vec<u32>,
}

impl Inquest {
    /// Whether some other member hears this one.
    fn heard(&self, member: u32) -> bool {
        self.answers.iter().any(|(&other, answer)| other != member && answer.hears.contains(&member))
    }

    /// Whether a member may be unable to answer: somebody does not hear it, or sees it gone.
    fn doubted(&self, member: u32) -> bool {
        let silent =
            |(_, peer, trouble): &(u32, u32, Trouble)| *peer == member && trouble.kind == Kind::Silent;
        self.doubts.contains_key(&member) || self.closed_elsewhere(member) || self.reports.iter().any(silent)
    }

    /// Whether all other hosts that answer saw a member close its connections, and the coordinator's host did not: a process
    /// that ends closes them all at once.
    fn closed_elsewhere(&self, member: u32) -> bool {
        let saw = |reporter: u32| {
            let mut reports = self.reports.iter();
            reports.any(|(r, peer, trouble)| (*r, *peer, trouble.kind) == (reporter, member, Kind::Closed))
        };
        let mut others = self.answers.keys().filter(|&&other| other != 0 && other != member).peekable();
        !saw(0) && others.peek().is_some() && others.all(|&other| saw(other))
    }
}

/// An operation that takes too long: its group, the group's ranks, and its number in it.
#[derive(Clone, Debug)]
struct Late {
    group: u64,
    ranks: Vec<u32>,
    sequence: u64,
    trouble: Trouble,
}

impl Coordinator {
    /// For members of these ranks, all of which are there now.
    pub fn new(members: &[u32], patience: Patience, now: Duration) -> Self {
        let mut pulse = Pulse::new(patience, now);
        for &member in members {
            pulse.join(member as usize, now);
            pulse.heard(member as usize, now);
        }
        Self {
            members: members.iter().map(|&member| (member, State::Here)).collect(),
            pulse,
            calls: 0,
            inquest: None,
            verdict: None,
            lost: Vec::new(),
            out: Vec::new(),
        }
    }

    /// A member has said something.
    pub fn heard(&mut self, member: u32, message: Up, now: Duration) {
        if !self.has(member) {
            return;
        }
        self.pulse.heard(member as usize, now);
        match message {
            Up::Alive | Up::Listens(_) => {}
            Up::Leave | Up::Again { .. } => {
                self.members.insert(member, State::Left);
                self.pulse.leave(member as usize);
            }
            // Members that have heard the verdict close their connections, which others may see first.
            Up::Trouble { .. } | Up::Late { .. } | Up::Here { .. } if self.verdict.is_some() => {}
            Up::Trouble { peer, trouble } if peer == member => self.lose(member, trouble),
            Up::Trouble { peer, trouble } if self.members.contains_key(&peer) => {
                let inquest = self.open(now);
                // Whoever says the same again has said it.
                let said = |(a, b, before): &(u32, u32, Trouble)| {
                    (*a, *b, before.kind) == (member, peer, trouble.kind)
                };
                if !inquest.reports.iter().any(said) {
                    inquest.reports.push((member, peer, trouble));
                }
            }
            Up::Trouble { peer, .. } => {
                let what = format!("reports trouble with rank {peer}, which there is not");
                self.decide(Blame::Rank(member), Trouble { kind: Kind::Corrupt, what });
            }
            Up::Late { group, ranks, sequence, trouble } => {
                self.late(Late { group, ranks, sequence, trouble }, now);
            }
            Up::Here { call, progress, hears } => {
                if let Some(inquest) = self.inquest.as_mut().filter(|inquest| inquest.call == call) {
                    inquest.answers.insert(member, Answer { progress, hears });
                }
            }
            Up::Deaf { hears, trouble } => {
                // With two members nobody else can be heard.
                let cut_off = hears.is_empty() && self.members.len() > 2;
                let trouble = if cut_off { Trouble::cut_off() } else { trouble };
                let answer = Answer { hears, ..Answer::default() };
                self.open(now).answers.insert(member, answer);
                self.doubt(member, trouble, now);
            }
        }
    }

    /// A member's connection is closed: how the system says it.
    pub fn closed(&mut self, member: u32, how: &str) {
        // Whoever gives up because it does not hear the coordinator has said so, and goes.
        let doubted = self.inquest.as_ref().is_some_and(|inquest| inquest.doubts.contains_key(&member));
        if self.has(member) && !doubted {
            self.lose(member, Trouble::closed(how));
        }
    }

    /// Whether a member is there, and takes part in this epoch.
    pub fn has(&self, member: u32) -> bool {
        self.members.get(&member) == Some(&State::Here)
    }

    /// Whether a member was through with the epoch and has left.
    pub fn has_left(&self, member: u32) -> bool {
        self.members.get(&member) == Some(&State::Left)
    }

    /// Members that were lost since this was asked last.
    pub fn lost(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.lost)
    }

    /// What a member says cannot be believed.
    pub fn doubted(&mut self, member: u32, what: String) {
        if self.has(member) {
            self.lose(member, Trouble { kind: Kind::Corrupt, what });
        }
    }

    /// Time has passed. To be told about every [`Coordinator::interval`], after what came in has been heard.
    pub fn tick(&mut self, now: Duration) {
        let silent = self.pulse.silent(now);
        // Rank 0 is where the coordinator is.
        if silent.iter().any(|&(member, _)| member > 0) && self.pulse.cut_off(now, Some(0)) {
            self.decide(Blame::Rank(0), Trouble::cut_off());
        }
        for (member, silence) in silent {
            self.doubt(member as u32, Trouble::silent(silence), now);
        }
        for member in self.pulse.due(now) {
            self.out.push((member as u32, Down::Alive));
        }
        let Some(inquest) = &self.inquest else { return };
        let here = self.members.iter().filter(|&(_, &state)| state == State::Here);
        let answered = here
            .filter(|&(&member, _)| !inquest.doubted(member))
            .all(|(member, _)| inquest.answers.contains_key(member));
        // An answer of everybody does not end it: a report of another may be on its way.
        let waited = now.saturating_sub(inquest.opened);
        // Silence is found by one after the other: what it has in common is seen once all have.
        let silence = inquest.reports.iter().any(|(_, _, trouble)| trouble.kind == Kind::Silent);
        let unseen: Vec<u32> = self.members.keys().copied().filter(|&member| self.unseen(member)).collect();
        let least = if !unseen.is_empty() {
            // The end of a connection may have been lost once, and is sent again after 200 ms.
            GRACE * 3 / 4
        } else if silence || !inquest.doubts.is_empty() {
            GRACE / 2
        } else {
            GRACE / 4
        };
        if waited >= GRACE || (waited >= least && answered) {
            unseen.into_iter().for_each(|member| self.doubt(member, Trouble::unseen(member), now));
            if let Some(inquest) = &self.inquest {
                let (blame, trouble) = self.conclude(inquest);
                self.decide(blame, trouble);
            }
        }
    }

    /// Whether a member has gone, as other hosts saw and the coordinator did not: nothing goes through between it and them.
    fn unseen(&self, member: u32) -> bool {
        self.inquest.as_ref().is_some_and(|inquest| {
            self.has(member)
                && !inquest.answers.contains_key(&member)
                && !inquest.doubts.contains_key(&member)
                && inquest.closed_elsewhere(member)
        })
    }

    /// How often [`Coordinator::tick`] is to be told.
    pub fn interval(&self) -> Duration {
        self.pulse.interval().min(GRACE / 4)
    }

    /// What is to be said, and to whom.
    pub fn say(&mut self) -> Vec<(u32, Down)> {
        std::mem::take(&mut self.out)
    }

    /// Who is at fault, once that is decided.
    pub fn verdict(&self) -> Option<&(Blame, Trouble)> {
        self.verdict.as_ref()
    }

    /// Whether nobody is there any more.
    pub fn alone(&self) -> bool {
        self.members.values().all(|&state| state != State::Here)
    }

    /// An operation takes too long: the first that is said to counts, and its group is asked how far it is.
    fn late(&mut self, late: Late, now: Duration) {
        let group = late.group;
        let inquest = self.open(now);
        if inquest.late.is_some() {
            return;
        }
        inquest.late = Some(late);
        if group != 0 && self.verdict.is_none() {
            self.calls += 1;
            let call = self.calls;
            self.tell(&Down::Roll { call, group });
            let inquest = self.open(now);
            inquest.call = call;
            if inquest.reports.is_empty() && inquest.doubts.is_empty() {
                inquest.opened = now;
            }
            // A member that does not hear the coordinator cannot answer again.
            let doubts = &inquest.doubts;
            inquest.answers.retain(|member, _| doubts.contains_key(member));
        }
    }

    fn open(&mut self, now: Duration) -> &mut Inquest {
        if self.inquest.is_none() {
            self.calls += 1;
            let call = self.calls;
            if self.verdict.is_none() {
                self.tell(&Down::Roll { call, group: 0 });
            }
            self.inquest = Some(Inquest {
                opened: now,
                call,
                reports: Vec::new(),
                doubts: BTreeMap::new(),
                late: None,
                answers: BTreeMap::new(),
            });
        }
        self.inquest.as_mut().expect("opened above")
    }

    /// Nothing goes through between the coordinator and a member, one way or both. Others may still hear it, which they say.
    fn doubt(&mut self, member: u32, trouble: Trouble, now: Duration) {
        if self.verdict.is_some() {
            return self.lose(member, trouble);
        }
        self.open(now).doubts.entry(member).or_insert(trouble);
        self.pulse.leave(member as usize);
    }

    /// A member whose connection is closed, or that makes no sense, is at fault, whatever others report.
    fn lose(&mut self, member: u32, trouble: Trouble) {
        // It is told, too, if it can still hear.
        self.decide(Blame::Rank(member), trouble);
        self.forget(member);
    }

    fn forget(&mut self, member: u32) {
        if !self.has(member) {
            return;
        }
        self.members.insert(member, State::Lost);
        self.lost.push(member);
        self.pulse.leave(member as usize);
    }

    fn decide(&mut self, blame: Blame, trouble: Trouble) {
        let inquest = self.inquest.take();
        if self.verdict.is_none() {
            self.verdict = Some((blame, trouble.clone()));
            self.tell(&Down::Verdict { blame, trouble });
        }
        // Nothing more can be heard from those, or said to them.
        let doubted = inquest.into_iter().flat_map(|inquest| inquest.doubts.into_keys());
        doubted.for_each(|member| self.forget(member));
    }

    fn tell(&mut self, message: &Down) {
        let here = self.members.iter().filter(|&(_, &state)| state == State::Here);
        self.out.extend(here.map(|(&member, _)| (member, message.clone())));
    }

    /// Who is at fault, as far as reports and answers tell.
    fn conclude(&self, inquest: &Inquest) -> (Blame, Trouble) {
        let missing = |member: u32| self.has(member) && !inquest.answers.contains_key(&member);
        // Whoever hears nobody, or is heard by nobody, is cut off. Where others hear it, nothing goes through between it and the
        // coordinator, which is where rank 0 is.
        let mut reports = Vec::new();
        for (&member, trouble) in &inquest.doubts {
            let alone = match inquest.answers.get(&member) {
                Some(answer) => answer.hears.is_empty() && self.members.len() > 2,
                None => !inquest.heard(member) && !inquest.closed_elsewhere(member),
            };
            if member == 0 || alone {
                return (Blame::Rank(member), trouble.clone());
            }
            reports.push((0, member, trouble.clone()));
        }
        // Whoever is reported, does not answer and is not heard by others is stopped, or cut off.
        let gone = |peer: u32| missing(peer) && !inquest.heard(peer) && !inquest.doubts.contains_key(&peer);
        if let Some((_, peer, trouble)) = inquest.reports.iter().find(|&&(_, peer, _)| gone(peer)) {
            return (Blame::Rank(*peer), trouble.clone());
        }
        // Whoever knows that it was its own doing says so; what others make of it follows from that.
        let own = inquest.reports.iter().find(|(_, _, trouble)| trouble.kind == Kind::Changed);
        if let Some((reporter, _, trouble)) = own {
            return (Blame::Rank(*reporter), trouble.clone());
        }
        reports.extend(inquest.reports.iter().cloned());
        // A rank that does not believe another closes their connection: what it says of it counts, not what follows.
        let most = reports.iter().map(|(_, _, trouble)| telling(trouble.kind)).max();
        reports.retain(|(_, _, trouble)| Some(telling(trouble.kind)) == most);
        let pairs: BTreeSet<(u32, u32)> = reports.iter().map(|&(a, b, _)| (a.min(b), a.max(b))).collect();
        let common: Vec<u32> = (self.members.keys().copied())
            .filter(|&member| pairs.iter().all(|&(a, b)| a == member || b == member))
            .collect();
        // Connections that all lead to one rank are that rank's.
        if let ([rank], true) = (&common[..], pairs.len() > 1) {
            let about = reports.iter().find(|(_, peer, _)| peer == rank);
            let (_, _, trouble) = about.unwrap_or(&reports[0]);
            return (Blame::Rank(*rank), trouble.clone());
        }
        if let Some((reporter, peer, trouble)) = reports.first() {
            // What a rank does or asks for is no fault of a connection.
            let of_rank = matches!(trouble.kind, Kind::Differs | Kind::Left | Kind::Deadline);
            let blame = if of_rank { Blame::Rank(*peer) } else { Blame::link(*reporter, *peer) };
            return (blame, trouble.clone());
        }
        let trouble = Trouble::deadline(Duration::ZERO);
        let late = Late { group: 0, ranks: Vec::new(), sequence: 0, trouble };
        let Late { group, ranks, sequence, trouble } = inquest.late.clone().unwrap_or(late);
        let of_group = |member: u32| group == 0 || ranks.contains(&member);
        let behind = self.members.keys().copied().find(|&member| {
            let begun = inquest.answers.get(&member).map(|answer| answer.progress.begun);
            missing(member) || of_group(member) && begun.is_some_and(|begun| begun < sequence)
        });
        match behind {
            Some(rank) if missing(rank) => (Blame::Rank(rank), trouble),
            Some(rank) => {
                let of = if group == 0 {
                    String::new()
                } else {
                    format!(" of a group of ranks {}", listed(&ranks))
                };
                let what = format!("has not begun operation {sequence}{of}, for which others wait");
                (Blame::Rank(rank), Trouble { kind: Kind::Deadline, what })
            }
            None => (Blame::Nobody, trouble),
        }
    }
}

/// Ranks, for people: not all, where they are many.
fn listed(ranks: &[u32]) -> String {
    const MOST: usize = 8;
    let some: Vec<String> = ranks.iter().take(MOST).map(u32::to_string).collect();
    let more = if ranks.len() > MOST { format!(" and {} more", ranks.len() - MOST) } else { String::new() };
    format!("{}{more}", some.join(", "))
}

/// How much a kind of trouble says about what happened.
const fn telling(kind: Kind) -> u32 {
    match kind {
        Kind::Changed => 5,
        Kind::Differs => 4,
        Kind::Corrupt => 3,
        Kind::Left => 2,
        Kind::Silent | Kind::Deadline => 1,
        Kind::Closed => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::tests::sayings;
    use proptest::prelude::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn coordinator(members: u32) -> Coordinator {
        Coordinator::new(&(0..members).collect::<Vec<_>>(), Patience::default(), ms(0))
    }

    /// Lets time pass; members that answer are heard. Who is at fault, and when that was decided.
    fn run(coordinator: &mut Coordinator, answering: &[u32], from: u64, to: u64) -> Option<(Blame, u64)> {
        hearing(coordinator, answering, |_| answering.to_vec(), (from, to))
    }

    /// The same; `heard` says whom a member hears.
    fn hearing(
        coordinator: &mut Coordinator,
        answering: &[u32],
        heard: impl Fn(u32) -> Vec<u32>,
        (from, to): (u64, u64),
    ) -> Option<(Blame, u64)> {
        for now in (from..to).step_by(50) {
            for (member, message) in coordinator.say() {
                if let Down::Roll { call, .. } = message
                    && answering.contains(&member)
                {
                    let progress = Progress { begun: u64::from(member), over: 0 };
                    let hears = heard(member);
                    coordinator.heard(member, Up::Here { call, progress, hears }, ms(now));
                }
            }
            answering.iter().for_each(|&member| coordinator.heard(member, Up::Alive, ms(now)));
            coordinator.tick(ms(now));
            if let Some((blame, _)) = coordinator.verdict() {
                return Some((*blame, now));
            }
        }
        None
    }

    fn late(group: u64, ranks: &[u32], sequence: u64) -> Up {
        Up::Late { group, ranks: ranks.to_vec(), sequence, trouble: Trouble::deadline(ms(5000)) }
    }

    #[test]
    fn who_is_of_no_group_is_not_at_fault_for_what_is_late_there() {
        let mut four = coordinator(4);
        // Ranks answer that they have begun as many operations as their number.
        four.heard(3, late(7, &[2, 3], 3), ms(100));
        let (blame, _) = run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        let what = &four.verdict().unwrap().1.what;
        assert!(what.contains("has not begun operation 3 of a group of ranks 2, 3"), "{what}");
    }

    #[test]
    fn who_does_not_send_what_another_waits_for_is_named() {
        let mut four = coordinator(4);
        let trouble = Trouble { kind: Kind::Deadline, what: "has not sent it".to_owned() };
        four.heard(0, Up::Trouble { peer: 2, trouble }, ms(100));
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap().0, Blame::Rank(2));
    }

    fn reports(coordinator: &mut Coordinator, pairs: &[(u32, u32)], now: u64) {
        for &(member, peer) in pairs {
            let trouble = Trouble::silent(ms(1600));
            coordinator.heard(member, Up::Trouble { peer, trouble }, ms(now));
        }
    }

    #[test]
    fn a_closed_connection_is_a_dead_process_whatever_neighbours_say() {
        let mut four = coordinator(4);
        reports(&mut four, &[(0, 1)], 100);
        four.closed(2, "reset by peer");
        assert_eq!(four.verdict().unwrap().0, Blame::Rank(2));
        let told: Vec<u32> = four
            .say()
            .into_iter()
            .filter_map(|(member, message)| matches!(message, Down::Verdict { .. }).then_some(member))
            .collect();
        assert_eq!(told, [0, 1, 2, 3]);
    }

    #[test]
    fn silence_is_found_within_two_seconds() {
        let mut four = coordinator(4);
        let (blame, when) = run(&mut four, &[0, 1, 3], 0, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        assert!(when <= 2000, "{when}");
    }

    #[test]
    fn a_coordinator_that_hears_nobody_says_so_of_itself() {
        let mut four = coordinator(4);
        let (blame, when) = run(&mut four, &[0], 0, 10_000).unwrap();
        // It may be that all others have died at once: what it says is true of that, too.
        assert!(four.verdict().unwrap().1.what.contains("or they are all gone"));
        assert_eq!(blame, Blame::Rank(0));
        assert!(when <= 2000, "{when}");
        assert_eq!(run(&mut coordinator(2), &[0], 0, 10_000).unwrap().0, Blame::Rank(1));
    }

    #[test]
    fn whoever_others_hear_is_cut_off_from_the_coordinator_alone() {
        // Rank 2 does not reach rank 0's host: ranks 1 and 3 hear it.
        let mut four = coordinator(4);
        let heard = |member| if member == 0 { vec![1, 3] } else { vec![0, 2] };
        let (blame, when) = hearing(&mut four, &[0, 1, 3], heard, (0, 10_000)).unwrap();
        assert_eq!(blame, Blame::Link(0, 2));
        assert!(when <= 2000, "{when}");
        assert_eq!((four.has(2), four.lost()), (false, vec![2]), "nothing can be said to it");
        // Nothing of what rank 0's host sends reaches rank 2, which gives up, and says so.
        for (hears, blame, kind) in
            [(vec![1, 3], Blame::Link(0, 2), "no sign of life"), (vec![], Blame::Rank(2), "hears nobody")]
        {
            let mut four = coordinator(4);
            four.heard(2, Up::Deaf { hears, trouble: Trouble::silent(ms(1600)) }, ms(100));
            four.closed(2, "end of file");
            assert_eq!(four.verdict(), None, "its end is no news");
            let (found, when) = hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
            assert_eq!(found, blame);
            assert!(when <= 500 && four.verdict().unwrap().1.what.contains(kind), "{:?}", four.verdict());
        }
    }

    #[test]
    fn a_member_that_others_see_leave_and_the_coordinator_does_not_is_cut_off_from_it() {
        let closes = |coordinator: &mut Coordinator, by: &[u32]| {
            for &member in by {
                let trouble = Trouble::closed("end of file");
                coordinator.heard(member, Up::Trouble { peer: 2, trouble }, ms(100));
            }
        };
        // What rank 2 said when it gave up does not come through.
        let mut four = coordinator(4);
        closes(&mut four, &[1, 3]);
        let (blame, when) = hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::Link(0, 2));
        assert!((300..=500).contains(&when), "{when}");
        assert_eq!((four.has(2), four.lost()), (false, vec![2]), "nothing can be said to it");
        // The end of its connection to the coordinator was only late: its process has ended.
        let mut four = coordinator(4);
        closes(&mut four, &[1, 3]);
        assert_eq!(hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 300)), None);
        four.closed(2, "end of file");
        assert_eq!(four.verdict().unwrap().0, Blame::Rank(2));
        // Rank 0, on the coordinator's host, saw it leave, too: its process hangs.
        let mut four = coordinator(4);
        closes(&mut four, &[0, 1, 3]);
        let (blame, _) = hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        // One connection was reset, and rank 2 answers late: rank 3 still hears it.
        let mut four = coordinator(4);
        closes(&mut four, &[1]);
        let (blame, _) = hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 2, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::Link(1, 2));
        // Rank 0 has not heard it for too long, which says the same.
        let mut four = coordinator(4);
        reports(&mut four, &[(0, 2)], 100);
        closes(&mut four, &[1, 3]);
        let (blame, _) = hearing(&mut four, &[0, 1, 3], |_| vec![0, 1, 3], (100, 5000)).unwrap();
        assert_eq!(blame, Blame::Link(0, 2));
    }

    #[test]
    fn members_that_close_connections_after_a_verdict_are_not_lost() {
        let mut four = coordinator(4);
        four.closed(3, "end of file");
        assert_eq!(four.verdict().unwrap().0, Blame::Rank(3));
        for (member, peer) in [(1, 0), (2, 0), (1, 2)] {
            four.heard(member, Up::Trouble { peer, trouble: Trouble::closed("end of file") }, ms(50));
        }
        assert_eq!(hearing(&mut four, &[0, 1, 2], |_| vec![], (50, 100)).unwrap().0, Blame::Rank(3));
        for now in (100..1200).step_by(50) {
            (0..3).for_each(|member| four.heard(member, Up::Alive, ms(now)));
            four.tick(ms(now));
        }
        assert_eq!((four.lost(), four.has(0), four.has(2)), (vec![3], true, true));
    }

    #[test]
    fn a_member_that_says_that_it_has_failed_is_at_fault() {
        let mut two = coordinator(2);
        two.heard(1, Up::Trouble { peer: 1, trouble: Trouble::bug() }, ms(10));
        assert_eq!(two.verdict().unwrap().0, Blame::Rank(1));
        assert!(two.verdict().unwrap().1.what.contains("bug"));
    }

    #[test]
    fn whoever_does_not_reach_anybody_from_the_coordinator_is_its_rank() {
        let mut four = coordinator(4);
        for member in 1..4 {
            let hears = (1..4).filter(|&other| other != member).collect();
            four.heard(member, Up::Deaf { hears, trouble: Trouble::silent(ms(1600)) }, ms(100));
        }
        assert_eq!(run(&mut four, &[0], 100, 5000).unwrap().0, Blame::Rank(0));
    }

    #[test]
    fn of_two_that_do_not_hear_each_other_nobody_knows_more() {
        let mut two = coordinator(2);
        two.heard(1, Up::Deaf { hears: vec![], trouble: Trouble::silent(ms(1600)) }, ms(100));
        assert_eq!(run(&mut two, &[0], 100, 5000).unwrap().0, Blame::Link(0, 1));
    }

    #[test]
    fn a_link_between_two_that_answer_is_at_fault_itself() {
        let mut four = coordinator(4);
        reports(&mut four, &[(1, 3), (3, 1)], 100);
        let (blame, when) = run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Link(1, 3));
        assert!(when <= 600, "{when}");
    }

    #[test]
    fn whoever_is_reported_and_does_not_answer_is_at_fault() {
        let mut four = coordinator(4);
        reports(&mut four, &[(1, 2)], 100);
        let (blame, when) = run(&mut four, &[0, 1, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(2));
        assert!(when <= 600, "{when}");
    }

    #[test]
    fn links_that_all_lead_to_one_rank_are_its_own() {
        let mut four = coordinator(4);
        reports(&mut four, &[(2, 0), (2, 1), (3, 2)], 100);
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap().0, Blame::Rank(2));
    }

    #[test]
    fn who_has_not_begun_is_at_fault_for_what_is_late() {
        let mut four = coordinator(4);
        four.heard(3, late(0, &[], 1), ms(100));
        let (blame, _) = run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap();
        assert_eq!(blame, Blame::Rank(0));
        assert!(four.verdict().unwrap().1.what.contains("has not begun operation 1"));
        let mut four = coordinator(4);
        four.heard(3, late(0, &[], 0), ms(100));
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 100, 10_000).unwrap().0, Blame::Nobody);
    }

    #[test]
    fn whoever_leaves_is_not_missed() {
        let mut two = coordinator(2);
        two.heard(1, Up::Leave, ms(10));
        two.closed(1, "end of file");
        assert_eq!(run(&mut two, &[0], 0, 5000), None);
        two.heard(0, Up::Leave, ms(5000));
        assert!(two.alone());
    }

    #[test]
    fn who_asks_for_something_else_is_named_with_both() {
        let mut two = coordinator(2);
        let trouble = Trouble { kind: Kind::Differs, what: "asks for 3, where rank 0 asks for 4".to_owned() };
        two.heard(0, Up::Trouble { peer: 1, trouble }, ms(10));
        assert_eq!(run(&mut two, &[0, 1], 10, 5000).unwrap().0, Blame::Rank(1));
        assert!(two.verdict().unwrap().1.what.contains("rank 0 asks for 4"));
    }

    #[test]
    fn whoever_has_changed_what_it_sent_is_at_fault_itself() {
        let mut four = coordinator(4);
        let corrupt =
            Trouble { kind: Kind::Corrupt, what: "sent a frame that changed on its way".to_owned() };
        four.heard(3, Up::Trouble { peer: 1, trouble: corrupt }, ms(10));
        four.heard(1, Up::Trouble { peer: 3, trouble: Trouble::changed(7, 2) }, ms(15));
        assert_eq!(run(&mut four, &[0, 1, 2, 3], 20, 5000).unwrap().0, Blame::Rank(1));
        assert!(four.verdict().unwrap().1.what.contains("operation 7, chunk 2"), "{:?}", four.verdict());
    }

    #[test]
    fn nonsense_is_the_fault_of_who_says_it() {
        let mut two = coordinator(2);
        two.heard(1, Up::Trouble { peer: 7, trouble: Trouble::left() }, ms(10));
        assert_eq!(two.verdict().unwrap().0, Blame::Rank(1));
        let mut two = coordinator(2);
        two.doubted(1, "sent something that is no message".to_owned());
        assert_eq!(two.verdict().unwrap().0, Blame::Rank(1));
    }

    proptest! {
        /// Whatever members say, in whatever order: one verdict at most, and nothing that grows with how much they say.
        #[test]
        fn anything_may_be_said_in_any_order(
            said in prop::collection::vec((0..6u32, sayings(), 0..300u64), 0..200),
        ) {
            let mut four = coordinator(4);
            let (mut now, mut verdict) = (0, None);
            for (member, saying, pause) in said {
                now += pause;
                four.heard(member, saying, ms(now));
                four.tick(ms(now));
                let told: Vec<Down> = four.say().into_iter().map(|(_, message)| message).collect();
                prop_assert!(told.len() <= 16, "{told:?}");
                if verdict.is_some() {
                    prop_assert_eq!(four.verdict(), verdict.as_ref());
                    let again = told.iter().any(|message| matches!(message, Down::Verdict { .. }));
                    prop_assert!(!again, "two verdicts");
                }
                verdict = verdict.or(four.verdict().cloned());
                // Each may say one thing of each kind of each other.
                let reports = four.inquest.as_ref().map_or(0, |inquest| inquest.reports.len());
                prop_assert!(reports <= 4 * 3 * 7, "{reports}");
            }
        }
    }
}
