//! Models as graphs of operators: the task graphs of all servers, run by a list scheduler, and what is refused.

use crate::support::scheduler::{Costs, FREE, run};
use syncline_diagnostics::Code;
use syncline_units::{Bytes, CollectiveKind, Rate, Time};
use syncline_workload::operators::tasks::{inside_server, workload};
use syncline_workload::operators::{
    Choice, Operator, OperatorFile, OperatorGraph, PieceMap, Placed, Reads, Server, Split, Strategy,
};
use syncline_workload::server_groups::group_name;
use syncline_workload::{Part, TaskKind, Work, Workload, matching};

const F: u64 = 10;
const B: u64 = 30;

fn choice(samples: u32, parameters: u32) -> Choice {
    let work = |time| Work::Time(Time(time));
    Choice { samples, parameters, forward: work(F), backward: work(B), memory: Bytes(100) }
}

fn operator(name: &str, inputs: &[u32], choices: &[(u32, u32)]) -> Operator {
    Operator {
        name: name.to_owned(),
        kind: String::new(),
        inputs: inputs.to_vec(),
        output: Bytes(6),
        parameters: Bytes(0),
        copied: true,
        reads: Reads::All,
        choices: choices.iter().map(|&(samples, parameters)| choice(samples, parameters)).collect(),
    }
}

fn model(operators: Vec<Operator>) -> OperatorGraph {
    OperatorGraph { model: "m".to_owned(), samples: 12, operators, server: Server::default() }
}

fn strategy(placed: &[(u32, &[u32])]) -> Strategy {
    let one = |&(choice, servers): &(u32, &[u32])| Placed { choice, servers: servers.to_vec() };
    Strategy { placed: placed.iter().map(one).collect() }
}

fn job(graph: &OperatorGraph, placed: &[(u32, &[u32])], servers: u32, iterations: u32) -> Workload {
    let strategy = strategy(placed);
    graph.check(servers).unwrap();
    strategy.check(graph, servers).unwrap();
    let workload = workload(graph, &strategy, servers, iterations).unwrap();
    assert!(matching::check(&workload).0.is_empty());
    workload
}

/// Bytes that servers send, by sender, receiver and whether it is forward.
fn sent(workload: &Workload) -> Vec<(u32, u32, bool, u64)> {
    let mut found = Vec::new();
    for rank in 0..workload.ranks {
        for task in &workload.classes[workload.class_of(rank) as usize].tasks {
            if let TaskKind::Send { to, bytes, .. } = task.kind {
                found.push((rank, to.of_checked(rank).0, task.part == Part::Forward, bytes.0));
            }
        }
    }
    found
}

const MESSAGE: Costs = Costs { message: |bytes| bytes, collective: |_, bytes| bytes };

#[test]
fn a_chain_over_servers_takes_its_work_and_its_messages() {
    let graph = model(vec![
        operator("a", &[], &[(1, 1)]),
        operator("b", &[0], &[(1, 1)]),
        operator("c", &[1], &[(1, 1)]),
    ]);
    // 12 samples of 6 bytes from one server to the next, and their gradients back.
    for (places, hops) in [([0, 1, 2], 4), ([0, 0, 1], 2), ([1, 0, 1], 4), ([2, 2, 2], 0)] {
        let placed = places.map(|server| [server]);
        let placed: Vec<(u32, &[u32])> = placed.iter().map(|server| (0, &server[..])).collect();
        let workload = job(&graph, &placed, 3, 1);
        assert_eq!(run(&workload, MESSAGE).end, 3 * (F + B) + hops * 72, "{places:?}");
        let names: Vec<&str> = workload.layers.iter().map(String::as_str).collect();
        assert_eq!((workload.name.as_str(), names), ("m", vec!["a", "b", "c"]));
        // Two steps follow each other if one server has all.
        let twice = job(&graph, &placed, 3, 2);
        if hops == 0 {
            assert_eq!(run(&twice, MESSAGE).end, 2 * 3 * (F + B));
        }
    }
}

