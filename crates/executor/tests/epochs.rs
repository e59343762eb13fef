//! Elastic jobs that begin new epochs after ranks are lost or come back.

use crate::lending::Lent;
use crate::members::{self, WAIT, all_reduce, are, book, enter, free_port, place, settings, vector};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};
use syncline_executor::pending::Pending;
use syncline_executor::session::Session;
use syncline_membership::join_error::JoinError;
use syncline_membership::member_settings::{Interface, MemberSettings};
use syncline_protocol::fault::Blame;
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::memory::Buffer;
use syncline_protocol::settings::Settings;

const AT_ONCE: Duration = Duration::ZERO;

fn elastic(rank: u32, world: u32, port: u16) -> MemberSettings {
    MemberSettings { elastic: true, ..place(rank, world, port) }
}

fn meet(world: u32) -> (u16, Vec<Session>) {
    let port = free_port();
    (port, members::meet((0..world).map(|rank| elastic(rank, world, port)).collect(), settings()))
}

/// Calls `renew` on all members at the same time.
fn renew(members: Vec<Session>, patience: Duration) -> Vec<Result<Session, JoinError>> {
    let renewed: Vec<_> = members
        .into_iter()
        .map(|member| thread::spawn(move || member.renew(&mut book, patience, &mut || true)))
        .collect();
    renewed.into_iter().map(|member| member.join().unwrap()).collect()
}

fn all(members: Vec<Result<Session, JoinError>>) -> Vec<Session> {
    members.into_iter().map(Result::unwrap).collect()
}

const ELEMENTS: usize = 20_000;

fn buffers(members: &[Session]) -> Vec<Buffer> {
    let name = |member: &Session| member.ranks()[member.book().member() as usize];
    members.iter().map(|member| vector(1.0 + name(member) as f32, ELEMENTS)).collect()
}

fn begin(members: &[Session], buffers: &mut [Buffer]) -> Vec<Pending> {
    let each = members.iter().zip(buffers);
    each.map(|(member, buffer)| {
        let region = buffer.region();
        member.begin(&all_reduce(ELEMENTS as u64), region, region, true).unwrap()
    })
    .collect()
}

/// Checks that an all-reduce of the members sums their original ranks plus one.
fn sums(members: &[Session]) {
    let mut buffers = buffers(members);
    for pending in begin(members, &mut buffers) {
        assert_eq!(pending.wait(WAIT), Some(Ok(())));
    }
    let sum: u32 = members[0].ranks().iter().map(|rank| rank + 1).sum();
    assert!(buffers.iter().all(|buffer| are(buffer, sum as f32)), "of {:?}", members[0].ranks());
}

#[test]
fn survivors_begin_a_new_epoch_with_restored_inputs() {
    let (_, mut members) = meet(4);
    sums(&members);
    let lost = members.remove(2);
    let mut buffers = buffers(&members);
    let pending = begin(&members, &mut buffers);
    drop(lost);
    for pending in pending {
        assert_eq!(pending.wait(WAIT).unwrap().unwrap_err().blame, Blame::Rank(2));
    }
    assert!(members.iter().zip(&buffers).all(|(member, buffer)| {
        are(buffer, 1.0 + member.ranks()[member.book().member() as usize] as f32)
    }));
    let members = all(renew(members, AT_ONCE));
    assert!(members.iter().all(|member| member.ranks() == [0, 1, 3] && member.epoch() == 1));
    sums(&members);
}

#[test]
fn faults_in_a_later_epoch_name_ranks_by_their_original_numbers() {
    let (_, mut members) = meet(4);
    drop(members.remove(1));
    let mut members = all(renew(members, AT_ONCE));
    let lost = members.pop().unwrap();
    let mut buffers = buffers(&members);
    let pending = begin(&members, &mut buffers);
    drop(lost);
    for pending in pending {
        assert_eq!(pending.wait(WAIT).unwrap().unwrap_err().blame, Blame::Rank(3));
    }
    let members = all(renew(members, AT_ONCE));
    assert!(members.iter().all(|member| member.ranks() == [0, 2] && member.epoch() == 2));
    sums(&members);
}

#[test]
fn a_single_survivor_begins_a_new_epoch() {
    let (_, mut members) = meet(3);
    members.truncate(1);
    let members = all(renew(members, AT_ONCE));
    assert_eq!(members[0].ranks(), [0]);
    sums(&members);
}

#[test]
fn survivors_wait_for_a_rank_that_comes_back() {
    let (port, mut members) = meet(3);
    drop(members.remove(1));
    let back = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        enter(elastic(1, 3, port), settings()).join().unwrap()
    });
    let mut members = all(renew(members, WAIT));
    members.insert(1, back.join().unwrap().unwrap());
    assert!(members.iter().all(|member| member.ranks() == [0, 1, 2] && member.epoch() == 1));
    sums(&members);
}

