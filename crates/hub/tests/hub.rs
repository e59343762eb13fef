//! Workers and cores of hubs without sockets, with messages that arrive in any order.

use crate::lending::Lent;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;
use syncline_hub::assignment::{Cores, HubCore, Routes};
use syncline_hub::client::{Client, FinishedExchange, HubExchange, Newcomer};
use syncline_hub::optimizer::Optimizers;
use syncline_hub::saved::SavedChunk;
use syncline_hub::shard::{Attempt, Bounds, Joined, Peer, Shard, Waits};
use syncline_hub::terms::{Contract, Terms};
use syncline_protocol::fault::ProtocolError;
use syncline_protocol::heartbeat::{Heartbeats, Patience};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::{Buffer, Region};
use syncline_protocol::operation::Request;
use syncline_protocol::virtual_network::{InvalidBytes, VirtualNetwork};

const EPOCH: u16 = 5;
const JOB: u32 = 3;

/// The first attempt of a restarted worker to take part again.
const fn attempt(incarnation: u64) -> Attempt {
    Attempt { incarnation, number: 1 }
}

/// The state machine of a worker or of a hub's core.
enum Party {
    Client(Client),
    Shard(Shard),
}

impl Party {
    fn machine(&mut self) -> &mut dyn Machine {
        match self {
            Self::Client(client) => client,
            Self::Shard(shard) => shard,
        }
    }
}

impl Machine for Party {
    fn waiting(&self, peer: u32) -> usize {
        match self {
            Self::Client(client) => client.waiting(peer),
            Self::Shard(shard) => shard.waiting(peer),
        }
    }

    fn gather<'a>(&'a mut self, peer: u32, slices: &mut Vec<IoSlice<'a>>, most: usize) {
        match self {
            Self::Client(client) => client.gather(peer, slices, most),
            Self::Shard(shard) => shard.gather(peer, slices, most),
        }
    }

    fn sent(&mut self, peer: u32, bytes: usize) {
        self.machine().sent(peer, bytes);
    }

    fn reads(&self, peer: u32) -> bool {
        match self {
            Self::Client(client) => client.reads(peer),
            Self::Shard(shard) => shard.reads(peer),
        }
    }

    fn direct(&mut self, peer: u32) -> Option<&mut [u8]> {
        self.machine().direct(peer)
    }

    fn read_directly(&mut self, peer: u32, bytes: usize) -> Result<(), ProtocolError> {
        self.machine().read_directly(peer, bytes)
    }

    fn received(&mut self, peer: u32, bytes: &[u8]) -> Result<(), ProtocolError> {
        self.machine().received(peer, bytes)
    }

    fn disable_checksums(&mut self, peer: u32) {
        self.machine().disable_checksums(peer);
    }

    fn send_heartbeat(&mut self, peer: u32) {
        self.machine().send_heartbeat(peer);
    }

    fn leave(&mut self, peer: u32) {
        self.machine().leave(peer);
    }

    fn has_left(&self, peer: u32) -> bool {
        match self {
            Self::Client(client) => client.has_left(peer),
            Self::Shard(shard) => shard.has_left(peer),
        }
    }
}

/// A job on the hubs of one or several racks.
struct World {
    racks: Option<(u32, Vec<u32>)>,
    contract: Arc<Contract>,
    routes: Arc<Routes>,
    epochs: Vec<u16>,
    network: VirtualNetwork<Party>,
    /// How many exchanges each worker has begun.
    begun: Vec<u64>,
    /// The complete exchanges of each worker, with their least number of contributors.
    complete: Vec<BTreeMap<u64, Option<u16>>>,
}

impl World {
    fn new(terms: Terms, hubs: &[Cores], seed: u64) -> Self {
        Self::with(terms, hubs, seed, &BTreeMap::new())
    }

    /// A world whose job continues from a save.
    fn with(terms: Terms, hubs: &[Cores], seed: u64, saved: &BTreeMap<u32, SavedChunk>) -> Self {
        let contract = Arc::new(terms.contract(&Optimizers::default()).unwrap());
        let routes = Arc::new(Routes::new(&contract, hubs));
        let workers = contract.terms.workers;
        let epochs = vec![EPOCH; hubs.len()];
        let client = || Client::new(Arc::clone(&contract), Arc::clone(&routes), epochs.clone());
        let mut parties: Vec<Party> = (0..workers).map(|_| Party::Client(client())).collect();
        let racks = contract
            .terms
            .racks
            .as_ref()
            .map(|racks| (racks.hubs.len() as u32, racks.rack_of_worker.clone()));
        let cores = routes.cores();
        let count = racks.as_ref().map_or(1, |racks| racks.0);
        for (rack, core) in (0..count).flat_map(|rack| (0..cores).map(move |core| (rack, core))) {
            let mut shard = Shard::default();
            shard.open(JOB, Arc::clone(&contract), EPOCH);
            let HubCore { hub, core: own } = routes.hub_core(core);
            let share = routes.shares(hub).swap_remove(own as usize);
            let saved = share.iter().filter_map(|chunk| Some((*chunk, saved.get(chunk)?.clone()))).collect();
            shard.assign(
                JOB,
                share,
                racks.as_ref().map(|_| rack),
                Bounds { ahead: 1 << 20, buffers: 1 << 20 },
                saved,
            );
            parties.push(Party::Shard(shard));
        }
        let all = workers as usize;
        let mut world = Self {
            racks,
            contract,
            routes,
            epochs,
            network: VirtualNetwork::new(parties, &[], seed, 1 << (4 + seed % 8)),
            begun: vec![0; all],
            complete: vec![BTreeMap::new(); all],
        };
        (0..workers).for_each(|worker| world.connect(worker, worker));
        for (a, b) in (0..count).flat_map(|b| (0..b).map(move |a| (a, b))) {
            for core in 0..cores {
                // Numbers of workers are below 100.
                let (one, other) = (world.place(a, core), world.place(b, core));
                for (place, rack) in [(one, b), (other, a)] {
                    let Party::Shard(shard) = world.network.machine(place) else { panic!("no shard") };
                    assert!(shard.attach(100 + rack, JOB, Peer::Rack(rack)));
                }
                world.network.join([(one, 100 + b), (other, 100 + a)]);
            }
        }
        world
    }

