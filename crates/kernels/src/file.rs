//! Files of fitted models: JSON, one file for each accelerator.

use crate::attention::{Attention, AttentionFile};
use crate::gemm::{Gemm, GemmFile};
use crate::memory_bound::{MemoryBound, MemoryBoundFile};
use serde::Deserialize;
use std::collections::BTreeMap;
use syncline_diagnostics::{Code, Diagnostic};

/// Name and version of the format.
pub const SCHEMA: &str = "syncline-kernel-model/1";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    accelerator: String,
    /// What ran the kernels, for people.
    software: String,
    /// Where the rows come from, for people.
    #[serde(rename = "source")]
    _source: String,
    /// The clock under load, and whatever else holds for all kernels, for people.
    #[serde(default, rename = "notes")]
    _notes: Vec<String>,
    multiprocessors: f64,
    /// Size of the accelerator's memory, which says whether a job fits.
    #[serde(default, rename = "memory_bytes")]
    _memory_bytes: Option<f64>,
    /// Most FLOP per second of the matrix units by data type, at their highest clock: no kernel is faster.
    #[serde(default)]
    peak_flop_per_s: BTreeMap<String, f64>,
    #[serde(default)]
    gemm: BTreeMap<String, GemmFile>,
    #[serde(default)]
    attention: BTreeMap<String, AttentionFile>,
    memory_bound: MemoryBoundFile,
}

/// Models of the kernels of one accelerator.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernels {
    /// The accelerator's name.
    pub accelerator: String,
    /// What ran the measured kernels.
    pub software: String,
    gemm: BTreeMap<String, Gemm>,
    attention: BTreeMap<String, Attention>,
    memory_bound: MemoryBound,
}

impl Kernels {
    /// Reads a file's text; `name` is the file's name for messages.
    ///
    /// # Errors
    /// Text that is not such a file; numbers that no device has.
    pub fn parse(text: &str, name: &str) -> Result<Self, Diagnostic> {
        let file: File = serde_json::from_str(text).map_err(|error| {
            let line = u32::try_from(error.line()).unwrap_or(0);
            Diagnostic::error(Code::BadSyntax, "not a valid file of kernel models")
                .at(name, line)
                .found(error.to_string())
                .help("make the file with `syncline kernels fit`")
        })?;
        if file.schema != SCHEMA {
            return Err(Diagnostic::error(
                Code::BadSyntax,
                "not a file of kernel models that this version reads",
            )
            .at(name, 0)
            .key("schema")
            .found(file.schema)
            .allowed(SCHEMA));
        }
        let refuse = |key: &str, problem: String| {
            Diagnostic::error(Code::BadValue, "impossible kernel model").at(name, 0).key(key).found(problem)
        };
        if !(1.0..=10_000.0).contains(&file.multiprocessors) {
            return Err(refuse("multiprocessors", "`multiprocessors` is from 1 to 10000".to_owned()));
        }
        if let Some((data_type, peak)) =
            file.peak_flop_per_s.iter().find(|(_, peak)| !(**peak > 0.0 && peak.is_finite()))
        {
            return Err(refuse(&format!("peak_flop_per_s.{data_type}"), format!("{peak} is not above zero")));
        }
        let peak = |data_type: &str| file.peak_flop_per_s.get(data_type).copied();
        let mut gemm = BTreeMap::new();
        for (data_type, model) in file.gemm {
            let key = format!("gemm.{data_type}");
            let peak = peak(&data_type);
            let model =
                Gemm::new(model, file.multiprocessors, peak).map_err(|problem| refuse(&key, problem))?;
            gemm.insert(data_type, model);
        }
        let mut attention = BTreeMap::new();
        for (data_type, model) in file.attention {
            let key = format!("attention.{data_type}");
            let peak = peak(&data_type);
            let model =
                Attention::new(model, file.multiprocessors, peak).map_err(|problem| refuse(&key, problem))?;
            attention.insert(data_type, model);
        }
        let memory_bound =
            MemoryBound::new(file.memory_bound).map_err(|problem| refuse("memory_bound", problem))?;
        Ok(Self { accelerator: file.accelerator, software: file.software, gemm, attention, memory_bound })
    }

