//! Compute models through whole simulations, against times computed by hand.

use syncline_scenario::Scenario;
use syncline_simulate::{Control, Run, run};

fn simulate(workload: &str, compute: &str) -> Result<Run, String> {
    let json = format!(
        r#"{{"schema": "syncline/1", "workload": {{"source": "layers", {workload}}}, "compute": {compute},
            "fabric": {{"dims": [{{"name": "d", "shape": "ring", "size": 4, "rate": "1GB/s"}}]}}}}"#
    );
    let scenario: Scenario = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    run(&scenario, Control::default()).map_err(|errors| errors.to_string())
}

/// Picoseconds of compute in an iteration, and the label of the compute model.
fn compute(workload: &str, model: &str) -> (u64, String) {
    let run = simulate(workload, model).unwrap_or_else(|error| panic!("{error}"));
    let summary = run.timeline.summary;
    ((summary.compute_s * 1e12).round() as u64, summary.compute_model)
}

/// A linear layer of 32 rows, 1000 inputs and 600 outputs, in 4-byte elements.
const LINEAR: &str = r#""layers": [{"name": "first"}, {"name": "linear",
    "forward":     {"ops": {"flop": "38400000FLOP", "memory": "2604800B",
        "products": [{"m": 32, "k": 1000, "n": 600, "memory": "2604800B"}]}},
    "input_grad":  {"ops": {"flop": "38400000FLOP", "memory": "2604800B",
        "products": [{"m": 32, "k": 600, "n": 1000, "memory": "2604800B"}]}},
    "weight_grad": {"ops": {"flop": "38400000FLOP", "memory": "2604800B",
        "products": [{"m": 1000, "k": 32, "n": 600, "memory": "2604800B"}]}}}]"#;

fn array(memory: &str, rest: &str) -> String {
    format!(
        r#"{{"model": "systolic", "rows": 256, "columns": 256, "clock": "1GHz", "memory": "{memory}",
            "vector": "512GFLOP/s" {rest}}}"#
    )
}

