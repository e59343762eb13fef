//! Sharing against a small solver that fills links step by step.

use super::ceilings::{ceiling, has_room};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

impl Sharing {
    /// Holds what is kept up to date against what it says.
    fn audit(&self) {
        for (at, node) in (0u32..).zip(&self.nodes) {
            let (level, held) = (self.shares.level(at), self.held[at as usize] as usize);
            let followed = self.shares.marks(at).followed;
            let (mut load, mut sharers, mut ceilings) = (0, 0, 0);
            for (place, member) in node.members.iter().enumerate() {
                let (way, hop) = (self.ways.way(member.bundle), self.ways.hop(member.bundle, at));
                let (has, takes) = (self.has(member.bundle), self.takes(member.bundle, at));
                let leading = self.ways.followed(member.bundle).iter().map(|hop| hop.node);
                assert_eq!(hop.place as usize, place);
                assert_eq!(way.bottleneck == at, place < held);
                assert_eq!(leading.clone().any(|other| other == at), followed);
                if followed {
                    assert_eq!(member.bottleneck, way.bottleneck);
                    assert_eq!(self.takes_of(member, at), takes);
                    let others = self.elsewhere(member).filter(|&other| other != at);
                    assert!(others.eq(leading.filter(|&other| other != at)));
                    assert!(
                        way.bottleneck == at || has <= self.shares.top(at),
                        "node {at}: {has} above {}",
                        self.shares.top(at)
                    );
                }
                assert!(has <= level);
                load += takes * has;
                sharers += if has == level { takes } else { 0 };
                ceilings += u128::from(takes) * u128::from(ceiling(has));
            }
            let capacity = self.shares.capacity(at);
            if followed {
                let left = capacity - load.cast_signed();
                assert_eq!(self.shares.counted(at), (left, sharers), "node {at}");
            }
            if self.shares.classes() == 1 {
                assert_eq!(self.ceilings[at as usize], ceilings);
                assert!(followed || has_room(ceilings, capacity));
            }
        }
    }
}

/// A flow of the small solver: links with what it takes of each, in whole ways; weight; class.
#[derive(Clone, Debug)]
struct Plain {
    way: Vec<(u32, u32)>,
    weight: u32,
    class: u32,
}

/// Max-min fair rates by progressive filling (Bertsekas and Gallager, 6.5.2), in floating point: all rates that nothing holds
/// back rise together until a link is full.
fn filled(capacities: &[f64], flows: &[Plain]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![0.0; flows.len()];
    let classes = flows.iter().map(|flow| flow.class).max().unwrap_or(0);
    for class in 0..=classes {
        let mut rising: Vec<usize> = (0..flows.len()).filter(|&at| flows[at].class == class).collect();
        while !rising.is_empty() {
            let mut usage = vec![0.0; left.len()];
            for &at in &rising {
                for &(link, parts) in &flows[at].way {
                    usage[link as usize] += f64::from(flows[at].weight) * f64::from(parts) / f64::from(PARTS);
                }
            }
            let step = (0..left.len())
                .filter(|&link| usage[link] > 0.0)
                .map(|link| (left[link].max(0.0) / usage[link], link))
                .min_by(|a, b| a.partial_cmp(b).unwrap())
                .unwrap();
            for &at in &rising {
                rates[at] += step.0 * f64::from(flows[at].weight);
            }
            for link in 0..left.len() {
                left[link] -= step.0 * usage[link];
            }
            left[step.1] = 0.0;
            rising.retain(|&at| {
                flows[at].way.iter().all(|&(link, _)| left[link as usize] > 1e-9 * capacities[link as usize])
            });
        }
    }
    rates
}

#[derive(Clone, Debug)]
enum Step {
    /// A flow comes.
    Come(Plain, u64),
    /// The flows that are through next go.
    Go,
    /// Time passes, but nobody is through yet.
    Wait(u8),
}

