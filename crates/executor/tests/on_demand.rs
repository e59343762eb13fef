//! Jobs whose ranks connect when they first need it.
//!
//! `make test-many` also runs small all-reduces in as many processes as the variable `RANKS` says.

use crate::lending::Lent;
use crate::members::{self, WAIT, all_reduce, are, free_port, meet, place, settings, vector};
use crate::processes;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;
use std::time::{Duration, Instant};
use syncline_executor::group::TransferTag;
use syncline_executor::session::{Session, join};
use syncline_membership::member_settings::{MESH, MemberSettings};
use syncline_protocol::fault::{Blame, FaultKind};
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::FlowControl;
use syncline_protocol::memory::Buffer;
use syncline_protocol::settings::Settings;
use syncline_transport::certificates::Identity;
use syncline_transport::certificates::issue::issue;
use syncline_transport::trust::Trust;

const TAG: TransferTag = TransferTag { space: 0, tag: 7 };

/// Members that connect when they first need it.
fn on_demand(world: u32, shared_memory: bool) -> Vec<Session> {
    on_demand_with(world, shared_memory, &place(0, world, 0).trust)
}

/// Members that connect when they first need it, and authenticate each other in this way.
fn on_demand_with(world: u32, shared_memory: bool, trust: &Trust) -> Vec<Session> {
    let port = free_port();
    let place =
        |rank| MemberSettings { mesh: 0, shared_memory, trust: trust.clone(), ..place(rank, world, port) };
    meet((0..world).map(place).collect(), settings())
}

/// The ranks with which a member is connected.
fn peers(member: &Session) -> BTreeSet<u32> {
    member.traffic().read().into_iter().map(|signals| signals.peer).collect()
}

/// Runs an all-reduce of `elements` elements on all members.
fn sum(members: &[Session], elements: usize) {
    let mut buffers: Vec<Buffer> = members.iter().map(|_| vector(1.0, elements)).collect();
    let begin = |(member, buffer): (&Session, &mut Buffer)| {
        let region = buffer.region();
        member.begin(&all_reduce(elements as u64), region, region, false).unwrap()
    };
    let pending: Vec<_> = members.iter().zip(&mut buffers).map(begin).collect();
    pending.iter().for_each(|pending| pending.wait(WAIT).unwrap().unwrap());
    assert!(buffers.iter().all(|buffer| are(buffer, members.len() as f32)));
}

#[test]
fn ranks_connect_only_with_those_that_a_plan_needs() {
    for shared_memory in [false, true] {
        let members = on_demand(6, shared_memory);
        assert!(members.iter().all(|member| peers(member).is_empty()));
        // A ring of six ranks, on both lanes.
        sum(&members, 200_000);
        for (rank, member) in (0u32..).zip(&members) {
            let neighbours = BTreeSet::from([(rank + 5) % 6, (rank + 1) % 6]);
            assert_eq!(peers(member), neighbours, "rank {rank}");
            let transports = member.transports();
            let described: BTreeSet<u32> = (0u32..)
                .zip(&transports)
                .filter(|(_, words)| !words.is_empty())
                .map(|(rank, _)| rank)
                .collect();
            assert_eq!(described, neighbours, "{transports:?}");
            let expected = if shared_memory { "shared memory" } else { "TCP" };
            assert!(neighbours.iter().all(|&rank| transports[rank as usize] == expected), "{transports:?}");
        }
    }
}

#[test]
fn ranks_that_connect_to_each_other_at_the_same_time_have_one_connection() {
    let key = place(0, 8, 0).trust;
    let issued = issue(None, 0, 1).unwrap();
    let rank = issued.rank.unwrap();
    let identity = Identity::new(issued.ca.as_bytes(), rank.certificate.as_bytes(), rank.key.as_bytes());
    let tls = Trust::Tls(identity.unwrap());
    for (trust, shared, expected) in [
        (&key, true, "shared memory"),
        (&key, false, "TCP"),
        (&tls, true, "shared memory"),
        (&tls, false, "TLS"),
    ] {
        let members = on_demand_with(8, shared, trust);
        // All send to all others at the same time.
        let (mut pending, mut received) = (Vec::new(), Vec::new());
        let mut sent = vector(3.0, 100);
        for (rank, member) in (0u32..).zip(&members) {
            for other in (0..8).filter(|&other| other != rank) {
                let mut buffer = vector(0.0, 100);
                pending.push(member.receive(buffer.region(), Some(other), TAG).unwrap());
                pending.push(member.send(sent.region(), other, TAG).unwrap());
                received.push(buffer);
            }
        }
        pending.iter().for_each(|pending| pending.wait(WAIT).unwrap().unwrap());
        assert!(received.iter().all(|buffer| are(buffer, 3.0)));
        sum(&members, 100_000);
        for member in &members {
            let all = member.traffic().read();
            let once: BTreeSet<(u32, u32)> = all.iter().map(|signals| (signals.peer, signals.lane)).collect();
            assert_eq!((once.len(), peers(member).len()), (all.len(), 7));
            let transports = member.transports();
            assert!(transports.iter().all(|words| words.is_empty() || words == expected), "{transports:?}");
        }
    }
}

