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

fn main() {
    for (sizes, quotient) in
        [([8, 8, 16], true), ([8, 8, 16], false), ([16, 16, 64], true), ([16, 16, 4096], true)]
    {
        let scenario = scenario(sizes, quotient);
        let (mut best, mut summary) = (f64::INFINITY, Default::default());
        for _ in 0..5 {
            let started = ProcessTime::now();
            let done = run(&scenario, Control::default()).expect("the bench's own scenario runs");
            best = best.min(started.elapsed().as_secs_f64());
            summary = done.timeline.summary;
        }
        report(sizes, best, &summary);
    }
}

#[allow(clippy::print_stdout)]
fn report([a, b, c]: [u32; 3], seconds: f64, summary: &syncline_timeline::Summary) {
    println!(
        "1 GiB all-reduce, 64 chunks, Ring({a})_FC({b})_Switch({c}): {:.1} ms CPU, {} of {} ranks simulated, {:.3} ms",
        seconds * 1e3,
        summary.simulated_ranks,
        summary.ranks,
        summary.total_time_s * 1e3
    );
}
