//! Scenarios and workloads of ASTRA-sim 1 as Chakra traces.

use crate::converted::Converted;
use crate::et;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_formats::astra1::TextWorkload;
use syncline_formats::astra2::Source;
use syncline_prepare::watch::Watch;
use syncline_prepare::{astra_text, prepare};
use syncline_scenario::{Placement, Scenario};
use syncline_units::Time;
use syncline_workload::mesh::FabricAxis;
use syncline_workload::{TaskKind, Work};

/// Settings that the input file does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Sizes of the dimensions that the ranks lie along, lowest first; for text workloads only.
    pub dims: Vec<u32>,
    /// Training iterations; for text workloads only.
    pub iterations: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { dims: Vec::new(), iterations: 1 }
    }
}

/// Largest JSON file: a resolved scenario may list a million links.
const MAX_JSON_BYTES: u64 = 1 << 30;

/// Reads `input` and writes it as the traces `<prefix>.<rank>.et`.
///
/// # Errors
/// Everything that is wrong with the input or that traces cannot express; [`Code::CannotWrite`].
pub fn to_chakra(input: &Path, prefix: &Path, options: &Options) -> Result<Converted> {
    let ending = input.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("txt") => from_text(input, prefix, options),
        Some("json") => {
            let source = Source::read_at_most(input, MAX_JSON_BYTES)?;
            let value: serde_json::Value =
                serde_json::from_str(source.text()).map_err(|error| json(&source, &error))?;
            if value.get("schema").is_none() {
                return Err(Diagnostic::error(Code::BadValue, "the file is not a resolved scenario")
                    .at(source.file(), 1)
                    .allowed("an object with the key `schema`")
                    .into());
            }
            let scenario = serde_json::from_str(source.text()).map_err(|error| json(&source, &error))?;
            from_scenario(&scenario, prefix)
        }
        _ => Err(Diagnostic::error(Code::Unreadable, "cannot convert a file with this ending")
            .at(input.display().to_string(), 0)
            .found(ending.map_or_else(|| "no ending".to_owned(), |ending| format!(".{ending}")))
            .allowed(".json (scenario), .txt (ASTRA-sim 1 workload)")
            .into()),
    }
}

fn json(source: &Source, error: &serde_json::Error) -> Diagnostic {
    let code = if error.is_data() { Code::BadValue } else { Code::BadSyntax };
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text).to_owned();
    Diagnostic::error(code, text).in_place(source.place(error.line() as u64, error.column() as u64, 1))
}

fn from_scenario(scenario: &Scenario, prefix: &Path) -> Result<Converted> {
    let prepared = prepare(scenario, &Watch::default())?;
    let classes = prepared.workload.classes.len();
    let durations: Vec<Vec<Time>> = (0..classes).map(|class| prepared.durations(class).to_vec()).collect();
    let dims: Vec<u32> = prepared.fabric.dims().iter().map(|dim| dim.size).collect();
    let mut summary = et::write(&prepared.workload, &durations, &dims, prefix)?;
    if let Placement::Npus(npus) = &scenario.placement
        && npus.iter().enumerate().any(|(rank, &npu)| rank as u32 != npu)
    {
        summary.warnings.push(
            Diagnostic::warning(
                Code::BadPlacement,
                "the placement is left out: ASTRA-sim runs rank i on NPU i",
            )
            .key("placement"),
        );
    }
    Ok(summary)
}

fn from_text(input: &Path, prefix: &Path, options: &Options) -> Result<Converted> {
    let product = options.dims.iter().try_fold(1u32, |product, &size| product.checked_mul(size));
    if options.dims.is_empty() || product.is_none_or(|ranks| ranks == 0) {
        return Err(Diagnostic::error(
            Code::MissingKey,
            "a text workload does not contain the number of ranks: give the sizes of the dimensions",
        )
        .at(input.display().to_string(), 0)
        .key("dims")
        .found(format!("{:?}", options.dims))
        .help("such as 2, 4, 4 for a 2x4x4 torus")
        .into());
    }
    if options.iterations == 0 {
        return Err(Diagnostic::error(Code::BadValue, "must be at least 1")
            .key("iterations")
            .found("0")
            .into());
    }
    let axis = |(index, &size): (usize, &u32)| FabricAxis {
        name: format!("dim{index}"),
        size,
        dim: u16::try_from(index).ok(),
    };
    let axes: Vec<FabricAxis> = options.dims.iter().enumerate().map(axis).collect();
    let workload = astra_text::workload(&TextWorkload::read(input)?, options.iterations, &axes)?;
    let time = |kind: &TaskKind| match kind {
        TaskKind::Compute(Work::Time(time)) => *time,
        _ => Time::ZERO,
    };
    let durations: Vec<Vec<Time>> = workload
        .classes
        .iter()
        .map(|graph| graph.tasks.iter().map(|task| time(&task.kind)).collect())
        .collect();
    et::write(&workload, &durations, &options.dims, prefix)
}
