//! Hubs and workers on threads and real sockets.

use crate::lending::Lent;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use syncline_hub::join::join;
use syncline_hub::message::FromWorker;
use syncline_hub::optimizer::Optimizers;
use syncline_hub::register::Limits;
use syncline_hub::serve::Service;
use syncline_hub::setup::Setup;
use syncline_hub::terms::Terms;
use syncline_hub::worker::Worker;
use syncline_hub::worker_settings::WorkerSettings;
use syncline_membership::join_error::JoinError;
use syncline_protocol::fault::{Blame, Fault, FaultKind};
use syncline_protocol::handshake::{Authentication, Initiator, Key, Next, Role};
use syncline_protocol::heartbeat::Patience;
use syncline_protocol::memory::{Buffer, Region};
use syncline_protocol::operation::Request;
use syncline_transport::trust::Trust;

fn patience() -> Patience {
    Patience { interval: Duration::from_millis(100), silence: Duration::from_millis(1000) }
}

fn serve(cores: u32, interfaces: usize, trust: Trust) -> Service {
    serve_with(cores, interfaces, trust, Limits { jobs: 3, memory: 1 << 30, ahead: 16 << 20 })
}

fn serve_with(cores: u32, interfaces: usize, trust: Trust, limits: Limits) -> Service {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let setup = Setup {
        interfaces: vec![address; interfaces],
        cores,
        pin: false,
        trust,
        patience: patience(),
        limits,
        optimizers: Optimizers::default(),
        congestion: None,
        saves: None,
    };
    Service::open(setup).unwrap()
}

fn place(hubs: &[&Service], rank: u32) -> WorkerSettings {
    WorkerSettings {
        rank,
        job: "job".to_owned(),
        hubs: hubs.iter().map(|hub| hub.interfaces()[0]).collect(),
        alternate_addresses: Default::default(),
        trust: Trust::Everybody,
        wait: Duration::from_secs(10),
        congestion: None,
        patience: patience(),
        deadline: Duration::from_secs(20),
    }
}

fn terms(workers: u32, elements: &[u64], rest: &str) -> Terms {
    let keys: Vec<String> = (0..)
        .zip(elements)
        .map(|(i, n): (u32, _)| format!("{{\"name\": \"k{i}\", \"element\": \"f32\", \"elements\": {n}}}"))
        .collect();
    let text = format!("{{\"workers\": {workers}, \"chunk\": 4096, \"keys\": [{}]{rest}}}", keys.join(", "));
    serde_json::from_str(&text).unwrap()
}

fn enter(place: &WorkerSettings, terms: Terms) -> Result<Worker, JoinError> {
    join(place, terms, &Optimizers::default(), &mut || Ok(()))
}

