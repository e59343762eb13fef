//! Saves of jobs: when to take one, which ranks announce it, and what jobs continue from.
//!
//! The register asks a worker, the *leader*, to announce a save to the cores of all hubs of the job at the end of one of its
//! steps. Each chunk keeps its state after that step. Once all cores have reported, the register lets the state be
//! written. The leader collects the reports of all hubs, and says when all have the save.

use super::{Action, EventKind, Register, RegisteredJob, State};
use crate::message::FromHub;
use crate::save_file::Header;
use crate::saved::{FoundSaves, SavedChunk};
use crate::shard::SavedShare;
use crate::terms::{Contract, StepMode};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long to wait for the save that a leader was asked for, before it is asked again.
const AGAIN: Duration = Duration::from_secs(10);

/// What to do about a save that cannot be used.
pub(super) const SAVE_REMEDY: &str =
    "move it away to continue from an older save, or all saves of the job to begin anew";

/// A save under way.
#[derive(Debug)]
struct Running {
    /// The control connection of the worker that was asked to announce it; `None` if another hub has asked.
    asked: Option<u32>,
    since: Duration,
    /// Its number and the worker that has announced it, once a core has reported.
    announced: Option<(u64, u32)>,
    /// The control connection of that worker then: a restarted worker announces others.
    connection: Option<u32>,
    /// The cores that have reported, and their chunks.
    cores: BTreeSet<u32>,
    chunks: BTreeMap<u32, SavedChunk>,
    /// Whether it is being written.
    writing: bool,
}

/// The last save of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSave {
    /// The least number of steps that a chunk of it includes.
    pub step: u64,
    /// Seconds since it was taken.
    pub age_s: u64,
}

/// The saves of a job in the register.
#[derive(Debug, Default)]
pub(super) struct JobSaves {
    /// The saves that were found when the job opened.
    pub(super) found: Vec<u64>,
    /// The save from which the job continues, or `None` for a new job, once a worker has said so.
    pub(super) chosen: Option<Option<u64>>,
    /// The steps of each vector with chunks here, in the save from which the job continues.
    pub(super) steps: Option<Vec<Option<u64>>>,
    running: Option<Running>,
    /// When the last save was asked for, or the job has begun.
    asked: Option<Duration>,
    /// Whether a user has asked for a save.
    wanted: bool,
    /// Whether the user has asked since the save under way was announced: it does not have what came between.
    wanted_again: bool,
    /// The newest save here: its number, its step and when it was taken.
    last: Option<(u64, u64, Duration)>,
    /// The newest save that all hubs have.
    common: Option<u64>,
    /// Why the newest attempt has failed, if it has.
    failure: Option<String>,
}

impl JobSaves {
    /// The saves of a job that is about to open.
    pub(super) fn of(found: Vec<u64>) -> Self {
        Self { found, ..Self::default() }
    }

    /// The save from which the job continues, if the hub has newer ones that not all hubs have.
    pub(super) fn outdates(&self) -> Option<u64> {
        self.chosen.flatten().filter(|&chosen| self.found.iter().any(|&found| found > chosen))
    }

    /// Describes the last save.
    pub(super) fn last(&self, now: Duration) -> Option<LastSave> {
        let (_, step, at) = self.last?;
        Some(LastSave { step, age_s: now.saturating_sub(at).as_secs() })
    }

    /// Returns why the newest attempt has failed, if it has.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

/// Returns whether hubs save such a job. Without optimizers there is nothing that ranks could not compute again.
pub(super) fn is_saved(contract: &Contract) -> bool {
    let terms = &contract.terms;
    let lasts = contract.optimizers.iter().any(Option::is_some) || terms.step_mode == StepMode::Asynchronous;
    lasts && terms.racks.is_none()
}

/// What a user learns about a job whose save was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaveReport {
    /// The job.
    pub job: String,
    /// The steps that its last save includes, if it has one.
    pub step: Option<u64>,
    /// Why no save was taken now, if none was.
    pub why: Option<String>,
}

impl Register {
    /// Keeps saves of jobs from now on: one `every` so often, if that is given, and when a user asks.
    pub fn keep_saves(&mut self, every: Option<Duration>) {
        self.saves = Some(every);
    }

