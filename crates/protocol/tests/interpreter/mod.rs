//! A reference interpreter of plans, which lanes are compared with. It computes one scalar after the other, and runs
//! the lazy programs of plans instead of the scripts that lanes run.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, VecDeque};
use syncline_plan::program::program;
use syncline_plan::{Algorithm, Blocks, Buffer, Op, Seat};
use syncline_protocol::cut::{Cut, Grain};
use syncline_protocol::operation::{Association, Operation};
use syncline_reduction::{Element, error_bound, scalar};
use syncline_units::{CollectiveKind, Extent};

/// A rank's input: arbitrary integers, or floats of many magnitudes.
pub(crate) fn vector(operation: &Operation, rank: u32, seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1000) + u64::from(rank));
    let mut bytes = Vec::new();
    for _ in 0..operation.elements {
        let value = random.random_range(-8.0..8.0f64) * 2f64.powi(random.random_range(-20..20));
        match operation.element {
            Element::F32 => bytes.extend((value as f32).to_ne_bytes()),
            Element::F64 => bytes.extend(value.to_ne_bytes()),
            Element::Bf16 => bytes.extend(half::bf16::from_f64(value).to_ne_bytes()),
            Element::I64 => bytes.extend(random.random::<i64>().to_ne_bytes()),
            Element::U8 => bytes.push(random.random()),
            other => panic!("no test has vectors of {other}"),
        }
    }
    bytes
}

/// The seat that contributes, and its bytes.
type Contribution = (u32, Vec<u8>);

/// The three buffers of a seat, in the order of [`Buffer`].
type Memory = [Vec<u8>; 3];

/// The programs of all seats for one chunk, and the messages between them.
struct Run<'a> {
    algorithm: &'a dyn Algorithm,
    operation: &'a Operation,
    ranks: u32,
    elements: u64,
    memory: Vec<Memory>,
    messages_in_transit: BTreeMap<(u32, u32, u32), VecDeque<Vec<u8>>>,
}

struct Receive {
    from: u32,
    blocks: Blocks,
    reduce: bool,
}

