//! Compares simulated times with closed forms, worked out by hand.

use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};

fn scenario(json: &str) -> Scenario {
    serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {json}"))
}

fn simulate(json: &str) -> Run {
    run(&scenario(json), Control::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// One collective over dimensions, with the given settings of collectives. Total time in picoseconds.
fn collective(kind: &str, bytes: &str, dims: &str, collectives: &str, network: &str) -> u64 {
    let run = simulate(&format!(
        r#"{{"schema": "syncline/1",
            "workload": {{"source": "collectives", "collectives": [{{"kind": "{kind}", "bytes": "{bytes}"}}]}},
            "fabric": {{"dims": [{dims}]}},
            "collectives": {collectives},
            "network": {{"model": "{network}"}}}}"#
    ));
    (run.timeline.summary.total_time_s * 1e12).round() as u64
}

const RING8: &str = r#"{"name": "d", "shape": "ring", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;
const SWITCH8: &str = r#"{"name": "d", "shape": "switch", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;
const FC8: &str =
    r#"{"name": "d", "shape": "fully_connected", "size": 8, "rate": "50GB/s", "latency": "500ns"}"#;

/// Time of `bytes` at 50 GB/s.
const fn at_50(bytes: u64) -> u64 {
    bytes * 20
}
const NS: u64 = 1_000;

#[test]
fn ring_all_reduce_is_two_passes_around() {
    for network in ["analytical", "queued", "flow"] {
        let chunk = at_50(1_000_000) + 500 * NS + 10 * NS;
        let one = r#"{"chunks": 1, "endpoint_delay": "10ns"}"#;
        assert_eq!(collective("all_reduce", "8MB", RING8, one, network), 14 * chunk);
        assert_eq!(collective("reduce_scatter", "8MB", RING8, one, network), 7 * chunk);
        assert_eq!(collective("all_gather", "8MB", RING8, one, network), 7 * chunk);
    }
}

#[test]
fn two_chunks_use_both_ways_round() {
    let both = r#"{"chunks": 2, "endpoint_delay": "10ns"}"#;
    let step = at_50(500_000) + 510 * NS;
    assert_eq!(collective("all_reduce", "8MB", RING8, both, "analytical"), 14 * step);
}

