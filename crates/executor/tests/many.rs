//! Many ranks on one machine, each a process of its own: all send, gather, scatter and exchange blocks of all sizes without a
//! loss, in one hundred groups, with the descriptors of one.
//!
//! Sixteen by default. `make test-many` runs as many as the variable `RANKS` says, 256 without it, in a build for speed.

use crate::lending::Lent;
use crate::members::{self, all_reduce, are, place, settings, vector};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use syncline_executor::group::Group;
use syncline_executor::pending::Pending;
use syncline_executor::session::{Session, join};
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::lane::Pace;
use syncline_protocol::memory::Buffer;
use syncline_protocol::settings::Settings;

/// How long a rank waits for what should come.
const WAIT: Duration = Duration::from_secs(300);

/// Groups that a rank makes.
const GROUPS: u32 = 100;

/// Most descriptors of a process, as systems have it by default.
const DESCRIPTORS: usize = 1024;

/// What a rank's process is told: its rank, their number, and rank 0's port.
const TOLD: &str = "SYNCLINE_TEST_MANY";

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Bytes that tell a message from all others.
fn content(from: u32, to: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32 * 31 + from * 7 + to * 13) as u8).collect()
}

/// Messages under way, with their memory and what is to come.
#[derive(Default)]
struct Exchange {
    sent: Vec<(Pending, Buffer)>,
    received: Vec<(Pending, Buffer, Vec<u8>)>,
}

impl Exchange {
    fn send(&mut self, group: &Group, to: u32, what: (u64, i64), bytes: &[u8]) {
        let mut buffer = Buffer::new(bytes.len());
        buffer.as_mut_slice().copy_from_slice(bytes);
        self.sent.push((group.send(buffer.region(), to, what).unwrap(), buffer));
    }

    fn receive(&mut self, group: &Group, from: u32, what: (u64, i64), bytes: Vec<u8>) {
        let mut buffer = Buffer::new(bytes.len());
        self.received.push((group.receive(buffer.region(), Some(from), what).unwrap(), buffer, bytes));
    }

    fn end(self) {
        for (pending, buffer, expected) in self.received {
            pending.wait(WAIT).expect("it is received in time").unwrap();
            assert!(buffer.as_slice() == expected, "something else came");
        }
        for (pending, _) in self.sent {
            pending.wait(WAIT).expect("it is sent in time").unwrap();
        }
    }
}

/// Waits until all ranks of a group are here.
fn meet(group: &Group) {
    let mut buffer = vector(1.0, 1);
    let region = buffer.region();
    group.begin(&all_reduce(1), region, region, false).unwrap().wait(WAIT).unwrap().unwrap();
    assert!(are(&buffer, group.book().ranks() as f32));
}

/// What every rank of a group does.
fn exchange(group: &Group) {
    let (rank, ranks) = (group.book().member(), group.book().ranks());
    let size = |from: u32, to: u32| (from * 7 + to * 3) as usize % 4097;
    let mut all = Exchange::default();
    let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    all.receive(group, last, (0, 1), content(last, rank, 100_000));
    all.send(group, next, (0, 1), &content(rank, next, 100_000));
    for other in (0..ranks).filter(|&other| other != rank) {
        all.receive(group, other, (3, 1), content(other, rank, size(other, rank)));
        all.send(group, other, (3, 1), &content(rank, other, size(rank, other)));
        if rank == 0 {
            all.receive(group, other, (1, 2), content(other, 0, 3 * other as usize));
            all.send(group, other, (2, 3), &content(0, other, 5 * other as usize));
        }
    }
    if rank > 0 {
        all.send(group, 0, (1, 2), &content(rank, 0, 3 * rank as usize));
        all.receive(group, 0, (2, 3), content(0, rank, 5 * rank as usize));
    }
    all.end();
}

/// One rank's process.
#[expect(clippy::print_stdout, reason = "the time that it takes is what one wants to see")]
fn rank(rank: u32, ranks: u32, port: u16) {
    let began = Instant::now();
    let mut here = place(rank, ranks, port);
    here.interfaces = vec![IpAddr::V4(Ipv4Addr::LOCALHOST).into()];
    here.wait = WAIT;
    // As between hosts.
    here.shared_memory = false;
    // So many processes on few CPUs run seldom.
    let patience = Patience { interval: Duration::from_secs(5), silence: Duration::from_secs(120) };
    let pace = Pace { lanes: 1, ..settings().pace };
    let session: Session =
        join(&here, &mut members::book, Settings { pace, patience, deadline: WAIT }).unwrap();
    meet(&session);
    let joined = began.elapsed();
    let began = Instant::now();
    exchange(&session);
    meet(&session);
    let exchanged = began.elapsed();
    let before = descriptors();
    let mut groups = Vec::new();
    let (mut making, mut made) = (Duration::ZERO, 0);
    for number in 0..GROUPS {
        // Ranks of a stride, from another one on each time.
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
    // Whoever is through may leave: what it has sent comes before that.
    let after = descriptors();
    assert!(after <= before, "{made} groups took {before} to {after} descriptors");
    assert!(after < DESCRIPTORS, "{after} descriptors");
    assert!(making < Duration::from_millis(20) * made.max(1), "{made} groups took {making:?}");
    drop(groups);
    meet(&session);
    if rank == 0 {
        println!(
            "{ranks} ranks: joined in {:.1} s, exchanged in {:.1} s; {made} groups made in {:.2} ms each; {after} descriptors",
            joined.as_secs_f64(),
            exchanged.as_secs_f64(),
            making.as_secs_f64() * 1e3 / f64::from(made.max(1)),
        );
    }
}

/// What this binary does as one rank.
#[test]
#[ignore = "the processes of other tests are this one"]
fn one_rank() {
    let Ok(told) = std::env::var(TOLD) else { return };
    let numbers: Vec<u32> = told.split(' ').map(|number| number.parse().unwrap()).collect();
    rank(numbers[0], numbers[1], numbers[2] as u16);
}

/// Runs as many ranks, and waits for all of them.
#[expect(clippy::print_stdout, reason = "as above")]
fn run(ranks: u32) {
    let began = Instant::now();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut processes: Vec<_> = (0..ranks)
        .map(|rank| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "many::one_rank", "--ignored", "--nocapture"])
                .env(TOLD, format!("{rank} {ranks} {port}"))
                .stdout(if rank == 0 { Stdio::inherit() } else { Stdio::null() })
                .spawn()
                .unwrap()
        })
        .collect();
    let well: Vec<bool> = processes.iter_mut().map(|process| process.wait().unwrap().success()).collect();
    let failed: Vec<usize> = (0..well.len()).filter(|&rank| !well[rank]).collect();
    assert!(failed.is_empty(), "ranks {failed:?} failed");
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