fn any_flow(links: u32, classes: u32, split: bool) -> impl Strategy<Value = Plain> {
    // What is rounded off on a link of which a flow takes little is a multiple of that on one that it takes whole.
    let parts = if split { vec![PARTS, PARTS / 2, PARTS / 3, PARTS / 16] } else { vec![PARTS] };
    let parts = prop::sample::select(parts);
    let way = prop::collection::btree_map(0..links, parts, 1..=(links.min(5) as usize));
    (way, 1u32..4, 0..classes).prop_map(|(way, weight, class)| Plain {
        way: way.into_iter().collect(),
        weight,
        class,
    })
}

fn steps(classes: u32, split: bool) -> impl Strategy<Value = (Vec<u64>, Vec<Step>)> {
    crowded(0, classes, split)
}

/// Steps after so many flows have come: with many on links that are much alike, most changes are small.
fn crowded(crowd: usize, classes: u32, split: bool) -> impl Strategy<Value = (Vec<u64>, Vec<Step>)> {
    let rates = if crowd == 0 { vec![10u64, 25, 40, 100, 400] } else { vec![97, 100, 101, 110] };
    prop::collection::vec(prop::sample::select(rates), 1..9).prop_flat_map(move |rates| {
        let come = (any_flow(rates.len() as u32, classes, split), 1u64..100_000)
            .prop_map(|(flow, bytes)| Step::Come(flow, bytes))
            .boxed();
        let first = prop::collection::vec(come.clone(), crowd);
        let step = prop_oneof![5 => come, 3 => Just(Step::Go), 1 => any::<u8>().prop_map(Step::Wait)];
        let rates = rates.into_iter().map(|rate| rate * 1_000_000_000).collect();
        let all = (first, prop::collection::vec(step, 1..40));
        (Just(rates), all.prop_map(|(first, steps)| [first, steps].concat()))
    })
}

