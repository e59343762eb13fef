//! Expands classes to ranks, groups and links: repeats what was simulated once for all that it represents.
//!
//! Every rank, group and link gets its own row, as if it had been simulated, if the table then has at most [`LISTED`]
//! rows. Otherwise each row represents a class.

use std::collections::BTreeMap;
use syncline_engine::record::{CollectiveRecord, RankRecord};
use syncline_prepare::Prepared;
use syncline_units::{LinkId, NpuId};
use syncline_workload::RoleId;

/// A table is expanded to at most this many rows.
const LISTED: usize = 1 << 16;

/// A row of a table, and how many ranks, groups or links it represents.
pub(crate) struct Row<T> {
    pub number: u32,
    pub members: u32,
    pub what: T,
}

/// The ranks.
pub(crate) fn ranks<'a>(prepared: &Prepared, records: &'a [RankRecord]) -> Vec<Row<&'a RankRecord>> {
    let symmetry = &prepared.symmetry;
    let all = prepared.workload.ranks;
    if symmetry.is_none() || all as usize <= LISTED {
        let of = |rank| &records[symmetry.class(NpuId(rank)) as usize];
        return (0..all).map(|number| Row { number, members: 1, what: of(number) }).collect();
    }
    let classes = records.iter().zip(0..);
    let row =
        |(what, class)| Row { number: symmetry.representative(class).0, members: symmetry.members(), what };
    classes.map(row).collect()
}

/// The links, by number.
pub(crate) fn links(prepared: &Prepared) -> Vec<Row<LinkId>> {
    let (symmetry, all) = (&prepared.symmetry, prepared.fabric.links());
    if all as usize <= LISTED {
        return (0..all).map(|number| Row { number, members: 1, what: LinkId(number) }).collect();
    }
    let row = |what: LinkId| Row { number: what.0, members: symmetry.links_of(symmetry.port(what)), what };
    symmetry.links().map(row).collect()
}

/// The collectives, in the order in which they finished.
pub(crate) fn collectives(prepared: &Prepared, records: Vec<CollectiveRecord>) -> Vec<Row<CollectiveRecord>> {
    let symmetry = &prepared.symmetry;
    let roles = &prepared.workload.roles;
    // The groups that each simulated group of each role represents.
    let mut stands_for: BTreeMap<(RoleId, u32), Vec<u32>> = BTreeMap::new();
    if !symmetry.is_none() {
        for (id, role) in (0..).map(RoleId).zip(roles) {
            for group in 0..role.groups() {
                let first = symmetry.representative(symmetry.class(NpuId(role.rank(group, 0))));
                if let Some(at) = role.position_of(first.0) {
                    stands_for.entry((id, at.group)).or_default().push(group);
                }
            }
        }
    }
    let groups = |record: &CollectiveRecord| stands_for.get(&(record.role, record.group));
    let unfolded: usize = records.iter().map(|record| groups(record).map_or(1, Vec::len)).sum();
    let mut rows = Vec::new();
    for record in records {
        match groups(&record) {
            Some(groups) if unfolded <= LISTED => rows.extend(groups.iter().map(|&group| Row {
                number: group,
                members: 1,
                what: CollectiveRecord { group, ..record.clone() },
            })),
            groups => rows.push(Row {
                number: record.group,
                members: groups.map_or(1, |groups| groups.len() as u32),
                what: record,
            }),
        }
    }
    let micro_batches = prepared.workload.micro_batches();
    rows.sort_by_key(|Row { what, .. }| {
        let iteration = what.micro_batch / micro_batches;
        (what.finish, what.first_issue, iteration, what.role, what.layer, what.part, what.group)
    });
    rows
}