/// Lets all workers of a job join.
fn all(hubs: &[&Service], workers: u32, terms: &Terms) -> Vec<Worker> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|rank| {
                let (place, terms) = (place(hubs, rank), terms.clone());
                scope.spawn(move || enter(&place, terms).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn vector(value: f32, elements: usize) -> Buffer {
    let mut buffer = Buffer::new(4 * elements);
    buffer.as_mut_slice().chunks_exact_mut(4).for_each(|place| place.copy_from_slice(&value.to_ne_bytes()));
    buffer
}

fn values(buffer: &Buffer) -> Vec<f32> {
    buffer.as_slice().chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

const WAIT: Duration = Duration::from_secs(20);

/// Runs one exchange. Returns its number of contributors.
fn exchange(hub: &Worker, key: u32, request: Request, buffer: &mut Buffer) -> Result<u16, Fault> {
    let region = buffer.region();
    let input = if request.sends() { region } else { Region::EMPTY };
    let output = if request.receives() { region } else { Region::EMPTY };
    let exchange = hub.begin(key, request, input, output, true).unwrap();
    match exchange.pending.wait(WAIT).expect("the exchange completes in time") {
        Ok(()) => Ok(exchange.contributors().unwrap_or(0)),
        Err(fault) => Err((*fault).clone()),
    }
}

/// Runs `act` on each worker, all at the same time.
fn each<T: Send>(hubs: Vec<Worker>, act: impl Fn(u32, Worker) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = hubs.into_iter().map(|hub| scope.spawn(move || act(hub.rank(), hub))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn cores_of_several_hubs_sum_vectors() {
    for mapping in ["key_by_interface", "worker_by_interface"] {
        let (one, two) = (serve(2, 2, Trust::Everybody), serve(3, 1, Trust::Everybody));
        let terms = terms(3, &[100_000, 0, 7], &format!(", \"mapping\": \"{mapping}\""));
        each(all(&[&one, &two], 3, &terms), |rank, hub| {
            for step in 0..5 {
                for (key, elements) in [(0, 100_000), (1, 0), (2, 7)] {
                    let mut buffer = vector((rank + step) as f32, elements);
                    let contributors = exchange(&hub, key, Request::PushPull, &mut buffer).unwrap();
                    assert_eq!(values(&buffer), vec![1.0 + step as f32; elements]);
                    assert!(contributors == if elements == 0 { 0 } else { 3 });
                }
            }
            assert_eq!(hub.steps(), [5, 5, 5]);
        });
        let (a, b) = (one.status(), two.status());
        assert_eq!((a.lost, b.lost), (0, 0));
    }
}

#[test]
fn exchanges_cannot_use_the_same_memory_at_the_same_time() {
    let hub = serve(1, 1, Trust::Everybody);
    let mut workers = all(&[&hub], 2, &terms(2, &[1000, 1000], ""));
    let (second, first) = (workers.pop().unwrap(), workers.pop().unwrap());
    let mut buffer = vector(1.0, 1500);
    let whole = buffer.region();
    let (one, other) = (whole.part(0..4000), whole.part(2000..6000));
    let pulled = first.begin(0, Request::PushPull, one, one, true).unwrap();
    for (request, input, output) in [
        (Request::PushPull, one, one),
        (Request::Push, other, Region::EMPTY),
        (Request::Pull, Region::EMPTY, other),
    ] {
        let refused = first.begin(1, request, input, output, true).unwrap_err().to_string();
        assert!(refused.contains("is in use by push_pull of `k0` (exchange 1)"), "{refused}");
    }
    let mut theirs = vector(3.0, 1000);
    exchange(&second, 0, Request::PushPull, &mut theirs).unwrap();
    assert_eq!(pulled.pending.wait(WAIT), Some(Ok(())));
    // Two exchanges may read the same memory, and complete exchanges do not count.
    let pushes = [0, 1].map(|key| first.begin(key, Request::Push, one, Region::EMPTY, true).unwrap());
    for (key, push) in (0..).zip(pushes) {
        exchange(&second, key, Request::Push, &mut theirs).unwrap();
        assert_eq!(push.pending.wait(WAIT), Some(Ok(())));
    }
    assert_eq!(values(&buffer)[..1000], [2.0; 1000]);
}

/// A job of many chunks, of 64 bytes each.
fn many(chunks: u64) -> Terms {
    let text = format!(
        "{{\"workers\": 2, \"chunk\": 64, \"keys\": [{{\"name\": \"w\", \"element\": \"f32\", \"elements\": {}}}]}}",
        chunks * 16
    );
    serde_json::from_str(&text).unwrap()
}

/// Fault: a job of four million chunks begins and ends on a hub -> other jobs on the hub go on
#[test]
fn a_job_of_millions_of_chunks_does_not_block_others() {
    let limits = Limits { jobs: 3, memory: 64 << 30, ahead: 1 << 20 };
    let hub = serve_with(1, 1, Trust::Everybody, limits);
    let (over, large) = (AtomicBool::new(false), many(1 << 22));
    let workers = all(&[&hub], 2, &terms(2, &[1000], ""));
    std::thread::scope(|scope| {
        let quick = scope.spawn(|| {
            each(workers, |_, hub| {
                let mut steps = 0;
                loop {
                    // Rank 0 announces the last step with its contribution, so that all ranks stop at the same step.
                    let last = if hub.rank() == 0 && over.load(Ordering::Relaxed) { 1.0 } else { 0.0 };
                    let mut buffer = vector(last, 1000);
                    exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap();
                    steps += 1;
                    if values(&buffer)[0] > 0.0 {
                        return steps;
                    }
                }
            })
        });
        // The workers of the large job are threads of this process, and need time to compute which core has which
        // chunk.
        let large: Vec<_> = (0..2)
            .map(|rank| {
                let mut place = place(&[&hub], rank);
                place.job = "large".to_owned();
                place.wait = Duration::from_secs(120);
                let large = large.clone();
                scope.spawn(move || enter(&place, large).unwrap())
            })
            .collect();
        let mut large: Vec<Worker> = large.into_iter().map(|thread| thread.join().unwrap()).collect();
        // One worker leaves, and the job ends.
        drop(large.pop());
        drop(large);
        std::thread::sleep(Duration::from_millis(500));
        over.store(true, Ordering::Relaxed);
        let steps = quick.join().unwrap();
        assert!(steps.iter().all(|&steps| steps > 100), "{steps:?}");
    });
    assert_eq!(hub.status().lost, 0);
}

#[test]
fn a_hub_keeps_parameters_while_a_worker_restarts() {
    let hub = serve(2, 1, Trust::Everybody);
    let rest = ", \"policy\": \"wait\", \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 0.5}}";
    let terms = terms(2, &[5000], rest);
    let mut workers = all(&[&hub], 2, &terms);
    let mut parameters = vector(10.0, 5000);
    exchange(&workers[0], 0, Request::Set, &mut parameters).unwrap();
    let step = |workers: Vec<Worker>, expected: f32| {
        each(workers, |rank, hub| {
            let mut gradient = vector(rank as f32, 5000);
            exchange(&hub, 0, Request::PushPull, &mut gradient).unwrap();
            assert_eq!(values(&gradient), [expected; 5000]);
            hub
        })
    };
    workers = step(workers, 9.75);
    // One worker leaves. The other waits in the middle of a step until it is back.
    drop(workers.pop());
    let first = workers.pop().unwrap();
    let waiting = std::thread::spawn(move || {
        let mut gradient = vector(0.0, 5000);
        exchange(&first, 0, Request::PushPull, &mut gradient).unwrap();
        (first, values(&gradient))
    });
    std::thread::sleep(Duration::from_millis(200));
    let second = enter(&place(&[&hub], 1), terms).unwrap();
    assert_eq!(second.steps(), [1]);
    let mut buffer = vector(0.0, 5000);
    exchange(&second, 0, Request::Pull, &mut buffer).unwrap();
    assert_eq!(values(&buffer), [9.75; 5000]);
    let mut gradient = vector(1.0, 5000);
    exchange(&second, 0, Request::PushPull, &mut gradient).unwrap();
    let (first, result) = waiting.join().unwrap();
    assert_eq!((values(&gradient), result), (vec![9.5; 5000], vec![9.5; 5000]));
    step(vec![first, second], 9.25);
}

#[test]
fn remaining_workers_go_on_and_a_restarted_worker_rejoins() {
    let (one, two) = (serve(2, 1, Trust::Everybody), serve(1, 1, Trust::Everybody));
    let hubs = [&one, &two];
    let terms = terms(3, &[5000], ", \"policy\": \"shrink\", \"reduction\": \"sum\"");
    let mut workers = all(&hubs, 3, &terms);
    drop(workers.remove(1));
    let left = each(workers, |rank, hub| {
        let mut buffer = vector(1.0 + rank as f32, 5000);
        let contributors = exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap();
        assert_eq!((contributors, values(&buffer)), (2, vec![4.0; 5000]));
        hub
    });
    let newcomer = enter(&place(&hubs, 1), terms).unwrap();
    assert_eq!(newcomer.steps(), [1]);
    let workers: Vec<Worker> = left.into_iter().chain([newcomer]).collect();
    each(workers, |rank, hub| {
        for _ in 0..3 {
            let mut buffer = vector(1.0 + rank as f32, 5000);
            let contributors = exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap();
            assert_eq!((contributors, values(&buffer)), (3, vec![6.0; 5000]));
        }
    });
}

#[test]
fn a_worker_that_leaves_ends_only_its_own_job() {
    let hub = serve(2, 1, Trust::Everybody);
    let terms = terms(2, &[5000], "");
    let mut workers = all(&[&hub], 2, &terms);
    let other = {
        let mut place = place(&[&hub], 0);
        place.job = "other".to_owned();
        let mut terms = terms.clone();
        terms.workers = 1;
        enter(&place, terms).unwrap()
    };
    let gone = workers.pop().unwrap();
    let first = workers.pop().unwrap();
    let mut lost = vector(2.0, 5000);
    let waiting = std::thread::spawn(move || {
        let mut buffer = vector(1.0, 5000);
        let fault = exchange(&first, 0, Request::PushPull, &mut buffer).unwrap_err();
        (fault, values(&buffer))
    });
    std::thread::sleep(Duration::from_millis(100));
    drop(gone);
    let (fault, buffer) = waiting.join().unwrap();
    // Rank 0 learns that rank 1 has left.
    assert_eq!(fault.blame, Blame::Rank(1), "{fault}");
    assert!(fault.to_string().contains("push_pull of `k0`, 20000 bytes"), "{fault}");
    assert_eq!(buffer, [1.0; 5000], "a failed exchange restores its input");
    for _ in 0..3 {
        exchange(&other, 0, Request::PushPull, &mut lost).unwrap();
    }
    assert_eq!(values(&lost), [2.0; 5000]);
}

#[test]
fn a_hub_that_ends_is_at_fault() {
    let hub = serve(1, 1, Trust::Everybody);
    let address = hub.interfaces()[0];
    let worker = enter(&place(&[&hub], 0), terms(1, &[10], "")).unwrap();
    drop(hub);
    let mut buffer = vector(1.0, 10);
    let fault = exchange(&worker, 0, Request::PushPull, &mut buffer).unwrap_err();
    assert_eq!(fault.blame, Blame::Hub(0));
    assert!(fault.to_string().starts_with(&format!("hub 0 at {address} ")), "{fault}");
}

#[test]
fn a_rank_that_does_not_join_or_push_is_at_fault() {
    let hub = serve(1, 1, Trust::Everybody);
    let mut alone = place(&[&hub], 0);
    alone.wait = Duration::from_millis(300);
    let error = enter(&alone, terms(2, &[10], "")).unwrap_err();
    assert_eq!(error.why, "rank 1 has not joined");
    let terms = terms(2, &[10], "");
    let mut workers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|rank| {
                let mut place = place(&[&hub], rank);
                place.deadline = Duration::from_millis(300);
                let terms = terms.clone();
                scope.spawn(move || enter(&place, terms).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let mut buffer = vector(1.0, 10);
    let fault = exchange(&workers[1], 0, Request::PushPull, &mut buffer).unwrap_err();
    assert_eq!((fault.blame, fault.trouble.kind), (Blame::Rank(0), FaultKind::Deadline));
    assert!(fault.trouble.what.contains("has not pushed `k0` (step 1)"), "{fault}");
    workers.clear();
}

#[test]
fn wrong_keys_ranks_and_terms_are_refused() {
    let key = |byte| Trust::Key(Key::new([byte; 32]));
    let hub = serve(1, 1, key(7));
    let mut quick = place(&[&hub], 0);
    quick.wait = Duration::from_millis(300);
    let refused = |place: &WorkerSettings, terms: Terms| enter(place, terms).unwrap_err().why;
    let one = terms(1, &[10], "");
    assert!(
        refused(&quick, one.clone()).contains("authenticates with `none`, the accepting side with `key`")
    );
    quick.trust = key(8);
    assert!(refused(&quick, one.clone()).contains("does not have the key"), "wrong key");
    quick.trust = key(7);
    let first = enter(&quick, one.clone()).unwrap();
    assert!(refused(&quick, one.clone()).contains("rank 0 of job `job` has already joined"));
    assert!(refused(&quick, terms(1, &[11], "")).contains("`k0` of 11 f32, but `k0` of 10 f32 in the job"));
    quick.rank = 1;
    assert!(refused(&quick, one.clone()).contains("rank 1 does not exist"));
    // Garbage and many silent connections do not keep workers out.
    let mut garbage = TcpStream::connect(hub.interfaces()[0]).unwrap();
    garbage.write_all(&[0xff; 5000]).unwrap();
    let silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(hub.interfaces()[0]).unwrap()).collect();
    let mut buffer = vector(3.0, 10);
    exchange(&first, 0, Request::PushPull, &mut buffer).unwrap();
    for job in ["two", "three"] {
        (quick.rank, quick.job, quick.wait) = (0, job.to_owned(), Duration::from_secs(5));
        // A new job joins and exchanges while the silent connections are open.
        let other = enter(&quick, one.clone()).unwrap();
        exchange(&other, 0, Request::PushPull, &mut buffer).unwrap();
    }
    drop(silent);
    assert!(hub.status().refused > 0);
}

#[test]
fn hubs_of_racks_exchange_their_sums() {
    for between in ["sharded", "ring"] {
        let hubs: Vec<[Service; 2]> =
            (0..3).map(|_| [serve(2, 1, Trust::Everybody), serve(1, 1, Trust::Everybody)]).collect();
        let addresses: Vec<Vec<String>> = hubs
            .iter()
            .map(|rack| rack.iter().map(|hub| hub.interfaces()[0].to_string()).collect())
            .collect();
        // Racks of two, one and two ranks.
        let rest = format!(
            ", \"reduction\": \"sum\", \"racks\": \
             {{\"of\": [0, 1, 2, 0, 2], \"hubs\": {addresses:?}, \"between\": \"{between}\"}}"
        );
        let terms = terms(5, &[50_000, 3], &rest);
        let left = each(all(&[], 5, &terms), |rank, hub| {
            for step in 0..4 {
                for (key, elements) in [(0, 50_000), (1, 3)] {
                    let mut buffer = vector((rank + step) as f32, elements);
                    let contributors = exchange(&hub, key, Request::PushPull, &mut buffer).unwrap();
                    assert_eq!(values(&buffer), vec![(10 + 5 * step) as f32; elements]);
                    assert_eq!(contributors, 5);
                }
            }
            hub
        });
        // The hubs of a rack end. All ranks learn of it; those of other racks from their own hubs.
        let mut hubs = hubs;
        drop(hubs.remove(1));
        for fault in each(left, |_, hub| {
            let mut buffer = vector(1.0, 50_000);
            let fault = exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap_err();
            (hub.rank(), fault)
        }) {
            // Ranks in other racks blame a rack; its own ranks blame their hub.
            match fault.0 {
                1 => assert_eq!(fault.1.blame, Blame::Hub(0), "{}", fault.1),
                _ => assert!(matches!(fault.1.blame, Blame::Rack(_)), "{}", fault.1),
            }
        }
    }
}

/// A connection of a stranger that claims to be a rank of the job in the handshake, and sends nothing else.
fn stranger(hub: &Service, rank: u32) -> TcpStream {
    let role = Role::Worker { rank };
    let (mut initiator, mut out) = Initiator::new(Authentication::None, "job", role, [7; 32]);
    let mut stream = TcpStream::connect(hub.interfaces()[0]).unwrap();
    loop {
        stream.write_all(&out).unwrap();
        let mut bytes = vec![0; initiator.wants()];
        stream.read_exact(&mut bytes).unwrap();
        let mut next = initiator.received(&bytes).unwrap();
        while next == Next::Wait {
            bytes.resize(initiator.wants(), 0);
            stream.read_exact(&mut bytes).unwrap();
            next = initiator.received(&bytes).unwrap();
        }
        match next {
            Next::Send(answer) => out = answer,
            _ => return stream,
        }
    }
}

#[test]
fn a_stranger_that_claims_a_rank_does_not_harm_the_job() {
    let hub = serve(2, 1, Trust::Everybody);
    let workers = all(&[&hub], 2, &terms(2, &[5000], ""));
    // All claim a rank that takes part: one is gone at once, one is silent, and two send messages without joining.
    drop(stranger(&hub, 0));
    let silent = stranger(&hub, 1);
    let mut leaver = stranger(&hub, 1);
    leaver.write_all(&syncline_protocol::codec::encode(&FromWorker::Leave)).unwrap();
    let mut late = stranger(&hub, 0);
    late.write_all(&syncline_protocol::codec::encode(&FromWorker::Late { key: 0, step: 1 })).unwrap();
    std::thread::sleep(2 * patience().silence);
    each(workers, |_, hub| {
        let mut buffer = vector(2.0, 5000);
        assert_eq!(exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap(), 2);
    });
    drop(silent);
    assert_eq!(hub.status().lost, 0);
}

#[test]
fn a_rank_that_is_lost_before_the_job_begins_may_join_again() {
    for policy in ["fail", "shrink", "wait"] {
        let hub = serve(2, 1, Trust::Everybody);
        let terms = terms(2, &[5000], &format!(", \"policy\": \"{policy}\", \"reduction\": \"sum\""));
        let mut first = place(&[&hub], 1);
        first.wait = Duration::from_millis(300);
        let mut asked = 0;
        // It gives up while it waits for the other.
        let absent = join(&first, terms.clone(), &Optimizers::default(), &mut || {
            asked += 1;
            if asked > 100 { Err("enough".to_owned()) } else { Ok(()) }
        });
        assert!(absent.is_err());
        each(all(&[&hub], 2, &terms), |rank, hub| {
            assert!(hub.fresh());
            let mut buffer = vector(1.0 + rank as f32, 5000);
            assert_eq!(exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap(), 2, "{policy}");
            assert_eq!(values(&buffer), [3.0; 5000]);
        });
    }
}

#[test]
fn a_late_exchange_that_completes_causes_no_fault_later() {
    let hub = serve(1, 1, Trust::Everybody);
    let terms = terms(2, &[100], ", \"policy\": \"shrink\"");
    let workers = impatient(&[&hub], 2, &terms);
    // Rank 1 never pushes, so it is lost. Rank 0 goes on, also long after its deadline has passed.
    let mut buffer = vector(3.0, 100);
    for _ in 0..8 {
        assert_eq!(exchange(&workers[0], 0, Request::PushPull, &mut buffer).unwrap(), 1);
        std::thread::sleep(patience().silence / 2);
    }
}

/// Lets all workers of a job join, with a deadline of 0.4 s for exchanges.
fn impatient(hubs: &[&Service], workers: u32, terms: &Terms) -> Vec<Worker> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|rank| {
                let mut place = place(hubs, rank);
                place.deadline = Duration::from_millis(400);
                let terms = terms.clone();
                scope.spawn(move || enter(&place, terms).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn ranks_that_never_push_are_lost_and_ranks_that_wait_are_not() {
    let hub = serve(2, 1, Trust::Everybody);
    let mut workers = impatient(&[&hub], 4, &terms(4, &[40_000], ", \"policy\": \"shrink\""));
    let idle = workers.split_off(2);
    each(workers, |_, hub| {
        let mut buffer = vector(3.0, 40_000);
        for _ in 0..8 {
            assert_eq!(exchange(&hub, 0, Request::PushPull, &mut buffer).unwrap(), 2);
            std::thread::sleep(patience().silence / 4);
        }
    });
    for worker in idle {
        let fault = exchange(&worker, 0, Request::PushPull, &mut vector(1.0, 40_000)).unwrap_err();
        assert_eq!(fault.blame, Blame::Rank(worker.rank()), "{fault}");
    }
}

#[test]
fn a_hub_without_chunks_of_the_late_vector_blames_no_rank() {
    let hubs = [serve(2, 1, Trust::Everybody), serve(2, 1, Trust::Everybody)];
    // One chunk of the second vector, on one core of one hub.
    let mut workers = impatient(&[&hubs[0], &hubs[1]], 3, &terms(3, &[40_000, 10], ""));
    let idle = workers.pop().unwrap();
    for fault in
        each(workers, |_, hub| exchange(&hub, 1, Request::PushPull, &mut vector(1.0, 10)).unwrap_err())
    {
        assert_eq!(fault.blame, Blame::Rank(2), "{fault}");
    }
    drop(idle);
}

#[test]
fn a_draining_hub_takes_no_new_jobs_and_ends() {
    let hub = serve(1, 1, Trust::Everybody);
    let worker = enter(&place(&[&hub], 0), terms(1, &[10], "")).unwrap();
    hub.drain(Duration::from_secs(30));
    let mut other = place(&[&hub], 0);
    other.job = "other".to_owned();
    let began = Instant::now();
    while !hub.status().draining {
        assert!(began.elapsed() < WAIT);
    }
    let why = enter(&other, terms(1, &[10], "")).unwrap_err().why;
    assert!(why.contains("takes no new jobs"), "{why}");
    let mut buffer = vector(3.0, 10);
    exchange(&worker, 0, Request::PushPull, &mut buffer).unwrap();
    assert!(!hub.ended());
    drop(worker);
    while !hub.ended() {
        assert!(began.elapsed() < WAIT);
        std::thread::sleep(Duration::from_millis(10));
    }
}
