//! Measures message deliveries per second, event by event, with the full endpoint model and tables. Prints the CPU time
//! of this process, best of five runs. `cargo bench -p syncline-simulate --bench messages [-- PART_OF_A_CASE'S_NAME]`.

use cpu_time::ProcessTime;
use syncline_scenario::Scenario;
use syncline_simulate::{Control, run};

fn main() {
    let three_dims = r#"{"dims": [
        {"name": "ring", "shape": "ring", "size": 8, "rate": "200GB/s", "latency": "50ns"},
        {"name": "fc", "shape": "fully_connected", "size": 8, "rate": "100GB/s", "latency": "500ns"},
        {"name": "switch", "shape": "switch", "size": 16, "rate": "50GB/s", "latency": "2us"}]}"#;
    let ring =
        r#"{"dims": [{"name": "ring", "shape": "ring", "size": 8, "rate": "50GB/s", "latency": "500ns"}]}"#;
    let one =
        r#"{"source": "collectives", "collectives": [{"kind": "all_reduce", "bytes": "1GiB"}]}"#.to_owned();
    let layers: Vec<String> = (0..10_000)
        .map(|i| format!(r#"{{"name": "l{i}", "weight_grad": {{"time": "20us"}}, "parameters": 262144}}"#))
        .collect();
    let layers = format!(r#"{{"source": "layers", "layers": [{}]}}"#, layers.join(","));
    let cases = [
        ("1 GiB all-reduce, 64 chunks, Ring(8)_FC(8)_Switch(16)", &one, three_dims, 64),
        ("10,000 layers of 1 MiB, 4 chunks, Ring(8)", &layers, ring, 4),
    ];
    let runs = std::env::var("RUNS").map_or(5, |text| text.parse().expect("RUNS is a number"));
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, workload, fabric, chunks) in cases.into_iter().filter(|case| case.0.contains(&wanted)) {
        for network in ["analytical", "queued"] {
            let json = format!(
                r#"{{"schema": "syncline/1", "workload": {workload}, "fabric": {fabric}, "network": {{"model": "{network}"}}, "symmetry": false,
                    "collectives": {{"chunks": {chunks}, "endpoint_delay": "10ns", "reduction_rate": "1600GB/s"}}}}"#
            );
            let scenario: Scenario = serde_json::from_str(&json).expect("the bench's own scenario");
            let (mut best, mut summary) = (f64::INFINITY, Default::default());
            for _ in 0..runs {
                let started = ProcessTime::now();
                let done = run(&scenario, Control::default()).expect("the bench's own scenario runs");
                best = best.min(started.elapsed().as_secs_f64());
                summary = done.timeline.summary;
            }
            report(name, network, best, summary.messages, summary.events);
        }
    }
}

#[allow(clippy::print_stdout)]
fn report(name: &str, network: &str, seconds: f64, messages: u64, events: u64) {
    println!(
        "{name}, {network}: {seconds:.3} CPU s, {messages} messages, {:.2} M messages/s, {:.2} events/message",
        messages as f64 / seconds / 1e6,
        events as f64 / messages as f64
    );
}