#[test]
fn three_passes_on_a_systolic_array_take_the_computed_cycles() {
    // Weight stationary, 2 S b + U a + a b (T - 2):
    //   forward      K = 1000 in 4 rows of tiles, N = 600 in 3 columns, M = 32
    //   input grad   K = 600 in 3, N = 1000 in 4, M = 32
    //   weight grad  K = 32 in 1, N = 600 in 3, M = 1000
    let forward = 2 * 1000 * 3 + 600 * 4 + 12 * 30;
    let input_grad = 2 * 600 * 4 + 1000 * 3 + 12 * 30;
    let weight_grad = 2 * 32 * 3 + 600 + 3 * 998;
    let (time, label) = compute(LINEAR, &array("900GB/s", ""));
    assert_eq!(time, (forward + input_grad + weight_grad) * 1_000);
    assert_eq!(label, "systolic 256x256 (weight_stationary at 1GHz, memory 900GB/s, vector 512GFLOP/s)");
    // Output stationary: M in rows, N in columns, K streamed.
    let forward = 2 * 32 * 3 + 600 + 3 * 998;
    let input_grad = 2 * 32 * 4 + 1000 + 4 * 598;
    let weight_grad = 2 * 1000 * 3 + 600 * 4 + 12 * 30;
    let (time, _) = compute(LINEAR, &array("900GB/s", r#", "dataflow": "output_stationary""#));
    assert_eq!(time, (forward + input_grad + weight_grad) * 1_000);
}

#[test]
fn slow_memory_stalls_the_array() {
    // 2,604,800 bytes at 300 GB/s take 8682.67 ns: less than forward, more than the two gradients.
    let forward = (2 * 1000 * 3 + 600 * 4 + 12 * 30) * 1_000;
    let (time, _) = compute(LINEAR, &array("300GB/s", ""));
    assert_eq!(time, forward + 2 * 8_682_667);
}

#[test]
fn compute_power_is_exact() {
    let (once, _) = compute(LINEAR, &array("900GB/s", ""));
    for (power, expected) in [(0.5, 2 * once), (1.0, once), (2.0, once / 2), (4.0, once / 4)] {
        let (time, label) = compute(LINEAR, &array("900GB/s", &format!(r#", "compute_power": {power}"#)));
        assert_eq!(time, expected, "{power}");
        assert_eq!(label.contains(&format!("compute power {power}")), power != 1.0);
    }
}

#[test]
fn a_divided_layer_has_its_share_of_the_products() {
    let parallel = |sharding: &str| {
        let layers = LINEAR
            .replace(r#""name": "linear","#, &format!(r#""name": "linear", "sharding": "{sharding}","#));
        format!(r#"{layers}, "parallel": {{"tensor": "all", "data": "none"}}"#)
    };
    // By columns, 150 outputs each.
    let forward = 2 * 1000 + 150 * 4 + 4 * 30;
    let input_grad = 2 * 150 * 4 + 1000 + 4 * 30;
    let weight_grad = 2 * 32 + 150 + 998;
    let (time, _) = compute(&parallel("column"), &array("900GB/s", ""));
    assert_eq!(time, (forward + input_grad + weight_grad) * 1_000);
    // By rows, 250 inputs each.
    let forward = 2 * 250 * 3 + 600 + 3 * 30;
    let input_grad = 2 * 600 + 250 * 3 + 3 * 30;
    let weight_grad = 2 * 32 * 3 + 600 + 3 * 248;
    let (time, _) = compute(&parallel("row"), &array("900GB/s", ""));
    assert_eq!(time, (forward + input_grad + weight_grad) * 1_000);
}

#[test]
fn a_table_gives_each_pass_its_time() {
    let table = r#"{"model": "table", "name": "t.yaml: a CPU", "compute_power": 0.5,
        "layers": {"linear": {"forward": "7ns", "input_grad": "11ns", "weight_grad": "13ns"}}}"#;
    assert_eq!(compute(LINEAR, table), (62_000, "measured (t.yaml: a CPU), compute power 0.5".to_owned()));
    let lacking = simulate(LINEAR, &table.replace("linear", "linaer")).unwrap_err();
    assert!(lacking.contains("did you mean `linaer`?"), "{lacking}");
}

#[test]
fn a_throughput_times_products_by_operations_and_the_rest_by_the_slower_side() {
    let gpu = r#"{"model": "throughput", "rate": "60TFLOP/s", "memory": "600GB/s"}"#;
    // 38.4 MFLOP three times.
    assert_eq!(compute(LINEAR, gpu), (3 * 640_000, "throughput (60TFLOP/s, memory 600GB/s)".to_owned()));
    // Two tensor-parallel halves of the layer, and a lookup, which is not a matrix product.
    let halves = LINEAR.replace(
        r#""name": "first""#,
        r#""name": "first", "forward": {"ops": {"flop": "60kFLOP", "memory": "6MB"}}"#,
    );
    let parallel = format!(r#"{halves}, "parallel": {{"tensor": "all", "data": "none"}}"#);
    assert_eq!(compute(&parallel, gpu).0, 3 * 160_000 + 2_500_000);
    let refused = simulate(LINEAR, &gpu.replace("60T", "0T")).unwrap_err();
    assert!(refused.contains("compute.rate"), "{refused}");
}

#[test]
fn work_without_shapes_gives_a_warning() {
    let layers = r#""layers": [{"name": "a", "forward": {"ops": {"flop": "512GFLOP", "memory": "1B"}}}]"#;
    let run = simulate(layers, &array("900GB/s", "")).unwrap();
    assert_eq!((run.timeline.summary.compute_s * 1e12).round() as u64, 1_000_000_000_000);
    let noted = run.diagnostics.to_string();
    assert!(noted.contains("all operations run on the vector unit"), "{noted}");
    assert!(simulate(LINEAR, &array("900GB/s", "")).unwrap().diagnostics.to_string().is_empty());
}

#[test]
fn impossible_products_are_refused() {
    for (from, to, message) in [
        (r#""m": 32"#, r#""m": 0"#, "sizes above zero"),
        (r#""m": 32"#, r#""m": 33"#, "more operations than the pass"),
        (r#""n": 600, "memory": "2604800B""#, r#""n": 600, "memory": "2604801B""#, "more memory traffic"),
    ] {
        let error = simulate(&LINEAR.replacen(from, to, 1), &array("900GB/s", "")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}
