//! Tables of layers, collectives, phases and ranks.

use crate::jobs::{job_of, steps_of};
use crate::links::PS;
use crate::unfold::{self, Row};
use syncline_engine::Record;
use syncline_engine::record::{CollectiveRecord, RankRecord};
use syncline_prepare::Prepared;
use syncline_prepare::several::Member;
use syncline_timeline::{Table, tables};
use syncline_workload::Part;

/// The table `layers`.
pub(crate) fn layers(prepared: &Prepared, record: &Record) -> Table {
    let workload = &prepared.workload;
    let unnamed = record.layers.last().is_some_and(|layer| *layer != Default::default());
    let rows: Vec<_> = record.layers.iter().take(workload.layers.len() + usize::from(unnamed)).collect();
    // Ranks and iterations of the job to which each layer belongs.
    let means: Vec<(u32, u32)> = (0..rows.len() as u32)
        .map(|layer| {
            let of = |part: &&Member| (layer.wrapping_sub(part.share.first_layer)) < part.share.layers;
            match prepared.parts.iter().find(of) {
                Some(part) => (part.share.ranks, steps_of(part, record)),
                None => (workload.ranks, record.iterations_done),
            }
        })
        .map(|(ranks, iterations)| (ranks.max(1), iterations.max(1)))
        .collect();
    let per = |(row, sum): (usize, u128)| {
        let (ranks, iterations) = means[row];
        sum as f64 / PS / f64::from(ranks) / f64::from(iterations)
    };
    let name =
        |index: usize| workload.layers.get(index).cloned().unwrap_or_else(|| "(other tasks)".to_owned());
    let parts = |of: fn(&syncline_engine::record::LayerRecord) -> &[u128; 5], part: Part| -> Vec<f64> {
        rows.iter().map(|layer| of(layer)[part as usize]).enumerate().map(per).collect()
    };
    let sum = |of: fn(&syncline_engine::record::LayerRecord) -> &[u128; 5]| -> Vec<f64> {
        rows.iter().map(|layer| of(layer).iter().sum()).enumerate().map(per).collect()
    };
    Table::from(tables::Layers {
        layer: (0..rows.len()).map(name).collect(),
        forward_compute_s: parts(|l| &l.compute, Part::Forward),
        input_grad_compute_s: parts(|l| &l.compute, Part::InputGrad),
        weight_grad_compute_s: parts(|l| &l.compute, Part::WeightGrad),
        update_compute_s: parts(|l| &l.compute, Part::Update),
        compute_s: sum(|l| &l.compute),
        forward_communication_s: parts(|l| &l.communication, Part::Forward),
        input_grad_communication_s: parts(|l| &l.communication, Part::InputGrad),
        weight_grad_communication_s: parts(|l| &l.communication, Part::WeightGrad),
        communication_s: sum(|l| &l.communication),
        exposed_communication_s: rows.iter().map(|l| l.exposed).enumerate().map(per).collect(),
        collective_bytes: rows
            .iter()
            .zip(&means)
            .map(|(l, &(ranks, iterations))| (l.bytes / u128::from(ranks) / u128::from(iterations)) as i64)
            .collect(),
        exposed_at_end_s: rows.iter().map(|l| l.exposed_at_end).enumerate().map(per).collect(),
    })
}

/// The table `collectives`.
pub(crate) fn collectives(prepared: &Prepared, finished: &[Row<CollectiveRecord>]) -> Table {
    let rows: Vec<&CollectiveRecord> = finished.iter().map(|row| &row.what).collect();
    let workload = &prepared.workload;
    let plan = |row: &CollectiveRecord| &prepared.plans.plans[row.plan as usize];
    let ranks = |row: &CollectiveRecord| workload.roles[usize::from(row.role)].size();
    let text = |of: &dyn Fn(&CollectiveRecord) -> String| rows.iter().copied().map(of).collect::<Vec<_>>();
    let int = |of: &dyn Fn(&CollectiveRecord) -> i64| rows.iter().copied().map(of).collect::<Vec<_>>();
    let float = |of: &dyn Fn(&CollectiveRecord) -> f64| rows.iter().copied().map(of).collect::<Vec<_>>();
    let algorithm = |row: &CollectiveRecord| {
        let mut names: Vec<String> =
            plan(row).phases.iter().map(|p| format!("{} {}", p.algorithm.name(), p.kind)).collect();
        names.dedup();
        names.join(" + ")
    };
    let mean_wait = |row: &CollectiveRecord| row.ready_wait as f64 / PS / row.chunks.max(1) as f64;
    let span = |row: &CollectiveRecord| row.finish.saturating_sub(row.first_issue).as_s();
    let rate =
        |row: &CollectiveRecord| if span(row) > 0.0 { plan(row).bytes.0 as f64 / span(row) } else { 0.0 };
    let factor = |row: &CollectiveRecord| {
        let n = f64::from(ranks(row));
        match plan(row).kind {
            syncline_units::CollectiveKind::AllReduce => 2.0 * (n - 1.0) / n,
            kind if kind.has_root() => 1.0,
            _ => (n - 1.0) / n,
        }
    };
    Table::from(tables::Collectives {
        layer: text(&|r| workload.layer_name(r.layer).to_owned()),
        part: text(&|r| r.part.name().to_owned()),
        iteration: int(&|r| i64::from(r.iteration)),
        kind: text(&|r| plan(r).kind.name().to_owned()),
        group: text(&|r| format!("{}.{}", workload.roles[usize::from(r.role)].name, r.group)),
        group_ranks: int(&|r| i64::from(ranks(r))),
        size_bytes: int(&|r| plan(r).bytes.0 as i64),
        algorithm: text(&algorithm),
        chunks: int(&|r| plan(r).chunks.len() as i64),
        issue_s: float(&|r| r.first_issue.as_s()),
        last_issue_s: float(&|r| r.last_issue.as_s()),
        finish_s: float(&|r| r.finish.as_s()),
        duration_s: float(&span),
        mean_duration_s: float(&|r| r.duration_sum as f64 / PS / f64::from(ranks(r))),
        ready_queue_delay_s: float(&mean_wait),
        algorithm_bytes_per_s: float(&rate),
        bus_bytes_per_s: float(&|r| rate(r) * factor(r)),
        bound_s: float(&|r| plan(r).bound.as_s()),
        groups: finished.iter().map(|r| i64::from(r.members)).collect(),
        job: text(&|r| job_of(prepared, workload.roles[usize::from(r.role)].rank(r.group, 0))),
        chosen: rows.iter().map(|r| prepared.plans.chosen[r.plan as usize].contains(&true)).collect(),
    })
}

