//! Files are built with the library's own builder, by the numbers of the schema's fields.

use super::*;
use flatbuffers::{FlatBufferBuilder, ForwardsUOffset, TableFinishedWIPOffset, WIPOffset};

struct Entry {
    kind: i16,
    id: u64,
    device: u64,
    milliseconds: f32,
    bytes: u64,
    next: Vec<u64>,
}

fn entry(kind: i16, id: u64, device: u64, milliseconds: f32, bytes: u64, next: &[u64]) -> Entry {
    Entry { kind, id, device, milliseconds, bytes, next: next.to_vec() }
}

/// A file with two servers and one switch: accelerators 100 and 101, and route 200 from server 0 to server 1.
fn file(tasks: &[Entry]) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let slot = |number: u16| 4 + 2 * number;
    let mut entries: Vec<WIPOffset<TableFinishedWIPOffset>> = Vec::new();
    for task in tasks {
        let next = builder.create_vector(&task.next);
        let start = builder.start_table();
        builder.push_slot_always(slot(0), task.kind);
        builder.push_slot_always(slot(1), task.id);
        builder.push_slot_always(slot(2), task.device);
        builder.push_slot_always(slot(3), task.milliseconds);
        builder.push_slot_always(slot(4), task.bytes);
        builder.push_slot_always(slot(5), next);
        entries.push(builder.end_table(start));
    }
    let mut devices = Vec::new();
    for (kind, id, node, property) in [(0i16, 100u64, 0u64, 0u64), (0, 101, 1, 0), (14, 200, u64::MAX, 1)] {
        let start = builder.start_table();
        builder.push_slot_always(slot(0), kind);
        builder.push_slot_always(slot(1), id);
        builder.push_slot_always(slot(2), node);
        builder.push_slot_always(slot(3), property);
        devices.push(builder.end_table(start));
    }
    let entries = builder.create_vector(&entries);
    let devices = builder.create_vector(&devices);
    let start = builder.start_table();
    builder.push_slot_always(slot(1), 2u32);
    builder.push_slot_always(slot(2), 1u32);
    builder.push_slot_always::<WIPOffset<_>>(slot(8), entries);
    builder.push_slot_always::<WIPOffset<_>>(slot(9), devices);
    let root = builder.end_table(start);
    builder.finish::<ForwardsUOffset<()>>(WIPOffset::new(root.value()), None);
    builder.finished_data().to_vec()
}

#[test]
fn tasks_of_every_type_are_read() {
    let bytes = file(&[
        entry(0, 7, 100, 1.5, 0, &[8]),
        entry(5, 8, 200, 0.0, 64, &[9]),
        entry(1, 9, 101, 0.25, 0, &[10]),
        entry(6, 10, 0, 0.125, 1000, &[1, 0]),
    ]);
    let graph = FlexNetGraph::from_bytes(&bytes, "graph.fbuf").unwrap();
    assert_eq!(graph.servers, 2);
    let compute =
        |server, pass, micros: u64| FlexNetKind::Compute { server, pass, time: Time(micros * 1_000_000) };
    let expected = [
        (compute(0, Pass::Forward, 1500), vec![1]),
        (FlexNetKind::Transfer { from: 0, to: 1, bytes: Bytes(64) }, vec![2]),
        (compute(1, Pass::Backward, 250), vec![3]),
        (
            FlexNetKind::AllReduce { members: vec![0, 1], bytes: Bytes(1000), inside: Time(125_000_000) },
            vec![],
        ),
    ];
    let read: Vec<_> = graph.tasks.into_iter().map(|task| (task.kind, task.next)).collect();
    assert_eq!(read, expected);
}

#[test]
fn what_is_wrong_is_named_with_its_task() {
    for (task, problem, found) in [
        (entry(0, 7, 100, f32::NAN, 0, &[]), "not a valid time", "NaN ms"),
        (entry(0, 7, 100, -1.0, 0, &[]), "not a valid time", "-1 ms"),
        (entry(0, 7, 200, 1.0, 0, &[]), "the accelerator of a task does not exist", "200"),
        (entry(5, 7, 100, 1.0, 0, &[]), "the route of a transfer does not exist", "100"),
        (entry(0, 7, 100, 1.0, 0, &[99]), "a task that waits for it does not exist", "99"),
        (entry(6, 7, 0, 0.0, 10, &[0, 2]), "a server that does not exist", "2"),
        (entry(6, 7, 0, 0.0, 10, &[1, 1]), "each of them once", "2"),
        (entry(6, 7, 0, 0.0, 10, &[]), "each of them once", "0"),
        (entry(4, 7, 0, 0.0, 10, &[]), "tasks of this type", "4"),
    ] {
        let error = FlexNetGraph::from_bytes(&file(&[task]), "graph.fbuf").unwrap_err();
        let first = &error.0[0];
        assert!(first.message.contains(problem), "{error}");
        assert_eq!(first.found.as_deref(), Some(found), "{error}");
        assert_eq!(first.key.as_deref(), Some("tasks.0"), "{error}");
        assert!(error.to_string().contains("graph.fbuf"), "{error}");
    }
    let twice = file(&[entry(0, 7, 100, 1.0, 0, &[]), entry(0, 7, 101, 1.0, 0, &[])]);
    let error = FlexNetGraph::from_bytes(&twice, "graph.fbuf").unwrap_err();
    assert_eq!(error.0[0].key.as_deref(), Some("tasks.1"));
}

#[test]
fn damaged_files_are_refused_and_never_read_beyond_their_end() {
    let whole = file(&[entry(0, 7, 100, 1.5, 0, &[8]), entry(1, 8, 100, 1.5, 0, &[])]);
    assert!(FlexNetGraph::from_bytes(b"", "x").unwrap_err().to_string().contains("not a task graph"));
    for length in 0..whole.len() {
        assert!(FlexNetGraph::from_bytes(&whole[..length], "x").is_err(), "{length}");
    }
    let step = if cfg!(miri) { 7 } else { 1 };
    for at in (0..whole.len()).step_by(step) {
        for bits in [0x01, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] ^= bits;
            let _ = FlexNetGraph::from_bytes(&damaged, "x");
        }
    }
}