    fn cores(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.routes.cores()
    }

    /// The place of a rack's core in the network.
    fn place(&self, rack: u32, core: u32) -> usize {
        self.begun.len() + (rack * self.routes.cores() + core) as usize
    }

    fn rack(&self, worker: u32) -> u32 {
        self.racks.as_ref().map_or(0, |racks| racks.1[worker as usize])
    }

    fn shard(&mut self, core: u32) -> &mut Shard {
        let place = self.place(0, core);
        match self.network.machine(place) {
            Party::Shard(shard) => shard,
            Party::Client(_) => panic!("no shard"),
        }
    }

    /// Attempt workers wait, and for which workers, at the first core.
    fn waits(&mut self, key: u32, step: u64) -> Waits {
        let shard = self.shard(0);
        shard.report_waits(JOB, 0, key, step);
        while shard.sweep() {}
        shard.waits_reports().remove(0).waits
    }

    fn client(&mut self, worker: u32) -> &mut Client {
        match self.network.machine(worker as usize) {
            Party::Client(client) => client,
            Party::Shard(_) => panic!("no client"),
        }
    }

    /// Connects a worker to all cores. The connection has this number at each core.
    fn connect(&mut self, worker: u32, connection: u32) {
        for core in self.cores() {
            let place = self.place(self.rack(worker), core);
            let Party::Shard(shard) = self.network.machine(place) else { panic!("no shard") };
            assert!(shard.attach(connection, JOB, Peer::Worker(worker)));
            self.network.join([(worker as usize, core), (place, connection)]);
        }
    }

    /// Kills a worker; everything in transit to or from it is lost.
    fn kill(&mut self, worker: u32) {
        for (place, connection) in self.network.cut(worker as usize) {
            let Party::Shard(shard) = self.network.machine(place) else { panic!("cables lead to shards") };
            assert_eq!(shard.detach(connection), Some((JOB, Peer::Worker(worker))));
            shard.lose(JOB, worker);
        }
        let fresh = Client::new(Arc::clone(&self.contract), Arc::clone(&self.routes), self.epochs.clone());
        *self.client(worker) = fresh;
    }

    fn begin(&mut self, worker: u32, key: u32, request: Request, vector: &mut Buffer, keep: bool) -> u64 {
        self.begun[worker as usize] += 1;
        let sequence = self.begun[worker as usize];
        let region = vector.region();
        let input = if request.sends() { region } else { Region::EMPTY };
        let output = if request.receives() { region } else { Region::EMPTY };
        self.client(worker).start(HubExchange { sequence, key, request, input, output, keep });
        sequence
    }

    /// Moves some bytes, and notes exchanges that are complete.
    fn run(&mut self, steps: u64) -> Result<(), InvalidBytes> {
        for _ in 0..steps {
            if !self.network.step()? {
                break;
            }
        }
        for worker in 0..self.begun.len() as u32 {
            while let Some(FinishedExchange { sequence, contributors }) = self.client(worker).finished() {
                self.complete[worker as usize].insert(sequence, contributors);
            }
        }
        Ok(())
    }

    fn done(&self, worker: u32, sequence: u64) -> bool {
        self.complete[worker as usize].contains_key(&sequence)
    }

    fn contributors(&self, worker: u32, sequence: u64) -> u16 {
        self.complete[worker as usize][&sequence].expect("the exchange has a result")
    }
}

fn terms(workers: u32, elements: &[u64], rest: &str) -> Terms {
    let keys: Vec<String> = (0..)
        .zip(elements)
        .map(|(i, elements): (u32, _)| {
            format!("{{\"name\": \"k{i}\", \"element\": \"f32\", \"elements\": {elements}}}")
        })
        .collect();
    let text = format!("{{\"workers\": {workers}, \"chunk\": 64, \"keys\": [{}]{rest}}}", keys.join(", "));
    serde_json::from_str(&text).unwrap()
}

