//! A user's own plan: a plan file, or an MSCCL program, proved when it is read.

use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_plan::custom::{Custom, PlanFile};

/// Reads a plan and proves that it computes its collective. A name that ends in `.xml` is an MSCCL program.
///
/// # Errors
/// A file that cannot be read or is malformed; a plan that does not compute its collective: which rank, which block.
pub(crate) fn read(file: &str) -> Result<(PlanFile, Custom)> {
    let plan = if file.ends_with(".xml") {
        syncline_formats::msccl::read(Path::new(file))?
    } else {
        let text = std::fs::read_to_string(file).map_err(|error| {
            Diagnostic::error(Code::Unreadable, "the plan cannot be read")
                .at(file, 0)
                .found(error.to_string())
        })?;
        PlanFile::from_json(&text, file)?
    };
    let custom = Custom::new(&plan).map_err(|mut errors| {
        for error in errors.0.iter_mut().filter(|error| error.place.is_none()) {
            *error = error.clone().at(file, 0);
        }
        errors
    })?;
    Ok((plan, custom))
}

/// A proved plan as the JSON of a plan file.
///
/// # Errors
/// As for a scenario's own plans.
pub fn plan_file(file: &str) -> Result<String> {
    let (plan, _) = read(file)?;
    Ok(serde_json::to_string_pretty(&plan).expect("a plan file is plain data"))
}
