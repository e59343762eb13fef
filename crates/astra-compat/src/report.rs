//! Converts an outcome to a timeline, so that a drop-in run leaves the same results folder as any other; and to JSON.
//!
//! These are ASTRA-sim's numbers by ASTRA-sim's rules: since ports are never busy, a collective may be faster
//! than its network interface. The summary says so; the checks of native runs do not apply.

use crate::outcome::{Ended, Outcome};
use crate::{Backend, algorithms::Pattern};
use serde::{Serialize, Serializer};
use syncline_timeline::{Bottleneck, Ended as RunEnded, Summary, Table, Timeline, tables};

const NS: f64 = 1e-9;

impl From<Ended> for RunEnded {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Finished => Self::Finished,
            Ended::EventLimit | Ended::TimeLimit => Self::LimitReached,
            Ended::Cancelled => Self::Interrupted,
        }
    }
}

/// What `syncline astra-sim` writes about a run, without its collectives and warnings.
#[derive(Serialize)]
struct OutcomeView {
    cycles: Option<u64>,
    ended: RunEnded,
    events: u64,
    messages: u64,
    npus: u32,
    ranks: Vec<RankView>,
    simulated_ns: u64,
}

#[derive(Serialize)]
struct RankView {
    communication_cycles: Option<u64>,
    cycles: u64,
    exposed_communication_cycles: i64,
    gpu_cycles: Option<u64>,
    rank: u32,
    wall_cycles: u64,
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rank = |rank: &crate::RankResult| RankView {
            communication_cycles: rank.comm,
            cycles: rank.cycles,
            exposed_communication_cycles: rank.exposed,
            gpu_cycles: rank.gpu,
            rank: rank.rank,
            wall_cycles: rank.wall,
        };
        let view = OutcomeView {
            cycles: self.cycles(),
            ended: self.ended.into(),
            events: self.events,
            messages: self.messages,
            npus: self.npus,
            ranks: self.ranks.iter().map(rank).collect(),
            simulated_ns: self.simulated_ns,
        };
        view.serialize(serializer)
    }
}

/// Returns the timeline of an outcome.
pub fn timeline(outcome: &Outcome, backend: Backend) -> Timeline {
    let ranks = f64::from(outcome.npus.max(1));
    let total = outcome.cycles().unwrap_or(outcome.simulated_ns) as f64 * NS;
    let mean =
        |of: &dyn Fn(&crate::RankResult) -> f64| outcome.ranks.iter().map(of).sum::<f64>() / ranks * NS;
    let exposed = mean(&|rank| rank.exposed as f64);
    let network = match backend {
        Backend::Unaware => "ASTRA-sim analytical, congestion unaware",
        Backend::Aware => "ASTRA-sim analytical, congestion aware",
    };
    let summary = Summary {
        ended: outcome.ended.into(),
        ranks: u64::from(outcome.npus),
        simulated_ranks: u64::from(outcome.npus),
        npus: u64::from(outcome.npus),
        iterations: u64::from(outcome.ended == Ended::Finished),
        simulated_iterations: u64::from(outcome.ended == Ended::Finished),
        total_time_s: total,
        step_time_s: total,
        compute_s: mean(&|rank| rank.gpu.unwrap_or(0) as f64),
        exposed_communication_s: exposed,
        exposed_fraction: if total > 0.0 { exposed / total } else { 0.0 },
        communication_s: mean(&|rank| rank.comm.unwrap_or(0) as f64),
        messages: outcome.messages,
        events: outcome.events,
        bottleneck: if exposed * 2.0 > total { Bottleneck::Communication } else { Bottleneck::Compute },
        reason: "ASTRA-sim's rules account for neither links nor dimensions.".to_owned(),
        network_model: network.to_owned(),
        compute_model: "ASTRA-sim".to_owned(),
        calibrated: "no".to_owned(),
        notes: vec![
            "times follow ASTRA-sim 2 to the nanosecond, with its quirks; results are not checked against physical limits"
                .to_owned(),
            "exposed communication is total time less accelerator time, as ASTRA-sim defines it".to_owned(),
        ],
        ..Summary::default()
    };
    Timeline { summary, tables: vec![collectives(outcome), ranks_table(outcome)], ..Timeline::default() }
}

fn collectives(outcome: &Outcome) -> Table {
    let rows = &outcome.collectives;
    let kind = |pattern: Option<Pattern>| match pattern {
        Some(Pattern::AllReduce) => "all_reduce",
        Some(Pattern::AllGather) => "all_gather",
        Some(Pattern::ReduceScatter) => "reduce_scatter",
        Some(Pattern::AllToAll) => "all_to_all",
        None => "broadcast",
    };
    let time = |cycles: u64| cycles as f64 * NS;
    Table::from(tables::AstraCollectives {
        name: rows.iter().map(|r| r.name.clone()).collect(),
        kind: rows.iter().map(|r| kind(r.kind).to_owned()).collect(),
        group: rows.iter().map(|r| r.group.map_or(String::new(), |g| g.to_string())).collect(),
        group_ranks: rows.iter().map(|r| i64::from(r.ranks)).collect(),
        size_bytes: rows.iter().map(|r| i64::try_from(r.bytes).unwrap_or(i64::MAX)).collect(),
        issue_s: rows.iter().map(|r| time(r.start)).collect(),
        finish_s: rows.iter().map(|r| time(r.finish)).collect(),
        duration_s: rows.iter().map(|r| time(r.finish.saturating_sub(r.start))).collect(),
    })
}

fn ranks_table(outcome: &Outcome) -> Table {
    let mut rows: Vec<_> = outcome.ranks.iter().collect();
    rows.sort_by_key(|rank| rank.rank);
    let time = |cycles: u64| cycles as f64 * NS;
    Table::from(tables::AstraRanks {
        rank: rows.iter().map(|r| i64::from(r.rank)).collect(),
        finish_s: rows.iter().map(|r| time(r.cycles)).collect(),
        compute_s: rows.iter().map(|r| time(r.gpu.unwrap_or(0))).collect(),
        exposed_communication_s: rows.iter().map(|r| r.exposed as f64 * NS).collect(),
        communication_s: rows.iter().map(|r| time(r.comm.unwrap_or(0))).collect(),
    })
}
