//! Flows that share links: CPU time (best of three runs; a single run for cases with a million flows), flows
//! per second, peak memory and when the last flow ends. `cargo bench -p syncline-net-flow --bench sharing`.
//!
//! After `--`: numbers of cases to run only these, `--all` to include the case that takes longest, `--json`
//! for a line of JSON per case, and `--dump FOLDER` to write links, flows and results of the cases that
//! `benches/flow.py` compares with SimGrid.

use cpu_time::ProcessTime;
use peak_alloc::PeakAlloc;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt::Write;
use std::path::Path;
use syncline_fabric::{Fabric, Graph, GraphLink, Routing};
use syncline_net_flow::sharing::Sharing;
use syncline_units::{Bytes, LinkId, NpuId, Rate, Time};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const RATE: Rate = Rate(100_000_000_000);
const LATENCY: Time = Time(500_000);

/// Paths chosen by a hash of a flow's ends.
const HASHED: Routing = Routing::Ecmp { seed: 1 };

/// Links in both directions between vertices.
fn duplex(npus: u32, switches: u32, routing: Routing, pairs: impl IntoIterator<Item = (u32, u32)>) -> Fabric {
    let link = |from, to| GraphLink { from, to, rate: RATE, latency: LATENCY };
    let links = pairs.into_iter().flat_map(|(a, b)| [link(a, b), link(b, a)]).collect();
    Fabric::graph(Graph::new(npus, switches, links, routing).expect("it is connected"))
}

/// Hosts around a switch.
fn star(hosts: u32) -> Fabric {
    duplex(hosts, 1, HASHED, (0..hosts).map(|host| (host, hosts)))
}

/// A fat tree of switches with `k` ports (Al-Fares et al. 2008): `k^3 / 4` hosts.
fn fat_tree(k: u32, routing: Routing) -> Fabric {
    let half = k / 2;
    let (hosts, edges) = (k * half * half, k * half);
    let (edge, aggregation, core) = (hosts, hosts + edges, hosts + 2 * edges);
    let mut pairs: Vec<(u32, u32)> = (0..hosts).map(|host| (host, edge + host / half)).collect();
    for pod in 0..k {
        for (a, b) in (0..half).flat_map(|a| (0..half).map(move |b| (a, b))) {
            pairs.push((edge + pod * half + a, aggregation + pod * half + b));
            pairs.push((aggregation + pod * half + a, core + a * half + b));
        }
    }
    duplex(hosts, 2 * edges + half * half, routing, pairs)
}

/// The paths of flows in that tree if the destination selects them ("D-mod-k", Zahavi et al. 2010, as in
/// SimGrid's own fat trees): up by its number, and then by its number at the switch.
fn by_destination(k: u32, flows: &[Vec<Flow>]) -> Routing {
    let half = k / 2;
    let (hosts, edges) = (k * half * half, k * half);
    let (edge, aggregation, core) = (hosts, hosts + edges, hosts + 2 * edges);
    let way = |&Flow { from, to, .. }: &Flow| {
        let (a, b) = (to % half, to / half % half);
        let (pod, last) = (from / (half * half), to / (half * half));
        let up = [from, edge + from / half, aggregation + pod * half + a];
        let down = [aggregation + last * half + a, edge + to / half, to];
        match (from / half == to / half, pod == last) {
            (true, _) => [&up[..2], &down[2..]].concat(),
            (false, true) => [&up[..], &down[1..]].concat(),
            (false, false) => [&up[..], &[core + a * half + b], &down[..]].concat(),
        }
    };
    Routing::Explicit(flows.iter().flatten().map(way).collect())
}

/// A flow before it begins.
#[derive(Clone, Copy)]
struct Flow {
    from: u32,
    to: u32,
    bytes: u64,
}

/// A case: flows on a fabric, of which each host has at most `window` in flight.
struct Case {
    name: &'static str,
    fabric: Fabric,
    /// Indexed by host.
    flows: Vec<Vec<Flow>>,
    window: usize,
    precision: Option<u32>,
    /// Whether weights are the inverse of latency, as in SimGrid.
    by_latency: bool,
}

/// Sizes and peers of `peers` flows of each host; a size is within `spread` of `bytes`.
fn flows(hosts: u32, peers: u32, bytes: f64, spread: f64, in_turn: bool) -> Vec<Vec<Flow>> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut flow = |from: u32, peer: u32| {
        let ahead = if in_turn { peer % (hosts - 1) + 1 } else { random.random_range(1..hosts) };
        let bytes = bytes * (1.0 + spread * (2.0 * random.random::<f64>() - 1.0));
        Flow { from, to: (from + ahead) % hosts, bytes: bytes as u64 }
    };
    (0..hosts).map(|host| (0..peers).map(|peer| flow(host, peer)).collect()).collect()
}

