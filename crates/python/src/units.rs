//! Quantities and words, read and written by the one grammar of `syncline-units`.

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

/// The kinds of quantity, with what each is in base units.
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

/// `ValueError(problem, help)`: what a caller needs for a diagnostic.
fn refused(error: UnitError) -> PyErr {
    PyValueError::new_err((error.problem, error.help))
}

/// The value of `text` in base units: ps, B, b/s, FLOP, FLOP/s, Hz.
#[pyfunction]
fn parse_quantity(kind: &str, text: &str) -> PyResult<u64> {
    by_kind!(kind, Q => text.parse::<Q>().map(|value| value.0).map_err(refused))
}

/// `value` base units as people read them, rounded.
#[pyfunction]
fn format_quantity(kind: &str, value: u64) -> PyResult<String> {
    Ok(by_kind!(kind, Q => format!("{}", Q(value))))
}

/// `value` base units without rounding, as `parse_quantity` reads them back.
#[pyfunction]
fn exact_quantity(kind: &str, value: u64) -> PyResult<String> {
    Ok(by_kind!(kind, Q => Q(value).exact()))
}

/// The dimensions of `Ring(4)_FC(2)_Switch(8)` as `(kind, size)`, lowest first; or else `ValueError(problem, help, part,
/// at)`, where the part that is wrong begins at the character `at`.
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