#[test]
fn branches_on_different_servers_run_at_once() {
    // a to b and c, both to d.
    let graph = model(vec![
        operator("a", &[], &[(1, 1)]),
        operator("b", &[0], &[(1, 1)]),
        operator("c", &[0], &[(1, 1)]),
        operator("d", &[1, 2], &[(1, 1)]),
    ]);
    let apart = job(&graph, &[(0, &[0]), (0, &[1]), (0, &[2]), (0, &[3])], 4, 1);
    assert_eq!(run(&apart, FREE).end, 3 * (F + B));
    assert_eq!(run(&apart, MESSAGE).end, 3 * (F + B) + 4 * 72);
    let together = job(&graph, &[(0, &[0]), (0, &[1]), (0, &[1]), (0, &[3])], 4, 1);
    assert_eq!(run(&together, FREE).end, 4 * (F + B));
    let order = run(&together, FREE).order(1);
    assert_eq!(order, ["b forward", "c forward", "c weight grad", "b weight grad"]);
    let mut crossings = sent(&apart);
    crossings.sort_unstable();
    let expected = [
        (0, 1, true, 72),
        (0, 2, true, 72),
        (1, 0, false, 72),
        (1, 3, true, 72),
        (2, 0, false, 72),
        (2, 3, true, 72),
        (3, 1, false, 72),
        (3, 2, false, 72),
    ];
    assert_eq!(crossings, expected);
}

#[test]
fn an_input_that_is_read_twice_is_sent_twice() {
    let graph = model(vec![operator("a", &[], &[(1, 1)]), operator("b", &[0, 0], &[(1, 1)])]);
    let workload = job(&graph, &[(0, &[0]), (0, &[1])], 2, 1);
    assert_eq!(sent(&workload), [(0, 1, true, 72), (0, 1, true, 72), (1, 0, false, 72), (1, 0, false, 72)]);
}

#[test]
fn parts_send_what_others_read_of_them() {
    // Two halves of the samples to three thirds: sixths of 72 bytes.
    let graph = model(vec![operator("a", &[], &[(2, 1)]), operator("b", &[0], &[(3, 1)])]);
    let workload = job(&graph, &[(0, &[0, 1]), (0, &[2, 3, 4])], 5, 1);
    let forward: Vec<_> =
        sent(&workload).into_iter().filter(|each| each.2).map(|each| (each.0, each.1, each.3)).collect();
    assert_eq!(forward, [(0, 2, 24), (0, 3, 12), (1, 3, 12), (1, 4, 24)]);
    // Divided features: a dense operator reads all, an element-wise one its own.
    let mut graph = model(vec![operator("a", &[], &[(1, 2)]), operator("b", &[0], &[(1, 2)])]);
    let all = |graph: &OperatorGraph| {
        let workload = job(graph, &[(0, &[0, 1]), (0, &[2, 3])], 4, 1);
        let forward = sent(&workload).into_iter().filter(|each| each.2);
        forward.map(|each| (each.0, each.1, each.3)).collect::<Vec<_>>()
    };
    assert_eq!(all(&graph), [(0, 2, 36), (0, 3, 36), (1, 2, 36), (1, 3, 36)]);
    graph.operators[1].reads = Reads::Own;
    assert_eq!(all(&graph), [(0, 2, 36), (1, 3, 36)]);
    // Where reader and source are on one server, nothing is sent, but the order is kept.
    let workload = job(&graph, &[(0, &[0, 1]), (0, &[1, 0])], 2, 1);
    assert_eq!(sent(&workload).len(), 4);
    let workload = job(&graph, &[(0, &[0, 1]), (0, &[0, 1])], 2, 1);
    assert_eq!(sent(&workload), []);
    assert_eq!(run(&workload, MESSAGE).end, 2 * (F + B));
}

