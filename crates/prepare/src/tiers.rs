//! The accounting dimensions, to which communication is booked: the dimensions of a regular fabric, or the tiers of a
//! graph that has several.

use std::borrow::Cow;
use syncline_fabric::Fabric;
use syncline_fabric::parts::Parts;
use syncline_units::{LinkId, NpuId, Rate};
use syncline_workload::Role;

/// The tiers of a graph that has several, such as the NVLinks of nodes and the links between network cards and leaves.
fn parts(fabric: &Fabric) -> Option<Cow<'_, Parts>> {
    Some(fabric.parts()).filter(|parts| fabric.is_graph() && parts.tiers.len() > 1)
}

/// How many dimensions, or tiers, there are. Communication that belongs to none of them is booked to the next number.
pub fn count(fabric: &Fabric) -> usize {
    parts(fabric).map_or(fabric.dims().len(), |parts| parts.tiers.len())
}

/// Their names, and last the name for communication that belongs to none of them. On a graph with one tier, all
/// communication has that name.
pub fn names(fabric: &Fabric) -> Vec<String> {
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

/// A function that returns the dimension, or tier, of a link.
pub fn of_links(fabric: &Fabric) -> impl Fn(LinkId) -> usize + '_ {
    let parts = parts(fabric);
    move |link| match &parts {
        Some(parts) => parts.tier_number(link),
        None => usize::from(fabric.link(link).dim),
    }
}

/// The tier in which the ranks of a group communicate along an axis, if rank `i` is on NPU `i`: the tier of the slowest
/// link on the paths between neighbours, or of the first one if several are equally slow. `None` if the fabric has no
/// tiers.
pub fn of_axis(fabric: &Fabric, role: &Role, weight: u32, size: u32) -> Option<usize> {
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
