//! Tables of layers, collectives, phases and ranks.

use crate::jobs::{job_of, steps_of};
use crate::links::PS;
use crate::unfold::{self, Row};
use syncline_engine::Record;
use syncline_engine::record::{CollectiveRecord, PhaseRecord, RankRecord};
use syncline_nccl::{Estimate, Protocol};
use syncline_prepare::{Member, Prepared};
use syncline_timeline::{Table, tables};
use syncline_workload::Part;

/// The ranks and iterations of a layer's job, at least 1 each. Sums over them are divided by both.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    ranks: u32,
    iterations: u32,
}

impl Divisor {
    fn new(ranks: u32, iterations: u32) -> Self {
        Self { ranks: ranks.max(1), iterations: iterations.max(1) }
    }
}

/// The table `layers`.
pub(crate) fn layers(prepared: &Prepared, record: &Record) -> Table {
    let workload = &prepared.workload;
    let unnamed = record.layers.last().is_some_and(|layer| *layer != Default::default());
    let rows: Vec<_> = record.layers.iter().take(workload.layers.len() + usize::from(unnamed)).collect();
    let divisors: Vec<Divisor> = (0..rows.len() as u32)
        .map(|layer| {
            let of = |job: &&Member| (layer.wrapping_sub(job.share.first_layer)) < job.share.layers;
            match prepared.jobs.iter().find(of) {
                Some(job) => Divisor::new(job.share.ranks, steps_of(job, record)),
                None => Divisor::new(workload.ranks, record.iterations_done),
            }
        })
        .collect();
    let per = |(row, sum): (usize, u128)| {
        let Divisor { ranks, iterations } = divisors[row];
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
            .zip(&divisors)
            .map(|(l, &Divisor { ranks, iterations })| {
                (l.bytes / u128::from(ranks) / u128::from(iterations)) as i64
            })
            .collect(),
        exposed_at_end_s: rows.iter().map(|l| l.exposed_at_end).enumerate().map(per).collect(),
    })
}

/// The table `collectives`.
pub(crate) fn collectives(prepared: &Prepared, finished: &[Row<CollectiveRecord>]) -> Table {
    let rows: Vec<&CollectiveRecord> = finished.iter().map(|row| &row.what).collect();
    let workload = &prepared.workload;
    let plan = |row: &CollectiveRecord| &prepared.plans.plans[row.plan.index()];
    let ranks = |row: &CollectiveRecord| workload.roles[row.role.index()].size();
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
    let nccl =
        |row: &CollectiveRecord| prepared.plans.nccl[row.plan.index()].as_ref().map(|call| &call.estimate);
    let of_nccl = |of: fn(&Estimate) -> &'static str| text(&|r| nccl(r).map_or("", of).to_owned());
    Table::from(tables::Collectives {
        layer: text(&|r| workload.layer_name(r.layer).to_owned()),
        part: text(&|r| r.part.name().to_owned()),
        iteration: int(&|r| i64::from(r.micro_batch / workload.micro_batches())),
        kind: text(&|r| plan(r).kind.name().to_owned()),
        group: text(&|r| format!("{}.{}", workload.roles[r.role.index()].name, r.group)),
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
        job: text(&|r| job_of(prepared, workload.roles[r.role.index()].rank(r.group, 0))),
        chosen: rows.iter().map(|r| prepared.plans.chosen[r.plan.index()].contains(&true)).collect(),
        nccl_algorithm: of_nccl(|estimate| estimate.algorithm.name()),
        nccl_protocol: of_nccl(|estimate| estimate.protocol.name()),
        nccl_channels: of_nccl(|estimate| match (estimate.protocol, estimate.all_channels) {
            (Protocol::Other, _) => "",
            (_, true) => "all",
            (_, false) => "fewer",
        }),
        nccl_s: float(&|r| nccl(r).map_or(0.0, Estimate::seconds)),
    })
}

/// A row of the table `phases`.
#[derive(Clone, Copy, Debug)]
struct PhaseRow<'a> {
    /// Row of its collective in the table `collectives`.
    collective: usize,
    record: &'a CollectiveRecord,
    /// Index of the phase in the collective's plan.
    phase: usize,
}

impl<'a> PhaseRow<'a> {
    fn sums(&self) -> &'a PhaseRecord {
        &self.record.phases[self.phase]
    }
}

/// The table `phases`.
pub(crate) fn phases<'a>(prepared: &Prepared, finished: &'a [Row<CollectiveRecord>]) -> Table {
    let names = prepared.dim_names();
    let records = finished.iter().map(|row| &row.what).enumerate();
    let of_record = |(collective, record): (usize, &'a CollectiveRecord)| {
        (0..record.phases.len()).map(move |phase| PhaseRow { collective, record, phase })
    };
    let rows: Vec<PhaseRow<'_>> = records.flat_map(of_record).collect();
    let plan = |row: &PhaseRow<'_>| &prepared.plans.plans[row.record.plan.index()].phases[row.phase];
    let mean = |sum: u128, count: u64| sum as f64 / PS / count.max(1) as f64;
    let workload = &prepared.workload;
    Table::from(tables::Phases {
        collective: rows.iter().map(|r| r.collective as i64).collect(),
        layer: rows.iter().map(|r| workload.layer_name(r.record.layer).to_owned()).collect(),
        phase: rows.iter().map(|r| r.phase as i64 + 1).collect(),
        dimension: rows.iter().map(|r| names[usize::from(plan(r).dim)].clone()).collect(),
        kind: rows.iter().map(|r| plan(r).kind.name().to_owned()).collect(),
        algorithm: rows.iter().map(|r| plan(r).algorithm.name().to_owned()).collect(),
        ranks: rows.iter().map(|r| i64::from(plan(r).axis.size)).collect(),
        queue_delay_s: rows.iter().map(|r| mean(r.sums().queue_wait, r.sums().chunks)).collect(),
        network_delay_s: rows.iter().map(|r| mean(r.sums().network_delay, r.sums().messages)).collect(),
        reduction_s: rows.iter().map(|r| mean(r.sums().reduction, r.sums().messages)).collect(),
        messages: rows.iter().map(|r| r.sums().messages as i64).collect(),
        message_bytes: rows.iter().map(|r| r.sums().bytes as i64).collect(),
        chosen: rows.iter().map(|r| prepared.plans.chosen[r.record.plan.index()][r.phase]).collect(),
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