#[test]
fn a_rank_that_comes_back_late_joins_the_next_epoch() {
    let (port, mut members) = meet(3);
    drop(members.remove(2));
    let members = all(renew(members, AT_ONCE));
    let back = enter(elastic(2, 3, port), settings());
    let began = Instant::now();
    while members.iter().any(|member| member.waiting() != [2]) {
        assert!(began.elapsed() < WAIT, "members do not learn that rank 2 waits");
        sums(&members);
    }
    let mut members = all(renew(members, AT_ONCE));
    members.push(back.join().unwrap().unwrap());
    assert!(members.iter().all(|member| member.ranks() == [0, 1, 2] && member.epoch() == 2));
    sums(&members);
}

#[test]
fn a_newcomer_gives_up_if_no_epoch_begins() {
    let (port, mut members) = meet(2);
    drop(members.pop());
    let members = all(renew(members, AT_ONCE));
    let hasty = MemberSettings { wait: Duration::from_millis(300), ..elastic(1, 2, port) };
    let why = enter(hasty, settings()).join().unwrap().unwrap_err().why;
    assert!(why.contains("the running ranks did not begin a new epoch"), "{why}");
    sums(&members);
}

#[test]
fn a_rank_that_does_not_ask_for_the_next_epoch_is_left_behind() {
    let port = free_port();
    let hasty = |rank| MemberSettings { wait: Duration::from_secs(1), ..elastic(rank, 3, port) };
    let mut members = members::meet((0..3).map(hasty).collect(), settings());
    let slow = members.remove(1);
    let members = all(renew(members, AT_ONCE));
    assert_eq!(members[0].ranks(), [0, 2]);
    sums(&members);
    let why = renew(vec![slow], AT_ONCE).pop().unwrap().unwrap_err().why;
    assert!(why.contains("did not ask for the next epoch"), "{why}");
}

#[test]
fn another_rank_coordinates_when_the_coordinator_is_gone() {
    let (_, mut members) = meet(4);
    for (epoch, left) in [(1, vec![1, 2, 3]), (2, vec![2, 3]), (3, vec![3])] {
        let lost = members.remove(0);
        let mut buffers = buffers(&members);
        let pending = begin(&members, &mut buffers);
        drop(lost);
        assert!(pending.into_iter().all(|pending| pending.wait(WAIT).unwrap().is_err()));
        members = all(renew(members, AT_ONCE));
        assert!(members.iter().all(|member| member.ranks() == left && member.epoch() == epoch));
        assert!(members[0].coordinates_at().is_some());
        sums(&members);
    }
}

#[test]
fn a_lost_coordinator_that_is_started_again_joins_the_running_job() {
    let (port, mut members) = meet(3);
    drop(members.remove(0));
    let members = all(renew(members, AT_ONCE));
    let back = enter(elastic(0, 3, port), settings());
    let began = Instant::now();
    while members.iter().any(|member| member.waiting() != [0]) {
        assert!(began.elapsed() < WAIT, "members do not learn that rank 0 waits");
        sums(&members);
    }
    let mut members = all(renew(members, AT_ONCE));
    members.insert(0, back.join().unwrap().unwrap());
    assert!(members.iter().all(|member| member.ranks() == [0, 1, 2] && member.epoch() == 2));
    sums(&members);
    // Rank 0 tells others where the coordinator is, and takes over when that is lost.
    drop(members.remove(2));
    let members = all(renew(members, AT_ONCE));
    let back = enter(elastic(2, 3, port), settings());
    while members.iter().any(|member| member.waiting() != [2]) {
        assert!(began.elapsed() < WAIT, "members do not learn that rank 2 waits");
        sums(&members);
    }
    let mut members = all(renew(members, AT_ONCE));
    members.push(back.join().unwrap().unwrap());
    drop(members.remove(1));
    let members = all(renew(members, AT_ONCE));
    assert!(members.iter().all(|member| member.ranks() == [0, 2] && member.epoch() == 5));
    assert!(members[0].coordinates_at().is_some());
    sums(&members);
}

#[test]
fn ranks_wait_until_the_next_coordinator_looks_for_the_lost_one() {
    let (port, patience) = (free_port(), hasty());
    let mut members = members::meet((0..3).map(|rank| elastic(rank, 3, port)).collect(), patience);
    drop(members.remove(0));
    // Rank 1 still computes.
    let slow = members.remove(0);
    let first = thread::spawn(move || renew(members, AT_ONCE));
    thread::sleep(4 * patience.patience.silence + Duration::from_secs(1));
    let mut members = all(renew(vec![slow], AT_ONCE));
    members.extend(all(first.join().unwrap()));
    assert!(members.iter().all(|member| member.ranks() == [1, 2]));
    sums(&members);
}

