//! Transfers and groups on lanes without sockets. Whatever the order of arrival, each transfer arrives once,
//! unchanged, and in the order of its tag. What is kept is bounded, and a rank that leaves a group disturbs nothing
//! else.

use crate::lending::Lent;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use syncline_plan::by_name;
use syncline_protocol::fault;
use syncline_protocol::fault::Trouble;
use syncline_protocol::lane::transfers::{
    Delivery, EAGER, KEPT, Label, MAX_OFFERS, Mismatch, PIECE, Transfer,
};
use syncline_protocol::lane::{
    Desertion, FlowControl, KeptBytes, Lane, Opening, OperationId, StartedOperation,
};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::Buffer;
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
use syncline_protocol::virtual_network::{InvalidBytes, Mishap, VirtualNetwork};
use syncline_protocol::wire::{FrameKind, Header};
use syncline_reduction::{Element, Reduction};
use syncline_units::CollectiveKind;

/// The book of a rank that runs rings.
const fn id(group: u32, sequence: u64) -> OperationId {
    OperationId { group, sequence }
}

fn book(member: u32, ranks: u32) -> Arc<PlanBook> {
    let rule = |kind, name| Rule::new(kind, by_name(name).unwrap(), 4096);
    let rules = vec![rule(CollectiveKind::AllReduce, "ring"), rule(CollectiveKind::Broadcast, "direct")];
    Arc::new(PlanBook::new(member, ranks, Selection::of((0..ranks).collect(), rules)).unwrap())
}

fn lanes(ranks: u32) -> Vec<Lane> {
    let flow = FlowControl { lanes: 1, window: 64 << 10, ahead: 1 << 20 };
    (0..ranks).map(|rank| Lane::new(0, flow, 0, book(rank, ranks))).collect()
}

fn operation(kind: CollectiveKind, elements: u64) -> Operation {
    Operation {
        kind,
        elements,
        element: Element::I64,
        reduction: Reduction::Sum,
        root: 0,
        association: Association::Arrival,
    }
}

/// Bytes that differ from those of all other transfers.
fn content(from: u32, to: u32, tag: i64, number: usize, bytes: usize) -> Vec<u8> {
    let seed = (u64::from(from) << 40) ^ (u64::from(to) << 24) ^ ((number as u64) << 8) ^ tag.cast_unsigned();
    (0..bytes as u64).map(|at| ((at + 1).wrapping_mul(seed | 1) >> 5) as u8).collect()
}

fn filled(bytes: &[u8]) -> Buffer {
    let mut buffer = Buffer::new(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    buffer
}

/// One rank's side of transfers: its buffers by transfer number.
#[derive(Default)]
struct Side {
    buffers: BTreeMap<u64, Buffer>,
    next: u64,
}

impl Side {
    fn keep(&mut self, buffer: Buffer) -> (u64, syncline_protocol::memory::Region) {
        self.next += 1;
        self.buffers.insert(self.next, buffer);
        (self.next, self.buffers.get_mut(&self.next).unwrap().region())
    }

    fn send(&mut self, lane: &mut Lane, label: Label, to: u32, bytes: &[u8]) -> u64 {
        let (id, region) = self.keep(filled(bytes));
        lane.send(Transfer { id, label, peer: Some(to), region });
        id
    }

    fn receive(&mut self, lane: &mut Lane, label: Label, from: Option<u32>, bytes: usize) -> u64 {
        let (id, region) = self.keep(Buffer::new(bytes));
        lane.receive(Transfer { id, label, peer: from, region });
        id
    }
}

fn app(tag: i64) -> Label {
    Label { group: 0, space: 0, tag }
}

/// A transfer: sender, receiver, tag, and number of bytes.
type Ask = (u32, u32, i64, usize);

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0usize),
        1usize..100,
        (EAGER - 1)..(EAGER + 2),
        (PIECE - 1)..(PIECE + 2),
        (2 * PIECE)..(3 * PIECE),
    ]
}

fn asks(ranks: u32) -> impl Strategy<Value = Vec<Ask>> {
    let pair = (0..ranks, 1..ranks).prop_map(move |(from, more)| (from, (from + more) % ranks));
    let ask = (pair, 0i64..3, sizes()).prop_map(|((from, to), tag, bytes)| (from, to, tag, bytes));
    prop::collection::vec(ask, 1..24)
}

/// A pseudorandom number.
fn next(turn: &mut u64) -> u64 {
    *turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *turn >> 33
}

