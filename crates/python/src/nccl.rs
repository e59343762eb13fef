//! Times of NCCL's collectives, and the constants of machines.

use crate::errors::problem;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline_nccl::{
    Calibrated, Call, Exchange, Group, Kernels, Machine, Measurement, Operation, Shots, Tokens,
    calibrate_exchange, calibrate_network, calibrate_shots, calibrate_together, estimate,
};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(deepep_times, module)?)?;
    module.add_function(wrap_pyfunction!(deepep_calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(shots_times, module)?)?;
    module.add_function(wrap_pyfunction!(shots_calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_operations, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_times, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_calibrate_network, module)?)
}

fn operation(name: &str) -> PyResult<Operation> {
    Operation::from_name(name).ok_or_else(|| PyValueError::new_err(format!("unknown operation: {name}")))
}

/// `(bytes, element_bytes, gpus_per_node, nodes, concurrent)`.
type PyCall = (u64, u8, u32, u32, u32);
/// `(algorithm, protocol, launch_s, latency_s, transfer_s)`.
type PyEstimate = (&'static str, &'static str, f64, f64, f64);

/// Names of the operations that have estimates.
#[pyfunction]
fn nccl_operations() -> Vec<&'static str> {
    Operation::ALL.map(Operation::name).to_vec()
}

/// Times of calls of one operation on a machine, which is JSON. A call is `(bytes, element_bytes, gpus_per_node, nodes,
/// concurrent)`, and its answer `(algorithm, protocol, launch_s, latency_s, transfer_s)`: nothing where the machine has no
/// constants for it.
#[pyfunction]
fn nccl_times(machine: &str, operation: &str, calls: Vec<PyCall>) -> PyResult<Vec<Option<PyEstimate>>> {
    let machine: Machine =
        serde_json::from_str(machine).map_err(|error| PyValueError::new_err(problem(&error)))?;
    let operation = self::operation(operation)?;
    let time = |(bytes, element_bytes, gpus_per_node, nodes, concurrent)| {
        let group = Group { gpus_per_node, nodes, concurrent };
        let found = estimate(&machine, &Call { operation, bytes, element_bytes, group })?;
        let (launch, latency, transfer) = (found.launch_s, found.latency_s, found.transfer_s);
        Some((found.algorithm.name(), found.protocol.name(), launch, latency, transfer))
    };
    Ok(calls.into_iter().map(time).collect())
}

/// A measurement in a node: `(bytes, element_bytes, gpus, seconds)`.
type PyMeasurement = (u64, u8, u32, f64);

/// Finds the constants of operations in a node of one machine. Returns the constants of each as JSON; nothing for those that
/// have too few measurements.
#[pyfunction]
fn nccl_calibrate(
    py: Python<'_>,
    measured: Vec<(String, Vec<PyMeasurement>)>,
) -> PyResult<Vec<Option<String>>> {
    let mut sets = Vec::new();
    for (name, rows) in measured {
        let operation = operation(&name)?;
        let row = |(bytes, element_bytes, gpus, seconds): PyMeasurement| Measurement {
            call: Call { operation, bytes, element_bytes, group: Group::of_one_node(gpus) },
            seconds,
        };
        sets.push((operation, rows.into_iter().map(row).collect::<Vec<_>>()));
    }
    let found = py.detach(|| {
        let sets: Vec<_> = sets.iter().map(|(operation, rows)| (*operation, rows.as_slice())).collect();
        calibrate_together(&sets)
    });
    let text = |found: Calibrated| {
        serde_json::to_string(&found.constants).map_err(|error| PyValueError::new_err(problem(&error)))
    };
    found.into_iter().map(|each| each.map(text).transpose()).collect()
}

/// Finds efficiency and hop latencies of a machine's network. A measurement is `(operation, call, seconds)`, with calls as
/// in `nccl_times`. Returns the network as JSON, and the loss; nothing if the machine lacks constants.
#[pyfunction]
fn nccl_calibrate_network(
    machine: &str,
    measured: Vec<(String, PyCall, f64)>,
) -> PyResult<Option<(String, f64)>> {
    let machine: Machine =
        serde_json::from_str(machine).map_err(|error| PyValueError::new_err(problem(&error)))?;
    let mut rows = Vec::new();
    for (name, (bytes, element_bytes, gpus_per_node, nodes, concurrent), seconds) in measured {
        let group = Group { gpus_per_node, nodes, concurrent };
        rows.push(Measurement {
            call: Call { operation: operation(&name)?, bytes, element_bytes, group },
            seconds,
        });
    }
    let Some((network, loss)) = calibrate_network(&machine, &rows) else { return Ok(None) };
    let text = serde_json::to_string(&network).map_err(|error| PyValueError::new_err(problem(&error)))?;
    Ok(Some((text, loss)))
}

type PyTokens = (u32, u32, u32, u32, u32);

const fn tokens((tokens, token_bytes, experts, gpus, sms): PyTokens) -> Tokens {
    Tokens { tokens, token_bytes, experts, gpus, sms }
}

const fn kernels(low_latency: bool) -> Kernels {
    if low_latency { Kernels::LowLatency } else { Kernels::Normal }
}

/// Times of dispatches or combines with constants `(launch_s, token_s, sm_rate, link_rate)`, seconds. A call is `(tokens,
/// token_bytes, experts, gpus, sms)`.
#[pyfunction]
fn deepep_times(constants: (f64, f64, f64, f64), low_latency: bool, calls: Vec<PyTokens>) -> Vec<f64> {
    let (launch_s, token_s, sm_rate, link_rate) = constants;
    let exchange = Exchange { launch_s, token_s, sm_rate, link_rate };
    calls.into_iter().map(|call| exchange.seconds(kernels(low_latency), &tokens(call))).collect()
}

/// Finds those constants from calls and their times; nothing without calls.
#[pyfunction]
fn deepep_calibrate(low_latency: bool, measured: Vec<(PyTokens, f64)>) -> Option<(f64, f64, f64, f64)> {
    let measured: Vec<_> = measured.into_iter().map(|(call, seconds)| (tokens(call), seconds)).collect();
    let (found, _) = calibrate_exchange(kernels(low_latency), &measured)?;
    Some((found.launch_s, found.token_s, found.sm_rate, found.link_rate))
}

/// Times of all-reduces in one shot or two with constants `(one_launch_s, one_rate, two_launch_s, two_rate)`: seconds, and
/// the number of shots. A call is `(gpus, bytes)`.
#[pyfunction]
fn shots_times(constants: (f64, f64, f64, f64), calls: Vec<(u32, u64)>) -> Vec<(f64, u8)> {
    let (one_launch_s, one_rate, two_launch_s, two_rate) = constants;
    let shots = Shots { one_launch_s, one_rate, two_launch_s, two_rate };
    calls.into_iter().map(|(gpus, bytes)| shots.seconds(gpus, bytes)).collect()
}

/// Finds those constants from `(gpus, bytes, seconds)`; nothing without measurements.
#[pyfunction]
fn shots_calibrate(measured: Vec<(u32, u64, f64)>) -> Option<(f64, f64, f64, f64)> {
    let (found, _) = calibrate_shots(&measured)?;
    Some((found.one_launch_s, found.one_rate, found.two_launch_s, found.two_rate))
}
