//! Plans that users wrote, as plan files or MSCCL programs.

use crate::astra2::Source;
use std::path::Path;
use syncline_diagnostics::Result;
use syncline_plan::custom::{Custom, MAX_BYTES, PlanFile};

/// Reads a plan and proves that it computes its collective. A file whose name ends in `.xml` is an MSCCL program.
///
/// # Errors
/// A file that cannot be read or is malformed; a plan that does not compute its collective (the error names rank and
/// block).
pub fn read(file: &str) -> Result<(PlanFile, Custom)> {
    let plan = if file.ends_with(".xml") {
        // Drop the warnings about attributes that MSCCL's runtimes ignore. Converting the program reports them.
        crate::msccl::read(Path::new(file))?.0
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

/// Reads a plan file without proving it.
///
/// # Errors
/// A file that cannot be read, is larger than [`MAX_BYTES`], or is not a plan.
fn from_json(file: &Path) -> Result<PlanFile> {
    let source = Source::read_at_most(file, MAX_BYTES)?;
    PlanFile::from_json(source.text(), source.file())
}

/// Reads a plan file and returns it as the text of an MSCCL program.
///
/// # Errors
/// A file that cannot be read or is not a plan; a plan that is wrong, or that MSCCL cannot express.
pub fn to_msccl(file: &Path) -> Result<String> {
    crate::msccl::write(&from_json(file)?)
}

/// Reads a plan file or an MSCCL program, proves it, and returns it as the JSON of a plan file.
///
/// # Errors
/// As for a scenario's own plans.
pub fn proved_json(file: &str) -> Result<String> {
    let (plan, _) = read(file)?;
    Ok(serde_json::to_string_pretty(&plan).expect("a plan file is plain data"))
}
