//! Converts the engine's record to tables and a summary. Every number that users see is derived here, once.

use crate::diagnosis::Doubts;
use crate::prepare::Prepared;
use crate::scenario::{Network, Order, Scenario, Workload};
use crate::several::Member;
use crate::unfold::{self, Row};
use crate::{contention, cost, diagnosis, jitter, loss, moments, overload, tiers, vocabulary, work_rates};
use syncline_critical_path::{watched, watched_by_path};
use syncline_engine::record::{CollectiveRecord, MAX_COLLECTIVES, RankRecord};
use syncline_engine::{Job, Record};
use syncline_fabric::parts::Way;
use syncline_net_api::{Contention, Measurements, Stall};
use syncline_timeline::{DimSummary, Ended, JobSummary, Packets, Summary, Table, Timeline};
use syncline_units::{LinkId, Time};
use syncline_workload::Part;

/// Picoseconds in a second.
pub(crate) const PS: f64 = 1e12;

/// A row of the table of links: where the link is, and what it did.
pub(crate) struct LinkRow {
    pub(crate) id: u32,
    /// Number of links that the row represents.
    pub(crate) links: u32,
    dim: usize,
    pub(crate) from: String,
    pub(crate) to: String,
    way: Way,
    pub(crate) bytes: u64,
    messages: u64,
    /// Time in which it was sending, as far as the network model knows.
    busy_s: f64,
    /// Whether `busy_s` counts all its messages.
    known: bool,
    waited_s: f64,
    pub(crate) rate: f64,
}

impl LinkRow {
    /// Its booked bytes, but at most what it can carry in `time` seconds. With `analytical`, messages do not wait for
    /// links inside the network, so such a link may be booked with more than it can carry.
    fn carried(&self, time: f64) -> f64 {
        (self.bytes as f64).min(self.rate * time) * f64::from(self.links)
    }

    /// Time that it needs to send its bytes.
    fn needs_s(&self) -> f64 {
        if self.rate > 0.0 { self.bytes as f64 / self.rate } else { 0.0 }
    }

    /// The share of a run of `total` seconds in which it was sending.
    fn busy(&self, total: f64) -> Option<f64> {
        self.known.then(|| share(self.busy_s, total))
    }
}

/// `time` as a share of a run of `total` seconds.
fn share(time: f64, total: f64) -> f64 {
    if total > 0.0 { time / total } else { 0.0 }
}

/// Derives the timeline: summary, tables and spans.
pub(crate) fn timeline(
    scenario: &Scenario,
    prepared: &Prepared,
    job: &Job<'_>,
    mut record: Record,
    network: &mut dyn Measurements,
) -> Timeline {
    record.spans.dims = prepared.dim_names();
    let links = link_rows(prepared, network);
    let finished = unfold::collectives(prepared, std::mem::take(&mut record.collectives));
    let contention = network.contention();
    let stalls = network.stalls();
    let observed = (network.packets(), &contention[..], &stalls[..]);
    let mut summary = summary(scenario, prepared, &record, &links, observed);
    // In a run that was cut off, `analytical` may have booked inner links for times after the end, so only look at runs
    // that finished.
    if let (Network::Analytical, Ended::Finished) = (&scenario.network, record.ended) {
        summary.overload = overload::found(prepared, &record, &links, network);
    }
    diagnosis::trace_ends(prepared, &mut record, job.max_spans);
    let mut tables = vec![
        layers(prepared, &record),
        collectives(prepared, &finished),
        phases(prepared, &finished),
        link_table(&links, summary.total_time_s, prepared),
        ranks(prepared, &record),
        moments::activity(prepared, &record, network),
        moments::critical_path(prepared, job, &record.path.segments),
    ];
    tables.extend(moments::tiers(prepared, &record, network));
    if matches!(scenario.network, Network::Flow(_)) {
        tables.push(contention::table(prepared, contention));
    }
    tables.extend(network.tables(record.finish));
    if matches!(scenario.network, Network::Packet(_)) {
        tables.push(loss::table(&stalls));
    }
    tables.extend(prepared.bill.as_ref().map(cost::table));
    Timeline { summary, tables, spans: record.spans }
}

