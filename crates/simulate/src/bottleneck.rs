//! What bounds the step: the one word of the answer, and the sentence that says why.

use crate::prepare::Prepared;
use crate::report::PS;
use crate::unfold::Row;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syncline_engine::Record;
use syncline_engine::path::Spent;
use syncline_engine::record::CollectiveRecord;
use syncline_timeline::{Ended, Summary};

/// Fractions above which the answer's sentence changes.
const LITTLE: f64 = 0.05;
const MOST: f64 = 0.5;

/// A share for people: never 100 % or 0 % of what is not quite all or nothing.
fn percent(fraction: f64) -> String {
    match 100.0 * fraction {
        p if p > 99.9 && p < 100.0 => "more than 99.9 %".to_owned(),
        p if p > 0.0 && p < 0.1 => "less than 0.1 %".to_owned(),
        p => format!("{p:.1} %"),
    }
}

/// What bounds the step, and why, in a sentence or two.
pub(crate) fn bottleneck(
    summary: &Summary,
    prepared: &Prepared,
    record: &Record,
    finished: &[Row<CollectiveRecord>],
) -> (String, String) {
    let total = summary.total_time_s;
    if total == 0.0 && summary.ended != Ended::Finished {
        return ("nothing".to_owned(), "Nothing was finished before the run was cut off.".to_owned());
    }
    if total == 0.0 {
        return ("nothing".to_owned(), "The job takes no time.".to_owned());
    }
    let shares = Shares::of(record);
    let waits_little = summary.exposed_fraction < LITTLE && summary.exposed_memory_s < LITTLE * total;
    if summary.compute_s > 0.0 && waits_little {
        let hidden = if summary.exposed_fraction == 0.0 {
            "all communication is hidden behind it".to_owned()
        } else {
            format!("communication is hidden behind it but for {}", percent(summary.exposed_fraction))
        };
        let reason = format!("Compute takes {} of the time; {hidden}.", percent(summary.compute_s / total));
        return ("compute".to_owned(), reason);
    }
    if shares.memory > MOST || summary.exposed_memory_s > summary.exposed_communication_s {
        let waits = match summary.exposed_memory_s / total {
            share if share > 0.0 => format!("; compute waits for them {} of the time", percent(share)),
            _ => String::new(),
        };
        let share = percent(shares.memory);
        let reason = format!("Operations on memory or of the host take {share} of the critical path{waits}.");
        return ("memory".to_owned(), reason);
    }
    let Some(busiest) =
        summary.dims.iter().max_by(|a, b| a.busiest_link_busy.total_cmp(&b.busiest_link_busy))
    else {
        return ("nothing".to_owned(), String::new());
    };
    let mut layers: Vec<(usize, u128)> = record
        .layers
        .iter()
        .enumerate()
        .map(|(index, layer)| (index, layer.exposed))
        .filter(|l| l.1 > 0)
        .collect();
    layers.sort_by_key(|&(index, exposed)| (Reverse(exposed), index));
    let all: u128 = layers.iter().map(|l| l.1).sum();
    let blame = layers.first().map_or(String::new(), |&(index, exposed)| {
        let Some(name) = prepared.workload.layers.get(index) else { return String::new() };
        format!(" Most of the waiting is for {name} ({}).", percent(exposed as f64 / all as f64))
    });
    let waits = if summary.compute_s > 0.0 {
        format!("Compute waits for communication {} of the time.", percent(summary.exposed_fraction))
    } else {
        "The job is communication alone.".to_owned()
    };
    if let Some((rank, share)) =
        busiest_rank(prepared, record, total).filter(|&(_, share)| share > 1.0 - LITTLE)
        && summary.compute_s > 0.0
    {
        let reason = format!(
            "{waits} But it waits for other ranks, not for the network: rank {rank} computes {} of the time.{blame}",
            percent(share)
        );
        return ("imbalance".to_owned(), reason);
    }
    if let Some((rank, share)) = shares.slowest
        && 1.0 - shares.compute < MOST * summary.exposed_fraction
    {
        let reason = format!(
            "{waits} But it waits for other ranks, not for the network: {} of the critical path is compute, {} of that on \
             rank {rank}.{blame}",
            percent(shares.compute),
            percent(share),
        );
        return ("imbalance".to_owned(), reason);
    }
    let reduction = reduction(prepared, finished);
    if reduction > MOST * summary.communication_s {
        let reason = format!(
            "{waits} Combining what is received with local data takes {} of the time that communication takes \
             (collectives.reduction_rate).{blame}",
            percent(reduction / summary.communication_s),
        );
        return ("reduction".to_owned(), reason);
    }
    if busiest.busiest_link_busy * total < MOST * summary.communication_s {
        let reason = format!(
            "{waits} Even the busiest dimension, {}, sends only {} of the time that communication takes: latency and \
             dependencies between messages dominate, not rates.{blame}",
            busiest.name,
            percent(busiest.busiest_link_busy * total / summary.communication_s.max(f64::MIN_POSITIVE)),
        );
        return ("latency".to_owned(), reason);
    }
    let reason = format!(
        "{waits} Dimension {} is the busiest: {} sends {} of the run.{blame}",
        busiest.name,
        busiest.busiest_link,
        percent(busiest.busiest_link_busy)
    );
    (busiest.name.clone(), reason)
}

/// What the critical path is spent on.
struct Shares {
    compute: f64,
    memory: f64,
    /// The rank that does most of its compute, and how much of that.
    slowest: Option<(u32, f64)>,
}

impl Shares {
    fn of(record: &Record) -> Self {
        let mut of_ranks: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut whole, mut memory) = (0, 0);
        for segment in &record.path {
            let length = segment.end.saturating_sub(segment.start).0;
            whole += length;
            match segment.spent {
                Spent::Compute => *of_ranks.entry(segment.rank).or_default() += length,
                Spent::Memory => memory += length,
                Spent::Communication(_) | Spent::Queue(_) => {}
            }
        }
        let compute: u64 = of_ranks.values().sum();
        let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
        let slowest = of_ranks.iter().max_by_key(|&(&rank, &length)| (length, Reverse(rank)));
        Self {
            compute: share(compute, whole),
            memory: share(memory, whole),
            slowest: slowest.map(|(&rank, &length)| (rank, share(length, compute))),
        }
    }
}

/// The rank that computes longest, and for which share of the run.
fn busiest_rank(prepared: &Prepared, record: &Record, total: f64) -> Option<(u32, f64)> {
    let (class, rank) =
        record.ranks.iter().enumerate().max_by_key(|&(class, rank)| (rank.compute, Reverse(class)))?;
    Some((prepared.symmetry.representative(class as u32).0, rank.compute.as_s() / total))
}

/// Mean time of a rank that goes to combining received with local data, in seconds.
fn reduction(prepared: &Prepared, finished: &[Row<CollectiveRecord>]) -> f64 {
    let of = |row: &Row<CollectiveRecord>| {
        let sum: u128 = row.what.phases.iter().map(|phase| phase.reduction).sum();
        sum * u128::from(row.members)
    };
    finished.iter().map(of).sum::<u128>() as f64 / PS / f64::from(prepared.workload.ranks.max(1))
}
