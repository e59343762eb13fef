//! Classes of links from comparing routes: decides whether axes may be turned for everything that NPUs send
//! each other.
//!
//! A turn moves senders and receivers along an axis. A representative's messages stand for those of its class
//! if a turn maps every link of the route onto another link of the same rate and latency, and no two turns
//! map to the same link. For every hop of every flow these links form a class, whichever flow finds it. So
//! each link of a class carries as many messages as any other, of the same flows, at the same times. A single
//! permutation of links need not serve all flows.

use crate::Fabric;
use crate::symmetry::{Symmetry, Table};
use std::collections::BTreeMap;
use syncline_units::{LinkId, NpuId};

/// Messages from a representative to another NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Sender.
    pub from: NpuId,
    /// Receiver.
    pub to: NpuId,
    /// Which of several parallel paths they take.
    pub lane: u32,
    /// Flows with the same number may have their messages ordered by sender number if they arrive at a link
    /// at the same time. For other flows the order is known.
    pub tie: u32,
}

/// What happens on links that are neither first nor last on a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// Messages pass them without affecting each other.
    Passed,
    /// Messages share the link's rate, in no particular order.
    Shared,
    /// Messages wait for those that arrived earlier.
    Queued,
}

/// Why axes may not be turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlike {
    /// A moved route has different links, or there is no route.
    Routes,
    /// Messages of equivalent NPUs meet on a link, or are not spread evenly.
    Spread,
    /// A message reaches a link that others use with zero latency, so the order of NPUs would matter.
    Latency,
    /// Messages that may arrive at a link inside the network at the same time would wait in the order of
    /// their senders' numbers, which turns change.
    Order,
}

/// The class of a link that is in no class yet.
const NONE: u32 = u32::MAX;

impl Symmetry {
    /// Returns these classes of NPUs with the resulting classes of links; `flows` are all that
    /// representatives send.
    ///
    /// # Errors
    /// Why the axes may not be turned.
    pub fn compared(self, fabric: &Fabric, flows: &[Flow], inside: Inside) -> Result<Self, Unlike> {
        if self.is_none() {
            return Ok(Self::none(fabric));
        }
        let (mut of, uneven_inside) = match classes(fabric, &self, flows, Some(inside)) {
            Ok(of) => (of, false),
            Err(Unlike::Spread) if inside == Inside::Passed => (classes(fabric, &self, flows, None)?, true),
            Err(why) => return Err(why),
        };
        // Classes are numbered by their first links; an unused link is a class of its own.
        let (mut first, mut members) = (Vec::new(), Vec::new());
        let mut ports_of = vec![NONE; of.len()];
        for (link, class) in (0..).map(LinkId).zip(&mut of) {
            let known = ports_of.get_mut(*class as usize);
            let port = known.as_ref().map_or(NONE, |known| **known);
            let port = if port == NONE { first.len() as u32 } else { port };
            if port as usize == first.len() {
                first.push(link);
                members.push(0);
            }
            if let Some(known) = known {
                *known = port;
            }
            members[port as usize] += 1;
            *class = port;
        }
        Ok(self.with_table(Table { ports: of, first, members, uneven_inside }))
    }
}

/// Returns the class of each used link; without `inside`, only of the first and last links of routes.
fn classes(
    fabric: &Fabric,
    npus: &Symmetry,
    flows: &[Flow],
    inside: Option<Inside>,
) -> Result<Vec<u32>, Unlike> {
    let links = fabric.links() as usize;
    let (mut of, mut classes) = (vec![NONE; links], 0);
    // The hop of which flow each link was last seen in.
    let (mut seen, mut hop) = (vec![0u32; links], 0);
    // Links inside routes, and the turn of the senders that use them, by what breaks ties.
    let (mut passed, mut senders) = (vec![false; links], BTreeMap::new());
    let mut routes: Vec<LinkId> = Vec::new();
    for &Flow { from, to, lane, tie } in flows {
        let length = moved_routes(fabric, npus, (from, to, lane), &mut routes)?;
        for at in 0..length {
            let images = || (0..).zip(routes[at..].iter().step_by(length));
            let is_inside = at > 0 && at + 1 < length;
            for (member, link) in images().filter(|_| is_inside) {
                passed[link.index()] = true;
                if inside == Some(Inside::Queued) && *senders.entry((*link, tie)).or_insert(member) != member
                {
                    return Err(Unlike::Order);
                }
            }
            if is_inside && inside.is_none() {
                continue;
            }
            let known = of[routes[at].index()];
            let class = if known == NONE { classes } else { known };
            classes += u32::from(known == NONE);
            hop += 1;
            for (_, link) in images() {
                let other = of[link.index()] != known && of[link.index()] != class;
                if other || std::mem::replace(&mut seen[link.index()], hop) == hop {
                    return Err(Unlike::Spread);
                }
                of[link.index()] = class;
            }
        }
    }
    // Inner links then get a port each; first and last links get one per class.
    let both = |(&class, &passed): (&u32, &bool)| class != NONE && passed;
    match inside.is_none() && of.iter().zip(&passed).any(both) {
        true => Err(Unlike::Spread),
        false => Ok(of),
    }
}

/// Returns the routes of a flow after each turn, concatenated, its own first, and the number of links of
/// each.
fn moved_routes(
    fabric: &Fabric,
    npus: &Symmetry,
    (from, to, lane): (NpuId, NpuId, u32),
    routes: &mut Vec<LinkId>,
) -> Result<usize, Unlike> {
    routes.clear();
    let mut length = 0;
    for member in 0..npus.members() {
        let before = routes.len();
        let [from, to] = [from, to].map(|npu| npus.moved(npu, member));
        if !fabric.route(from, to, lane, routes) || member > 0 && routes.len() - before != length {
            return Err(Unlike::Routes);
        }
        length = routes.len() - before;
        let unlike = |(&a, &b): (&LinkId, &LinkId)| fabric.speed(a) != fabric.speed(b);
        if routes[..length].iter().zip(&routes[before..]).any(unlike) {
            return Err(Unlike::Routes);
        }
    }
    match length > 1 && fabric.speed(routes[0]).1.is_zero() {
        true => Err(Unlike::Latency),
        false => Ok(length),
    }
}

#[cfg(test)]
mod tests;
