//! Result tables of a run: every port, every connection, and queues over time.

use crate::Packets;
use crate::meter::Sample;
use syncline_timeline::Table;
use syncline_units::{LinkId, Time};

/// Most rows of a table; rows with the smallest losses are left out first.
const ROWS: usize = 1 << 20;

/// Returns the table of the ports that sent something.
pub(crate) fn ports(network: &Packets<'_>, finish: Time) -> Table {
    let (fabric, simulation) = (network.fabric(), network.simulation());
    let used =
        (0..fabric.links()).map(|link| (link, simulation.count(link))).filter(|(_, count)| count.packets > 0);
    let mut used: Vec<_> = used.collect();
    if used.len() > ROWS {
        used.sort_by_key(|&(link, count)| (std::cmp::Reverse(count.drops), link));
        used.truncate(ROWS);
        used.sort_by_key(|&(link, _)| link);
    }
    let ends = || used.iter().map(|&(link, _)| fabric.link(LinkId(link)));
    let whole = |of: &dyn Fn(u32) -> u64| used.iter().map(|&(link, _)| of(link) as i64).collect::<Vec<i64>>();
    let mean = |queued: u128| if finish.is_zero() { 0.0 } else { queued as f64 / finish.0 as f64 };
    Table::new("ports", "A port that sent packets: the queue in front of a link, with `packet`")
        .with("link", "Number of the link", whole(&u64::from))
        .with(
            "from",
            "Where the queue is",
            ends().map(|link| fabric.vertex_name(link.from)).collect::<Vec<String>>(),
        )
        .with(
            "to",
            "Where its link leads",
            ends().map(|link| fabric.vertex_name(link.to)).collect::<Vec<String>>(),
        )
        .with("packets", "Packets sent", whole(&|link| simulation.count(link).packets))
        .with("dropped", "Packets that found no room or were dropped early", whole(&|link| simulation.count(link).drops))
        .with("marked", "Packets that it marked (ECN)", whole(&|link| simulation.count(link).marks))
        .with(
            "mean_queue_bytes",
            "Mean queue over the run",
            used.iter().map(|(_, count)| mean(count.queued)).collect::<Vec<f64>>(),
        )
        .with(
            "longest_queue_bytes",
            "Longest queue that a packet met",
            whole(&|link| simulation.longest_queue(link)),
        )
        .with(
            "pauses",
            "How often it was paused (priority flow control)",
            whole(&|link| simulation.count(link).pauses),
        )
        .with(
            "paused_s",
            "Time that it was paused",
            used.iter().map(|(_, count)| count.paused as f64 / 1e12).collect::<Vec<f64>>(),
        )
        .with(
            "limit_bytes",
            "Longest queue that it may have; none if the ports of its switch share the buffer, or if it is unlimited",
            used.iter()
                .map(|&(link, _)| simulation.limit(link).map(|bytes| bytes as f64))
                .collect::<Vec<Option<f64>>>(),
        )
}

/// Returns the table of switch queues and losses over time: the run in slices, by dimension.
pub(crate) fn queues(network: &Packets<'_>, finish: Time) -> Table {
    let (fabric, simulation) = (network.fabric(), network.simulation());
    let mut ports = vec![0u32; fabric.dims().len().max(1)];
    for link in (0..fabric.links()).map(LinkId) {
        let built = fabric.link(link);
        ports[usize::from(built.dim)] +=
            u32::from(built.from >= fabric.npus() && simulation.count(link.0).packets > 0);
    }
    let (meter, mut rows) = (simulation.meter(), Vec::new());
    for (dim, &ports) in ports.iter().enumerate() {
        let name = fabric.dims().get(dim).map_or("network", |dim| dim.name.as_str());
        for (slice, sample) in (0u64..).zip(meter.samples(dim)) {
            let start = Time(slice * meter.slice());
            let end = Time(start.0 + meter.slice()).min(finish);
            if start < finish {
                rows.push((name.to_owned(), start, end, ports, *sample));
            }
        }
    }
    let whole = |of: fn(&Sample) -> u64| rows.iter().map(|row| of(&row.4) as i64).collect::<Vec<i64>>();
    let mean = |(_, start, end, ports, sample): &(String, Time, Time, u32, Sample)| {
        let area = (end.0 - start.0) as f64 * f64::from(*ports);
        if area > 0.0 { sample.queued as f64 / area } else { 0.0 }
    };
    Table::new("queues", "The switches of a dimension during a slice of time, with `packet`")
        .with(
            "dimension",
            "Name of the dimension",
            rows.iter().map(|row| row.0.clone()).collect::<Vec<String>>(),
        )
        .with("start_s", "Start of the slice", rows.iter().map(|row| row.1.as_s()).collect::<Vec<f64>>())
        .with("end_s", "End of the slice", rows.iter().map(|row| row.2.as_s()).collect::<Vec<f64>>())
        .with(
            "mean_queue_bytes",
            "Mean queue of a port, from how long this slice's packets waited",
            rows.iter().map(mean).collect::<Vec<f64>>(),
        )
        .with("longest_queue_bytes", "Longest queue that a packet met", whole(|sample| sample.longest))
        .with("dropped", "Packets that found no room or were dropped early", whole(|sample| sample.drops))
        .with("marked", "Packets that were marked (ECN)", whole(|sample| sample.marks))
        .with("retransmissions", "Segments sent again", whole(|sample| sample.retransmissions))
        .with("timeouts", "Retransmission time-outs", whole(|sample| sample.timeouts))
        .with("pauses", "How often a port was paused", whole(|sample| sample.pauses))
}

