//! What is told of a run beside its answer: every port, and every connection.

use crate::Packets;
use syncline_timeline::Table;
use syncline_units::{LinkId, Time};

/// Most rows of a table; those in which least was lost are left out first.
const ROWS: usize = 1 << 20;

/// The ports that sent something.
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
        .with("dropped", "Packets that found no room", whole(&|link| simulation.count(link).drops))
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
}

/// The connections.
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
    Table::new("flows", "A connection, one direction of it, with `packet`")
        .with("from", "NPU that sends", whole(&|row| u64::from(rows[row].0.0)))
        .with("to", "NPU that receives", whole(&|row| u64::from(rows[row].0.1)))
        .with("lane", "Which of several ways it takes", whole(&|row| u64::from(rows[row].0.2)))
        .with("bytes", "Payload written to it", whole(&|row| simulation.written(rows[row].1)))
        .with("retransmissions", "Segments sent again", whole(&|row| rows[row].2.0.retransmissions))
        .with("timeouts", "Retransmission time-outs", whole(&|row| rows[row].2.0.timeouts))
        .with("recoveries", "Fast recoveries", whole(&|row| rows[row].2.0.recoveries))
        .with(
            "rtt_s",
            "Mean of its round-trip times, sampled every millisecond of simulated time; 0 where none was taken",
            rows.iter().map(|(.., (_, trips))| trips.mean_s().unwrap_or(0.0)).collect::<Vec<f64>>(),
        )
}