#[test]
fn sizes_are_rounded_up_to_bytes() {
    // 5 samples of 7 bytes: all of it to one reader, in thirds that are not even.
    let split = |samples, parameters| Split { samples, parameters };
    let bytes = |source, reader, reads| -> Vec<u64> {
        PieceMap::new(source, reader, reads).pieces(Bytes(7), 5).map(|piece| piece.bytes).collect()
    };
    assert_eq!(bytes(split(1, 1), split(1, 1), Reads::All), [35]);
    assert_eq!(bytes(split(1, 1), split(1, 4), Reads::Own), [9; 4]);
    assert_eq!(bytes(split(2, 1), split(3, 1), Reads::All), [12, 6, 6, 12]);
    assert_eq!([split(1, 3).parameters_of(Bytes(10)), split(5, 1).parameters_of(Bytes(10))], [4, 10]);
    let alike = |source, reader, reads| PieceMap::new(source, reader, reads).is_one_to_one();
    assert!(alike(split(4, 1), split(4, 1), Reads::All) && alike(split(2, 3), split(2, 3), Reads::Own));
    assert!(!alike(split(2, 3), split(2, 3), Reads::All) && !alike(split(1, 1), split(2, 1), Reads::All));
    assert!(!alike(split(2, 1), split(1, 1), Reads::All) && !alike(split(1, 2), split(2, 1), Reads::All));
}

/// An operator of 1,000 bytes of parameters, in `samples x parameters` parts.
fn reduced(samples: u32, parameters: u32) -> OperatorGraph {
    let mut graph = model(vec![operator("a", &[], &[(samples, parameters)]), operator("b", &[0], &[(1, 1)])]);
    graph.operators[0].parameters = Bytes(1_000);
    graph
}

/// Collectives of a server: members, bytes.
fn reductions(workload: &Workload, rank: u32) -> Vec<(Vec<u32>, u64)> {
    let tasks = &workload.classes[rank as usize].tasks;
    let one = |kind: &TaskKind| match *kind {
        TaskKind::Collective { role, kind, bytes, .. } => {
            assert_eq!(kind, CollectiveKind::AllReduce);
            Some((workload.roles[role.index()].ranks(0), bytes.0))
        }
        _ => None,
    };
    tasks.iter().filter_map(|task| one(&task.kind)).collect()
}

#[test]
fn servers_with_the_same_parameters_sum_their_gradients() {
    // Parts i x j on servers 4 3 / 2 1 / 0 5: the slices are those of columns.
    let graph = reduced(3, 2);
    let placed: [(u32, &[u32]); 2] = [(0, &[4, 3, 2, 1, 0, 5]), (0, &[6])];
    let workload = job(&graph, &placed, 7, 1);
    for rank in 0..7 {
        let expected = match rank {
            0 | 2 | 4 => vec![(vec![0, 2, 4], 500)],
            6 => vec![],
            _ => vec![(vec![1, 3, 5], 500)],
        };
        assert_eq!(reductions(&workload, rank), expected, "server {rank}");
    }
    assert_eq!(
        workload.roles.iter().map(|role| role.name.clone()).collect::<Vec<_>>(),
        [0, 1].map(group_name)
    );
    assert_eq!(group_name(3), "servers 3");
    let sums = strategy(&placed).reductions(&graph);
    assert_eq!(sums.into_iter().collect::<Vec<_>>(), [(vec![0, 2, 4], 500), (vec![1, 3, 5], 500)]);
    assert_eq!(strategy(&placed).groups(&graph, 0), [[4, 2, 0], [3, 1, 5]]);
    // A part of parameters that one server has alone is not summed; nor is nothing.
    let alone: [(u32, &[u32]); 2] = [(0, &[0, 1]), (0, &[2])];
    assert_eq!(reductions(&job(&reduced(1, 2), &alone, 3, 1), 0), []);
    assert!(strategy(&alone).reductions(&reduced(1, 2)).is_empty());
    let mut none = reduced(2, 1);
    none.operators[0].parameters = Bytes(0);
    assert!(job(&none, &alone, 3, 1).roles.is_empty() && strategy(&alone).reductions(&none).is_empty());
}

#[test]
fn operators_on_the_same_servers_share_a_group() {
    let mut graph = model(vec![operator("a", &[], &[(2, 1)]), operator("b", &[0], &[(2, 1)])]);
    (graph.operators[0].parameters, graph.operators[1].parameters) = (Bytes(100), Bytes(20));
    let placed: [(u32, &[u32]); 2] = [(0, &[0, 1]), (0, &[1, 0])];
    let workload = job(&graph, &placed, 2, 1);
    assert_eq!(workload.roles.len(), 1);
    assert_eq!(reductions(&workload, 0), [(vec![0, 1], 20), (vec![0, 1], 100)]);
    assert_eq!(strategy(&placed).reductions(&graph).into_iter().collect::<Vec<_>>(), [(vec![0, 1], 120)]);
}

