//! Result tables of a run: every port, every connection, and queues over time.

use crate::flow::ConnectionKey;
use crate::meter::Sample;
use crate::simulation::Simulation;
use syncline_fabric::Fabric;
use syncline_net_api::{Table, tables};
use syncline_units::{LinkId, Time};

/// Maximum number of rows of a table; rows with the smallest losses are left out first.
const ROWS: usize = 1 << 20;

/// Returns the table of the ports that sent something.
pub(crate) fn ports(fabric: &Fabric, simulation: &Simulation, finish: Time) -> Table {
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
    Table::from(tables::Ports {
        link: whole(&u64::from),
        from: ends().map(|link| fabric.vertex_name(link.from)).collect(),
        to: ends().map(|link| fabric.vertex_name(link.to)).collect(),
        packets: whole(&|link| simulation.count(link).packets),
        dropped: whole(&|link| simulation.count(link).drops),
        marked: whole(&|link| simulation.count(link).marks),
        mean_queue_bytes: used.iter().map(|(_, count)| mean(count.queued)).collect(),
        longest_queue_bytes: whole(&|link| simulation.longest_queue(link)),
        pauses: whole(&|link| simulation.count(link).pauses),
        paused_s: used.iter().map(|(_, count)| count.paused as f64 / 1e12).collect(),
        limit_bytes: used.iter().map(|&(link, _)| simulation.limit(link).map(|bytes| bytes as f64)).collect(),
    })
}

/// Returns the table of switch queues and losses over time: the run in slices, by dimension.
pub(crate) fn queues(fabric: &Fabric, simulation: &Simulation, finish: Time) -> Table {
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
    Table::from(tables::Queues {
        dimension: rows.iter().map(|row| row.0.clone()).collect(),
        start_s: rows.iter().map(|row| row.1.as_s()).collect(),
        end_s: rows.iter().map(|row| row.2.as_s()).collect(),
        mean_queue_bytes: rows.iter().map(mean).collect(),
        longest_queue_bytes: whole(|sample| sample.longest),
        dropped: whole(|sample| sample.drops),
        marked: whole(|sample| sample.marks),
        retransmissions: whole(|sample| sample.retransmissions),
        timeouts: whole(|sample| sample.timeouts),
        pauses: whole(|sample| sample.pauses),
    })
}

/// Returns the table of connections.
pub(crate) fn flows(
    fabric: &Fabric,
    simulation: &Simulation,
    connections: impl Iterator<Item = (ConnectionKey, u32)>,
) -> Table {
    let flows: Vec<_> = simulation.flows().collect();
    let mut rows: Vec<_> = connections.map(|(key, flow)| (key, flow, flows[flow as usize])).collect();
    if rows.len() > ROWS {
        rows.sort_by_key(|&(key, _, (repairs, _))| (std::cmp::Reverse(repairs.retransmissions), key));
        rows.truncate(ROWS);
        rows.sort_by_key(|&(key, ..)| key);
    }
    let whole = |of: &dyn Fn(usize) -> u64| (0..rows.len()).map(|row| of(row) as i64).collect::<Vec<i64>>();
    let named = |of: &dyn Fn(ConnectionKey) -> u32| {
        rows.iter().map(|row| fabric.vertex_name(of(row.0))).collect::<Vec<String>>()
    };
    let dim = |flow: u32| fabric.dims().get(usize::from(simulation.set(flow)));
    let dimension = |flow: u32| dim(flow).map_or("network", |dim| dim.name.as_str()).to_owned();
    Table::from(tables::Flows {
        from: named(&|key| key.from),
        to: named(&|key| key.to),
        lane: whole(&|row| u64::from(rows[row].0.lane)),
        bytes: whole(&|row| simulation.written(rows[row].1)),
        dropped: whole(&|row| simulation.met(rows[row].1).0),
        marked: whole(&|row| simulation.met(rows[row].1).1),
        retransmissions: whole(&|row| rows[row].2.0.retransmissions),
        timeouts: whole(&|row| rows[row].2.0.timeouts),
        recoveries: whole(&|row| rows[row].2.0.recoveries),
        rtt_s: rows.iter().map(|(.., (_, trips))| trips.mean_s().unwrap_or(0.0)).collect(),
        paths: whole(&|row| u64::from(simulation.paths(rows[row].1))),
        dimension: rows.iter().map(|&(_, flow, _)| dimension(flow)).collect(),
        job: whole(&|row| u64::from(rows[row].0.job)),
    })
}