    /// Returns whether saves are kept of a job with this contract.
    pub fn saves(&self, contract: &Contract) -> bool {
        self.saves.is_some() && is_saved(contract)
    }

    /// Returns the job of a control connection.
    pub fn job_of(&self, connection: u32) -> Option<&str> {
        self.connections.get(&connection).map(|connection| connection.job.as_str())
    }

    /// Returns whether there is a job with this name.
    pub fn has_job(&self, name: &str) -> bool {
        self.jobs.contains_key(name)
    }

    /// Sets the saves that the hub has of a job that is about to open.
    pub fn found_saves(&mut self, name: &str, found: FoundSaves) {
        self.found_saves.insert(name.to_owned(), found);
    }

    /// Takes the saves from which a new job can continue.
    ///
    /// # Errors
    /// A sentence: there is one that cannot be used, or was made with different terms.
    pub(super) fn take_found(&mut self, name: &str, contract: &Contract) -> Result<Vec<u64>, String> {
        let FoundSaves { usable, unusable } = self.found_saves.remove(name).unwrap_or_default();
        if let Some(why) = unusable.first() {
            return Err(format!(
                "the hub cannot continue job `{name}`, because its save {why}: {SAVE_REMEDY}"
            ));
        }
        for header in &usable {
            if let Some(what) = header.differs(&contract.terms) {
                let step = header.step;
                return Err(format!(
                    "the hub has a save of job `{name}` after step {step}, with different terms: {what}. Use the same \
                     terms or another job name, or move the folder of the job's saves away"
                ));
            }
        }
        Ok(usable.iter().map(|header| header.number).collect())
    }

    /// Asks for a save of every job that has begun.
    pub fn want_saves(&mut self) {
        let kept = self.saves.is_some();
        for job in self.jobs.values_mut().filter(|job| kept && job.begun && is_saved(&job.contract)) {
            let announced = job.saves.running.as_ref().is_some_and(|running| running.announced.is_some());
            job.saves.wanted_again |= announced;
            job.saves.wanted = true;
        }
    }

    /// Returns whether a save that was asked for is not complete.
    pub fn saves_pending(&self) -> bool {
        self.jobs.values().any(|job| job.saves.wanted)
    }

    /// Reports on the last save of every job.
    pub fn save_reports(&self) -> Vec<SaveReport> {
        let report = |(name, job): (&String, &RegisteredJob)| {
            let why = if !is_saved(&job.contract) {
                let racks = job.contract.terms.racks.is_some();
                let why = if racks { "it has hubs in several racks" } else { "it has no optimizer" };
                Some(format!("hubs keep no saves of such a job: {why}"))
            } else if !job.begun {
                Some("it has not begun".to_owned())
            } else if let Some(why) = &job.saves.failure {
                Some(why.clone())
            } else {
                job.saves.wanted.then(|| "its ranks have not completed a step since".to_owned())
            };
            SaveReport { job: name.clone(), step: job.saves.last.map(|(_, step, _)| step), why }
        };
        self.jobs.iter().map(report).collect()
    }

    /// Asks leaders for saves that are due.
    pub(super) fn tick_saves(&mut self, now: Duration) {
        let Some(every) = self.saves else { return };
        for job in self.jobs.values_mut().filter(|job| job.begun && is_saved(&job.contract)) {
            let saves = &mut job.saves;
            let asked = *saves.asked.get_or_insert(now);
            let leaders: Vec<u32> = job.workers.iter().filter_map(active).collect();
            match &saves.running {
                Some(running) if running.writing => continue,
                Some(Running { asked, since, .. })
                    if now < *since + AGAIN && asked.is_none_or(|asked| leaders.contains(&asked)) =>
                {
                    continue;
                }
                None if !saves.wanted && every.is_none_or(|every| now < asked + every) => continue,
                _ => {}
            }
            let Some(&leader) = leaders.first() else { continue };
            saves.asked = Some(now);
            match &mut saves.running {
                Some(running) => (running.asked, running.since) = (Some(leader), now),
                None => saves.running = Some(Running::new(Some(leader), now)),
            }
            let above = saves.last.map_or(0, |(number, ..)| number);
            self.actions.push(Action::Send { connection: leader, message: FromHub::Save { above } });
        }
    }

