//! Compares sharing with small independent solvers.
//!
//! - here: rates after every step of random arrivals, against a solver that fills links step by step, and an
//!   audit of the incrementally updated state;
//! - `ends`: when messages are complete, against a fluid simulation of queues;
//! - `by_hand`: connections whose rates and ends are known.

mod by_hand;
mod ends;

use super::ceilings::{ceiling, has_room};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

impl Sharing {
    /// Checks the incrementally updated state against its definition.
    fn audit(&self) {
        assert!(self.opened.is_empty() && self.idle.is_empty() && self.touched.is_empty());
        for (at, node) in (0u32..).zip(&self.nodes) {
            let (level, held) = (self.shares.level(at), self.held[at as usize] as usize);
            let marks = self.shares.marks(at);
            assert!(!marks.queued && !marks.touched && !marks.crossed && !marks.stale && !marks.fresh);
            let (mut load, mut sharers, mut ceilings, mut next) = (0, 0, 0, u128::MAX);
            for (place, member) in node.members.iter().enumerate() {
                let number = member.connection;
                let (path, hop) = (self.paths.path(number), self.paths.hop(number, at));
                let (has, takes) = (self.has(number), u64::from(member.takes));
                let leading = self.paths.followed(number).iter().map(|hop| hop.node);
                assert!(
                    !self.connections[number as usize].is_idle(),
                    "connections without messages are closed"
                );
                assert_eq!((hop.place as usize, hop.usage), (place, member.takes));
                assert_eq!(path.bottleneck == at, place < held);
                assert_eq!(leading.clone().any(|other| other == at), marks.followed);
                if marks.followed {
                    assert_eq!(member.bottleneck, path.bottleneck);
                    let others = self.elsewhere(member).filter(|&other| other != at);
                    assert!(others.eq(leading.filter(|&other| other != at)));
                    assert!(
                        path.bottleneck == at || has <= self.shares.top(at),
                        "node {at}: {has} above {}",
                        self.shares.top(at)
                    );
                }
                assert!(has <= level);
                load += takes * has;
                sharers += if has == level { takes } else { 0 };
                ceilings += u128::from(takes) * u128::from(ceiling(has));
                if place < held {
                    next = next.min(self.connections[number as usize].first());
                }
            }
            assert_eq!(node.next, next, "node {at}: the next message to be complete");
            assert_eq!(
                self.ends.get(at) == NEVER,
                next == u128::MAX || level == 0,
                "node {at}: its end is scheduled"
            );
            let capacity = self.shares.capacity(at);
            if marks.followed {
                let left = capacity - load.cast_signed();
                assert_eq!(self.shares.counted(at), (left, sharers), "node {at}");
            }
            if self.shares.classes() == 1 {
                assert_eq!(self.ceilings[at as usize], ceilings);
                assert!(marks.followed || has_room(ceilings, capacity));
            }
        }
    }
}

/// A connection of the small solvers: its links with what it takes of each, in whole connections; weight;
/// class.
#[derive(Clone, Debug)]
struct Plain {
    path: Vec<(u32, u32)>,
    weight: u32,
    class: u32,
}

impl Plain {
    /// Opens it in the sharing under test.
    fn open(&self, sharing: &mut Sharing) -> u32 {
        let parts = PARTS / sharing.whole();
        let path: Vec<(u32, u32)> = self.path.iter().map(|&(link, usage)| (link, usage / parts)).collect();
        sharing.open(&path, self.weight, self.class)
    }
}

