//! Decides who takes part in the next epoch, and when it begins.

use super::message::{EpochMember, ListenAddresses};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The next step towards an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The epoch begins.
    Begin {
        /// Its number.
        epoch: u16,
        /// The ranks that take part, in ascending order.
        members: Vec<EpochMember>,
    },
    /// The job cannot begin yet, because these ranks have not joined so far.
    Awaited(Vec<u32>),
    /// The job cannot begin, because these ranks did not join in time.
    Missing(Vec<u32>),
    /// These ranks of the last epoch did not ask for the next one in time. It begins without them once they are
    /// [forgotten](Assembly::forget).
    Slow(Vec<u32>),
    /// No epoch can begin: these ranks of the last epoch are silent, and they may be enough to go on by themselves.
    Outnumbered(Vec<u32>),
}

/// A running job whose coordinator is lost, as the rank that coordinates it from now on knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TakeOver {
    /// The number of the last epoch.
    pub epoch: u16,
    /// All ranks of that epoch.
    pub members: BTreeSet<u32>,
    /// The ranks of that epoch that may have survived, with the one that takes over.
    pub survivors: BTreeSet<u32>,
    /// The ranks of lost coordinators that are silent: their processes may live.
    pub silent: BTreeSet<u32>,
}

/// How long ranks wait before they first report which ranks are missing. Each later report takes twice as long.
pub const FIRST_NOTICE_AFTER: Duration = Duration::from_secs(3);

/// Gathers ranks for each epoch. The first epoch begins once all ranks of the job have joined. A later one begins
/// once all connected ranks have asked for it; if some rank wants to wait for lost ranks, it begins only after that
/// time.
///
/// If the network splits, at most one part goes on: the larger one, or of two equal ones the part with the coordinator.
/// Ranks that are known to have ended do not count. So an epoch begins only if at least as many ranks of the last epoch
/// ask for it as are silent, or more if another rank has taken over from the coordinator. If a new
/// process joins as a rank that is silent, the earlier process of that rank counts as ended: start a rank again only once
/// its process has ended.
///
/// All times count from one common moment.
#[derive(Clone, Debug)]
pub struct Assembly {
    world: u32,
    wait: Duration,
    next: u16,
    begun: bool,
    /// The ranks of the last epoch.
    members: BTreeSet<u32>,
    /// The ranks that are ready for the next epoch, and where they listen.
    ready: BTreeMap<u32, ListenAddresses>,
    /// The ranks of the last epoch that have asked for the next one.
    requests: BTreeMap<u32, Request>,
    /// Ranks of the last epoch that are lost, but whose processes may live.
    silent: BTreeSet<u32>,
    /// Ranks of the last epoch that have not found their new coordinator yet, and until when it waits for them. `None`
    /// unless a new coordinator has taken over since the last epoch.
    awaited: Option<Awaited>,
    /// Whether [`Decision::Missing`] was returned.
    reported_missing: bool,
    /// When to return [`Decision::Awaited`] next.
    next_notice: Duration,
}

/// Ranks that have not found their new coordinator yet.
#[derive(Clone, Debug)]
struct Awaited {
    ranks: BTreeSet<u32>,
    until: Duration,
}

/// A rank's request for the next epoch.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// When the rank asked.
    when: Duration,
    /// How long it is willing to wait for lost ranks.
    patience: Duration,
}

impl Assembly {
    /// Creates the assembly of a job of `world` ranks, which have to join within `wait`.
    pub fn new(world: u32, wait: Duration) -> Self {
        Self {
            world,
            wait,
            next: 0,
            begun: false,
            members: BTreeSet::new(),
            ready: BTreeMap::new(),
            requests: BTreeMap::new(),
            silent: BTreeSet::new(),
            awaited: None,
            reported_missing: false,
            next_notice: FIRST_NOTICE_AFTER,
        }
    }