#[test]
fn direct_on_full_connection_takes_two_rounds() {
    for network in ["analytical", "queued", "flow"] {
        let round = at_50(1_000_000) + 500 * NS;
        assert_eq!(collective("all_reduce", "8MB", FC8, r#"{"chunks": 1}"#, network), 2 * round);
    }
}

#[test]
fn no_run_is_quicker_than_the_network_interface() {
    // Direct all-reduce on a switch: 7 messages leave by one port. ASTRA-sim without congestion says 2 hops + 1
    // message.
    let direct = r#"{"chunks": 1, "algorithms": {"default": {"all_reduce": "direct", "reduce_scatter": "direct", "all_gather": "direct"}}}"#;
    let analytical = collective("all_reduce", "8MB", SWITCH8, direct, "analytical");
    assert_eq!(analytical, 2 * (7 * at_50(1_000_000) + 1_000 * NS));
    let queued = collective("all_reduce", "8MB", SWITCH8, direct, "queued");
    assert_eq!(queued, 2 * (8 * at_50(1_000_000) + 1_000 * NS));
}

#[test]
fn a_pair_that_chooses_its_switch_may_share_a_link() {
    // Every NPU sends 1 MB to every other. With `lane`, the seven messages of an NPU take the seven switches. With
    // `pair`, the messages of each of NPUs 1 to 6 to NPUs 0 and 7 take the same switch (dlrm2020 III-C.2: (0 + s) mod 7
    // = (7 + s) mod 7), and so do the messages in the other direction.
    let switches = |spread: &str| {
        let dim =
            r#"{"name": "d", "shape": "switch", "size": 8, "count": 7, "rate": "50GB/s", "latency": "500ns""#;
        format!(r#"{dim}, "spread": "{spread}"}}"#)
    };
    let direct = r#"{"chunks": 1, "algorithms": {"d": {"all_to_all": "direct"}}}"#;
    for (network, spread, transfers) in
        [("analytical", "lane", 1), ("analytical", "pair", 2), ("queued", "lane", 2), ("queued", "pair", 3)]
    {
        let time = collective("all_to_all", "8MB", &switches(spread), direct, network);
        assert_eq!(time, transfers * at_50(1_000_000) + 1_000 * NS, "{network} {spread}");
    }
}

#[test]
fn halving_doubling_on_a_switch_halves_its_messages() {
    // Rounds of 4, 2 and 1 MB, there and back; two hops of latency each.
    let bytes = 2 * 7 * 1_000_000;
    let expected = at_50(bytes) + 6 * 1_000 * NS;
    let settings = r#"{"chunks": 1, "algorithms": {"default": {"all_reduce": "halving_doubling"}}}"#;
    assert_eq!(collective("all_reduce", "8MB", SWITCH8, settings, "analytical"), expected);
}

#[test]
fn reduction_and_injection_add_their_time() {
    let one = r#"{"chunks": 1, "reduction_rate": "100GB/s", "injection_latency": "1us",
        "algorithms": {"default": {"all_reduce": "ring"}}}"#;
    let step = at_50(1_000_000) + 500 * NS + 2_000 * NS;
    let reduce = 1_000_000 * 10;
    assert_eq!(collective("all_reduce", "8MB", RING8, one, "analytical"), 14 * step + 7 * reduce);
}

#[test]
fn phases_shrink_with_the_composition() {
    let dims = r#"{"name": "local", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"},
                  {"name": "rack", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"}"#;
    let time = |composition: &str| {
        collective(
            "all_reduce",
            "16MB",
            dims,
            &format!(r#"{{"chunks": 1, "all_reduce": "{composition}"}}"#),
            "analytical",
        )
    };
    assert_eq!(time("baseline"), at_50(2 * 6 * 4_000_000));
    assert_eq!(time("enhanced"), at_50(6 * 4_000_000 + 6 * 1_000_000));
    assert_eq!(time("hierarchical_2n"), at_50(6 * 4_000_000 + 6 * 1_000_000));
}

#[test]
fn chunks_overlap_phases_of_different_dimensions() {
    let dims = r#"{"name": "local", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"},
                  {"name": "rack", "shape": "ring", "size": 4, "rate": "50GB/s", "direction": "one-way"}"#;
    let time = |chunks: u32| {
        let collectives = format!(r#"{{"chunks": {chunks}, "all_reduce": "baseline", "active_chunks": 1}}"#);
        collective("all_reduce", "16MB", dims, &collectives, "analytical")
    };
    // With k chunks: k + 1 chunk times in a pipeline of two stages.
    let whole = at_50(6 * 4_000_000);
    for chunks in [1, 2, 4, 8] {
        assert_eq!(time(chunks), whole / u64::from(chunks) * u64::from(chunks + 1));
    }
}

const LAYERS: &str = r#"[
    {"name": "a", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000},
    {"name": "b", "forward": {"time": "10us"}, "input_grad": {"time": "10us"}, "weight_grad": {"time": "10us"}, "parameters": 2000000}]"#;

fn training(parallel: &str, iterations: u32) -> Run {
    simulate(&format!(
        r#"{{"schema": "syncline/1",
            "workload": {{"source": "layers", "layers": {LAYERS}, "parallel": {parallel}, "iterations": {iterations}}},
            "fabric": {{"dims": [{RING8}]}},
            "collectives": {{"chunks": 1}}}}"#
    ))
}

#[test]
fn data_parallel_training_exposes_what_the_dependencies_say() {
    // Compute per iteration: 2 forward, 2 weight and 1 input gradient. The all-reduces of 8 MB run on one ring way,
    // one after the other or side by side; the last iteration ends with the last of them.
    let one = training(r#"{"data": "all"}"#, 1).timeline;
    let all_reduce = (14 * (at_50(1_000_000) + 500 * NS)) as f64 / 1e12;
    let summary = &one.summary;
    assert!((summary.compute_s - 50e-6).abs() < 1e-12);
    // b's all-reduce starts at 30 us and a's at 50 us, in the other direction: a's ends last.
    assert!((summary.total_time_s - (50e-6 + all_reduce)).abs() < 1e-9, "{}", summary.total_time_s);
    assert!((summary.exposed_communication_s - all_reduce).abs() < 1e-9);
    assert!((summary.compute_s + summary.exposed_communication_s - summary.total_time_s).abs() < 1e-12);
    let two = training(r#"{"data": "all"}"#, 2).timeline.summary;
    assert!((two.total_time_s - 2.0 * summary.total_time_s).abs() < 20e-6);
    assert!((two.step_time_s - two.total_time_s / 2.0).abs() < 1e-15);
}

#[test]
fn accounting_adds_up_for_every_rank() {
    for parallel in
        [r#"{"data": "all"}"#, r#"{"tensor": "all", "data": "none"}"#, r#"{"tensor": {"degree": 2}}"#]
    {
        let run = training(parallel, 3);
        let table = run.timeline.table("ranks").unwrap();
        let column = |name: &str| match &table.column(name).unwrap().data {
            syncline_timeline::Data::Float(values) => values.clone(),
            other => panic!("{other:?}"),
        };
        let (finish, compute, exposed) =
            (column("finish_s"), column("compute_s"), column("exposed_communication_s"));
        for rank in 0..8 {
            assert!((compute[rank] + exposed[rank] - finish[rank]).abs() < 1e-12, "{parallel} rank {rank}");
        }
    }
}

/// Total time in picoseconds of one all-reduce of 16 MB in one chunk, with the rest of the scenario given.
fn all_reduce_on(rest: &str) -> u64 {
    let run = simulate(&format!(
        r#"{{"schema": "syncline/1", {rest},
            "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "16MB"}}]}}}}"#
    ));
    (run.timeline.summary.total_time_s * 1e12).round() as u64
}

#[test]
fn a_logical_topology_runs_on_another_fabric() {
    // A logical 4 x 4 on a ring of 16, one way: neighbours on axis 0 are one link apart, but for the step from the
    // last to the first, which takes 13; neighbours on axis 1 are 4 links apart.
    let fabric = r#""fabric": {"dims": [{"name": "d", "shape": "ring", "size": 16, "rate": "50GB/s", "latency": "500ns", "direction": "one-way"}]}"#;
    let logical = r#""collectives": {"chunks": 1, "logical": [4, 4], "all_reduce": "baseline"}"#;
    let analytical = all_reduce_on(&format!("{fabric}, {logical}"));
    assert_eq!(analytical, logical_rings(false));
    let queued = all_reduce_on(&format!(r#"{fabric}, {logical}, "network": {{"model": "queued"}}"#));
    assert_eq!(queued, logical_rings(true));
}

/// The time of that all-reduce, computed message by message. Links are FIFOs, each of which a message of 4 MB occupies
/// for 80 us: all links of its path one after the other if they store messages (`store`), otherwise only the first and
/// the last.
fn logical_rings(store: bool) -> u64 {
    const STEPS: usize = 6;
    const WOKEN: usize = usize::MAX;
    let (sending, latency) = (at_50(4_000_000), 500 * NS);
    let stride = |phase: usize| if phase == 0 { 1 } else { 4 };
    let next = |phase: usize, rank: usize| {
        let (stride, here) = (stride(phase), rank / stride(phase) % 4);
        rank - here * stride + (here + 1) % 4 * stride
    };
    // By rank: its phase, and how many messages of each phase it has sent and has received.
    let mut ranks = [(0, [0; 2], [0; 2]); 16];
    let (mut free, mut left) = ([0u64; 16], [0u64; 16]);
    // Messages at a link: time, phase, receiver, link, number of links already passed (`WOKEN` for a rank that goes
    // on).
    let mut events = std::collections::BTreeSet::new();
    let (mut now, mut ready): (u64, Vec<usize>) = (0, (0..16).collect());
    loop {
        for rank in std::mem::take(&mut ready) {
            let (phase, sent, received) = &mut ranks[rank];
            while *phase < 2 {
                // A step sends the data that the previous step received.
                while sent[*phase] < STEPS && sent[*phase] <= received[*phase] {
                    events.insert((now, *phase, next(*phase, rank), rank, 0));
                    sent[*phase] += 1;
                }
                if received[*phase] < STEPS {
                    break;
                }
                // A phase ends when the last message has left.
                if left[rank] > now {
                    events.insert((left[rank], *phase, rank, rank, WOKEN));
                    break;
                }
                *phase += 1;
            }
        }
        let Some((at, phase, to, link, behind)) = events.pop_first() else { return now };
        now = at;
        if link == to {
            ranks[to].2[phase] += usize::from(behind != WOKEN);
            ready.push(to);
            continue;
        }
        let links = (to + 16 - link) % 16 + behind;
        let begin = free[link].max(now);
        let through = if store { begin + sending } else { begin };
        free[link] = begin + sending;
        if behind == 0 {
            left[link] = begin + sending;
        }
        // Cut through: the head continues to the last link, where the whole message must arrive.
        let (hops, at) = match links - behind {
            1 => (1, begin + sending + latency),
            _ if store => (1, through + latency),
            all => (all - 1, through + (all as u64 - 1) * latency),
        };
        events.insert((at, phase, to, (link + hops) % 16, behind + hops));
    }
}

#[test]
fn a_placement_changes_the_distance_and_not_the_answer_of_a_symmetric_fabric() {
    let on = |shape: &str, placement: &str| {
        all_reduce_on(&format!(
            r#""fabric": {{"dims": [{{"name": "d", "shape": "{shape}", "size": 4, "rate": "50GB/s", "latency": "500ns"}}]}},
               "collectives": {{"chunks": 1, "algorithms": {{"default": {{"all_reduce": "ring"}}}}}},
               "network": {{"model": "queued"}}, "placement": {placement}"#
        ))
    };
    let shuffled = r#"{"npus": [0, 2, 1, 3]}"#;
    assert_eq!(on("switch", "\"linear\""), on("switch", shuffled));
    // On a ring, 0 and 2 are two links apart.
    assert!(on("ring", shuffled) > on("ring", "\"linear\""));
}

#[test]
fn a_graph_is_a_fabric_like_any_other() {
    // Four NPUs behind one switch, as in a switch dimension.
    let mut links = String::new();
    for npu in 0..4 {
        let sep = if npu == 0 { "" } else { "," };
        links += &format!(
            r#"{sep}{{"from": {npu}, "to": 4, "rate": "50GB/s", "latency": "500ns"}},
               {{"from": 4, "to": {npu}, "rate": "50GB/s", "latency": "500ns"}}"#
        );
    }
    let ring = r#""collectives": {"chunks": 1, "algorithms": {"default": {"reduce_scatter": "ring", "all_gather": "ring"}}}"#;
    let dims = r#""fabric": {"dims": [{"name": "d", "shape": "switch", "size": 4, "rate": "50GB/s", "latency": "500ns"}]}"#;
    for network in ["analytical", "queued"] {
        let graph = all_reduce_on(&format!(
            r#""fabric": {{"graph": {{"npus": 4, "switches": 1, "links": [{links}]}}}}, {ring}, "network": {{"model": "{network}"}}"#
        ));
        assert_eq!(graph, all_reduce_on(&format!(r#"{dims}, {ring}, "network": {{"model": "{network}"}}"#)));
    }
}

#[test]
fn impossible_scenarios_are_refused_with_a_key() {
    let refused = |json: &str| run(&scenario(json), Control::default()).map(|_| ()).unwrap_err().to_string();
    let workload =
        r#""workload": {"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1MB"}]}"#;
    let ring = r#""fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "1GB/s"}]}"#;
    for (rest, expected) in [
        (r#""fabric": {"dims": []}"#, "needs a dimension"),
        (
            r#""fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "0GB/s"}]}"#,
            "`fabric.dims.0.rate`",
        ),
        (r#""fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4}]}"#, "neither `rate` nor"),
        (
            r#""fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "1GB/s", "rate_per_npu": "1GB/s"}]}"#,
            "both `rate` and",
        ),
        (
            r#""fabric": {"dims": [{"name": "d", "shape": "ring", "size": 0, "rate": "1GB/s"}]}"#,
            "at least one NPU",
        ),
        (
            r#""fabric": {"graph": {"npus": 2, "links": [{"from": 0, "to": 1, "rate": "1GB/s"}]}}"#,
            "no path leads",
        ),
    ] {
        let text = refused(&format!(r#"{{"schema": "syncline/1", {workload}, {rest}}}"#));
        assert!(text.contains(expected), "{text}");
    }
    for (rest, expected) in [
        (r#""placement": {"npus": [0, 0, 1, 2]}"#, "given to two ranks"),
        (r#""placement": {"npus": [0, 1, 2, 9]}"#, "does not exist"),
        (r#""collectives": {"logical": [3]}"#, "logical topology"),
        (r#""collectives": {"algorithms": {"d": {"all_reduce": "rign"}}}"#, "did you mean `ring`"),
        (r#""collectives": {"algorithms": {"e": {"all_reduce": "ring"}}}"#, "no such dimension"),
        (r#""collectives": {"chunks": 0}"#, "at least 1"),
        (r#""collectives": {"plans": {"all_reduce": "nowhere.json"}}"#, "cannot be read"),
        (r#""trace": {"ranks": [4], "max_spans": 1}"#, "traced rank"),
    ] {
        let text = refused(&format!(r#"{{"schema": "syncline/1", {workload}, {ring}, {rest}}}"#));
        assert!(text.contains(expected), "{text}");
    }
    let bcube = refused(&format!(
        r#"{{"schema": "syncline/1", {workload}, {ring}, "collectives": {{"all_reduce": "baseline", "algorithms": {{"d": {{"all_reduce": "bcube(base=3)"}}}}}}}}"#
    ));
    assert!(bcube.contains("SL0401"), "{bcube}");
    let given = refused(
        r#"{"schema": "syncline/1", "fabric": {"dims": [{"name": "d", "shape": "ring", "size": 4, "rate": "1GB/s"}]},
            "workload": {"source": "layers", "layers": [{"name": "a", "forward": {"ops": {"flop": "1GFLOP", "memory": "1MB"}}}]}}"#,
    );
    assert!(given.contains("compute model"), "{given}");
}

#[test]
fn the_bound_holds_for_any_number_of_chunks() {
    // 14 MB through two links of 50 GB/s, and a latency of 0.5 us; as a single chunk, 14 messages one after another
    // over one.
    for (chunks, expected) in [(1, 287e-6), (64, 140.5e-6), (1_000_000_000, 140.5e-6)] {
        let run = simulate(&format!(
            r#"{{"schema": "syncline/1", "fabric": {{"dims": [{RING8}]}},
                "collectives": {{"chunks": {chunks}, "algorithms": {{"default": {{"all_reduce": "ring"}}}}}},
                "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "8MB"}}]}}}}"#
        ));
        let bound = match &run.timeline.table("collectives").unwrap().column("bound_s").unwrap().data {
            syncline_timeline::Data::Float(values) => values[0],
            other => panic!("{other:?}"),
        };
        assert!(bound > expected - 1e-6 && bound <= expected, "{chunks}: {bound}");
    }
}

#[test]
fn a_placement_may_put_an_axis_on_faster_links() {
    let job = |placement: &str| {
        simulate(&format!(
            r#"{{"schema": "syncline/1", {placement} "fabric": {{"dims": [
                {{"name": "slow", "shape": "switch", "size": 4, "rate": "25GB/s", "latency": "500ns"}},
                {{"name": "fast", "shape": "switch", "size": 4, "rate": "400GB/s", "latency": "500ns"}}]}},
                "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "16MiB"}}]}}}}"#
        ))
        .timeline
        .summary
        .total_time_s
    };
    let turned = job(r#""placement": {"npus": [0,4,8,12,1,5,9,13,2,6,10,14,3,7,11,15]},"#);
    assert!(turned < job(""), "{turned}");
}
