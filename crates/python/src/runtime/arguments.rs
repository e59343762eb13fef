//! Reads and checks arguments.

use crate::errors::problem;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use std::str::FromStr;
use std::time::Duration;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics};

/// Reads an argument that is JSON.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(problem(&error)))
}

/// Parses a value from its name.
pub(super) fn named<T: FromStr>(name: &str) -> PyResult<T>
where
    T::Err: std::fmt::Display,
{
    name.parse().map_err(|error: T::Err| PyValueError::new_err(error.to_string()))
}

/// Checks a time of a setting in seconds.
pub(super) fn seconds(key: &str, value: f64) -> syncline_diagnostics::Result<Duration> {
    let time = seconds_or_none(key, value).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| invalid_timeout(key, value, "seconds: more than 0, at most ten years"))
}

/// The longest timeout, which clocks can count.
const MAX_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// As [`seconds`], and allows 0.
pub(super) fn seconds_or_none(key: &str, value: f64) -> syncline_diagnostics::Result<Duration> {
    let time = Duration::try_from_secs_f64(value).ok().filter(|&time| time <= MAX_TIMEOUT);
    time.ok_or_else(|| invalid_timeout(key, value, "seconds: 0 or more, at most ten years"))
}

fn invalid_timeout(key: &str, value: f64, allowed: &str) -> Diagnostics {
    let error = Diagnostic::error(Code::BadValue, format!("`{key}` is not a valid timeout"));
    error.key(key).found(value.to_string()).allowed(allowed).into()
}
