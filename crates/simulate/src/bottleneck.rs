//! What bounds the step: the one word of the answer, and the sentence that says why.

use crate::loss;
use crate::prepare::Prepared;
use crate::report::PS;
use crate::unfold::Row;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use syncline_engine::path::{Segment, Spent, watched};
use syncline_engine::record::CollectiveRecord;
use syncline_engine::{Record, Stall};
use syncline_timeline::{DimSummary, Ended, Summary};
use syncline_units::Time;

/// Fractions above which the answer's sentence changes.
const LITTLE: f64 = 0.05;
const MOST: f64 = 0.5;

/// A share for people: never 100 % or 0 % of what is not quite all or nothing.
pub(crate) fn percent(fraction: f64) -> String {
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
    stalls: &[Stall],
) -> (String, String) {
    let total = summary.total_time_s;
    if total == 0.0 && summary.ended != Ended::Finished {
        return ("nothing".to_owned(), "Nothing was finished before the run was cut off.".to_owned());
    }
    if total == 0.0 {
        return ("nothing".to_owned(), "The job takes no time.".to_owned());
    }
    // A path that ends within a step has not come to the reduction of gradients.
    let micro_batches = prepared.workload.micro_batches();
    let path = if watched(micro_batches) < micro_batches { &[][..] } else { &record.path };
    let shares = Shares::of(path, record.dims.len());
    let spans = communicating(path, record.finish);
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
    let Some(dim) = shares.dimension(summary) else {
        return ("nothing".to_owned(), String::new());
    };
    let blame = blame(summary, prepared, record);
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
    let DimSummary { name, busiest_link, busiest_link_busy, .. } = &summary.dims[dim];
    // Of a single dimension there is nothing to say that the others do not have.
    let path = shares.dims.get(dim).filter(|&&share| share > 0.0 && summary.dims.len() > 1);
    let path = path.map(|&share| format!("Dimension {name} takes {} of the critical path", percent(share)));
    // Collectives say when they are under way in a dimension; single messages do not.
    let active = match record.dims[dim].active.as_s() {
        active if active > 0.0 => active,
        _ => summary.communication_s,
    };
    let lost = loss::Cost::of(stalls, &spans);
    let whole: Time = spans.iter().map(|&(start, end)| end.saturating_sub(start)).sum();
    let stands_still = lost.all().as_s() > MOST * whole.as_s();
    if busiest_link_busy * total < MOST * active || stands_still {
        if let Some(packets) = summary.packets.as_ref().filter(|packets| packets.timeouts > 0) {
            let blame = format!("{}{blame}", loss::sentence(prepared, &lost, record.finish));
            let reason = match packets.dropped {
                0 => format!(
                    "{waits} No packet was lost, but time-outs ran out before acknowledgements came, {} of them, and {} \
                     segments were sent again: `network.min_timeout` is shorter than packets wait in queues.{blame}",
                    packets.timeouts, packets.retransmissions,
                ),
                dropped => format!(
                    "{waits} Packets were lost, and connections stood still until time-outs ran out: {dropped} packets \
                     dropped, {} segments sent again, {} time-outs.{blame}",
                    packets.retransmissions, packets.timeouts,
                ),
            };
            return ("loss".to_owned(), reason);
        }
        let even = path.map_or("Even".to_owned(), |path| format!("{path}, but even"));
        let reason = format!(
            "{waits} {even} the busiest link of {name} sends only {} of the time in which it is in use: latency and \
             dependencies between messages dominate, not rates.{blame}",
            percent(busiest_link_busy * total / active.max(f64::MIN_POSITIVE)),
        );
        return ("latency".to_owned(), reason);
    }
    let its = path.map_or(format!("The busiest link of {name}"), |path| format!("{path}; its busiest link"));
    let sends = percent(*busiest_link_busy);
    let reason = format!("{waits} {its}, {busiest_link}, sends {sends} of the run.{blame}");
    (name.clone(), reason)
}

/// When the critical path is spent on communication: all of the run where no path is known.
fn communicating(path: &[Segment], finish: Time) -> Vec<(Time, Time)> {
    if path.is_empty() {
        return vec![(Time::ZERO, finish)];
    }
    let communicates =
        |segment: &&Segment| matches!(segment.spent, Spent::Communication(_) | Spent::Queue(_));
    path.iter().filter(communicates).map(|segment| (segment.start, segment.end)).collect()
}

/// Which layer most of the waiting is for.
fn blame(summary: &Summary, prepared: &Prepared, record: &Record) -> String {
    let layers = record.layers.iter().enumerate().filter(|(_, layer)| layer.exposed > 0);
    let all: u128 = layers.clone().map(|(_, layer)| layer.exposed).sum();
    let Some((longest, layer)) = layers.clone().max_by_key(|&(index, layer)| (layer.exposed, Reverse(index)))
    else {
        return String::new();
    };
    let Some(name) = prepared.workload.layers.get(longest) else { return String::new() };
    let (share, what) = (
        layer.exposed as f64 / all as f64,
        match summary.compute_s > 0.0 {
            true => "waiting",
            false => "time",
        },
    );
    match layers.count() {
        1 if summary.compute_s == 0.0 => String::new(),
        // A half is not most, nor what looks like one.
        _ if share > 1.001 * MOST => format!(" Most of the {what} is for {name} ({}).", percent(share)),
        several => format!(
            " The {what} is spread over {several} layers: none has more than {name} ({}).",
            percent(share)
        ),
    }
}

/// What the critical path is spent on.
struct Shares {
    compute: f64,
    memory: f64,
    /// The rank that does most of its compute, and how much of that.
    slowest: Option<(u32, f64)>,
    /// Collectives in each dimension: under way, or in line.
    dims: Vec<f64>,
    /// Single messages.
    messages: f64,
}

impl Shares {
    fn of(path: &[Segment], dims: usize) -> Self {
        let mut of_ranks: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut whole, mut memory, mut messages, mut dims) = (0, 0, 0, vec![0; dims]);
        for segment in path {
            let length = segment.end.saturating_sub(segment.start).0;
            whole += length;
            match segment.spent {
                Spent::Compute => *of_ranks.entry(segment.rank).or_default() += length,
                Spent::Memory => memory += length,
                Spent::Communication(Some(dim)) | Spent::Queue(dim) => dims[usize::from(dim)] += length,
                Spent::Communication(None) => messages += length,
            }
        }
        let compute: u64 = of_ranks.values().sum();
        let share = |part: u64, of: u64| if of > 0 { part as f64 / of as f64 } else { 0.0 };
        let slowest = of_ranks.iter().max_by_key(|&(&rank, &length)| (length, Reverse(rank)));
        Self {
            compute: share(compute, whole),
            memory: share(memory, whole),
            slowest: slowest.map(|(&rank, &length)| (rank, share(length, compute))),
            dims: dims.into_iter().map(|length| share(length, whole)).collect(),
            messages: share(messages, whole),
        }
    }

    /// The dimension that most of the critical path is spent in. Where none is known, that with the busiest link.
    fn dimension(&self, summary: &Summary) -> Option<usize> {
        let most = |of: &dyn Fn(usize) -> f64| {
            (0..summary.dims.len()).max_by(|&a, &b| of(a).total_cmp(&of(b)).then(b.cmp(&a)))
        };
        let longest = most(&|dim| self.dims.get(dim).copied().unwrap_or_default())?;
        if self.dims.get(longest).is_some_and(|&share| share > self.messages) {
            return Some(longest);
        }
        most(&|dim| summary.dims[dim].busiest_link_busy)
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
