//! Wrong plans, and the message for each. The first half changes one instruction of proved plans at random; the
//! second half shows each kind of fault.

use proptest::prelude::*;
use syncline_diagnostics::Code;
use syncline_plan::custom::{BlocksEntry, Custom, OpEntry, PlanFile, SeatEntry, StreamEntry};
use syncline_plan::program::Buffer;
use syncline_plan::registry::{ENTRIES, by_name};
use syncline_units::CollectiveKind;

/// One change of one instruction.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The instruction is removed.
    Drop,
    /// The instruction uses another block.
    Shift,
    /// The instruction reduces where it should not, or the reverse.
    Flip,
    /// The instruction uses another peer.
    Turn,
}

/// Changes the `pick`-th instruction that the change applies to. Returns false if there is none.
fn broken(file: &mut PlanFile, change: Change, pick: usize) -> bool {
    let ranks = file.ranks + file.helpers;
    let applies = |op: &OpEntry| match change {
        Change::Drop => matches!(op, OpEntry::Send { .. } | OpEntry::Receive { .. }),
        Change::Shift => matches!(op, OpEntry::Send { of: Some(2..), .. }),
        Change::Flip => matches!(op, OpEntry::Receive { .. }),
        Change::Turn => ranks > 2 && matches!(op, OpEntry::Send { .. } | OpEntry::Receive { .. }),
    };
    let places: Vec<(usize, usize, usize)> = file
        .seats
        .iter()
        .enumerate()
        .flat_map(|(seat, entry)| {
            entry.streams.iter().enumerate().flat_map(move |(stream, entry)| {
                entry.ops.iter().enumerate().map(move |(pc, op)| ((seat, stream, pc), op))
            })
        })
        .filter(|(_, op)| applies(op))
        .map(|(place, _)| place)
        .collect();
    let Some(&(seat, stream, pc)) = places.get(pick % places.len().max(1)) else { return false };
    let ops = &mut file.seats[seat].streams[stream].ops;
    let turned = |peer: u32| (0..ranks).find(|&other| other != peer && other != seat as u32).unwrap();
    match (change, &mut ops[pc]) {
        (Change::Drop, _) => _ = ops.remove(pc),
        (Change::Shift, OpEntry::Send { block, count, of: Some(of), .. }) => {
            if *count == *of {
                return false;
            }
            *block = if *block + *count < *of { *block + 1 } else { *block - 1 };
        }
        (Change::Flip, OpEntry::Receive { reduce, .. }) => *reduce = !*reduce,
        (Change::Turn, OpEntry::Send { to: peer, .. } | OpEntry::Receive { from: peer, .. }) => {
            *peer = turned(*peer);
        }
        _ => unreachable!("the change does not apply"),
    }
    true
}

/// Every plan of the registry's examples on a few ranks: name, collective, ranks.
fn plans() -> Vec<(&'static str, CollectiveKind, u32)> {
    let names = ENTRIES.iter().flat_map(|entry| entry.examples.iter().copied());
    names
        .flat_map(|name| CollectiveKind::ALL.iter().map(move |&kind| (name, kind)))
        .flat_map(|(name, kind)| (2..12).map(move |ranks| (name, kind, ranks)))
        .filter(|&(name, kind, ranks)| by_name(name).unwrap().offers(kind, ranks).is_ok())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3000) })]
    #[test]
    fn broken_plans_are_detected(
        (name, kind, ranks) in prop::sample::select(plans()),
        change in prop::sample::select(vec![Change::Drop, Change::Shift, Change::Flip, Change::Turn]),
        pick: usize,
    ) {
        let mut file = PlanFile::of(&*by_name(name).unwrap(), kind, ranks).unwrap();
        prop_assert!(Custom::new(&file).is_ok());
        if broken(&mut file, change, pick) {
            let found = Custom::new(&file);
            prop_assert!(found.is_err(), "nothing found");
            prop_assert_eq!(found.unwrap_err().0[0].code, Code::WrongPlan);
        }
    }
}

fn send(to: u32, block: u32) -> OpEntry {
    OpEntry::Send { to, block, count: 1, of: None, buffer: Buffer::Data }
}
fn receive(from: u32, block: u32, reduce: bool) -> OpEntry {
    OpEntry::Receive { from, block, count: 1, of: None, buffer: Buffer::Data, reduce }
}
const WAIT: OpEntry = OpEntry::Wait {};