fn link_rows(prepared: &Prepared, network: &dyn Measurements) -> Vec<LinkRow> {
    let fabric = &prepared.fabric;
    let (parts, dim_of) = (fabric.parts(), tiers::of_links(fabric));
    unfold::links(prepared)
        .into_iter()
        .map(|row| {
            let link = fabric.link(row.what);
            let used = network.link_use(row.what);
            let rate = link.rate.as_bytes_per_s();
            LinkRow {
                id: row.number,
                links: row.members,
                dim: dim_of(row.what),
                from: fabric.vertex_name(link.from),
                to: fabric.vertex_name(link.to),
                way: parts.way(link.from, link.to),
                bytes: used.bytes,
                messages: used.messages,
                busy_s: used.busy.as_s(),
                // `analytical` books no busy time on links in the middle of a path, because messages do not wait there.
                known: used.busy.as_s() * rate * (1.0 + 1e-9) + 1.0 >= used.bytes as f64,
                waited_s: used.waited.as_s(),
                rate,
            }
        })
        .collect()
}

fn dim_summaries(prepared: &Prepared, record: &Record, links: &[LinkRow]) -> Vec<DimSummary> {
    let total = record.finish.as_s();
    let names = prepared.dim_names();
    let count = tiers::count(&prepared.fabric).max(1);
    let ever = record.dims.iter().map(|dim| dim.active).max().unwrap_or_default();
    (0..count)
        .map(|dim| {
            let mine = || links.iter().filter(move |link| link.dim == dim);
            let bytes: u64 = mine().map(|link| link.bytes * u64::from(link.links)).sum();
            let capacity: f64 = mine().map(|link| link.rate * f64::from(link.links)).sum();
            let carried = |time: f64| -> f64 { mine().map(|link| link.carried(time)).sum() };
            let known = mine().all(|link| link.known);
            let load = |link: &LinkRow| if known { link.busy_s } else { link.needs_s() };
            let busiest = mine().fold(None, |best: Option<&LinkRow>, link| match best {
                Some(best) if load(best) >= load(link) => Some(best),
                _ => Some(link),
            });
            // A tier that holds no collective's slowest links has no active time of its own. Take the longest time of
            // any tier: collectives may pass these links whenever one is in progress.
            let active = match record.dims[dim].active {
                active if active.is_zero() && prepared.fabric.is_graph() => ever.as_s(),
                active => active.as_s(),
            };
            let share = |time: f64| {
                if time > 0.0 && capacity > 0.0 { carried(time) / (capacity * time) } else { 0.0 }
            };
            DimSummary {
                name: names[dim].clone(),
                carried_bytes: bytes,
                utilization: share(total),
                utilization_while_busy: share(active),
                busiest_link_busy: if known {
                    busiest.map_or(Some(0.0), |link| link.busy(total))
                } else {
                    None
                },
                busiest_link: busiest.map_or(String::new(), |link| format!("{} -> {}", link.from, link.to)),
            }
        })
        .collect()
}

fn summary(
    scenario: &Scenario,
    prepared: &Prepared,
    record: &Record,
    links: &[LinkRow],
    (packets, contention, stalls): (Option<Packets>, &[Contention], &[Stall]),
) -> Summary {
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
    let steps =
        if prepared.parts.is_empty() { record.iterations_done } else { record.iterations_done.min(1) };
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
        bottleneck: String::new(),
        reason: String::new(),
        network_model: scenario.network.name().to_owned(),
        compute_model: prepared.compute_label.clone(),
        jobs: jobs(prepared, record),
        calibrated: "no".to_owned(),
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
        reorders: scenario.collectives.order != Order::Fifo,
        windows: matches!(scenario.network, Network::Packet(_)),
    };
    diagnosis::diagnose(&mut summary, (&busy, doubts), prepared, record, stalls);
    if summary.dims.iter().any(|dim| dim.name == summary.bottleneck) {
        summary.reason.push_str(&contention::sentence(prepared, contention));
    }
    summary
}

/// Records in the summary the step time without faults, and what the faults cost.
pub(crate) fn compare(summary: &mut Summary, healthy: Option<f64>) {
    summary.healthy_step_time_s = healthy;
    summary.fault_cost_s = healthy.map(|healthy| summary.step_time_s - healthy);
}

