//! What a faster part saves, and why compute was idle, compared with numbers worked out by hand for jobs of a few
//! tasks.
//!
//! Each prediction is also compared with a run in which the part is faster.

use serde_json::{Value, json};
use syncline_formats::chakra::{CollectiveType, Metadata, Node, write_file};
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};
use syncline_timeline::{PathKind, Summary};

fn simulate(value: &Value) -> Summary {
    let scenario: Scenario = serde_json::from_value(value.clone()).unwrap();
    run(&scenario, Control::default()).unwrap_or_else(|errors| panic!("{errors}")).timeline.summary
}

/// Microseconds, to the nanosecond.
fn us(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e3
}

/// A part that is made faster.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Faster {
    Nothing,
    Compute,
    Links,
    Latency,
}

/// Makes the nodes of a rank; the function that it gets converts a compute time to the time with the current speed.
type Nodes = dyn Fn(u32, &dyn Fn(u64) -> u64) -> Vec<Node>;

/// A trace on the NPUs of one switch, or on two NPUs with a link in each direction, at 1 GB/s: a kilobyte takes a
/// microsecond.
struct Job<'a> {
    ranks: u32,
    shape: &'a str,
    latency_us: u64,
    collectives: Value,
    nodes: &'a Nodes,
}

impl Job<'_> {
    fn run(&self, faster: Faster) -> Summary {
        let folder = tempfile::tempdir().unwrap();
        let compute = |time: u64| if faster == Faster::Compute { time / 2 } else { time };
        for rank in 0..self.ranks {
            let path = folder.path().join(format!("trace.{rank}.et"));
            write_file(&path, &Metadata::astra(), &(self.nodes)(rank, &compute)).unwrap();
        }
        let rate = if faster == Faster::Links { "2GB/s" } else { "1GB/s" };
        let latency = if faster == Faster::Latency { 0 } else { self.latency_us };
        simulate(&json!({
            "schema": "syncline/1",
            "workload": {"source": "chakra", "prefix": folder.path().join("trace").display().to_string(), "groups": null},
            "fabric": {"dims": [{"name": "d", "shape": self.shape, "size": self.ranks, "rate": rate,
                "latency": format!("{latency}us")}]},
            "collectives": self.collectives,
        }))
    }

    /// Checks the time of the job, and by how much it is shorter if each of these parts is faster, in microseconds.
    fn saves(&self, total: f64, saved: &[(Faster, f64)]) -> Summary {
        let before = self.run(Faster::Nothing);
        assert_eq!(us(before.total_time_s), total);
        for &(faster, expected) in saved {
            let kinds: &[PathKind] = match faster {
                Faster::Compute => &[PathKind::Compute],
                Faster::Links => &[PathKind::Bytes, PathKind::Queueing],
                Faster::Latency => &[PathKind::Latency],
                Faster::Nothing => &[],
            };
            let part = before.critical_path.iter().find(|part| kinds.contains(&part.kind));
            let said = part.map_or(0.0, |part| part.saves_s);
            let gain = before.total_time_s - self.run(faster).total_time_s;
            assert_eq!((us(said), us(gain)), (expected, expected), "{faster:?}: {:?}", before.critical_path);
        }
        before
    }
}

/// A gather of two ranks, which sends `kilobytes` in each direction.
fn gather(id: u64, kilobytes: i64) -> Node {
    Node::collective(id, "gather", CollectiveType::AllGather, 1000 * kilobytes)
}

fn compute(id: u64, micros: u64) -> Node {
    Node::compute(id, "compute", micros)
}

fn host(id: u64, micros: u64) -> Node {
    Node::compute(id, "host", micros).on_cpu()
}

fn two(nodes: &Nodes) -> Job<'_> {
    Job { ranks: 2, shape: "fully_connected", latency_us: 0, collectives: json!({"chunks": 1}), nodes }
}

