//! Lanes without sockets: runs every plan on vectors that do not divide evenly, in random orders of arrival.

use crate::interpreter;
use crate::lending::Lent;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use syncline_plan::custom::{Custom, PlanFile};
use syncline_plan::registry::ENTRIES;
use syncline_plan::{Algorithm, by_name};
use syncline_protocol::fault::{FaultKind, ProtocolError, Trouble};
use syncline_protocol::heartbeat::{Heartbeats, LostPeer, Patience};
use syncline_protocol::lane::transfers::{Delivery, Label, Transfer};
use syncline_protocol::lane::{FlowControl, KeptBytes, Lane, OperationId, StartedOperation};
use syncline_protocol::machine::Machine;
use syncline_protocol::memory::{Buffer, Region};
use syncline_protocol::operation::{Association, Operation};
use syncline_protocol::plan_book::{PlanBook, Rule, Selection};
use syncline_protocol::shape::Shape;
use syncline_protocol::virtual_network::{InvalidBytes, Mishap, VirtualNetwork};
use syncline_protocol::wire::{FrameKind as Frame, HEADER, Header};
use syncline_reduction::{Element, Reduction};
use syncline_units::CollectiveKind;

const KINDS: &[CollectiveKind] = CollectiveKind::ALL;

/// The first operation of the whole job.
const FIRST: OperationId = OperationId { group: 0, sequence: 1 };

/// An operation that a test requests.
#[derive(Clone, Debug)]
struct Ask {
    operation: Operation,
    keep: bool,
    in_place: bool,
}

/// Configures a property test to run `cases` cases. Under Miri it runs far fewer, because each takes hundreds of times
/// as long.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: if cfg!(miri) { cases.div_ceil(200) } else { cases },
        ..ProptestConfig::default()
    }
}

/// A rank's vectors.
struct Vectors {
    input: Buffer,
    output: Option<Buffer>,
}

impl Vectors {
    fn new(ask: &Ask, rank: u32, ranks: u32, bytes: &[u8]) -> Self {
        let Operation { kind, root, .. } = ask.operation;
        let block = bytes.len() / ranks as usize;
        let own = rank as usize * block..(rank as usize + 1) * block;
        let (input, output) = match kind {
            CollectiveKind::AllReduce => (bytes.len(), (!ask.in_place).then_some(bytes.len())),
            CollectiveKind::ReduceScatter => (bytes.len(), Some(block)),
            CollectiveKind::AllGather => (block, Some(bytes.len())),
            CollectiveKind::AllToAll => (bytes.len(), Some(bytes.len())),
            CollectiveKind::Broadcast => (bytes.len(), None),
            CollectiveKind::Reduce => (bytes.len(), (rank == root && !ask.in_place).then_some(bytes.len())),
        };
        let mut vectors = Self { input: Buffer::new(input), output: output.map(Buffer::new) };
        let from = if kind == CollectiveKind::AllGather { &bytes[own] } else { bytes };
        if kind != CollectiveKind::Broadcast || rank == root {
            vectors.input.as_mut_slice().copy_from_slice(from);
        }
        vectors
    }

    /// The input and the output of a job.
    fn regions(&mut self, ask: &Ask, rank: u32) -> (Region, Region) {
        let Operation { kind, root, .. } = ask.operation;
        let input = self.input.region();
        let output = match &mut self.output {
            Some(output) => output.region(),
            None if kind == CollectiveKind::Reduce && rank != root => Region::EMPTY,
            None => input,
        };
        (input, output)
    }

    fn result(&mut self, ask: &Ask, rank: u32) -> Vec<u8> {
        if ask.operation.kind == CollectiveKind::Reduce && rank != ask.operation.root {
            return Vec::new();
        }
        self.output.as_mut().unwrap_or(&mut self.input).as_mut_slice().to_vec()
    }
}

