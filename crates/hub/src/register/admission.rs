//! Admits workers and jobs.

use super::saving::{JobSaves, SAVE_REMEDY, is_saved};
use super::{Action, Connection, EventKind, MAX_CORES, MAX_HUBS, Register, RegisteredJob, Shares, State};
use crate::assignment::{Cores, HubList};
use crate::message::FromHub;
use crate::saved::SavedChunk;
use crate::terms::{LossPolicy, Terms};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of a job's name.
const LONGEST_NAME: usize = 200;

/// Workers that are connected to all cores, while it is computed which core has which chunk.
#[derive(Debug)]
pub(super) struct Planning {
    hubs: HubList,
    ready: Vec<ReadyWorker>,
    /// The control connection of each worker that has waited too long meanwhile, by worker.
    pub(super) late: BTreeMap<u32, u32>,
}

/// A worker that is connected to all cores of all hubs.
#[derive(Clone, Copy, Debug)]
struct ReadyWorker {
    worker: u32,
    /// Its control connection.
    connection: u32,
}

/// What a worker says when it opens a job.
#[derive(Debug)]
pub(super) struct Opening {
    pub terms: Terms,
    /// A random number that the worker chose when it was started.
    pub incarnation: u64,
    /// How often the worker sends heartbeats, in milliseconds.
    pub interval_ms: u64,
}

impl Register {
    /// Returns whether a worker may connect to a core: it must be joining, and show its ticket.
    ///
    /// # Errors
    /// A clause: why it may not.
    pub fn admits_core(&self, job: u32, worker: u32, ticket: u64) -> Result<(), String> {
        let known = self.jobs.values().find(|known| known.number == job);
        let shown = known.filter(|known| known.tickets.get(worker as usize) == Some(&ticket));
        match shown.map(|known| &known.workers[worker as usize]) {
            Some(State::Joining(_)) => Ok(()),
            Some(_) => Err(format!("rank {worker} is not joining the job")),
            None => Err("the job does not exist, or the ticket is wrong".to_owned()),
        }
    }

    /// Returns the number of a job here, if a hub of another rack may connect to a core for it.
    ///
    /// # Errors
    /// A clause: why it may not.
    pub fn admits_rack(&self, job: &str, rack: u32) -> Result<u32, String> {
        let known = self.jobs.get(job).filter(|job| job.hubs.is_some());
        let Some((job, own)) = known.and_then(|job| Some((job, job.rack?))) else {
            return Err("the job has not begun in this rack".to_owned());
        };
        let racks = job.contract.terms.racks.as_ref().map_or(0, |racks| racks.hubs.len());
        if rack > own && (rack as usize) < racks {
            Ok(job.number)
        } else {
            Err(format!(
                "rack {rack} may not connect to rack {own}: of {racks} racks, only higher ones connect to it"
            ))
        }
    }

    /// Refuses a worker, and closes its control connection. `permanent` says that another attempt would be refused,
    /// too.
    pub(super) fn refuse(&mut self, connection: u32, why: impl Into<String>, permanent: bool) {
        let why = why.into();
        if let Some(Connection { job, worker, .. }) = self.connections.get(&connection) {
            let (job, worker) = (job.clone(), *worker);
            self.note(EventKind::RankRefused, &job, Some(worker), Some(why.clone()));
        }
        self.send(connection, FromHub::Refused { why, permanent });
        self.actions.push(Action::Close { connection });
        self.release(connection);
    }

