//! Parses and formats quantities and names with the grammar of `syncline-units`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use syncline_units::{CollectiveKind, DataType, Shape, UnitError};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(parse_quantity, module)?)?;
    module.add_function(wrap_pyfunction!(format_quantity, module)?)?;
    module.add_function(wrap_pyfunction!(exact_quantity, module)?)?;
    module.add_function(wrap_pyfunction!(parse_shape, module)?)?;
    module.add_function(wrap_pyfunction!(collective_kinds, module)?)?;
    module.add_function(wrap_pyfunction!(data_types, module)?)?;
    Ok(())
}

/// Evaluates `$body` with `$type` bound to the quantity type that `$kind` names.
macro_rules! by_kind {
    ($kind:expr, $type:ident => $body:expr) => {
        match $kind {
            "time" => {
                use syncline_units::Time as $type;
                $body
            }
            "bytes" => {
                use syncline_units::Bytes as $type;
                $body
            }
            "rate" => {
                use syncline_units::Rate as $type;
                $body
            }
            "flops" => {
                use syncline_units::Flops as $type;
                $body
            }
            "flop_rate" => {
                use syncline_units::FlopRate as $type;
                $body
            }
            "frequency" => {
                use syncline_units::Frequency as $type;
                $body
            }
            other => return Err(PyValueError::new_err(format!("no quantity is called {other}"))),
        }
    };
}

/// `ValueError(problem, help)`: the parts from which a caller builds a diagnostic.
fn refused(error: UnitError) -> PyErr {
    PyValueError::new_err((error.problem, error.help))
}

/// Parses `text` and returns its value in base units: ps, B, b/s, FLOP, FLOP/s, Hz.
#[pyfunction]
fn parse_quantity(kind: &str, text: &str) -> PyResult<u64> {
    by_kind!(kind, Q => text.parse::<Q>().map(|value| value.0).map_err(refused))
}

/// Formats `value` base units for people, rounded.
#[pyfunction]
fn format_quantity(kind: &str, value: u64) -> PyResult<String> {
    Ok(by_kind!(kind, Q => format!("{}", Q(value))))
}

/// Formats `value` base units without rounding, so that `parse_quantity` returns the same value.
#[pyfunction]
fn exact_quantity(kind: &str, value: u64) -> PyResult<String> {
    Ok(by_kind!(kind, Q => Q(value).exact()))
}

/// Parses a shape such as `Ring(4)_FC(2)_Switch(8)` and returns its dimensions as `(kind, size)`, lowest first. Raises
/// `ValueError(problem, help, part, at)` if it is invalid: `part` is the wrong part and begins at character `at`.
#[pyfunction]
fn parse_shape(text: &str) -> PyResult<Vec<(&'static str, u32)>> {
    let wrong = |error: UnitError| PyValueError::new_err((error.problem, error.help, error.found, error.at));
    let shape: Shape = text.parse().map_err(wrong)?;
    Ok(shape.0.iter().map(|dim| (dim.kind.name(), dim.size)).collect())
}

/// The names of the collectives.
#[pyfunction]
fn collective_kinds() -> Vec<&'static str> {
    CollectiveKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// The element types and their sizes in bytes.
#[pyfunction]
fn data_types() -> Vec<(&'static str, u64)> {
    DataType::ALL.iter().map(|kind| (kind.name(), kind.bytes())).collect()
}
