//! Deadlock reports, whole.

use serde_json::{Value, json};
use syncline_diagnostics::{Code, ExitStatus};
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};

/// The first line and the notes of the report for ranks with these tasks, without the names of files.
fn report(ranks: u32, nodes: impl Fn(u32) -> Vec<Node>) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..ranks {
        let path = folder.path().join(format!("trace.{rank}.et"));
        write_file(&path, &Metadata::astra(), &nodes(rank)).unwrap();
    }
    let dim =
        json!({"name": "a", "shape": "fully_connected", "size": ranks, "rate": "50GB/s", "latency": "500ns"});
    let job: Value = json!({"schema": "syncline/1", "fabric": {"dims": [dim]}, "collectives": {"chunks": 1},
        "workload": {"source": "chakra", "prefix": folder.path().join("trace"), "groups": null}});
    let scenario: Scenario = serde_json::from_value(job).unwrap();
    let refused = run(&scenario, Control::default()).expect_err("this deadlocks");
    assert_eq!(refused.exit(), ExitStatus::Deadlock);
    let [error] = &refused.0[..] else { panic!("{refused}") };
    assert_eq!(error.code, Code::Deadlock);
    let place = folder.path().display().to_string();
    assert!(error.place.as_ref().is_some_and(|at| at.file.starts_with(&place)), "{error:?}");
    let note = |note: &String| {
        let (text, file) = note.split_once(" [").unwrap_or((note, ""));
        assert!(file.is_empty() || file.starts_with(&place) && file.ends_with(".et]"), "{note}");
        text.to_owned()
    };
    (error.message.clone(), error.notes.iter().map(note).collect())
}

fn reduce(id: u64) -> Node {
    Node::collective(id, "reduce", CollectiveType::AllReduce, 4096)
}

#[test]
fn ranks_that_receive_before_they_send_are_named() {
    // Each even rank and its neighbour first receive, then send. All messages match, but all ranks wait forever.
    let (message, notes) = report(4, |rank| {
        let (rank, peer) = (rank as i32, (rank ^ 1) as i32);
        vec![
            Node::receive(1, "wait", peer, rank, 64, 5),
            Node::send(2, "answer", rank, peer, 64, 5).after(&[1]),
        ]
    });
    assert_eq!(message, "the job deadlocks at 0ps: 4 of 4 ranks wait forever");
    let wait = |rank: u32| {
        format!(
            "rank {rank}: `wait` waits for a message from rank {} (tag 5), to be sent by `answer`",
            rank ^ 1
        )
    };
    assert_eq!(notes, (0..4).map(wait).collect::<Vec<_>>());
}

#[test]
fn messages_that_were_sent_and_not_received_are_listed() {
    // Rank 0 sends `first` twice and awaits an answer before `second`; rank 1 wants `second` before all else.
    let (message, notes) = report(3, |rank| match rank {
        0 => vec![
            Node::send(1, "first", 0, 1, 64, 5),
            Node::send(2, "first again", 0, 1, 64, 5),
            Node::receive(3, "answered", 1, 0, 64, 7).after(&[1, 2]),
            Node::send(4, "second", 0, 1, 64, 6).after(&[3]),
        ],
        1 => vec![
            Node::receive(1, "second", 0, 1, 64, 6),
            Node::receive(2, "first", 0, 1, 64, 5).after(&[1]),
            Node::receive(3, "first again", 0, 1, 64, 5).after(&[1]),
            Node::send(4, "answer", 1, 0, 64, 7).after(&[2]),
        ],
        _ => vec![Node::compute(1, "work", 2)],
    });
    assert!(message.ends_with(": 2 of 3 ranks wait forever"), "{message}");
    assert_eq!(
        notes,
        [
            "rank 0: `answered` waits for a message from rank 1 (tag 7), to be sent by `answer`",
            "rank 1: `second` waits for a message from rank 0 (tag 6), to be sent by `second`",
            "rank 0: `first` or one other has sent 2 messages to rank 1 (tag 5), which has not received them yet",
        ]
    );
}

#[test]
fn equal_waits_are_reported_once() {
    // Rank 3 joins after a message that never comes: three ranks wait for the same.
    let (message, notes) = report(4, |rank| match rank {
        3 => vec![Node::receive(1, "late", 0, 3, 64, 0), reduce(2).after(&[1])],
        0 => vec![reduce(2), Node::send(3, "too late", 0, 3, 64, 0).after(&[2])],
        _ => vec![reduce(2)],
    });
    // A part of 1 KiB from each of the others, which rank 3 never takes, takes 20.48 ns and 500 ns of latency.
    assert_eq!(message, "the job deadlocks at 520.48ns: 4 of 4 ranks wait forever");
    assert_eq!(
        notes,
        [
            "ranks 0-2: `reduce` waits for rank 3 to join it in group `all`",
            "rank 3: `late` waits for a message from rank 0 (tag 0), to be sent by `too late`",
        ]
    );
}

#[test]
fn a_long_report_says_what_it_leaves_out() {
    // Every rank of a circle has sent three messages to the next one, which first wants one that waits for all others.
    const RANKS: u32 = 12;
    let (message, notes) = report(RANKS, |rank| {
        let (rank, ranks) = (rank as i32, RANKS as i32);
        let (next, previous) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        let mut nodes: Vec<Node> = (0..3)
            .flat_map(|at| {
                [
                    Node::send(at, format!("early {at}"), rank, next, 64, 1),
                    Node::receive(10 + at, format!("early {at}"), previous, rank, 64, 1).after(&[20]),
                ]
            })
            .collect();
        nodes.push(Node::receive(20, "token", previous, rank, 64, 2));
        nodes.push(Node::send(21, "token", rank, next, 64, 2).after(&[20]));
        nodes
    });
    assert!(message.ends_with(": 12 of 12 ranks wait forever"), "{message}");
    let wait = |rank: u32| {
        let previous = (rank + RANKS - 1) % RANKS;
        format!(
            "rank {rank}: `token` waits for a message from rank {previous} (tag 2), to be sent by `token`"
        )
    };
    assert_eq!(notes[..8], (0..8).map(wait).collect::<Vec<_>>());
    assert_eq!(notes[8], "and 4 more waits");
    let sent = |to: u32| {
        let rank = (to + RANKS - 1) % RANKS;
        format!(
            "rank {rank}: `early 0` or one of 2 others has sent 3 messages to rank {to} (tag 1), which has not received \
             them yet"
        )
    };
    assert_eq!(notes[9..13], (0..4).map(sent).collect::<Vec<_>>());
    assert_eq!(notes[13..], ["and 8 more messages that have not been received"]);
}
