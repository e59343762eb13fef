//! The sentence about the bottleneck.

use super::savings::{RunSavings, Saving, is_relieved_with};
use std::cmp::Reverse;
use syncline_engine::Record;
use syncline_prepare::Prepared;
use syncline_timeline::{Bottleneck, PathKind, PathPart, Summary};

/// The sentence says "most" for shares above this.
const MOST: f64 = 0.5;

/// The sentence mentions skew from this share of the path on, in thousandths.
const MUCH: u32 = 100;

/// The sentence mentions what another order of chunks may save if it exceeds the prediction by more than this, in the
/// unit of [`Saving`].
const REORDERED: u32 = 20;

/// Thousandths as a percentage.
fn percent(per_mille: u32) -> String {
    format!("{}.{} %", per_mille / 10, per_mille % 10)
}

/// Says what the path is spent on, what a faster part saves, and which layers compute waits for.
pub(super) fn reason(
    parts: &[PathPart],
    savings: &RunSavings<'_>,
    bottleneck: &Bottleneck,
    summary: &Summary,
    prepared: &Prepared,
    record: &Record,
) -> String {
    let mut sentence = format!("The critical path is {}.", listed(parts));
    let first = parts.iter().find(|part| Bottleneck::from(*part) == *bottleneck);
    let is_much =
        |part: &&PathPart| part.per_mille >= MUCH || first.is_some_and(|first| first.kind == part.kind);
    let skew = parts.iter().filter(|part| part.kind == PathKind::Skew).find(is_much);
    if let Some(part) = first {
        let saved = |part| percent(savings.of(part).per_mille());
        // "about", because with links of twice the rate messages may come in another order.
        let about = savings.links_by();
        let by = match savings.limit(part) {
            Some(_) => "at most ".to_owned(),
            None if part.tier.is_some() => format!("{about} "),
            None => String::new(),
        };
        sentence.push_str(&format!(" {} would shorten it by {by}{}", remedy(part), saved(part)));
        let best_links = || savings.most(|part| part.tier.is_some() && savings.of(part) > Saving(1));
        if part.tier.is_none()
            && let Some(links) = best_links()
            && let Some(tier) = &links.tier
        {
            let reordered = if_reordered(savings, savings.of(links), Some(tier));
            let saved = saved(links);
            sentence.push_str(&format!(", doubling the rate of {tier} by about {saved}{reordered}"));
        }
        if let Some(skew) = skew.filter(|skew| skew.kind != part.kind) {
            let even = remedy(skew).replacen('T', "t", 1);
            sentence.push_str(&format!(", {even} by {}", saved(skew)));
        }
        if let Some(limit) = savings.limit(part) {
            let busy = percent(limit.busy);
            sentence.push_str(&format!(", because {} is busy {busy} of the time", limit.of.name()));
        }
        let all = savings.of_all_links();
        if part.tier.is_some() && 2 * all.0 > 3 * savings.of(part).0 {
            let reordered = if_reordered(savings, all, None);
            let all = percent(all.per_mille());
            sentence.push_str(&format!("; doubling the rate of all links by {about} {all}{reordered}"));
        } else if part.tier.is_some() && savings.limit(part).is_none() {
            sentence.push_str(&if_reordered(savings, savings.of(part), part.tier.as_deref()));
        }
        sentence.push('.');
    }
    if skew.is_some() {
        sentence.push_str(&busiest_rank(prepared, record));
    }
    if *bottleneck != Bottleneck::Compute {
        sentence.push_str(&blame(summary, prepared, record));
    }
    sentence
}

/// Says what twice the rate of a tier (of all links if `None`) may save at most if chunks change their order; empty
/// unless that is much more than `predicted` for the same order.
fn if_reordered(savings: &RunSavings<'_>, predicted: Saving, tier: Option<&str>) -> String {
    match savings.most_with(|limit| savings.is_of(limit, tier)) {
        Some(most) if most.0 > predicted.0 + REORDERED => {
            format!(", or up to {} if chunks change their order", percent(most.per_mille()))
        }
        _ => String::new(),
    }
}

