//! The thread that watches lanes: ends what failed, and what takes too long.

use super::worker::{Command, Report};
use super::{Court, Gauge, Settings, Shared, UnderWay, lock};
use crate::fault::{Blame, Fault, Kind, Trouble};
use crate::pulse::Patience;
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
    deadline: Duration,
    patience: Patience,
    court: Option<Box<dyn Court>>,
    /// What the court has been told first, and when: it has to decide.
    reported: Option<(Instant, Blame, Trouble)>,
    /// Lanes that have given up, and whose threads have ended.
    aborted: usize,
    stopped: usize,
    /// The oldest operation under way, and since when it is that: one behind the other has its time.
    oldest: (Option<u64>, Instant),
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
        let (deadline, patience) = (settings.deadline, settings.patience);
        let (reported, aborted, stopped, oldest) = (None, 0, 0, (None, Instant::now()));
        Self {
            reports,
            lanes,
            shared,
            gauge,
            book,
            deadline,
            patience,
            court,
            reported,
            aborted,
            stopped,
            oldest,
        }
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
        while self.stopped < self.lanes.len() {
            match self.reports.recv_timeout(GLANCE) {
                Ok(Report::Trouble(rank, trouble)) => self.trouble(rank, trouble),
                Ok(Report::Verdict(blame, trouble)) => self.abort(blame, trouble),
                Ok(Report::Failed(trouble)) => self.abort(Blame::Rank(self.us()), trouble),
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

    /// Looks for what takes too long.
    fn look(&mut self) {
        if let Some((since, blame, trouble)) = &self.reported {
            // The court itself would have been found silent by now.
            if since.elapsed() > 2 * self.patience.silence {
                let (blame, trouble) = (*blame, trouble.clone());
                self.abort(blame, trouble);
            }
            return;
        }
        let mut shared = lock(&self.shared);
        shared.prune(&self.gauge);
        let first = shared.under_way.first_key_value().map(|(&sequence, _)| sequence);
        let failed = shared.failed.is_some();
        drop(shared);
        if self.oldest.0 != first {
            self.oldest = (first, Instant::now());
        }
        let oldest = first.map(|sequence| (sequence, self.oldest.1.elapsed()));
        if let Some((sequence, elapsed)) = oldest.filter(|&(_, elapsed)| elapsed > self.deadline && !failed) {
            let trouble = Trouble::deadline(elapsed);
            match &self.court {
                Some(court) => {
                    court.late(sequence, elapsed);
                    self.reported = Some((Instant::now(), Blame::Nobody, trouble));
                }
                None => self.abort(Blame::Nobody, trouble),
            }
        }
    }

    fn trouble(&mut self, rank: u32, trouble: Trouble) {
        let rank = self.book.name(rank);
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
        let (blame, trouble) = match silent && self.lanes.iter().all(|(_, bell)| bell.cut_off()) {
            true => (Blame::Rank(self.us()), Trouble::cut_off()),
            false => (blame, trouble),
        };
        let mut shared = lock(&self.shared);
        if shared.failed.is_some() {
            return;
        }
        shared.failed = Some(Arc::new(Fault { blame, trouble, during: None }));
        drop(shared);
        self.reported = None;
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
