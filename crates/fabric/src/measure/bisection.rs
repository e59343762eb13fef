//! The bisection of a graph by maximum flows.

use super::Method;
use super::flow::Flow;
use crate::Fabric;
use syncline_units::{LinkId, Rate};

/// Most units for which all halves are tried: 1,716 pairs of halves.
const UNITS: u32 = 14;
/// Most directed links of a fabric for which a maximum flow is found.
const LINKS: u32 = 1 << 16;
/// Most directed links for which all halves are tried.
const FEW_LINKS: u32 = 1 << 11;

/// Returns the least rate at which halves of the NPUs can send to each other, if there are few enough to try
/// all halves; groups of `whole` NPUs stay together.
pub(super) fn of_all_halves(fabric: &Fabric, whole: u32) -> Option<(Rate, Method)> {
    let units = fabric.npus() / whole;
    if units > UNITS || fabric.links() > FEW_LINKS {
        return None;
    }
    let base = network(fabric);
    // Every set of half of the units; if their number is even, only sets with unit 0.
    let half = units / 2;
    let sets = (0u32..1 << units).filter(|set| set.count_ones() == half && (units % 2 == 1 || set & 1 == 1));
    let least = sets.map(|set| cut(fabric, &base, whole, |unit| set >> unit & 1 == 1)).min()?;
    Some((least, Method::AllHalves))
}

/// Returns the rate at which the first half of the NPUs and the other can send to each other; `None` if the
/// fabric is too large.
pub(super) fn of_one_half(fabric: &Fabric, whole: u32) -> Option<(Rate, Method)> {
    let units = fabric.npus() / whole;
    let first = |unit: u32| unit < units / 2;
    (fabric.links() <= LINKS).then(|| (cut(fabric, &network(fabric), whole, first), Method::OneHalf))
}

/// Returns the links as a flow network, with a source and a sink.
fn network(fabric: &Fabric) -> Flow {
    let mut flow = Flow::new(fabric.vertices() as usize + 2);
    for id in 0..fabric.links() {
        let link = fabric.link(LinkId(id));
        flow.arc(link.from, link.to, link.rate.0);
    }
    flow
}

/// Returns the rate at which the units with `first` can send to the others or back, whichever is less.
fn cut(fabric: &Fabric, base: &Flow, whole: u32, first: impl Fn(u32) -> bool) -> Rate {
    let (source, sink) = (fabric.vertices(), fabric.vertices() + 1);
    let sent = |back: bool| {
        let mut flow = base.clone();
        for npu in 0..fabric.npus() {
            if first(npu / whole) == back {
                flow.arc(npu, sink, u64::MAX / 4);
            } else {
                flow.arc(source, npu, u64::MAX / 4);
            }
        }
        flow.maximum(source, sink)
    };
    Rate(sent(false).min(sent(true)))
}
