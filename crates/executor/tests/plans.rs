//! Plans that change while members run operations.

use crate::lending::Lent;
use crate::members::{self, WAIT, all_reduce, are, free_port, place, settings, vector};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use syncline_executor::group::Group;
use syncline_executor::pending::Pending;
use syncline_executor::session::Session;
use syncline_protocol::memory::Buffer;
use syncline_protocol::policy::{NamedRule, NearFarNetwork, PlanPolicy};
use syncline_units::CollectiveKind;

fn policy(algorithm: &str, order: Vec<u32>) -> PlanPolicy {
    let rule = NamedRule {
        kind: CollectiveKind::AllReduce,
        above: 0,
        up_to: None,
        algorithm: algorithm.to_owned(),
        file: None,
        by_rack: false,
        message: 4 << 10,
        lanes: None,
        window: None,
    };
    let network = NearFarNetwork {
        near_bytes_per_s: 1 << 30,
        far_bytes_per_s: 1 << 30,
        latency_ns: 30_000,
        message_ns: 15_000,
        buffer: 1 << 16,
    };
    PlanPolicy { order, racks: None, rules: vec![rule], network }
}

fn meet(world: u32) -> Vec<Session> {
    let port = free_port();
    members::meet((0..world).map(|rank| place(rank, world, port)).collect(), settings())
}

/// Runs all-reduces of several sizes, several at a time, and checks their sums. Rank `rank` of `ranks` contributes its
/// number plus that of the operation.
fn run(group: &Group, rank: u32, ranks: u32, operations: u32) {
    let mut under_way = VecDeque::new();
    let finish = |(number, pending, buffer): (u32, Pending, Buffer)| {
        assert_eq!(pending.wait(WAIT), Some(Ok(())), "operation {number}");
        let sum = ranks * (ranks - 1) / 2 + ranks * number;
        assert!(are(&buffer, sum as f32), "operation {number}");
    };
    for number in 0..operations {
        let elements = [1, 300, 5000, 40_000][number as usize % 4];
        let mut buffer = vector((rank + number) as f32, elements);
        let region = buffer.region();
        let pending = group.begin(&all_reduce(elements as u64), region, region, false).unwrap();
        under_way.push_back((number, pending, buffer));
        if under_way.len() > 8 {
            finish(under_way.pop_front().unwrap());
        }
    }
    under_way.into_iter().for_each(finish);
}

fn propose(group: &Group, policy: PlanPolicy) -> Result<u64, String> {
    let decision = group.propose_plans(policy).unwrap();
    decision.recv_timeout(WAIT).unwrap().outcome
}

