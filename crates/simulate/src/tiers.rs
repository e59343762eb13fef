//! What communication is booked by: the dimensions of a regular fabric, or the tiers of a graph that has several.

use std::borrow::Cow;
use syncline_fabric::Fabric;
use syncline_fabric::parts::Parts;
use syncline_units::{LinkId, NpuId, Rate};
use syncline_workload::Role;

/// The tiers of a graph that has several, such as the NVLinks of nodes and the links between their cards and leaves.
fn parts(fabric: &Fabric) -> Option<Cow<'_, Parts>> {
    Some(fabric.parts()).filter(|parts| fabric.is_graph() && parts.tiers.len() > 1)
}

/// How many dimensions, or tiers, there are; what belongs to none has the number after them.
pub(crate) fn count(fabric: &Fabric) -> usize {
    parts(fabric).map_or(fabric.dims().len(), |parts| parts.tiers.len())
}

/// Their names, and then the one of what belongs to none: on a graph with one tier, this is all of it.
pub(crate) fn names(fabric: &Fabric) -> Vec<String> {
    let mut names: Vec<String> = match parts(fabric) {
        Some(parts) => parts.tiers.iter().map(|tier| tier.name.clone()).collect(),
        None => fabric.dims().iter().map(|dim| dim.name.clone()).collect(),
    };
    names.push(match &fabric.parts().tiers[..] {
        _ if !fabric.is_graph() => "several dimensions".to_owned(),
        [all] => all.name.clone(),
        _ => "network".to_owned(),
    });
    names
}

/// The dimension, or tier, of each link that is asked for.
pub(crate) fn of_links(fabric: &Fabric) -> impl Fn(LinkId) -> usize + '_ {
    let parts = parts(fabric);
    move |link| match &parts {
        Some(parts) => parts.tier_number(link),
        None => usize::from(fabric.link(link).dim),
    }
}

/// The tier in which the ranks of a group communicate along an axis, rank `i` being on NPU `i`: that of the slowest link on the
/// ways between neighbours, and of several the one that comes first. `None` where the fabric has no tiers.
pub(crate) fn of_axis(fabric: &Fabric, role: &Role, weight: u32, size: u32) -> Option<usize> {
    let parts = parts(fabric)?;
    let (mut slowest, mut path): (Option<(Rate, LinkId)>, _) = (None, Vec::new());
    for at in 0..size {
        let [from, to] = [at, (at + 1) % size].map(|at| NpuId(role.rank(0, at * weight)));
        path.clear();
        fabric.route(from, to, 0, &mut path);
        for &link in &path {
            let (rate, _) = fabric.speed(link);
            if slowest.is_none_or(|(known, _)| rate < known) {
                slowest = Some((rate, link));
            }
        }
    }
    slowest.map(|(_, link)| parts.tier_number(link))
}
