//! The files of workloads, each of which is read once, however often its job is prepared.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_formats::astra1::TextWorkload;
use syncline_formats::astra2::Groups;
use syncline_formats::chakra::Traces;
use syncline_formats::flexnet::FlexNetGraph;
use syncline_workload::operators::OperatorFile;

/// The files that were read, by path. A file that changes later is not read again.
#[derive(Debug, Default)]
pub struct Files {
    operators: Kept<String, OperatorFile>,
    task_graphs: Kept<String, FlexNetGraph>,
    texts: Kept<String, TextWorkload>,
    groups: Kept<String, Groups>,
    /// By prefix and number of ranks.
    traces: Kept<(String, u32), Traces>,
}

/// What was read, by name.
type Kept<K, V> = Mutex<BTreeMap<K, Arc<V>>>;

impl Files {
    /// A model of operators, and how it is divided among servers.
    pub(crate) fn operators(&self, file: &str) -> Result<Arc<OperatorFile>> {
        once(&self.operators, file.to_owned(), || {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let reason = syncline_diagnostics::reason(&error);
                Diagnostic::error(Code::Unreadable, format!("the file of operators cannot be read: {reason}"))
                    .key("workload.operators")
                    .found(file)
            })?;
            OperatorFile::read(&text, file)
        })
    }

    /// A task graph of FlexNet.
    pub(crate) fn task_graph(&self, file: &str) -> Result<Arc<FlexNetGraph>> {
        once(&self.task_graphs, file.to_owned(), || FlexNetGraph::read(Path::new(file)))
    }

    /// A workload of ASTRA-sim 1.
    pub(crate) fn text(&self, file: &str) -> Result<Arc<TextWorkload>> {
        once(&self.texts, file.to_owned(), || TextWorkload::read(Path::new(file)))
    }

    /// A file of communicator groups.
    pub(crate) fn groups(&self, file: &str) -> Result<Arc<Groups>> {
        once(&self.groups, file.to_owned(), || Groups::read(Path::new(file)))
    }

    /// The traces of `ranks` ranks, read by `read` unless they are known.
    pub(crate) fn traces(
        &self,
        prefix: &str,
        ranks: u32,
        read: impl FnOnce() -> Result<Traces>,
    ) -> Result<Arc<Traces>> {
        once(&self.traces, (prefix.to_owned(), ranks), read)
    }
}

/// What is kept as `name`; if nothing is, keeps what `read` returns.
fn once<K: Ord, V>(kept: &Kept<K, V>, name: K, read: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
    // A panic while reading leaves nothing half-written in the map.
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.get(&name) {
        return Ok(Arc::clone(known));
    }
    let found = Arc::new(read()?);
    kept.insert(name, Arc::clone(&found));
    Ok(found)
}