/// The summary of each of several jobs.
fn jobs(prepared: &Prepared, record: &Record) -> Vec<JobSummary> {
    let summary = |part: &Member| {
        let share = &part.share;
        let ranks = &record.ranks[share.first_rank as usize..(share.first_rank + share.ranks) as usize];
        let mean = |of: fn(&RankRecord) -> u64| {
            let sum: u128 = ranks.iter().map(|rank| u128::from(of(rank))).sum();
            sum as f64 / PS / ranks.len().max(1) as f64
        };
        // In a run that was cut off, ranks have no finish time of their own.
        let last = match record.ended {
            Ended::Finished => ranks.iter().map(|rank| rank.finish).max().unwrap_or_default(),
            _ => record.finish,
        };
        let finish = last.max(part.start);
        let spent = finish.saturating_sub(part.start).as_s();
        let iterations = steps_of(part, record);
        let exposed = mean(|rank| rank.exposed_communication.0);
        JobSummary {
            name: share.name.clone(),
            ranks: u64::from(share.ranks),
            iterations: u64::from(iterations),
            start_s: part.start.as_s(),
            finish_s: finish.as_s(),
            step_time_s: spent / f64::from(iterations.max(1)),
            compute_s: mean(|rank| rank.compute.0),
            exposed_communication_s: exposed,
            exposed_fraction: if spent > 0.0 { exposed / spent } else { 0.0 },
            communication_s: mean(|rank| rank.communication.0),
            sent_bytes: ranks.iter().map(|rank| rank.sent).sum(),
            alone_step_time_s: None,
            slowdown: None,
            iterations_per_s_per_usd: None,
            iterations_per_s_per_w: None,
        }
    };
    prepared.parts.iter().map(summary).collect()
}

/// The name of the job that a rank belongs to; empty if the scenario has only one job.
fn job_of(prepared: &Prepared, rank: u32) -> String {
    let has = |part: &&Member| rank.wrapping_sub(part.share.first_rank) < part.share.ranks;
    prepared.parts.iter().find(has).map(|part| part.share.name.clone()).unwrap_or_default()
}

/// Training iterations that a job completed. In a run that was cut off, the number that all jobs completed.
fn steps_of(part: &Member, record: &Record) -> u32 {
    if record.ended == Ended::Finished { part.share.iterations } else { record.iterations_done }
}

/// Records how several jobs slow each other down. `alone` holds each job's step time without the others, if known.
pub(crate) fn interference(timeline: &mut Timeline, alone: &[Option<f64>]) {
    let jobs = &mut timeline.summary.jobs;
    for (job, &alone) in jobs.iter_mut().zip(alone) {
        job.alone_step_time_s = alone;
        job.slowdown = alone.filter(|&alone| alone > 0.0).map(|alone| job.step_time_s / alone);
    }
    let jobs = &timeline.summary.jobs;
    let float = |of: fn(&JobSummary) -> f64| jobs.iter().map(of).collect::<Vec<f64>>();
    let int = |of: fn(&JobSummary) -> u64| jobs.iter().map(|job| of(job) as i64).collect::<Vec<i64>>();
    let known = |of: fn(&JobSummary) -> Option<f64>| jobs.iter().map(of).collect::<Vec<Option<f64>>>();
    let table = Table::new("jobs", "One job of a scenario with several; times are means over its ranks")
        .with("job", "Name of the job", jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>())
        .with(
            "ranks",
            "Number of its ranks. Ranks are numbered job by job, in this order",
            int(|job| job.ranks),
        )
        .with("iterations", "Training iterations that its ranks completed", int(|job| job.iterations))
        .with("start_s", "When the job began", float(|job| job.start_s))
        .with("finish_s", "When its last rank finished", float(|job| job.finish_s))
        .with(
            "step_time_s",
            "Time from start to finish, divided by the number of iterations",
            float(|job| job.step_time_s),
        )
        .with("compute_s", "Time in which compute was busy", float(|job| job.compute_s))
        .with(
            "exposed_communication_s",
            "Time in which compute was idle only because it waited for communication",
            float(|job| job.exposed_communication_s),
        )
        .with(
            "communication_s",
            "Time in which at least one communication was in progress",
            float(|job| job.communication_s),
        )
        .with("sent_bytes", "Bytes that its ranks sent", int(|job| job.sent_bytes))
        .with(
            "alone_step_time_s",
            "Step time of the same job alone on the fabric; empty if a limit stopped that simulation",
            known(|job| job.alone_step_time_s),
        )
        .with("slowdown", "`step_time_s` divided by `alone_step_time_s`", known(|job| job.slowdown))
        .with(
            "iterations_per_s_per_usd",
            "Training iterations per second, divided by the price of the whole fabric; empty without prices",
            known(|job| job.iterations_per_s_per_usd),
        );
    timeline.tables.push(table);
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
            "the run was cut off before every rank completed an iteration: there is no step time, and numbers per step \
             cover all the time until then"
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
    if scenario.collectives.reduction_rate.is_none() {
        notes.push("local reduction costs no time (collectives.reduction_rate is not given)".to_owned());
    }
    notes
}