/// The change whose effect is predicted for a part.
fn remedy(part: &PathPart) -> String {
    match part.kind {
        PathKind::Compute => "Doubling the speed of compute".to_owned(),
        PathKind::Memory => "Doubling the speed of memory and host operations".to_owned(),
        PathKind::Reduction => "Doubling the rate of local reduction".to_owned(),
        PathKind::Bytes | PathKind::Queueing => {
            format!("Doubling the rate of {}", part.tier.as_deref().unwrap_or_default())
        }
        PathKind::Bubble => "A schedule without a bubble".to_owned(),
        PathKind::Skew => "The same work spread evenly over ranks".to_owned(),
        PathKind::Latency => "Zero latency".to_owned(),
        PathKind::Timeout => "A network without time-outs".to_owned(),
    }
}

/// Lists parts with their shares, longest first. Parts of one tier are listed together; parts below half a thousandth
/// are left out.
fn listed(parts: &[PathPart]) -> String {
    let mut items: Vec<(u32, String)> = Vec::new();
    for (number, part) in parts.iter().enumerate().filter(|(_, part)| part.per_mille > 0) {
        let of_tier = |other: &&PathPart| is_relieved_with(other, part);
        if parts[..number].iter().any(|other| of_tier(&other)) {
            continue;
        }
        let same: Vec<&PathPart> = parts.iter().filter(|part| part.per_mille > 0).filter(of_tier).collect();
        let share = same.iter().map(|part| part.per_mille).sum();
        let name = part.tier.as_deref().unwrap_or(part.kind.name());
        let of = match &same[..] {
            [part] if part.tier.is_none() => String::new(),
            [part] => format!(" ({})", part.kind.name()),
            several => {
                let each =
                    several.iter().map(|part| format!("{} {}", part.kind.name(), percent(part.per_mille)));
                format!(" ({})", each.collect::<Vec<_>>().join(", "))
            }
        };
        items.push((share, format!("{} {name}{of}", percent(share))));
    }
    items.sort_by_key(|&(share, _)| Reverse(share));
    let mut items: Vec<String> = items.into_iter().map(|(_, text)| text).collect();
    let last = items.pop().unwrap_or_default();
    if items.is_empty() { last } else { format!("{} and {last}", items.join(", ")) }
}

/// Says which rank computes longest, and how much longer than the mean.
fn busiest_rank(prepared: &Prepared, record: &Record) -> String {
    let computed = &record.path.computed;
    let Some((class, most)) =
        computed.iter().enumerate().max_by_key(|&(class, time)| (*time, Reverse(class)))
    else {
        return String::new();
    };
    // In whole numbers, so that the text is the same whether each rank is simulated or some represent others.
    let sum: u128 = computed.iter().map(|time| u128::from(time.0)).sum();
    let times = |parts: u128| {
        (u128::from(most.0) * computed.len() as u128 * parts + sum / 2).checked_div(sum).unwrap_or(parts)
    };
    let rank = prepared.symmetry.representative(class as u32).0;
    match times(100) {
        hundredths if times(1000) > 1001 => {
            let (whole, part) = (hundredths / 100, hundredths % 100);
            format!(" Rank {rank} computes {whole}.{part:02} times as long as the mean rank.")
        }
        _ => " All ranks compute equally long in total, but take turns at being slowest.".to_owned(),
    }
}

/// Says which layer ranks wait for longest.
fn blame(summary: &Summary, prepared: &Prepared, record: &Record) -> String {
    let layers = record.layers.iter().enumerate().filter(|(_, layer)| layer.exposed > 0);
    let all: u128 = layers.clone().map(|(_, layer)| layer.exposed).sum();
    let Some((longest, layer)) = layers.clone().max_by_key(|&(index, layer)| (layer.exposed, Reverse(index)))
    else {
        return String::new();
    };
    let Some(name) = prepared.workload.layers.get(longest) else { return String::new() };
    let share = layer.exposed as f64 / all as f64;
    let percent = format!("{:.1} %", 100.0 * share);
    let what = if summary.compute_s > 0.0 { "waiting" } else { "time" };
    match layers.count() {
        1 if summary.compute_s == 0.0 => String::new(),
        // Half is not most, nor is a share that rounds to half.
        _ if share > 1.001 * MOST => format!(" Most of the {what} is for {name} ({percent})."),
        several => format!(" {several} layers share the {what}; the longest is for {name} ({percent})."),
    }
}
