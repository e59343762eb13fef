//! Checks bills against numbers in papers, and against each other.

use super::*;
use crate::build::tests::built;
use crate::{Dimension, Direction, Graph, GraphLink, Routing};
use proptest::prelude::*;
use std::collections::BTreeSet as Set;
use syncline_units::{DimKind, LinkId, NpuId};

fn list(components: &str) -> PriceList {
    serde_json::from_str(&format!(
        r#"{{"name": "test", "source": "here", "year": 2024, "components": {components}}}"#
    ))
    .unwrap()
}

/// hier2021 Table II.
fn hier2021() -> PriceList {
    list(r#"{"link": {"usd_per_GBps": 2}, "nic": {"usd_per_GBps": 48}, "switch": {"usd_per_GBps": 24}}"#)
}

/// The columns of topoopt2022 Table 3 at 100 and 200 Gb/s.
fn topoopt2022(direct: Direct) -> PriceList {
    let prices = r#"{
        "transceiver": {"by_rate": [{"rate": "100Gb/s", "usd": 99}, {"rate": "200Gb/s", "usd": 198}]},
        "nic": {"at": "everything", "by_rate": [{"rate": "100Gb/s", "usd": 660}, {"rate": "200Gb/s", "usd": 790}]},
        "switch_port": {"by_rate": [{"rate": "100Gb/s", "usd": 225}, {"rate": "200Gb/s", "usd": 450}]},
        "patch_panel_port": {"usd": 100}, "ocs_port": {"usd": 520}, "optical_switch": {"usd": 25},
        "fibre": {"usd_per_m": 0.3, "length_m": 500}}"#;
    PriceList { direct, ..list(prices) }
}

fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

fn dim(name: &str, kind: DimKind, size: u32, rate: Rate) -> Dimension {
    Dimension::new(name.to_owned(), kind, size).with_rate(rate)
}

fn refused(fabric: &Fabric, list: &PriceList) -> Diagnostics {
    bill(fabric, list).unwrap_err()
}

fn pieces(bill: &Bill, component: Component) -> u64 {
    bill.items.iter().filter(|item| item.component == component).map(|item| item.quantity).sum()
}

/// hier2021 Fig. 12: three NPUs on a switch by links of 10 GB/s cost 60 + 1440 + 720 dollars.
#[test]
fn a_bill_matches_the_example_of_hier2021() {
    let fabric = Fabric::regular(vec![dim("dim1", DimKind::Switch, 3, rate("10GB/s"))]).unwrap();
    let bill = bill(&fabric, &hier2021()).unwrap();
    let lines: Vec<_> =
        bill.items.iter().map(|item| (item.component, item.quantity, item.unit_usd, item.usd)).collect();
    let expected = [
        (Component::Nic, 3, 480.0, 1440.0),
        (Component::Switch, 1, 720.0, 720.0),
        (Component::Link, 3, 20.0, 60.0),
    ];
    assert_eq!(lines, expected);
    assert_eq!((bill.usd, bill.watts, bill.usd_per_npu()), (2220.0, None, 740.0));
}