fn layers(prepared: &Prepared, record: &Record) -> Table {
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
    Table::new("layers", "A layer; times are means over ranks and iterations")
        .with("layer", "Name of the layer", (0..rows.len()).map(name).collect::<Vec<_>>())
        .with("forward_compute_s", "Compute of the forward pass", parts(|l| &l.compute, Part::Forward))
        .with(
            "input_grad_compute_s",
            "Compute of the gradient with respect to the input",
            parts(|l| &l.compute, Part::InputGrad),
        )
        .with(
            "weight_grad_compute_s",
            "Compute of the gradient with respect to the parameters",
            parts(|l| &l.compute, Part::WeightGrad),
        )
        .with("update_compute_s", "Compute of the parameter update", parts(|l| &l.compute, Part::Update))
        .with("compute_s", "All compute of the layer", sum(|l| &l.compute))
        .with(
            "forward_communication_s",
            "Raw time (from issue to result) of collectives after the forward pass",
            parts(|l| &l.communication, Part::Forward),
        )
        .with(
            "input_grad_communication_s",
            "Raw time of collectives of input gradients",
            parts(|l| &l.communication, Part::InputGrad),
        )
        .with(
            "weight_grad_communication_s",
            "Raw time of collectives of weight gradients",
            parts(|l| &l.communication, Part::WeightGrad),
        )
        .with(
            "communication_s",
            "Raw time of all collectives of the layer; may overlap compute and other layers",
            sum(|l| &l.communication),
        )
        .with(
            "exposed_communication_s",
            "Time in which compute was idle only because it waited for this layer's communication",
            rows.iter().map(|l| l.exposed).enumerate().map(per).collect::<Vec<_>>(),
        )
        .with(
            "collective_bytes",
            "Size of the layer's collectives, per rank and iteration",
            rows.iter()
                .zip(&means)
                .map(|(l, &(ranks, iterations))| (l.bytes / u128::from(ranks) / u128::from(iterations)) as i64)
                .collect::<Vec<i64>>(),
        )
        .with(
            "exposed_at_end_s",
            "Part of `exposed_communication_s` after a rank's last forward or backward compute. It occurs once per run, because no further iteration hides it",
            rows.iter().map(|l| l.exposed_at_end).enumerate().map(per).collect::<Vec<_>>(),
        )
}

fn collectives(prepared: &Prepared, finished: &[Row<CollectiveRecord>]) -> Table {
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
            syncline_units::CollectiveKind::Broadcast | syncline_units::CollectiveKind::Reduce => 1.0,
            _ => (n - 1.0) / n,
        }
    };
    Table::new("collectives", "One collective of one group, over all its ranks, in the order in which they finished")
        .with("layer", "Layer that it belongs to", text(&|r| workload.layers.get(r.layer as usize).cloned().unwrap_or_default()))
        .with("part", "Part of the layer", text(&|r| r.part.name().to_owned()))
        .with("iteration", "Training iteration, from 0", int(&|r| i64::from(r.iteration)))
        .with("kind", "Which collective it is, such as `all_reduce`", text(&|r| plan(r).kind.name().to_owned()))
        .with("group", "Role of its group, and the group's number within the role", text(&|r| format!("{}.{}", workload.roles[usize::from(r.role)].name, r.group)))
        .with("group_ranks", "Ranks that take part", int(&|r| i64::from(ranks(r))))
        .with("size_bytes", "Its size: the full vector (all-reduce, all-gather, broadcast, reduce) or one rank's input (reduce-scatter, all-to-all)", int(&|r| plan(r).bytes.0 as i64))
        .with("algorithm", "Algorithm and collective of each phase", text(&algorithm))
        .with("chunks", "Number of chunks into which its data is cut", int(&|r| plan(r).chunks.len() as i64))
        .with("issue_s", "When the first rank issued it", float(&|r| r.first_issue.as_s()))
        .with("last_issue_s", "When the last rank issued it", float(&|r| r.last_issue.as_s()))
        .with("finish_s", "When the last rank had its result", float(&|r| r.finish.as_s()))
        .with("duration_s", "From first issue to last result", float(&span))
        .with("mean_duration_s", "From issue to result, mean over ranks", float(&|r| r.duration_sum as f64 / PS / f64::from(ranks(r))))
        .with("ready_queue_delay_s", "Mean time of a chunk in the ready queue (P0 of astra2020 Fig. 12b)", float(&mean_wait))
        .with("algorithm_bytes_per_s", "Size over duration (`algbw` of nccl-tests)", float(&rate))
        .with("bus_bytes_per_s", "Algorithm bandwidth times the collective's factor, comparable with link rates (`busbw` of nccl-tests)", float(&|r| rate(r) * factor(r)))
        .with("bound_s", "Lower bound on the plan's time", float(&|r| plan(r).bound.as_s()))
        .with("groups", "Groups that this row represents; more than 1 only where one row for each would make the table too long", finished.iter().map(|r| i64::from(r.members)).collect::<Vec<i64>>())
        .with("job", "Job that it belongs to; empty if the scenario has only one", text(&|r| job_of(prepared, workload.roles[usize::from(r.role)].rank(r.group, 0))))
        .with("chosen", "Whether syncline chose the algorithm of at least one phase as the quickest; false if the scenario names them all", rows.iter().map(|r| prepared.plans.chosen[r.plan as usize].contains(&true)).collect::<Vec<bool>>())
}