/// The first fault of a plan on two ranks with two blocks and one stream per seat.
fn fault(kind: CollectiveKind, programs: [Vec<OpEntry>; 2]) -> (String, Option<String>) {
    let seat = |ops| SeatEntry { streams: vec![StreamEntry { channel: None, ops }] };
    faults(kind, programs.map(seat).to_vec())
}

fn faults(kind: CollectiveKind, seats: Vec<SeatEntry>) -> (String, Option<String>) {
    let ranks = seats.len() as u32;
    let name = "wrong".to_owned();
    let file =
        PlanFile { name, kind, ranks, helpers: 0, blocks: 2, result: None, split: false, msccl: None, seats };
    let found = Custom::new(&file).unwrap_err().0.remove(0);
    assert_eq!(found.code, Code::WrongPlan);
    (found.message, found.key)
}

#[test]
fn a_rank_that_ends_without_a_contribution_is_named() {
    let (message, key) = fault(CollectiveKind::ReduceScatter, [vec![receive(1, 0, true)], vec![send(0, 0)]]);
    assert_eq!(message, "rank 1 ends without the contribution of rank 0 in block 1 of 2 of its data");
    assert_eq!(key, None);
}

#[test]
fn a_contribution_that_is_added_twice_is_named() {
    let programs = [vec![receive(1, 0, true), receive(1, 0, true)], vec![send(0, 0), send(0, 0)]];
    let (message, key) = fault(CollectiveKind::Reduce, programs);
    assert_eq!(message, "seat 0 adds the contribution of rank 1 to block 0 of 2 of its data a second time");
    assert_eq!(key.as_deref(), Some("seat 0, stream 0, instruction 1"));
}

#[test]
fn a_block_that_is_reduced_into_another_is_named() {
    let (message, _) = fault(CollectiveKind::Reduce, [vec![receive(1, 0, true)], vec![send(0, 1)]]);
    assert_eq!(message, "seat 0 reduces element 1 into block 0 of 2 of its data, which holds element 0");
}

#[test]
fn a_block_that_is_sent_before_it_arrives_is_named() {
    let programs = [vec![receive(1, 1, false), send(1, 1)], vec![send(0, 1), receive(0, 0, false)]];
    let (message, key) = fault(CollectiveKind::AllGather, programs);
    assert_eq!(
        message,
        "seat 0 touches blocks while the receive at stream 0, instruction 0 into them is outstanding: \
         it must wait first"
    );
    assert_eq!(key.as_deref(), Some("seat 0, stream 0, instruction 1"));
    let (message, _) = fault(CollectiveKind::Broadcast, [vec![receive(1, 0, false)], vec![send(0, 0)]]);
    assert_eq!(message, "seat 1 reads block 0 of 2 of its data, which holds nothing yet");
}

#[test]
fn a_message_that_does_not_fit_is_refused() {
    let both = OpEntry::Send { to: 0, block: 0, count: 2, of: None, buffer: Buffer::Data };
    let (message, _) = fault(CollectiveKind::Reduce, [vec![receive(1, 0, true)], vec![both]]);
    assert_eq!(message, "seat 0 writes 2 elements into space for 1");
}

#[test]
fn messages_that_are_never_sent_or_never_received_are_named() {
    let (message, _) = fault(CollectiveKind::Reduce, [vec![receive(1, 0, true), WAIT], vec![]]);
    assert_eq!(message, "seat 0 receives message 1 from seat 1 on channel 0, which is never sent");
    let (message, key) = fault(CollectiveKind::Broadcast, [vec![send(1, 0)], vec![]]);
    assert_eq!(message, "seat 0 sends message 1 to seat 1 on channel 0, which is never received");
    assert_eq!(key.as_deref(), Some("seat 0, stream 0, instruction 0"));
}

#[test]
fn seats_that_wait_for_each_other_are_reported_as_a_deadlock() {
    let program = |other| vec![receive(other, 0, true), WAIT, send(other, 0)];
    let (message, _) = fault(CollectiveKind::AllReduce, [program(1), program(0)]);
    assert_eq!(
        message,
        "seat 0 receives message 1 from seat 1 on channel 0, but seat 1 is waiting too: deadlock"
    );
}