/// Finds max-min fair rates by progressive filling (Bertsekas and Gallager, 6.5.2), in floating point: all
/// rates that nothing holds back rise together until a link is full.
fn filled(capacities: &[f64], connections: &[&Plain]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![0.0; connections.len()];
    let classes = connections.iter().map(|each| each.class).max().unwrap_or(0);
    for class in 0..=classes {
        let mut rising: Vec<usize> =
            (0..connections.len()).filter(|&at| connections[at].class == class).collect();
        while !rising.is_empty() {
            let mut usage = vec![0.0; left.len()];
            for &at in &rising {
                for &(link, parts) in &connections[at].path {
                    usage[link as usize] +=
                        f64::from(connections[at].weight) * f64::from(parts) / f64::from(PARTS);
                }
            }
            let step = (0..left.len())
                .filter(|&link| usage[link] > 0.0)
                .map(|link| (left[link].max(0.0) / usage[link], link))
                .min_by(|a, b| a.partial_cmp(b).unwrap())
                .unwrap();
            for &at in &rising {
                rates[at] += step.0 * f64::from(connections[at].weight);
            }
            for link in 0..left.len() {
                left[link] -= step.0 * usage[link];
            }
            left[step.1] = 0.0;
            rising.retain(|&at| {
                connections[at]
                    .path
                    .iter()
                    .all(|&(link, _)| left[link as usize] > 1e-9 * capacities[link as usize])
            });
        }
    }
    rates
}

#[derive(Clone, Debug)]
enum Step {
    /// A connection is opened by a message.
    Open(Plain, u64),
    /// Another message arrives on an open connection.
    Append(prop::sample::Index, u64),
    /// The messages that complete next are removed. Connections that are then idle may get another message at
    /// once.
    Go(Option<u64>),
    /// Time passes, but no message completes.
    Wait(u8),
}

fn any_connection(links: u32, classes: u32, split: bool) -> impl Strategy<Value = Plain> {
    // The rounding error on a link of which a message takes little is multiplied on one that it takes whole.
    let parts = if split { vec![PARTS, PARTS / 2, PARTS / 3, PARTS / 16] } else { vec![PARTS] };
    let parts = prop::sample::select(parts);
    let path = prop::collection::btree_map(0..links, parts, 1..=(links.min(5) as usize));
    (path, 1u32..4, 0..classes).prop_map(|(path, weight, class)| Plain {
        path: path.into_iter().collect(),
        weight,
        class,
    })
}

fn steps(classes: u32, split: bool) -> impl Strategy<Value = (Vec<u64>, Vec<Step>)> {
    crowded(0, classes, split)
}

/// Steps after this many connections were opened: with many on similar links, most changes are small.
fn crowded(crowd: usize, classes: u32, split: bool) -> impl Strategy<Value = (Vec<u64>, Vec<Step>)> {
    let rates = if crowd == 0 { vec![10u64, 25, 40, 100, 400] } else { vec![97, 100, 101, 110] };
    prop::collection::vec(prop::sample::select(rates), 1..9).prop_flat_map(move |rates| {
        let bytes = || 1u64..100_000;
        let open = (any_connection(rates.len() as u32, classes, split), bytes())
            .prop_map(|(connection, bytes)| Step::Open(connection, bytes))
            .boxed();
        let first = prop::collection::vec(open.clone(), crowd);
        let append = (any::<prop::sample::Index>(), bytes()).prop_map(|(at, bytes)| Step::Append(at, bytes));
        let go = prop::option::weighted(0.3, bytes()).prop_map(Step::Go);
        let wait = any::<u8>().prop_map(Step::Wait);
        let step = prop_oneof![5 => open, 3 => append, 4 => go, 1 => wait];
        let rates = rates.into_iter().map(|rate| rate * 1_000_000_000).collect();
        let all = (first, prop::collection::vec(step, 1..40));
        (Just(rates), all.prop_map(|(first, steps)| [first, steps].concat()))
    })
}

