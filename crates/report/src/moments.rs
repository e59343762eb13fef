//! Tables over time: how busy compute and every dimension were in each slice of time, and the critical path.
//!
//! Both cover only the first iterations of a job, for which the engine records activity over time.

use std::collections::BTreeMap;
use syncline_critical_path::{Segment, Spent};
use syncline_engine::{Job, Record, task_name};
use syncline_fabric::parts::LinkDirection;
use syncline_net_api::Measurements;
use syncline_prepare::{Prepared, tiers};
use syncline_timeline::tables::ActivityKind;
use syncline_timeline::{PathKind, Table, tables};
use syncline_units::LinkId;

/// A link counts as full in a slice if it is busy for this part of it. Less than 1, because messages begin and end
/// within slices.
const FULL: f64 = 0.99;

/// Busy time of one lane, slice by slice.
struct Lane {
    name: String,
    utilization: Vec<f64>,
    busiest: Vec<f64>,
    /// Rows that are busy for at least [`FULL`] of the slice.
    full: Vec<u64>,
}

/// The links of one tier in one direction, in the table of tiers.
struct TierRow<'a> {
    name: &'a str,
    direction: LinkDirection,
    /// Number of links.
    links: i64,
    lane: Lane,
}

/// The table of activity: compute, then every dimension that has links.
pub(crate) fn activity(prepared: &Prepared, record: &Record, network: &mut dyn Measurements) -> Table {
    let slices = &record.slices;
    let members = prepared.symmetry.members();
    let mut lanes = Vec::new();
    if record.computing.iter().any(|rank| !rank.is_empty()) {
        let ranks = record.computing.iter().map(|busy| (busy.as_slice(), 1, members));
        let compute = ActivityKind::Compute;
        lanes.push((compute, lane(compute.name().to_owned(), record, ranks)));
    }
    let (symmetry, fabric) = (&prepared.symmetry, &prepared.fabric);
    let mut of_dims: BTreeMap<usize, Vec<LinkId>> = BTreeMap::new();
    let dim_of = tiers::of_links(fabric);
    for link in symmetry.links() {
        of_dims.entry(dim_of(link)).or_default().push(link);
    }
    let names = prepared.dim_names();
    let activity = network.activity();
    for (dim, links) in of_dims {
        let ports = links.iter().map(|&link| {
            let port = symmetry.port(link);
            (activity.row(port as usize), fabric.link(link).rate.0, symmetry.links_of(port))
        });
        lanes.push((ActivityKind::Links, lane(names[dim].clone(), record, ports)));
    }
    let starts: Vec<f64> = slices.iter().map(|slice| slice.start.as_s()).collect();
    let ends: Vec<f64> = slices.iter().map(|slice| slice.end.as_s()).collect();
    Table::from(tables::Activity {
        dimension: lanes.iter().flat_map(|(_, lane)| vec![lane.name.clone(); slices.len()]).collect(),
        start_s: starts.repeat(lanes.len()),
        end_s: ends.repeat(lanes.len()),
        utilization: lanes.iter().flat_map(|(_, lane)| lane.utilization.clone()).collect(),
        busiest_utilization: lanes.iter().flat_map(|(_, lane)| lane.busiest.clone()).collect(),
        kind: lanes.iter().flat_map(|(kind, _)| vec![kind.name().to_owned(); slices.len()]).collect(),
    })
}

/// The table of tiers of links, with each direction separate, for a fabric that is a graph. `None` for other fabrics,
/// whose tiers are their dimensions.
pub(crate) fn tiers(prepared: &Prepared, record: &Record, network: &mut dyn Measurements) -> Option<Table> {
    let (symmetry, fabric) = (&prepared.symmetry, &prepared.fabric);
    if !fabric.dims().is_empty() {
        return None;
    }
    let parts = fabric.parts();
    let mut of_tiers: BTreeMap<(usize, LinkDirection), Vec<LinkId>> = BTreeMap::new();
    for link in symmetry.links() {
        let ends = fabric.link(link);
        of_tiers
            .entry((parts.tier_number(link), parts.direction(ends.from, ends.to)))
            .or_default()
            .push(link);
    }
    let slices = &record.slices;
    let activity = network.activity();
    let rows: Vec<TierRow<'_>> = of_tiers
        .into_iter()
        .map(|((tier, direction), links)| {
            let ports = links.iter().map(|&link| {
                let port = symmetry.port(link);
                (activity.row(port as usize), fabric.link(link).rate.0, symmetry.links_of(port))
            });
            let lane = lane(String::new(), record, ports);
            let all = links.iter().map(|&link| i64::from(symmetry.links_of(symmetry.port(link)))).sum();
            TierRow { name: &parts.tiers[tier].name, direction, links: all, lane }
        })
        .collect();
    let text = |of: for<'r> fn(&'r TierRow<'_>) -> &'r str| {
        rows.iter().flat_map(|row| vec![of(row).to_owned(); slices.len()]).collect::<Vec<String>>()
    };
    let starts: Vec<f64> = slices.iter().map(|slice| slice.start.as_s()).collect();
    let ends: Vec<f64> = slices.iter().map(|slice| slice.end.as_s()).collect();
    let table = Table::from(tables::Tiers {
        tier: text(|row| row.name),
        way: text(|row| row.direction.name()),
        links: rows.iter().flat_map(|row| vec![row.links; slices.len()]).collect(),
        start_s: starts.repeat(rows.len()),
        end_s: ends.repeat(rows.len()),
        utilization: rows.iter().flat_map(|row| row.lane.utilization.clone()).collect(),
        busiest_utilization: rows.iter().flat_map(|row| row.lane.busiest.clone()).collect(),
        full_links: rows.iter().flat_map(|row| row.lane.full.iter().map(|&full| full as i64)).collect(),
    });
    Some(table)
}

