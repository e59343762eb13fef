//! Times of NCCL's collectives, and the constants of machines.

use crate::errors::problem;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline_nccl::{Call, Group, Machine, Measurement, Operation, calibrate, calibrate_network, estimate};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nccl_operations, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_times, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(nccl_calibrate_network, module)?)
}

fn operation(name: &str) -> PyResult<Operation> {
    Operation::from_name(name).ok_or_else(|| PyValueError::new_err(format!("unknown operation: {name}")))
}

/// Names of the operations that have estimates.
#[pyfunction]
fn nccl_operations() -> Vec<&'static str> {
    Operation::ALL.map(Operation::name).to_vec()
}

/// Times of calls of one operation on a machine, which is JSON. A call is `(bytes, element_bytes, gpus_per_node, nodes,
/// concurrent)`, and its answer `(algorithm, protocol, launch_s, latency_s, transfer_s)`: nothing where the machine has no
/// constants for it.
#[pyfunction]
fn nccl_times(
    machine: &str,
    operation: &str,
    calls: Vec<(u64, u8, u32, u32, u32)>,
) -> PyResult<Vec<Option<(&'static str, &'static str, f64, f64, f64)>>> {
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

/// Finds the constants of an operation in a node. A measurement is `(bytes, element_bytes, gpus, seconds)`. Returns the
/// constants as JSON, and the loss; nothing if the measurements are too few.
#[pyfunction]
fn nccl_calibrate(
    py: Python<'_>,
    operation: &str,
    measured: Vec<(u64, u8, u32, f64)>,
) -> PyResult<Option<(String, f64)>> {
    let operation = self::operation(operation)?;
    let measured: Vec<Measurement> = measured
        .into_iter()
        .map(|(bytes, element_bytes, gpus, seconds)| Measurement {
            call: Call { operation, bytes, element_bytes, group: Group::of_one_node(gpus) },
            seconds,
        })
        .collect();
    let Some(found) = py.detach(|| calibrate(operation, &measured)) else { return Ok(None) };
    let text =
        serde_json::to_string(&found.constants).map_err(|error| PyValueError::new_err(problem(&error)))?;
    Ok(Some((text, found.loss)))
}

/// Finds efficiency and hop latencies of a machine's network. A measurement is `(operation, call, seconds)`, with calls as
/// in `nccl_times`. Returns the network as JSON, and the loss; nothing if the machine lacks constants.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "tuples of Python")]
fn nccl_calibrate_network(
    machine: &str,
    measured: Vec<(String, (u64, u8, u32, u32, u32), f64)>,
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
