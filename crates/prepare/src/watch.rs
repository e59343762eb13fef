//! What stops a run from outside: the limit on wall time, and the flag that Ctrl-C sets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_scenario::Limits;
use syncline_units::Time;

/// Why a run has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The limit on wall time is used up.
    Wall(Time),
    /// The caller set the flag.
    Cancelled,
}

/// The clock of a run. It starts with the command, so that preparation counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch<'a> {
    cancel: Option<&'a AtomicBool>,
    wall: Option<Time>,
    /// When the limit is used up; `None` without a limit, and if that time is too far ahead to represent.
    deadline: Option<Instant>,
}

impl<'a> Watch<'a> {
    /// Starts the clock now, with `spent` of the limit already used up. Setting `cancel` stops the run.
    pub fn new(limits: &Limits, cancel: Option<&'a AtomicBool>, spent: Duration) -> Self {
        let left = |wall: Time| Duration::from_nanos(wall.0 / 1000).saturating_sub(spent);
        Self {
            cancel,
            wall: limits.wall,
            deadline: limits.wall.and_then(|wall| Instant::now().checked_add(left(wall))),
        }
    }

    /// Whether to stop at `now`.
    pub fn stop(&self, now: Instant) -> Option<Stop> {
        if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Some(Stop::Cancelled);
        }
        self.wall.filter(|_| self.deadline.is_some_and(|deadline| now >= deadline)).map(Stop::Wall)
    }

    /// Checks the clock and the flag before the first event. `doing` describes the current work, for the error.
    ///
    /// # Errors
    /// `LimitReached`, exit status 5, because there are no results to keep yet.
    pub fn check(&self, doing: &str) -> Result<()> {
        // Without a limit, do not read the clock.
        if self.cancel.is_none() && self.deadline.is_none() {
            return Ok(());
        }
        let error = |message: String| Diagnostic::error(Code::LimitReached, message);
        match self.stop(Instant::now()) {
            None => Ok(()),
            Some(Stop::Cancelled) => Err(error(format!("interrupted while {doing}")).into()),
            Some(Stop::Wall(wall)) => {
                Err(error(format!("the limit on wall time ({wall}) was reached while {doing}"))
                    .key("limits.wall")
                    .help("nothing was simulated yet, so there are no results; raise the limit")
                    .into())
            }
        }
    }
}