/// 6 us of compute, then 8 kB after 2 us of latency, then 4 us of compute: saves half of compute or bytes, and all of
/// latency.
#[test]
fn a_chain_saves_half_of_each_part() {
    let nodes = |_, c: &dyn Fn(u64) -> u64| {
        vec![compute(1, c(6)), gather(2, 8).after(&[1]), compute(3, c(4)).after(&[2])]
    };
    let job = Job { latency_us: 2, ..two(&nodes) };
    job.saves(20.0, &[(Faster::Compute, 5.0), (Faster::Links, 4.0), (Faster::Latency, 2.0)]);
}

/// Compute of 10 us beside a gather of 12 kB: a task after both starts 2 us earlier with twice the rate, not 6 us.
#[test]
fn compute_after_two_chains_waits_for_the_other_one() {
    let nodes =
        |_, c: &dyn Fn(u64) -> u64| vec![compute(1, c(10)), gather(2, 12), compute(3, c(4)).after(&[1, 2])];
    two(&nodes).saves(16.0, &[(Faster::Links, 2.0), (Faster::Compute, 2.0)]);
}

/// The same, but the task after both is a gather of 4 kB, which needs no compute: at twice the rate it starts at 10 us.
#[test]
fn a_collective_after_two_chains_waits_for_the_other_one() {
    let nodes =
        |_, c: &dyn Fn(u64) -> u64| vec![compute(1, c(10)), gather(2, 12), gather(3, 4).after(&[1, 2])];
    two(&nodes).saves(16.0, &[(Faster::Links, 4.0), (Faster::Compute, 0.0)]);
}

/// Two gathers of 4 and 6 kB on one link, one after the other, and compute that waits for both: the later one
/// determines the whole wait, and twice the rate saves half of it.
#[test]
fn compute_after_two_collectives_waits_for_the_later_one() {
    let nodes = |_, c: &dyn Fn(u64) -> u64| vec![gather(1, 4), gather(2, 6), compute(3, c(2)).after(&[1, 2])];
    let summary = two(&nodes).saves(12.0, &[(Faster::Links, 5.0), (Faster::Compute, 1.0)]);
    assert_eq!((us(summary.exposed_communication_s), us(summary.idle_s)), (10.0, 0.0));
    let axes: Vec<_> = summary.exposed_by_axis.iter().map(|axis| us(axis.exposed_communication_s)).collect();
    assert_eq!(axes, [10.0]);
}

/// One chunk at a time: a gather of 20 kB ends at 20 us, and a gather of 4 kB that compute issues at 18 us starts then.
/// At twice the rate, it starts at 18 us, when it is issued, and ends at 20 us instead of 24 us.
#[test]
fn a_chunk_begins_once_its_collective_is_issued() {
    let nodes = |_, c: &dyn Fn(u64) -> u64| vec![compute(1, c(18)), gather(2, 20), gather(3, 4).after(&[1])];
    let job = Job { collectives: json!({"chunks": 1, "issue_threshold": 1}), ..two(&nodes) };
    job.saves(24.0, &[(Faster::Links, 4.0), (Faster::Compute, 0.0)]);
}

/// The opposite case: the first gather is done at 16 us, of which 6 us are latency, and the second is issued at 18 us.
/// If compute took half as long, the second would be issued at 9 us, but would have to wait for the first one until 16
/// us, though the link is free from 10 us on.
#[test]
fn a_chunk_begins_once_another_one_has_ended() {
    let nodes = |_, c: &dyn Fn(u64) -> u64| vec![compute(1, c(18)), gather(2, 10), gather(3, 4).after(&[1])];
    for limit in ["issue_threshold", "active_chunks"] {
        let mut job = Job { latency_us: 6, ..two(&nodes) };
        job.collectives = json!({"chunks": 1, "queues": 1, limit: 1});
        job.saves(28.0, &[(Faster::Compute, 2.0), (Faster::Links, 2.0)]);
    }
}