fn floats(vector: &Buffer) -> Vec<f32> {
    vector.as_slice().chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

fn buffer(values: &[f32]) -> Buffer {
    let mut buffer = Buffer::new(4 * values.len());
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    buffer.as_mut_slice().copy_from_slice(&bytes);
    buffer
}

/// A worker's contribution. Its elements are not whole numbers, so that the order of additions matters.
fn gradient(worker: u32, key: u32, step: u64, elements: u64) -> Vec<f32> {
    (0..elements)
        .map(|i| {
            let mixed = (i + 1) * 2_654_435_761 + u64::from(worker) * 97 + u64::from(key) * 31 + step * 7;
            (mixed % 2003) as f32 / 13.0 - 70.0
        })
        .collect()
}

/// The sum of some workers' contributions in the order of workers.
fn sum(workers: impl IntoIterator<Item = u32>, key: u32, step: u64, elements: u64) -> Vec<f32> {
    let mut all = workers.into_iter().map(|worker| gradient(worker, key, step, elements));
    let first = all.next().unwrap();
    all.fold(first, |sum, next| sum.iter().zip(next).map(|(a, b)| a + b).collect())
}

fn hubs() -> impl Strategy<Value = Vec<Cores>> {
    let hub = (1u32..3, 1u32..3).prop_map(|(a, b)| Cores { cores: a * b, interfaces: b });
    prop::collection::vec(hub, 1..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn all_workers_get_the_same_sum(
        workers in 1u32..6,
        elements in prop::collection::vec(0u64..150, 1..4),
        hubs in hubs(),
        in_order in any::<bool>(),
        mean in any::<bool>(),
        keep in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let reduction = if mean { "mean" } else { "sum" };
        let rest = format!(", \"reduction\": \"{reduction}\", \"in_order\": {in_order}");
        let mut world = World::new(terms(workers, &elements, &rest), &hubs, seed);
        let keys = elements.len() as u32;
        const STEPS: u64 = 3;
        let mut vectors: BTreeMap<(u32, u64, u32), Buffer> = BTreeMap::new();
        let mut turn = seed;
        // Workers proceed independently. Each begins all keys of a step at once.
        let mut steps = vec![0u64; workers as usize];
        while steps.iter().any(|&step| step <= STEPS) {
            turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let worker = (turn >> 33) as u32 % workers;
            let step = &mut steps[worker as usize];
            let begun = world.begun[worker as usize];
            if *step <= STEPS && (1..=begun).all(|sequence| world.done(worker, sequence)) {
                *step += 1;
                if *step <= STEPS {
                    for key in 0..keys {
                        let values = gradient(worker, key, *step, elements[key as usize]);
                        let vector = vectors.entry((worker, *step, key)).or_insert_with(|| buffer(&values));
                        world.begin(worker, key, Request::PushPull, vector, keep);
                    }
                }
            }
            let run = world.run(turn >> 55);
            prop_assert!(run.is_ok(), "{:?}", run);
        }
        for ((worker, step, key), vector) in &vectors {
            let mut expected = sum(0..workers, *key, *step, elements[*key as usize]);
            if mean {
                expected.iter_mut().for_each(|value| *value /= workers as f32);
            }
            let found = floats(vector);
            let near = |(a, b): (&f32, &f32)| if in_order { a == b } else { (a - b).abs() <= 1e-4 };
            let all_near = found.iter().zip(&expected).all(near);
            prop_assert!(all_near, "{} {} {}: {:?} {:?}", worker, step, key, found, expected);
            // Bit for bit the same at all workers, in any order of summation.
            prop_assert_eq!(found, floats(&vectors[&(0, *step, *key)]));
        }
    }

    #[test]
    fn racks_sum_first_and_then_exchange(
        of in prop::collection::vec(0u32..4, 1..8),
        elements in 1u64..300,
        cores in 1u32..4,
        ring in any::<bool>(),
        mean in any::<bool>(),
        seed in any::<u64>(),
    ) {
        // Every rack has a rank.
        let mut known: Vec<u32> = of.clone();
        known.sort_unstable();
        known.dedup();
        let of: Vec<u32> = of.iter().map(|rack| known.binary_search(rack).unwrap() as u32).collect();
        let (workers, racks) = (of.len() as u32, known.len());
        let between = if ring { "ring" } else { "sharded" };
        let hubs = vec![["127.0.0.1:1"]; racks];
        let reduction = if mean { "mean" } else { "sum" };
        let rest = format!(
            ", \"reduction\": \"{reduction}\", \
             \"racks\": {{\"of\": {of:?}, \"hubs\": {hubs:?}, \"between\": \"{between}\"}}"
        );
        let one = [Cores { cores, interfaces: 1 }];
        let mut world = World::new(terms(workers, &[elements], &rest), &one, seed);
        for step in 1..=3 {
            let mut vectors: Vec<Buffer> =
                (0..workers).map(|worker| buffer(&gradient(worker, 0, step, elements))).collect();
            for worker in 0..workers {
                world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
                let run = world.run(seed % 50);
                prop_assert!(run.is_ok(), "{:?}", run);
            }
            let run = world.run(u64::MAX);
            prop_assert!(run.is_ok(), "{:?}", run);
            let share = if mean { workers as f32 } else { 1.0 };
            for (worker, vector) in (0u32..).zip(&vectors) {
                prop_assert!(world.done(worker, step));
                prop_assert_eq!(u32::from(world.contributors(worker, step)), workers);
                for (found, sum) in floats(vector).iter().zip(sum(0..workers, 0, step, elements)) {
                    prop_assert!((found - sum / share).abs() <= 1e-3, "{} {}", found, sum / share);
                }
                // Bit for bit the same in all racks.
                prop_assert_eq!(floats(vector), floats(&vectors[0]));
            }
        }
    }

    #[test]
    fn the_hub_updates_parameters(
        workers in 1u32..5,
        elements in 1u64..100,
        hubs in hubs(),
        fused in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let rest = ", \"in_order\": true, \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 0.25}}";
        let mut world = World::new(terms(workers, &[elements], rest), &hubs, seed);
        let start: Vec<f32> = (0..elements).map(|i| i as f32).collect();
        let mut vectors: Vec<Buffer> = (0..workers).map(|_| buffer(&vec![0.0; elements as usize])).collect();
        vectors[0] = buffer(&start);
        for worker in (0..workers).rev() {
            let request = if worker == 0 { Request::Set } else { Request::Pull };
            world.begin(worker, 0, request, &mut vectors[worker as usize], false);
        }
        world.run(u64::MAX).unwrap();
        let mut expected = start;
        for step in 1..=3 {
            for worker in 0..workers {
                vectors[worker as usize] = buffer(&gradient(worker, 0, step, elements));
                let vector = &mut vectors[worker as usize];
                if fused {
                    world.begin(worker, 0, Request::PushPull, vector, false);
                } else {
                    world.begin(worker, 0, Request::Push, vector, false);
                }
            }
            if !fused {
                // The input of a push may be overwritten once it is sent.
                world.run(u64::MAX).unwrap();
                for worker in 0..workers {
                    world.begin(worker, 0, Request::Pull, &mut vectors[worker as usize], false);
                }
            }
            world.run(u64::MAX).unwrap();
            let scale = 1.0 / f64::from(workers);
            for (parameter, gradient) in expected.iter_mut().zip(sum(0..workers, 0, step, elements)) {
                *parameter -= 0.25 * ((f64::from(gradient) * scale) as f32);
            }
            for (worker, vector) in (0u32..).zip(&vectors) {
                prop_assert!(world.done(worker, world.begun[worker as usize]));
                prop_assert_eq!(floats(vector), expected.clone());
            }
        }
    }

    #[test]
    fn remaining_workers_go_on_and_a_restarted_worker_rejoins(
        workers in 2u32..6,
        elements in 1u64..300,
        hubs in hubs(),
        when in 0u64..400,
        seed in any::<u64>(),
    ) {
        let rest = ", \"reduction\": \"sum\", \"policy\": \"shrink\", \"in_order\": true";
        let mut world = World::new(terms(workers, &[elements], rest), &hubs, seed);
        let lost = seed as u32 % workers;
        let mut vectors: Vec<Buffer> =
            (0..workers).map(|worker| buffer(&gradient(worker, 0, 1, elements))).collect();
        for worker in 0..workers {
            world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
        }
        world.run(when).unwrap();
        world.kill(lost);
        world.run(u64::MAX).unwrap();
        let all = sum(0..workers, 0, 1, elements);
        let rest = sum((0..workers).filter(|&worker| worker != lost), 0, 1, elements);
        let first = (lost == 0) as u32;
        let result = floats(&vectors[first as usize]);
        for worker in (0..workers).filter(|&worker| worker != lost) {
            prop_assert!(world.done(worker, 1));
            let contributors = u32::from(world.contributors(worker, 1));
            prop_assert!(contributors == workers || contributors == workers - 1);
            prop_assert_eq!(floats(&vectors[worker as usize]), result.clone());
        }
        // Each chunk includes all of the lost worker's contribution, or nothing of it.
        for ((value, all), rest) in result.iter().zip(all).zip(rest) {
            prop_assert!(*value == all || *value == rest, "{} {} {}", value, all, rest);
        }
        // It is restarted, and takes part from the next step of the leader on.
        world.connect(lost, 100 + lost);
        const INCARNATION: u64 = 77;
        for core in world.cores() {
            world.shard(core).expect(JOB, lost, attempt(INCARNATION));
        }
        // An announcement of an earlier incarnation is ignored.
        world.client(first).admit(Newcomer { worker: lost, incarnation: INCARNATION - 1 });
        world.client(first).admit(Newcomer { worker: lost, incarnation: INCARNATION });
        world.run(u64::MAX).unwrap();
        let cores: Vec<u32> = world.cores().collect();
        let joined: Vec<Joined> = cores.into_iter().flat_map(|core| world.shard(core).joined()).collect();
        prop_assert_eq!(joined.len(), world.routes.cores() as usize);
        for joined in joined {
            prop_assert_eq!((joined.worker, joined.attempt), (lost, attempt(INCARNATION)));
            prop_assert!(joined.steps.values().all(|&steps| steps == 1));
        }
        world.client(lost).set_steps(&[1]);
        for worker in 0..workers {
            vectors[worker as usize] = buffer(&gradient(worker, 0, 2, elements));
            world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
        }
        let run = world.run(u64::MAX);
        prop_assert!(run.is_ok(), "{:?}", run);
        for worker in 0..workers {
            prop_assert!(world.done(worker, world.begun[worker as usize]));
            prop_assert_eq!(floats(&vectors[worker as usize]), sum(0..workers, 0, 2, elements));
        }
    }

    /// What the worker had pushed counts once, in any order of later pushes.
    #[test]
    fn a_worker_that_was_ahead_when_it_was_lost_rejoins(
        workers in 2u32..6,
        elements in 1u64..300,
        hubs in hubs(),
        when in 0u64..400,
        in_order in any::<bool>(),
        asks in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let rest = format!(", \"reduction\": \"sum\", \"policy\": \"shrink\", \"in_order\": {in_order}");
        let mut world = World::new(terms(workers, &[elements], &rest), &hubs, seed);
        let lost = seed as u32 % workers;
        let first = (lost == 0) as u32;
        // Small whole numbers: sums are the same in any order.
        let part = |worker: u32, step: u64| vec![(1 << (4 * step)) as f32 + worker as f32; elements as usize];
        let total = |step: u64| (0..workers).map(|worker| part(worker, step)[0]).sum::<f32>();
        let mut vectors: Vec<Buffer> = (0..workers).map(|worker| buffer(&part(worker, 1))).collect();
        for worker in 0..workers {
            world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
        }
        world.run(u64::MAX).unwrap();
        let mut ahead = buffer(&part(lost, 2));
        world.begin(lost, 0, if asks { Request::PushPull } else { Request::Push }, &mut ahead, false);
        world.run(when).unwrap();
        world.kill(lost);
        // Some others push the step before the worker is back, but the leader does not.
        for worker in (0..workers).filter(|&worker| worker != lost && worker != first && worker % 2 == 0) {
            vectors[worker as usize] = buffer(&part(worker, 2));
            world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
        }
        world.run(when).unwrap();
        world.connect(lost, 100 + lost);
        for core in world.cores() {
            world.shard(core).expect(JOB, lost, attempt(77));
        }
        world.client(first).admit(Newcomer { worker: lost, incarnation: 77 });
        world.run(u64::MAX).unwrap();
        world.client(lost).set_steps(&[1]);
        for step in 2..4 {
            let late: Vec<u32> = (0..workers)
                .filter(|&worker| step > 2 || worker == lost || worker == first || worker % 2 == 1)
                .collect();
            for &worker in &late {
                vectors[worker as usize] = buffer(&part(worker, step));
                world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
            }
            let run = world.run(u64::MAX);
            prop_assert!(run.is_ok(), "{:?}", run);
            for worker in 0..workers {
                let last = world.begun[worker as usize];
                prop_assert!(world.done(worker, last), "rank {worker} of step {step}, {lost} was lost");
                prop_assert_eq!(u32::from(world.contributors(worker, last)), workers);
                prop_assert_eq!(floats(&vectors[worker as usize]), vec![total(step); elements as usize]);
            }
        }
    }

    #[test]
    fn a_restarted_worker_continues_where_it_was_under_policy_wait(
        workers in 1u32..5,
        elements in 1u64..300,
        hubs in hubs(),
        when in 0u64..400,
        seed in any::<u64>(),
    ) {
        let rest = ", \"in_order\": true, \"policy\": \"wait\", \
                    \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 0.5}}";
        let mut world = World::new(terms(workers, &[elements], rest), &hubs, seed);
        let start = gradient(9, 9, 9, elements);
        let mut parameters = buffer(&start);
        world.begin(0, 0, Request::Set, &mut parameters, false);
        world.run(u64::MAX).unwrap();
        let after = |parameters: &[f32], step| -> Vec<f32> {
            let scale = 1.0 / f64::from(workers);
            let sum = sum(0..workers, 0, step, elements);
            parameters.iter().zip(sum).map(|(p, g)| p - 0.5 * ((f64::from(g) * scale) as f32)).collect()
        };
        let lost = seed as u32 % workers;
        let mut vectors: Vec<Buffer> =
            (0..workers).map(|worker| buffer(&gradient(worker, 0, 1, elements))).collect();
        for worker in 0..workers {
            world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
        }
        world.run(when).unwrap();
        world.kill(lost);
        world.run(u64::MAX).unwrap();
        // Restarted, it learns which step it must push next, and gets the parameters before that step.
        for core in world.cores() {
            world.shard(core).resume(JOB, lost, attempt(78));
        }
        let cores: Vec<u32> = world.cores().collect();
        let joined = cores.into_iter().flat_map(|core| world.shard(core).joined());
        let owed = joined.flat_map(|joined| joined.steps.into_values()).min().unwrap() + 1;
        prop_assert!(owed == 1 || owed == 2);
        world.connect(lost, 100 + lost);
        world.client(lost).set_steps(&[owed - 1]);
        world.begin(lost, 0, Request::Pull, &mut parameters, false);
        world.run(u64::MAX).unwrap();
        let expected: Vec<f32> = if owed == 1 { start.clone() } else { after(&start, 1) };
        prop_assert_eq!(floats(&parameters), expected);
        let mut parameters = start;
        for step in 1..=2 {
            for worker in 0..workers {
                if step == 1 && (worker != lost || owed == 2) {
                    continue;
                }
                vectors[worker as usize] = buffer(&gradient(worker, 0, step, elements));
                world.begin(worker, 0, Request::PushPull, &mut vectors[worker as usize], false);
            }
            let run = world.run(u64::MAX);
            prop_assert!(run.is_ok(), "{:?}", run);
            parameters = after(&parameters, step);
            for worker in (0..workers).filter(|&worker| step == 2 || worker != lost) {
                prop_assert!(world.done(worker, world.begun[worker as usize]), "{} of {}", worker, workers);
                prop_assert_eq!(floats(&vectors[worker as usize]), parameters.clone());
            }
        }
    }
}

#[test]
fn workers_of_an_asynchronous_job_do_not_wait() {
    let rest =
        ", \"pace\": \"asynchronous\", \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 1}}";
    let mut world = World::new(terms(3, &[40], rest), &[Cores { cores: 2, interfaces: 1 }], 1);
    let mut parameters = buffer(&[100.0; 40]);
    world.begin(0, 0, Request::Set, &mut parameters, false);
    world.run(u64::MAX).unwrap();
    let mut ones = buffer(&[1.0; 40]);
    for expected in [99.0, 98.0] {
        ones = buffer(&[1.0; 40]);
        world.begin(1, 0, Request::PushPull, &mut ones, false);
        world.run(u64::MAX).unwrap();
        assert_eq!(floats(&ones), [expected; 40]);
    }
    world.begin(2, 0, Request::Pull, &mut ones, false);
    world.run(u64::MAX).unwrap();
    assert_eq!(floats(&ones), [98.0; 40]);
}

#[test]
fn a_learning_rate_changes_between_steps() {
    let rest = ", \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 1}}";
    let mut world = World::new(terms(1, &[40], rest), &[Cores { cores: 2, interfaces: 1 }], 1);
    let mut vector = buffer(&[100.0; 40]);
    world.begin(0, 0, Request::Set, &mut vector, false);
    for (rate, expected) in [(None, 99.0), (Some(0.25), 98.75)] {
        if let Some(rate) = rate {
            world.client(0).set_rate(rate, None);
        }
        world.run(u64::MAX).unwrap();
        vector = buffer(&[1.0; 40]);
        world.begin(0, 0, Request::PushPull, &mut vector, false);
        world.run(u64::MAX).unwrap();
        assert_eq!(floats(&vector), [expected; 40]);
    }
}

#[test]
fn each_vector_has_its_own_optimizer_and_rate() {
    let mut terms =
        terms(1, &[40, 40, 40], ", \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 1}}");
    let own = "{\"name\": \"sgd\", \"parameters\": {\"lr\": 2, \"momentum\": 0.5}}";
    terms.keys[1].optimizer = Some(serde_json::from_str(own).unwrap());
    let mut world = World::new(terms, &[Cores { cores: 2, interfaces: 1 }], 1);
    let mut vectors: Vec<Buffer> = (0..3).map(|_| buffer(&[100.0; 40])).collect();
    for key in 0..3 {
        world.begin(0, key, Request::Set, &mut vectors[key as usize], false);
    }
    // Velocities of the second vector are 1, 1.5, 1.75. The third has another rate from the third step on.
    let expected = [[99.0, 98.0, 97.0], [98.0, 95.0, 91.5], [99.0, 98.0, 97.75]];
    for step in 0..3 {
        if step == 2 {
            world.client(0).set_rate(0.25, Some(2));
        }
        world.run(u64::MAX).unwrap();
        for key in 0..3 {
            vectors[key as usize] = buffer(&[1.0; 40]);
            world.begin(0, key, Request::PushPull, &mut vectors[key as usize], false);
        }
        world.run(u64::MAX).unwrap();
        for (vector, expected) in vectors.iter().zip(expected) {
            assert_eq!(floats(vector), [expected[step]; 40]);
        }
    }
}

#[test]
fn a_worker_rejoins_between_two_steps_of_vectors_that_are_pushed_together() {
    let rest = ", \"reduction\": \"sum\", \"policy\": \"shrink\"";
    for (together, expected) in [(vec![], [1, 0]), (vec!["k0".to_owned(), "k1".to_owned()], [1, 1])] {
        let terms = Terms { together, ..terms(2, &[40, 40], rest) };
        let mut world = World::new(terms, &[Cores { cores: 1, interfaces: 1 }], 1);
        world.kill(1);
        world.connect(1, 101);
        world.shard(0).expect(JOB, 1, attempt(9));
        let mut vectors = [buffer(&[1.0; 40]), buffer(&[1.0; 40])];
        world.begin(0, 0, Request::PushPull, &mut vectors[0], false);
        world.client(0).admit(Newcomer { worker: 1, incarnation: 9 });
        world.run(u64::MAX).unwrap();
        world.begin(0, 1, Request::PushPull, &mut vectors[1], false);
        world.run(u64::MAX).unwrap();
        let joined = world.shard(0).joined();
        let steps: Vec<u64> = joined[0].steps.values().copied().collect();
        assert_eq!(steps, expected);
    }
}

#[test]
fn a_push_without_parameters_or_out_of_order_is_an_error() {
    let rest = ", \"optimizer\": {\"name\": \"sgd\"}";
    let one = [Cores { cores: 1, interfaces: 1 }];
    let mut world = World::new(terms(2, &[4], rest), &one, 1);
    let mut vector = buffer(&[1.0; 4]);
    world.begin(1, 0, Request::Push, &mut vector, false);
    let InvalidBytes { end: (_, worker), error: broken } = world.run(u64::MAX).unwrap_err();
    assert_eq!(worker, 1);
    assert!(broken.to_string().contains("a gradient for `k0` before its parameters were set"), "{broken}");
    // This step is not the next.
    let mut world = World::new(terms(2, &[4], ""), &one, 1);
    world.client(0).set_steps(&[4]);
    world.begin(0, 0, Request::Push, &mut vector, false);
    assert!(matches!(
        world.run(u64::MAX),
        Err(InvalidBytes { end: (_, 0), error: ProtocolError::Unknown(_) })
    ));
}

#[test]
fn a_core_reports_which_workers_block_others() {
    let one = [Cores { cores: 1, interfaces: 1 }];
    let mut world = World::new(terms(4, &[4, 4], ""), &one, 1);
    let mut vectors: Vec<Buffer> = (0..3).map(|_| buffer(&[1.0; 4])).collect();
    assert_eq!(world.waits(1, 1), Waits::default());
    // Ranks 0 and 2 wait at one vector, and rank 3 at the other: rank 1 blocks all, and each waiting rank blocks the
    // others.
    for ((worker, key), vector) in [(0, 1), (2, 1), (3, 0)].into_iter().zip(&mut vectors) {
        world.begin(worker, key, Request::PushPull, vector, false);
    }
    world.run(u64::MAX).unwrap();
    let Waits { blocked, waiting } = world.waits(1, 1);
    let blocked = blocked.unwrap();
    assert_eq!((blocked.step, blocked.missing), (1, vec![1, 3]));
    assert_eq!(waiting, [0, 2, 3].into());
    // A complete step, or a step that no rank waits for, is not blocked.
    assert_eq!(world.waits(1, 0).blocked, None);
    assert_eq!(world.waits(2, 1).blocked, None);
}

#[test]
fn a_core_stops_reading_from_a_worker_that_is_too_far_ahead() {
    let one = [Cores { cores: 1, interfaces: 1 }];
    let mut world = World::new(terms(2, &[1 << 14], ""), &one, 1);
    let mut vector = buffer(&[1.0; 1 << 14]);
    for _ in 0..40 {
        world.begin(0, 0, Request::Push, &mut vector, false);
    }
    world.run(u64::MAX).unwrap();
    assert!(!world.shard(0).reads(0));
    let mut other = buffer(&[1.0; 1 << 14]);
    for _ in 0..40 {
        world.begin(1, 0, Request::Push, &mut other, false);
    }
    world.run(u64::MAX).unwrap();
    assert!(world.shard(0).reads(0) && world.done(0, 40) && world.done(1, 40));
}

#[test]
fn aborted_exchanges_restore_their_input() {
    let one = [Cores { cores: 1, interfaces: 1 }];
    let mut world = World::new(terms(2, &[100], ", \"policy\": \"shrink\""), &one, 1);
    let mut vectors: Vec<Buffer> = (0..2).map(|worker| buffer(&gradient(worker, 0, 1, 100))).collect();
    for (worker, vector) in (0..).zip(&mut vectors) {
        world.begin(worker, 0, Request::PushPull, vector, true);
    }
    world.run(120).unwrap();
    world.client(0).abort();
    assert_eq!(floats(&vectors[0]), gradient(0, 0, 1, 100));
}

#[test]
fn silence_of_a_worker_counts_from_its_first_message() {
    let terms = r#"{"workers": 1, "keys": [{"name": "w", "element": "f32", "elements": 9}]}"#;
    let terms: Terms = serde_json::from_str(terms).unwrap();
    let mut shard = Shard::default();
    shard.open(1, std::sync::Arc::new(terms.contract(&Optimizers::default()).unwrap()), 0);
    assert!(shard.attach(7, 1, Peer::Worker(0)));
    let mut heartbeats = Heartbeats::new(Patience::default(), Duration::from_millis(0));
    heartbeats.join(7, Duration::from_millis(0));
    // Before the job's chunks are assigned, nothing is read. After that, the worker is read but has not sent anything
    // yet.
    assert!(
        !shard.reads(7) && heartbeats.check(&mut shard, &[7], Duration::from_millis(100)).lost.is_empty()
    );
    shard.assign(1, vec![0], None, Bounds { ahead: 1 << 20, buffers: 1 << 20 }, BTreeMap::new());
    assert!(shard.reads(7));
    for now in (200..5000).step_by(100) {
        assert_eq!(heartbeats.check(&mut shard, &[7], Duration::from_millis(now)).lost, []);
    }
    heartbeats.heard(7, Duration::from_millis(5000));
    let lost = (5100..7000)
        .step_by(100)
        .find_map(|now| heartbeats.check(&mut shard, &[7], Duration::from_millis(now)).lost.pop());
    assert_eq!(lost.unwrap().peer, 7);
}

/// Trains with `steps` steps, each of all vectors; before step `change` of it, some worker changes the learning rate. Returns
/// the parameters of each worker.
fn train(
    world: &mut World,
    steps: std::ops::Range<u64>,
    rate: Option<(u64, u32, f64)>,
) -> Vec<Vec<Vec<f32>>> {
    let (workers, keys) = (world.begun.len() as u32, world.contract.catalogue.keys().len() as u32);
    let sizes: Vec<u64> = world.contract.catalogue.keys().iter().map(|key| key.elements).collect();
    let mut last = Vec::new();
    for step in steps {
        let mut vectors = Vec::new();
        for worker in 0..workers {
            if let Some((_, _, rate)) = rate.filter(|&(at, by, _)| at == step && by == worker) {
                world.client(worker).set_rate(rate, None);
            }
            for key in 0..keys {
                let mut vector = buffer(&gradient(worker, key, step, sizes[key as usize]));
                let sequence = world.begin(worker, key, Request::PushPull, &mut vector, false);
                vectors.push((worker, sequence, vector));
            }
        }
        world.run(u64::MAX).unwrap();
        assert!(vectors.iter().all(|(worker, sequence, _)| world.done(*worker, *sequence)));
        last = vectors
            .chunks(keys as usize)
            .map(|own| own.iter().map(|(.., vector)| floats(vector)).collect())
            .collect();
    }
    last
}

fn set_all(world: &mut World) -> Vec<Buffer> {
    let sizes: Vec<u64> = world.contract.catalogue.keys().iter().map(|key| key.elements).collect();
    let mut first: Vec<Buffer> =
        (0..).zip(&sizes).map(|(key, &size)| buffer(&gradient(9, key, 0, size))).collect();
    for (key, vector) in (0..).zip(&mut first) {
        world.begin(0, key, Request::Set, vector, false);
    }
    world.run(u64::MAX).unwrap();
    first
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_rate_that_one_worker_sets_holds_in_all_racks_from_the_same_step_on(
        racks in 2u32..5,
        each in 1u32..3,
        by in any::<prop::sample::Index>(),
        at in 1u64..4,
        ring in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let workers = racks * each;
        let rest = ", \"in_order\": true, \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 1, \"momentum\": 0.5}}";
        let by = by.index(workers as usize) as u32;
        let of: Vec<String> = (0..workers).map(|worker| (worker % racks).to_string()).collect();
        let hubs = vec!["[\"127.0.0.1:1\"]"; racks as usize].join(", ");
        let between = if ring { "ring" } else { "sharded" };
        let place = format!(", \"racks\": {{\"of\": [{}], \"hubs\": [{hubs}], \"between\": \"{between}\"}}", of.join(", "));
        let cores = [Cores { cores: 2, interfaces: 1 }];
        let mut apart = World::new(terms(workers, &[40, 7], &format!("{rest}{place}")), &cores, seed);
        let _first = set_all(&mut apart);
        let found = train(&mut apart, 1..5, Some((at, by, 0.25)));
        // All workers get the same, whatever their rack.
        prop_assert!(found.iter().all(|own| *own == found[0]));
        // One hub for all ranks changes the rate at the same step. It adds in another order.
        let mut together = World::new(terms(workers, &[40, 7], rest), &cores, seed);
        let _first = set_all(&mut together);
        let wanted = train(&mut together, 1..5, Some((at, by, 0.25)));
        for (found, wanted) in found[0].iter().flatten().zip(wanted[0].iter().flatten()) {
            prop_assert!((found - wanted).abs() <= 1e-4 * wanted.abs().max(1.0), "{} {}", found, wanted);
        }
    }

    #[test]
    fn a_job_continues_from_a_save_as_if_nothing_had_happened(
        workers in 1u32..4,
        elements in prop::collection::vec(1u64..150, 1..4),
        hubs in hubs(),
        optimizer in prop::sample::select(vec!["adam", "sgd"]),
        saved in 2u64..5,
        changed in 1u64..6,
        seed in any::<u64>(),
    ) {
        let parameters = if optimizer == "sgd" { ", \"parameters\": {\"momentum\": 0.9}" } else { "" };
        let rest = format!(", \"in_order\": true, \"optimizer\": {{\"name\": \"{optimizer}\"{parameters}}}");
        let rate = Some((changed, 0, 0.25));
        let mut whole = World::new(terms(workers, &elements, &rest), &hubs, seed);
        let _first = set_all(&mut whole);
        let _before = train(&mut whole, 1..saved + 1, rate);
        // The last worker announces the save and everybody goes on. Its state is that of the step, whenever the cores learn of it.
        whole.client(workers - 1).save(0);
        let wanted = train(&mut whole, saved + 1..7, rate);
        let number = whole.client(workers - 1).take_announced_save();
        prop_assert_eq!(number, Some(saved * elements.len() as u64));
        let shares: Vec<_> = whole.cores().map(|core| whole.shard(core).saved_shares()).collect();
        prop_assert!(shares.iter().all(|share| share.len() == 1 && Some(share[0].number) == number));
        let state: BTreeMap<_, _> = shares.into_iter().flatten().flat_map(|share| share.chunks).collect();
        prop_assert!(state.values().all(|chunk| chunk.step == saved));
        // Another number of cores distributes the same chunks differently.
        let other = [Cores { cores: 3, interfaces: 1 }];
        let mut again = World::with(terms(workers, &elements, &rest), &other, seed ^ 1, &state);
        for worker in 0..workers {
            again.client(worker).set_steps(&vec![saved; elements.len()]);
        }
        prop_assert_eq!(train(&mut again, saved + 1..7, rate.filter(|rate| rate.0 > saved)), wanted);
    }
}

/// The learning rates of each chunk of a save on two cores.
fn saved_rates(world: &mut World) -> Vec<Vec<(u64, f64)>> {
    let shares = [0, 1].map(|core| world.shard(core).saved_shares().remove(0));
    let rates = |chunk: &SavedChunk| chunk.rates.iter().map(|rate| (rate.from, rate.rate)).collect();
    shares.iter().flat_map(|share| share.chunks.values()).map(rates).collect()
}

#[test]
fn a_learning_rate_is_in_a_save_with_all_chunks_or_with_none() {
    let rest = ", \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 1}}";
    let trained = || {
        let mut world = World::new(terms(2, &[9, 9], rest), &[Cores { cores: 2, interfaces: 1 }], 3);
        let _first = set_all(&mut world);
        train(&mut world, 1..3, None);
        world
    };
    for before in [false, true] {
        let mut world = trained();
        let mut vectors = Vec::new();
        let mut push = |world: &mut World, worker, key| {
            let mut vector = buffer(&[1.0; 9]);
            world.begin(worker, key, Request::PushPull, &mut vector, false);
            vectors.push(vector);
        };
        // Worker 0 sets the rate as it announces a save. One vector is complete then, and the other is not.
        push(&mut world, 1, 0);
        push(&mut world, 0, 0);
        push(&mut world, 0, 1);
        if before {
            world.client(0).set_rate(0.5, None);
        }
        world.client(0).save(0);
        world.run(u64::MAX).unwrap();
        if !before {
            world.client(0).set_rate(0.5, None);
        }
        world.run(u64::MAX).unwrap();
        push(&mut world, 1, 1);
        world.run(u64::MAX).unwrap();
        let wanted = if before { vec![(4, 0.5)] } else { Vec::new() };
        assert_eq!(saved_rates(&mut world), [wanted.clone(), wanted], "{before}");
    }
    // All ranks may set it: what counts is whether the one that announces the save has.
    for leader in 0..2 {
        let mut world = trained();
        world.client(1).set_rate(0.5, None);
        world.run(u64::MAX).unwrap();
        world.client(0).set_rate(0.5, None);
        world.run(u64::MAX).unwrap();
        world.client(leader).save(0);
        world.run(u64::MAX).unwrap();
        assert_eq!(saved_rates(&mut world), [[(3, 0.5)], [(3, 0.5)]]);
    }
}

#[test]
fn a_rank_of_a_rack_that_is_lost_no_longer_counts_and_comes_back() {
    let rest = ", \"policy\": \"shrink\", \"optimizer\": {\"name\": \"sgd\", \"parameters\": {\"lr\": 1}}, \
                \"racks\": {\"of\": [0, 0, 1], \"hubs\": [[\"127.0.0.1:1\"], [\"127.0.0.1:2\"]], \"between\": \"ring\"}";
    let mut world = World::new(terms(3, &[40], rest), &[Cores { cores: 2, interfaces: 1 }], 3);
    let _first = set_all(&mut world);
    let step = |world: &mut World, workers: &[u32]| {
        let mut vectors: Vec<_> =
            workers.iter().map(|&worker| (worker, buffer(&[f32::from(worker as u8); 40]))).collect();
        let begun: Vec<u64> = vectors
            .iter_mut()
            .map(|(worker, vector)| world.begin(*worker, 0, Request::PushPull, vector, false))
            .collect();
        world.run(u64::MAX).unwrap();
        let all: Vec<u16> =
            workers.iter().zip(&begun).map(|(&worker, &each)| world.contributors(worker, each)).collect();
        assert!(vectors.iter().all(|(_, vector)| floats(vector) == floats(&vectors[0].1)));
        all
    };
    assert_eq!(step(&mut world, &[0, 1, 2]), [3, 3, 3]);
    world.kill(1);
    assert_eq!(step(&mut world, &[0, 2]), [2, 2]);
    // The other rank of its rack announces it. The other rack need not know.
    for core in world.cores() {
        world.shard(core).expect(JOB, 1, attempt(9));
    }
    world.connect(1, 1);
    world.client(0).admit(Newcomer { worker: 1, incarnation: 9 });
    world.run(u64::MAX).unwrap();
    world.client(1).set_steps(&[2]);
    assert_eq!(step(&mut world, &[0, 1, 2]), [3, 3, 3]);
}
