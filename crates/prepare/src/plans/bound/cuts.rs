//! Cuts: sets of links that a plan's messages must pass, and the messages that pass each.
//!
//! A message is counted on a set if every path that it may take has a link of the set, so its bytes pass the set. Which
//! sets are tried decides how tight the bound is, not whether it holds. They are:
//!
//! - a link that all paths of a message take;
//! - the links of one tier out of a vertex, or into one: an NPU's NVLinks, its network card, a leaf's uplinks;
//! - the links of one tier and direction that are connected by messages that may take either: a pod's uplinks.
//!
//! The network model `analytical` lets no message wait between the first and the last link, so only these count there.

use super::Planned;
use super::traffic::{Sends, Share, sends};
use crate::plans::context::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use syncline_engine::PhasePlan;
use syncline_fabric::Parts;
use syncline_fabric::parts::LinkDirection;
use syncline_units::{DimKind, LinkId, Rate, Time, Turn};
use syncline_workload::Role;

/// Limit on the links of paths and instructions of programs that are visited for one plan.
const MAX_VISITED: u64 = 1 << 18;

/// The same limit in a regular fabric, where all groups are alike.
const MAX_VISITED_REGULAR: u64 = 1 << 15;

/// In paths of more links than this, only the links next to the ends count.
const LONG: usize = 32;

/// A set of links, and the messages that must pass it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    /// Sum of the links' rates.
    pub(super) rate: Rate,
    /// Least latency from a sender to the set, plus the least from the start of its links to a receiver.
    pub(super) latency: Time,
    /// Numbers of messages of one chunk by direction, sorted, so that those of a phase are adjacent.
    pub(super) messages: Vec<(Share, [u64; 2])>,
}

/// What the bound of a plan depends on, for vectors of any length.
pub(super) struct Survey {
    /// The cuts of each group, without duplicates.
    pub(super) groups: BTreeSet<Vec<Cut>>,
    /// Best rate and least latency of a message in each phase.
    pub(super) quickest: Vec<(Rate, Time)>,
}

impl Survey {
    pub(super) fn new(context: &Context<'_>, plan: &Planned<'_>) -> Self {
        let role = plan.role;
        // In a regular fabric whose ranks are in order all groups are alike.
        let regular = !context.fabric.is_graph()
            && !context.fabric.is_damaged()
            && role.is_grid()
            && role.axes.iter().all(|&axis| axis.size == 1 || context.dim(axis).is_some());
        let groups = if regular { 1 } else { role.groups() };
        let most = if regular { MAX_VISITED_REGULAR } else { MAX_VISITED };
        let most = most / u64::from(groups.max(1)) / plan.phases.len().max(1) as u64;
        let (parts, counts) = (context.fabric.parts(), context.path_counts());
        let mut found =
            Self { groups: BTreeSet::new(), quickest: vec![(Rate(0), Time::MAX); plan.phases.len()] };
        let mut complete = vec![most > 0; plan.phases.len()];
        for group in 0..if most > 0 { groups } else { 0 } {
            let mut loads = Loads {
                context,
                plan,
                group,
                parts: &parts,
                counts: &counts,
                most,
                spent: 0,
                loads: BTreeMap::new(),
                joined: Joined::default(),
            };
            for (number, phase) in (0..).zip(plan.phases) {
                let at = usize::from(number);
                complete[at] &= loads.phase(number, phase, &mut found.quickest[at]);
            }
            found.groups.insert(loads.cuts());
        }
        for ((quickest, complete), phase) in found.quickest.iter_mut().zip(complete).zip(plan.phases) {
            if !complete {
                *quickest = at_best(context, role, phase, regular);
            }
        }
        found
    }
}

/// The identity of a set of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// Links of one tier out of a vertex.
    OutOf {
        vertex: u32,
        tier: usize,
    },
    /// Links of one tier into a vertex.
    Into {
        vertex: u32,
        tier: usize,
    },
    Link(LinkId),
    /// Links of one tier and direction that are in one set with `link`, once that is known.
    Tier {
        tier: usize,
        direction: LinkDirection,
        link: Option<LinkId>,
    },
}

/// The messages that must pass a set of links.
#[derive(Debug)]
struct Load {
    messages: BTreeMap<Share, [u64; 2]>,
    links: BTreeSet<LinkId>,
    /// Least latency up to the links, and from their start to the receiver.
    before: u64,
    behind: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self { messages: BTreeMap::new(), links: BTreeSet::new(), before: u64::MAX, behind: u64::MAX }
    }
}

impl Load {
    fn join(&mut self, other: Self) {
        for (share, times) in other.messages {
            let own = self.messages.entry(share).or_default();
            *own = [own[0] + times[0], own[1] + times[1]];
        }
        self.links.extend(other.links);
        self.before = self.before.min(other.before);
        self.behind = self.behind.min(other.behind);
    }
}