/// Settings with which a silent rank is lost soon.
fn hasty() -> Settings {
    let patience = Patience { interval: Duration::from_millis(100), silence: Duration::from_millis(500) };
    Settings { patience, ..settings() }
}

#[test]
fn a_survivor_does_not_wait_for_others_that_were_lost_with_the_coordinator() {
    let (_, mut members) = meet(4);
    let last = members.pop();
    let survivor = members.remove(1);
    drop((members, last));
    let members = all(renew(vec![survivor], AT_ONCE));
    assert_eq!(members[0].ranks(), [1]);
    sums(&members);
}

#[test]
fn a_rank_that_waits_at_a_coordinator_that_is_lost_finds_the_next_one() {
    let (port, mut members) = meet(3);
    drop(members.remove(0));
    let mut members = all(renew(members, AT_ONCE));
    let back = enter(elastic(0, 3, port), settings());
    let began = Instant::now();
    let waits = |members: &[Session]| {
        while members.iter().any(|member| member.waiting() != [0]) {
            assert!(began.elapsed() < WAIT && !back.is_finished(), "members do not learn that rank 0 waits");
            sums(members);
        }
    };
    waits(&members);
    drop(members.remove(0));
    let mut members = all(renew(members, AT_ONCE));
    if members[0].ranks() == [2] {
        waits(&members);
        members = all(renew(members, AT_ONCE));
    }
    members.insert(0, back.join().unwrap().unwrap());
    assert!(members.iter().all(|member| member.ranks() == [0, 2]));
    sums(&members);
}

#[test]
fn a_rank_takes_over_that_cannot_reach_itself_where_others_do() {
    let port = free_port();
    // As behind NAT: nobody listens there.
    let [listen, advertised] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
    let behind = MemberSettings { interfaces: vec![Interface { listen, advertised }], ..elastic(1, 2, port) };
    let mut members = members::meet(vec![elastic(0, 2, port), behind], settings());
    drop(members.remove(0));
    let members = all(renew(members, AT_ONCE));
    assert_eq!(members[0].ranks(), [1]);
    sums(&members);
}

#[test]
fn a_job_has_one_epoch_if_it_is_not_elastic_or_lost_an_input() {
    let port = free_port();
    let members = members::meet((0..2).map(|rank| place(rank, 2, port)).collect(), settings());
    let error = renew(members, AT_ONCE).pop().unwrap().unwrap_err();
    assert!(error.invalid && error.why.contains("not elastic"), "{error}");

    let (_, mut members) = meet(2);
    let mut buffer = vector(1.0, ELEMENTS);
    let region = buffer.region();
    let pending = members[0].begin(&all_reduce(ELEMENTS as u64), region, region, false).unwrap();
    drop(members.pop());
    assert!(pending.wait(WAIT).unwrap().is_err());
    let error = renew(members, AT_ONCE).pop().unwrap().unwrap_err();
    assert!(error.invalid && error.why.contains("is lost"), "{error}");
}

#[test]
fn epochs_follow_each_other_while_operations_are_under_way() {
    let (_, mut members) = meet(3);
    for epoch in 1..=5 {
        let mut left = buffers(&members);
        // One member begins an operation that the others never begin.
        let pending = begin(&members[..1], &mut left[..1]);
        members = all(renew(members, AT_ONCE));
        assert!(pending.into_iter().all(|pending| pending.wait(WAIT).unwrap().is_err()));
        assert!(members.iter().all(|member| member.epoch() == epoch && member.ranks().len() == 3));
        sums(&members);
    }
}

#[test]
fn plans_may_change_with_the_epoch() {
    use syncline_plan::by_name;
    use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
    let (_, members) = meet(4);
    let renewed: Vec<_> = members
        .into_iter()
        .map(|member| {
            thread::spawn(move || {
                let mut other = |seat: u32, ranks: &[u32]| {
                    let algorithm = by_name("halving_doubling")?;
                    let kind = syncline_units::CollectiveKind::AllReduce;
                    let rules = vec![Rule::new(kind, algorithm, 16 << 10)];
                    PlanBook::new(
                        seat,
                        ranks.len() as u32,
                        Selection::of((0..ranks.len() as u32).rev().collect(), rules),
                    )
                };
                member.renew(&mut other, AT_ONCE, &mut || true)
            })
        })
        .collect();
    sums(&all(renewed.into_iter().map(|member| member.join().unwrap()).collect()));
}

#[test]
fn a_rank_that_is_restarted_before_it_is_lost_waits_for_its_place() {
    let (port, mut members) = meet(3);
    let slow = members.remove(1);
    let back = enter(elastic(1, 3, port), settings());
    thread::sleep(Duration::from_millis(300));
    assert!(!back.is_finished(), "its place is still taken");
    drop(slow);
    let mut members = all(renew(members, WAIT));
    members.insert(1, back.join().unwrap().unwrap());
    sums(&members);
}
