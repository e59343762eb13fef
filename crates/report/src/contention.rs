//! Which links delayed which messages.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use syncline_net_api::{Contention, Owner};
use syncline_prepare::{Prepared, tiers};
use syncline_timeline::{Table, tables};
use syncline_units::LinkId;

/// Largest number of rows of the table. If there are more, the rows with the least waiting are left out.
const ROWS: usize = 1 << 20;
/// Largest number of owners that the sentence names.
const NAMED: usize = 3;

/// The names of the two ends of a link.
fn ends(prepared: &Prepared, link: LinkId) -> (String, String) {
    let built = prepared.fabric.link(link);
    (prepared.fabric.vertex_name(built.from), prepared.fabric.vertex_name(built.to))
}

/// The name of the owner's layer; empty if it has none.
fn layer(prepared: &Prepared, owner: Owner) -> String {
    owner.layer.map_or_else(String::new, |layer| prepared.workload.layers[layer as usize].clone())
}

/// The kind of collective that a message belongs to, or `point_to_point`.
fn kind(owner: Owner) -> &'static str {
    owner.kind.map_or("point_to_point", |kind| kind.name())
}

/// The table of links that delayed messages, with a row for each layer and kind of message.
pub(crate) fn table(prepared: &Prepared, mut found: Vec<Contention>) -> Table {
    if found.len() > ROWS {
        found.sort_by_key(|row| (Reverse(row.delay), row.link, row.owner));
        found.truncate(ROWS);
    }
    found.sort_by_key(|row| (row.link, row.owner));
    let names = prepared.dim_names();
    let dim_of = tiers::of_links(&prepared.fabric);
    let links: Vec<_> = found.iter().map(|row| ends(prepared, row.link)).collect();
    let symmetry = &prepared.symmetry;
    let alike: Vec<i64> =
        found.iter().map(|row| i64::from(symmetry.links_of(symmetry.port(row.link)))).collect();
    Table::from(tables::Contention {
        link: found.iter().map(|row| i64::from(row.link.0)).collect(),
        links: alike,
        dimension: found.iter().map(|row| names[dim_of(row.link)].clone()).collect(),
        from: links.iter().map(|link| link.0.clone()).collect(),
        to: links.iter().map(|link| link.1.clone()).collect(),
        layer: found.iter().map(|row| layer(prepared, row.owner)).collect(),
        kind: found.iter().map(|row| kind(row.owner).to_owned()).collect(),
        messages: found.iter().map(|row| row.messages as i64).collect(),
        sent_bytes: found.iter().map(|row| row.bytes as i64).collect(),
        waiting_s: found.iter().map(|row| row.delay.as_s()).collect(),
    })
}

/// Which link messages waited for most, and which messages that were: a sentence with a space before it, or nothing.
pub(crate) fn sentence(prepared: &Prepared, found: &[Contention]) -> String {
    let mut of_links: BTreeMap<LinkId, u64> = BTreeMap::new();
    for row in found {
        let sum = of_links.entry(row.link).or_default();
        *sum = sum.saturating_add(row.delay.0);
    }
    let worst = of_links.iter().max_by_key(|&(&link, &delay)| (delay, Reverse(link)));
    let Some((&link, &all)) = worst.filter(|&(_, &delay)| delay > 0) else { return String::new() };
    let mut owners: Vec<&Contention> =
        found.iter().filter(|row| row.link == link && !row.delay.is_zero()).collect();
    owners.sort_by_key(|row| (Reverse(row.delay), row.owner));
    let share = |delay: u64| format!("{:.0} %", delay as f64 / all as f64 * 100.0);
    let mut named: Vec<String> = owners
        .iter()
        .take(NAMED)
        .map(|row| {
            let name = match layer(prepared, row.owner) {
                name if name.is_empty() => kind(row.owner).to_owned(),
                name => format!("{name} ({})", kind(row.owner)),
            };
            format!("{name} {}", share(row.delay.0))
        })
        .collect();
    if owners.len() > NAMED {
        named.push(format!("{} others", owners.len() - NAMED));
    }
    let (from, to) = ends(prepared, link);
    format!(" Messages waited for each other most at {from} -> {to}: {}.", named.join(", "))
}