/// Two stages of two replicas on one switch. Rank 0 computes for 4 us and sends 2 kB to rank 2, then 3 kB to rank 1 as
/// its part of a gather: its port is busy until 9 us. Rank 2 gets the message at 6 us and computes until 16 us.
///
/// If compute took half as long, rank 2 would be done at 9 us. At twice the rate, it starts at 5 us.
#[test]
fn stages_share_a_port_with_gradients() {
    let nodes = |rank: u32, c: &dyn Fn(u64) -> u64| match rank {
        0 | 1 => vec![
            compute(1, c(4)),
            Node::send(2, "send", rank as i32, rank as i32 + 2, 2000, 7).after(&[1]),
            gather(3, 3).in_group("1").after(&[1]),
        ],
        _ => vec![
            Node::receive(1, "receive", rank as i32 - 2, rank as i32, 2000, 7),
            compute(2, c(10)).after(&[1]),
        ],
    };
    let folder = tempfile::tempdir().unwrap();
    let groups = folder.path().join("groups.json");
    std::fs::write(&groups, r#"{"1": [0, 1]}"#).unwrap();
    let job = |faster: Faster| {
        let compute = |time: u64| if faster == Faster::Compute { time / 2 } else { time };
        for rank in 0..4 {
            let path = folder.path().join(format!("trace.{rank}.et"));
            write_file(&path, &Metadata::astra(), &nodes(rank, &compute)).unwrap();
        }
        let rate = if faster == Faster::Links { "2GB/s" } else { "1GB/s" };
        let prefix = folder.path().join("trace").display().to_string();
        simulate(&json!({
            "schema": "syncline/1", "collectives": {"chunks": 1},
            "workload": {"source": "chakra", "prefix": prefix, "groups": groups.display().to_string()},
            "fabric": {"dims": [{"name": "d", "shape": "switch", "size": 4, "rate": rate, "latency": "0us"}]},
        }))
    };
    let summary = job(Faster::Nothing);
    assert_eq!(us(summary.total_time_s), 16.0);
    let of = |kind: PathKind| summary.critical_path.iter().find(|part| part.kind == kind);
    assert_eq!(of(PathKind::Compute).map(|part| us(part.saves_s)), Some(7.0));
    assert_eq!(of(PathKind::Bytes).map(|part| us(part.saves_s)), Some(1.0));
    assert_eq!(us(job(Faster::Compute).total_time_s), 9.0);
    assert_eq!(us(job(Faster::Links).total_time_s), 15.0);
    // Ranks 0 and 1 wait for their gather from 4 to 9 us, and then for the others. Ranks 2 and 3 wait until the message
    // is sent at 4 us, and another 2 us until it arrives.
    let waits = [summary.compute_s, summary.exposed_communication_s, summary.bubble_s, summary.skew_s];
    assert_eq!(
        waits.map(us),
        [(2 * 4 + 2 * 10) as f64 / 4.0, (2 * 5 + 2 * 2) as f64 / 4.0, (2 * 7 + 2 * 4) as f64 / 4.0, 0.0]
    );
    let axes: Vec<_> = summary.exposed_by_axis.iter().map(|axis| us(axis.exposed_communication_s)).collect();
    assert_eq!(axes, [2.5, 1.0]);
}

/// If compute waits for the host or memory, and then for the network, each wait has its own time.
#[test]
fn waits_for_the_host_and_for_the_network_are_distinguished() {
    let first =
        |_, c: &dyn Fn(u64) -> u64| vec![host(1, 5), gather(2, 4).after(&[1]), compute(3, c(2)).after(&[2])];
    let last =
        |_, c: &dyn Fn(u64) -> u64| vec![gather(1, 4), host(2, 5).after(&[1]), compute(3, c(2)).after(&[2])];
    let between = |_, c: &dyn Fn(u64) -> u64| {
        vec![host(1, 2), gather(2, 4).after(&[1]), host(3, 3).after(&[2]), compute(4, c(2)).after(&[3])]
    };
    for nodes in [&first as &Nodes, &last, &between] {
        let summary = two(nodes).saves(11.0, &[(Faster::Links, 2.0), (Faster::Compute, 1.0)]);
        let waits = [summary.exposed_communication_s, summary.exposed_memory_s, summary.idle_s];
        assert_eq!(waits.map(us), [4.0, 5.0, 0.0]);
        let axes: Vec<_> =
            summary.exposed_by_axis.iter().map(|axis| us(axis.exposed_communication_s)).collect();
        assert_eq!(axes, [4.0]);
    }
}

/// Two hosts on two leaves. 16 MB pass a link to the leaf, one to the spine, one to the other leaf and one to the host,
/// all at the same time.
fn across(network: &str, rate: [u32; 2]) -> Summary {
    simulate(&json!({
        "schema": "syncline/1", "network": {"model": network}, "collectives": {"chunks": 1},
        "workload": {"source": "collectives", "collectives": [{"kind": "broadcast", "bytes": "16MB"}]},
        "fabric": {"built": {"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 1, "spines": 1,
            "rate": format!("{}GB/s", rate[0]), "uplink_rate": format!("{}GB/s", rate[1]), "latency": "0us"}}}},
    }))
}