/// Sets of links (a disjoint-set forest): each link maps to its parent; roots are not listed.
#[derive(Debug, Default)]
struct Joined(BTreeMap<LinkId, LinkId>);

impl Joined {
    fn root(&mut self, link: LinkId) -> LinkId {
        let mut root = link;
        while let Some(&next) = self.0.get(&root) {
            root = next;
        }
        let mut at = link;
        while at != root {
            at = self.0.insert(at, root).expect("a link that is not a root has a parent");
        }
        root
    }

    fn join(&mut self, one: LinkId, other: LinkId) {
        let [one, other] = [self.root(one), self.root(other)];
        if one != other {
            self.0.insert(one.max(other), one.min(other));
        }
    }
}

/// Collects the messages of one group by sets of links.
struct Loads<'a> {
    context: &'a Context<'a>,
    plan: &'a Planned<'a>,
    group: u32,
    parts: &'a Parts,
    /// Numbers of paths over which a message may be spread.
    counts: &'a [u32],
    /// Limit on the links and instructions visited in a phase, and how many have been visited.
    most: u64,
    spent: u64,
    loads: BTreeMap<Place, Load>,
    joined: Joined,
}

impl Loads<'_> {
    /// Books the messages of a phase, and updates its best rate and latency. True if all messages were visited.
    fn phase(&mut self, number: u16, phase: &PhasePlan, quickest: &mut (Rate, Time)) -> bool {
        let role = self.plan.role;
        let alike = phase.turn.filter(|_| phase.root_axes.is_empty());
        let ways = if self.plan.lanes[usize::from(phase.dim)].backward(phase.kind) > 0 { 2 } else { 1 };
        let mut known: [Option<Rc<Sends>>; 2] = [None, None];
        self.spent = 0;
        for position in (0..role.size()).filter(|&position| phase.takes_part(position)) {
            if self.spent >= self.most {
                return false;
            }
            let index = phase.coordinate(position);
            let first = position - index * phase.axis.weight;
            for (way, known) in known.iter_mut().enumerate().take(ways) {
                let sends = match known {
                    Some(sends) => Rc::clone(sends),
                    None => {
                        let index = if alike.is_some() { 0 } else { index };
                        let (sends, instructions) = sends(number, phase, index, way == 1);
                        self.spent += instructions;
                        Rc::new(sends)
                    }
                };
                if alike.is_some() {
                    *known = Some(Rc::clone(&sends));
                }
                let mut routed: Option<(u32, Vec<Vec<LinkId>>)> = None;
                for (&(to, share), &times) in &*sends {
                    let to = match alike {
                        Some(Turn::Xor) => index ^ to,
                        Some(Turn::Cyclic) => (index + to) % phase.axis.size,
                        None => to,
                    };
                    if routed.as_ref().is_none_or(|routed| routed.0 != to) {
                        let ends =
                            [position, first + to * phase.axis.weight].map(|at| role.rank(self.group, at));
                        routed = Some((to, self.paths(phase, ends, way)));
                    }
                    let paths = &routed.as_ref().expect("it was just set").1;
                    self.book(paths, share, way, times);
                    self.keep(paths, quickest);
                }
            }
        }
        true
    }

    /// All paths that a message between two ranks may take in a phase, in one direction of chunks.
    fn paths(&mut self, phase: &PhasePlan, ends: [u32; 2], way: usize) -> Vec<Vec<LinkId>> {
        let [from, to] = ends.map(|rank| self.context.npu(rank));
        let lanes = self.plan.lanes[usize::from(phase.dim)];
        let two = lanes.backward(phase.kind) > 0;
        let mut paths: Vec<Vec<LinkId>> = Vec::new();
        for lane in (0..lanes.queues_of(phase.kind)).filter(|lane| !two || *lane as usize % 2 == way) {
            for &count in self.counts {
                let found = if count > 1 {
                    self.context.fabric.routes(from, to, lane, count)
                } else {
                    let mut path = Vec::new();
                    if self.context.fabric.route(from, to, lane, &mut path) { vec![path] } else { Vec::new() }
                };
                for path in found {
                    self.spent += path.len().min(LONG) as u64;
                    if !paths.contains(&path) {
                        paths.push(path);
                    }
                }
            }
        }
        paths
    }

    /// Books messages on all sets of links that they must pass.
    fn book(&mut self, paths: &[Vec<LinkId>], share: Share, way: usize, times: u64) {
        let inside = self.context.waits_inside();
        let mut places: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (number, path) in paths.iter().enumerate() {
            // How many links next to each end count.
            let near = match (inside, path.len() > LONG) {
                (false, _) => 1,
                (true, true) => 2,
                (true, false) => path.len(),
            };
            let counts = |at: usize| at < near || at + near >= path.len();
            let mut seen = BTreeSet::new();
            for (at, &link) in path.iter().enumerate().filter(|&(at, _)| counts(at)) {
                let tier = self.parts.tier_number(link);
                let ends = self.context.fabric.link(link);
                // A set counts only if all earlier paths pass it too.
                let mut pass = |place: Place| {
                    let passed = places.entry(place).or_default();
                    if seen.insert(place) && passed.len() == number {
                        passed.push(at);
                    }
                };
                pass(Place::Link(link));
                pass(Place::OutOf { vertex: ends.from, tier });
                pass(Place::Into { vertex: ends.to, tier });
                if inside {
                    let direction = self.parts.direction(ends.from, ends.to);
                    pass(Place::Tier { tier, direction, link: None });
                }
            }
        }
        let fabric = self.context.fabric;
        let latency =
            |links: &[LinkId]| links.iter().map(|&link| fabric.speed(link).1.0).fold(0, u64::saturating_add);
        for (place, passed) in places.into_iter().filter(|(_, passed)| passed.len() == paths.len()) {
            let links = || paths.iter().zip(&passed).map(|(path, &at)| path[at]);
            let place = match (place, links().next()) {
                (Place::Tier { tier, direction, .. }, Some(first)) => {
                    links().for_each(|link| self.joined.join(first, link));
                    Place::Tier { tier, direction, link: Some(first) }
                }
                _ => place,
            };
            let load = self.loads.entry(place).or_default();
            load.messages.entry(share).or_default()[way] += times;
            load.links.extend(links());
            for (path, &at) in paths.iter().zip(&passed) {
                load.before = load.before.min(latency(&path[..at]));
                load.behind = load.behind.min(latency(&path[at..]));
            }
        }
    }

    /// Updates the best rate and the least latency by a message over these paths.
    fn keep(&self, paths: &[Vec<LinkId>], quickest: &mut (Rate, Time)) {
        let fabric = self.context.fabric;
        let mut rate: u64 = 0;
        for path in paths {
            let ends = [path.first(), path.last()].into_iter().flatten();
            rate = rate.saturating_add(ends.map(|&link| fabric.speed(link).0.0).min().unwrap_or(u64::MAX));
            let latency = path.iter().map(|&link| fabric.speed(link).1.0).fold(0, u64::saturating_add);
            quickest.1 = quickest.1.min(Time(latency));
        }
        quickest.0 = quickest.0.max(Rate(rate));
    }

    /// The cuts, without duplicates.
    fn cuts(mut self) -> Vec<Cut> {
        let mut loads: BTreeMap<Place, Load> = BTreeMap::new();
        for (place, load) in std::mem::take(&mut self.loads) {
            let place = match place {
                Place::Tier { tier, direction, link: Some(link) } => {
                    Place::Tier { tier, direction, link: Some(self.joined.root(link)) }
                }
                _ => place,
            };
            loads.entry(place).or_default().join(load);
        }
        let fabric = self.context.fabric;
        // Skip a cut whose rates add up to more than a `Rate` can represent: it is too quick to matter.
        let cut = |load: Load| {
            let rate =
                load.links.iter().try_fold(0u64, |sum, &link| sum.checked_add(fabric.speed(link).0.0))?;
            let latency = Time(load.before.saturating_add(load.behind));
            Some(Cut { rate: Rate(rate), latency, messages: load.messages.into_iter().collect() })
        };
        loads.into_values().filter_map(cut).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// Limits on the rate and latency of a phase's messages, without their paths: in a regular fabric a message passes at
/// least one link of its dimension, or two if that has switches.
fn at_best(context: &Context<'_>, role: &Role, phase: &PhasePlan, regular: bool) -> (Rate, Time) {
    let fabric = context.fabric;
    let axis = role.axes.iter().find(|axis| regular && axis.dim == Some(phase.dim));
    let speeds: Vec<(Rate, Time)> = match axis.and_then(|&axis| context.dim(axis)) {
        Some(dim) => {
            let links = if dim.kind == DimKind::Switch { 2 } else { 1 };
            vec![(dim.rate, Time(dim.latency.0.saturating_mul(links)))]
        }
        None if fabric.is_graph() => (0..fabric.links()).map(|id| fabric.speed(LinkId(id))).collect(),
        None => fabric.dims().iter().map(|dim| (dim.rate, dim.latency)).collect(),
    };
    let paths = context.path_counts().into_iter().max().unwrap_or(1);
    let rate = speeds.iter().map(|speed| speed.0.0).max().unwrap_or(0).saturating_mul(u64::from(paths));
    (Rate(rate), speeds.iter().map(|speed| speed.1).min().unwrap_or_default())
}
