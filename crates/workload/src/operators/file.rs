//! A model and its strategy as a file.

use super::graph::OperatorGraph;
use super::strategy::Strategy;
use serde::{Deserialize, Serialize};
use syncline_diagnostics::{Code, Diagnostic, Result};

/// The version of the form.
pub const SCHEMA: &str = "syncline-operators/1";

/// A model, the servers that it is trained on, and how it is divided among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorFile {
    /// [`SCHEMA`].
    pub schema: String,
    /// Number of servers.
    pub servers: u32,
    /// The operators.
    pub graph: OperatorGraph,
    /// The division and servers of each.
    pub strategy: Strategy,
}

impl OperatorFile {
    /// Reads and checks a file's text. `file` is its path, for messages.
    ///
    /// # Errors
    /// Text that is not such a file, with the line; what is impossible about the model or the strategy.
    pub fn read(text: &str, file: &str) -> Result<Self> {
        let read: Self = serde_json::from_str(text).map_err(|error| {
            Diagnostic::error(Code::BadSyntax, format!("not a file of operators: {error}"))
                .key("workload.operators")
                .found(file)
                .help("`syncline design joint` writes such files")
        })?;
        if read.schema != SCHEMA {
            return Err(Diagnostic::error(Code::BadValue, "a file of operators has another version")
                .key("workload.operators")
                .found(read.schema)
                .allowed(SCHEMA)
                .note(format!("in {file}"))
                .into());
        }
        let placed = |mut error: syncline_diagnostics::Diagnostics| {
            error.0.iter_mut().for_each(|error| error.notes.push(format!("in {file}")));
            error
        };
        read.graph.check(read.servers).map_err(placed)?;
        read.strategy.check(&read.graph, read.servers).map_err(placed)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "schema": "syncline-operators/1",
        "servers": 2,
        "graph": { "samples": 4, "operators": [{ "name": "a", "output": "10B", "choices": [{ "samples": 2 }] }] },
        "strategy": [{ "choice": 0, "servers": [1, 0] }]
    }"#;

    #[test]
    fn an_operator_file_reads_back_unchanged() {
        let file = OperatorFile::read(TEXT, "job.json").unwrap();
        assert_eq!(file.strategy.placed[0].servers, [1, 0]);
        assert_eq!(OperatorFile::read(&serde_json::to_string(&file).unwrap(), "job.json").unwrap(), file);
    }

    #[test]
    fn errors_name_the_file() {
        let error = |from: &str, to: &str| {
            OperatorFile::read(&TEXT.replace(from, to), "job.json").unwrap_err().to_string()
        };
        for (from, to, expected) in [
            ("operators/1", "operators/2", "another version"),
            ("\"name\"", "\"nmae\"", "nmae"),
            ("[1, 0]", "[1, 2]", "server that does not exist"),
            ("\"samples\": 4", "\"samples\": 5", "do not divide evenly"),
        ] {
            let text = error(from, to);
            assert!(text.contains(expected) && text.contains("job.json"), "{text}");
        }
    }
}