fn cases() -> Vec<Case> {
    let case = |name, fabric, flows, window, precision, by_latency| Case {
        name,
        fabric,
        flows,
        window,
        precision,
        by_latency,
    };
    let (star, tree, all) = (star, || fat_tree(16, HASHED), usize::MAX);
    let random = |hosts| flows(hosts, hosts - 1, 62_500.0, 0.5, true);
    let equal = || flows(1024, 64, 8192.0, 0.0, true);
    let few = || flows(128, 16, 62_500.0, 0.5, true);
    let million = || flows(1024, 977, 1e6, 0.5, false);
    vec![
        case("all-to-all of 128 hosts, all sizes different", star(128), random(128), all, None, true),
        case(
            "all-to-all of 128 hosts, all sizes different, 0.1 %",
            star(128),
            random(128),
            all,
            Some(10),
            true,
        ),
        case(
            "65,536 equal flows, fat tree of 1,024 hosts",
            fat_tree(16, by_destination(16, &equal())),
            equal(),
            all,
            None,
            true,
        ),
        case("65,536 equal flows, fat tree of 1,024 hosts, hashed ways", tree(), equal(), all, None, true),
        case("a million random flows, fat tree, 16 a host", tree(), million(), 16, None, false),
        case("a million random flows, fat tree, 16 a host, 0.1 %", tree(), million(), 16, Some(10), false),
        case("all-to-all of 64 hosts, all sizes different", star(64), random(64), all, None, true),
        case("2,048 random flows, fat tree of 128 hosts", fat_tree(8, HASHED), few(), all, None, true),
    ]
}

/// When each flow completed, by host and number.
type Ends = Vec<Vec<Time>>;

/// Runs a case; a flow begins once the latency of its path has passed.
fn play(case: &Case) -> Ends {
    let rates = (0..case.fabric.links()).map(|link| case.fabric.speed(LinkId(link)).0);
    let mut sharing = Sharing::new(rates, 1, false, case.precision);
    let mut ends: Ends = case.flows.iter().map(|flows| vec![Time::ZERO; flows.len()]).collect();
    // Flows that have not begun: when, host, number, and where their links are.
    let mut coming: BinaryHeap<Reverse<(Time, u32, u32, u32)>> = BinaryHeap::new();
    let mut ways: Vec<Vec<(u32, u32)>> = Vec::new();
    let mut unused: Vec<u32> = Vec::new();
    let mut begun = vec![0; case.flows.len()];
    let mut open: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    let mut under_way: Vec<(u32, u32)> = Vec::new();
    let mut path = Vec::new();
    let mut next =
        |host: u32, now: Time, coming: &mut BinaryHeap<_>, ways: &mut Vec<_>, unused: &mut Vec<u32>| {
            let number: &mut u32 = &mut begun[host as usize];
            if let Some(flow) = case.flows[host as usize].get(*number as usize) {
                path.clear();
                case.fabric.route(NpuId(flow.from), NpuId(flow.to), 0, &mut path);
                let place = unused.pop().unwrap_or_else(|| {
                    ways.push(Vec::new());
                    ways.len() as u32 - 1
                });
                let way: &mut Vec<(u32, u32)> = &mut ways[place as usize];
                way.clear();
                way.extend(path.iter().map(|link| (link.0, 1)));
                coming.push(Reverse((Time(now.0 + LATENCY.0 * path.len() as u64), host, *number, place)));
                *number += 1;
            }
        };
    for (host, flows) in (0u32..).zip(&case.flows) {
        (0..flows.len().min(case.window))
            .for_each(|_| next(host, Time::ZERO, &mut coming, &mut ways, &mut unused));
    }
    let mut through = Vec::new();
    loop {
        let first = coming.peek().map(|&Reverse((time, ..))| time);
        let Some(now) = first.into_iter().chain(sharing.next()).min() else { return ends };
        sharing.finish(now, |flow| through.push(flow));
        for flow in through.drain(..) {
            let (host, number) = under_way[flow as usize];
            ends[host as usize][number as usize] = now;
            next(host, now, &mut coming, &mut ways, &mut unused);
        }
        while let Some(&Reverse((time, host, number, place))) =
            coming.peek().filter(|Reverse((time, ..))| *time <= now)
        {
            coming.pop();
            let flow = case.flows[host as usize][number as usize];
            let connection = *open.entry((flow.from, flow.to)).or_insert_with(|| {
                let links = &ways[place as usize];
                let weight = if case.by_latency { 12 / links.len() as u32 } else { 1 };
                let connection = sharing.open(links, weight, 0);
                if pairs.len() <= connection as usize {
                    pairs.resize(connection as usize + 1, (0, 0));
                }
                pairs[connection as usize] = (flow.from, flow.to);
                connection
            });
            unused.push(place);
            sharing.start(time, connection, Bytes(flow.bytes), under_way.len() as u32);
            under_way.push((host, number));
        }
        sharing.settle(now, |connection| {
            open.remove(&pairs[connection as usize]);
        });
    }
}

