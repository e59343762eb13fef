//! What bounds the step: the part of the critical path that is worth making faster.
//!
//! Making something twice as fast shortens the critical path by half of its part, and doing without it by all of that part
//! ([`syncline_engine::path`]), unless another chain becomes the critical one: the engine follows how much all chains let
//! be saved ([`Savings`](syncline_engine::path::Savings)). The bottleneck is the part where that is most: of compute, memory
//! operations, reduction and each tier of links if they were twice as fast, of latency, bubble, skew and time-outs if there
//! were none. Bytes and queueing of one tier count together: both shrink with the rate of these links. Bubble and skew are
//! compute of other ranks, so they shrink with the speed of compute.
//!
//! A run takes at least as long as each link sends and each rank computes, so a part is worth no more than the rest of the
//! run beside the busiest of all others.
//!
//! - [`parts`]: what the path is spent on;
//! - [`axes`]: what the mean rank waits for;
//! - [`worth`]: by how much the run is shorter without a part;
//! - [`words`]: the sentence.

mod axes;
mod parts;
mod words;
mod worth;

pub(crate) use axes::{trace_ends, waits};

use crate::loss;
use crate::prepare::Prepared;
use syncline_engine::{Record, Stall};
use syncline_timeline::{Ended, PathKind, PathPart, Summary};
use worth::Worth;

/// What bounds a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bottleneck {
    /// No time passes.
    Nothing,
    /// Links of a tier.
    Tier(String),
    /// A part of the critical path that is not spent on links.
    Part(PathKind),
}

impl Bottleneck {
    /// What bounds a path of these parts.
    fn of(worth: &Worth<'_>) -> Self {
        let tier = || worth.most(|part| !part.tier.is_empty());
        match worth.most(|_| true) {
            None => Self::Nothing,
            // Tiers that are equally busy are worth little alone, and much together.
            Some(part) if part.tier.is_empty() && worth.of(part) < worth.of_all_links() => {
                tier().map_or(Self::Part(part.kind), |tier| Self::Tier(tier.tier.clone()))
            }
            Some(part) if part.tier.is_empty() => Self::Part(part.kind),
            Some(part) => Self::Tier(part.tier.clone()),
        }
    }

    /// Whether `part` is what bounds the path.
    fn is(&self, part: &PathPart) -> bool {
        match self {
            Self::Nothing => false,
            Self::Tier(name) => part.tier == *name,
            Self::Part(kind) => part.tier.is_empty() && part.kind == *kind,
        }
    }

    /// The word for it.
    fn name(&self) -> &str {
        match self {
            Self::Nothing => "nothing",
            Self::Tier(name) => name,
            Self::Part(kind) => kind.name(),
        }
    }
}

/// Says in the summary what bounds the step, and why. `busy` is the share of the run in which the busiest link of each tier was
/// sending, as far as the model keeps messages from sharing it.
pub(crate) fn diagnose(
    summary: &mut Summary,
    busy: &[f64],
    prepared: &Prepared,
    record: &Record,
    stalls: &[Stall],
) {
    let lost = loss::Cost::of(stalls, &parts::under_way(&record.path));
    let parts = parts::parts(prepared, &record.path, lost.all());
    let worth = Worth::new(&parts, summary, busy, prepared, record);
    let bottleneck = Bottleneck::of(&worth);
    let reason = match bottleneck {
        Bottleneck::Nothing if summary.ended != Ended::Finished => {
            "Nothing was finished before the run was cut off.".to_owned()
        }
        Bottleneck::Nothing => "The job takes no time.".to_owned(),
        _ => words::reason(&parts, &worth, &bottleneck, summary, prepared, record),
    };
    let length: f64 = parts.iter().map(|part| part.time_s).sum();
    let saves: Vec<f64> = parts.iter().map(|part| length * worth.share(part)).collect();
    summary.reason = reason;
    if parts.iter().any(|part| part.kind == PathKind::Timeout) {
        summary.reason.push_str(&loss::sentence(prepared, &lost, record.finish));
    }
    summary.bottleneck = bottleneck.name().to_owned();
    summary.critical_path = parts;
    for (part, saves) in summary.critical_path.iter_mut().zip(saves) {
        part.saves_s = saves;
    }
}