    /// Goes on with a running job whose coordinator is lost. Waits for survivors until the time `until`.
    pub fn take_over(&mut self, job: TakeOver, until: Duration) {
        let TakeOver { epoch, members, survivors, silent } = job;
        *self = Self {
            next: epoch.wrapping_add(1),
            begun: true,
            members,
            silent,
            ..Self::new(self.world, self.wait)
        };
        self.awaited = Some(Awaited { ranks: survivors, until });
    }

    /// Whether this coordinator has taken over, and no epoch has begun since.
    pub fn takes_over(&self) -> bool {
        self.awaited.is_some()
    }

    /// Whether a rank that has lost its coordinator can go on here. `epoch` is the last epoch that it knows. If that is an
    /// earlier one, the others have gone on without it.
    ///
    /// This coordinator may have been silent for a while, and has not begun an epoch without the rank since. Or it has taken
    /// over: then the lost one may have died while it told ranks of a new epoch.
    pub fn has_survivor(&self, rank: u32, epoch: u16) -> bool {
        let (last, member) = (self.next.wrapping_sub(1), self.members.contains(&rank));
        match self.takes_over() {
            true => epoch == self.next || member && [last, last.wrapping_sub(1)].contains(&epoch),
            false => self.begun && epoch == last && self.silent.contains(&rank),
        }
    }

    /// Notes that a survivor of the last epoch has found its new coordinator. `epoch` is the last epoch that it knows.
    pub fn find(&mut self, rank: u32, epoch: u16) {
        if let Some(awaited) = &mut self.awaited {
            awaited.ranks.remove(&rank);
        }
        self.silent.remove(&rank);
        // The lost coordinator may have died while it told ranks of a new epoch.
        if epoch == self.next {
            self.next = epoch.wrapping_add(1);
        }
    }

    /// Notes that the process of a survivor that has not found its new coordinator has ended.
    pub fn end(&mut self, rank: u32) {
        if let Some(awaited) = &mut self.awaited {
            awaited.ranks.remove(&rank);
        }
    }

    /// Notes that a rank is lost, but that its process may live.
    pub fn lose_sight(&mut self, rank: u32) {
        self.forget(rank);
        // A process that has only just joined cannot go on elsewhere.
        if self.members.contains(&rank) {
            self.silent.insert(rank);
        }
    }

    /// Whether the first epoch has begun.
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// Notes that a process has joined as a rank and is ready for the next epoch. An earlier process of this rank has ended.
    pub fn add(&mut self, rank: u32, listens: ListenAddresses) {
        self.silent.remove(&rank);
        if let Some(awaited) = &mut self.awaited {
            awaited.ranks.remove(&rank);
        }
        self.ready.insert(rank, listens);
    }

    /// Notes that a rank of the last epoch asks for the next one. `patience` is how long it is willing to wait for
    /// lost ranks.
    pub fn ask(&mut self, rank: u32, listens: ListenAddresses, patience: Duration, now: Duration) {
        self.add(rank, listens);
        self.requests.insert(rank, Request { when: now, patience });
    }

    /// Removes a rank that is gone, with its request.
    pub fn forget(&mut self, rank: u32) {
        self.ready.remove(&rank);
        self.requests.remove(&rank);
    }

    /// Whether a rank waits for the next epoch.
    pub fn waits(&self, rank: u32) -> bool {
        self.ready.contains_key(&rank)
    }

    /// Ranks that wait for the next epoch.
    pub fn waiting(&self) -> Vec<u32> {
        self.ready.keys().copied().collect()
    }

