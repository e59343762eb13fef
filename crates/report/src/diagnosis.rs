//! The bottleneck: the part of the critical path that saves most if it is made faster.
//!
//! A part of the critical path that becomes twice as fast saves half of its time, and a part that vanishes saves all of
//! it ([`syncline_critical_path`]), until another chain becomes the critical path. The engine predicts this for each
//! kind of time ([`Savings`](syncline_critical_path::Savings)). For compute, memory operations, reduction and each tier
//! of links, the prediction is for twice the speed; for latency, bubble, skew and time-outs, it is for none at all.
//! Bytes and queueing of a tier count together, because both shrink with the rate of its links. Bubble and skew are
//! compute of other ranks, so they shrink with the speed of compute.
//!
//! A run takes at least as long as its busiest link sends and as its busiest rank computes. So a part saves no more
//! than the time in which the busiest of the other links and ranks is idle.
//!
//! - [`parts`]: divides the critical path into parts;
//! - [`axes`]: what the mean rank waits for;
//! - [`savings`]: how much shorter the run is with a faster part;
//! - [`words`]: the sentence about the bottleneck.

mod axes;
mod parts;
mod savings;
mod words;

pub(crate) use axes::{trace_ends, waits};

use crate::loss;
use savings::RunSavings;
use syncline_engine::Record;
use syncline_net_api::Stall;
use syncline_prepare::Prepared;
use syncline_timeline::{Bottleneck, Ended, PathKind, Summary};

/// Why a faster part may save more or less than predicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubts {
    /// Chunks may overtake chunks of collectives that were issued earlier.
    pub reorders: bool,
    /// Senders have windows. Waiting for an acknowledgement counts as queueing, but faster links do not shorten it.
    pub windows: bool,
}

/// How busy the links of a run were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Busy<'a> {
    /// For each tier, the share of the run in which its busiest link was sending, as far as the network model knows it.
    pub tiers: &'a [f64],
    /// Why faster links may save more or less than that says.
    pub doubts: Doubts,
}

/// The bottleneck of a critical path.
fn bottleneck(savings: &RunSavings<'_>) -> Bottleneck {
    match savings.most(|_| true) {
        None => Bottleneck::Nothing,
        // If several tiers are equally busy, each one saves little, but all of them together save much.
        Some(part) if part.tier.is_none() && savings.of(part) < savings.of_all_links() => {
            savings.most(|part| part.tier.is_some()).unwrap_or(part).into()
        }
        Some(part) => part.into(),
    }
}

/// Writes the critical path, the bottleneck and the sentence into the summary.
pub(crate) fn diagnose(
    summary: &mut Summary,
    busy: Busy<'_>,
    prepared: &Prepared,
    record: &Record,
    stalls: &[Stall],
) {
    let lost = loss::Cost::of(stalls, &parts::under_way(&record.path));
    let parts = parts::parts(prepared, &record.path, lost.all());
    let savings = RunSavings::new(&parts, summary, busy, prepared, record);
    let bottleneck = bottleneck(&savings);
    let reason = match bottleneck {
        Bottleneck::Nothing if summary.ended != Ended::Finished => {
            "The run was cut off before anything finished.".to_owned()
        }
        Bottleneck::Nothing => "The job takes no time.".to_owned(),
        _ => words::reason(&parts, &savings, &bottleneck, summary, prepared, record),
    };
    let length: f64 = parts.iter().map(|part| part.time_s).sum();
    let saves: Vec<f64> = parts.iter().map(|part| length * savings.share(part)).collect();
    summary.reason = reason;
    if parts.iter().any(|part| part.kind == PathKind::Timeout) {
        summary.reason.push_str(&loss::sentence(prepared, &lost, record.finish));
    }
    summary.bottleneck = bottleneck;
    summary.critical_path = parts;
    for (part, saves) in summary.critical_path.iter_mut().zip(saves) {
        part.saves_s = saves;
    }
}