    /// Handles a core's share of a save. Once all cores have reported the same save, it is written.
    pub fn share_saved(&mut self, core: u32, share: SavedShare, now: Duration) {
        let SavedShare { job, number, leader, chunks } = share;
        let (kept, cores) = (self.saves.is_some(), self.cores);
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == job) else { return };
        if !kept || !is_saved(&job.contract) {
            return;
        }
        let saves = &mut job.saves;
        let running = saves.running.get_or_insert_with(|| Running::new(None, now));
        let connection = |worker: u32| active(&job.workers[worker as usize]);
        // Shares of saves that different leaders have announced do not belong together, even if the numbers are the same.
        let mut turned_down = None;
        match running.announced {
            Some(known) if known == (number, leader) => {
                if running.writing {
                    return;
                }
            }
            Some((known, by)) => {
                // Some cores may never hear of a save whose leader is lost.
                let goes_on = running.connection.is_some_and(|then| connection(by) == Some(then));
                if running.writing || goes_on && (known >= number || connection(leader).is_none()) {
                    turned_down = Some((number, leader));
                } else {
                    turned_down = Some((known, by));
                    running.announce(number, leader, connection(leader));
                }
            }
            None => running.announce(number, leader, connection(leader)),
        }
        // The hub has no time for the other save, and its leader must not wait.
        if let Some((number, leader)) = turned_down
            && let Some(connection) = connection(leader)
        {
            self.actions.push(Action::Send { connection, message: FromHub::Saved { number, done: false } });
        }
        if turned_down == Some((number, leader)) {
            return;
        }
        running.cores.insert(core);
        running.chunks.extend(chunks);
        saves.asked = Some(now);
        if running.cores.len() < cores as usize {
            return;
        }
        let chunks = std::mem::take(&mut running.chunks);
        if saves.last.is_some_and(|(last, ..)| last == number) {
            // Nothing was pushed since.
            let name = name.clone();
            return self.end_save(&name, true, now);
        }
        running.writing = true;
        let place = job.hubs.as_ref().map_or((0, 1), |list| (list.own, list.hubs.len() as u32));
        let header = Header::new(name, number, place, &job.contract.terms, &chunks);
        let (job, common) = (job.number, saves.common);
        self.actions.push(Action::WriteSave { job, header: Box::new(header), chunks, common });
    }

    /// Handles the result of writing a save ([`Action::WriteSave`]): `step` is the step of the save.
    pub fn save_written(
        &mut self,
        job: u32,
        number: u64,
        step: u64,
        outcome: Result<(), String>,
        now: Duration,
    ) {
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == job) else { return };
        let name = name.clone();
        let done = outcome.is_ok();
        match outcome {
            Ok(()) => (job.saves.last, job.saves.failure) = (Some((number, step, now)), None),
            Err(why) => {
                job.saves.failure = Some(why.clone());
                self.note(EventKind::SaveFailed, &name, None, Some(why));
            }
        }
        self.end_save(&name, done, now);
    }

    fn end_save(&mut self, name: &str, done: bool, now: Duration) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        job.saves.wanted = std::mem::take(&mut job.saves.wanted_again);
        let Some(Running { announced: Some((number, leader)), .. }) = job.saves.running.take() else {
            return;
        };
        if let (Some((_, _, at)), true) = (&mut job.saves.last, done) {
            *at = now;
        }
        if let Some(connection) = active(&job.workers[leader as usize]) {
            self.send(connection, FromHub::Saved { number, done });
        }
    }

    /// Handles a leader's message that all hubs have a save.
    pub(super) fn saved_by_all(&mut self, name: &str, number: u64) {
        let saves = self.jobs.get_mut(name).map(|job| &mut job.saves);
        if let Some(saves) = saves.filter(|saves| saves.last.is_some_and(|(last, ..)| last == number)) {
            saves.common = Some(number);
        }
    }

    /// Sets what a job continues from: its save `number`.
    pub(super) fn restore(job: &mut RegisteredJob, number: u64, chunks: &BTreeMap<u32, SavedChunk>) -> u64 {
        let catalogue = &job.contract.catalogue;
        let mut steps = vec![None; catalogue.keys().len()];
        for (&chunk, saved) in chunks {
            let place: &mut Option<u64> = &mut steps[catalogue.piece(chunk).key as usize];
            *place = Some(place.map_or(saved.step, |least| least.min(saved.step)));
        }
        let step = chunks.values().map(|saved| saved.step).min().unwrap_or(0);
        job.saves.steps = Some(steps);
        (job.saves.last, job.saves.common) = (Some((number, step, Duration::ZERO)), Some(number));
        step
    }
}

