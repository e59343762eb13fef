//! The thread that watches lanes: ends what failed, and what takes too long.

use super::Court;
use super::group::{Circle, Crew, Sent, UnderWay, end};
use super::lock;
use super::worker::{Command, Report};
use crate::fault::{Blame, Errand, Fault, Kind, Trouble};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Watches the lanes: ends what failed, and what takes too long.
pub(super) struct Monitor {
    reports: Receiver<Report>,
    crew: Arc<Crew>,
    /// The group of all members.
    whole: Arc<Circle>,
    court: Option<Box<dyn Court>>,
    /// What the court has been told first, and when: it has to decide.
    reported: Option<(Instant, Blame, Trouble)>,
    /// Lanes that have given up, and whose threads have ended.
    aborted: usize,
    stopped: usize,
    /// The oldest operation of each group under way, and since when it is that: one behind the other has its time.
    oldest: BTreeMap<u32, (u64, Instant)>,
}

/// What takes too long: the group, an operation's number, and what is to be said, of whom.
struct Late {
    circle: Arc<Circle>,
    sequence: u64,
    trouble: Trouble,
    peer: Option<u32>,
}

impl Monitor {
    /// Of lanes that report to `reports`, under a court, if there is one.
    pub(super) fn new(
        crew: Arc<Crew>,
        whole: Arc<Circle>,
        reports: Receiver<Report>,
        court: Option<Box<dyn Court>>,
    ) -> Self {
        let (reported, aborted, stopped, oldest) = (None, 0, 0, BTreeMap::new());
        Self { reports, crew, whole, court, reported, aborted, stopped, oldest }
    }

    /// Watches until all lanes have ended. Where that fails, which is a bug, nobody waits for ever: what is under way ends as
    /// it does after any fault, once inputs are as they were.
    pub(super) fn run(mut self) {
        let goes_well = |monitor: &mut Self| catch_unwind(AssertUnwindSafe(|| monitor.watch())).is_ok();
        if goes_well(&mut self) {
            return;
        }
        // Whoever judges may be what failed.
        self.court = None;
        self.abort(Blame::Rank(self.us()), Trouble::bug());
        if !goes_well(&mut self) {
            self.end();
        }
    }