    /// Returns the next step, if there is one now. `here` are all connected ranks, ready or not.
    pub fn step(&mut self, here: &[u32], now: Duration) -> Option<Decision> {
        let complete = self.ready.len() == self.world as usize;
        if !self.begun {
            if complete {
                return Some(self.begin());
            }
            let missing =
                |assembly: &Self| (0..assembly.world).filter(|rank| !assembly.waits(*rank)).collect();
            if now > self.wait && !self.reported_missing {
                self.reported_missing = true;
                return Some(Decision::Missing(missing(self)));
            }
            let notice_is_due = now >= self.next_notice && !self.reported_missing;
            self.next_notice = if notice_is_due { 2 * now } else { self.next_notice };
            return notice_is_due.then(|| Decision::Awaited(missing(self)));
        }
        if let Some(Awaited { ranks, until }) = &mut self.awaited {
            if now < *until && !ranks.is_empty() {
                return None;
            }
            self.silent.append(ranks);
        }
        let first = self.requests.values().map(|request| request.when).min()?;
        let patience = self.requests.values().map(|request| request.patience).max()?;
        let waited = now.saturating_sub(first);
        let slow: Vec<u32> = here.iter().copied().filter(|&rank| !self.waits(rank)).collect();
        let votes = self.requests.keys().filter(|rank| self.members.contains(rank)).count();
        let outnumbered = match self.takes_over() {
            true => self.silent.len() >= votes,
            false => self.silent.len() > votes,
        };
        match slow.is_empty() {
            true if (complete || waited >= patience) && outnumbered => {
                Some(Decision::Outnumbered(self.silent.iter().copied().collect()))
            }
            true if complete || waited >= patience => Some(self.begin()),
            false if waited > self.wait => Some(Decision::Slow(slow)),
            _ => None,
        }
    }