/// Returns the table of connections.
pub(crate) fn flows(network: &Packets<'_>) -> Table {
    let simulation = network.simulation();
    let told: Vec<_> = simulation.flows().collect();
    let mut rows: Vec<_> = network.flows().map(|(pair, flow)| (pair, flow, told[flow as usize])).collect();
    if rows.len() > ROWS {
        rows.sort_by_key(|&(pair, _, (repairs, _))| (std::cmp::Reverse(repairs.retransmissions), pair));
        rows.truncate(ROWS);
        rows.sort_by_key(|&(pair, ..)| pair);
    }
    let whole = |of: &dyn Fn(usize) -> u64| (0..rows.len()).map(|row| of(row) as i64).collect::<Vec<i64>>();
    let fabric = network.fabric();
    let named = |of: &dyn Fn((u32, u32, u32, u32)) -> u32| {
        rows.iter().map(|row| fabric.vertex_name(of(row.0))).collect::<Vec<String>>()
    };
    let dim = |flow: u32| fabric.dims().get(usize::from(simulation.set(flow)));
    let dimension = |flow: u32| dim(flow).map_or("network", |dim| dim.name.as_str()).to_owned();
    Table::new("flows", "One direction of a connection, with `packet`")
        .with("from", "NPU that sends", named(&|(from, ..)| from))
        .with("to", "NPU that receives", named(&|(_, to, ..)| to))
        .with("lane", "Which of several paths it takes", whole(&|row| u64::from(rows[row].0.2)))
        .with("bytes", "Payload written to it", whole(&|row| simulation.written(rows[row].1)))
        .with(
            "dropped",
            "Its packets that were dropped, acknowledgements included",
            whole(&|row| simulation.met(rows[row].1).0),
        )
        .with("marked", "Packets that arrived marked (ECN)", whole(&|row| simulation.met(rows[row].1).1))
        .with("retransmissions", "Segments sent again", whole(&|row| rows[row].2.0.retransmissions))
        .with("timeouts", "Retransmission time-outs", whole(&|row| rows[row].2.0.timeouts))
        .with("recoveries", "Fast recoveries", whole(&|row| rows[row].2.0.recoveries))
        .with(
            "rtt_s",
            "Mean of its round-trip times, sampled every millisecond of simulated time; 0 without a sample",
            rows.iter().map(|(.., (_, trips))| trips.mean_s().unwrap_or(0.0)).collect::<Vec<f64>>(),
        )
        .with(
            "paths",
            "Paths that its packets take in turn (packet spraying)",
            whole(&|row| u64::from(simulation.ways(rows[row].1))),
        )
        .with(
            "dimension",
            "Highest dimension on its path, whose transport it uses",
            rows.iter().map(|&(_, flow, _)| dimension(flow)).collect::<Vec<String>>(),
        )
        .with(
            "job",
            "Number of the job that it belongs to, if several jobs share the fabric; else 0",
            whole(&|row| u64::from(rows[row].0.3)),
        )
}