/// Runs operations in sequence, which each rank begins at random times, and compares every result with the
/// interpreter's.
fn check(
    algorithm: &Arc<dyn Algorithm>,
    order: &[u32],
    asks: &[Ask],
    message: u64,
    window: u32,
    seed: u64,
) -> Result<(), TestCaseError> {
    let ranks = order.len() as u32;
    let members = algorithm.seats(ranks);
    let rules: Vec<Rule> =
        KINDS.iter().map(|&kind| Rule::new(kind, Arc::clone(algorithm), message)).collect();
    let books: Vec<Arc<PlanBook>> = (0..members)
        .map(|member| {
            Arc::new(PlanBook::new(member, members, Selection::of(order.to_vec(), rules.clone())).unwrap())
        })
        .collect();
    let flow = FlowControl { lanes: 2, window: window as usize * message as usize, ahead: 1 << 20 };
    let lanes = |index| books.iter().map(move |book| Lane::new(index, flow, 3, Arc::clone(book))).collect();
    let mut networks: Vec<VirtualNetwork<Lane>> = (0..flow.lanes)
        .map(|index| VirtualNetwork::mesh(lanes(index), seed + u64::from(index), 1 << (4 + seed % 9)))
        .collect();
    let inputs: Vec<Vec<Vec<u8>>> = (0u64..)
        .zip(asks)
        .map(|(number, ask)| {
            (0..ranks).map(|rank| interpreter::vector(&ask.operation, rank, seed ^ (number << 8))).collect()
        })
        .collect();
    let mut vectors: Vec<Vec<Vectors>> = asks
        .iter()
        .zip(&inputs)
        .map(|(ask, inputs)| {
            (0..ranks).map(|rank| Vectors::new(ask, rank, ranks, &inputs[rank as usize])).collect()
        })
        .collect();
    // Members begin at different times, so some are operations ahead.
    let mut begun: BTreeMap<u32, usize> = (0..members).map(|member| (member, 0)).collect();
    let mut turn = seed;
    loop {
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let member = (turn >> 33) as u32 % members;
        let number = begun[&member];
        if let Some(ask) = asks.get(number) {
            let shape = books[member as usize].shape(1, &ask.operation).unwrap();
            let (input, output) = match vectors[number].get_mut(member as usize) {
                Some(vectors) => vectors.regions(ask, member),
                None => (Region::EMPTY, Region::EMPTY),
            };
            let sequence = number as u64 + 1;
            let job = Arc::new(StartedOperation { sequence, shape, input, output, keep: ask.keep });
            for network in &mut networks {
                network.machine(member as usize).start(Arc::clone(&job)).unwrap();
            }
            begun.insert(member, number + 1);
        }
        for network in &mut networks {
            for _ in 0..(turn >> 56) {
                let moved = network.step();
                prop_assert!(moved.is_ok(), "{:?}", moved);
            }
        }
        if begun.values().all(|&number| number == asks.len()) {
            break;
        }
    }
    for network in &mut networks {
        let end = network.run();
        prop_assert!(end.is_ok(), "{:?}", end);
        for member in 0..members {
            let finished: Vec<OperationId> =
                std::iter::from_fn(|| network.machine(member as usize).finished()).collect();
            let mut sorted: Vec<u64> = finished.iter().map(|operation| operation.sequence).collect();
            sorted.sort_unstable();
            prop_assert_eq!(
                sorted,
                (1..=asks.len() as u64).collect::<Vec<_>>(),
                "{} of {}",
                member,
                algorithm.name()
            );
            finished.into_iter().for_each(|operation| network.machine(member as usize).forget(operation));
        }
    }
    for ((ask, inputs), vectors) in asks.iter().zip(&inputs).zip(&mut vectors) {
        let expected = interpreter::run(&**algorithm, &ask.operation, order, inputs, message);
        for ((rank, vectors), expected) in (0u32..).zip(vectors).zip(expected) {
            interpreter::compare(&ask.operation, &vectors.result(ask, rank), &expected, inputs, rank)
                .map_err(|why| {
                    TestCaseError::fail(format!("{} {}: rank {rank}: {why}", algorithm.name(), ask.operation))
                })?;
        }
    }
    Ok(())
}

fn operations(kind: CollectiveKind, ranks: u32) -> impl Strategy<Value = Ask> {
    let elements = prop_oneof![Just(0u64), Just(1), 2u64..30, 30u64..800];
    let element =
        prop::sample::select(vec![Element::F32, Element::F64, Element::Bf16, Element::I64, Element::U8]);
    (elements, element, 0..ranks, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        move |(elements, element, root, seats, keep, in_place)| {
            let mut operation = Operation {
                kind,
                elements,
                element,
                reduction: Reduction::Sum,
                root: if kind.has_root() { root } else { 0 },
                association: if seats { Association::Seats } else { Association::Arrival },
            };
            if operation.by_rank() {
                operation.elements = elements.next_multiple_of(u64::from(ranks));
            }
            Ask { operation, keep, in_place }
        },
    )
}

fn cases() -> impl Strategy<Value = (Arc<dyn Algorithm>, Vec<u32>, Vec<Ask>, u64, u32, u64)> {
    let names: Vec<&str> = ENTRIES.iter().flat_map(|entry| entry.examples).copied().collect();
    (prop::sample::select(names), 1u32..10)
        .prop_map(|(name, ranks)| (by_name(name).unwrap(), ranks))
        .prop_filter_map("offers nothing", |(algorithm, ranks)| {
            let kinds: Vec<CollectiveKind> =
                KINDS.iter().copied().filter(|&kind| algorithm.offers(kind, ranks).is_ok()).collect();
            (!kinds.is_empty()).then_some((algorithm, ranks, kinds))
        })
        .prop_flat_map(|(algorithm, ranks, kinds)| {
            let order = Just((0..ranks).collect::<Vec<u32>>()).prop_shuffle();
            let asks = prop::sample::select(kinds).prop_flat_map(move |kind| operations(kind, ranks));
            (
                Just(algorithm),
                order,
                prop::collection::vec(asks, 1..4),
                8u64..2000,
                1u32..6,
                any::<u32>().prop_map(u64::from),
            )
        })
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn every_plan_gives_the_right_result((algorithm, order, asks, message, window, seed) in cases()) {
        check(&algorithm, &order, &asks, message, window, seed)?;
    }
}

