//! The summary of a run.

use crate::diagnosis::{Busy, Doubts};
use crate::jobs::jobs;
use crate::links::{LinkRow, PS, dim_summaries, share};
use crate::{calibration, contention, cost, diagnosis, loss, vocabulary, work_rates};
use syncline_critical_path::{watched, watched_by_path};
use syncline_engine::QueueOrder;
use syncline_engine::Record;
use syncline_engine::record::{MAX_COLLECTIVES, RankRecord};
use syncline_net_api::{Contention, Stall};
use syncline_prepare::{Prepared, jitter};
use syncline_scenario::{NetworkSettings, Scenario, Workload};
use syncline_timeline::{Bottleneck, Ended, Packets, Summary};
use syncline_units::Time;

/// What the network model has observed in a run.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    /// Counts of packets, if the model has packets.
    pub packets: Option<Packets>,
    /// Which links delayed which messages.
    pub contention: &'a [Contention],
    /// The longest stalls.
    pub stalls: &'a [Stall],
}

/// Derives the summary.
pub(crate) fn summary(
    scenario: &Scenario,
    prepared: &Prepared,
    record: &Record,
    links: &[LinkRow],
    observed: Observed<'_>,
) -> Summary {
    let Observed { packets, contention, stalls } = observed;
    // Sum whole numbers, so that the result does not depend on the order of the ranks or on how they are grouped.
    let mean = |of: fn(&RankRecord) -> u64| {
        let sum: u128 = record.ranks.iter().map(|rank| u128::from(of(rank))).sum();
        (sum * u128::from(prepared.symmetry.members())) as f64
            / PS
            / f64::from(prepared.workload.ranks.max(1))
    };
    let total = record.finish.as_s();
    let of_several = prepared.step.map(|step| u64::from(step.micro_batches)).filter(|&number| number > 1);
    // One iteration of the engine is one micro-batch, or a whole step of a pipeline.
    let of_engine = of_several.unwrap_or(1) / u64::from(prepared.workload.micro_batches());
    // With several jobs, each job has its own count of steps.
    let steps = if prepared.jobs.is_empty() { record.iterations_done } else { record.iterations_done.min(1) };
    let exposed = mean(|rank| rank.exposed_communication.0);
    let dims = dim_summaries(prepared, record, links);
    let stalled = loss::Cost::of(stalls, &[(Time::ZERO, record.finish)]);
    let packets = packets.map(|packets| Packets { stalled_s: stalled.all().as_s(), ..packets });
    let mut summary = Summary {
        ended: record.ended,
        ranks: u64::from(prepared.workload.ranks),
        simulated_ranks: record.ranks.len() as u64,
        npus: u64::from(prepared.fabric.npus()),
        parallelism: parallelism(prepared),
        iterations: u64::from(steps),
        simulated_iterations: u64::from(steps - record.iterations_repeated),
        micro_batches: of_several,
        simulated_micro_batches: of_several
            .map(|_| of_engine * u64::from(record.micro_batches_done - record.micro_batches_repeated)),
        total_time_s: total,
        step_time_s: total / f64::from(steps.max(1)),
        compute_s: mean(|rank| rank.compute.0),
        exposed_communication_s: exposed,
        exposed_memory_s: mean(|rank| rank.exposed_memory.0),
        exposed_fraction: if total > 0.0 { exposed / total } else { 0.0 },
        communication_s: mean(|rank| rank.communication.0),
        faults: prepared.faults.descriptions.clone(),
        healthy_step_time_s: None,
        fault_cost_s: None,
        messages: record.messages,
        bytes: record.sent,
        events: record.events,
        dims,
        packets,
        bottleneck: Bottleneck::Nothing,
        reason: String::new(),
        network_model: scenario.network.name().to_owned(),
        compute_model: prepared.compute_label.clone(),
        jobs: jobs(prepared, record),
        calibrated: calibration::calibrated(scenario, prepared),
        notes: notes(scenario, prepared, record),
        ..Summary::default()
    };
    if let Some(step) = prepared.step.filter(|_| record.iterations_done > 0) {
        summary.work = work_rates::rates(&prepared.workload, &prepared.compute, &step, summary.step_time_s);
    }
    cost::value(&mut summary, prepared);
    diagnosis::waits(&mut summary, scenario, prepared, record);
    let longest =
        |dim| links.iter().filter(|link| link.dim == dim).map(|link| link.busy_s).fold(0.0, f64::max);
    let busy: Vec<f64> = (0..summary.dims.len()).map(|dim| share(longest(dim), total)).collect();
    let doubts = Doubts {
        reorders: scenario.collectives.order != QueueOrder::Fifo,
        windows: matches!(scenario.network, NetworkSettings::Packet(_)),
    };
    diagnosis::diagnose(&mut summary, Busy { tiers: &busy, doubts }, prepared, record, stalls);
    if matches!(summary.bottleneck, Bottleneck::Links { .. }) {
        summary.reason.push_str(&contention::sentence(prepared, contention));
    }
    summary
}

/// Records in the summary the step time without faults, and what the faults cost.
pub fn compare(summary: &mut Summary, healthy: Option<f64>) {
    summary.healthy_step_time_s = healthy;
    summary.fault_cost_s = healthy.map(|healthy| summary.step_time_s - healthy);
}

/// The sizes of the mesh's axes, such as `tensor 4 x data 8`; empty for jobs without layers.
fn parallelism(prepared: &Prepared) -> String {
    let axes = prepared.workload.axes.iter().map(|(name, size)| format!("{name} {size}"));
    axes.collect::<Vec<_>>().join(" x ")
}

fn notes(scenario: &Scenario, prepared: &Prepared, record: &Record) -> Vec<String> {
    let mut notes = match &scenario.workload {
        Workload::Layers { notes, .. } => notes.clone(),
        _ => Vec::new(),
    };
    if record.ended != Ended::Finished && record.iterations_done == 0 {
        notes.push(
            "the run was cut off before every rank completed an iteration: the step time is not known, and numbers per \
             step cover all the time until then"
                .to_owned(),
        );
    } else if record.ended != Ended::Finished {
        notes.push(format!(
            "the run was cut off when every rank had completed {} of {} iterations: numbers per step are the time \
             until then divided by the completed iterations",
            record.iterations_done, prepared.workload.iterations
        ));
    }
    notes.extend(jitter::note(scenario));
    notes.extend(vocabulary::padded(scenario, prepared));
    if record.collectives_left_out > 0 {
        notes.push(format!(
            "the tables of collectives and phases hold only the first {MAX_COLLECTIVES} collectives; all other numbers \
             include the other {} too",
            record.collectives_left_out
        ));
    }
    let micro_batches = prepared.workload.micro_batches();
    let watched = watched(micro_batches);
    if watched < micro_batches {
        notes.push(format!(
            "the table of activity covers only the first {watched} of {micro_batches} micro-batches, which do not \
             reduce gradients"
        ));
    }
    if watched_by_path(micro_batches) < 2 * micro_batches && prepared.workload.iterations > 1 {
        notes.push(format!(
            "the critical path covers only the first iteration, which has {micro_batches} micro-batches"
        ));
    }
    if record.too_many_to_repeat {
        notes.push(
            "every iteration was simulated, because a group has more than about a million collectives; for a shorter \
             run, simulate fewer iterations: the step time is the same"
                .to_owned(),
        );
    }
    // The times of a calibrated NCCL include reductions.
    if scenario.collectives.reduction_rate.is_none() && scenario.collectives.nccl.is_none() {
        notes.push("local reduction costs no time (collectives.reduction_rate is not given)".to_owned());
    }
    notes
}
