//! A user's own plan: a plan file, or an MSCCL program, proved when it is read.

use std::path::Path;
use syncline_diagnostics::Result;
use syncline_formats::astra2::Source;
use syncline_plan::custom::{Custom, MOST_BYTES, PlanFile};

/// Reads a plan and proves that it computes its collective. A name that ends in `.xml` is an MSCCL program.
///
/// # Errors
/// A file that cannot be read or is malformed; a plan that does not compute its collective: which rank, which block.
pub(crate) fn read(file: &str) -> Result<(PlanFile, Custom)> {
    let plan = if file.ends_with(".xml") {
        // What MSCCL's runtimes ignore is told where the program is converted.
        syncline_formats::msccl::read(Path::new(file))?.0
    } else {
        from_json(Path::new(file))?
    };
    let custom = Custom::new(&plan).map_err(|mut errors| {
        for error in errors.0.iter_mut().filter(|error| error.place.is_none()) {
            *error = error.clone().at(file, 0);
        }
        errors
    })?;
    Ok((plan, custom))
}

/// A plan file, not proved yet.
///
/// # Errors
/// A file that cannot be read, is larger than [`MOST_BYTES`], or is no plan.
pub(crate) fn from_json(file: &Path) -> Result<PlanFile> {
    let source = Source::read_at_most(file, MOST_BYTES)?;
    PlanFile::from_json(source.text(), source.file())
}

/// A plan file as the text of an MSCCL program.
///
/// # Errors
/// A file that cannot be read or is no plan; a plan that is wrong, or that MSCCL cannot express.
pub fn plan_to_msccl(file: &Path) -> Result<String> {
    syncline_formats::msccl::write(&from_json(file)?)
}

/// A proved plan as the JSON of a plan file.
///
/// # Errors
/// As for a scenario's own plans.
pub fn plan_file(file: &str) -> Result<String> {
    let (plan, _) = read(file)?;
    Ok(serde_json::to_string_pretty(&plan).expect("a plan file is plain data"))
}
