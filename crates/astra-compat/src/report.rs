//! Converts an outcome to a timeline, so that a drop-in run leaves the same results folder as any other.
//!
//! These are ASTRA-sim's numbers by ASTRA-sim's rules: since ports are never busy, a collective may be faster
//! than its network interface. The summary says so; the checks of native runs do not apply.

use crate::outcome::{Ended, Outcome};
use crate::{Backend, algorithms::Pattern};
use syncline_timeline::{Ended as RunEnded, Summary, Table, Timeline};

const NS: f64 = 1e-9;

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
        ended: match outcome.ended {
            Ended::Finished => RunEnded::Finished,
            Ended::EventLimit | Ended::TimeLimit => RunEnded::LimitReached,
            Ended::Cancelled => RunEnded::Interrupted,
        },
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
        bottleneck: if exposed * 2.0 > total { "communication" } else { "compute" }.to_owned(),
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
    Table::new("collectives", "A collective over all its ranks, in the order of issue")
        .with(
            "name",
            "Name of the first rank's node",
            rows.iter().map(|r| r.name.clone()).collect::<Vec<_>>(),
        )
        .with("kind", "Kind of collective", rows.iter().map(|r| kind(r.kind).to_owned()).collect::<Vec<_>>())
        .with(
            "group",
            "Communicator group; empty for all ranks",
            rows.iter().map(|r| r.group.map_or(String::new(), |g| g.to_string())).collect::<Vec<_>>(),
        )
        .with(
            "group_ranks",
            "Ranks that issued it",
            rows.iter().map(|r| i64::from(r.ranks)).collect::<Vec<i64>>(),
        )
        .with(
            "size_bytes",
            "comm_size of the trace: the shard of an all-gather, else one rank's vector",
            rows.iter().map(|r| i64::try_from(r.bytes).unwrap_or(i64::MAX)).collect::<Vec<i64>>(),
        )
        .with(
            "issue_s",
            "When the first rank issued it",
            rows.iter().map(|r| time(r.start)).collect::<Vec<_>>(),
        )
        .with(
            "finish_s",
            "When the last rank finished it",
            rows.iter().map(|r| time(r.finish)).collect::<Vec<_>>(),
        )
        .with(
            "duration_s",
            "From first issue to last result",
            rows.iter().map(|r| time(r.finish.saturating_sub(r.start))).collect::<Vec<_>>(),
        )
}

fn ranks_table(outcome: &Outcome) -> Table {
    let mut rows: Vec<_> = outcome.ranks.iter().collect();
    rows.sort_by_key(|rank| rank.rank);
    let time = |cycles: u64| cycles as f64 * NS;
    Table::new("ranks", "A rank that finished")
        .with("rank", "Number of the rank", rows.iter().map(|r| i64::from(r.rank)).collect::<Vec<i64>>())
        .with("finish_s", "When it finished", rows.iter().map(|r| time(r.cycles)).collect::<Vec<_>>())
        .with(
            "compute_s",
            "Time covered by accelerator computation",
            rows.iter().map(|r| time(r.gpu.unwrap_or(0))).collect::<Vec<_>>(),
        )
        .with(
            "exposed_communication_s",
            "Finish time minus the accelerator's operations, as ASTRA-sim defines it",
            rows.iter().map(|r| r.exposed as f64 * NS).collect::<Vec<_>>(),
        )
        .with(
            "communication_s",
            "Time covered by communication",
            rows.iter().map(|r| time(r.comm.unwrap_or(0))).collect::<Vec<_>>(),
        )
}
