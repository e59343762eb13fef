//! Who takes part in the next epoch, and when it begins.

use super::message::Listens;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is to be done about the next epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It begins: its number, who takes part, and where each listens.
    Begin(u16, Vec<(u32, Listens)>),
    /// The job cannot begin yet: these ranks have not come so far.
    Awaited(Vec<u32>),
    /// The job cannot begin: these ranks did not come in time.
    Missing(Vec<u32>),
    /// These ranks of the last epoch did not ask for the next one in time. It begins without them once they are
    /// [forgotten](Assembly::forget).
    Slow(Vec<u32>),
}

/// How long ranks that have come wait before they are told for whom; then twice as long, and so on.
pub const LONELY: Duration = Duration::from_secs(3);

/// Gathers ranks for epoch after epoch. The first begins once all ranks of the job are there. Every later one begins once all
/// who are there have asked for it; ranks that were lost are waited for as long as somebody wants that. Times count from any
/// one moment.
#[derive(Clone, Debug)]
pub struct Assembly {
    world: u32,
    wait: Duration,
    next: u16,
    begun: bool,
    /// Where ranks listen that are ready for the next epoch.
    ready: BTreeMap<u32, Listens>,
    /// Ranks of the last epoch that have asked for the next one: when, and how long they would wait for lost ranks.
    asked: BTreeMap<u32, (Duration, Duration)>,
    absent: bool,
    /// When to say next for whom others wait.
    told: Duration,
}

impl Assembly {
    /// Of a job of `world` ranks, which come within `wait`.
    pub fn new(world: u32, wait: Duration) -> Self {
        let (ready, asked) = (BTreeMap::new(), BTreeMap::new());
        Self { world, wait, next: 0, begun: false, ready, asked, absent: false, told: LONELY }
    }

    /// Whether the first epoch has begun.
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// A rank has come, and is ready.
    pub fn come(&mut self, rank: u32, listens: Listens) {
        self.ready.insert(rank, listens);
    }

    /// A rank of the last epoch asks for the next one; it would wait so long for those that were lost.
    pub fn ask(&mut self, rank: u32, listens: Listens, patience: Duration, now: Duration) {
        self.come(rank, listens);
        self.asked.insert(rank, (now, patience));
    }

    /// A rank is gone, and what it has asked for with it.
    pub fn forget(&mut self, rank: u32) {
        self.ready.remove(&rank);
        self.asked.remove(&rank);
    }

    /// Whether a rank waits for the next epoch.
    pub fn waits(&self, rank: u32) -> bool {
        self.ready.contains_key(&rank)
    }

    /// Ranks that wait for the next epoch.
    pub fn waiting(&self) -> Vec<u32> {
        self.ready.keys().copied().collect()
    }

    /// What is to be done now; `here` are the ranks that are there, whether they are ready or not.
    pub fn step(&mut self, here: &[u32], now: Duration) -> Option<Step> {
        let complete = self.ready.len() == self.world as usize;
        if !self.begun {
            if complete {
                return Some(self.begin());
            }
            let missing =
                |assembly: &Self| (0..assembly.world).filter(|rank| !assembly.waits(*rank)).collect();
            if now > self.wait && !self.absent {
                self.absent = true;
                return Some(Step::Missing(missing(self)));
            }
            let tells = now >= self.told && !self.absent;
            self.told = if tells { 2 * now } else { self.told };
            return tells.then(|| Step::Awaited(missing(self)));
        }
        let first = self.asked.values().map(|&(asked, _)| asked).min()?;
        let patience = self.asked.values().map(|&(_, patience)| patience).max()?;
        let waited = now.saturating_sub(first);
        let slow: Vec<u32> = here.iter().copied().filter(|&rank| !self.waits(rank)).collect();
        match slow.is_empty() {
            true if complete || waited >= patience => Some(self.begin()),
            false if waited > self.wait => Some(Step::Slow(slow)),
            _ => None,
        }
    }