#[test]
fn the_next_step_waits_for_the_sums_and_this_one_does_not() {
    let mut graph = model(vec![operator("a", &[], &[(2, 1)]), operator("b", &[0], &[(2, 1)])]);
    (graph.operators[0].parameters, graph.operators[1].parameters) = (Bytes(1_000), Bytes(500));
    let placed: [(u32, &[u32]); 2] = [(0, &[0, 1]), (0, &[0, 1])];
    let step = 2 * (F + B);
    assert_eq!(run(&job(&graph, &placed, 2, 1), MESSAGE).end, step + 1_000);
    // b's sum began a backward pass of a earlier.
    let workload = job(&graph, &placed, 2, 2);
    let twice = run(&workload, MESSAGE);
    assert_eq!(twice.end, 2 * (step + 1_000));
    assert_eq!(twice.exchanged(0, "b", Part::Update, "all_reduce")[0].0, 2 * F + B);
    graph.operators[0].parameters = Bytes(0);
    // Only b waits in the next step: until 2 F + B + 500.
    let workload = job(&graph, &placed, 2, 2);
    let forward = run(&workload, MESSAGE).computed(0, "b", Part::Forward);
    assert_eq!(forward[1].0, 2 * F + B + 500);
}

#[test]
fn accelerators_of_a_server_sum_first() {
    let mut graph = reduced(2, 1);
    graph.server =
        Server { accelerators: 4, rate: Some(Rate::from_bytes_per_s(1_000_000_000_000)), memory: None };
    let placed: [(u32, &[u32]); 2] = [(0, &[0, 1]), (0, &[0])];
    // 2/4 of 1,000 bytes at one byte a picosecond.
    assert_eq!(inside_server(&graph, 0, 1_000).unwrap(), Time(500));
    assert_eq!(inside_server(&graph, 0, 1_001).unwrap(), Time(501));
    let workload = job(&graph, &placed, 2, 1);
    let run_of = run(&workload, MESSAGE);
    let backward = run_of.computed(1, "a", Part::WeightGrad)[0].1;
    assert_eq!(run_of.exchanged(1, "a", Part::Update, "all_reduce"), [(backward + 500, backward + 1_500)]);
    assert_eq!(run_of.end, backward + 1_500);
    // One copy in a server, or one accelerator, has nothing to sum.
    graph.operators[0].copied = false;
    assert_eq!(inside_server(&graph, 0, 1_000).unwrap(), Time::ZERO);
    graph.operators[0].copied = true;
    graph.server.accelerators = 2;
    assert_eq!(inside_server(&graph, 0, 1_000).unwrap(), Time(1_000));
    graph.server.accelerators = 1;
    assert_eq!(inside_server(&graph, 0, 1_000).unwrap(), Time::ZERO);
    // A time beyond all numbers.
    graph.server = Server { accelerators: 2, rate: Some(Rate(1)), memory: None };
    let error = inside_server(&graph, 0, u64::MAX).unwrap_err();
    assert_eq!((error.0[0].code, error.0[0].key.as_deref()), (Code::Overflow, Some("server.rate")));
}