fn phases(prepared: &Prepared, finished: &[Row<CollectiveRecord>]) -> Table {
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
    Table::new("phases", "One phase of one collective, over all its ranks and chunks")
        .with(
            "collective",
            "Row of `collectives.parquet`, from 0",
            rows.iter().map(|r| r.0 as i64).collect::<Vec<i64>>(),
        )
        .with(
            "layer",
            "Layer that it belongs to",
            rows.iter()
                .map(|r| workload.layers.get(r.2.layer as usize).cloned().unwrap_or_default())
                .collect::<Vec<_>>(),
        )
        .with(
            "phase",
            "Number of the phase, from 1 (P1 of astra2020 Fig. 12b)",
            rows.iter().map(|r| r.1 as i64 + 1).collect::<Vec<i64>>(),
        )
        .with(
            "dimension",
            "Dimension in which it runs; in a graph with several tiers of links, the tier of the slowest links that it uses",
            rows.iter().map(|r| names[usize::from(plan(r.2, r.1).dim)].clone()).collect::<Vec<_>>(),
        )
        .with(
            "kind",
            "Collective that the phase runs along its dimension",
            rows.iter().map(|r| plan(r.2, r.1).kind.name().to_owned()).collect::<Vec<_>>(),
        )
        .with(
            "algorithm",
            "Algorithm of the phase",
            rows.iter().map(|r| plan(r.2, r.1).algorithm.name().to_owned()).collect::<Vec<_>>(),
        )
        .with(
            "ranks",
            "Ranks along the dimension",
            rows.iter().map(|r| i64::from(plan(r.2, r.1).size)).collect::<Vec<i64>>(),
        )
        .with(
            "queue_delay_s",
            "Mean time of a chunk in the phase's scheduling queue",
            rows.iter().map(|r| mean(r.2.phases[r.1].queue_wait, r.2.phases[r.1].chunks)).collect::<Vec<_>>(),
        )
        .with(
            "network_delay_s",
            "Mean time of a message from send to arrival",
            rows.iter()
                .map(|r| mean(r.2.phases[r.1].network_delay, r.2.phases[r.1].messages))
                .collect::<Vec<_>>(),
        )
        .with(
            "reduction_s",
            "Mean time to combine a received message with local data",
            rows.iter()
                .map(|r| mean(r.2.phases[r.1].reduction, r.2.phases[r.1].messages))
                .collect::<Vec<_>>(),
        )
        .with(
            "messages",
            "Messages received",
            rows.iter().map(|r| r.2.phases[r.1].messages as i64).collect::<Vec<i64>>(),
        )
        .with(
            "message_bytes",
            "Bytes received",
            rows.iter().map(|r| r.2.phases[r.1].bytes as i64).collect::<Vec<i64>>(),
        )
        .with(
            "chosen",
            "Whether syncline chose the algorithm as the quickest; false if the scenario names it",
            rows.iter().map(|r| prepared.plans.chosen[r.2.plan as usize][r.1]).collect::<Vec<bool>>(),
        )
}