    fn begin(&mut self) -> Decision {
        let epoch = self.next;
        (self.next, self.begun) = (self.next.wrapping_add(1), true);
        self.requests.clear();
        self.silent.clear();
        self.awaited = None;
        self.members = self.ready.keys().copied().collect();
        let ready = std::mem::take(&mut self.ready).into_iter();
        let members = ready.map(|(rank, listens)| EpochMember { rank, listens }).collect();
        Decision::Begin { epoch, members }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn listens() -> ListenAddresses {
        ListenAddresses::default()
    }

    /// The epoch that begins, and its ranks.
    fn epoch_of(step: Option<Decision>) -> (u16, Vec<u32>) {
        match step {
            Some(Decision::Begin { epoch, members }) => {
                (epoch, members.into_iter().map(|member| member.rank).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn begun(world: u32) -> Assembly {
        let mut assembly = Assembly::new(world, WAIT);
        (0..world).for_each(|rank| assembly.add(rank, listens()));
        assert_eq!(epoch_of(assembly.step(&[], s(1))), (0, (0..world).collect()));
        assembly
    }

    #[test]
    fn the_first_epoch_needs_all_ranks_and_missing_ranks_are_reported_once() {
        let mut assembly = Assembly::new(3, WAIT);
        assembly.add(0, listens());
        assembly.add(2, listens());
        assert_eq!(assembly.step(&[0, 2], s(2)), None);
        // Ranks that wait get a notice soon, and again later.
        for (now, notice) in [(3, true), (4, false), (5, false), (6, true), (10, false)] {
            let awaited = notice.then(|| Decision::Awaited(vec![1]));
            assert_eq!(assembly.step(&[0, 2], s(now)), awaited, "{now}");
        }
        assert_eq!(assembly.step(&[0, 2], s(11)), Some(Decision::Missing(vec![1])));
        assert_eq!(assembly.step(&[0, 2], s(12)), None);
    }

    #[test]
    fn survivors_go_on_at_once_if_none_wants_to_wait() {
        let mut assembly = begun(4);
        for rank in [0, 1] {
            assembly.ask(rank, listens(), s(0), s(20));
            assert_eq!(assembly.step(&[0, 1, 3], s(20)), None, "rank 3 is still there");
        }
        assembly.ask(3, listens(), s(0), s(21));
        assert_eq!(epoch_of(assembly.step(&[0, 1, 3], s(21))), (1, vec![0, 1, 3]));
        assert_eq!(assembly.step(&[0, 1, 3], s(99)), None, "no rank asks for another epoch");
    }

    #[test]
    fn an_epoch_waits_for_lost_ranks_as_long_as_any_rank_wants() {
        let mut assembly = begun(3);
        assembly.ask(0, listens(), s(0), s(20));
        assembly.ask(1, listens(), s(5), s(20));
        assert_eq!(assembly.step(&[0, 1], s(24)), None);
        let mut later = assembly.clone();
        assembly.add(2, listens());
        assert_eq!(epoch_of(assembly.step(&[0, 1, 2], s(24))), (1, vec![0, 1, 2]));
        assert_eq!(epoch_of(later.step(&[0, 1], s(25))), (1, vec![0, 1]));
    }

    #[test]
    fn newcomers_wait_until_a_member_asks_for_an_epoch() {
        let mut assembly = begun(2);
        assembly.ask(0, listens(), s(0), s(20));
        assert_eq!(epoch_of(assembly.step(&[0], s(20))), (1, vec![0]));
        assembly.add(1, listens());
        assert_eq!((assembly.step(&[0, 1], s(50)), assembly.waiting()), (None, vec![1]));
        assembly.ask(0, listens(), s(0), s(60));
        assert_eq!(epoch_of(assembly.step(&[0, 1], s(60))), (2, vec![0, 1]));
    }

    #[test]
    fn a_rank_that_asked_and_is_gone_does_not_delay_the_others() {
        let mut assembly = begun(3);
        assembly.ask(2, listens(), s(3600), s(20));
        assembly.forget(2);
        assert_eq!(assembly.step(&[0, 1], s(90)), None, "no connected rank has asked");
        assembly.ask(0, listens(), s(0), s(91));
        assembly.ask(1, listens(), s(0), s(92));
        assert_eq!(epoch_of(assembly.step(&[0, 1], s(92))), (1, vec![0, 1]));
    }

    #[test]
    fn a_rank_that_does_not_ask_in_time_is_left_behind() {
        let mut assembly = begun(3);
        assembly.ask(0, listens(), s(0), s(20));
        assembly.ask(2, listens(), s(0), s(21));
        assert_eq!(assembly.step(&[0, 1, 2], s(30)), None);
        assert_eq!(assembly.step(&[0, 1, 2], s(31)), Some(Decision::Slow(vec![1])));
        assembly.forget(1);
        assert_eq!(epoch_of(assembly.step(&[0, 2], s(31))), (1, vec![0, 2]));
    }

    /// An assembly that takes over after epoch 4 with these survivors.
    fn taking_over(world: u32, survivors: &[u32], silent: &[u32]) -> Assembly {
        let mut assembly = Assembly::new(world, WAIT);
        let [survivors, silent] = [survivors, silent].map(|ranks| ranks.iter().copied().collect());
        let members = (0..world).collect();
        assembly.take_over(TakeOver { epoch: 4, members, survivors, silent }, s(3));
        assembly
    }

    fn find(assembly: &mut Assembly, ranks: &[u32]) {
        for &rank in ranks {
            assembly.find(rank, 4);
            assembly.ask(rank, listens(), s(0), s(1));
        }
    }

    #[test]
    fn a_new_coordinator_waits_for_survivors_and_goes_on_with_the_next_epoch() {
        let mut assembly = taking_over(4, &[1, 2, 3], &[]);
        find(&mut assembly, &[1, 3]);
        assert_eq!(assembly.step(&[1, 3], s(2)), None);
        let mut without = assembly.clone();
        find(&mut assembly, &[2]);
        assert_eq!(epoch_of(assembly.step(&[1, 2, 3], s(2))), (5, vec![1, 2, 3]));
        assert!(!assembly.takes_over());
        assert_eq!(
            epoch_of(without.step(&[1, 3], s(3))),
            (5, vec![1, 3]),
            "rank 2 is silent, and outnumbered"
        );
    }

    #[test]
    fn a_new_coordinator_does_not_wait_for_survivors_that_have_ended() {
        let mut assembly = taking_over(3, &[1, 2], &[]);
        find(&mut assembly, &[1]);
        assert_eq!(assembly.step(&[1], s(1)), None);
        assembly.end(2);
        assert_eq!(epoch_of(assembly.step(&[1], s(1))), (5, vec![1]));
    }

    #[test]
    fn an_epoch_that_some_survivors_know_already_is_not_begun_again() {
        let mut assembly = taking_over(3, &[1, 2], &[]);
        find(&mut assembly, &[1]);
        assembly.find(2, 5);
        assembly.ask(2, listens(), s(0), s(1));
        assert_eq!(epoch_of(assembly.step(&[1, 2], s(1))), (6, vec![1, 2]));
    }

    #[test]
    fn survivors_of_earlier_epochs_are_none_and_ranks_of_a_later_one_do_not_count() {
        let mut assembly = taking_over(4, &[1, 2], &[]);
        for (rank, epoch, survives) in [
            (2, 4, true),
            (2, 3, true),
            (2, 2, false),
            (2, 5, true),
            (9, 5, true),
            (9, 4, false),
            (2, 6, false),
        ] {
            assert_eq!(assembly.has_survivor(rank, epoch), survives, "rank {rank} of epoch {epoch}");
        }
        let mut old = begun(4);
        assert!(!old.has_survivor(2, 0), "rank 2 is not lost");
        old.lose_sight(2);
        assert!(old.has_survivor(2, 0) && !old.has_survivor(2, 1) && !old.has_survivor(1, 0));
        find(&mut assembly, &[1]);
        for newcomer in [8, 9] {
            assembly.find(newcomer, 5);
            assembly.ask(newcomer, listens(), s(0), s(1));
        }
        let outnumbered = Some(Decision::Outnumbered(vec![2]));
        assert_eq!(assembly.step(&[1, 8, 9], s(3)), outnumbered, "only rank 1 was in epoch 4");
    }

    #[test]
    fn at_most_one_part_of_a_split_job_goes_on() {
        // For every way to split ranks between the coordinator's part and another, and every number of ranks that have
        // ended as both parts know.
        for world in 2..8u32 {
            for cut in 1..world {
                for ended in 0..cut.min(world - cut) {
                    let (with, without): (Vec<u32>, Vec<u32>) = (0..world).partition(|&rank| rank < cut);
                    let (with, without) = (&with[..with.len() - ended as usize], &without[..]);
                    let mut old = begun(world);
                    without.iter().for_each(|&rank| old.lose_sight(rank));
                    with.iter().for_each(|&rank| old.ask(rank, listens(), s(0), s(20)));
                    let old_goes_on = matches!(old.step(with, s(20)), Some(Decision::Begin { .. }));
                    let mut new = taking_over(world, &[with, without].concat(), &[0]);
                    find(&mut new, without);
                    let new_goes_on = matches!(new.step(without, s(20)), Some(Decision::Begin { .. }));
                    assert!(!(old_goes_on && new_goes_on), "{with:?} and {without:?} of {world}");
                    assert_eq!(old_goes_on, with.len() >= without.len(), "{with:?} of {world}");
                    assert_eq!(new_goes_on, without.len() > with.len(), "{without:?} of {world}");
                }
            }
        }
    }

    #[test]
    fn a_silent_process_that_has_only_just_joined_does_not_count() {
        let mut assembly = begun(3);
        assembly.forget(2);
        assembly.ask(0, listens(), s(0), s(20));
        assembly.ask(1, listens(), s(0), s(20));
        assert_eq!(epoch_of(assembly.step(&[0, 1], s(20))), (1, vec![0, 1]));
        assembly.add(2, listens());
        assembly.forget(1);
        assembly.lose_sight(2);
        assembly.ask(0, listens(), s(0), s(30));
        assert_eq!(epoch_of(assembly.step(&[0], s(30))), (2, vec![0]));
    }

    #[test]
    fn a_silent_rank_that_is_started_again_does_not_count_as_silent() {
        let mut assembly = begun(3);
        [1, 2].into_iter().for_each(|rank| assembly.lose_sight(rank));
        assembly.ask(0, listens(), s(0), s(20));
        assert_eq!(assembly.step(&[0], s(20)), Some(Decision::Outnumbered(vec![1, 2])));
        assembly.add(2, listens());
        assert_eq!(epoch_of(assembly.step(&[0, 2], s(20))), (1, vec![0, 2]));
    }
}
