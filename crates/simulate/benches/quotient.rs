//! Jobs in which one rank stands for many, against the same with every rank simulated where that is bearable. Prints CPU
//! time of this process and memory, best of five. `cargo bench -p syncline-simulate --bench quotient`.

use cpu_time::ProcessTime;
use syncline_simulate::{Control, Scenario, run};

/// Sizes of a ring, a fully connected dimension and a switch.
fn scenario(sizes: [u32; 3], quotient: bool) -> Scenario {
    let [ring, full, switch] = sizes;
    let json = format!(
        r#"{{"schema": "syncline/1", "quotient": {quotient},
            "workload": {{"source": "collectives", "collectives": [{{"kind": "all_reduce", "bytes": "1GiB"}}]}},
            "fabric": {{"dims": [
                {{"name": "ring", "shape": "ring", "size": {ring}, "rate": "200GB/s", "latency": "50ns"}},
                {{"name": "fc", "shape": "fully_connected", "size": {full}, "rate": "100GB/s", "latency": "500ns"}},
                {{"name": "switch", "shape": "switch", "size": {switch}, "rate": "50GB/s", "latency": "2us"}}]}},
            "collectives": {{"chunks": 64, "endpoint_delay": "10ns", "reduction_rate": "1600GB/s",
                "all_reduce": "hierarchical_2n"}}}}"#
    );
    serde_json::from_str(&json).expect("the bench's own scenario")
}

/// Data-parallel training of 54 layers, 100 MB of gradients, on a 2x4x4 torus.
fn training(iterations: u32, quotient: bool) -> Scenario {
    let layers: Vec<String> = (0..54)
        .map(|i| {
            let time = r#"{"time": "200us"}"#;
            format!(
                r#"{{"name": "l{i}", "forward": {time}, "input_grad": {time}, "weight_grad": {time},
                    "parameters": {}}}"#,
                4096 * (1 + i * i / 4)
            )
        })
        .collect();
    let json = format!(
        r#"{{"schema": "syncline/1", "quotient": {quotient},
            "workload": {{"source": "layers", "parallel": {{"data": "all"}}, "iterations": {iterations},
                "layers": [{}]}},
            "fabric": {{"dims": [
                {{"name": "local", "shape": "ring", "size": 2, "count": 2, "rate": "200GB/s", "latency": "90ns"}},
                {{"name": "vertical", "shape": "ring", "size": 4, "count": 2, "rate": "25GB/s", "latency": "200ns"}},
                {{"name": "horizontal", "shape": "ring", "size": 4, "count": 2, "rate": "25GB/s", "latency": "200ns"}}]}},
            "collectives": {{"chunks": 16, "endpoint_delay": "10ns", "all_reduce": "enhanced"}}}}"#,
        layers.join(",")
    );
    serde_json::from_str(&json).expect("the bench's own scenario")
}

fn main() {
    for (iterations, quotient) in [(2, true), (2, false), (1_000, true)] {
        let name = format!("54 layers, data parallel, 2x4x4, {iterations} iterations");
        measure(&name, &training(iterations, quotient));
    }
    for (sizes, quotient) in
        [([8, 8, 16], true), ([8, 8, 16], false), ([16, 16, 64], true), ([16, 16, 4096], true)]
    {
        let [a, b, c] = sizes;
        let name = format!("1 GiB all-reduce, 64 chunks, Ring({a})_FC({b})_Switch({c})");
        measure(&name, &scenario(sizes, quotient));
    }
}

fn measure(name: &str, scenario: &Scenario) {
    let (mut best, mut summary) = (f64::INFINITY, Default::default());
    for _ in 0..5 {
        let started = ProcessTime::now();
        let done = run(scenario, Control::default()).expect("the bench's own scenario runs");
        best = best.min(started.elapsed().as_secs_f64());
        summary = done.timeline.summary;
    }
    report(name, best, &summary);
}

#[allow(clippy::print_stdout)]
fn report(name: &str, seconds: f64, summary: &syncline_timeline::Summary) {
    println!(
        "{name}: {:.1} ms CPU; {} of {} ranks and {} of {} iterations simulated; {:.3} ms",
        seconds * 1e3,
        summary.simulated_ranks,
        summary.ranks,
        summary.simulated_iterations,
        summary.iterations,
        summary.total_time_s * 1e3
    );
}
