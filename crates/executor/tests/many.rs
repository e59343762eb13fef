//! Many ranks on one machine, each in its own process. They connect when they first need it: each with all others, at the
//! same time. They send, gather, scatter and exchange blocks of all sizes without a loss, in one hundred groups, which need
//! no more descriptors than one.
//!
//! There are sixteen ranks. `make test-many` runs as many as the variable `RANKS` says, by default 256, in a
//! release build.

use crate::lending::Lent;
use crate::members::{self, all_reduce, are, place, settings, vector};
use crate::processes;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use syncline_executor::group::{Group, TransferTag};
use syncline_executor::pending::Pending;
use syncline_executor::session::{Session, join};
use syncline_membership::member_settings::MESH;
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::FlowControl;
use syncline_protocol::memory::Buffer;
use syncline_protocol::settings::Settings;

/// How long a rank waits for others, and for operations.
const WAIT: Duration = Duration::from_secs(300);

/// Groups of the job; a rank makes those that it is in.
const GROUPS: u32 = 100;

/// The usual limit of a process's descriptors.
const DESCRIPTORS: usize = 1024;

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Bytes by which a message differs from others.
fn content(from: u32, to: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32 * 31 + from * 7 + to * 13) as u8).collect()
}

/// Messages under way: sent ones with their memory, received ones also with the expected bytes.
#[derive(Default)]
struct Exchange {
    sent: Vec<(Pending, Buffer)>,
    received: Vec<(Pending, Buffer, Vec<u8>)>,
}

impl Exchange {
    fn send(&mut self, group: &Group, to: u32, tag: TransferTag, bytes: &[u8]) {
        let mut buffer = Buffer::new(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        self.sent.push((group.send(buffer.region(), to, tag).unwrap(), buffer));
    }

    fn receive(&mut self, group: &Group, from: u32, tag: TransferTag, bytes: Vec<u8>) {
        let mut buffer = Buffer::new(bytes.len());
        self.received.push((group.receive(buffer.region(), Some(from), tag).unwrap(), buffer, bytes));
    }

    fn end(self) {
        for (pending, buffer, expected) in self.received {
            pending.wait(WAIT).expect("the message is received in time").unwrap();
            assert!(buffer.as_slice() == expected, "the message differs");
        }
        for (pending, _) in self.sent {
            pending.wait(WAIT).expect("the message is sent in time").unwrap();
        }
    }
}

/// Waits until all ranks of a group have called this.
fn meet(group: &Group) {
    let mut buffer = vector(1.0, 1);
    let region = buffer.region();
    group.begin(&all_reduce(1), region, region, false).unwrap().wait(WAIT).unwrap().unwrap();
    assert!(are(&buffer, group.book().ranks() as f32));
}

/// Runs transfers between all ranks of a group, and checks them.
fn exchange(group: &Group) {
    let (rank, ranks) = (group.book().member(), group.book().ranks());
    let size = |from: u32, to: u32| (from * 7 + to * 3) as usize % 4097;
    let mut all = Exchange::default();
    let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    all.receive(group, last, TransferTag { space: 0, tag: 1 }, content(last, rank, 100_000));
    all.send(group, next, TransferTag { space: 0, tag: 1 }, &content(rank, next, 100_000));
    for other in (0..ranks).filter(|&other| other != rank) {
        all.receive(group, other, TransferTag { space: 3, tag: 1 }, content(other, rank, size(other, rank)));
        all.send(group, other, TransferTag { space: 3, tag: 1 }, &content(rank, other, size(rank, other)));
        if rank == 0 {
            all.receive(
                group,
                other,
                TransferTag { space: 1, tag: 2 },
                content(other, 0, 3 * other as usize),
            );
            all.send(group, other, TransferTag { space: 2, tag: 3 }, &content(0, other, 5 * other as usize));
        }
    }
    if rank > 0 {
        all.send(group, 0, TransferTag { space: 1, tag: 2 }, &content(rank, 0, 3 * rank as usize));
        all.receive(group, 0, TransferTag { space: 2, tag: 3 }, content(0, rank, 5 * rank as usize));
    }
    all.end();
}

/// Runs one rank in its process.
#[expect(clippy::print_stdout, reason = "the test reports how long it takes")]
fn rank(rank: u32, ranks: u32, port: u16) {
    let began = Instant::now();
    let mut here = place(rank, ranks, port);
    here.interfaces = vec![IpAddr::V4(Ipv4Addr::LOCALHOST).into()];
    here.wait = WAIT;
    // Use TCP, as between hosts.
    here.shared_memory = false;
    // Half of the ranks may be stopped by the scheduler while others connect with them.
    here.mesh = MESH.min(ranks / 4);
    // Many processes share few CPUs, so each runs seldom.
    let patience = Patience { interval: Duration::from_secs(5), silence: Duration::from_secs(120) };
    let flow = FlowControl { lanes: 1, ..settings().flow };
    let session: Session =
        join(&here, &mut members::book, Settings { flow, patience, deadline: WAIT, ..Settings::default() })
            .unwrap();
    meet(&session);
    let joined = began.elapsed();
    let began = Instant::now();
    exchange(&session);
    meet(&session);
    let exchanged = began.elapsed();
    let (before, connected) = (descriptors(), session.traffic().read().len());
    assert_eq!(connected, ranks as usize - 1, "each with all others");
    let mut groups = Vec::new();
    let (mut making, mut made) = (Duration::ZERO, 0);
    for number in 0..GROUPS {
        // Every `stride`-th rank, beginning at another one each time.
        let stride = 1 + number % 7;
        let ranks: Vec<u32> = (0..ranks).filter(|each| each % stride == number % stride).collect();
        let Some(place) = ranks.iter().position(|&each| each == rank).filter(|_| ranks.len() > 1) else {
            continue;
        };
        let began = Instant::now();
        let book = members::book(place as u32, &(0..ranks.len() as u32).collect::<Vec<_>>()).unwrap();
        groups.push((number, session.group(u64::from(number) + 1, ranks, book, WAIT).unwrap()));
        making += began.elapsed();
        made += 1;
    }
    groups.iter().for_each(|(_, group)| meet(group));
    groups.iter().filter(|(number, _)| *number < 3).for_each(|(_, group)| exchange(group));
    // A rank that has finished may leave: what it has sent arrives before others learn that it left.
    let after = descriptors();
    assert!(after <= before, "{made} groups took {before} to {after} descriptors");
    assert!(after < DESCRIPTORS, "{after} descriptors");
    assert!(making < Duration::from_millis(20) * made.max(1), "{made} groups took {making:?}");
    drop(groups);
    meet(&session);
    if rank == 0 {
        println!(
            "{ranks} ranks: joined in {:.1} s, exchanged in {:.1} s; \
             {made} groups made in {:.2} ms each; {after} descriptors",
            joined.as_secs_f64(),
            exchanged.as_secs_f64(),
            making.as_secs_f64() * 1e3 / f64::from(made.max(1)),
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

/// Runs each rank in a process.
#[expect(clippy::print_stdout, reason = "as above")]
fn run(ranks: u32) {
    let began = Instant::now();
    processes::run("many::one_rank", ranks);
    println!("{ranks} processes took {:.1} s", began.elapsed().as_secs_f64());
}

#[test]
fn sixteen_processes_exchange_in_one_hundred_groups() {
    run(16);
}

#[test]
#[ignore = "make test-many: a minute on 2 CPUs"]
fn many_processes_exchange_in_one_hundred_groups() {
    run(std::env::var("RANKS").map_or(256, |ranks| ranks.parse().unwrap()));
}
