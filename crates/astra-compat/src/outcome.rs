//! The results of a run, and ASTRA-sim 2's lines about it.

use crate::algorithms::Pattern;
use std::fmt::Write as _;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All ranks are done.
    Finished,
    /// At the limit on events.
    EventLimit,
    /// At the limit on simulated time.
    TimeLimit,
    /// Cancelled by the user.
    Cancelled,
}

/// The result of one rank. Times are cycles, which ASTRA-sim equates with nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct RankResult {
    /// The rank.
    pub rank: u32,
    /// When it finished.
    pub cycles: u64,
    /// `cycles` minus the time of its accelerator's operations, so waiting for memory or for other ranks also
    /// counts as exposed communication. Negative if replayed operations overlap; ASTRA-sim prints that as a
    /// number near 2^64.
    pub exposed: i64,
    /// When its last operation ended.
    pub wall: u64,
    /// Time covered by accelerator computation, if there was any.
    pub gpu: Option<u64>,
    /// Time covered by communication, if there was any.
    pub comm: Option<u64>,
    /// Time covered by host computation, if there was any.
    pub cpu: Option<u64>,
    /// Time covered by remote-memory operations, if there were any.
    pub memory: Option<u64>,
    /// Averages of the roofline model, if it is on.
    pub roofline: Option<Roofline>,
}

impl RankResult {
    /// Returns the time in which both computation and communication ran, if there were both. ASTRA-sim
    /// computes it as the sum of both minus the wall time, so idle time lowers it.
    pub fn overlap(&self) -> Option<u64> {
        let both = u128::from(self.gpu?) + u128::from(self.comm?);
        both.checked_sub(self.wall.into()).and_then(|overlap| u64::try_from(overlap).ok())
    }
    /// Whether ASTRA-sim prints the times of this rank: an operation on the host or on remote memory ends its
    /// statistics with an exception that is never reported.
    pub const fn prints_times(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }
}

/// Averages over the operations of a rank, weighted by time. ASTRA-sim 2, `Statistics.cc:extract_utilizations`.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Roofline {
    /// Share of time in operations that are bound by computation.
    pub compute_bound: f64,
    /// Share of the peak rate of computing.
    pub compute_utilization: f64,
    /// Share of the memory's bandwidth.
    pub memory_utilization: f64,
    /// Operations per byte.
    pub intensity: f64,
}

/// One collective of the job, over all its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveRecord {
    /// Name of the node of the first rank that issued it.
    pub name: String,
    /// Its pattern; `None` for a broadcast, which ASTRA-sim only replays.
    pub kind: Option<Pattern>,
    /// The communicator group's number; `None` for all ranks.
    pub group: Option<u32>,
    /// Bytes as in the trace (`comm_size`).
    pub bytes: u64,
    /// When the first rank issued it.
    pub start: u64,
    /// When the last rank finished it.
    pub finish: u64,
    /// How many ranks issued it.
    pub ranks: u32,
    /// How many ranks finished it.
    pub finished: u32,
    /// The rank that issued it first.
    pub first_rank: u32,
    /// The id of the node on that rank.
    pub first_node: u64,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How many ranks there are.
    pub npus: u32,
    /// The ranks that finished, in the order in which they did.
    pub ranks: Vec<RankResult>,
    /// The collectives, in the order in which they were first issued.
    pub collectives: Vec<CollectiveRecord>,
    /// How it ended.
    pub ended: Ended,
    /// The time of the last event.
    pub simulated_ns: u64,
    /// How many events were handled.
    pub events: u64,
    /// How many messages were sent.
    pub messages: u64,
    /// Warnings for the user.
    pub warnings: Diagnostics,
}

impl Outcome {
    /// Returns the cycles of the rank that finished last; `None` if not all finished.
    pub fn cycles(&self) -> Option<u64> {
        let all = self.ranks.len() == self.npus as usize;
        all.then(|| self.ranks.iter().map(|rank| rank.cycles).max()).flatten()
    }
    /// Returns a diagnostic that says why the run stopped early, if it did.
    pub fn limit(&self) -> Option<Diagnostic> {
        let what = match self.ended {
            Ended::Finished => return None,
            Ended::EventLimit => "the run stopped at its limit on events",
            Ended::TimeLimit => "the run stopped at its limit on simulated time",
            Ended::Cancelled => "the run was interrupted",
        };
        Some(
            Diagnostic::error(Code::LimitReached, what)
                .note(format!("{} of {} ranks had finished", self.ranks.len(), self.npus))
                .note(format!("{} ns of simulated time, {} events", self.simulated_ns, self.events)),
        )
    }
    /// Returns what ASTRA-sim 2 prints about the ranks, without its time stamps.
    /// ASTRA-sim 2, `Workload.cc:report`, `Statistics.cc:report`, `Sys.cc:exit_sim_loop`.
    pub fn astra_text(&self) -> String {
        let mut text = String::with_capacity(self.ranks.len() * 400);
        for rank in &self.ranks {
            rank.astra_text(&mut text);
        }
        text.push_str("[system] [warning] Exiting\n");
        text
    }
}

impl RankResult {
    /// Appends the lines of this rank. Writing to a string cannot fail.
    fn astra_text(&self, text: &mut String) {
        let RankResult { rank, cycles, wall, .. } = self;
        let exposed = self.exposed as u64;
        let _ = writeln!(
            text,
            "[workload] [info] sys[{rank}] finished, {cycles} cycles, exposed communication {exposed} cycles."
        );
        let mut statistics = |line: std::fmt::Arguments<'_>| {
            let _ = writeln!(text, "[statistics] [info] sys[{rank}]{line}");
        };
        statistics(format_args!(". Post statistics processing start."));
        if self.prints_times() {
            statistics(format_args!(". Post statistics processing end."));
            statistics(format_args!(", Wall time: {wall}"));
            if let Some(gpu) = self.gpu {
                statistics(format_args!(", GPU time: {gpu}"));
            }
            if let Some(comm) = self.comm {
                statistics(format_args!(", Comm time: {comm}"));
            }
            if let Some(overlap) = self.overlap().filter(|&overlap| overlap > 0) {
                statistics(format_args!(", Total compute-communication overlap: {overlap}"));
            }
            if let Some(roofline) = &self.roofline {
                statistics(format_args!(
                    ", Compute bound percentage: {:.3}%",
                    roofline.compute_bound * 100.0
                ));
                let compute = roofline.compute_utilization * 100.0;
                statistics(format_args!(", Average compute utilization: {compute:.3}%"));
                let memory = roofline.memory_utilization * 100.0;
                statistics(format_args!(", Average memory utilization: {memory:.3}%"));
                statistics(format_args!(", Average operation intensity: {:.3}", roofline.intensity));
            }
        }
    }
}
