//! Checks that results are physically possible. They run in every simulation, in release builds too.

use crate::Engine;
use crate::quotient::RankIndex;
use crate::record::CollectiveRecord;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};
use syncline_net_api::NetworkModel;
use syncline_timeline::Ended;
use syncline_units::Time;

impl<N: NetworkModel> Engine<'_, N> {
    /// A collective cannot be faster than the alpha-beta bound of its plan.
    pub(crate) fn check_collective(&mut self, record: &CollectiveRecord) {
        let plan = &self.job.plans[record.plan.index()];
        let spent = record.finish.saturating_sub(record.first_issue);
        if spent < plan.bound && self.failure.is_none() {
            self.failure = Some(
                impossible("a collective finished faster than the lower bound of its plan")
                    .key(format!("{} of {}", plan.kind, plan.bytes))
                    .found(format!("{spent}, bound {}", plan.bound)),
            );
        }
    }

    /// Checks the results of the whole run.
    pub(crate) fn check_results(&self) -> Diagnostics {
        let mut found = Diagnostics::new();
        let record = &self.record;
        if record.ended == Ended::Finished && (record.sent != record.delivered || self.messages.len() > 0) {
            found.push(
                impossible("bytes sent and bytes received differ")
                    .found(format!("{} sent, {} received", record.sent, record.delivered)),
            );
        }
        if let Some(found_there) = self.network.overbooked() {
            found.push(impossible("a link carried more than its rate allows").found(found_there));
        }
        for (index, row) in (0..).map(RankIndex).zip(&record.ranks) {
            let waits = [row.exposed_communication, row.bubble, row.skew, row.exposed_memory];
            let accounted = waits.into_iter().fold(row.compute, Time::saturating_add);
            if accounted > row.finish {
                found.push(
                    impossible("a rank was busy for longer than it ran")
                        .key(self.quotient.rank(index).to_string())
                        .found(format!("{accounted} of {}", row.finish)),
                );
            }
        }
        found
    }
}

pub(crate) fn impossible(message: &str) -> Diagnostic {
    Diagnostic::error(Code::Impossible, message).help("this is a bug; please report it with the scenario")
}