/// A message cuts through links of several tiers: making the slowest tier faster helps until another one is the
/// slowest.
#[test]
fn a_message_that_cuts_through_waits_for_the_slowest_tier() {
    let said = |summary: &Summary, tier: &str| {
        let part = summary.critical_path.iter().find(|part| part.tier.as_deref() == Some(tier));
        part.map_or(0.0, |part| part.saves_s)
    };
    // Rates of hosts' links and of uplinks in GB/s, and the microseconds that doubling the first or the second saves.
    let cases = [
        ([10, 10], 0.0, 0.0),
        // 2 ms on the uplinks, 1.6 ms on the hosts' links.
        ([10, 8], 0.0, 400.0),
        ([8, 10], 400.0, 0.0),
        // 1.6 and 0.8 ms: half the time of the slowest tier is the time of the other.
        ([10, 20], 800.0, 0.0),
        ([32, 10], 0.0, 800.0),
    ];
    for (network, count) in [("analytical", 5), ("flow", 5), ("packet", 3)] {
        // Packets have headers and pass links one after the other. If links become much faster, TCP's window grows too
        // slowly to fill them.
        let tolerance = if network == "packet" { 40.0 } else { 0.5 };
        let close = |found: f64, expected: f64| (us(found) - expected).abs() < tolerance;
        for &(rates, host, spine) in &cases[..count] {
            let summary = across(network, rates);
            let saved = |faster: [u32; 2]| summary.total_time_s - across(network, faster).total_time_s;
            assert!(close(saved([2 * rates[0], rates[1]]), host), "{network} {rates:?}");
            assert!(close(saved([rates[0], 2 * rates[1]]), spine), "{network} {rates:?}");
            let found = ["host-leaf", "leaf-spine"].map(|tier| said(&summary, tier));
            assert!(close(found[0], host), "{network} {rates:?} {:?}", summary.critical_path);
            assert!(close(found[1], spine), "{network} {rates:?} {:?}", summary.critical_path);
        }
    }
}

/// A ring with one chunk over leaves of two hosts, where hosts' links and uplinks are equal. Every second hop crosses
/// the spine, and these hops do not become faster with the hosts' links.
#[test]
fn faster_links_of_hosts_do_not_speed_up_hops_across_the_spine() {
    let job = |rate: u32| {
        simulate(&json!({
            "schema": "syncline/1", "collectives": {"chunks": 1, "algorithms": {"default": {"reduce_scatter": "ring"}}},
            "workload": {"source": "collectives", "collectives": [{"kind": "reduce_scatter", "bytes": "16MB"}]},
            "fabric": {"built": {"network": {"leaf_spine": {"leaves": 2, "hosts_per_leaf": 2, "spines": 1,
                "rate": format!("{rate}GB/s"), "uplink_rate": "10GB/s", "latency": "0us"}}}},
        }))
    };
    // Three rounds of 4 MB. Every part of the vector crosses the spine at least once, most of them twice: with the
    // faster links, their three rounds take 400 us twice and 200 us once.
    let summary = job(10);
    assert_eq!(us(summary.total_time_s), 1200.0);
    assert_eq!(us(job(20).total_time_s), 1000.0);
    assert_eq!(summary.critical_path.iter().map(|part| us(part.saves_s)).collect::<Vec<_>>(), [200.0]);
}