    /// The models of an accelerator that differs from this one only in the rate of its memory, which is `ratio` times as
    /// high: an H200 from an H100.
    #[must_use]
    pub fn with_memory(self, accelerator: String, ratio: f64) -> Self {
        Self {
            accelerator,
            software: self.software,
            gemm: self.gemm.into_iter().map(|(name, model)| (name, model.with_memory(ratio))).collect(),
            attention: self
                .attention
                .into_iter()
                .map(|(name, model)| (name, model.with_memory(ratio)))
                .collect(),
            memory_bound: self.memory_bound.with_memory(ratio),
        }
    }

    /// Matrix products in a data type, such as `bf16`.
    ///
    /// # Errors
    /// A data type that was not measured.
    pub fn gemm(&self, data_type: &str) -> Result<&Gemm, Diagnostic> {
        self.gemm.get(data_type).ok_or_else(|| self.unknown("matrix products", data_type, self.gemm.keys()))
    }

    /// Attention in a data type, such as `bf16`.
    ///
    /// # Errors
    /// A data type that was not measured.
    pub fn attention(&self, data_type: &str) -> Result<&Attention, Diagnostic> {
        self.attention
            .get(data_type)
            .ok_or_else(|| self.unknown("attention", data_type, self.attention.keys()))
    }

    /// Kernels that only move bytes.
    pub const fn memory_bound(&self) -> &MemoryBound {
        &self.memory_bound
    }

    /// Data types with models of matrix products.
    pub fn gemm_types(&self) -> impl Iterator<Item = &str> {
        self.gemm.keys().map(String::as_str)
    }

    /// Data types with models of attention.
    pub fn attention_types(&self) -> impl Iterator<Item = &str> {
        self.attention.keys().map(String::as_str)
    }

    fn unknown<'a>(
        &self,
        operation: &str,
        data_type: &str,
        known: impl Iterator<Item = &'a String>,
    ) -> Diagnostic {
        let message = format!("no model of {operation} on {} in this data type", self.accelerator);
        Diagnostic::error(Code::BadValue, message)
            .key("data_type")
            .one_of(data_type, known.map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = r#"{
        "schema": "syncline-kernel-model/1", "accelerator": "X", "software": "", "source": "", "multiprocessors": 100,
        "memory_bound": { "launch_s": 1e-5, "bytes_per_s": 1e12, "range": [1000, 2000] }
    }"#;

    #[test]
    fn kernels_that_move_bytes_take_a_launch_and_a_rate() {
        let kernels = Kernels::parse(SMALLEST, "x.json").unwrap();
        let estimate = kernels.memory_bound().time(2_000);
        assert!((estimate.seconds - 1.0002e-5).abs() < 1e-9 && !estimate.extrapolates);
        assert!(kernels.memory_bound().time(1 << 40).extrapolates);
        let faster = kernels.with_memory("Y".to_owned(), 2.0);
        assert!((faster.memory_bound().time(2_000_000_000).seconds - 1.01e-3).abs() < 1e-9);
        assert_eq!(faster.accelerator, "Y");
    }

    #[test]
    fn data_types_without_models_are_named() {
        let problem = Kernels::parse(SMALLEST, "x.json").unwrap().gemm("bf16").unwrap_err();
        assert_eq!(problem.found.as_deref(), Some("bf16"));
        assert!(problem.message.contains("matrix products on X"));
    }

    #[test]
    fn files_of_other_forms_are_refused_at_their_place() {
        let refused =
            |from: &str, to: &str| Kernels::parse(&SMALLEST.replace(from, to), "x.json").unwrap_err();
        assert_eq!(refused("model/1", "model/2").allowed.as_deref(), Some(SCHEMA));
        let unknown = refused("\"source\"", "\"sauce\"");
        assert_eq!((unknown.code, unknown.place.map(|place| place.line)), (Code::BadSyntax, Some(2)));
        let peak = refused("\"source\"", "\"peak_flop_per_s\": {\"bf16\": 0}, \"source\"");
        assert_eq!(peak.key.as_deref(), Some("peak_flop_per_s.bf16"));
        assert_eq!(refused(": 100,", ": 0,").key.as_deref(), Some("multiprocessors"));
        assert_eq!(refused("1e12", "-1").key.as_deref(), Some("memory_bound"));
        assert_eq!(refused("}", "").code, Code::BadSyntax);
    }
}