fn link_table(links: &[LinkRow], total: f64, prepared: &Prepared) -> Table {
    let names = prepared.dim_names();
    let parts = prepared.fabric.parts();
    Table::new("links", "A directed link of the fabric")
        .with("link", "Its number", links.iter().map(|l| i64::from(l.id)).collect::<Vec<i64>>())
        .with(
            "dimension",
            "Dimension that it belongs to; in a graph with several tiers of links, its tier",
            links.iter().map(|l| names[l.dim].clone()).collect::<Vec<_>>(),
        )
        .with("from", "Vertex that sends", links.iter().map(|l| l.from.clone()).collect::<Vec<_>>())
        .with("to", "Vertex that receives", links.iter().map(|l| l.to.clone()).collect::<Vec<_>>())
        .with("rate_bytes_per_s", "Payload rate", links.iter().map(|l| l.rate).collect::<Vec<_>>())
        .with("carried_bytes", "Bytes that passed it", links.iter().map(|l| l.bytes as i64).collect::<Vec<i64>>())
        .with("messages", "Messages that passed it", links.iter().map(|l| l.messages as i64).collect::<Vec<i64>>())
        .with("busy_s", "Time in which it was sending. With `analytical`, a message counts only on the first and the last link of its path", links.iter().map(|l| l.busy_s).collect::<Vec<_>>())
        .with(
            "utilization",
            "Fraction of the run in which it was sending; empty if `busy_s` does not count all its messages",
            links.iter().map(|l| l.busy(total)).collect::<Vec<_>>(),
        )
        .with(
            "waiting_s",
            "Time that messages waited for it, summed over messages",
            links.iter().map(|l| l.waited_s).collect::<Vec<_>>(),
        )
        .with(
            "links",
            "Links that this row represents; more than 1 only where one row for each would make the table too long",
            links.iter().map(|l| i64::from(l.links)).collect::<Vec<i64>>(),
        )
        .with(
            "tier",
            "Tier of links that it belongs to, such as `leaf-spine`; in a fabric of dimensions, its dimension",
            links.iter().map(|l| parts.tier(LinkId(l.id)).name.clone()).collect::<Vec<_>>(),
        )
        .with(
            "way",
            "`up` (away from NPUs) or `down`; empty between vertices of the same level",
            links.iter().map(|l| l.way.name().to_owned()).collect::<Vec<_>>(),
        )
}

fn ranks(prepared: &Prepared, record: &Record) -> Table {
    let unfolded = unfold::ranks(prepared, &record.ranks);
    let rows: Vec<&RankRecord> = unfolded.iter().map(|row| row.what).collect();
    Table::new("ranks", "A rank")
        .with("rank", "Its number", unfolded.iter().map(|r| i64::from(r.number)).collect::<Vec<i64>>())
        .with("finish_s", "When it finished", rows.iter().map(|r| r.finish.as_s()).collect::<Vec<_>>())
        .with(
            "compute_s",
            "Time in which compute was busy",
            rows.iter().map(|r| r.compute.as_s()).collect::<Vec<_>>(),
        )
        .with(
            "exposed_communication_s",
            "Time in which compute was idle only because it waited for the network",
            rows.iter().map(|r| r.exposed_communication.as_s()).collect::<Vec<_>>(),
        )
        .with(
            "exposed_memory_s",
            "Time in which compute was idle only because it waited for memory operations or the host",
            rows.iter().map(|r| r.exposed_memory.as_s()).collect::<Vec<_>>(),
        )
        .with(
            "communication_s",
            "Time in which at least one communication was in progress",
            rows.iter().map(|r| r.communication.as_s()).collect::<Vec<_>>(),
        )
        .with("sent_bytes", "Bytes sent", rows.iter().map(|r| r.sent as i64).collect::<Vec<i64>>())
        .with(
            "received_bytes",
            "Bytes received",
            rows.iter().map(|r| r.received as i64).collect::<Vec<i64>>(),
        )
        .with(
            "ranks",
            "Ranks that this row represents; more than 1 only where one row for each would make the table too long",
            unfolded.iter().map(|r| i64::from(r.members)).collect::<Vec<i64>>(),
        )
        .with(
            "exposed_at_end_s",
            "Part of `exposed_communication_s` after the rank's last forward or backward compute",
            rows.iter().map(|r| r.exposed_at_end.as_s()).collect::<Vec<_>>(),
        )
        .with(
            "bubble_s",
            "Time in which compute was idle because another rank had not yet sent a message that it waited for",
            rows.iter().map(|r| r.bubble.as_s()).collect::<Vec<_>>(),
        )
        .with(
            "skew_s",
            "Time in which compute was idle because another rank had not yet begun a collective that it waited for",
            rows.iter().map(|r| r.skew.as_s()).collect::<Vec<_>>(),
        )
}