/// Writes a case as text: the number of hosts, the rate of each link and its latency, and for each flow its
/// ends, bytes, completion time, and links.
fn dump(case: &Case, ends: &Ends, file: &Path) {
    let mut text = format!("{} {}\n", case.fabric.npus(), case.fabric.links());
    for link in 0..case.fabric.links() {
        let (rate, latency) = case.fabric.speed(LinkId(link));
        writeln!(text, "{} {}", rate.as_bytes_per_s(), latency.as_s())
            .expect("writing to a string cannot fail");
    }
    for (flow, end) in case.flows.iter().flatten().zip(ends.iter().flatten()) {
        let mut path = Vec::new();
        case.fabric.route(NpuId(flow.from), NpuId(flow.to), 0, &mut path);
        write!(text, "{} {} {} {:e} {}", flow.from, flow.to, flow.bytes, end.as_s(), path.len())
            .expect("as above");
        path.iter().for_each(|link| write!(text, " {}", link.0).expect("as above"));
        text.push('\n');
    }
    std::fs::write(file, text).expect("the folder exists");
}

/// Returns the largest and the median relative difference of the flows' ends from those with exact sharing.
fn apart(exact: &[Time], ends: &[Time]) -> (f64, f64) {
    let part = |(a, b): (&Time, &Time)| (b.as_s() / a.as_s() - 1.0).abs();
    let mut parts: Vec<f64> = exact.iter().zip(ends).map(part).collect();
    parts.sort_by(f64::total_cmp);
    (parts[parts.len() - 1], parts[parts.len() / 2])
}

/// Formats a number as JSON.
fn part(value: Option<f64>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| format!("{value:e}"))
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let folder =
        arguments.iter().position(|argument| argument == "--dump").map(|at| arguments[at + 1].clone());
    // The longest case runs only on request.
    let all = arguments.iter().any(|argument| argument == "--all");
    let only: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let mut exact: BTreeMap<&str, Vec<Time>> = BTreeMap::new();
    for (number, case) in cases().into_iter().enumerate() {
        let flows: usize = case.flows.iter().map(Vec::len).sum();
        let long = case.precision.is_none() && flows > 500_000;
        if if only.is_empty() { long && !all } else { !only.contains(&number) } {
            continue;
        }
        let (mut best, mut ends) = (f64::INFINITY, Ends::new());
        MEMORY.reset_peak_usage();
        for _ in 0..if flows > 500_000 { 1 } else { 3 } {
            let started = ProcessTime::now();
            ends = play(&case);
            best = f64::min(best, started.elapsed().as_secs_f64());
        }
        let memory = MEMORY.peak_usage();
        let last = ends.iter().flatten().max().copied().unwrap_or_default();
        let file = folder.as_ref().filter(|_| case.by_latency && case.precision.is_none());
        let file = file.map(|folder| Path::new(folder).join(format!("{number}.txt")));
        if let Some(file) = &file {
            dump(&case, &ends, file);
        }
        let name = case.name;
        let all_ends: Vec<Time> = ends.into_iter().flatten().collect();
        let apart = exact.get(name.trim_end_matches(", 0.1 %")).map(|exact| apart(exact, &all_ends));
        exact.insert(name, all_ends);
        report(&if json {
            let dumped = file.map_or_else(|| "null".to_owned(), |_| format!("\"{number}.txt\""));
            format!(
                r#"{{"number": {number}, "name": "{name}", "flows": {flows}, "cpu_s": {best}, "memory_bytes": {memory}, "done_ps": {}, "worst": {}, "median": {}, "dumped": {dumped}}}"#,
                last.0,
                part(apart.map(|(worst, _)| worst)),
                part(apart.map(|(_, median)| median)),
            )
        } else {
            let rate = flows as f64 / best;
            format!(
                "{name}: {best:.3} CPU s, {rate:.0} flows/s, {:.0} MB; {:.4} ms",
                memory as f64 / 1e6,
                last.as_s() * 1e3
            )
        });
    }
}

#[allow(clippy::print_stdout)]
fn report(line: &str) {
    println!("{line}");
}