#[test]
fn peers_that_do_not_exist_are_refused() {
    let (message, _) = fault(CollectiveKind::Broadcast, [vec![send(0, 0)], vec![]]);
    assert_eq!(message, "seat 0 sends to itself");
    let (message, _) = fault(CollectiveKind::Broadcast, [vec![receive(9, 0, false)], vec![]]);
    assert_eq!(message, "seat 0 receives from seat 9, but there are only 2 seats");
}

#[test]
fn a_block_in_the_wrong_place_is_named() {
    let at = |block, buffer| BlocksEntry { block, count: 1, of: None, buffer };
    let copy =
        |from, to| OpEntry::Copy { from: at(from, Buffer::Data), to: at(to, Buffer::Data), reduce: false };
    let programs = [vec![send(1, 0), send(1, 1)], vec![receive(0, 1, false), receive(0, 0, false)]];
    let (message, _) = fault(CollectiveKind::Broadcast, programs);
    assert_eq!(message, "rank 1 ends with element 1 in block 0 of 2 of its data, where element 0 belongs");
    let (message, _) = fault(CollectiveKind::Broadcast, [vec![copy(0, 1)], vec![]]);
    assert_eq!(message, "rank 0 ends with element 0 in block 1 of 2 of its data, where element 1 belongs");
}

#[test]
fn streams_that_conflict_are_refused() {
    let stream = |channel, ops| StreamEntry { channel: Some(channel), ops };
    let first = SeatEntry { streams: vec![stream(0, vec![send(1, 0)]), stream(0, vec![send(1, 1)])] };
    let second = SeatEntry { streams: vec![stream(0, vec![receive(0, 0, false), receive(0, 1, false)])] };
    let (message, _) = faults(CollectiveKind::Broadcast, vec![first, second]);
    assert_eq!(message, "seat 0 sends to seat 1 on channel 0 from several streams: their order is undefined");
    let after = |stream| OpEntry::After { stream, ops: 2 };
    let circle =
        SeatEntry { streams: vec![stream(0, vec![after(1), WAIT]), stream(1, vec![after(0), WAIT])] };
    let (message, _) = faults(CollectiveKind::Broadcast, vec![circle, SeatEntry::default()]);
    assert_eq!(message, "seat 0 waits forever for instruction 2 of stream 1");
}

#[test]
fn a_plan_that_is_correct_in_one_order_only_is_refused() {
    // Stream 1 forwards what stream 0 has received, without waiting for it.
    let stream = |channel, ops| StreamEntry { channel: Some(channel), ops };
    let whole = |to| OpEntry::Send { to, block: 0, count: 2, of: None, buffer: Buffer::Data };
    let into =
        |from| OpEntry::Receive { from, block: 0, count: 2, of: None, buffer: Buffer::Data, reduce: false };
    let seats = vec![
        SeatEntry { streams: vec![stream(0, vec![whole(1)])] },
        SeatEntry { streams: vec![stream(0, vec![into(0), WAIT]), stream(1, vec![whole(2)])] },
        SeatEntry { streams: vec![stream(1, vec![into(1)])] },
    ];
    let (message, _) = faults(CollectiveKind::Broadcast, seats);
    assert!(message.starts_with("seat 1 "), "{message}");
}

/// Ranks whose streams use the channels of their own numbers.
fn seats(programs: Vec<Vec<Vec<OpEntry>>>) -> Vec<SeatEntry> {
    let stream = |ops| StreamEntry { channel: None, ops };
    programs
        .into_iter()
        .map(|streams| SeatEntry { streams: streams.into_iter().map(stream).collect() })
        .collect()
}