    fn watch(&mut self) {
        const GLANCE: Duration = Duration::from_millis(100);
        // The court has a sender of reports, too: the lanes' end is told by their number.
        while self.stopped < self.crew.lanes.len() {
            match self.reports.recv_timeout(GLANCE) {
                Ok(Report::Trouble(rank, trouble)) => self.trouble(rank, trouble),
                Ok(Report::Verdict(blame, trouble)) => self.abort(blame, trouble),
                Ok(Report::Failed(trouble)) => self.abort(Blame::Rank(self.us()), trouble),
                Ok(Report::Deserted(slot, lost)) => self.desert(slot, lost),
                Ok(Report::Released(slot)) => self.crew.release(slot),
                Ok(Report::Aborted) => self.gave_up(),
                Ok(Report::Stopped { aborted }) => {
                    self.stopped += 1;
                    if !aborted {
                        self.gave_up();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stopped = self.crew.lanes.len(),
            }
            self.look();
        }
        self.left();
    }

    /// What this member is called.
    fn us(&self) -> u32 {
        self.whole.book.name(self.whole.book.member())
    }

    /// A lane works no more.
    fn gave_up(&mut self) {
        self.aborted += 1;
        if self.aborted == self.crew.lanes.len() {
            self.end();
        }
    }

    /// Looks for what takes too long.
    fn look(&mut self) {
        if let Some((since, blame, trouble)) = &self.reported {
            // The court itself would have been found silent by now.
            if since.elapsed() > 2 * self.crew.settings.patience.silence {
                let (blame, trouble) = (*blame, trouble.clone());
                self.abort(blame, trouble);
            }
            return;
        }
        let Some(late) = self.late() else { return };
        let Late { circle, sequence, trouble, peer } = late;
        let blame = peer.map_or(Blame::Nobody, Blame::Rank);
        match &self.court {
            Some(court) => {
                match peer {
                    Some(peer) => court.report(peer, trouble.clone()),
                    None => court.late((circle.id, circle.names()), sequence, trouble.clone()),
                }
                self.reported = Some((Instant::now(), blame, trouble));
            }
            None => self.abort(blame, trouble),
        }
    }

    /// What takes longer than its group allows.
    fn late(&mut self) -> Option<Late> {
        let mut shared = lock(self.crew.shared());
        shared.prune();
        if shared.failed.is_some() {
            return None;
        }
        let mut firsts: BTreeMap<u32, u64> = BTreeMap::new();
        for &(slot, sequence) in shared.under_way.keys() {
            firsts.entry(slot).or_insert(sequence);
        }
        self.oldest.retain(|slot, (sequence, _)| firsts.get(slot) == Some(sequence));
        for (slot, sequence) in firsts {
            let (_, since) = *self.oldest.entry(slot).or_insert_with(|| (sequence, Instant::now()));
            let Some(standing) = shared.groups.get(&slot) else { continue };
            let elapsed = since.elapsed();
            if elapsed > standing.circle.deadline {
                let circle = Arc::clone(&standing.circle);
                return Some(Late { circle, sequence, trouble: Trouble::deadline(elapsed), peer: None });
            }
        }
        let is_late = |each: &&Sent| !each.completion.over() && each.began.elapsed() > each.circle.deadline;
        let Sent { errand, circle, began, .. } = shared.transfers.values().find(is_late)?;
        let Errand::Transfer { sends, peer, .. } = *errand else { return None };
        let us = circle.book.name(circle.book.member());
        let seconds = began.elapsed().as_secs_f64();
        let what = match (sends, peer) {
            (true, _) => format!("has not taken what rank {us} sends, after {seconds:.1} s"),
            (false, Some(_)) => format!("has not sent what rank {us} waits for, after {seconds:.1} s"),
            (false, None) => {
                format!("has not sent what rank {us} waits for from any rank, after {seconds:.1} s")
            }
        };
        let trouble = Trouble { kind: Kind::Deadline, what };
        Some(Late { circle: Arc::clone(circle), sequence: 0, trouble, peer })
    }

    /// A group cannot go on without a member, which has left it.
    fn desert(&self, slot: u32, lost: u32) {
        let rank = self.whole.book.name(lost);
        let what = "has left the group and is needed".to_owned();
        let trouble = Trouble { kind: Kind::Left, what };
        let fault = Arc::new(Fault { blame: Blame::Rank(rank), trouble, during: None });
        self.crew.disband(slot, &fault, Some(lost));
    }

    fn trouble(&mut self, rank: u32, trouble: Trouble) {
        let rank = self.whole.book.name(rank);
        let blame = match trouble.kind {
            Kind::Silent | Kind::Corrupt => Blame::link(self.us(), rank),
            _ => Blame::Rank(rank),
        };
        match &self.court {
            Some(court) => {
                court.report(rank, trouble.clone());
                self.reported.get_or_insert((Instant::now(), blame, trouble));
            }
            None => self.abort(blame, trouble),
        }
    }

    /// The first fault counts. Operations end once inputs are as they were.
    fn abort(&mut self, blame: Blame, trouble: Trouble) {
        // Whoever hears nobody else has no reason to say that it is their fault.
        let guess = self.court.is_none() || blame == Blame::Coordinator;
        let silent = guess && trouble.kind == Kind::Silent;
        let (blame, trouble) = match silent && self.crew.lanes.iter().all(|(_, bell)| bell.cut_off()) {
            true => (Blame::Rank(self.us()), Trouble::cut_off()),
            false => (blame, trouble),
        };
        let mut shared = lock(self.crew.shared());
        if shared.failed.is_some() {
            return;
        }
        shared.failed = Some(Arc::new(Fault { blame, trouble, during: None }));
        drop(shared);
        self.reported = None;
        for (commands, bell) in &self.crew.lanes {
            if commands.send(Command::Abort).is_ok() {
                bell.ring();
            }
        }
    }

    /// Ends everything that is under way.
    fn end(&self) {
        let mut shared = lock(self.crew.shared());
        let Some(fault) = shared.failed.clone() else { return };
        // Whoever is told that it failed may ask at once whether its input is gone.
        shared.consumed = shared.gone();
        let operations: Vec<(u64, UnderWay)> = std::mem::take(&mut shared.under_way)
            .into_iter()
            .map(|((_, sequence), each)| (sequence, each))
            .collect();
        let transfers: Vec<Sent> = std::mem::take(&mut shared.transfers).into_values().collect();
        drop(shared);
        end(&fault, operations, transfers);
    }

    /// The communicator is dropped.
    fn left(&self) {
        lock(self.crew.shared()).failed.get_or_insert_with(|| {
            Arc::new(Fault { blame: Blame::Rank(self.us()), trouble: Trouble::left(), during: None })
        });
        self.end();
    }
}