#[test]
fn a_message_arrives_although_its_sender_leaves_at_once() {
    for bytes in [0, 10, 1000] {
        let mut members = on_demand(4, false);
        let receiver = members.pop().unwrap();
        let mut sent = Buffer::new(bytes);
        let pending = members[1].send(sent.region(), 3, TAG).unwrap();
        let sender = members.remove(1);
        let leaves = thread::spawn(move || drop(sender));
        let mut received = Buffer::new(bytes);
        let receives = receiver.receive(received.region(), Some(1), TAG).unwrap();
        receives.wait(WAIT).unwrap().unwrap();
        // What was sent at once may have been given up when the sender left, although it has arrived.
        _ = pending.wait(WAIT).unwrap();
        leaves.join().unwrap();
        assert_eq!(members.iter().map(|member| peers(member).len()).sum::<usize>(), 0);
    }
}

#[test]
fn a_group_connects_its_members() {
    let members = on_demand(6, false);
    let groups: Vec<_> = (0..3)
        .map(|place| {
            let book = members::book(place, &[0, 1, 2]).unwrap();
            members[2 * place as usize].group(5, vec![0, 2, 4], book, WAIT).unwrap()
        })
        .collect();
    let mut buffers: Vec<Buffer> = groups.iter().map(|_| vector(1.0, 9)).collect();
    let begin = |(group, buffer): (&syncline_executor::group::Group, &mut Buffer)| {
        let region = buffer.region();
        group.begin(&all_reduce(9), region, region, false).unwrap()
    };
    let pending: Vec<_> = groups.iter().zip(&mut buffers).map(begin).collect();
    pending.iter().for_each(|pending| pending.wait(WAIT).unwrap().unwrap());
    assert!(buffers.iter().all(|buffer| are(buffer, 3.0)));
    drop(groups);
    sum(&members, 1000);
    assert!(!peers(&members[1]).contains(&4) && peers(&members[0]).contains(&4));
}

/// Fault: a rank that connects when it first needs it has left before another needs it -> all name that rank
#[test]
fn a_rank_that_has_left_before_it_was_connected_is_named() {
    let mut members = on_demand(4, false);
    drop(members.remove(2));
    let mut buffer = Buffer::new(100);
    let pending = members[1].receive(buffer.region(), Some(2), TAG).unwrap();
    let fault = pending.wait(WAIT).unwrap().unwrap_err();
    assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(2), FaultKind::Left), "{fault}");
}

#[test]
fn a_rank_that_has_left_and_is_not_needed_disturbs_nobody() {
    let mut members = on_demand(4, false);
    drop(members.remove(2));
    // A send of nothing is over at once, and nobody waits for it.
    let mut nothing = Buffer::new(0);
    members[1].send(nothing.region(), 2, TAG).unwrap().wait(WAIT).unwrap().unwrap();
    // Longer than a rank may be unreachable.
    thread::sleep(Duration::from_secs(3));
    let (mut sent, mut received) = (vector(5.0, 10), vector(0.0, 10));
    let receives = members[0].receive(received.region(), Some(1), TAG).unwrap();
    members[1].send(sent.region(), 0, TAG).unwrap().wait(WAIT).unwrap().unwrap();
    receives.wait(WAIT).unwrap().unwrap();
    assert!(are(&received, 5.0));
}