    /// Admits a worker that opens a job, or refuses it. The first worker creates the job.
    pub(super) fn open(&mut self, connection: u32, name: &str, worker: u32, opening: Opening, random: u64) {
        let Opening { terms, incarnation, interval_ms } = opening;
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let why = format!("the job's name must have 1 to {LONGEST_NAME} bytes and no control characters");
            return self.refuse(connection, why, true);
        }
        let silence = self.heartbeats.patience().silence;
        if 2 * Duration::from_millis(interval_ms) > silence {
            let (theirs, ours) = (interval_ms as f64 / 1e3, silence.as_secs_f64());
            let why = format!(
                "the rank sends a heartbeat every {theirs} s, and the hub treats a rank as lost after {ours} s \
                 without one: set the rank's `interval_s` to at most half of that"
            );
            return self.refuse(connection, why, true);
        }
        if worker >= terms.workers {
            let why = format!("rank {worker} does not exist: the job has {} ranks", terms.workers);
            return self.refuse(connection, why, true);
        }
        if !self.jobs.contains_key(name) {
            if self.draining {
                return self.refuse(connection, "the hub is shutting down and takes no new jobs", true);
            }
            if self.jobs.len() >= self.limits.jobs {
                let why = format!("the hub already has {} jobs, which is its limit", self.limits.jobs);
                return self.refuse(connection, why, false);
            }
            if let Err(why) = self.create(name, worker, terms) {
                return self.refuse(connection, why, true);
            }
        } else if let Some(what) = self.jobs[name].contract.terms.differs(&terms) {
            let job =
                self.jobs.get_mut(name).filter(|job| !job.begun && (worker as usize) < job.workers.len());
            job.and_then(|job| job.different.insert(worker, what.clone()));
            return self.refuse(
                connection,
                format!("rank {worker} asks for different terms than job `{name}`: {what}"),
                true,
            );
        }
        let job = self.jobs.get_mut(name).expect("put there above");
        let policy = job.contract.terms.policy;
        match &job.workers[worker as usize] {
            State::Absent => {}
            State::OtherRack => {
                let why = format!("rank {worker} is in a different rack from this hub");
                return self.refuse(connection, why, true);
            }
            State::Lost(_) | State::Left if policy != LossPolicy::Fail => {}
            State::Lost(_) | State::Left => {
                let why = format!(
                    "rank {worker} has already been part of job `{name}`, and ranks cannot rejoin under policy `fail`"
                );
                return self.refuse(connection, why, false);
            }
            _ => {
                let why = format!("rank {worker} of job `{name}` has already joined");
                return self.refuse(connection, why, false);
            }
        }
        job.workers[worker as usize] = State::Joining(connection);
        job.incarnations[worker as usize] = incarnation;
        job.tickets[worker as usize] = random;
        let opened = FromHub::Opened {
            job: job.number,
            epoch: job.epoch,
            ticket: random,
            cores: self.cores,
            interfaces: self.interfaces.clone(),
            saves: self.saves.map(|_| if job.begun { Vec::new() } else { job.saves.found.clone() }),
            live: job.begun,
        };
        self.send(connection, opened);
        if let Some(known) = self.connections.get_mut(&connection) {
            known.admitted = true;
        }
        self.note(EventKind::RankJoined, name, Some(worker), None);
    }

    /// Creates a job. Its hub's rack is the one of `worker`.
    ///
    /// # Errors
    /// A sentence: why its terms are invalid.
    fn create(&mut self, name: &str, worker: u32, terms: Terms) -> Result<(), String> {
        let workers = terms.workers as usize;
        let rack = terms.racks.as_ref().and_then(|racks| racks.rack_of_worker.get(worker as usize)).copied();
        let contract = Arc::new(terms.contract(&self.optimizers)?);
        let saves = JobSaves::of(self.take_found(name, &contract)?);
        let elsewhere = |worker: usize| {
            contract.terms.racks.as_ref().is_some_and(|racks| Some(racks.rack_of_worker[worker]) != rack)
        };
        let state = |worker| if elsewhere(worker) { State::OtherRack } else { State::Absent };
        let states = (0..workers).map(state).collect();
        self.opened += 1;
        let (number, epoch) = (self.opened, self.opened as u16);
        self.actions.push(Action::OpenJob { job: number, contract: Arc::clone(&contract), epoch });
        let job = RegisteredJob {
            number,
            contract,
            epoch,
            tickets: vec![0; workers],
            hubs: None,
            planning: None,
            memory: 0,
            rack,
            begun: false,
            workers: states,
            incarnations: vec![0; workers],
            deserted: None,
            rejoining: BTreeMap::new(),
            different: BTreeMap::new(),
            inquiries: BTreeMap::new(),
            lost_connections: BTreeMap::new(),
            saves,
            hub_lost: false,
        };
        self.jobs.insert(name.to_owned(), job);
        self.note(EventKind::JobOpened, name, None, None);
        Ok(())
    }

    /// Handles a worker that is connected to all cores of these hubs. The first such worker of a job starts the
    /// assignment of chunks to cores.
    pub(super) fn ready(
        &mut self,
        connection: u32,
        name: &str,
        worker: u32,
        list: HubList,
        save: Option<u64>,
    ) {
        let kept = self.saves;
        let own = Cores { cores: self.cores, interfaces: self.interfaces.len() as u32 };
        let Some(job) = self.jobs.get_mut(name) else { return };
        if job.workers[worker as usize] != State::Joining(connection) {
            return;
        }
        let valid =
            |hub: &Cores| (1..=MAX_CORES).contains(&hub.cores) && (1..=hub.cores).contains(&hub.interfaces);
        let racks = job.contract.terms.racks.as_ref().zip(job.rack);
        let expected = racks.map_or(list.hubs.len(), |(racks, rack)| racks.hubs[rack as usize].len());
        if list.hubs.len() != expected
            || list.hubs.len() > MAX_HUBS
            || list.hubs.get(list.own as usize) != Some(&own)
            || !list.hubs.iter().all(valid)
        {
            self.refuse(connection, "the rank's list of hubs does not match this hub", true);
            return self.remove_worker(connection, name, worker, State::Left);
        }
        let known = job.hubs.as_ref().or(job.planning.as_ref().map(|planning| &planning.hubs));
        if known.is_some_and(|known| *known != list) {
            let why = format!("other ranks of job `{name}` list other hubs, or list them in another order");
            self.refuse(connection, why, true);
            return self.remove_worker(connection, name, worker, State::Left);
        }
        let chosen = *job.saves.chosen.get_or_insert(save);
        if save.is_some_and(|save| job.begun || chosen != Some(save) || !job.saves.found.contains(&save))
            || save.is_none() && !job.begun && chosen.is_some()
        {
            let why = format!("other ranks of job `{name}` do not continue from the same save");
            self.refuse(connection, why, false);
            return self.remove_worker(connection, name, worker, State::Left);
        }
        match &mut job.planning {
            _ if job.hubs.is_some() => self.enlist(connection, name, worker),
            Some(planning) => planning.ready.push(ReadyWorker { worker, connection }),
            None => {
                let contract = Arc::clone(&job.contract);
                let save = save.map(|number| (name.to_owned(), number));
                let saves = kept.is_some() && is_saved(&contract);
                let plan = Action::Plan { job: job.number, contract, hubs: list.clone(), save, saves };
                let ready = vec![ReadyWorker { worker, connection }];
                job.planning = Some(Planning { hubs: list, ready, late: BTreeMap::new() });
                self.actions.push(plan);
            }
        }
    }

    /// Handles the assignment of a job's chunks to cores ([`Action::Plan`]), and the save from which the job continues,
    /// if it does. Gives the job its memory, or refuses its workers if the hub does not have enough or the save cannot
    /// be used (a clause with the save as subject).
    pub fn planned(&mut self, number: u32, shares: Shares, saved: Result<BTreeMap<u32, SavedChunk>, String>) {
        // The job may have ended since the computation began.
        let Some((name, job)) = self.jobs.iter_mut().find(|(_, known)| known.number == number) else {
            return;
        };
        let Some(Planning { hubs, ready, late }) = job.planning.take() else { return };
        let name = name.clone();
        let saved = match saved {
            Ok(saved) => saved,
            Err(why) => {
                let why =
                    format!("the hub cannot continue job `{name}`, because its save {why}: {SAVE_REMEDY}");
                for ReadyWorker { worker, connection } in ready {
                    if self.is_joining(&name, worker, connection) {
                        self.refuse(connection, why.clone(), true);
                        self.remove_worker(connection, &name, worker, State::Left);
                    }
                }
                return;
            }
        };
        let workers = job.workers.iter().filter(|state| **state != State::OtherRack).count() as u64;
        let others = self.jobs.values().map(|job| job.memory).fold(0, u64::saturating_add);
        let fit = shares.fit(workers, self.limits.memory.saturating_sub(others), self.limits.ahead);
        let memory = match fit {
            Ok(memory) => memory,
            Err(needs) => {
                let [needs_gb, others_gb, most_gb] =
                    [needs, others, self.limits.memory].map(|bytes| bytes as f64 / 1e9);
                let why = format!(
                    "job `{name}` needs {needs_gb:.3} GB of the hub's memory, where other jobs have {others_gb:.3} GB \
                     of {most_gb:.3} GB: give the hub more memory (--memory), or use more hubs"
                );
                for ReadyWorker { worker, connection } in ready {
                    if self.is_joining(&name, worker, connection) {
                        self.refuse(connection, why.clone(), needs > self.limits.memory);
                        self.remove_worker(connection, &name, worker, State::Left);
                    }
                }
                return;
            }
        };
        let Some(job) = self.jobs.get_mut(&name) else { return };
        let own = hubs.own;
        (job.hubs, job.memory) = (Some(hubs), memory.bytes);
        let restored = job.saves.chosen.flatten().map(|save| Self::restore(job, save, &saved));
        self.actions.push(Action::AssignChunks { job: number, chunks: shares.chunks, memory, saved });
        if let Some(step) = restored {
            self.note(EventKind::JobRestored, &name, None, Some(format!("after step {step}")));
        }
        let Some(job) = self.jobs.get_mut(&name) else { return };
        if let Some(rack) = job.rack {
            let contract = Arc::clone(&job.contract);
            let name = name.clone();
            self.actions.push(Action::ConnectRacks { job: number, name, contract, rack, hub: own });
        }
        for ReadyWorker { worker, connection } in ready {
            if self.is_joining(&name, worker, connection) {
                self.enlist(connection, &name, worker);
            }
        }
        let waits = |job: &RegisteredJob| {
            let is_ready = |(&worker, &connection)| job.workers[worker as usize] == State::Ready(connection);
            !job.begun && late.iter().any(is_ready)
        };
        if self.jobs.get(&name).is_some_and(waits) {
            self.begins_too_late(&name);
        }
    }

    /// Returns whether a worker is still joining on this control connection: it may have gone, and come again.
    fn is_joining(&self, name: &str, worker: u32, connection: u32) -> bool {
        self.jobs.get(name).is_some_and(|job| job.workers[worker as usize] == State::Joining(connection))
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_hub::{Hub, NOW, terms};
    use super::*;
    use crate::message::FromWorker;
    use crate::status::RankState::Active;
    use syncline_protocol::fault::Trouble;

    #[test]
    fn a_job_waits_until_other_jobs_free_memory() {
        let refused = |hub: &mut Hub, connection| {
            let actions = hub.0.actions();
            Hub::sent(&actions, connection).into_iter().find_map(|message| match message {
                FromHub::Refused { why, permanent } => Some((why.clone(), *permanent)),
                _ => None,
            })
        };
        let ready = |hub: &mut Hub, connection, job: &str, elements| {
            let mut terms = terms(1, "fail");
            terms.keys[0].elements = elements;
            hub.0.connected(connection, job, 0, NOW);
            let open = FromWorker::Open { terms: Box::new(terms), incarnation: 1, interval_ms: 100 };
            hub.0.received(connection, open, 1000, NOW);
            hub.ready(connection);
            refused(hub, connection)
        };
        let mut hub = Hub::new();
        // More than the hub has, so the refusal is permanent: buffers are powers of two.
        let (why, permanent) = ready(&mut hub, 0, "large", 17).unwrap();
        assert!(why.contains("job `large` needs") && permanent, "{why}");
        assert_eq!(ready(&mut hub, 1, "fits", 9), None);
        // There is memory once the other job has ended.
        let (why, permanent) = ready(&mut hub, 2, "small", 1).unwrap();
        assert!(why.contains("other jobs have") && !permanent, "{why}");
        hub.0.received(1, FromWorker::Leave, 0, NOW);
        hub.0.actions();
        assert_eq!(ready(&mut hub, 3, "small", 1), None);
    }

    #[test]
    fn a_rank_that_times_out_while_its_job_is_planned_learns_why() {
        let opened = |hub: &mut Hub, ranks, elements| {
            let mut terms = terms(ranks, "fail");
            terms.keys[0].elements = elements;
            hub.open(0, 0, &terms);
            hub.0.actions();
            hub.send_ready(0);
            hub.0.received(0, FromWorker::Late { key: 0, step: 0 }, 0, NOW);
            hub.plan();
            let actions = hub.0.actions();
            Hub::sent(&actions, 0).into_iter().map(|message| format!("{message:?}")).collect::<Vec<_>>()
        };
        // The job is refused, needs a rank that has not joined, or begins after all.
        let [refused, absent, begun] = [(1, 17), (2, 9), (1, 9)].map(|(ranks, elements)| {
            let messages = opened(&mut Hub::new(), ranks, elements);
            messages.last().unwrap().clone()
        });
        assert!(refused.starts_with("Refused"), "{refused}");
        assert!(absent.contains("Rank(1)") && absent.contains("has not joined"), "{absent}");
        assert!(begun.starts_with("Begin"), "{begun}");
    }

    #[test]
    fn a_refused_job_holds_no_memory() {
        let mut hub = Hub::new();
        let mut large = terms(2, "fail");
        large.keys[0].elements = 1 << 20;
        hub.open(0, 0, &large);
        hub.open(1, 1, &large);
        hub.ready(0);
        assert!(hub.0.actions().iter().any(|action| matches!(
            action,
            Action::Send { connection: 0, message: FromHub::Refused { permanent: true, .. } }
        )));
        // One of its ranks is still connecting. It takes no memory from other jobs.
        hub.0.connected(2, "small", 0, NOW);
        let open = FromWorker::Open { terms: Box::new(terms(1, "fail")), incarnation: 1, interval_ms: 100 };
        hub.0.received(2, open, 7, NOW);
        hub.ready(2);
        let actions = hub.0.actions();
        assert!(matches!(Hub::sent(&actions, 2).last(), Some(FromHub::Begin { .. })), "{actions:?}");
    }

    #[test]
    fn a_connection_that_was_not_admitted_does_not_remove_the_rank() {
        let mut hub = Hub::begun("fail");
        hub.0.connected(7, "job", 0, NOW);
        hub.0.disconnected(7, Trouble::left());
        hub.0.connected(8, "job", 1, NOW);
        hub.0.received(8, FromWorker::Leave, 0, NOW);
        assert!(hub.0.actions().is_empty());
        hub.0.connected(9, "job", 1, NOW);
        hub.0.received(9, FromWorker::Late { key: 0, step: 1 }, 0, NOW);
        let actions = hub.0.actions();
        assert!(
            actions.iter().all(|action| matches!(
                action,
                Action::Send { connection: 9, .. } | Action::Close { connection: 9 }
            )),
            "{actions:?}"
        );
        assert_eq!(hub.0.jobs(NOW)[0].workers, [Active, Active]);
    }

    #[test]
    fn a_rank_that_opens_twice_is_removed() {
        let mut hub = Hub::new();
        hub.open(0, 0, &terms(2, "fail"));
        let open = FromWorker::Open { terms: Box::new(terms(2, "fail")), incarnation: 0, interval_ms: 100 };
        hub.0.received(0, open, 5, NOW);
        let actions = hub.0.actions();
        assert!(matches!(Hub::sent(&actions, 0).last(), Some(FromHub::Refused { .. })), "{actions:?}");
        assert!(hub.0.idle() && hub.0.jobs(NOW).is_empty());
    }

    #[test]
    fn a_ticket_admits_only_its_rank_and_only_while_it_joins() {
        let mut hub = Hub::new();
        hub.open(0, 0, &terms(2, "fail"));
        hub.open(1, 1, &terms(2, "fail"));
        assert_eq!(hub.0.admits_core(1, 0, 1000), Ok(()));
        assert!(hub.0.admits_core(1, 0, 1001).is_err() && hub.0.admits_core(2, 0, 1000).is_err());
        hub.ready(0);
        assert!(hub.0.admits_core(1, 0, 1000).is_err());
    }

    #[test]
    fn a_list_of_hubs_that_differs_from_the_terms_is_refused() {
        let mut hub = Hub::new();
        let racks =
            serde_json::json!({"of": [0, 1], "hubs": [["127.0.0.1:1"], ["127.0.0.1:2"]], "between": "ring"});
        let mut made_up = terms(2, "fail");
        made_up.racks = serde_json::from_value(racks).unwrap();
        hub.open(0, 0, &made_up);
        let hubs = vec![Cores { cores: 2, interfaces: 1 }; 2];
        hub.0.received(0, FromWorker::Ready { hubs, hub: 1, save: None }, 0, NOW);
        hub.plan();
        let actions = hub.0.actions();
        assert!(matches!(Hub::sent(&actions, 0).last(), Some(FromHub::Refused { .. })), "{actions:?}");
        assert!(hub.0.jobs(NOW).is_empty());
    }
}