/// With `lifo`, two chunks of a gather issued at 12 us overtake the last two chunks of an earlier gather, which take 10
/// us each: of the first gather's four chunks, two end at 20 us, two at 60 us. At twice the rate, three of them come
/// first. The prediction assumes the same order: the second gather starts at 12 us and all ends at 34 us instead of 62
/// us. In fact it ends at 32 us.
#[test]
fn the_sentence_says_if_chunks_may_change_their_order() {
    let nodes = |_, c: &dyn Fn(u64) -> u64| {
        vec![compute(1, c(12)), gather(2, 40), gather(3, 20).after(&[1]), compute(4, c(2)).after(&[2])]
    };
    let run = |order: &str, faster: Faster| {
        let collectives =
            json!({"chunks": 4, "min_chunk": "10kB", "order": order, "active_chunks": 1, "queues": 1});
        Job { collectives, ..two(&nodes) }.run(faster)
    };
    let [before, after] = [Faster::Nothing, Faster::Links].map(|faster| run("lifo", faster));
    assert_eq!((us(before.total_time_s), us(after.total_time_s)), (62.0, 32.0));
    assert!(
        before.reason.contains("by about 45.2 %, or up to 51.7 % if chunks change their order."),
        "{}",
        before.reason
    );
    let fifo = run("fifo", Faster::Nothing).reason;
    assert!(!fifo.contains("change their order"), "{fifo}");
}

/// Ranks that start late do not start earlier with faster compute.
#[test]
fn faster_compute_does_not_shorten_waits_for_a_late_rank() {
    let job = |seed: u64, faster: bool| {
        let time = |micros: u64| json!({"time": format!("{}us", if faster { micros / 2 } else { micros })});
        let layer = |name: &str, micros: u64, parameters: u64| {
            json!({"name": name, "forward": time(micros), "weight_grad": time(micros), "parameters": parameters,
                "sharding": "replicated"})
        };
        simulate(&json!({
            "schema": "syncline/1", "collectives": {"chunks": 1}, "jitter": {"start": "100us", "compute": 0.0, "seed": seed},
            "workload": {"source": "layers", "layers": [layer("a", 20, 1000)], "parallel": {"data": "all"}},
            "fabric": {"dims": [{"name": "d", "shape": "fully_connected", "size": 2, "rate": "1GB/s", "latency": "0us"}]},
            "faults": [{"rank": [0], "factor": 3.0}],
        }))
    };
    let mut halves = 0;
    for seed in 0..12 {
        let summary = job(seed, false);
        let part = summary.critical_path.iter().find(|part| part.kind == PathKind::Compute);
        let gain = summary.total_time_s - job(seed, true).total_time_s;
        assert_eq!(
            us(part.map_or(0.0, |part| part.saves_s)),
            us(gain),
            "seed {seed}: {:?}",
            summary.critical_path
        );
        halves += u32::from(us(gain) == 60.0);
    }
    // In some cases the slow rank is the last one in both runs, in others not.
    assert!((1..12).contains(&halves), "{halves}");
}

/// No part saves more than all of its time.
#[test]
fn bubble_and_skew_save_their_own_time() {
    let job = |micros: u64, number: u32| {
        let time = json!({"time": format!("{micros}us")});
        let layer = |name: u32| {
            json!({"name": format!("l{name}"), "forward": time, "input_grad": time, "weight_grad": time, "parameters": 1000,
                "inputs": 777, "outputs": 777, "sharding": "replicated"})
        };
        simulate(&json!({
            "schema": "syncline/1", "collectives": {"chunks": 1},
            "workload": {"source": "layers", "layers": (0..4).map(layer).collect::<Vec<_>>(), "parallel": {"pipeline": "all"},
                "micro_batches": number},
            "fabric": {"dims": [{"name": "d", "shape": "switch", "size": 2, "rate": "1GB/s", "latency": "1us"}]},
        }))
    };
    let mut seen = 0;
    for micros in [17, 29, 41] {
        for number in [1, 3, 7, 11] {
            let summary = job(micros, number);
            for part in summary.critical_path.iter().filter(|part| part.kind == PathKind::Bubble) {
                assert!((part.saves_s - part.time_s).abs() < 1e-12, "{part:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 6);
}
