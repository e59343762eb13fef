//! The conversions, by input.

use crate::aside::Aside;
use crate::converted::Converted;
use crate::et;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_formats::astra2::Source;
use syncline_formats::msccl;
use syncline_plan::PlanFile;
use syncline_prepare::watch::Watch;
use syncline_prepare::{astra_text, jobs, prepare};
use syncline_scenario::{Placement, Scenario};
use syncline_units::Time;
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

/// Reads `input` and writes it to `output` in the other form. For traces, `output` is a prefix.
///
/// # Errors
/// Everything that is wrong with the input or that the other form cannot express; [`Code::CannotWrite`].
pub fn convert(input: &Path, output: &Path, options: &Options) -> Result<Converted> {
    let ending = input.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("xml") => {
            let (plan, warnings) = msccl::read(input)?;
            let text = serde_json::to_string_pretty(&plan).map_err(|error| {
                Diagnostic::error(Code::Internal, format!("a plan cannot be written: {error}"))
            })?;
            save(output, &format!("{text}\n"))?;
            Ok(Converted {
                from: "MSCCL program".to_owned(),
                to: "plan file".to_owned(),
                warnings,
                ..of_plan(&plan, output)
            })
        }
        Some("txt") => from_text(input, output, options),
        Some("json") => {
            let source = Source::read_at_most(input, MAX_JSON_BYTES)?;
            let value: serde_json::Value =
                serde_json::from_str(source.text()).map_err(|error| json(&source, &error))?;
            if value.get("seats").is_some() {
                let plan = PlanFile::from_json(source.text(), source.file())?;
                save(output, &msccl::write(&plan)?)?;
                let summary = of_plan(&plan, output);
                return Ok(Converted {
                    from: "plan file".to_owned(),
                    to: "MSCCL program".to_owned(),
                    ..summary
                });
            }
            if value.get("schema").is_some() {
                let scenario = serde_json::from_str(source.text()).map_err(|error| json(&source, &error))?;
                return from_scenario(&scenario, output);
            }
            let neither = "the file is neither a resolved scenario nor a plan";
            Err(Diagnostic::error(Code::BadValue, neither)
                .at(source.file(), 1)
                .allowed("an object with the key `schema` (a scenario) or `seats` (a plan)")
                .into())
        }
        _ => Err(Diagnostic::error(Code::Unreadable, "cannot convert a file with this ending")
            .at(input.display().to_string(), 0)
            .found(ending.map_or_else(|| "no ending".to_owned(), |ending| format!(".{ending}")))
            .allowed(".json (scenario, plan), .txt (ASTRA-sim 1 workload), .xml (MSCCL program)")
            .into()),
    }
}

fn json(source: &Source, error: &serde_json::Error) -> Diagnostic {
    let code = if error.is_data() { Code::BadValue } else { Code::BadSyntax };
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text).to_owned();
    Diagnostic::error(code, text).in_place(source.place(error.line() as u64, error.column() as u64, 1))
}

fn of_plan(plan: &PlanFile, output: &Path) -> Converted {
    let streams = plan.seats.iter().flat_map(|seat| &seat.streams);
    Converted {
        ranks: plan.ranks,
        nodes: streams.map(|stream| stream.ops.len() as u64).sum(),
        files: vec![output.to_owned()],
        ..Converted::default()
    }
}

fn from_scenario(scenario: &Scenario, output: &Path) -> Result<Converted> {
    let prepared = prepare(scenario, &Watch::default())?;
    let classes = prepared.workload.classes.len();
    let durations: Vec<Vec<Time>> = (0..classes).map(|class| prepared.durations(class).to_vec()).collect();
    let dims: Vec<u32> = prepared.fabric.dims().iter().map(|dim| dim.size).collect();
    let mut summary = et::write(&prepared.workload, &durations, &dims, output)?;
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
    summary.from = "scenario".to_owned();
    Ok(summary)
}

fn from_text(input: &Path, output: &Path, options: &Options) -> Result<Converted> {
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
    let axis = |(index, &size): (usize, &u32)| jobs::Axis {
        name: format!("dim{index}"),
        size,
        dim: u16::try_from(index).ok(),
    };
    let axes: Vec<jobs::Axis> = options.dims.iter().enumerate().map(axis).collect();
    let workload = astra_text::workload(&input.display().to_string(), options.iterations, &axes)?;
    let time = |kind: &TaskKind| match kind {
        TaskKind::Compute(Work::Time(time)) => *time,
        _ => Time::ZERO,
    };
    let durations: Vec<Vec<Time>> = workload
        .classes
        .iter()
        .map(|graph| graph.tasks.iter().map(|task| time(&task.kind)).collect())
        .collect();
    let summary = et::write(&workload, &durations, &options.dims, output)?;
    Ok(Converted { from: "ASTRA-sim 1 workload".to_owned(), ..summary })
}

/// Writes a text file, and makes its folder if needed.
fn save(path: &Path, text: &str) -> Result<()> {
    let mut aside = Aside::default();
    aside.write(path, text.as_bytes())?;
    aside.commit()
}