#[test]
fn as_many_groups_as_can_be_numbered_sum_gradients() {
    // Each pair of 258 servers is a group: a tournament of 257 rounds of 129 pairs. 32,768 groups are allowed.
    const SERVERS: u32 = 258;
    let round = |number: u32, pairs: u32| -> Vec<u32> {
        let turn = |at: u32| (number + at) % (SERVERS - 1);
        let pair = |at: u32| if at == 0 { (SERVERS - 1, number) } else { (turn(at), turn(SERVERS - 1 - at)) };
        let pairs: Vec<(u32, u32)> = (0..pairs).map(pair).collect();
        pairs.iter().map(|pair| pair.0).chain(pairs.iter().map(|pair| pair.1)).collect()
    };
    let groups = |last: u32| {
        let rounds: Vec<Vec<u32>> =
            (0..254).map(|number| round(number, 129)).chain([round(254, last)]).collect();
        let of = |(number, servers): (usize, &Vec<u32>)| Operator {
            parameters: Bytes(1_000),
            ..operator(&format!("o{number}"), &[], &[(2, servers.len() as u32 / 2)])
        };
        let graph = model(rounds.iter().enumerate().map(of).collect());
        let placed: Vec<(u32, &[u32])> = rounds.iter().map(|servers| (0, &servers[..])).collect();
        graph.check(SERVERS).unwrap();
        strategy(&placed).check(&graph, SERVERS).unwrap();
        workload(&graph, &strategy(&placed), SERVERS, 1).map(|workload| workload.roles.len())
    };
    assert_eq!(groups(2).unwrap(), 32_768);
    let error = groups(3).unwrap_err();
    assert_eq!(error.0[0].message, "too many different groups reduce gradients");
    assert_eq!(
        (error.0[0].found.as_deref(), error.0[0].allowed.as_deref()),
        (Some("32769"), Some("at most 32768"))
    );
}

fn keys(graph: &OperatorGraph, servers: u32) -> Vec<String> {
    graph
        .check(servers)
        .err()
        .map_or(Vec::new(), |errors| errors.0.into_iter().map(|error| error.key.unwrap()).collect())
}

#[test]
fn graphs_are_checked_by_key() {
    let good = || model(vec![operator("a", &[], &[(1, 1), (2, 3)]), operator("b", &[0], &[(12, 1)])]);
    assert_eq!(keys(&good(), 12), [] as [&str; 0]);
    let with = |change: fn(&mut OperatorGraph)| {
        let mut graph = good();
        change(&mut graph);
        keys(&graph, 12)
    };
    assert_eq!(with(|graph| graph.operators.clear()), ["operators"]);
    assert_eq!(with(|graph| graph.server.accelerators = 0), ["server.accelerators"]);
    assert_eq!(with(|graph| graph.server.accelerators = 2), ["server.rate"]);
    assert_eq!(
        with(|graph| graph.server = Server { accelerators: 2, rate: Some(Rate(0)), memory: None }),
        ["server.rate"]
    );
    assert_eq!(
        with(|graph| graph.server = Server { accelerators: 2, rate: Some(Rate(1)), memory: None }),
        [] as [&str; 0]
    );
    assert_eq!(with(|graph| graph.server.rate = Some(Rate(0))), [] as [&str; 0]);
    assert_eq!(with(|graph| graph.operators[1].name = "a".to_owned()), ["operators.1.name"]);
    assert_eq!(with(|graph| graph.operators[1].inputs = vec![1]), ["operators.1.inputs"]);
    assert_eq!(with(|graph| graph.operators[1].choices.clear()), ["operators.1.choices"]);
    for (samples, parameters) in [(0, 1), (1, 0), (13, 1), (12, 2), (5, 1), (5, 2)] {
        let mut graph = good();
        graph.operators[0].choices[1] = choice(samples, parameters);
        assert_eq!(keys(&graph, 12), ["operators.0.choices.1.samples"], "{samples} x {parameters}");
    }
    for (samples, parameters) in [(12, 1), (1, 12), (4, 3), (6, 2)] {
        let mut graph = good();
        graph.operators[0].choices[1] = choice(samples, parameters);
        assert_eq!(keys(&graph, 12), [] as [&str; 0], "{samples} x {parameters}");
    }
    let mut graph = good();
    graph.samples = 0;
    assert_eq!(keys(&graph, 12), ["samples"]);
    // What is allowed, in words.
    graph = good();
    (graph.operators[0].inputs, graph.operators[1].inputs) = (vec![0], vec![0, 2]);
    let errors = graph.check(12).unwrap_err().0;
    let said: Vec<_> =
        errors.iter().map(|error| (error.found.as_deref(), error.allowed.as_deref())).collect();
    assert_eq!(said, [(Some("0"), Some("none")), (Some("2"), Some("0 to 0"))]);
    graph = good();
    graph.operators[0].choices = vec![choice(7, 2), choice(5, 1)];
    let errors = graph.check(13).unwrap_err().0;
    assert_eq!(errors[0].found.as_deref(), Some("7 x 2 parts"));
    assert_eq!(errors[0].allowed.as_deref(), Some("1 to 13 parts"));
    assert_eq!(errors[1].found.as_deref(), Some("12 samples in 5 parts"));
}