impl Running {
    /// Begins with the shares of a save that a worker has announced on this control connection.
    fn announce(&mut self, number: u64, leader: u32, connection: Option<u32>) {
        (self.announced, self.connection) = (Some((number, leader)), connection);
        (self.cores, self.chunks) = (BTreeSet::new(), BTreeMap::new());
    }

    const fn new(asked: Option<u32>, since: Duration) -> Self {
        let cores = BTreeSet::new();
        let chunks = BTreeMap::new();
        Self { asked, since, announced: None, connection: None, cores, chunks, writing: false }
    }
}

/// The control connection of a worker that takes part.
const fn active(state: &State) -> Option<u32> {
    match state {
        State::Active(connection) => Some(*connection),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_hub::{Hub, NOW, terms};
    use super::*;
    use crate::optimizer::Chosen;
    use crate::terms::Terms;
    use syncline_protocol::fault::Trouble;
    use syncline_protocol::memory::Buffer;

    const EVERY: Duration = Duration::from_secs(30);

    fn trained() -> Terms {
        let optimizer = Chosen { name: "adam".to_owned(), parameters: BTreeMap::new() };
        Terms { optimizer: Some(optimizer), ..terms(2, "shrink") }
    }

    /// A job of two ranks that has begun on a hub that keeps saves, on connections 0 and 1.
    fn begun() -> Hub {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        hub.0.keep_saves(Some(EVERY));
        for connection in 0..2 {
            hub.open(connection, connection, &trained());
            hub.ready(connection);
        }
        hub.tick(NOW);
        hub.0.actions();
        hub
    }

    impl Hub {
        /// Advances the timers of saves only: heartbeats are not part of these tests.
        fn tick(&mut self, now: Duration) {
            self.0.tick_saves(now);
        }

        fn share(&mut self, number: u64, step: u64, now: Duration) {
            let value = Some(std::sync::Arc::new(Buffer::new(36)));
            let chunk =
                SavedChunk { step, contributors: 2, value, memory: Default::default(), rates: Vec::new() };
            // The job has one chunk, at the first core.
            for (core, chunks) in (0..).zip([BTreeMap::from([(0, chunk)]), BTreeMap::new()]) {
                self.0.share_saved(core, SavedShare { job: 1, number, leader: 0, chunks }, now);
            }
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_leader_is_asked_at_the_interval_and_learns_the_outcome() {
        let mut hub = begun();
        hub.tick(seconds(29));
        assert!(hub.0.actions().is_empty());
        hub.tick(seconds(30));
        assert_eq!(Hub::sent(&hub.0.actions(), 0), [&FromHub::Save { above: 0 }]);
        hub.tick(seconds(31));
        assert!(hub.0.actions().is_empty(), "it was asked");
        hub.share(7, 7, seconds(31));
        let actions = hub.0.actions();
        let [Action::WriteSave { job: 1, header, chunks, common: None }] = &actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!((header.number, header.step, header.chunks, chunks.len()), (7, 7, 1, 1));
        hub.0.save_written(1, 7, 7, Ok(()), seconds(32));
        assert_eq!(Hub::sent(&hub.0.actions(), 0), [&FromHub::Saved { number: 7, done: true }]);
        hub.0.saved_by_all("job", 7);
        assert_eq!(hub.0.jobs(seconds(35))[0].saved, Some(LastSave { step: 7, age_s: 3 }));
        // The next save keeps the one that all hubs have.
        hub.tick(seconds(61));
        assert_eq!(Hub::sent(&hub.0.actions(), 0), [&FromHub::Save { above: 7 }]);
        hub.share(9, 9, seconds(62));
        assert!(matches!(hub.0.actions()[..], [Action::WriteSave { common: Some(7), .. }]));
        hub.0.save_written(1, 9, 9, Err("the disk is full".to_owned()), seconds(63));
        assert_eq!(Hub::sent(&hub.0.actions(), 0), [&FromHub::Saved { number: 9, done: false }]);
        let job = &hub.0.jobs(seconds(63))[0];
        assert_eq!(job.saved.as_ref().map(|saved| saved.step), Some(7));
        assert_eq!(job.save_failure.as_deref(), Some("the disk is full"));
    }

    #[test]
    fn what_is_saved_already_is_not_written_again() {
        let mut hub = begun();
        hub.tick(EVERY);
        hub.share(7, 7, EVERY);
        hub.0.save_written(1, 7, 7, Ok(()), EVERY);
        hub.0.want_saves();
        assert!(hub.0.saves_pending());
        hub.tick(EVERY);
        hub.0.actions();
        hub.share(7, 7, seconds(40));
        assert_eq!(Hub::sent(&hub.0.actions(), 0), [&FromHub::Saved { number: 7, done: true }]);
        assert!(!hub.0.saves_pending());
    }

    #[test]
    fn a_save_asked_for_while_another_is_written_is_taken_after_it() {
        let mut hub = begun();
        hub.tick(EVERY);
        hub.share(7, 7, EVERY);
        hub.0.want_saves();
        hub.0.save_written(1, 7, 7, Ok(()), EVERY);
        hub.0.actions();
        assert!(hub.0.saves_pending(), "the save under way does not have what came after it was announced");
        hub.tick(EVERY);
        assert_eq!(Hub::sent(&hub.0.actions(), 0), [&FromHub::Save { above: 7 }]);
        hub.share(9, 9, EVERY);
        hub.0.save_written(1, 9, 9, Ok(()), EVERY);
        assert!(!hub.0.saves_pending());
    }

    #[test]
    fn shares_of_different_leaders_are_never_one_save() {
        let mut hub = begun();
        let share = |hub: &mut Hub, core, leader, chunks: &[u32]| {
            let chunk = SavedChunk {
                step: 7,
                contributors: 2,
                value: None,
                memory: Default::default(),
                rates: Vec::new(),
            };
            let chunks = chunks.iter().map(|&number| (number, chunk.clone())).collect();
            hub.0.share_saved(core, SavedShare { job: 1, number: 7, leader, chunks }, EVERY);
        };
        hub.tick(EVERY);
        // The announcement of rank 0 reaches one core before the rank is lost; rank 1 announces the same step.
        share(&mut hub, 1, 0, &[]);
        hub.0.disconnected(0, Trouble::closed("reset"));
        hub.tick(EVERY);
        hub.0.actions();
        share(&mut hub, 1, 1, &[]);
        assert!(hub.0.actions().is_empty(), "one core has not reported");
        share(&mut hub, 1, 1, &[]);
        assert!(hub.0.actions().is_empty(), "a core that reports twice counts once");
        share(&mut hub, 0, 0, &[0]);
        assert!(
            hub.0.actions().is_empty(),
            "the save of a rank that is lost does not replace that of another"
        );
        share(&mut hub, 0, 1, &[0]);
        let actions = hub.0.actions();
        assert!(
            matches!(&actions[..], [Action::WriteSave { chunks, .. }] if chunks.len() == 1),
            "{actions:?}"
        );
        hub.0.save_written(1, 7, 7, Ok(()), EVERY);
        assert_eq!(Hub::sent(&hub.0.actions(), 1), [&FromHub::Saved { number: 7, done: true }]);
    }

    #[test]
    fn the_leader_of_a_save_that_another_replaces_does_not_wait_for_it() {
        let mut hub = begun();
        hub.tick(EVERY);
        hub.0.actions();
        let share = |hub: &mut Hub, number, leader| {
            let share = SavedShare { job: 1, number, leader, chunks: BTreeMap::new() };
            hub.0.share_saved(1, share, EVERY);
            hub.0.actions()
        };
        assert!(share(&mut hub, 7, 0).is_empty());
        assert_eq!(Hub::sent(&share(&mut hub, 9, 1), 0), [&FromHub::Saved { number: 7, done: false }]);
        assert_eq!(Hub::sent(&share(&mut hub, 8, 0), 0), [&FromHub::Saved { number: 8, done: false }]);
        // Nobody continues the save of a rank that was restarted since.
        hub.0.disconnected(1, Trouble::closed("reset"));
        hub.open(5, 1, &trained());
        hub.ready(5);
        for core in 0..2 {
            let attempt = crate::shard::Attempt { incarnation: 5, number: 1 };
            let steps = BTreeMap::from([(0, 7)]);
            hub.0.rejoined(core, crate::shard::Joined { job: 1, worker: 1, attempt, steps });
        }
        hub.0.actions();
        let actions = share(&mut hub, 8, 0);
        assert!(Hub::sent(&actions, 0).is_empty(), "{actions:?}");
    }

    #[test]
    fn another_leader_is_asked_if_the_first_is_lost() {
        let mut hub = begun();
        hub.tick(EVERY);
        hub.0.disconnected(0, Trouble::closed("reset"));
        hub.0.actions();
        hub.tick(EVERY);
        assert_eq!(Hub::sent(&hub.0.actions(), 1), [&FromHub::Save { above: 0 }]);
    }

    #[test]
    fn a_job_with_a_save_that_cannot_be_used_or_has_other_terms_is_refused() {
        let refused = |found: FoundSaves| {
            let mut hub = Hub::new();
            hub.0.keep_saves(None);
            hub.0.found_saves("job", found);
            hub.open(0, 0, &trained());
            let actions = hub.0.actions();
            match Hub::sent(&actions, 0)[..] {
                [FromHub::Refused { why, permanent: true }] => why.clone(),
                _ => panic!("{actions:?}"),
            }
        };
        let damaged = FoundSaves { unusable: vec!["F is damaged".to_owned()], ..FoundSaves::default() };
        assert!(refused(damaged).contains("because its save F is damaged: move it away"));
        let header = Header::new("job", 3, (0, 1), &terms(2, "shrink"), &BTreeMap::new());
        let other = FoundSaves { usable: vec![header], ..FoundSaves::default() };
        assert!(refused(other).contains("with different terms: `optimizer`"));
    }

    #[test]
    fn ranks_learn_the_steps_of_the_save_from_which_they_continue() {
        let mut hub = Hub::new();
        hub.0.limits.memory = u64::MAX;
        hub.0.keep_saves(None);
        let header = |number| Header::new("job", number, (0, 1), &trained(), &BTreeMap::new());
        let usable = vec![header(3), header(4)];
        hub.0.found_saves("job", FoundSaves { usable, ..FoundSaves::default() });
        let chunk = SavedChunk {
            step: 3,
            contributors: 2,
            value: None,
            memory: Default::default(),
            rates: Vec::new(),
        };
        let mut actions = Vec::new();
        for connection in 0..2 {
            hub.open(connection, connection, &trained());
            let hubs = vec![crate::assignment::Cores { cores: 2, interfaces: 1 }];
            let ready = crate::message::FromWorker::Ready { hubs, hub: 0, save: Some(3) };
            hub.0.received(connection, ready, 0, NOW);
            for action in hub.0.actions() {
                if let Action::Plan { job, contract, hubs, save, saves: true } = &action {
                    assert_eq!(*save, Some(("job".to_owned(), 3)));
                    let shares = super::super::Shares::new(contract, hubs, true);
                    hub.0.planned(*job, shares, Ok(BTreeMap::from([(0, chunk.clone())])));
                }
                actions.push(action);
            }
            actions.extend(hub.0.actions());
        }
        let begin = FromHub::Begin { steps: vec![Some(3)], fresh: false, exact: true };
        for connection in 0..2 {
            assert_eq!(Hub::sent(&actions, connection).last(), Some(&&begin), "{actions:?}");
        }
        // Another hub does not have save 4. A later save with this number is not to be taken for it.
        let removes =
            |action: &Action| matches!(action, Action::RemoveSaves { job, above: 3 } if job == "job");
        assert_eq!(actions.iter().filter(|action| removes(action)).count(), 1, "{actions:?}");
    }
}
