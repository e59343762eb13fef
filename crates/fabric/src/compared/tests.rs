//! Which axes of graphs may be turned: moving both ends of a flow moves its links class by class, all classes
//! have the same size, and nothing is turned if links differ.

use super::*;
use crate::NpuAxis;
use crate::build::tests::built;
use proptest::prelude::*;
use syncline_units::{Rate, Time, Turn, Turned};

fn family(json: &str) -> Fabric {
    built(&format!("{{\"network\": {json}}}"))
}

fn axis(size: u32, stride: u32, step: u32) -> NpuAxis {
    let turned = (step < size).then_some(Turned { turn: Turn::Cyclic, step });
    NpuAxis { size, stride, turned }
}

/// Returns flows from representatives to the NPUs at these distances ahead.
fn ring(npus: &Symmetry, all: u32, ahead: &[u32]) -> Vec<Flow> {
    let of = |class| npus.representative(class);
    let to = |from: NpuId| {
        ahead.iter().map(move |by| Flow { from, to: NpuId((from.0 + by) % all), lane: 0, tie: 0 })
    };
    (0..npus.classes()).flat_map(|class| to(of(class))).collect()
}

fn leaves(uplink: &str) -> Fabric {
    family(&format!(
        r#"{{"leaf_spine": {{"leaves": 3, "hosts_per_leaf": 4, "spines": 1, "rate": "100Gb/s", "latency": "1us",
        "uplink_rate": "{uplink}"}}}}"#
    ))
}

fn turned(fabric: &Fabric, step: u32, ahead: &[u32], inside: Inside) -> Result<Symmetry, Unlike> {
    let npus = Symmetry::of_npus(vec![axis(12, 1, step)]);
    let flows = ring(&npus, 12, ahead);
    npus.compared(fabric, &flows, inside)
}

#[test]
fn a_ring_over_leaves_turns_by_leaves() {
    let fabric = leaves("100Gb/s");
    for inside in [Inside::Passed, Inside::Shared, Inside::Queued] {
        for step in [1, 2, 3] {
            assert_eq!(turned(&fabric, step, &[1], inside).unwrap_err(), Unlike::Routes, "{step}");
        }
        let symmetry = turned(&fabric, 4, &[1], inside).unwrap();
        assert_eq!((symmetry.classes(), symmetry.members()), (4, 3));
        // An uplink and a downlink of each leaf are used; each belongs to a class of three.
        let used = symmetry.links().filter(|&link| symmetry.links_of(symmetry.port(link)) == 3);
        assert_eq!(used.count(), 4 + 4 + 1 + 1);
        assert!(!symmetry.is_uneven_inside());
        let all: u32 = (0..symmetry.ports()).map(|port| symmetry.links_of(port)).sum();
        assert_eq!(all, fabric.links());
    }
}

/// Each leaf sends to both others over one spine: messages down to a leaf come from both, in the order of
/// their numbers.
#[test]
fn links_where_messages_may_meet_cannot_queue() {
    let fabric = leaves("100Gb/s");
    assert_eq!(turned(&fabric, 4, &[4, 8], Inside::Queued).unwrap_err(), Unlike::Order);
    let npus = || Symmetry::of_npus(vec![axis(12, 1, 4)]);
    let told_apart = |flow: Flow| Flow { tie: (flow.to.0 + 12 - flow.from.0) % 12, ..flow };
    let flows: Vec<Flow> = ring(&npus(), 12, &[4, 8]).into_iter().map(told_apart).collect();
    assert!(npus().compared(&fabric, &flows, Inside::Queued).is_ok());
    assert!(turned(&fabric, 4, &[4, 8], Inside::Shared).is_ok());
}

/// Four hosts of a leaf share its uplink: they cannot be turned into each other if messages queue there.
#[test]
fn hosts_that_share_an_uplink_are_not_turned_if_messages_queue() {
    let fabric = leaves("100Gb/s");
    let npus = || Symmetry::of_npus(vec![axis(4, 1, 1), axis(3, 4, 1)]);
    let flows = ring(&npus(), 12, &[4]);
    assert_eq!(npus().compared(&fabric, &flows, Inside::Shared).unwrap_err(), Unlike::Spread);
    let passed = npus().compared(&fabric, &flows, Inside::Passed).unwrap();
    assert_eq!((passed.classes(), passed.is_uneven_inside()), (1, true));
}

#[test]
fn links_with_different_rates_are_in_different_classes() {
    let link = |from, to, rate| crate::GraphLink { from, to, rate: Rate(rate), latency: Time(1) };
    let links = (0..4).flat_map(|npu| [link(npu, 4, 8 + u64::from(npu == 3)), link(4, npu, 8)]).collect();
    let fabric = Fabric::graph(crate::Graph::new(4, 1, links, crate::Routing::Shortest).unwrap());
    let npus = Symmetry::of_npus(vec![axis(4, 1, 1)]);
    let flows = ring(&npus, 4, &[1]);
    assert_eq!(npus.compared(&fabric, &flows, Inside::Passed).unwrap_err(), Unlike::Routes);
}

#[test]
fn links_without_latency_keep_the_order_of_numbers() {
    let fabric = family(r#"{"switch": {"hosts": 4, "rate": "8Gb/s"}}"#);
    let npus = Symmetry::of_npus(vec![axis(4, 1, 1)]);
    let flows = ring(&npus, 4, &[1]);
    assert_eq!(npus.compared(&fabric, &flows, Inside::Passed).unwrap_err(), Unlike::Latency);
}

proptest! {
    /// A moved route has the same ports as the route itself, whatever the turn.
    #[test]
    fn ports_of_moved_routes_are_the_same(
        leaves in 1u32..5, hosts in 2u32..5, spines in 1u32..4, lane in 0u32..3,
        ahead: prop::sample::Index, step: prop::sample::Index, member: u32,
    ) {
        let all = leaves * hosts;
        let ahead = 1 + ahead.index(all as usize - 1) as u32;
        let steps: Vec<u32> = (1..=all).filter(|&step| all.is_multiple_of(step)).collect();
        let step = *step.get(&steps);
        let fabric = built(&format!(
            r#"{{"network": {{"leaf_spine": {{"leaves": {leaves}, "hosts_per_leaf": {hosts}, "spines": {spines},
            "rate": "100Gb/s", "latency": "1us"}}}}, "routing": "shortest"}}"#
        ));
        let npus = Symmetry::of_npus(vec![axis(all, 1, step)]);
        let flows: Vec<Flow> =
            ring(&npus, all, &[ahead]).into_iter().map(|flow| Flow { lane, ..flow }).collect();
        let Ok(symmetry) = npus.compared(&fabric, &flows, Inside::Shared) else { return Ok(()) };
        let ports = |from: NpuId, to: NpuId| {
            let mut path = Vec::new();
            fabric.route(from, to, lane, &mut path);
            path.into_iter().map(|link| symmetry.port(link)).collect::<Vec<_>>()
        };
        let member = member % symmetry.members();
        for &Flow { from, to, .. } in &flows {
            let [a, b] = [from, to].map(|npu| symmetry.moved(npu, member));
            prop_assert_eq!(symmetry.class(a), symmetry.class(from));
            prop_assert_eq!(ports(a, b), ports(from, to));
        }
    }
}