    fn begin(&mut self) -> Step {
        let epoch = self.next;
        (self.next, self.begun) = (self.next.wrapping_add(1), true);
        self.asked.clear();
        Step::Begin(epoch, std::mem::take(&mut self.ready).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(10);

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn listens() -> Listens {
        Listens { lanes: Vec::new(), door: None, machine: None }
    }

    fn who(step: Option<Step>) -> (u16, Vec<u32>) {
        match step {
            Some(Step::Begin(epoch, members)) => (epoch, members.into_iter().map(|(rank, _)| rank).collect()),
            other => panic!("{other:?}"),
        }
    }

    fn begun(world: u32) -> Assembly {
        let mut assembly = Assembly::new(world, WAIT);
        (0..world).for_each(|rank| assembly.come(rank, listens()));
        assert_eq!(who(assembly.step(&[], s(1))), (0, (0..world).collect()));
        assembly
    }

    #[test]
    fn the_first_epoch_needs_everybody_and_says_once_who_did_not_come() {
        let mut assembly = Assembly::new(3, WAIT);
        assembly.come(0, listens());
        assembly.come(2, listens());
        assert_eq!(assembly.step(&[0, 2], s(2)), None);
        // Whoever waits is soon told for whom, and now and then again.
        for (now, told) in [(3, true), (4, false), (5, false), (6, true), (10, false)] {
            let awaited = told.then(|| Step::Awaited(vec![1]));
            assert_eq!(assembly.step(&[0, 2], s(now)), awaited, "{now}");
        }
        assert_eq!(assembly.step(&[0, 2], s(11)), Some(Step::Missing(vec![1])));
        assert_eq!(assembly.step(&[0, 2], s(12)), None);
    }

    #[test]
    fn survivors_go_on_at_once_where_nobody_wants_to_wait() {
        let mut assembly = begun(4);
        for rank in [0, 1] {
            assembly.ask(rank, listens(), s(0), s(20));
            assert_eq!(assembly.step(&[0, 1, 3], s(20)), None, "rank 3 is still there");
        }
        assembly.ask(3, listens(), s(0), s(21));
        assert_eq!(who(assembly.step(&[0, 1, 3], s(21))), (1, vec![0, 1, 3]));
        assert_eq!(assembly.step(&[0, 1, 3], s(99)), None, "nobody asks for another");
    }

    #[test]
    fn the_lost_are_waited_for_as_long_as_somebody_wants_that() {
        let mut assembly = begun(3);
        assembly.ask(0, listens(), s(0), s(20));
        assembly.ask(1, listens(), s(5), s(20));
        assert_eq!(assembly.step(&[0, 1], s(24)), None);
        let mut later = assembly.clone();
        assembly.come(2, listens());
        assert_eq!(who(assembly.step(&[0, 1, 2], s(24))), (1, vec![0, 1, 2]));
        assert_eq!(who(later.step(&[0, 1], s(25))), (1, vec![0, 1]));
    }

    #[test]
    fn newcomers_wait_until_somebody_asks() {
        let mut assembly = begun(2);
        assembly.ask(0, listens(), s(0), s(20));
        assert_eq!(who(assembly.step(&[0], s(20))), (1, vec![0]));
        assembly.come(1, listens());
        assert_eq!((assembly.step(&[0, 1], s(50)), assembly.waiting()), (None, vec![1]));
        assembly.ask(0, listens(), s(0), s(60));
        assert_eq!(who(assembly.step(&[0, 1], s(60))), (2, vec![0, 1]));
    }

    #[test]
    fn whoever_has_asked_and_is_gone_holds_nobody_up() {
        let mut assembly = begun(3);
        assembly.ask(2, listens(), s(3600), s(20));
        assembly.forget(2);
        assert_eq!(assembly.step(&[0, 1], s(90)), None, "nobody who is there has asked");
        assembly.ask(0, listens(), s(0), s(91));
        assembly.ask(1, listens(), s(0), s(92));
        assert_eq!(who(assembly.step(&[0, 1], s(92))), (1, vec![0, 1]));
    }

    #[test]
    fn whoever_does_not_ask_in_time_is_left_behind() {
        let mut assembly = begun(3);
        assembly.ask(0, listens(), s(0), s(20));
        assembly.ask(2, listens(), s(0), s(21));
        assert_eq!(assembly.step(&[0, 1, 2], s(30)), None);
        assert_eq!(assembly.step(&[0, 1, 2], s(31)), Some(Step::Slow(vec![1])));
        assembly.forget(1);
        assert_eq!(who(assembly.step(&[0, 2], s(31))), (1, vec![0, 2]));
    }
}