#[test]
fn an_order_that_goes_through_another_rank_counts() {
    // Rank 1's first stream sends block 0, and its second stream receives the sum into it; neither waits for the
    // other. Rank 0 sends the sum only after it has received the message of the first stream, so the sum cannot
    // arrive too early. Reduction and broadcast in trees look like this, with more ranks in between.
    let after = |stream, ops| OpEntry::After { stream, ops };
    let leaf = |root| {
        let blocks = [0, 1];
        let up = blocks.map(|block| send(root, block)).to_vec();
        let down = vec![receive(root, 0, false), receive(root, 1, false), WAIT];
        vec![up, down]
    };
    let root = |hasty: bool| {
        let take = vec![receive(1, 0, true), receive(1, 1, true), WAIT];
        let give = vec![after(0, if hasty { 2 } else { 3 }), send(1, 0), send(1, 1)];
        vec![take, give]
    };
    let file = |root: Vec<Vec<OpEntry>>| PlanFile {
        name: "tree".to_owned(),
        kind: CollectiveKind::AllReduce,
        ranks: 2,
        helpers: 0,
        blocks: 2,
        result: None,
        split: false,
        msccl: None,
        seats: seats(vec![root, leaf(0)]),
    };
    Custom::new(&file(root(false))).unwrap_or_else(|errors| panic!("{errors}"));
    // If rank 0 does not wait, the sum may be anything.
    let (message, _) = faults(CollectiveKind::AllReduce, file(root(true)).seats);
    assert!(message.contains("into them is outstanding: it must wait first"), "{message}");
}

#[test]
fn an_order_through_a_rank_that_was_not_notified_does_not_count() {
    // Rank 1 forwards block 0 to rank 2 while rank 3, which has the block from rank 0, writes it again. The values
    // are right in every order, but one stream reads what another writes, unless rank 2 tells rank 3 that it has the
    // block.
    let after = |stream, ops| OpEntry::After { stream, ops };
    let both = |from| vec![receive(from, 0, false), receive(from, 1, false), WAIT];
    let plan = |told: bool| {
        let (tells, hears) = if told {
            (vec![send(3, 1)], vec![after(0, 3), receive(2, 1, false), WAIT])
        } else {
            (vec![], vec![])
        };
        vec![
            vec![vec![send(3, 0), send(3, 1), send(1, 0), send(1, 1)]],
            vec![
                both(0),
                vec![after(0, 3), send(2, 0), send(2, 1)],
                vec![after(0, 3), receive(3, 0, false), WAIT],
            ],
            vec![vec![], [both(1), tells].concat()],
            vec![both(0), hears, vec![after(u32::from(told), 3), send(1, 0)]],
        ]
    };
    let (message, key) = faults(CollectiveKind::Broadcast, seats(plan(false)));
    assert_eq!(
        message,
        "seat 1 touches blocks while the receive at stream 2, instruction 1 into them is outstanding: \
         it must wait first"
    );
    assert_eq!(key.as_deref(), Some("seat 1, stream 1, instruction 1"));
    let right = PlanFile {
        name: "told".to_owned(),
        kind: CollectiveKind::Broadcast,
        ranks: 4,
        helpers: 0,
        blocks: 2,
        result: None,
        split: false,
        msccl: None,
        seats: seats(plan(true)),
    };
    Custom::new(&right).unwrap_or_else(|errors| panic!("{errors}"));
}

#[test]
fn plans_that_are_too_large_to_be_proved_are_refused() {
    let copy = |from, to: u32, of| OpEntry::Copy {
        from: BlocksEntry { block: from, count: 1, of: Some(of), buffer: Buffer::Data },
        to: BlocksEntry { block: to, count: 1, of: Some(of), buffer: Buffer::Scratch },
        reduce: false,
    };
    let file = |ops| PlanFile {
        name: "large".to_owned(),
        kind: CollectiveKind::AllReduce,
        ranks: 1,
        helpers: 0,
        blocks: 1,
        result: None,
        split: false,
        msccl: None,
        seats: vec![SeatEntry { streams: vec![StreamEntry { channel: None, ops }] }],
    };
    let message = |ops| Custom::new(&file(ops)).unwrap_err().0.remove(0).message;
    assert_eq!(
        message(vec![copy(0, 0, 999_983), copy(0, 0, 1009)]),
        "the plan is too large to be verified: the numbers of blocks that the plan uses have no small common multiple"
    );
    assert_eq!(
        message(vec![copy(0, 4_000_000_000, 1)]),
        "seat 0 uses scratch block 4000000000, which is beyond the largest buffer that can be verified"
    );
    assert_eq!(
        message(vec![copy(0, 60_000_000, 1)]),
        "seat 0 uses more output and scratch than a proof can follow"
    );
}
