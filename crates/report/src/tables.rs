//! Tables of layers, collectives, phases and ranks.

use crate::jobs::{job_of, steps_of};
use crate::links::PS;
use crate::unfold::{self, Row};
use syncline_engine::Record;
use syncline_engine::record::{CollectiveRecord, RankRecord};
use syncline_prepare::Prepared;
use syncline_prepare::several::Member;
use syncline_timeline::Table;
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

/// The table `ranks`.
pub(crate) fn ranks(prepared: &Prepared, record: &Record) -> Table {
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
