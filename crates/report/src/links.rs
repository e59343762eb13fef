//! Links and dimensions: how much they carried.

use crate::unfold;
use syncline_engine::Record;
use syncline_fabric::parts::LinkDirection;
use syncline_net_api::Measurements;
use syncline_prepare::{Prepared, tiers};
use syncline_timeline::{DimSummary, Table, tables};
use syncline_units::LinkId;

/// Picoseconds in a second.
pub(crate) const PS: f64 = 1e12;

/// A row of the table of links: where the link is, and what it did.
pub(crate) struct LinkRow {
    pub(crate) id: u32,
    /// Number of links that the row represents.
    pub(crate) links: u32,
    pub(crate) dim: usize,
    pub(crate) from: String,
    pub(crate) to: String,
    direction: LinkDirection,
    pub(crate) bytes: u64,
    messages: u64,
    /// Time in which it was sending, as far as the network model knows.
    pub(crate) busy_s: f64,
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
pub(crate) fn share(time: f64, total: f64) -> f64 {
    if total > 0.0 { time / total } else { 0.0 }
}

/// Rows of the table of links.
pub(crate) fn link_rows(prepared: &Prepared, network: &dyn Measurements) -> Vec<LinkRow> {
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
                direction: parts.direction(link.from, link.to),
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

/// The summary of each dimension or tier.
pub(crate) fn dim_summaries(prepared: &Prepared, record: &Record, links: &[LinkRow]) -> Vec<DimSummary> {
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

/// The table `links`.
pub(crate) fn link_table(links: &[LinkRow], total: f64, prepared: &Prepared) -> Table {
    let names = prepared.dim_names();
    let parts = prepared.fabric.parts();
    Table::from(tables::Links {
        link: links.iter().map(|l| i64::from(l.id)).collect(),
        dimension: links.iter().map(|l| names[l.dim].clone()).collect(),
        from: links.iter().map(|l| l.from.clone()).collect(),
        to: links.iter().map(|l| l.to.clone()).collect(),
        rate_bytes_per_s: links.iter().map(|l| l.rate).collect(),
        carried_bytes: links.iter().map(|l| l.bytes as i64).collect(),
        messages: links.iter().map(|l| l.messages as i64).collect(),
        busy_s: links.iter().map(|l| l.busy_s).collect(),
        utilization: links.iter().map(|l| l.busy(total)).collect(),
        waiting_s: links.iter().map(|l| l.waited_s).collect(),
        links: links.iter().map(|l| i64::from(l.links)).collect(),
        tier: links.iter().map(|l| parts.tier(LinkId(l.id)).name.clone()).collect(),
        way: links.iter().map(|l| l.direction.name().to_owned()).collect(),
    })
}