/// One of four ranks in its process. Rank 1 opens files until it can open no more, and rank 0 sends it something.
fn one_of_four(rank: u32, ranks: u32, port: u16) {
    let here = MemberSettings { mesh: 0, shared_memory: false, ..place(rank, ranks, port) };
    let session = join(&here, &mut members::book, settings()).unwrap();
    let mut files = Vec::new();
    while rank == 1
        && let Ok(file) = std::fs::File::open("/dev/null")
    {
        files.push(file);
    }
    // Each waits for a message of another, so that all learn the verdict.
    let mut buffers = [vector(1.0, 10), vector(0.0, 10)];
    let [sent, received] = &mut buffers;
    let sends = session.send(sent.region(), (rank + 1) % 4, TAG).unwrap();
    let receives = session.receive(received.region(), Some((rank + 3) % 4), TAG).unwrap();
    let fault = [&sends, &receives].into_iter().find_map(|pending| pending.wait(WAIT).unwrap().err());
    let mut fault = fault.map(|fault| fault.to_string());
    if fault.is_none() {
        // Its own message has arrived. The next one from or to rank 1 does not.
        let last = session.receive(received.region(), Some((rank + 3) % 4), TAG).unwrap();
        fault = last.wait(WAIT).unwrap().err().map(|fault| fault.to_string());
    }
    let fault = fault.expect("rank 1 cannot connect");
    assert!(fault.contains("rank 1") && fault.contains("can open no more connections"), "{fault}");
}

/// Runs as one rank in the processes that the next test starts.
#[test]
#[ignore = "another test starts it in processes"]
fn one_rank_without_files() {
    if let Some((own, ranks, port)) = processes::own() {
        one_of_four(own, ranks, port);
    }
}

/// Fault: a rank that connects when it first needs to has no descriptor left -> all name it, and it says how to mend that
#[test]
fn a_rank_that_can_open_no_more_files_says_so() {
    processes::run("on_demand::one_rank_without_files", 4);
}

/// The number after a name in a file of `/proc/self`.
fn number(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Runs one rank in its process.
#[expect(clippy::print_stdout, reason = "the test reports what it measures")]
fn rank(rank: u32, ranks: u32, port: u16) {
    /// Kilobytes that a rank may take, beside what is in flight.
    const MOST: u64 = 64 << 10;
    let patient = Duration::from_secs(300);
    let mut here = place(rank, ranks, port);
    here.interfaces = vec![IpAddr::V4(Ipv4Addr::LOCALHOST).into()];
    (here.wait, here.shared_memory, here.mesh) = (patient, false, MESH.min(ranks / 4));
    // Many processes share few CPUs, so each runs seldom.
    let patience = Patience { interval: Duration::from_secs(5), silence: Duration::from_secs(120) };
    let flow = FlowControl { lanes: 1, ..settings().flow };
    let before = number("status", "VmRSS:");
    let began = Instant::now();
    let session = join(
        &here,
        &mut members::book,
        Settings { flow, patience, deadline: patient, ..Settings::default() },
    )
    .unwrap();
    let joined = began.elapsed();
    let sum = |value: f32| {
        let mut buffer = vector(value, 1);
        let region = buffer.region();
        session.begin(&all_reduce(1), region, region, false).unwrap().wait(patient).unwrap().unwrap();
        f32::from_ne_bytes(buffer.as_slice().try_into().unwrap())
    };
    let began = Instant::now();
    assert!(sum(1.0) == ranks as f32);
    let first = began.elapsed();
    let began = Instant::now();
    (0..10).for_each(|_| assert!(sum(1.0) == ranks as f32));
    let ten = began.elapsed();
    let (connected, resident) = (peers(&session).len(), number("status", "VmRSS:"));
    assert_eq!(connected, 2, "a ring has two neighbours");
    assert!(resident < MOST, "{resident} kB");
    let all = sum(number("smaps_rollup", "Pss:") as f32);
    if rank == 0 {
        println!(
            "{ranks} ranks: joined in {:.1} s, first all-reduce {:.2} s, each of ten more {:.1} ms; {connected} peers; \
             resident {resident} kB of rank 0 ({before} kB before it joined), {:.0} kB each counting shared pages once",
            joined.as_secs_f64(),
            first.as_secs_f64(),
            ten.as_secs_f64() * 1e2,
            all / ranks as f32,
        );
    }
}

/// Runs as one rank in the processes that the other tests start.
#[test]
#[ignore = "other tests start it in processes"]
fn one_rank() {
    if let Some((own, ranks, port)) = processes::own() {
        rank(own, ranks, port);
    }
}

#[test]
fn sixteen_processes_connect_in_a_ring() {
    processes::run("on_demand::one_rank", 16);
}

#[test]
#[ignore = "make test-many: a minute on 2 CPUs"]
fn many_processes_connect_in_a_ring() {
    let ranks = std::env::var("RANKS").map_or(256, |ranks| ranks.parse().unwrap());
    processes::run("on_demand::one_rank", ranks);
}
