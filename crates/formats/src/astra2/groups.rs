//! Communicator groups: `{"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}`.
//!
//! ASTRA-sim 2, `Workload.cc:initialize_comm_groups`, `CommunicatorGroup.cc`: a key is an integer above 0; the order of
//! the list is the order of the ring.

use super::json;
use super::source::Source;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};

/// The groups of a job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Groups {
    /// Ranks by the group's number, in ring order.
    pub members: BTreeMap<u32, Vec<u32>>,
    /// Where they were read.
    pub source: Source,
}

impl Groups {
    /// Whether ASTRA-sim ignores a file with this name: any path that contains `empty` means that there are no
    /// groups.
    pub fn ignored(path: &Path) -> bool {
        path.to_string_lossy().contains("empty")
    }
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(Source::read(path)?)
    }
    /// Reads a text.
    pub fn parse(source: Source) -> Result<Self> {
        let mut problems = Diagnostics::new();
        let mut members = BTreeMap::new();
        for (key, value) in json::object(&source, "communicator-group file")? {
            let place = source.place_at(key.start, key.length);
            let problem = |message: &str| {
                Diagnostic::error(Code::BadAstraFile, message).in_place(place.clone()).key(&key.name)
            };
            let id = match key.name.parse::<u32>() {
                Ok(id) if id > 0 && id <= i32::MAX as u32 && !key.name.starts_with('+') => id,
                _ => {
                    problems.push(
                        problem("a group's name must be a whole number above 0")
                            .found(&key.name)
                            .help("\"\" and \"0\" mean all ranks and need no entry"),
                    );
                    continue;
                }
            };
            match ranks(&value) {
                Ok(ranks) => {
                    if members.insert(id, ranks).is_some() {
                        problems.push(problem("two groups have the same number"));
                    }
                }
                Err(message) => {
                    problems.push(
                        problem(message)
                            .found(json::shown(&value))
                            .allowed("a list of ranks, such as [0, 1]"),
                    );
                }
            }
        }
        problems.into_result()?;
        Ok(Self { members, source })
    }
}

/// The ranks of a group.
fn ranks(value: &Value) -> std::result::Result<Vec<u32>, &'static str> {
    let list = value.as_array().ok_or("a group must be a list of ranks")?;
    if list.is_empty() {
        return Err("a group has no ranks");
    }
    let ranks: Vec<u32> = list
        .iter()
        .map(|rank| json::whole(rank).and_then(|rank| u32::try_from(rank).ok()))
        .collect::<Option<_>>()
        .ok_or("a rank of a group is not a whole number of 0 or more")?;
    if ranks.iter().collect::<BTreeSet<_>>().len() < ranks.len() {
        return Err("a group lists a rank twice");
    }
    Ok(ranks)
}