/// A lane of rows: when they were busy, what each counts for, and how many it stands for. Whole numbers are summed, so
/// that it does not matter in how many rows they come.
fn lane<'a>(name: String, record: &Record, rows: impl Iterator<Item = (&'a [u64], u64, u32)>) -> Lane {
    let lengths: Vec<u64> =
        record.slices.iter().map(|slice| slice.end.saturating_sub(slice.start).0).collect();
    let (mut sums, mut most, mut all) = (vec![0u128; lengths.len()], vec![0u64; lengths.len()], 0u128);
    let mut full = vec![0u64; lengths.len()];
    for (busy, each, members) in rows {
        let weight = u128::from(each) * u128::from(members);
        all += weight;
        for (slice, &busy) in busy.iter().take(lengths.len()).enumerate() {
            // `analytical` may book more on links inside the network than they can carry.
            let busy = busy.min(lengths[slice]);
            sums[slice] += u128::from(busy) * weight;
            most[slice] = most[slice].max(busy);
            full[slice] += u64::from(members) * u64::from(busy as f64 >= FULL * lengths[slice] as f64);
        }
    }
    let share = |busy: f64, whole: f64| if whole > 0.0 { busy / whole } else { 0.0 };
    let slices = || lengths.iter().enumerate().map(|(slice, &length)| (slice, length as f64));
    Lane {
        name,
        utilization: slices().map(|(at, length)| share(sums[at] as f64, all as f64 * length)).collect(),
        busiest: slices().map(|(at, length)| share(most[at] as f64, length)).collect(),
        full,
    }
}

/// The table of the critical path, from the start of the run.
pub(crate) fn critical_path(prepared: &Prepared, job: &Job<'_>, path: &[Segment]) -> Table {
    let workload = &prepared.workload;
    let dims = prepared.dim_names();
    let task = |segment: &Segment| {
        &workload.classes[workload.class_of(segment.rank.0) as usize].tasks[segment.task as usize]
    };
    let kind = |spent| match spent {
        Spent::Compute => PathKind::Compute,
        Spent::Memory => PathKind::Memory,
        Spent::Reduction => PathKind::Reduction,
        Spent::Bytes(_) => PathKind::Bytes,
        Spent::Queueing(_) => PathKind::Queueing,
        Spent::Latency => PathKind::Latency,
    };
    let dim = |dim: Option<u16>| dim.and_then(|dim| dims.get(usize::from(dim)).cloned()).unwrap_or_default();
    let parts = prepared.fabric.parts();
    let tier = |spent| match spent {
        Spent::Bytes(tier) | Spent::Queueing(tier) => {
            tier.map_or(String::new(), |tier| parts.tiers[tier.index()].name.clone())
        }
        _ => String::new(),
    };
    let text = |of: &dyn Fn(&Segment) -> String| path.iter().map(of).collect::<Vec<String>>();
    let mut names: BTreeMap<(u32, u32), String> = BTreeMap::new();
    let mut name = |segment: &Segment| {
        let class = workload.class_of(segment.rank.0);
        let known = names.entry((class, segment.task));
        known.or_insert_with(|| task_name(job, segment.rank, segment.task)).clone()
    };
    Table::from(tables::CriticalPath {
        start_s: path.iter().map(|s| s.start.as_s()).collect(),
        end_s: path.iter().map(|s| s.end.as_s()).collect(),
        rank: path.iter().map(|s| i64::from(s.rank.0)).collect(),
        kind: text(&|segment| kind(segment.spent).name().to_owned()),
        layer: text(&|segment| workload.layer_name(task(segment).layer).to_owned()),
        part: text(&|segment| task(segment).part.name().to_owned()),
        what: path.iter().map(&mut name).collect(),
        dimension: text(&|segment| dim(segment.dim)),
        tier: text(&|segment| tier(segment.spent)),
    })
}