/// Runs steps, and compares all rates after each.
fn play(rates: &[u64], steps: &[Step], classes: u32, split: bool) -> Result<(), TestCaseError> {
    let mut sharing = Sharing::new(rates.iter().map(|&rate| Rate(rate)), classes, split, None);
    let capacities: Vec<f64> = rates.iter().map(|&rate| rate as f64).collect();
    // By number: the connection, and its messages in order.
    let mut live: BTreeMap<u32, (Plain, VecDeque<u32>)> = BTreeMap::new();
    let mut carried: BTreeMap<u32, u128> = BTreeMap::new();
    let (mut now, mut message) = (Time(0), 0);
    let mut last = Step::Go(None);
    let ending = std::iter::repeat_n(Step::Go(None), 2 * steps.len() + 1);
    for step in steps.iter().cloned().chain(ending) {
        // Connections that get a message of `size` bytes.
        let (mut get, mut size) = (Vec::new(), 0);
        match step.clone() {
            Step::Open(plain, bytes) => {
                let number = plain.open(&mut sharing);
                prop_assert!(live.insert(number, (plain, VecDeque::new())).is_none());
                (get, size) = (vec![number], bytes);
            }
            Step::Append(at, bytes) if !live.is_empty() => {
                (get, size) = (vec![*at.get(&live.keys().copied().collect::<Vec<_>>())], bytes);
            }
            Step::Append(..) => continue,
            Step::Go(again) => {
                let Some(next) = sharing.next() else {
                    prop_assert!(live.is_empty(), "{} connections never end", live.len());
                    continue;
                };
                prop_assert!(next >= now);
                now = next;
                let mut gone = Vec::new();
                sharing.finish(now, |message| gone.push(message));
                prop_assert!(!gone.is_empty(), "a message is complete at {now}");
                for message in gone {
                    let of = live.iter_mut().find(|(_, (_, queue))| queue.front() == Some(&message));
                    let Some((&number, (_, queue))) = of else {
                        return Err(TestCaseError::fail(format!(
                            "{message} is not the first of its connection"
                        )));
                    };
                    queue.pop_front();
                    if queue.is_empty() && again.is_some() {
                        get.push(number);
                    }
                }
                size = again.unwrap_or_default();
            }
            Step::Wait(part) => {
                if let Some(next) = sharing.next() {
                    now = Time(now.0 + (next.0 - now.0) * u64::from(part) / 256);
                }
            }
        }
        for number in get {
            let (plain, queue) = live.get_mut(&number).unwrap();
            prop_assert_eq!(sharing.start(now, number, Bytes(size), message), !queue.is_empty());
            queue.push_back(message);
            for &(link, parts) in &plain.path {
                *carried.entry(link).or_default() += u128::from(size) * 8 * BIT * u128::from(parts);
            }
            message += 1;
        }
        let mut closed = Vec::new();
        sharing.settle(now, |number| closed.push(number));
        for number in closed {
            let (_, queue) = live.remove(&number).unwrap();
            prop_assert!(queue.is_empty(), "only connections without messages are closed");
        }
        sharing.audit();
        let connections: Vec<&Plain> = live.values().map(|(plain, _)| plain).collect();
        let expected = filled(&capacities, &connections);
        for ((number, (plain, _)), expected) in live.iter().zip(expected) {
            let rate = sharing.rate(*number) as f64 / f64::from(1 << UNIT);
            let taken = |&(link, parts): &(u32, u32)| {
                (rate - expected).abs() * f64::from(parts) / f64::from(PARTS) / capacities[link as usize]
            };
            let apart = plain.path.iter().map(taken).fold(0.0, f64::max);
            prop_assert!(
                apart <= if split { 1e-4 } else { 1e-9 },
                "{plain:?} has {rate}, not {expected}, after {step:?}; before it {last:?}"
            );
        }
        for (link, &rate) in rates.iter().enumerate() {
            let load: u64 = (0..classes).map(|class| sharing.load(link as u32, class)).sum();
            prop_assert!(load <= rate << UNIT, "no link carries more than it can");
        }
        last = step;
    }
    prop_assert!(live.is_empty());
    // Bytes are conserved: a complete message received what it asked for, and at most a picosecond's worth
    // more.
    for (link, expected) in carried {
        let got = sharing.carried(link) * u128::from(PARTS);
        let spare = u128::from(message) * u128::from(rates[link as usize] << UNIT) * u128::from(PARTS) * 2;
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
    fn rates_are_max_min_fair_over_several_paths((rates, steps) in steps(1, true)) {
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
    fn rates_of_classes_are_max_min_fair_in_a_crowd((rates, steps) in crowded(150, 2, true)) {
        play(&rates, &steps, 2, true)?;
    }
}
