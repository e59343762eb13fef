//! The thread that watches lanes: ends what failed, and what takes too long.

use super::worker::{Command, Report};
use super::{Court, Gauge, Settings, Shared, UnderWay, lock};
use crate::control::judge::{Act, Judge};
use crate::fault::{Blame, Fault, Trouble};
use crate::shape::Book;
use crate::transport::bell::Bell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Watches the lanes: ends what failed, and what takes too long.
pub(super) struct Monitor {
    reports: Receiver<Report>,
    lanes: Vec<(Sender<Command>, Arc<Bell>)>,
    shared: Arc<Mutex<Shared>>,
    gauge: Arc<Gauge>,
    book: Arc<Book>,
    court: Option<Box<dyn Court>>,
    judge: Judge,
    started: Instant,
    /// Lanes that have given up, and whose threads have ended.
    aborted: usize,
    stopped: usize,
}

impl Monitor {
    /// Of lanes that report to `reports`, under a court, if there is one.
    pub(super) fn new(
        (book, settings): (Arc<Book>, Settings),
        lanes: Vec<(Sender<Command>, Arc<Bell>)>,
        reports: Receiver<Report>,
        (shared, gauge): (Arc<Mutex<Shared>>, Arc<Gauge>),
        court: Option<Box<dyn Court>>,
    ) -> Self {
        let us = book.name(book.member());
        let judge = Judge::new(us, court.is_some(), settings.deadline, settings.patience);
        let (started, aborted, stopped) = (Instant::now(), 0, 0);
        Self { reports, lanes, shared, gauge, book, court, judge, started, aborted, stopped }
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
        while self.stopped < self.lanes.len() {
            match self.reports.recv_timeout(GLANCE) {
                Ok(Report::Trouble(rank, trouble)) => self.trouble(rank, trouble),
                Ok(Report::Verdict(blame, trouble)) => self.verdict(blame, trouble),
                Ok(Report::Failed(trouble)) => self.verdict(Blame::Rank(self.us()), trouble),
                Ok(Report::Aborted) => self.gave_up(),
                Ok(Report::Stopped { aborted }) => {
                    self.stopped += 1;
                    if !aborted {
                        self.gave_up();
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => self.stopped = self.lanes.len(),
            }
            self.look();
        }
        self.left();
    }

    /// What this member is called.
    fn us(&self) -> u32 {
        self.book.name(self.book.member())
    }

    /// A lane works no more.
    fn gave_up(&mut self) {
        self.aborted += 1;
        if self.aborted == self.lanes.len() {
            self.end();
        }
    }

    /// Whether this member hears nobody, of two or more.
    fn cut_off(&self) -> bool {
        self.lanes.iter().all(|(_, bell)| bell.cut_off())
    }

    /// Looks for what takes too long.
    fn look(&mut self) {
        let mut shared = lock(&self.shared);
        shared.prune(&self.gauge);
        let oldest = shared.under_way.first_key_value().map(|(&sequence, _)| sequence);
        drop(shared);
        let act = self.judge.look(oldest, self.cut_off(), self.started.elapsed());
        self.act(act);
    }

    fn trouble(&mut self, rank: u32, trouble: Trouble) {
        let rank = self.book.name(rank);
        let act = self.judge.trouble(rank, trouble, self.cut_off(), self.started.elapsed());
        self.act(act);
    }

    fn verdict(&mut self, blame: Blame, trouble: Trouble) {
        let act = self.judge.verdict(blame, trouble, self.cut_off());
        self.act(act);
    }

    fn act(&self, act: Option<Act>) {
        match (act, &self.court) {
            (Some(Act::Report(rank, trouble)), Some(court)) => court.report(rank, trouble),
            (Some(Act::Late(sequence, elapsed)), Some(court)) => court.late(sequence, elapsed),
            (Some(Act::Abort(blame, trouble)), _) => self.abort(blame, trouble),
            _ => {}
        }
    }

    /// Operations end once inputs are as they were.
    fn abort(&self, blame: Blame, trouble: Trouble) {
        let mut shared = lock(&self.shared);
        if shared.failed.is_some() {
            return;
        }
        shared.failed = Some(Arc::new(Fault { blame, trouble, during: None }));
        drop(shared);
        for (commands, bell) in &self.lanes {
            if commands.send(Command::Abort).is_ok() {
                bell.ring();
            }
        }
    }

    /// Ends everything that is under way.
    fn end(&self) {
        let mut shared = lock(&self.shared);
        let Some(fault) = shared.failed.clone() else { return };
        // Whoever is told that it failed may ask at once whether its input is gone.
        let gone = shared.under_way.iter().find(|(_, each)| each.consumes && !each.completion.over());
        let gone = gone.map(|(&sequence, each)| (sequence, each.operation));
        shared.consumed = shared.consumed.or(gone);
        drop(shared);
        // One by one: a callback that panics leaves the others to be ended.
        let next = || lock(&self.shared).under_way.pop_first();
        for (sequence, UnderWay { completion, operation, began, .. }) in std::iter::from_fn(next) {
            let during = Some((sequence, operation.into(), began.elapsed()));
            completion.end(Err(Arc::new(Fault { during, ..(*fault).clone() })));
        }
    }

    /// The communicator is dropped.
    fn left(&self) {
        lock(&self.shared).failed.get_or_insert_with(|| {
            Arc::new(Fault { blame: Blame::Rank(self.us()), trouble: Trouble::left(), during: None })
        });
        self.end();
    }
}