impl Run<'_> {
    fn width(&self) -> usize {
        self.operation.element.bytes()
    }

    fn range(&self, seat: &Seat, blocks: Blocks) -> std::ops::Range<usize> {
        let part = self.algorithm.part(seat.kind, self.ranks, seat.stream, Extent::whole(self.elements));
        let Extent { start, end } = blocks.extent(seat.space(blocks.buffer, part));
        start as usize * self.width()..end as usize * self.width()
    }

    fn read(&mut self, seat: &Seat, blocks: Blocks) -> Vec<u8> {
        let range = self.range(seat, blocks);
        let buffer = &mut self.memory[seat.index as usize][blocks.buffer as usize];
        if buffer.len() < range.end {
            buffer.resize(range.end, 0);
        }
        buffer[range].to_vec()
    }

    fn write(&mut self, seat: &Seat, blocks: Blocks, bytes: &[u8]) {
        let range = self.range(seat, blocks);
        let buffer = &mut self.memory[seat.index as usize][blocks.buffer as usize];
        if buffer.len() < range.end {
            buffer.resize(range.end, 0);
        }
        buffer[range].copy_from_slice(bytes);
    }

    fn combine(&self, into: &mut [u8], with: &[u8]) {
        scalar::reduce_into(self.operation.element, self.operation.reduction, into, with).unwrap();
    }

    /// Performs the receives before a wait. Contributions to the same blocks are combined in the order of seats.
    fn receive(&mut self, seat: &Seat, channel: u32, receives: Vec<Receive>) {
        let mut groups: Vec<(Blocks, Vec<Contribution>)> = Vec::new();
        for Receive { from, blocks, reduce } in receives {
            let message =
                self.messages_in_transit.get_mut(&(from, seat.index, channel)).unwrap().pop_front().unwrap();
            if !reduce {
                self.write(seat, blocks, &message);
                continue;
            }
            match groups.iter_mut().find(|(other, _)| *other == blocks) {
                Some((_, group)) => group.push((from, message)),
                None => groups.push((blocks, vec![(from, message)])),
            }
        }
        for (blocks, mut group) in groups {
            let own = self.read(seat, blocks);
            let ranked = blocks.buffer == Buffer::Data && seat.index < self.ranks;
            group.push((if ranked { seat.index } else { 0 }, own));
            // A hub's own content is neutral, and comes first.
            if !ranked {
                group.rotate_right(1);
            }
            group.sort_by_key(|&(from, _)| from);
            let mut messages = group.into_iter();
            let (_, mut sum) = messages.next().unwrap();
            for (_, message) in messages {
                self.combine(&mut sum, &message);
            }
            self.write(seat, blocks, &sum);
        }
    }

    fn run(&mut self) {
        let (seats, kind) = (self.algorithm.seats(self.ranks), self.operation.kind);
        let streams = self.algorithm.streams(kind, self.ranks);
        let mut threads: Vec<(Seat, Vec<Op>, usize, Vec<Receive>)> = Vec::new();
        for (index, stream) in (0..seats).flat_map(|index| (0..streams).map(move |stream| (index, stream))) {
            let seat = Seat { kind, ranks: self.ranks, index, stream, reverse: false };
            let mut ops: Vec<Op> = program(self.algorithm, seat).collect();
            ops.push(Op::Wait);
            threads.push((seat, ops, 0, Vec::new()));
        }
        loop {
            let mut moved = false;
            for at in 0..threads.len() {
                loop {
                    let (seat, pc) = (threads[at].0, threads[at].2);
                    let channel = self.algorithm.channel(&seat);
                    let Some(&op) = threads[at].1.get(pc) else { break };
                    match op {
                        Op::Send { to, blocks } => {
                            let bytes = self.read(&seat, blocks);
                            self.messages_in_transit
                                .entry((seat.index, to, channel))
                                .or_default()
                                .push_back(bytes);
                        }
                        Op::Receive { from, blocks, reduce } => {
                            threads[at].3.push(Receive { from, blocks, reduce });
                        }
                        Op::Copy { from, to, reduce } => {
                            let bytes = self.read(&seat, from);
                            let mut there = self.read(&seat, to);
                            if reduce {
                                self.combine(&mut there, &bytes);
                            } else {
                                there = bytes;
                            }
                            self.write(&seat, to, &there);
                        }
                        Op::Wait => {
                            let mut wanted: BTreeMap<u32, usize> = BTreeMap::new();
                            threads[at].3.iter().for_each(|r| *wanted.entry(r.from).or_default() += 1);
                            let there = |from| {
                                self.messages_in_transit
                                    .get(&(from, seat.index, channel))
                                    .map_or(0, VecDeque::len)
                            };
                            if wanted.iter().any(|(&from, &count)| there(from) < count) {
                                break;
                            }
                            let receives = std::mem::take(&mut threads[at].3);
                            self.receive(&seat, channel, receives);
                        }
                        Op::After { stream, ops } => {
                            let other = seat.index as usize * streams as usize + stream as usize;
                            if threads[other].2 < ops as usize {
                                break;
                            }
                        }
                    }
                    threads[at].2 += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        assert!(threads.iter().all(|(_, ops, pc, _)| *pc == ops.len()), "{} hangs", self.algorithm.name());
    }
}

/// The result of each rank; empty if it has none. `order` gives the rank of each seat.
pub(crate) fn run(
    algorithm: &dyn Algorithm,
    operation: &Operation,
    order: &[u32],
    inputs: &[Vec<u8>],
    message: u64,
) -> Vec<Vec<u8>> {
    let ranks = order.len() as u32;
    let mut order = order.to_vec();
    if operation.kind.has_root() {
        let first = order.iter().position(|&rank| rank == operation.root).unwrap();
        order.rotate_left(first);
    }
    let grain = Grain::of(algorithm, operation.kind, ranks).unwrap();
    let cut = Cut::new(operation, grain, &order, message).unwrap();
    let width = operation.element.bytes();
    let block = operation.elements as usize * width / ranks as usize;
    let mut results: Vec<Vec<u8>> = (0..ranks)
        .map(|rank| match operation.kind {
            CollectiveKind::Reduce if rank != operation.root => Vec::new(),
            CollectiveKind::ReduceScatter => vec![0; block],
            _ => vec![0; operation.elements as usize * width],
        })
        .collect();
    for chunk in 0..cut.chunks() {
        let bytes = |run: std::ops::Range<u64>| run.start as usize * width..run.end as usize * width;
        let elements = cut.elements(chunk);
        let seats = algorithm.seats(ranks);
        let mut run = Run {
            algorithm,
            operation,
            ranks,
            elements,
            memory: Vec::new(),
            messages_in_transit: BTreeMap::new(),
        };
        for seat in 0..seats {
            let mut data: Vec<u8> = match order.get(seat as usize) {
                Some(&rank) => {
                    let input = &inputs[rank as usize];
                    cut.runs(chunk).flat_map(|piece| input[bytes(piece)].to_vec()).collect()
                }
                None => vec![0; elements as usize * width],
            };
            if seat >= ranks && operation.reduces() {
                scalar::fill_neutral(operation.element, operation.reduction, &mut data).unwrap();
            }
            let seat = Seat { kind: operation.kind, ranks, index: seat, stream: 0, reverse: false };
            let own = bytes({
                let Extent { start, end } = seat.input(Extent::whole(elements));
                start..end
            });
            // Elements that a rank does not contribute have arbitrary content.
            if operation.kind == CollectiveKind::AllGather || operation.kind == CollectiveKind::Broadcast {
                for (at, byte) in data.iter_mut().enumerate() {
                    *byte = if own.contains(&at) { *byte } else { 0xee };
                }
            }
            run.memory.push([data, Vec::new(), Vec::new()]);
        }
        run.run();
        for (seat, &rank) in (0u32..).zip(&order) {
            let result = &mut results[rank as usize];
            if result.is_empty() {
                continue;
            }
            let from = &run.memory[seat as usize][algorithm.result(operation.kind) as usize];
            let piece = |whole: std::ops::Range<u64>| {
                let within = whole.start % (operation.elements / u64::from(ranks)).max(1);
                within..within + (whole.end - whole.start)
            };
            let mut at = 0;
            for (index, target) in (0u32..).zip(cut.runs(chunk)) {
                let length = bytes(target.clone()).len();
                if operation.kind != CollectiveKind::ReduceScatter {
                    result[bytes(target)].copy_from_slice(&from[at..at + length]);
                } else if index == seat {
                    result[bytes(piece(target))].copy_from_slice(&from[at..at + length]);
                }
                at += length;
            }
        }
    }
    results
}

/// Whether a rank's result is the expected one: bit for bit, or, if sums may be associated differently, within the
/// error bound.
pub(crate) fn compare(
    operation: &Operation,
    found: &[u8],
    expected: &[u8],
    inputs: &[Vec<u8>],
    rank: u32,
) -> Result<(), String> {
    if found.len() != expected.len() {
        return Err(format!("{} bytes, not {}", found.len(), expected.len()));
    }
    let exact =
        operation.association == Association::Seats || !operation.element.is_float() || !operation.reduces();
    let width = operation.element.bytes();
    let value = |bytes: &[u8]| match operation.element {
        Element::F32 => f64::from(f32::from_ne_bytes(bytes.try_into().unwrap())),
        Element::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()),
        Element::Bf16 => half::bf16::from_ne_bytes(bytes.try_into().unwrap()).to_f64(),
        _ => f64::NAN,
    };
    // A rank that gets a block gets the one of its own index.
    let first = if operation.by_rank() { found.len() * rank as usize } else { 0 };
    for (at, (found, expected)) in found.chunks(width).zip(expected.chunks(width)).enumerate() {
        let start = first + at * width;
        let close = !exact && {
            let all: f64 = inputs.iter().map(|input| value(&input[start..start + width]).abs()).sum();
            (value(found) - value(expected)).abs() <= error_bound(operation.element, inputs.len()) * all
        };
        if found != expected && !close {
            return Err(format!("element {at} is {:?} ({found:?}), not {:?}", value(found), value(expected)));
        }
    }
    Ok(())
}
