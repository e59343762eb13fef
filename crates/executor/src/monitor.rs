//! The thread that watches lanes: ends what failed, and what takes too long.

use super::group::{Circle, Crew, Sent, Shared, UnderWay, end};
use super::lock;
use super::worker::{Command, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use syncline_membership::arbiter::Arbiter;
use syncline_membership::judge::{Act, Judge, Late, Oldest};
use syncline_protocol::fault::{Blame, Errand, Fault, Kind, Trouble};

/// Watches the lanes: ends what failed, and what takes too long.
pub(super) struct Monitor {
    reports: Receiver<Report>,
    crew: Arc<Crew>,
    /// The group of all members.
    whole: Arc<Circle>,
    court: Option<Box<dyn Arbiter>>,
    judge: Judge,
    started: Instant,
    /// Lanes that have given up, and whose threads have ended.
    aborted: usize,
    stopped: usize,
}

/// A transfer that takes too long: its group, and what is to be said, of whom.
struct LateTransfer {
    group: u32,
    trouble: Trouble,
    peer: Option<u32>,
}

impl Monitor {
    /// Of lanes that report to `reports`, under a court, if there is one.
    pub(super) fn new(
        crew: Arc<Crew>,
        whole: Arc<Circle>,
        reports: Receiver<Report>,
        court: Option<Box<dyn Arbiter>>,
    ) -> Self {
        let us = whole.book.name(whole.book.member());
        let judge = Judge::new(us, court.is_some(), crew.settings.patience);
        let (started, aborted, stopped) = (Instant::now(), 0, 0);
        Self { reports, crew, whole, court, judge, started, aborted, stopped }
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
        self.judge.alone();
        self.verdict(Blame::Rank(self.us()), Trouble::bug());
        // It may have failed between a decision and what follows from it.
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
                Ok(Report::Verdict(blame, trouble)) => self.verdict(blame, trouble),
                Ok(Report::Alone) => self.judge.alone(),
                Ok(Report::Failed(trouble)) => self.failed(trouble),
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

    /// Whether this member hears nobody, of two or more.
    fn cut_off(&self) -> bool {
        self.crew.lanes.iter().all(|(_, bell)| bell.cut_off())
    }

    /// Looks for what takes too long.
    fn look(&mut self) {
        let mut shared = lock(self.crew.shared());
        shared.prune();
        if shared.failed.is_some() {
            return;
        }
        let mut oldest: Vec<Oldest> = Vec::new();
        for (&(group, sequence), each) in &shared.under_way {
            if oldest.last().is_none_or(|last| last.group != group) {
                oldest.push(Oldest { group, sequence, deadline: each.deadline });
            }
        }
        let transfer = Self::late_transfer(&shared);
        drop(shared);
        let (cut_off, now) = (self.cut_off(), self.started.elapsed());
        let act = self.judge.look(oldest, cut_off, now).or_else(|| {
            let LateTransfer { group, trouble, peer } = transfer?;
            self.judge.late_transfer(group, peer, trouble, cut_off, now)
        });
        self.act(act);
    }

    /// A transfer that takes longer than its group allows.
    fn late_transfer(shared: &Shared) -> Option<LateTransfer> {
        let is_late = |each: &&Sent| !each.completion.over() && each.began.elapsed() > each.deadline;
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
        Some(LateTransfer { group: circle.slot, trouble, peer })
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
        let act = self.judge.trouble(rank, trouble, self.cut_off(), self.started.elapsed());
        self.act(act);
    }

    /// Reports to the coordinator that this rank has failed, and fails what is under way.
    fn failed(&mut self, trouble: Trouble) {
        if let Some(court) = self.court.as_ref().filter(|_| !self.judge.decided()) {
            court.report(self.us(), trouble.clone());
        }
        self.verdict(Blame::Rank(self.us()), trouble);
    }

    fn verdict(&mut self, blame: Blame, trouble: Trouble) {
        let act = self.judge.verdict(blame, trouble, self.cut_off());
        self.act(act);
    }

    fn act(&self, act: Option<Act>) {
        match (act, &self.court) {
            (Some(Act::Report(rank, trouble)), Some(court)) => court.report(rank, trouble),
            (Some(Act::Late(Late { group, sequence, trouble })), Some(court)) => {
                let shared = lock(self.crew.shared());
                let circle = shared.groups.get(&group).map(|standing| Arc::clone(&standing.circle));
                drop(shared);
                // A group that was left meanwhile is late no more.
                if let Some(circle) = circle {
                    court.late((circle.id, circle.names()), sequence, trouble);
                }
            }
            (Some(Act::Abort(blame, trouble)), _) => self.abort(blame, trouble),
            _ => {}
        }
    }

    /// Operations end once inputs are as they were.
    fn abort(&self, blame: Blame, trouble: Trouble) {
        let mut shared = lock(self.crew.shared());
        if shared.failed.is_some() {
            return;
        }
        shared.failed = Some(Arc::new(Fault { blame, trouble, during: None }));
        drop(shared);
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