/// Priced by GB/s, a ring and a full connection cost a dollar for each GB/s that an NPU sends, since one
/// cable serves both directions (the reading that reproduces the largest ratios of hier2021 VI-C). LIBRA
/// counts each direction.
#[test]
fn rings_and_full_connections_are_priced_by_the_rate_of_an_npu() {
    for kind in [DimKind::Ring, DimKind::FullyConnected] {
        let spread = Dimension::new("a".into(), kind, 8).with_rate_per_npu(rate("70GB/s"));
        let fabric = Fabric::regular(vec![spread]).unwrap();
        let once = bill(&fabric, &hier2021()).unwrap();
        assert_eq!(once.items.len(), 1);
        assert!((once.usd - 8.0 * 70.0).abs() < 1e-6, "{}", once.usd);
        let libra = list(r#"{"link": {"usd_per_GBps": 4, "each_way": true}}"#);
        assert!((bill(&fabric, &libra).unwrap().usd - 4.0 * 8.0 * 70.0).abs() < 1e-6);
    }
    let one_way = dim("a", DimKind::Ring, 8, rate("10GB/s")).with_direction(Direction::OneWay);
    let cost = bill(&Fabric::regular(vec![one_way]).unwrap(), &hier2021()).unwrap();
    assert_eq!((pieces(&cost, Component::Link), cost.usd), (8, 160.0));
}

/// The cost of a server in the fabrics of topoopt2022, by its Table 3. Per interface: a NIC, a transceiver, a
/// fibre, and two ports of patch panels with a 1x2 switch, or a port of an OCS. In a fat-tree: a NIC, 6
/// transceivers, 5 switch ports, 3 fibres.
#[test]
fn the_price_of_a_server_matches_topoopt2022() {
    let each = |fabric: &Fabric, direct| bill(fabric, &topoopt2022(direct)).unwrap().usd_per_npu();
    let joined = |degree: u32, rate: &str| {
        built(&format!(
            r#"{{"network": {{"expander": {{"hosts": 128, "degree": {degree}, "rate": "{rate}"}}}}}}"#
        ))
    };
    for (degree, at, look_ahead, ocs) in
        [(4, "100Gb/s", 4536.0, 5716.0), (8, "200Gb/s", 10904.0, 13264.0), (8, "100Gb/s", 9072.0, 11432.0)]
    {
        let fabric = joined(degree, at);
        assert_eq!(each(&fabric, Direct::LookAhead), look_ahead, "{degree} x {at}");
        assert_eq!(each(&fabric, Direct::Ocs), ocs, "{degree} x {at}");
    }
    // A direct cable needs half of the fibres and no ports in between: the expander is cheapest.
    assert_eq!(each(&joined(4, "100Gb/s"), Direct::Cable), 4.0 * (660.0 + 99.0 + 75.0));
    assert_eq!(each(&joined(4, "100Gb/s"), Direct::PatchPanel), 4.0 * (660.0 + 99.0 + 150.0 + 100.0));
    let tree = |rate: &str, more: &str| {
        built(&format!(r#"{{"network": {{"fat_tree": {{"k": 8, "rate": "{rate}"{more}}}}}}}"#))
    };
    // A NIC, 6 transceivers, 5 switch ports, 3 fibres; twice as many if a port of 400 Gb/s is two of 200.
    assert_eq!(each(&tree("200Gb/s", ""), Direct::Cable), 4678.0);
    assert_eq!(each(&tree("400Gb/s", ""), Direct::Cable), 9356.0);
    assert_eq!(each(&joined(4, "400Gb/s"), Direct::LookAhead), 10904.0);
    // 192 Gb/s need parts sold as 200.
    assert_eq!(each(&tree("192Gb/s", ""), Direct::Cable), 4678.0);
    assert_eq!(
        each(&tree("200Gb/s", r#", "oversubscription": 2"#), Direct::Cable),
        790.0 + 4.0 * 198.0 + 3.0 * 450.0 + 2.0 * 150.0
    );
}

/// luo2020 6.1.10: A = (N + S + C) + F (4 S + 2 C) for a machine in a three-level network that is
/// oversubscribed only at the top of the rack. A port of the switch is 1/32 of its price, and a quarter of
/// that at 25 Gb/s.
#[test]
fn the_price_of_a_machine_matches_luo2020() {
    let prices = list(
        r#"{"nic": {"by_rate": [{"rate": "25Gb/s", "usd": 260}, {"rate": "25Gb/s", "usd": 325, "ports": 2}, {"rate": "100Gb/s", "usd": 795}]},
            "switch_port": {"by_rate": [{"rate": "25Gb/s", "usd": 21077, "ports": 128}, {"rate": "100Gb/s", "usd": 21077, "ports": 32}]},
            "link": {"by_rate": [{"rate": "25Gb/s", "usd": 31.25}, {"rate": "100Gb/s", "usd": 94}]}}"#,
    );
    for (at, n, s, c) in [("100Gb/s", 795.0, 21077.0 / 32.0, 94.0), ("25Gb/s", 260.0, 21077.0 / 128.0, 31.25)]
    {
        for over in [1_u32, 2, 4] {
            let json = format!(
                r#"{{"network": {{"fat_tree": {{"k": 8, "oversubscription": {over}, "rate": "{at}"}}}}}}"#
            );
            let each = bill(&built(&json), &prices).unwrap().usd_per_npu();
            let expected = n + s + c + (4.0 * s + 2.0 * c) / f64::from(over);
            assert!((each - expected).abs() < 1e-9, "{at} {over}:1: {each}, not {expected}");
        }
    }
}

/// Returns the same fabric, given link by link.
fn as_graph(fabric: &Fabric) -> Fabric {
    let links = (0..fabric.links()).map(|id| fabric.link(LinkId(id)));
    let links =
        links.map(|link| GraphLink { from: link.from, to: link.to, rate: link.rate, latency: link.latency });
    let switches = fabric.vertices() - fabric.npus();
    Fabric::graph(Graph::new(fabric.npus(), switches, links.collect(), Routing::Shortest).unwrap())
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// Returns the number and price of each component.
fn sums(bill: &Bill) -> Vec<(Component, u64, f64)> {
    let used: Set<Component> = bill.items.iter().map(|item| item.component).collect();
    let sum = |component| {
        let mine = bill.items.iter().filter(|item| item.component == component);
        mine.fold((component, 0, 0.0), |sum, item| (component, sum.1 + item.quantity, sum.2 + item.usd))
    };
    used.into_iter().map(sum).collect()
}

fn any_dims() -> impl Strategy<Value = Fabric> {
    let kind = prop_oneof![Just(DimKind::Ring), Just(DimKind::FullyConnected), Just(DimKind::Switch)];
    let one = (kind, 1_u32..6, 1_u32..4, any::<bool>(), 1_u64..500);
    prop::collection::vec(one, 1..4).prop_map(|dims| {
        let dims = dims.into_iter().enumerate().map(|(index, (kind, size, count, both, gbps))| {
            dim(&format!("dim{index}"), kind, size, Rate(gbps * 1_000_000_000))
                .with_count(count)
                .with_direction(if both { Direction::Both } else { Direction::OneWay })
        });
        Fabric::regular(dims.collect()).unwrap()
    })
}

proptest! {
    /// A regular fabric costs the same as the same fabric given link by link, except for a one-way ring of
    /// two, whose two links form one cable.
    #[test]
    fn arithmetic_agrees_with_counting(fabric in any_dims(), per_rate: bool) {
        let pair = fabric.dims().iter().any(|dim| dim.kind == DimKind::Ring && dim.size == 2 && dim.ways() == 1);
        prop_assume!(!pair);
        let prices = if per_rate { hier2021() } else { topoopt2022(Direct::LookAhead) };
        let regular = bill(&fabric, &prices).unwrap();
        let counted = bill(&as_graph(&fabric), &prices).unwrap();
        let (regular, counted) = (sums(&regular), sums(&counted));
        prop_assert_eq!(regular.len(), counted.len());
        for (a, b) in regular.iter().zip(&counted) {
            // Switches that join the same NPUs at different rates are distinguished either way.
            prop_assert_eq!((a.0, a.1), (b.0, b.1));
            prop_assert!(close(a.2, b.2), "{:?} {:?}", a, b);
        }
    }

    /// Priced by GB/s, twice the rate costs twice as much.
    #[test]
    fn prices_by_rate_are_linear(dims in prop::collection::vec((1_u32..6, 1_u64..400), 1..4), times in 1_u64..9) {
        let fabric = |times: u64| {
            let kinds = [DimKind::Ring, DimKind::FullyConnected, DimKind::Switch];
            let dims = dims.iter().enumerate().map(|(index, &(size, gbps))| {
                dim(&format!("dim{index}"), kinds[index], size, Rate(times * gbps * 1_000_000_000))
            });
            Fabric::regular(dims.collect()).unwrap()
        };
        let once = bill(&fabric(1), &hier2021()).unwrap().usd;
        let more = bill(&fabric(times), &hier2021()).unwrap().usd;
        prop_assert!(close(more, once * times as f64), "{} {}", once, more);
    }

    /// The total is the sum of the lines, and a line is its quantity times its unit price.
    #[test]
    fn the_total_is_the_sum_of_the_lines(fabric in any_dims()) {
        let bill = bill(&fabric, &topoopt2022(Direct::Ocs)).unwrap();
        prop_assert_eq!(bill.usd, bill.items.iter().map(|item| item.usd).sum::<f64>());
        for item in &bill.items {
            prop_assert_eq!(item.usd, item.unit_usd * item.quantity as f64);
            prop_assert!(item.quantity > 0);
        }
    }
}

#[test]
fn a_fabric_of_a_million_npus_is_priced() {
    let dims = vec![
        dim("a", DimKind::Ring, 16, rate("200GB/s")),
        dim("b", DimKind::FullyConnected, 8, rate("25GB/s")),
        dim("c", DimKind::Switch, 8192, rate("12.5GB/s")),
    ];
    let fabric = Fabric::regular(dims).unwrap();
    assert_eq!(fabric.npus(), 1 << 20);
    let bill = bill(&fabric, &hier2021()).unwrap();
    let each = 2.0 * 200.0 + 7.0 * 25.0 + (2.0 + 48.0 + 24.0) * 12.5;
    assert!(close(bill.usd_per_npu(), each), "{}", bill.usd_per_npu());
}

/// Headers are paid for, because the rate on the wire is bought. Broken links were bought intact.
#[test]
fn headers_and_broken_links_do_not_change_the_price() {
    let whole = dim("a", DimKind::Ring, 4, rate("10GB/s"));
    let framed = whole.clone().with_payload(rate("9GB/s"));
    let cost = |dim: Dimension| bill(&Fabric::regular(vec![dim]).unwrap(), &hier2021()).unwrap().usd;
    assert_eq!(cost(whole.clone()), 80.0);
    assert_eq!(cost(framed), 80.0);
    let fabric = Fabric::regular(vec![whole]).unwrap();
    for fabric in [as_graph(&fabric), fabric] {
        let broken = fabric.damaged([(LinkId(1), rate("1GB/s"))].into(), Set::from([LinkId(0)]));
        assert!(broken.link(LinkId(0)).rate.is_zero());
        assert_eq!(bill(&broken, &hier2021()).unwrap().usd, 80.0);
        let mut path = Vec::new();
        assert!(broken.route(NpuId(0), NpuId(1), 0, &mut path));
    }
}

/// Prices by tier apply to a dimension's `tier`, to its name, or to its kind of links; `none` is not charged.
#[test]
fn tiers_have_their_own_prices() {
    let prices: PriceList = serde_json::from_str(
        r#"{"name": "libra", "source": "here", "year": 2024, "tiers": {
            "inter_chiplet": {"link": {"usd_per_GBps": 2, "each_way": true}},
            "inter_node": {"link": {"usd_per_GBps": 4, "each_way": true}, "switch": {"usd_per_GBps": 13}, "nic": "none"},
            "inter_pod": {"link": {"usd_per_GBps": 7.8}, "switch": {"usd_per_GBps": 18}, "nic": {"usd_per_GBps": 31.6}}}}"#,
    )
    .unwrap();
    let dims = |tier: &str| {
        let spread = |name: &str, kind, size| {
            Dimension::new(name.to_owned(), kind, size).with_rate_per_npu(rate("10GB/s"))
        };
        Fabric::regular(vec![
            spread("inter_chiplet", DimKind::Ring, 4),
            spread("b", DimKind::Switch, 4).with_tier("inter_node".to_owned()),
            spread("c", DimKind::Switch, 2).with_tier(tier.to_owned()),
        ])
        .unwrap()
    };
    let cost = bill(&dims("inter_pod"), &prices).unwrap();
    assert!(
        close(cost.usd_per_npu(), 10.0 * (2.0 + 4.0 + 13.0 + 7.8 + 18.0 + 31.6)),
        "{}",
        cost.usd_per_npu()
    );
    let error = &refused(&dims("inter_pot"), &prices).0[0];
    assert_eq!(error.key.as_deref(), Some("fabric.dims.2.tier"));
    assert_eq!(error.nearest.as_deref(), Some("inter_pod"));
    // If the list has no such tier, the prices for all apply, and the bill says so.
    let all = PriceList { components: hier2021().components, ..prices };
    assert_eq!(
        bill(&dims("inter_pot"), &all).unwrap().notes,
        ["the list has no tier inter_pot: its `components` are used"]
    );
}

/// NPUs that share cards over PCIe have as many NICs as cards; links inside a node may be left out.
#[test]
fn npus_that_share_cards_have_as_many_nics_as_cards() {
    let json = r#"{"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 4, "spines": 2, "rate": "100Gb/s"}},
                   "nodes": {"npus": 8, "nics": 2, "rate": "300GB/s", "pcie_rate": "64GB/s"}}"#;
    let fabric = built(json);
    let mut prices = topoopt2022(Direct::Cable);
    prices.tiers.insert("scale_up".to_owned(), Section::Absent(list::Absent::None));
    prices.tiers.insert("pcie".to_owned(), Section::Absent(list::Absent::None));
    let cost = bill(&fabric, &prices).unwrap();
    assert_eq!(pieces(&cost, Component::Nic), 8);
    assert_eq!(pieces(&cost, Component::Transceiver), 2 * (8 + 4));
    assert_eq!(pieces(&cost, Component::SwitchPort), 8 + 2 * 4);
    assert_eq!(
        cost.notes,
        ["this list does not charge for pcie links", "this list does not charge for scale-up links"]
    );
    let every = bill(&fabric, &hier2021()).unwrap();
    // An NPU is also joined to the switch of its node.
    assert_eq!(pieces(&every, Component::Nic), 32 + 8);
    assert_eq!(pieces(&every, Component::Link), 32 + 32 + 8 + 4);
}

/// Hosts use the cheapest cards; switches are boxes with enough ports.
#[test]
fn hosts_use_the_cheapest_cards_and_switches_have_enough_ports() {
    let prices = list(
        r#"{"link": {"usd": 10}, "npu": {"usd": 1000, "watts": 400},
            "nic": {"by_rate": [{"rate": "25Gb/s", "usd": 260}, {"rate": "25Gb/s", "usd": 325, "ports": 2}, {"rate": "100Gb/s", "usd": 795, "watts": 20}]},
            "switch": {"by_rate": [{"rate": "25Gb/s", "usd": 3000, "ports": 4, "watts": 50}, {"rate": "100Gb/s", "usd": 9000, "ports": 8}]}}"#,
    );
    let star = |hosts: u32, ports: u32, rate: Rate| {
        Fabric::regular(vec![dim("net", DimKind::Switch, hosts, rate).with_count(ports)]).unwrap()
    };
    let lines = |fabric: &Fabric, component| {
        let bill = bill(fabric, &prices).unwrap();
        let mine = bill.items.into_iter().filter(move |item| item.component == component);
        mine.map(|item| (item.quantity, item.unit_usd)).collect::<Vec<_>>()
    };
    let slow = rate("25Gb/s");
    assert_eq!(lines(&star(4, 1, slow), Component::Nic), [(4, 260.0)]);
    assert_eq!(lines(&star(4, 20, slow), Component::Nic), [(40, 325.0)]);
    assert_eq!(lines(&star(4, 3, slow), Component::Nic), [(4, 260.0), (4, 325.0)]);
    assert_eq!(lines(&star(4, 1, slow), Component::Switch), [(1, 3000.0)]);
    assert_eq!(lines(&star(5, 2, slow), Component::Switch), [(2, 9000.0)]);
    // 300 Gb/s are three times 100: three cards per host, and three ports per host at the switch.
    assert_eq!(lines(&star(2, 1, rate("300Gb/s")), Component::Nic), [(6, 795.0)]);
    let small = bill(&star(4, 1, slow), &prices).unwrap();
    assert_eq!((small.usd, small.watts), (4.0 * 1000.0 + 4.0 * 260.0 + 3000.0 + 40.0, Some(1650.0)));
    assert_eq!(small.notes, ["the list gives no power for: link, nic"]);
    let error = refused(&star(3, 1, rate("300Gb/s")), &prices).0.remove(0);
    assert_eq!((error.code, error.key.as_deref()), (Code::NoPrice, Some("prices.components.switch")));
    assert_eq!(error.found.as_deref(), Some("9 ports of 100 Gb/s (3 x 300 Gb/s)"));
    assert_eq!(error.allowed.as_deref(), Some("at most 8 ports of 100 Gb/s"));
}

/// Errors name what a list lacks with the part of the fabric that needs it; everything wrong is reported at
/// once.
#[test]
fn bad_lists_are_refused() {
    let star = Fabric::regular(vec![dim("net", DimKind::Switch, 4, rate("10GB/s"))]).unwrap();
    let keys = |components: &str| -> Vec<(String, &'static str)> {
        let found = refused(&star, &list(components)).0;
        found.into_iter().map(|error| (error.key.unwrap(), error.code.id())).collect()
    };
    let one = |key: &str, code| vec![(format!("prices.components{key}"), code)];
    assert_eq!(keys("{}"), one("", "SL0103"));
    assert_eq!(keys(r#"{"link": {"usd_per_GBps": 2}, "switch": {"usd_per_GBps": 2}}"#), one("", "SL0204"));
    assert_eq!(keys(r#"{"link": {"usd_per_GBps": -2}}"#), one(".link.usd_per_GBps", "SL0102"));
    assert_eq!(keys(r#"{"link": {"usd": 0}}"#), one(".link.usd", "SL0102"));
    assert_eq!(keys(r#"{"link": {}}"#), one(".link", "SL0103"));
    assert_eq!(keys(r#"{"link": {"usd": 1, "usd_per_GBps": 1}}"#), one(".link", "SL0102"));
    assert_eq!(keys(r#"{"link": {"usd": 1e13}}"#), one(".link.usd", "SL0102"));
    assert_eq!(keys(r#"{"link": {"usd": 1, "watts": -1}}"#), one(".link.watts", "SL0102"));
    assert_eq!(keys(r#"{"link": {"usd": 1, "at": "everything"}}"#), one(".link.at", "SL0102"));
    assert_eq!(keys(r#"{"fibre": {"usd_per_m": 1}}"#), one(".fibre", "SL0103"));
    assert_eq!(keys(r#"{"link": {"by_rate": []}}"#), one(".link.by_rate", "SL0102"));
    let zero = r#"{"link": {"by_rate": [{"rate": "0b/s", "usd": 1}]}}"#;
    assert_eq!(keys(zero), one(".link.by_rate.0.rate", "SL0102"));
    let ports = r#"{"link": {"by_rate": [{"rate": "1Gb/s", "usd": 1, "ports": 2}]}}"#;
    assert_eq!(keys(ports), one(".link.by_rate.0.ports", "SL0102"));
    let twice = r#"{"link": {"by_rate": [{"rate": "1Gb/s", "usd": 1}, {"rate": "1Gb/s", "usd": 2}]}}"#;
    assert_eq!(keys(twice), one(".link.by_rate.1", "SL0102"));
    let several = r#"{"link": {"usd": -1}, "nic": {"usd_per_GBps": 0}, "npu": {"usd_per_GBps": 3}}"#;
    assert_eq!(keys(several).len(), 3);
    let year = PriceList { year: 12, source: " ".to_owned(), ..hier2021() };
    assert_eq!(refused(&star, &year).0.len(), 2);
    // All missing prices are reported at once: here NIC and switch.
    let lacking = refused(&star, &list(r#"{"link": {"usd": 1}}"#)).0;
    let said: Vec<&str> = lacking.iter().map(|error| error.message.as_str()).collect();
    let expected = [
        "the list has no price for `nic`, which net needs",
        "the list has no price for `switch` or `switch_port`, which net switch needs",
    ];
    assert_eq!(said, expected);
    // Parts so slow that a link would need thousands of them.
    let slow = |class: &str| {
        list(&format!(
            r#"{{"link": {{"usd": 1}}, "switch": {{"usd": 1}}, "nic": {{"by_rate": [{{"rate": "{class}", "usd": 1}}]}}}}"#
        ))
    };
    let cost = bill(&star, &slow("78125kb/s")).unwrap();
    assert_eq!(pieces(&cost, Component::Nic), 4 * 1024);
    let error = refused(&star, &slow("78124kb/s")).0.remove(0);
    assert_eq!(error.key.as_deref(), Some("prices.components.nic.by_rate"));
    assert_eq!(error.found.as_deref(), Some("1025 in parallel for 80 Gb/s"));
    assert_eq!(refused(&star, &slow("1b/s")).0.len(), 1);
    // Limits, and values just beyond them.
    assert!(bill(&star, &list(r#"{"link": {"usd": 1e12}, "nic": "none", "switch": "none"}"#)).is_ok());
    assert_eq!(keys(r#"{"link": {"usd": 1000000000001}}"#), one(".link.usd", "SL0102"));
    for (ports, right) in [(list::MAX_PORTS, true), (list::MAX_PORTS + 1, false)] {
        let prices = list(&format!(
            r#"{{"link": {{"usd": 1}}, "nic": "none", "switch": {{"by_rate": [{{"rate": "1Tb/s", "usd": 1, "ports": {ports}}}]}}}}"#
        ));
        assert_eq!(bill(&star, &prices).is_ok(), right, "{ports}");
    }
    // Patch panels, if these join hosts.
    let ring = Fabric::regular(vec![dim("net", DimKind::Ring, 4, rate("10GB/s"))]).unwrap();
    let panels = PriceList { direct: Direct::LookAhead, ..hier2021() };
    assert_eq!(refused(&ring, &panels).0.len(), 2);
    assert!(bill(&star, &panels).is_ok());
}

/// The bill reports tiers written for this fabric that match none of its links, but not those of a shared list.
#[test]
fn tiers_that_match_no_links_are_reported() {
    let fabric = Fabric::regular(vec![dim("node", DimKind::Switch, 4, rate("10GB/s"))]).unwrap();
    let tier = |name: &str| (name.to_owned(), Section::Absent(list::Absent::None));
    let mut prices = PriceList { tiers: [tier("nodes"), tier("pcie")].into(), ..hier2021() };
    assert_eq!(bill(&fabric, &prices).unwrap().notes, [""; 0]);
    prices.own_tiers = ["nodes".to_owned()].into();
    assert_eq!(
        bill(&fabric, &prices).unwrap().notes,
        [
            "the list's tier nodes matches no links of this fabric, whose tiers are node, host; did you mean node?"
        ]
    );
    for fitting in ["node", "host"] {
        prices.tiers = [tier(fitting)].into();
        prices.own_tiers = [fitting.to_owned()].into();
        assert_eq!(bill(&fabric, &prices).unwrap().notes, ["this list does not charge for node links"]);
    }
}