#[test]
fn strategies_are_checked_by_key() {
    let graph = model(vec![operator("a", &[], &[(1, 1), (2, 3)]), operator("b", &[0], &[(2, 1)])]);
    let check =
        |placed: &[(u32, &[u32])]| strategy(placed).check(&graph, 6).map_err(|mut errors| errors.0.remove(0));
    assert!(check(&[(1, &[0, 1, 2, 3, 4, 5]), (0, &[5, 0])]).is_ok());
    let error = check(&[(0, &[0])]).unwrap_err();
    assert_eq!((error.key.as_deref(), error.found.as_deref()), (Some("strategy"), Some("1 operators")));
    assert_eq!(error.allowed.as_deref(), Some("2"));
    let error = check(&[(0, &[0]), (1, &[0, 1])]).unwrap_err();
    assert_eq!((error.key.as_deref(), error.allowed.as_deref()), (Some("strategy.1.choice"), Some("0 to 0")));
    for servers in [&[0][..], &[0, 1, 2], &[3, 3]] {
        let error = check(&[(0, &[0]), (0, servers)]).unwrap_err();
        assert_eq!(error.key.as_deref(), Some("strategy.1.servers"));
        assert_eq!(error.message, "each part of `b` needs a server of its own");
        let different = servers.len() - usize::from(servers == [3, 3]);
        assert_eq!(error.found, Some(format!("{different} different servers")));
    }
    let error = check(&[(0, &[6]), (0, &[0, 1])]).unwrap_err();
    assert_eq!(error.message, "`a` is on a server that does not exist");
    assert_eq!((error.found.as_deref(), error.allowed.as_deref()), (Some("6"), Some("0 to 5")));
}

#[test]
fn accelerators_have_the_memory_of_all_their_parts() {
    let mut graph = model(vec![
        operator("a", &[], &[(2, 1)]),
        operator("b", &[0], &[(1, 1)]),
        operator("c", &[1], &[(1, 1)]),
    ]);
    let placed = strategy(&[(0, &[2, 0]), (0, &[2]), (0, &[2])]);
    assert_eq!(placed.memory(&graph, 3), [Bytes(100), Bytes(0), Bytes(300)]);
    graph.server.memory = Some(Bytes(300));
    assert!(placed.check(&graph, 3).is_ok());
    graph.server.memory = Some(Bytes(299));
    let error = placed.check(&graph, 3).unwrap_err().0.remove(0);
    assert_eq!(error.code, Code::DoesNotFit);
    assert_eq!(error.found.as_deref(), Some("300B on an accelerator of server 2"));
    assert_eq!(error.allowed.as_deref(), Some("at most 299B"));
    graph.server.memory = None;
    assert!(placed.check(&graph, 3).is_ok());
    assert_eq!(placed.split(&graph, 0), Split { samples: 2, parameters: 1 });
}

#[test]
fn a_file_leaves_out_what_is_usual() {
    let text = r#"{
        "schema": "syncline-operators/1", "servers": 1,
        "graph": { "samples": 4, "operators": [{ "name": "a", "output": "10B", "choices": [{ "samples": 1 }] }] },
        "strategy": [{ "choice": 0, "servers": [0] }]
    }"#;
    let file = OperatorFile::read(text, "f").unwrap();
    let operator = &file.graph.operators[0];
    assert!(operator.copied && operator.reads == Reads::All && operator.inputs.is_empty());
    assert_eq!((operator.choices[0].parameters, operator.choices[0].parts()), (1, 1));
    assert_eq!((file.graph.server, operator.parameters), (Server::default(), Bytes(0)));
    let error = OperatorFile::read(&text.replace("operators/1", "operators/7"), "f").unwrap_err().0.remove(0);
    assert_eq!(
        (error.found.as_deref(), error.allowed.as_deref()),
        (Some("syncline-operators/7"), Some("syncline-operators/1"))
    );
    assert_eq!(error.notes, ["in f"]);
}