/// The table `phases`.
pub(crate) fn phases(prepared: &Prepared, finished: &[Row<CollectiveRecord>]) -> Table {
    let names = prepared.dim_names();
    let rows: Vec<(usize, usize, &CollectiveRecord)> = finished
        .iter()
        .map(|row| &row.what)
        .enumerate()
        .flat_map(|(index, row)| (0..row.phases.len()).map(move |phase| (index, phase, row)))
        .collect();
    let plan = |row: &CollectiveRecord, phase: usize| &prepared.plans.plans[row.plan as usize].phases[phase];
    let mean = |sum: u128, count: u64| sum as f64 / PS / count.max(1) as f64;
    let workload = &prepared.workload;
    Table::from(tables::Phases {
        collective: rows.iter().map(|r| r.0 as i64).collect(),
        layer: rows.iter().map(|r| workload.layer_name(r.2.layer).to_owned()).collect(),
        phase: rows.iter().map(|r| r.1 as i64 + 1).collect(),
        dimension: rows.iter().map(|r| names[usize::from(plan(r.2, r.1).dim)].clone()).collect(),
        kind: rows.iter().map(|r| plan(r.2, r.1).kind.name().to_owned()).collect(),
        algorithm: rows.iter().map(|r| plan(r.2, r.1).algorithm.name().to_owned()).collect(),
        ranks: rows.iter().map(|r| i64::from(plan(r.2, r.1).size)).collect(),
        queue_delay_s: rows
            .iter()
            .map(|r| mean(r.2.phases[r.1].queue_wait, r.2.phases[r.1].chunks))
            .collect(),
        network_delay_s: rows
            .iter()
            .map(|r| mean(r.2.phases[r.1].network_delay, r.2.phases[r.1].messages))
            .collect(),
        reduction_s: rows.iter().map(|r| mean(r.2.phases[r.1].reduction, r.2.phases[r.1].messages)).collect(),
        messages: rows.iter().map(|r| r.2.phases[r.1].messages as i64).collect(),
        message_bytes: rows.iter().map(|r| r.2.phases[r.1].bytes as i64).collect(),
        chosen: rows.iter().map(|r| prepared.plans.chosen[r.2.plan as usize][r.1]).collect(),
    })
}

/// The table `ranks`.
pub(crate) fn ranks(prepared: &Prepared, record: &Record) -> Table {
    let unfolded = unfold::ranks(prepared, &record.ranks);
    let rows: Vec<&RankRecord> = unfolded.iter().map(|row| row.what).collect();
    Table::from(tables::Ranks {
        rank: unfolded.iter().map(|r| i64::from(r.number)).collect(),
        finish_s: rows.iter().map(|r| r.finish.as_s()).collect(),
        compute_s: rows.iter().map(|r| r.compute.as_s()).collect(),
        exposed_communication_s: rows.iter().map(|r| r.exposed_communication.as_s()).collect(),
        exposed_memory_s: rows.iter().map(|r| r.exposed_memory.as_s()).collect(),
        communication_s: rows.iter().map(|r| r.communication.as_s()).collect(),
        sent_bytes: rows.iter().map(|r| r.sent as i64).collect(),
        received_bytes: rows.iter().map(|r| r.received as i64).collect(),
        ranks: unfolded.iter().map(|r| i64::from(r.members)).collect(),
        exposed_at_end_s: rows.iter().map(|r| r.exposed_at_end.as_s()).collect(),
        bubble_s: rows.iter().map(|r| r.bubble.as_s()).collect(),
        skew_s: rows.iter().map(|r| r.skew.as_s()).collect(),
    })
}
