//! Puts the parts of a timeline together.

use crate::links::{link_rows, link_table};
use crate::summary::{Observed, summary};
use crate::tables::{collectives, layers, phases, ranks};
use crate::unfold;
use crate::{contention, cost, diagnosis, loss, moments, overload};
use syncline_engine::{Job, Record};
use syncline_net_api::Measurements;
use syncline_prepare::Prepared;
use syncline_scenario::{NetworkSettings, Scenario};
use syncline_timeline::{Ended, Timeline};

/// Derives the timeline: summary, tables and spans.
pub fn timeline(
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
    let observed = Observed { packets: network.packets(), contention: &contention, stalls: &stalls };
    let mut summary = summary(scenario, prepared, &record, &links, observed);
    // In a run that was cut off, `analytical` may have booked inner links for times after the end, so only look at runs
    // that finished.
    if let (NetworkSettings::Analytical, Ended::Finished) = (&scenario.network, record.ended) {
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
    if matches!(scenario.network, NetworkSettings::Flow(_)) {
        tables.push(contention::table(prepared, contention));
    }
    tables.extend(network.tables(record.finish));
    if matches!(scenario.network, NetworkSettings::Packet(_)) {
        tables.push(loss::table(&stalls));
    }
    tables.extend(prepared.bill.as_ref().map(cost::table));
    Timeline { summary, tables, spans: record.spans }
}