/// Runs sends and receives, each begun at a random time, with all-reduces among them, and compares what arrives with
/// what was sent. A mishap, if any, strikes bytes in transit.
fn check(
    ranks: u32,
    asks: &[Ask],
    any: bool,
    seed: u64,
    mishap: Option<Mishap>,
) -> Result<(), TestCaseError> {
    let mut network = VirtualNetwork::mesh(lanes(ranks), seed, 1 << (6 + seed % 11));
    let mut sides: Vec<Side> = (0..ranks).map(|_| Side::default()).collect();
    let mut turn = seed;
    // Each rank's sends and receives in order; ranks proceed at different times.
    let mut todo: Vec<Vec<(bool, usize)>> = vec![Vec::new(); ranks as usize];
    for (number, &(from, to, ..)) in asks.iter().enumerate() {
        todo[from as usize].push((true, number));
        todo[to as usize].push((false, number));
    }
    let mut vectors: Vec<Buffer> = (0..ranks).map(|_| filled(&1i64.to_ne_bytes().repeat(3000))).collect();
    let mut received: Vec<(u32, u64, usize)> = Vec::new();
    let mut rank = 0;
    let mut left = asks.len() * 2 + ranks as usize;
    let mut begun = vec![false; ranks as usize];
    let mut found = None;
    while left > 0 && found.is_none() {
        rank = (rank + 1 + next(&mut turn) as u32) % ranks;
        let me = rank as usize;
        let lane = network.machine(me);
        if !begun[me] && next(&mut turn).is_multiple_of(4) {
            let region = vectors[me].region();
            let shape = book(rank, ranks).shape(1, &operation(CollectiveKind::AllReduce, 3000)).unwrap();
            lane.start(Arc::new(StartedOperation {
                sequence: 1,
                shape,
                input: region,
                output: region,
                keep: true,
            }))
            .unwrap();
            begun[me] = true;
            left -= 1;
        } else if !todo[me].is_empty() {
            let (sends, number) = todo[me].remove(0);
            let (from, to, tag, bytes) = asks[number];
            if sends {
                sides[me].send(lane, app(tag), to, &content(from, to, tag, number, bytes));
            } else {
                let source = (!any).then_some(from);
                let id = sides[me].receive(lane, app(tag), source, bytes);
                received.push((rank, id, number));
            }
            left -= 1;
        }
        for _ in 0..next(&mut turn) % 40 {
            if let Err(invalid) = network.step() {
                // Nothing more is read from a peer that sent invalid bytes.
                network.close_end(invalid.end);
                found = Some(invalid);
            }
        }
        if left == asks.len()
            && let Some(mishap) = mishap
        {
            network.mishap(mishap);
        }
    }
    // A mishap on a connection is detected by the next heartbeat.
    for one in 0..ranks {
        (0..ranks)
            .filter(|&other| other != one)
            .for_each(|other| network.machine(one as usize).send_heartbeat(other));
    }
    while let Err(invalid) = network.run() {
        network.close_end(invalid.end);
        found = Some(invalid);
    }
    prop_assert!(found.is_none() || mishap.is_some(), "{:?}", found);
    // Or the receiver waits for bytes that were lost, and heartbeats are too short to stand in for them. `Heartbeats`
    // finds that.
    let pairs = (0..ranks).flat_map(|one| (0..ranks).map(move |other| (one as usize, other)));
    let stuck = pairs.filter(|&(one, other)| network.machine(one).coming(other).is_some()).count() > 0;
    let mut delivered: BTreeMap<(u32, u64), u32> = BTreeMap::new();
    for rank in 0..ranks {
        while let Some(Delivery { id, outcome }) = network.machine(rank as usize).delivered() {
            match outcome {
                Ok(peer) => prop_assert!(delivered.insert((rank, id), peer).is_none()),
                Err(mismatch) => prop_assert!(mishap.is_some(), "{:?}", mismatch),
            }
        }
    }
    for &(rank, id, number) in &received {
        let Some(&peer) = delivered.get(&(rank, id)) else {
            prop_assert!(found.is_some() || stuck, "receive {} of rank {} is not over", id, rank);
            continue;
        };
        let (from, to, tag, bytes) = asks[number];
        prop_assert!(any || peer == from);
        prop_assert!(
            any || sides[rank as usize].buffers[&id].as_slice() == content(from, to, tag, number, bytes),
            "rank {} got something other than {:?}",
            rank,
            asks[number]
        );
        if any {
            // It is one of the transfers that were sent with this tag.
            let got = sides[rank as usize].buffers[&id].as_slice();
            let fits = asks.iter().enumerate().any(|(number, &(from, to, other, bytes))| {
                (from, to, other) == (peer, rank, tag) && got == content(from, to, other, number, bytes)
            });
            prop_assert!(fits, "rank {} got something that rank {} has not sent", rank, peer);
        }
    }
    if found.is_none() && !stuck {
        prop_assert!((0..ranks).all(|rank| network.machine(rank as usize).finished() == Some(id(0, 1))));
        prop_assert!(
            vectors.iter().all(|vector| vector.as_slice() == i64::from(ranks).to_ne_bytes().repeat(3000))
        );
        prop_assert!((0..ranks).all(|rank| network.machine(rank as usize).kept().transfers == 0));
    }
    (0..ranks).for_each(|rank| drop(network.machine(rank as usize).abort()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn sends_arrive_in_the_order_of_their_tag(
        (ranks, asks) in (2u32..6).prop_flat_map(|ranks| (Just(ranks), asks(ranks))), seed in any::<u32>(),
    ) {
        check(ranks, &asks, false, u64::from(seed), None)?;
    }

    /// Receives from any rank. All transfers have one length, so that it does not matter which comes first.
    #[test]
    fn a_receive_from_any_rank_names_the_sender(
        (ranks, asks) in (2u32..6).prop_flat_map(|ranks| (Just(ranks), asks(ranks))), bytes in sizes(), seed in any::<u32>(),
    ) {
        let asks: Vec<Ask> = asks.into_iter().map(|(from, to, tag, _)| (from, to, tag, bytes)).collect();
        check(ranks, &asks, true, u64::from(seed), None)?;
    }

    /// Fault: bytes or frames of transfers change, are lost, are duplicated or are inserted -> the receiver detects it; nothing wrong is delivered
    #[test]
    fn no_damaged_transfer_is_delivered(
        (ranks, asks) in (2u32..4).prop_flat_map(|ranks| (Just(ranks), asks(ranks))),
        mishap in prop::sample::select(Mishap::ALL.to_vec()), seed in any::<u32>(),
    ) {
        check(ranks, &asks, false, u64::from(seed), Some(mishap))?;
    }
}

/// Moves bytes until none are left.
fn settle(network: &mut VirtualNetwork<Lane>) {
    while network.sweep().unwrap() {}
}

/// Lets many ranks do everything at once: send in a ring, gather, scatter, and exchange blocks of all sizes.
fn at_scale(ranks: u32) {
    let mut network = VirtualNetwork::mesh(lanes(ranks), 5, 1 << 16);
    let mut sides: Vec<Side> = (0..ranks).map(|_| Side::default()).collect();
    let block = |from: u32, to: u32| (from * 7 + to * 3) as usize % 97;
    let mut expected: Vec<(u32, u64, Vec<u8>)> = Vec::new();
    let mut begin = |network: &mut VirtualNetwork<Lane>, from: u32, to: u32, label: Label, bytes: usize| {
        let what = content(from, to, label.tag, label.space as usize, bytes);
        let id = sides[to as usize].receive(network.machine(to as usize), label, Some(from), bytes);
        expected.push((to, id, what.clone()));
        sides[from as usize].send(network.machine(from as usize), label, to, &what);
    };
    for rank in 0..ranks {
        begin(&mut network, rank, (rank + 1) % ranks, app(1), 1000 + rank as usize);
    }
    for rank in 1..ranks {
        begin(&mut network, rank, 0, Label { group: 0, space: 1, tag: 2 }, 3 * rank as usize);
        begin(&mut network, 0, rank, Label { group: 0, space: 2, tag: 3 }, 5 * rank as usize);
    }
    for from in 0..ranks {
        for to in (0..ranks).filter(|&to| to != from) {
            begin(&mut network, from, to, Label { group: 0, space: 3, tag: 1 }, block(from, to));
        }
    }
    settle(&mut network);
    let mut delivered = 0;
    for rank in 0..ranks {
        while let Some(Delivery { outcome, .. }) = network.machine(rank as usize).delivered() {
            outcome.unwrap();
            delivered += 1;
        }
        assert_eq!(network.machine(rank as usize).kept(), KeptBytes::default());
    }
    assert_eq!(delivered, 2 * expected.len());
    for (rank, id, what) in expected {
        assert!(sides[rank as usize].buffers[&id].as_slice() == what, "transfer {id} of rank {rank}");
    }
}

#[test]
fn ranks_64_send_gather_scatter_and_exchange_unevenly() {
    at_scale(64);
}

#[test]
fn ranks_256_send_gather_scatter_and_exchange_unevenly() {
    at_scale(256);
}

#[test]
fn unmatched_sends_are_kept_up_to_a_limit_and_the_rest_waits_at_the_sender() {
    let mut network = VirtualNetwork::mesh(lanes(2), 1, 1 << 16);
    let mut sides = [Side::default(), Side::default()];
    const MANY: usize = 3 * MAX_OFFERS as usize;
    for number in 0..MANY {
        let bytes = if number % 2 == 0 { 1000 } else { 70_000 };
        sides[0].send(network.machine(0), app(0), 1, &content(0, 1, 0, number, bytes)[..bytes.min(1000)]);
    }
    settle(&mut network);
    let kept = network.machine(1).kept().transfers;
    assert!(kept <= KEPT && kept + 1000 > KEPT, "{kept} bytes are kept");
    let sent = std::iter::from_fn(|| network.machine(0).delivered()).count();
    assert_eq!(sent, KEPT / 1000, "a send that the receiver keeps has ended for its sender");
    // Everything arrives in the end, in order.
    for number in 0..MANY {
        let id = sides[1].receive(network.machine(1), app(0), Some(0), 1000);
        settle(&mut network);
        assert_eq!(network.machine(1).delivered(), Some(Delivery { id, outcome: Ok(0) }));
        assert_eq!(sides[1].buffers[&id].as_slice(), &content(0, 1, 0, number, 1000)[..]);
        sides[1].buffers.remove(&id);
    }
    assert_eq!(network.machine(1).kept().transfers, 0);
}

/// A frame from rank 1 to rank 0.
fn frame(kind: FrameKind, sequence: u32, chunk: u32, place: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header { kind, epoch: 0, sequence, chunk };
    [&header.encode(place, payload)[..], payload].concat()
}

/// Fault: a peer exceeds the limit of transfers offered, or of bytes sent with offers -> it is at fault
#[test]
fn a_peer_that_offers_too_much_is_at_fault() {
    let offer = |length: u64, tag: u64| {
        let mut payload = [0; 32];
        payload[16..24].copy_from_slice(&tag.to_le_bytes());
        payload[24..].copy_from_slice(&length.to_le_bytes());
        payload
    };
    let mut lane = lanes(2).remove(0);
    for number in 0..MAX_OFFERS {
        lane.received(1, &frame(FrameKind::Offer, number, 0, number, &offer(1 << 30, 0))).unwrap();
    }
    let one_more = frame(FrameKind::Offer, MAX_OFFERS, 0, MAX_OFFERS, &offer(1, 0));
    assert!(lane.received(1, &one_more).unwrap_err().to_string().contains("unexpected message"));
    let mut lane = lanes(2).remove(0);
    let mut place = 0;
    for number in 0..(KEPT / EAGER) as u32 {
        lane.received(1, &frame(FrameKind::Offer, number, 1, place, &offer(EAGER as u64, 0))).unwrap();
        lane.received(1, &frame(FrameKind::Piece, number, 0, place + 1, &vec![1; EAGER])).unwrap();
        place += 2;
    }
    assert_eq!(lane.kept().transfers, KEPT);
    let one_more = frame(FrameKind::Offer, (KEPT / EAGER) as u32, 1, place, &offer(1, 0));
    assert!(lane.received(1, &one_more).is_err());
    for (what, bytes) in [("long", EAGER as u64 + 1), ("absurd", u64::MAX)] {
        let mut lane = lanes(2).remove(0);
        assert!(lane.received(1, &frame(FrameKind::Offer, 0, 1, 0, &offer(bytes, 0))).is_err(), "{what}");
    }
    for kind in [FrameKind::Ask, FrameKind::Taken, FrameKind::Piece, FrameKind::Close] {
        let mut lane = lanes(2).remove(0);
        assert!(lane.received(1, &frame(kind, 1 << 20 | 1, 1, 0, &[])).is_err(), "{kind:?}");
    }
}

#[test]
fn both_sides_report_different_lengths() {
    for (space, bytes) in [(0, 1 << 20), (4, 12)] {
        let mut network = VirtualNetwork::mesh(lanes(2), 1, 1 << 16);
        let mut sides = [Side::default(), Side::default()];
        let label = Label { group: 0, space, tag: 1 };
        let sent = sides[0].send(network.machine(0), label, 1, &vec![1; bytes]);
        let awaited = sides[1].receive(network.machine(1), label, Some(0), bytes - 4);
        settle(&mut network);
        let mismatch = |peer| Mismatch { peer, sent: bytes as u64, expected: bytes as u64 - 4 };
        assert_eq!(network.machine(0).delivered(), Some(Delivery { id: sent, outcome: Err(mismatch(1)) }));
        assert_eq!(network.machine(1).delivered(), Some(Delivery { id: awaited, outcome: Err(mismatch(0)) }));
    }
    // A small one is sent before the receiver can refuse it, so only the receiver gets the error.
    let mut network = VirtualNetwork::mesh(lanes(2), 1, 1 << 16);
    let mut sides = [Side::default(), Side::default()];
    sides[0].send(network.machine(0), app(1), 1, &[1; 12]);
    sides[1].receive(network.machine(1), app(1), Some(0), 8);
    settle(&mut network);
    assert!(network.machine(1).delivered().unwrap().outcome.is_err());
}

#[test]
fn a_long_transfer_lets_collectives_pass() {
    let mut network = VirtualNetwork::mesh(lanes(2), 1, 1 << 14);
    let mut sides = [Side::default(), Side::default()];
    let long = vec![3; 64 << 20];
    sides[0].send(network.machine(0), app(1), 1, &long);
    sides[1].receive(network.machine(1), app(1), Some(0), long.len());
    for _ in 0..100 {
        network.sweep().unwrap();
    }
    let mut vectors = [filled(&[1; 800]), filled(&[1; 800])];
    for (rank, vector) in (0..2).zip(&mut vectors) {
        let shape = book(rank, 2).shape(1, &operation(CollectiveKind::AllReduce, 100)).unwrap();
        let region = vector.region();
        let job = StartedOperation { sequence: 1, shape, input: region, output: region, keep: false };
        network.machine(rank as usize).start(Arc::new(job)).unwrap();
    }
    let mut sweeps = 0;
    let mut through = [false; 2];
    while through != [true; 2] {
        network.sweep().unwrap();
        sweeps += 1;
        for (rank, through) in through.iter_mut().enumerate() {
            *through |= network.machine(rank).finished().is_some();
        }
    }
    // The all-reduce waits only for what is on the cable, what is about to be written, and two pieces, in each
    // direction of the ring.
    assert!(sweeps * (1 << 14) < 4 << 20, "{sweeps} sweeps");
    assert!(network.machine(1).delivered().is_none(), "the transfer is not over");
    settle(&mut network);
    assert_eq!(sides[1].buffers[&1].as_slice(), &long[..]);
}

/// Fault: a rank writes to memory that it is sending to another rank -> the receiver rejects it, and the sender blames itself
#[test]
fn a_send_whose_memory_changes_is_distinguished_from_a_bad_link() {
    for (bytes, changes) in [(EAGER, true), (3 * PIECE, true), (EAGER, false), (3 * PIECE, false)] {
        let mut network = VirtualNetwork::mesh(lanes(2), 3, 1024);
        let mut sides = [Side::default(), Side::default()];
        let sent = content(0, 1, 7, 0, bytes);
        sides[1].receive(network.machine(1), app(7), Some(0), bytes);
        let id = sides[0].send(network.machine(0), app(7), 1, &sent);
        // Some of the first piece is in transit, and most of it is not.
        (0..24).for_each(|_| assert!(network.step().unwrap()));
        match changes {
            true => sides[0]
                .buffers
                .get_mut(&id)
                .unwrap()
                .as_mut_slice()
                .iter_mut()
                .for_each(|byte| *byte ^= 0x5a),
            false => {
                while network.mishap_on(Mishap::Flip, |from, _| from.0 == 0).is_none() {
                    assert!(network.step().unwrap());
                }
            }
        }
        let InvalidBytes { end: (place, peer), .. } = network.run().unwrap_err();
        assert_eq!((place, peer), (1, 0));
        let reason = network.machine(0).reason(1, Trouble::closed("end of file"));
        let kind = if changes { fault::FaultKind::Changed } else { fault::FaultKind::Closed };
        assert_eq!(reason.kind, kind, "{bytes} bytes: {reason}");
        assert!(!changes || reason.to_string().contains("send to rank 1 (tag 7)"), "{reason}");
    }
}

#[test]
fn a_withdrawn_receive_gets_nothing() {
    let mut network = VirtualNetwork::mesh(lanes(2), 1, 1 << 16);
    let mut sides = [Side::default(), Side::default()];
    let first = sides[1].receive(network.machine(1), app(1), Some(0), 8);
    assert!(network.machine(1).withdraw(app(1), first) && !network.machine(1).withdraw(app(1), first));
    let second = sides[1].receive(network.machine(1), app(1), None, 8);
    sides[0].send(network.machine(0), app(1), 1, &[5; 8]);
    settle(&mut network);
    assert_eq!(network.machine(1).delivered(), Some(Delivery { id: second, outcome: Ok(0) }));
    assert_eq!(sides[1].buffers[&first].as_slice(), [0; 8]);
}

/// Opens a group on a rank that is one of its members.
fn open(network: &mut VirtualNetwork<Lane>, members: &[u32], rank: u32, slot: u32, id: u64) {
    let place = members.iter().position(|&member| member == rank).unwrap() as u32;
    let book = PlanBook::new(
        place,
        members.len() as u32,
        Selection::of(
            (0..members.len() as u32).collect(),
            vec![
                Rule::new(CollectiveKind::AllReduce, by_name("ring").unwrap(), 4096),
                Rule::new(CollectiveKind::Broadcast, by_name("direct").unwrap(), 4096),
            ],
        ),
    );
    let book = Arc::new(book.unwrap().called(members.to_vec()));
    network.machine(rank as usize).open(Opening { slot, id, book, members: members.to_vec() });
}

/// Begins an operation of a group.
fn start(
    network: &mut VirtualNetwork<Lane>,
    members: &[u32],
    rank: u32,
    slot: u32,
    sequence: u64,
    what: &Operation,
    vector: &mut Buffer,
) {
    let place = members.iter().position(|&member| member == rank).unwrap() as u32;
    let shape = book(place, members.len() as u32).shape(1, what).unwrap();
    let region = vector.region();
    let job = StartedOperation { sequence, shape, input: region, output: region, keep: true };
    network.machine(rank as usize).start_in(slot, Arc::new(job)).unwrap();
}

#[test]
fn groups_run_concurrently_in_whatever_order_they_are_opened() {
    const GROUPS: [(&[u32], u64); 3] = [(&[0, 1], 11), (&[3, 1, 2], 12), (&[0, 1, 2, 3], 13)];
    for seed in 0..40u64 {
        let mut network = VirtualNetwork::mesh(lanes(4), seed, 1 << (5 + seed % 10));
        let what = operation(CollectiveKind::AllReduce, 2000);
        let mut vectors: BTreeMap<(u32, u64), Buffer> = BTreeMap::new();
        let mut turn = seed;
        // Each rank numbers groups in its own way, opens them at random times, and uses them at once.
        for round in 0..4u32 {
            let rank = (round + seed as u32) % 4;
            let mut slot = rank;
            for (members, id) in GROUPS.iter().filter(|(members, _)| members.contains(&rank)) {
                slot += 1;
                open(&mut network, members, rank, slot, *id);
                let mut vector = filled(&(*id as i64 + i64::from(rank)).to_ne_bytes().repeat(2000));
                start(&mut network, members, rank, slot, 1, &what, &mut vector);
                vectors.insert((rank, *id), vector);
                for _ in 0..next(&mut turn) % 200 {
                    network.step().unwrap();
                }
            }
        }
        network.run().unwrap();
        for ((rank, id), vector) in &vectors {
            let (members, _) = GROUPS.iter().find(|(_, each)| each == id).unwrap();
            let sum: i64 = members.iter().map(|&member| *id as i64 + i64::from(member)).sum();
            assert!(
                vector.as_slice() == sum.to_ne_bytes().repeat(2000),
                "rank {rank}, group {id}, seed {seed}"
            );
        }
        (0..4).for_each(|rank| drop(network.machine(rank).abort()));
    }
}

#[test]
fn leaving_a_group_mid_operation_disturbs_nothing_else_and_returns_memory() {
    const PAIR: &[u32] = &[0, 1];
    for seed in 0..60u64 {
        let mut network = VirtualNetwork::mesh(lanes(3), seed, 1 << (8 + seed % 8));
        let what = operation(CollectiveKind::AllReduce, 20_000);
        let (mut whole, mut pair): (Vec<Buffer>, Vec<Buffer>) = (0..3)
            .map(|_| (filled(&2i64.to_ne_bytes().repeat(20_000)), filled(&7i64.to_ne_bytes().repeat(20_000))))
            .unzip();
        for &rank in PAIR {
            open(&mut network, PAIR, rank, 1, 9);
            start(&mut network, PAIR, rank, 1, 1, &what, &mut pair[rank as usize]);
        }
        for rank in 0..3u32 {
            start(&mut network, &[0, 1, 2], rank, 0, 1, &what, &mut whole[rank as usize]);
        }
        let mut sides = [Side::default(), Side::default()];
        let label = Label { group: 9, space: 0, tag: 0 };
        let long = vec![8; 1 << 20];
        sides[0].send(network.machine(0), label, 1, &long);
        sides[1].receive(network.machine(1), label, Some(0), long.len());
        for _ in 0..seed * 40 {
            network.step().unwrap();
        }
        // Rank 0 leaves, and reuses its memory at once.
        network.machine(0).close(1, None);
        let through: Vec<OperationId> = std::iter::from_fn(|| network.machine(0).finished()).collect();
        if !through.contains(&id(1, 1)) {
            assert!(pair[0].as_slice() == 7i64.to_ne_bytes().repeat(20_000), "seed {seed}");
        }
        pair[0].as_mut_slice().fill(0xee);
        sides[0].buffers.values_mut().for_each(|buffer| buffer.as_mut_slice().fill(0xee));
        network.run().unwrap();
        assert!(pair[0].as_slice().iter().all(|&byte| byte == 0xee), "seed {seed}");
        // Rank 1 learns that rank 0 has left, unless its transfer had completed.
        let lost = network.machine(1).deserted();
        let over = sides[1].buffers[&1].as_slice() == &long[..];
        assert!(lost == Some(Desertion { slot: 1, member: 0 }) || over, "seed {seed}: {lost:?}");
        network.machine(1).close(1, lost.map(|lost| lost.member));
        network.run().unwrap();
        for rank in 0..2 {
            assert_eq!(network.machine(rank).released(), Some(1), "seed {seed}: rank {rank}");
        }
        assert!(
            whole.iter().all(|vector| vector.as_slice() == 6i64.to_ne_bytes().repeat(20_000)),
            "seed {seed}"
        );
        // The group's number can be used again, and so can the connection.
        let mut again: Vec<Buffer> = (0..2).map(|_| filled(&1i64.to_ne_bytes().repeat(20_000))).collect();
        for &rank in PAIR {
            open(&mut network, PAIR, rank, 1, 10);
            start(&mut network, PAIR, rank, 1, 1, &what, &mut again[rank as usize]);
        }
        network.run().unwrap();
        assert!(
            again.iter().all(|vector| vector.as_slice() == 2i64.to_ne_bytes().repeat(20_000)),
            "seed {seed}"
        );
        (0..3).for_each(|rank| drop(network.machine(rank).abort()));
    }
}

#[test]
fn a_group_that_a_member_never_opened_can_be_left() {
    let mut network = VirtualNetwork::mesh(lanes(2), 3, 1 << 12);
    open(&mut network, &[0, 1], 0, 1, 9);
    let mut side = Side::default();
    side.send(network.machine(0), Label { group: 9, space: 0, tag: 0 }, 1, &[1; 100]);
    network.run().unwrap();
    // A transfer of a group that this rank has not opened is kept until the sender leaves the group.
    assert_eq!(network.machine(1).kept().transfers, 100);
    network.machine(0).close(1, None);
    network.run().unwrap();
    assert_eq!((network.machine(0).released(), network.machine(1).kept().transfers), (Some(1), 0));
}

#[test]
fn every_member_of_a_group_names_the_lost_member() {
    const ALL: &[u32] = &[0, 1, 2];
    let mut network = VirtualNetwork::mesh(lanes(3), 3, 1 << 12);
    let what = operation(CollectiveKind::AllReduce, 100);
    let mut vectors: Vec<Buffer> = (0..3).map(|_| filled(&[0; 800])).collect();
    ALL.iter().for_each(|&rank| open(&mut network, ALL, rank, 1, 9));
    network.run().unwrap();
    start(&mut network, ALL, 0, 1, 1, &what, &mut vectors[0]);
    start(&mut network, ALL, 1, 1, 1, &what, &mut vectors[1]);
    network.machine(2).close(1, None);
    network.run().unwrap();
    assert_eq!(network.machine(0).deserted(), Some(Desertion { slot: 1, member: 2 }));
    // A member that leaves because of a loss names the member that left first.
    network.machine(0).close(1, Some(2));
    network.run().unwrap();
    assert_eq!(network.machine(1).deserted(), Some(Desertion { slot: 1, member: 2 }));
    // An operation begun later finds that a member has left without a message from it.
    let mut later = filled(&[0; 800]);
    start(&mut network, ALL, 1, 1, 2, &what, &mut later);
    assert_eq!(
        std::iter::from_fn(|| network.machine(1).deserted()).last(),
        Some(Desertion { slot: 1, member: 0 })
    );
    (0..3).for_each(|rank| drop(network.machine(rank).abort()));
}

/// A label of applications in a group.
const fn of(group: u64) -> Label {
    Label { group, space: 0, tag: 0 }
}

#[test]
fn what_has_arrived_can_be_received_after_its_sender_has_left_the_group() {
    const PAIR: &[u32] = &[0, 1];
    let mut network = VirtualNetwork::mesh(lanes(2), 3, 1 << 12);
    PAIR.iter().for_each(|&rank| open(&mut network, PAIR, rank, 1, 9));
    let mut sides = [Side::default(), Side::default()];
    sides[0].send(network.machine(0), of(9), 1, &[1; 100]);
    network.run().unwrap();
    assert!(network.machine(0).delivered().is_some(), "the send has ended");
    network.machine(0).close(1, None);
    network.run().unwrap();
    let received = sides[1].receive(network.machine(1), of(9), Some(0), 100);
    assert_eq!(network.machine(1).delivered(), Some(Delivery { id: received, outcome: Ok(0) }));
    assert_eq!(
        (sides[1].buffers[&received].as_slice(), network.machine(1).kept().transfers),
        (&[1; 100][..], 0)
    );
    // A second receive gets nothing.
    sides[1].receive(network.machine(1), of(9), Some(0), 100);
    assert_eq!(network.machine(1).deserted(), Some(Desertion { slot: 1, member: 0 }));
    network.machine(1).close(1, Some(0));
    network.run().unwrap();
    assert_eq!([0, 1].map(|rank| network.machine(rank).released()), [Some(1); 2]);
}

#[test]
fn a_group_that_a_member_has_already_left_can_be_opened() {
    const PAIR: &[u32] = &[0, 1];
    let mut network = VirtualNetwork::mesh(lanes(2), 3, 1 << 12);
    open(&mut network, PAIR, 0, 1, 9);
    network.machine(0).close(1, None);
    network.run().unwrap();
    assert_eq!(network.machine(0).released(), Some(1));
    open(&mut network, PAIR, 1, 1, 9);
    let mut side = Side::default();
    side.receive(network.machine(1), of(9), Some(0), 100);
    assert_eq!(
        network.machine(1).deserted(),
        Some(Desertion { slot: 1, member: 0 }),
        "the receive fails at once"
    );
    network.machine(1).close(1, Some(0));
    network.run().unwrap();
    assert_eq!(network.machine(1).released(), Some(1));
}

#[test]
fn an_unopened_group_is_not_confused_with_one_of_the_same_number() {
    const PAIR: &[u32] = &[0, 1];
    let mut network = VirtualNetwork::mesh(lanes(2), 3, 1 << 12);
    let what = operation(CollectiveKind::AllReduce, 100);
    // Each rank gives number 1 to a group that the other has not opened.
    open(&mut network, PAIR, 1, 1, 10);
    network.run().unwrap();
    open(&mut network, PAIR, 0, 1, 9);
    network.machine(0).close(1, None);
    network.run().unwrap();
    open(&mut network, PAIR, 0, 2, 10);
    let mut vectors: Vec<Buffer> = (0..2).map(|_| filled(&3i64.to_ne_bytes().repeat(100))).collect();
    start(&mut network, PAIR, 0, 2, 1, &what, &mut vectors[0]);
    start(&mut network, PAIR, 1, 1, 1, &what, &mut vectors[1]);
    network.run().unwrap();
    assert!(vectors.iter().all(|vector| vector.as_slice() == 6i64.to_ne_bytes().repeat(100)));
    (0..2).for_each(|rank| drop(network.machine(rank).abort()));
}

#[test]
fn a_group_number_is_reused_once_all_frames_of_the_group_are_written() {
    const PAIR: &[u32] = &[0, 1];
    for seed in 0..200u64 {
        let mut network = VirtualNetwork::mesh(lanes(2), seed, 1 << (8 + seed % 8));
        let what = operation(CollectiveKind::AllReduce, 5000);
        let mut first: Vec<Buffer> = (0..2).map(|_| filled(&7i64.to_ne_bytes().repeat(5000))).collect();
        let mut second: Vec<Buffer> = (0..2).map(|_| filled(&1i64.to_ne_bytes().repeat(5000))).collect();
        for &rank in PAIR {
            open(&mut network, PAIR, rank, 1, 9);
            start(&mut network, PAIR, rank, 1, 1, &what, &mut first[rank as usize]);
        }
        (0..seed * 7 % 300).for_each(|_| _ = network.step().unwrap());
        (0..2).for_each(|rank| network.machine(rank).close(1, None));
        // Each rank reuses the number as soon as it is released.
        let mut opened = 0;
        while network.step().unwrap() || opened < 2 {
            for rank in 0..2u32 {
                if network.machine(rank as usize).released().is_some() {
                    open(&mut network, PAIR, rank, 1, 10);
                    start(&mut network, PAIR, rank, 1, 1, &what, &mut second[rank as usize]);
                    opened += 1;
                }
            }
        }
        assert!(
            second.iter().all(|vector| vector.as_slice() == 2i64.to_ne_bytes().repeat(5000)),
            "seed {seed}"
        );
        (0..2).for_each(|rank| drop(network.machine(rank).abort()));
    }
}

#[test]
fn a_group_ends_for_members_that_hold_frames_of_plans() {
    const PAIR: &[u32] = &[0, 1];
    let mut network = VirtualNetwork::mesh(lanes(2), 3, 1 << 16);
    PAIR.iter().for_each(|&rank| open(&mut network, PAIR, rank, 1, 9));
    // Broadcasts of the whole job, which rank 1 has not begun, and one of the group wait because rank 1 holds them.
    let what = operation(CollectiveKind::Broadcast, 1 << 20);
    let mut vectors: Vec<Buffer> = (0..2).map(|_| Buffer::new(8 << 20)).collect();
    start(&mut network, PAIR, 0, 0, 1, &what, &mut vectors[0]);
    network.run().unwrap();
    start(&mut network, PAIR, 0, 1, 1, &what, &mut vectors[1]);
    network.run().unwrap();
    assert_eq!([network.machine(0).finished(), network.machine(0).finished()], [None; 2], "they are held");
    let mut side = Side::default();
    side.receive(network.machine(1), of(9), Some(0), 100);
    network.machine(0).close(1, None);
    network.run().unwrap();
    assert_eq!(network.machine(1).deserted(), Some(Desertion { slot: 1, member: 0 }));
    network.machine(1).close(1, Some(0));
    network.run().unwrap();
    assert_eq!([0, 1].map(|rank| network.machine(rank).released()), [Some(1); 2]);
    // The whole job continues.
    let mut received = Buffer::new(8 << 20);
    start(&mut network, PAIR, 1, 0, 1, &what, &mut received);
    network.run().unwrap();
    assert_eq!([0, 1].map(|rank| network.machine(rank).finished()), [Some(id(0, 1)); 2]);
}

/// The peers that a lane wants to be connected with, and whether frames wait for them.
fn wanted(lane: &mut Lane) -> Vec<(u32, bool)> {
    std::iter::from_fn(|| lane.next_wanted()).map(|wanted| (wanted.peer, wanted.sends)).collect()
}

#[test]
fn a_lane_wants_connections_with_the_peers_of_its_operations_transfers_and_groups() {
    let label = Label { group: 0, space: 0, tag: 1 };
    let mut lane = lanes(5).remove(1);
    lane.connect_on_demand();
    assert_eq!(wanted(&mut lane), []);
    // A ring sends to the next rank and receives from the one before.
    let mut buffer = Buffer::new(800);
    let region = buffer.region();
    let shape = book(1, 5).shape(1, &operation(CollectiveKind::AllReduce, 100)).unwrap();
    let started = StartedOperation { sequence: 1, shape, input: region, output: region, keep: false };
    lane.start(Arc::new(started)).unwrap();
    assert_eq!(wanted(&mut lane), [(2, true), (0, false)]);
    lane.connected(2);
    // A receive waits for its sender; a send of nothing is over at once, and still has to be delivered.
    let mut received = Buffer::new(8);
    lane.receive(Transfer { id: 1, label, peer: Some(3), region: received.region() });
    assert_eq!(wanted(&mut lane), [(3, false)]);
    let mut nothing = Buffer::new(0);
    lane.send(Transfer { id: 2, label, peer: Some(3), region: nothing.region() });
    assert_eq!(wanted(&mut lane), [(3, true)], "it is needed more than before");
    assert_eq!(lane.unconnected().collect::<Vec<_>>(), [3]);
    lane.connected(3);
    lane.open(Opening { slot: 1, id: 9, book: book(0, 3), members: vec![1, 3, 4] });
    assert_eq!((wanted(&mut lane), lane.unconnected().collect()), (vec![(4, true)], vec![4]));
    lane.connected(4);
    assert_eq!((wanted(&mut lane), lane.unconnected().next()), (vec![], None));
    lane.abort();
}