/// A custom plan. Every rank receives the vectors of all others into scratch, then adds them up, first two of three
/// blocks and then the last. The plan uses channel 5, and blocks of two sizes.
fn with_scratch(ranks: u32) -> Arc<dyn Algorithm> {
    let seat = |rank: u32| {
        let others: Vec<u32> = (0..ranks).filter(|&other| other != rank).collect();
        let sends =
            others.iter().map(|to| format!(r#"{{ "op": "send", "to": {to}, "block": 0, "count": 3 }}"#));
        let receives = others.iter().zip(0u32..).map(|(from, slot)| {
            let first = 3 * slot;
            format!(
                r#"{{ "op": "receive", "from": {from}, "block": {first}, "count": 3, "buffer": "scratch" }}"#
            )
        });
        let sums = (0..others.len() as u32).flat_map(|slot| {
            [(0, 2), (2, 1)].map(|(block, count)| {
                let at = 3 * slot + block;
                format!(
                    r#"{{ "op": "copy", "from": {{ "block": {at}, "count": {count}, "buffer": "scratch" }},
                          "to": {{ "block": {block}, "count": {count} }}, "reduce": true }}"#
                )
            })
        });
        let wait = std::iter::once(r#"{ "op": "wait" }"#.to_owned());
        let ops: Vec<String> = sends.chain(receives).chain(wait).chain(sums).collect();
        format!(r#"{{ "streams": [ {{ "channel": 5, "ops": [ {} ] }} ] }}"#, ops.join(", "))
    };
    let seats: Vec<String> = (0..ranks).map(seat).collect();
    let text = format!(
        r#"{{ "name": "with scratch", "kind": "all_reduce", "ranks": {ranks}, "blocks": 3, "seats": [ {} ] }}"#,
        seats.join(", ")
    );
    Arc::new(Custom::new(&PlanFile::from_json(&text, "plan").unwrap()).unwrap())
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn a_custom_plan_with_scratch_gives_the_right_result(
        (ranks, asks) in (2u32..5).prop_flat_map(|ranks| {
            (Just(ranks), prop::collection::vec(operations(CollectiveKind::AllReduce, ranks), 1..4))
        }),
        message in 8u64..2000,
        window in 1u32..6,
        seed in any::<u32>(),
    ) {
        let order: Vec<u32> = (0..ranks).rev().collect();
        check(&with_scratch(ranks), &order, &asks, message, window, u64::from(seed))?;
    }
}

/// One lane for each of `ranks` ranks that run the plan `name`, with its shape for an operation.
fn lanes_of(name: &str, ranks: u32, operation: &Operation, message: u64) -> (Vec<Lane>, Vec<Arc<Shape>>) {
    let algorithm = by_name(name).unwrap();
    let members = algorithm.seats(ranks);
    let rule = Rule::new(operation.kind, algorithm, message);
    let flow = FlowControl { lanes: 1, window: 4 * message as usize, ahead: 1 << 20 };
    (0..members)
        .map(|member| {
            let book =
                PlanBook::new(member, members, Selection::of((0..ranks).collect(), vec![rule.clone()]))
                    .unwrap();
            let shape = book.shape(1, operation).unwrap();
            (Lane::new(0, flow, 0, Arc::new(book)), shape)
        })
        .unzip()
}

fn all_reduce(elements: u64, element: Element, association: Association) -> Operation {
    Operation {
        kind: CollectiveKind::AllReduce,
        elements,
        element,
        reduction: Reduction::Sum,
        root: 0,
        association,
    }
}

#[test]
fn in_seat_order_a_hub_and_direct_add_from_the_first_rank_to_the_last() {
    let operation = all_reduce(500, Element::F32, Association::Seats);
    let inputs: Vec<Vec<u8>> = (0..7).map(|rank| interpreter::vector(&operation, rank, 5)).collect();
    let mut expected = inputs[0].clone();
    for input in &inputs[1..] {
        syncline_reduction::scalar::reduce_into(Element::F32, Reduction::Sum, &mut expected, input).unwrap();
    }
    for name in [
        "direct",
        "parameter_server",
        "parameter_server(placement=NCC)",
        "parameter_server(placement=NCS, hubs=3)",
    ] {
        for seed in 0..20 {
            let (lanes, shapes) = lanes_of(name, 7, &operation, 64);
            let mut buffers: Vec<Buffer> = shapes.iter().map(|_| Buffer::new(2000)).collect();
            let mut network = VirtualNetwork::mesh(lanes, seed, 50);
            for (member, (shape, buffer)) in shapes.iter().zip(&mut buffers).enumerate() {
                if let Some(input) = inputs.get(member) {
                    buffer.as_mut_slice().copy_from_slice(input);
                }
                let region = if member < 7 { buffer.region() } else { Region::EMPTY };
                let job = StartedOperation {
                    sequence: 1,
                    shape: Arc::clone(shape),
                    input: region,
                    output: region,
                    keep: false,
                };
                network.machine(member).start(Arc::new(job)).unwrap();
            }
            network.run().unwrap();
            assert!(
                buffers[..7].iter_mut().all(|buffer| buffer.as_mut_slice() == expected),
                "{name}, seed {seed}"
            );
        }
    }
}

/// Four ranks, `steps` steps into an operation on 8000 bytes each, with inputs that are kept.
fn under_way(
    name: &str,
    operation: &Operation,
    seed: u64,
    steps: u64,
) -> (VirtualNetwork<Lane>, Vec<Buffer>) {
    let (lanes, shapes) = lanes_of(name, 4, operation, 256);
    let mut buffers: Vec<Buffer> = (0..4).map(|_| Buffer::new(8000)).collect();
    let mut network = VirtualNetwork::mesh(lanes, seed, 300);
    for ((rank, buffer), shape) in (0u32..).zip(&mut buffers).zip(shapes) {
        buffer.as_mut_slice().copy_from_slice(&interpreter::vector(operation, rank, 1));
        let region = buffer.region();
        let job = StartedOperation { sequence: 1, shape, input: region, output: region, keep: true };
        network.machine(rank as usize).start(Arc::new(job)).unwrap();
    }
    for _ in 0..steps {
        network.step().unwrap();
    }
    (network, buffers)
}

#[test]
fn blocks_without_elements_are_not_sent() {
    for (elements, first) in [(1, 1), (3, 3), (4, 4), (0, 4)] {
        let operation = all_reduce(elements, Element::F32, Association::Arrival);
        let (lanes, shapes) = lanes_of("ring", 4, &operation, 256);
        let mut buffers: Vec<Buffer> = (0..4).map(|_| Buffer::new(4 * elements as usize)).collect();
        let mut network = VirtualNetwork::mesh(lanes, 1, 300);
        for ((rank, buffer), shape) in (0..4).zip(&mut buffers).zip(shapes) {
            buffer.as_mut_slice().copy_from_slice(&interpreter::vector(&operation, rank as u32, 1));
            let region = buffer.region();
            let job = StartedOperation { sequence: 1, shape, input: region, output: region, keep: false };
            network.machine(rank).start(Arc::new(job)).unwrap();
        }
        // At the first step of a ring every rank sends a block to its neighbour. If the vector is empty, ranks still
        // announce the operation to each other.
        let sends = |network: &mut VirtualNetwork<Lane>, rank| {
            (0..4).any(|peer| network.machine(rank).waiting(peer) > 0)
        };
        assert_eq!((0..4).filter(|&rank| sends(&mut network, rank)).count(), first, "{elements} elements");
        network.run().unwrap();
        assert!((0..4).all(|rank| network.machine(rank).finished() == Some(FIRST)));
    }
}

#[test]
fn kept_inputs_are_restored_after_a_failure() {
    let operation = all_reduce(1000, Element::I64, Association::Arrival);
    // Each combination takes seconds under Miri.
    let (plans, moments) =
        if cfg!(miri) { (2, &[50, 400][..]) } else { (PLANS.len(), &[0, 10, 50, 100, 200, 400][..]) };
    for name in &PLANS[..plans] {
        for &steps in moments {
            let (mut network, mut buffers) = under_way(name, &operation, steps, steps);
            for (rank, buffer) in (0u32..).zip(&mut buffers) {
                assert_eq!(network.machine(rank as usize).abort(), [FIRST]);
                assert_eq!(
                    buffer.as_mut_slice(),
                    interpreter::vector(&operation, rank, 1),
                    "{name}, {steps} steps"
                );
            }
        }
    }
}

/// Plans under which faults are tested.
const PLANS: [&str; 5] =
    ["ring", "direct", "halving_doubling", "two_level(group=2)", "parameter_server(placement=CC)"];

proptest! {
    #![proptest_config(config(400))]

    /// Whatever happens to bytes in transit, the receiver detects it by the next heartbeat. It never completes with a
    /// wrong result, blames only the connection on which they came, and restores its input.
    /// Fault: bytes or whole frames change in transit, are lost, are duplicated, or are inserted -> the receiver detects it by the heartbeats that follow, never completes with a wrong result, and blames that connection; inputs are restored
    #[test]
    fn every_mishap_is_detected(
        (plan, seed, steps) in (0..PLANS.len(), any::<u64>(), 1u64..600),
        mishap in prop::sample::select(Mishap::ALL.to_vec()),
    ) {
        let operation = all_reduce(1000, Element::I64, Association::Arrival);
        let (mut network, mut buffers) = under_way(PLANS[plan], &operation, seed, steps);
        if let Some((from, to)) = network.mishap(mishap) {
            let found = find(&mut network);
            prop_assert_eq!(found.map(|found| (found.0, found.1)), Some((to.0, from.0 as u32)), "{:?}", mishap);
        }
        let inputs = (0..4).map(|rank| interpreter::vector(&operation, rank, 1));
        let sum = inputs.reduce(|sum, vector| {
            let number = |bytes: &[u8]| i64::from_ne_bytes(bytes.try_into().unwrap());
            let each = sum.chunks_exact(8).zip(vector.chunks_exact(8));
            each.flat_map(|(a, b)| number(a).wrapping_add(number(b)).to_ne_bytes()).collect()
        });
        let sum = sum.unwrap();
        for (rank, buffer) in buffers.iter_mut().enumerate() {
            if network.machine(rank).finished().is_some() {
                prop_assert_eq!(buffer.as_mut_slice(), &sum[..], "{:?}", mishap);
            }
        }
        for (rank, buffer) in (0u32..).zip(&mut buffers) {
            network.machine(rank as usize).abort();
            prop_assert_eq!(buffer.as_mut_slice(), interpreter::vector(&operation, rank, 1));
        }
    }
}

/// Moves all bytes, then sends heartbeats at the intervals that ranks use, until a rank finds a broken connection or
/// the limit of silence has passed. Returns the rank, the peer, and what is wrong.
fn find(network: &mut VirtualNetwork<Lane>) -> Option<(usize, u32, String)> {
    let patience = Patience::default();
    let mut heartbeats: Vec<Heartbeats> = (0..4).map(|_| Heartbeats::new(patience, Duration::ZERO)).collect();
    let others = |rank: usize| (0..4u32).filter(|&peer| peer != rank as u32).collect::<Vec<_>>();
    let mut now = Duration::ZERO;
    while now <= patience.silence {
        if let Err(InvalidBytes { end: (place, peer), error: broken }) = network.run() {
            return Some((place, peer, broken.to_string()));
        }
        for (rank, own) in heartbeats.iter_mut().enumerate() {
            for peer in others(rank) {
                if now.is_zero() {
                    own.join(peer as usize, now);
                }
                own.heard(peer as usize, now);
            }
            let lost = own.check(network.machine(rank), &others(rank), now).lost;
            if let Some(LostPeer { peer, trouble }) = lost.into_iter().next() {
                return Some((rank, peer, trouble.what));
            }
        }
        now += heartbeats[0].interval();
    }
    None
}

/// Fault: a peer sends the same message twice -> the repetition is detected, whether the first message was set aside or has reached its destination, or its chunk has completed
#[test]
fn a_repeated_message_is_detected() {
    let operation = all_reduce(256, Element::F32, Association::Arrival);
    let (mut lanes, shapes) = lanes_of("ring", 2, &operation, 512);
    let start = |lane: &mut Lane, rank: usize, buffer: &mut Buffer| {
        let region = buffer.region();
        let job = StartedOperation {
            sequence: 1,
            shape: Arc::clone(&shapes[rank]),
            input: region,
            output: region,
            keep: true,
        };
        lane.start(Arc::new(job)).unwrap();
    };
    let (mut here, mut there) = (Buffer::new(1024), Buffer::new(1024));
    start(&mut lanes[1], 1, &mut there);
    let mut slices = Vec::new();
    lanes[1].gather(0, &mut slices, 2);
    let header = |kind| Header { kind, epoch: 0, sequence: 1, chunk: 0 };
    let begin = (header(Frame::Begin), slices[0][HEADER..].to_vec());
    let [first, second] = [0, 1].map(|number| (header(Frame::Message(number)), vec![0; 512]));
    for (begun, frames) in [
        (false, vec![&begin, &begin]),
        (false, vec![&begin, &first, &first]),
        (true, vec![&begin, &first, &first]),
        (true, vec![&begin, &first, &second, &second]),
        (true, vec![&begin, &first, &second, &first]),
    ] {
        let (mut lanes, _) = lanes_of("ring", 2, &operation, 512);
        let lane = &mut lanes[0];
        if begun {
            start(lane, 0, &mut here);
        }
        let mut take = |place: usize| {
            let (header, payload) = frames[place];
            lane.received(1, &header.encode(place as u32, payload))
                .and_then(|()| lane.received(1, payload))?;
            // Send what waits.
            while lane.waiting(1) > 0 {
                lane.sent(1, lane.waiting(1));
            }
            Ok(())
        };
        let last = frames.len() - 1;
        assert!((0..last).all(|place| take(place).is_ok()));
        assert_eq!(take(last), Err(ProtocolError::Twice(frames[last].0)), "{frames:?}");
    }
}

/// Frames that a peer might send to the first of two ranks that run four chunks as a ring. Checksums and lengths are
/// right; kinds, operations, chunks and numbers are arbitrary, but close to valid ones.
fn frames() -> impl Strategy<Value = Vec<Header>> {
    let number = prop_oneof![8 => 0u16..3, 1 => any::<u16>().prop_map(|number| number % 0xff00)];
    let kinds = prop_oneof![
        6 => number.prop_map(Frame::Message), 2 => Just(Frame::Begin),
        6 => prop::sample::select(vec![
            Frame::Heartbeat, Frame::Leave, Frame::Open, Frame::Close, Frame::Hold, Frame::Resume, Frame::Offer,
            Frame::Ask, Frame::Piece, Frame::Refuse, Frame::Taken,
        ]),
    ];
    let sequence = prop_oneof![8 => 1u32..3, 1 => any::<u32>()];
    let chunk = prop_oneof![8 => 0u32..5, 1 => any::<u32>()];
    let frame = (kinds, sequence, chunk).prop_map(|(kind, sequence, chunk)| Header {
        kind,
        epoch: 0,
        sequence,
        chunk,
    });
    prop::collection::vec(frame, 0..40)
}

/// The announcement of an operation by rank 1 of two.
fn announcement(lane: &mut Lane, shape: &Arc<Shape>, bytes: usize) -> Vec<u8> {
    let mut buffer = Buffer::new(bytes);
    let region = buffer.region();
    let job =
        StartedOperation { sequence: 1, shape: Arc::clone(shape), input: region, output: region, keep: true };
    lane.start(Arc::new(job)).unwrap();
    let mut slices = Vec::new();
    lane.gather(0, &mut slices, 2);
    let asked = slices[0][HEADER..].to_vec();
    lane.abort();
    asked
}

/// An all-reduce of four chunks, and its announcement by rank 1.
fn four_chunks() -> (Operation, Vec<u8>) {
    let operation = all_reduce(4 * 256, Element::F32, Association::Arrival);
    let (mut lanes, shapes) = lanes_of("ring", 2, &operation, 512);
    (operation, announcement(&mut lanes[1], &shapes[1], 4 * 1024))
}

/// Passes a frame of the second of two ranks to the first.
fn give(lane: &mut Lane, place: u32, header: Header, asked: &[u8]) -> Result<(), ProtocolError> {
    let payload = match header.kind {
        Frame::Message(_) => &[0; 512][..],
        Frame::Begin => asked,
        Frame::Open | Frame::Refuse => &[0; 8],
        // With a length of 100 bytes, like all pieces.
        Frame::Offer => {
            &[[0; 24], [100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat()
                [..32]
        }
        Frame::Piece => &[0; 100],
        _ => &[],
    };
    lane.received(1, &header.encode(place, payload))?;
    lane.received(1, payload)
}

proptest! {
    #![proptest_config(config(500))]

    /// Fault: well-formed but meaningless frames arrive -> each is refused or accepted; inputs are restored
    #[test]
    fn well_formed_frames_are_refused_or_accepted(
        frames in frames(), begun in 0usize..3, announced: bool,
    ) {
        let (operation, asked) = four_chunks();
        let (mut lanes, shapes) = lanes_of("ring", 2, &operation, 512);
        let lane = &mut lanes[0];
        let mut buffers: Vec<Buffer> = (0..begun).map(|_| Buffer::new(4 * 1024)).collect();
        for (sequence, buffer) in (1..).zip(&mut buffers) {
            buffer.as_mut_slice().copy_from_slice(&interpreter::vector(&operation, 0, sequence));
            let region = buffer.region();
            let job = StartedOperation { sequence, shape: Arc::clone(&shapes[0]), input: region, output: region, keep: true };
            lane.start(Arc::new(job)).unwrap();
        }
        let begin = |sequence| Header { kind: Frame::Begin, epoch: 0, sequence, chunk: 0 };
        let first = [begin(1), begin(2)].into_iter().filter(|_| announced);
        let mut taken = Vec::new();
        for (place, header) in (0u32..).zip(first.chain(frames)) {
            match give(lane, place, header, &asked) {
                Ok(()) if matches!(header.kind, Frame::Message(_)) => {
                    prop_assert!(!taken.contains(&header), "{header:?} twice");
                    taken.push(header);
                }
                Ok(()) => {}
                Err(_) => break,
            }
            while lane.waiting(1) > 0 {
                lane.sent(1, lane.waiting(1));
            }
        }
        lane.abort();
        for (sequence, buffer) in (1..).zip(&buffers) {
            prop_assert_eq!(buffer.as_slice(), interpreter::vector(&operation, 0, sequence));
        }
    }

    /// All messages of an operation, once each and in any order after its announcement: the operation completes as it
    /// does in the right order.
    #[test]
    fn messages_may_arrive_in_any_order(
        order in Just((0..4u32).flat_map(|chunk| [(chunk, 0u16), (chunk, 1)]).collect::<Vec<_>>()).prop_shuffle(),
        late in 0usize..9,
    ) {
        let (operation, asked) = four_chunks();
        let (mut lanes, shapes) = lanes_of("ring", 2, &operation, 512);
        let lane = &mut lanes[0];
        let mut buffer = Buffer::new(4 * 1024);
        let region = buffer.region();
        let job =
            Arc::new(StartedOperation { sequence: 1, shape: Arc::clone(&shapes[0]), input: region, output: region, keep: true });
        let header = |kind, chunk| Header { kind, epoch: 0, sequence: 1, chunk };
        prop_assert_eq!(give(lane, 0, header(Frame::Begin, 0), &asked), Ok(()));
        for (place, &(chunk, number)) in (0..).zip(&order) {
            if place == late {
                lane.start(Arc::clone(&job)).unwrap();
            }
            let message = header(Frame::Message(number), chunk);
            prop_assert_eq!(give(lane, place as u32 + 1, message, &asked), Ok(()));
            while lane.waiting(1) > 0 {
                lane.sent(1, lane.waiting(1));
            }
        }
        if late == order.len() {
            lane.start(job).unwrap();
        }
        while lane.waiting(1) > 0 {
            lane.sent(1, lane.waiting(1));
        }
        prop_assert_eq!(lane.finished(), Some(FIRST));
        lane.forget(FIRST);
    }
}

/// Fault: frames of another epoch arrive -> they are refused
#[test]
fn frames_of_another_epoch_are_refused() {
    let operation = all_reduce(1000, Element::F32, Association::Arrival);
    let (_, shapes) = lanes_of("ring", 2, &operation, 256);
    let flow = FlowControl { lanes: 1, window: 64 << 10, ahead: 1 << 20 };
    let lanes = (0..2u32).map(|rank| {
        let rule = Rule::new(CollectiveKind::AllReduce, by_name("ring").unwrap(), 256);
        Lane::new(
            0,
            flow,
            7 + rank as u16,
            Arc::new(PlanBook::new(rank, 2, Selection::of(vec![0, 1], vec![rule])).unwrap()),
        )
    });
    let mut network = VirtualNetwork::mesh(lanes.collect(), 1, 300);
    let mut buffer = Buffer::new(4000);
    let region = buffer.region();
    let job = StartedOperation {
        sequence: 1,
        shape: Arc::clone(&shapes[0]),
        input: region,
        output: region,
        keep: true,
    };
    network.machine(0).start(Arc::new(job)).unwrap();
    let InvalidBytes { end: (place, peer), error: broken } = network.run().unwrap_err();
    assert_eq!((place, peer), (1, 0));
    assert!(broken.to_string().contains("of epoch 7, but the job is in epoch 8"), "{broken}");
}

/// Fault: a rank writes to the memory of an operation while it is being sent -> the receiver rejects the message, and the sender blames itself
#[test]
fn memory_that_changes_while_it_is_sent_is_distinguished_from_a_bad_link() {
    let operation = all_reduce(1000, Element::I32, Association::Arrival);
    for (plan, changes) in [("ring", true), ("direct", true), ("ring", false), ("direct", false)] {
        let (lanes, shapes) = lanes_of(plan, 2, &operation, 4096);
        let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(4000)).collect();
        let mut network = VirtualNetwork::mesh(lanes, 3, 8);
        for rank in 0..2 {
            let region = buffers[rank].region();
            let shape = Arc::clone(&shapes[rank]);
            let job = StartedOperation { sequence: 1, shape, input: region, output: region, keep: true };
            network.machine(rank).start(Arc::new(job)).unwrap();
        }
        // Some bytes of the first frames are in transit, and most are not.
        (0..60).for_each(|_| assert!(network.step().unwrap()));
        match changes {
            true => buffers[0].as_mut_slice().iter_mut().for_each(|byte| *byte ^= 0x5a),
            false => _ = network.mishap_on(Mishap::Flip, |from, _| from.0 == 0).unwrap(),
        }
        let InvalidBytes { end: (place, peer), .. } = network.run().unwrap_err();
        assert_eq!((place, peer), (1, 0));
        let closed = Trouble::closed("end of file");
        let reason = network.machine(0).reason(1, closed.clone());
        let kind = if changes { FaultKind::Changed } else { FaultKind::Closed };
        assert_eq!(reason.kind, kind, "{plan}: {reason}");
        assert_eq!(network.machine(1).reason(0, closed.clone()), closed);
    }
}

/// Fault: a peer keeps sending collectives ahead after it was asked to hold -> it is blamed before memory runs short
#[test]
fn a_peer_that_does_not_hold_is_at_fault() {
    const MESSAGE: usize = 1 << 20;
    let operation = all_reduce(100 << 18, Element::F32, Association::Arrival);
    let (mut lanes, shapes) = lanes_of("ring", 2, &operation, MESSAGE as u64);
    let asked = announcement(&mut lanes[1], &shapes[1], 100 * MESSAGE);
    let lane = &mut lanes[0];
    let header = |kind, chunk| Header { kind, epoch: 0, sequence: 1, chunk };
    let begin = header(Frame::Begin, 0);
    lane.received(1, &begin.encode(0, &asked)).and_then(|()| lane.received(1, &asked)).unwrap();
    let payload = vec![0; MESSAGE];
    let mut sent = 0;
    let broken = (0..50).flat_map(|chunk| [(chunk, 0), (chunk, 1)]).find_map(|(chunk, number)| {
        sent += MESSAGE;
        let frame = header(Frame::Message(number), chunk).encode(sent as u32 / MESSAGE as u32, &payload);
        lane.received(1, &frame).and_then(|()| lane.received(1, &payload)).err()
    });
    assert_eq!(broken, Some(ProtocolError::Flood(sent)));
    assert!(sent > 64 << 20 && sent < 66 << 20 && lane.kept().most_early == sent, "{sent}");
    assert!(lane.waiting(1) > 0, "the peer is asked to hold");
}

#[test]
fn an_error_about_different_operations_names_both() {
    let operation = all_reduce(1000, Element::F32, Association::Arrival);
    let other = Operation { elements: 1001, ..operation };
    for late in [false, true] {
        let (lanes, shapes) = lanes_of("ring", 3, &operation, 256);
        let (_, others) = lanes_of("ring", 3, &other, 256);
        let mut buffers: Vec<Buffer> = (0..3).map(|_| Buffer::new(4004)).collect();
        let mut network = VirtualNetwork::mesh(lanes, 1, 300);
        let mut start = |network: &mut VirtualNetwork<Lane>, rank: u32| {
            let region = buffers[rank as usize].region();
            let shape = if rank == 2 { &others[2] } else { &shapes[rank as usize] };
            let region = region.part(0..if rank == 2 { 4004 } else { 4000 });
            let job = StartedOperation {
                sequence: 1,
                shape: Arc::clone(shape),
                input: region,
                output: region,
                keep: false,
            };
            network.machine(rank as usize).start(Arc::new(job))
        };
        (0..2).for_each(|rank| start(&mut network, rank).unwrap());
        let broken = if late {
            network.run().unwrap();
            start(&mut network, 2).unwrap_err().error
        } else {
            start(&mut network, 2).unwrap();
            network.run().unwrap_err().error
        };
        let text = broken.to_string();
        assert!(text.contains("1000 f32") && text.contains("1001 f32"), "{text}");
    }
}

#[test]
fn a_rank_that_has_not_begun_names_both_ranks_that_differ() {
    let operation = all_reduce(1000, Element::F32, Association::Arrival);
    let other = Operation { elements: 1001, ..operation };
    let (mut lanes, shapes) = lanes_of("direct", 3, &operation, 256);
    let (_, others) = lanes_of("direct", 3, &other, 256);
    let mut outcomes = Vec::new();
    for (rank, shape) in [(0, &shapes[0]), (2, &others[2])] {
        let mut buffer = Buffer::new(4 * shape.operation.elements as usize);
        let region = buffer.region();
        let job = StartedOperation {
            sequence: 1,
            shape: Arc::clone(shape),
            input: region,
            output: region,
            keep: false,
        };
        lanes[rank].start(Arc::new(job)).unwrap();
        let mut slices = Vec::new();
        lanes[rank].gather(1, &mut slices, 2);
        let begin = slices[0].to_vec();
        outcomes.push(lanes[1].received(rank as u32, &begin));
        lanes[rank].abort();
    }
    assert_eq!(outcomes[0], Ok(()));
    let text = outcomes[1].clone().unwrap_err().to_string();
    assert!(text.starts_with("asks for all_reduce of 1001 f32"), "{text}");
    assert!(text.ends_with("but rank 0 asks for all_reduce of 1000 f32 (sum)"), "{text}");
}

#[test]
fn a_sender_that_is_far_ahead_is_held() {
    let operation = Operation {
        kind: CollectiveKind::Broadcast,
        ..all_reduce(1 << 16, Element::F32, Association::Arrival)
    };
    let (lanes, shapes) = lanes_of("direct", 2, &operation, 4096);
    let mut network = VirtualNetwork::mesh(lanes, 1, 100_000);
    let mut buffers: Vec<Buffer> = (0..2).map(|_| Buffer::new(1 << 18)).collect();
    let regions: Vec<Region> = buffers.iter_mut().map(Lent::region).collect();
    let start = |network: &mut VirtualNetwork<Lane>, rank: u32, sequence| {
        let (shape, region) = (Arc::clone(&shapes[rank as usize]), regions[rank as usize]);
        let job = StartedOperation { sequence, shape, input: region, output: region, keep: false };
        network.machine(rank as usize).start(Arc::new(job)).unwrap();
    };
    for sequence in 1..=40 {
        start(&mut network, 0, sequence);
    }
    network.run().unwrap();
    // It is asked to hold, and only what is in transit then still arrives.
    let KeptBytes { early, most_early: most, .. } = network.machine(1).kept();
    assert!(early == most && early > 1 << 20 && early < (1 << 20) + (512 << 10), "{early} bytes are kept");
    assert!(network.machine(1).reads(0) && network.machine(0).waiting(1) == 0);
    assert!(std::iter::from_fn(|| network.machine(0).finished()).count() < 10);
    // Meanwhile a transfer and heartbeats get through.
    let (mut sent, mut come) = (Buffer::new(300_000), Buffer::new(300_000));
    sent.as_mut_slice().fill(7);
    let label = Label { group: 0, space: 0, tag: 1 };
    let transfer = |id, peer, region| Transfer { id, label, peer: Some(peer), region };
    network.machine(1).receive(transfer(1, 0, come.region()));
    network.machine(0).send(transfer(2, 1, sent.region()));
    network.machine(0).send_heartbeat(1);
    network.run().unwrap();
    assert_eq!(network.machine(1).delivered(), Some(Delivery { id: 1, outcome: Ok(0) }));
    assert_eq!(come.as_slice(), sent.as_slice());
    assert_eq!(network.machine(1).kept().early, early);
    for sequence in 1..=40 {
        start(&mut network, 1, sequence);
        network.run().unwrap();
    }
    assert!(network.machine(1).reads(0) && network.machine(0).waiting(1) == 0);
    assert_eq!(std::iter::from_fn(|| network.machine(1).finished()).count(), 40);
    assert_eq!(network.machine(1).kept().early, 0);
}