/// Plays steps, and compares all rates after each.
fn play(rates: &[u64], steps: &[Step], classes: u32, split: bool) -> Result<(), TestCaseError> {
    let mut sharing = Sharing::new(rates.iter().map(|&rate| Rate(rate)), classes, split, None);
    let capacities: Vec<f64> = rates.iter().map(|&rate| rate as f64).collect();
    // By flow: its bundle, bytes, and when it began.
    let mut live: BTreeMap<u32, (u32, Plain)> = BTreeMap::new();
    let mut carried: BTreeMap<u32, u128> = BTreeMap::new();
    let (mut now, mut number) = (Time(0), 0);
    let mut last = Step::Go;
    let ending = std::iter::repeat_n(Step::Go, steps.len() + 1);
    for step in steps.iter().cloned().chain(ending) {
        match step.clone() {
            Step::Come(flow, bytes) => {
                let whole = |&(link, parts): &(u32, u32)| (link, if split { parts } else { 1 });
                let way: Vec<(u32, u32)> = flow.way.iter().map(whole).collect();
                let bundle = sharing.open(&way, flow.weight, flow.class);
                sharing.start(now, bundle, Bytes(bytes), number);
                for &(link, parts) in &flow.way {
                    *carried.entry(link).or_default() += u128::from(bytes) * 8 * BIT * u128::from(parts);
                }
                live.insert(number, (bundle, flow));
                number += 1;
            }
            Step::Go => {
                let Some(next) = sharing.next() else {
                    prop_assert!(live.is_empty(), "{} flows never end", live.len());
                    continue;
                };
                prop_assert!(next >= now);
                now = next;
                let mut gone = Vec::new();
                sharing.finish(now, |flow| gone.push(flow), |_| {});
                prop_assert!(!gone.is_empty(), "somebody is through at {now}");
                for flow in gone {
                    prop_assert!(live.remove(&flow).is_some());
                }
            }
            Step::Wait(part) => {
                if let Some(next) = sharing.next() {
                    now = Time(now.0 + (next.0 - now.0) * u64::from(part) / 256);
                }
            }
        }
        sharing.settle(now);
        sharing.audit();
        let flows: Vec<Plain> = live.values().map(|(_, flow)| flow.clone()).collect();
        let expected = filled(&capacities, &flows);
        for ((bundle, flow), expected) in live.values().zip(expected) {
            let rate = sharing.rate(*bundle) as f64 / f64::from(1 << UNIT);
            let taken = |&(link, parts): &(u32, u32)| {
                (rate - expected).abs() * f64::from(parts) / f64::from(PARTS) / capacities[link as usize]
            };
            let apart = flow.way.iter().map(taken).fold(0.0, f64::max);
            prop_assert!(
                apart <= if split { 1e-4 } else { 1e-9 },
                "{flow:?} has {rate}, not {expected}, after {step:?}; before it {last:?}"
            );
        }
        for (link, &rate) in rates.iter().enumerate() {
            let load: u64 = (0..classes).map(|class| sharing.load(link as u32, class)).sum();
            prop_assert!(load <= rate << UNIT, "no link carries more than it can");
        }
        last = step;
    }
    prop_assert!(live.is_empty());
    // Bytes are conserved: a flow that is through has had what it asked for, and less than a picosecond's worth more.
    for (link, expected) in carried {
        let got = sharing.carried(link) * u128::from(PARTS);
        let spare = u128::from(number) * u128::from(rates[link as usize] << UNIT) * u128::from(PARTS) * 2;
        prop_assert!(got + spare >= expected && got <= expected + spare, "link {link}: {got} for {expected}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn rates_are_max_min_fair((rates, steps) in steps(1, false)) {
        play(&rates, &steps, 1, false)?;
    }

    #[test]
    fn so_they_are_over_several_ways((rates, steps) in steps(1, true)) {
        play(&rates, &steps, 1, true)?;
    }

    #[test]
    fn higher_classes_go_first((rates, steps) in steps(3, true)) {
        play(&rates, &steps, 3, true)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    #[test]
    fn rates_are_max_min_fair_in_a_crowd((rates, steps) in crowded(150, 1, false)) {
        play(&rates, &steps, 1, false)?;
    }

    #[test]
    fn so_are_those_of_classes_in_a_crowd((rates, steps) in crowded(150, 2, true)) {
        play(&rates, &steps, 2, true)?;
    }
}

/// Many alike flows that come at once, on hosts below switches with fewer ways up.
#[test]
fn many_alike_flows_settle() {
    for (hosts, leaves, spines, peers) in [(64u32, 8u32, 3u32, 63u32), (64, 4, 8, 20), (32, 16, 2, 31)] {
        let per = hosts / leaves;
        let links = 2 * hosts + 2 * leaves * spines;
        let mut sharing = Sharing::new((0..links).map(|_| Rate(100_000_000_000)), 1, false, None);
        let mut ways = Vec::new();
        for (peer, host) in (1..=peers).flat_map(|peer| (0..hosts).map(move |host| (peer, host))) {
            let to = (host + peer) % hosts;
            let (a, b) = (host / per, to / per);
            let mut way = vec![(host, 1), (hosts + to, 1)];
            if a != b {
                let spine = (host * 7 + to * 3 + host * to) % spines;
                way.extend([
                    (2 * hosts + a * spines + spine, 1),
                    (2 * hosts + (leaves + b) * spines + spine, 1),
                ]);
            }
            let bundle = sharing.open(&way, 1, 0);
            sharing.start(Time(0), bundle, Bytes(8192), bundle);
            ways.push(way);
        }
        let mut now = Time(0);
        loop {
            sharing.settle(now);
            sharing.audit();
            assert!(sharing.looks() < 1_000_000, "it does not end");
            let Some(next) = sharing.next() else { break };
            now = next;
            sharing.finish(now, |_| {}, |_| {});
        }
    }
}