#[test]
fn plans_change_while_operations_run() {
    const RANKS: u32 = 4;
    let all = meet(RANKS);
    let done = AtomicBool::new(false);
    let (adopted, kept) = thread::scope(|scope| {
        let workers: Vec<_> = (0..)
            .zip(&all)
            .map(|(rank, member)| scope.spawn(move || run(member, rank, RANKS, 1500)))
            .collect();
        // Two ranks propose at the same time, so some proposals are refused.
        let proposers = [0, 2].map(|rank: usize| {
            let (member, done) = (&all[rank], &done);
            scope.spawn(move || {
                let plans = ["ring", "direct", "halving_doubling", "tree(fan_out=2)", "two_level(group=2)"];
                let orders = [vec![0, 1, 2, 3], vec![3, 1, 0, 2], vec![2, 3, 1, 0]];
                let mut outcomes = Vec::new();
                for turn in rank.. {
                    if done.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut policy = policy(plans[turn % plans.len()], orders[turn % orders.len()].clone());
                    policy.rules[0].lanes = [None, Some(1), Some(2), Some(9)][turn % 4];
                    policy.rules[0].window = [None, Some(1), Some(4 << 20)][turn % 3];
                    outcomes.push(propose(member, policy));
                }
                outcomes
            })
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        done.store(true, Ordering::Relaxed);
        let outcomes = proposers.into_iter().flat_map(|proposer| proposer.join().unwrap());
        outcomes.partition::<Vec<_>, _>(Result::is_ok)
    });
    assert!(adopted.len() > 10, "{} adopted, {} kept", adopted.len(), kept.len());
    assert!(kept.iter().all(|why| why.as_ref().is_err_and(|why| why.contains("has proposed other plans"))));
    // The last decision may still be on its way to some ranks.
    let agree = || all.iter().all(|member| member.plan_changes() == all[0].plan_changes());
    let began = Instant::now();
    while !agree() && began.elapsed() < WAIT {
        thread::sleep(Duration::from_millis(1));
    }
    // All ranks know the same changes, each from an operation after that of the change before.
    let changes = all[0].plan_changes();
    assert_eq!(changes.len(), adopted.len().min(1024));
    assert!(agree());
    assert!(changes.is_sorted_by(|a, b| a.outcome.as_ref().unwrap() < b.outcome.as_ref().unwrap()));
    assert!(changes.is_sorted_by(|a, b| a.edition < b.edition));
    assert!(all.iter().all(|member| member.adopted_plans() == all[0].adopted_plans()));
}

#[test]
fn ranks_keep_plans_that_one_cannot_replace() {
    let all = meet(3);
    for (plan, order, why) in [
        ("bcube(base=2)", vec![0, 1, 2], "cannot run the new plans: `bcube(base=2)` cannot run on 3 ranks"),
        (
            "ring",
            vec![0, 1, 1],
            "cannot run the new plans: the order of ranks does not have each rank once: [0, 1, 1]",
        ),
        ("rings", vec![0, 1, 2], "cannot run the new plans: there is no such algorithm: rings"),
    ] {
        let kept = propose(&all[1], policy(plan, order)).unwrap_err();
        assert!(kept.contains(why), "{kept}");
    }
    thread::scope(|scope| {
        (0..).zip(&all).for_each(|(rank, member)| _ = scope.spawn(move || run(member, rank, 3, 20)));
    });
    assert!(all.iter().all(|member| member.adopted_plans().is_none()));
    assert_eq!(all[1].plan_changes().len(), 3);
}

#[test]
fn a_group_changes_its_own_plans() {
    let all = meet(3);
    let groups = [2, 0].map(|rank: usize| {
        let place = u32::from(rank == 0);
        let plans = policy("ring", vec![0, 1]);
        let book = plans.book(place, &[0, 1], &mut Vec::new()).unwrap();
        all[rank].group(7, vec![2, 0], book, WAIT).unwrap()
    });
    let from = propose(&groups[1], policy("direct", vec![1, 0])).unwrap();
    assert!(from >= 1);
    thread::scope(|scope| {
        (0..).zip(&groups).for_each(|(rank, group)| _ = scope.spawn(move || run(group, rank, 2, 20)));
        (0..).zip(&all).for_each(|(rank, member)| _ = scope.spawn(move || run(member, rank, 3, 20)));
    });
    assert!(
        groups
            .iter()
            .all(|group| group.adopted_plans().map(|(_, plans)| plans) == Some(policy("direct", vec![1, 0])))
    );
    assert!(all.iter().all(|member| member.adopted_plans().is_none() && member.plan_changes().is_empty()));
    // A member that has left keeps the others from changing plans.
    let [left, stays] = groups;
    drop(left);
    let kept = propose(&stays, policy("ring", vec![0, 1])).unwrap_err();
    assert_eq!(kept, "rank 2 cannot run the new plans: it is not in the group");
}

#[test]
fn a_rank_that_does_not_answer_keeps_the_others_plans() {
    let mut all = meet(3);
    let lost = all.pop().unwrap();
    drop(lost);
    let outcome = all[0].propose_plans(policy("direct", vec![0, 1, 2])).unwrap().recv_timeout(WAIT).unwrap();
    assert_eq!(outcome.outcome, Err("rank 2 left the job".to_owned()));
}
