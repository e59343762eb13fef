//! Jobs in which ranks connect when they first need it: they connect only with those that their plans need, and faults are
//! found as in other jobs.

use super::*;
use syncline_membership::dialing::{Dials, PeerLane};
use syncline_protocol::lane::WantedPeer;

/// The connections that ranks make.
#[derive(Debug)]
pub(super) struct OnDemand {
    /// By rank.
    dials: Vec<Dials>,
    /// The pairs of ranks that are connected, the lower one first.
    connected: BTreeSet<(u32, u32)>,
}

fn lane(rank: u32) -> PeerLane {
    PeerLane { rank, lane: 0 }
}

impl OnDemand {
    pub(super) fn new(ranks: u32) -> Self {
        let dials = (0..ranks).map(|rank| Dials::new(rank, Patience::default().silence)).collect();
        Self { dials, connected: BTreeSet::new() }
    }

    /// Connects the ranks that need it. Hosts that are blocked do not answer, and processes that do not run answer nothing.
    pub(super) fn advance(&mut self, world: &mut World) {
        let now = world.network.now();
        for rank in 0..world.ranks {
            if !world.network.runs(rank as usize) || world.rank(rank).verdict.is_some() {
                continue;
            }
            let state = world.rank(rank);
            while let Some(WantedPeer { peer, sends }) = state.lane.next_wanted() {
                let delay = if sends { Duration::ZERO } else { Patience::default().interval };
                self.dials[rank as usize].want(lane(peer), now + delay);
            }
            for PeerLane { rank: peer, .. } in self.dials[rank as usize].due(now) {
                let blocked = |pair| world.blocked.contains(&pair);
                if blocked((rank, peer)) || blocked((peer, rank)) {
                    continue;
                }
                self.dials[rank as usize].answered(lane(peer));
                if world.network.runs(peer as usize) {
                    self.dials[peer as usize].may_accept(lane(rank)).unwrap();
                    self.connect(world, rank, peer);
                }
            }
            for (PeerLane { rank: peer, .. }, _) in self.dials[rank as usize].overdue(now) {
                let trouble = Trouble { kind: FaultKind::Silent, what: "could not be connected".to_owned() };
                let closed = world.rank(rank).trouble(peer, trouble, now);
                closed.into_iter().for_each(|peer| world.network.close_end((rank as usize, peer)));
            }
        }
    }

    fn connect(&mut self, world: &mut World, a: u32, b: u32) {
        let now = world.network.now();
        world.network.join([(a as usize, b), (b as usize, a)]);
        for (rank, peer) in [(a, b), (b, a)] {
            self.dials[rank as usize].connected(lane(peer));
            let state = world.rank(rank);
            state.lane.connected(peer);
            state.heartbeats.join(peer as usize, now);
            state.heartbeats.heard(peer as usize, now);
            state.lane.send_heartbeat(peer);
        }
        assert!(self.connected.insert((a.min(b), a.max(b))), "ranks {a} and {b} are connected twice");
    }
}

/// Runs three operations in a job of many ranks. Returns the number of pairs of ranks that are connected then.
fn pairs_after_three_operations(ranks: u32, plan: &str) -> usize {
    const STEPS: u64 = 3;
    let mut world = World::on_demand(ranks, plan, 5, STEPS);
    // Results are compared as they are finished.
    let over = |world: &mut World| (0..ranks).all(|rank| world.rank(rank).over == STEPS);
    world.run_until(Duration::from_secs(120), over);
    assert!(over(&mut world), "{plan}: after {:?}", world.network.now());
    world.on_demand.unwrap().connected.len()
}

/// Injects faults into jobs of many ranks: each in its own job, at a different moment.
fn many_on_demand(ranks: u32) {
    use InjectedFault::{BothWays, CutOff, Deaf, Killed, Mishap as Bytes, Mute, OneWay, Reset, Stopped};
    let last = ranks - 1;
    let faults = [
        // Before the first connection.
        (BothWays { a: 3, b: 4 }, "ring", 0),
        (OneWay { from: last, to: last - 1 }, "ring", 0),
        (Stopped(7), "halving_doubling", 0),
        // Later.
        (Killed(last / 2), "halving_doubling", 300),
        (Stopped(7), "ring", 400),
        (Killed(0), "two_level(group=8)", 350),
        (OneWay { from: last, to: 0 }, "ring", 450),
        (BothWays { a: 3, b: 4 }, "ring", 500),
        (CutOff(9), "two_level(group=8)", 550),
        (Deaf(last), "ring", 600),
        (Mute(0), "halving_doubling", 650),
        (Reset { a: 1, b: 2 }, "ring", 700),
        (Bytes(Mishap::Drop), "ring", 750),
    ];
    for (seed, (fault, plan, at)) in (0u64..).zip(faults) {
        let mut world = World::on_demand(ranks, plan, seed, u64::MAX);
        let outcome = check_in(&mut world, Duration::from_millis(at), fault);
        assert!(outcome.is_ok(), "{fault:?} under {plan}: {outcome:?}");
    }
}

#[test]
fn ranks_connect_only_with_those_that_plans_need() {
    for (ranks, plan, pairs) in [
        (64, "ring", 64),
        // Every rank has a partner in each of six rounds.
        (64, "halving_doubling", 64 * 6 / 2),
        (16, "direct", 16 * 15 / 2),
    ] {
        assert_eq!(pairs_after_three_operations(ranks, plan), pairs, "{plan}");
    }
}

/// Fault: the network between two ranks carries nothing from the moment on at which they have connected -> all name that link within 2 s
#[test]
fn a_link_that_is_cut_when_it_was_just_made_is_named() {
    let mut world = World::on_demand(8, "ring", 1, u64::MAX);
    let made = |world: &mut World| {
        world.on_demand.as_ref().is_some_and(|on_demand| on_demand.connected.contains(&(3, 4)))
    };
    world.run_until(Duration::from_secs(10), made);
    assert!(made(&mut world));
    let outcome = check_in(&mut world, Duration::ZERO, InjectedFault::BothWays { a: 3, b: 4 });
    assert!(outcome.is_ok(), "{outcome:?}");
}

#[test]
#[ignore = "takes a minute: make test-worlds"]
fn of_512_ranks_only_those_connect_that_plans_need() {
    assert_eq!(pairs_after_three_operations(512, "ring"), 512);
    // A partner in each of nine rounds, except in those in which there is nothing to send: a vector has 1,000 elements.
    let pairs = pairs_after_three_operations(512, "halving_doubling");
    assert!((512..=512 * 9 / 2).contains(&pairs), "{pairs}");
}

/// Fault: any of these in a job of 64 ranks that connect when they first need it -> the same result, within the same time; a peer that cannot be reached is named as one that was cut off
#[test]
fn faults_in_jobs_that_connect_on_demand_are_found_in_the_same_time() {
    many_on_demand(64);
}

/// Fault: any of these in a job of 512 ranks that connect when they first need it -> the same result, within the same time
#[test]
#[ignore = "takes minutes: make test-worlds"]
fn faults_in_jobs_of_512_ranks_that_connect_on_demand_are_found_in_the_same_time() {
    many_on_demand(512);
}
