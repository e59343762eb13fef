//! CPU seconds and messages per second for two cases on which ASTRA-sim 2 is slow, because it simulates every
//! event:
//!
//! - 8 ranks of 10,000 layers, each a computation and an all-reduce of 1 MiB in 4 chunks, on a ring;
//! - one all-reduce of 1 GiB in 64 chunks on Ring(8)_FC(8)_Switch(16).

use std::time::Instant;
use syncline_astra_compat::{Job, Options, simulate};
use syncline_diagnostics::Diagnostics;
use syncline_formats::astra2::{Groups, Memory, NetworkFile, Source, System};
use syncline_formats::chakra::{CollectiveType, Graph, Metadata, Node, Reader, Traces, Writer};

/// Returns the CPU seconds of this process so far, if the system reports them; otherwise wall-clock seconds
/// since `start`.
fn cpu_seconds(start: Instant) -> f64 {
    let ticks = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| {
        let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    });
    ticks.map_or_else(|| start.elapsed().as_secs_f64(), |ticks| ticks as f64 / 100.0)
}

/// A job in which all ranks do the same.
fn job(network: &str, algorithms: &str, splits: u32, nodes: &[Node]) -> Job {
    let (network, _) = NetworkFile::parse(Source::new("network.yml", network)).expect("a network");
    let system = format!(
        "{{\"scheduling-policy\": \"LIFO\", \"endpoint-delay\": 10, \"active-chunks-per-dimension\": 1,
          \"preferred-dataset-splits\": {splits}, \"local-mem-bw\": 1600, \"collective-optimization\": \"localBWAware\",
          \"all-reduce-implementation\": {algorithms}}}"
    );
    let (system, _) = System::parse(Source::new("system.json", system)).expect("a system");
    let mut writer = Writer::new(Vec::new(), &Metadata::astra()).expect("memory");
    for node in nodes {
        writer.write(node).expect("memory");
    }
    let bytes = writer.finish().expect("memory");
    let graph =
        Graph::read(&mut Reader::new(bytes.as_slice(), "trace").expect("a trace"), false).expect("a graph");
    let ranks = network.npus() as usize;
    let traces = Traces::from_graphs("trace", vec![graph], vec![0; ranks]).expect("indices fit");
    Job {
        network,
        system,
        memory: Memory::none(),
        groups: Groups::default(),
        traces,
        custom: Vec::new(),
        warnings: Diagnostics::new(),
    }
}

fn measure(name: &str, job: &Job) {
    let start = Instant::now();
    let before = cpu_seconds(start);
    let outcome = simulate(job, &Options::default()).expect("the job runs");
    let seconds = (cpu_seconds(start) - before).max(1e-9);
    let rate = outcome.messages as f64 / seconds / 1e6;
    let cycles = outcome.cycles().unwrap_or(0);
    let line = format!(
        "{name}: {seconds:.2} CPU s, {} messages, {rate:.1} M messages/s, {} events, {cycles} cycles\n",
        outcome.messages, outcome.events
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).expect("stdout");
}

fn main() {
    let ring = "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n";
    let mut layers = Vec::new();
    for layer in 0..10_000u64 {
        let compute = Node::compute(2 * layer, "compute", 10);
        let compute = if layer == 0 { compute } else { compute.after(&[2 * layer - 2]) };
        layers.push(compute);
        let reduce = Node::collective(2 * layer + 1, "all_reduce", CollectiveType::AllReduce, 1 << 20);
        layers.push(reduce.after(&[2 * layer]));
    }
    measure("8 ranks x 10000 layers", &job(ring, "[\"ring\"]", 4, &layers));
    let three = "topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 8, 8, 16 ]\n\
                 bandwidth: [ 200.0, 100.0, 50.0 ]\nlatency: [ 50.0, 500.0, 2000.0 ]\n";
    let one = [Node::collective(1, "all_reduce", CollectiveType::AllReduce, 1 << 30)];
    let natural = "[\"ring\", \"direct\", \"halvingDoubling\"]";
    measure("1 GiB on 1024 NPUs in 64 chunks", &job(three, natural, 64, &one));
}
