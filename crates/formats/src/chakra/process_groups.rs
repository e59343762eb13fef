//! Process groups of PyTorch. A `METADATA_NODE` has them as JSON in the values of its inputs, in a list with one
//! string: `['[{"pg_name": "0", "ranks": [0, 1]}]']`. A group without ranks consists of all ranks. Sources: PyTorch,
//! `ExecutionTraceObserver`, node `## process_group:init ##`; ASTRA-sim 2, `Workload.cc:issue_pytorch_pg_metadata`.

use serde::Deserialize;
use serde_json::Value;
use syncline_diagnostics::{Code, Diagnostic};

/// A process group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessGroup {
    /// The name, as in `pg_name` of a collective.
    pub name: String,
    /// Its ranks in ring order; empty means all ranks of the job.
    pub ranks: Vec<u32>,
}

/// A group as PyTorch writes it; other fields are ignored.
#[derive(Deserialize)]
struct Written {
    pg_name: Value,
    ranks: Vec<u32>,
}

/// Most groups of a node, and most ranks of a group.
const MOST: usize = 1 << 22;

/// The groups in a node's values; empty if the node describes something else.
///
/// # Errors
/// `ChakraNode` if the values are a list of groups that cannot be read.
pub(super) fn read(values: &str) -> Result<Vec<ProcessGroup>, Box<Diagnostic>> {
    if !values.contains("pg_name") {
        return Ok(Vec::new());
    }
    let wrong = |why: &str| {
        let found: String = values.chars().take(60).collect();
        Box::new(
            Diagnostic::error(
                Code::ChakraNode,
                format!("the process groups of a METADATA_NODE cannot be read: {why}"),
            )
            .found(found)
            .allowed(r#"['[{"pg_name": "1", "ranks": [0, 1]}, ...]']"#),
        )
    };
    let list = list_in(values).ok_or_else(|| wrong("the values are not a JSON list"))?;
    let written: Vec<Written> = serde_json::from_value(list).map_err(|error| wrong(&error.to_string()))?;
    let mut groups = Vec::with_capacity(written.len());
    for Written { pg_name, ranks } in written {
        let name = match pg_name {
            Value::String(name) => name,
            Value::Number(number) => number.to_string(),
            _ => return Err(wrong("a pg_name is neither a string nor a number")),
        };
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong(&format!("the group {name} lists a rank twice")));
        }
        if groups.len() >= MOST || ranks.len() > MOST {
            return Err(wrong("there are too many groups or ranks"));
        }
        groups.push(ProcessGroup { name, ranks });
    }
    Ok(groups)
}

/// The list of groups: the values themselves, or the string in a list with one entry, with Python's or JSON's quotes.
fn list_in(values: &str) -> Option<Value> {
    let list = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_array);
    let values = values.trim();
    match list(values) {
        Some(Value::Array(items)) => match &items[..] {
            [Value::String(text)] => list(text),
            _ => Some(Value::Array(items)),
        },
        _ => {
            let inner = values.strip_prefix('[')?.strip_suffix(']')?.trim();
            let inner = inner.strip_prefix(['\'', '"'])?.strip_suffix(['\'', '"'])?;
            list(inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(values: &str) -> Vec<(String, Vec<u32>)> {
        read(values).unwrap().into_iter().map(|group| (group.name, group.ranks)).collect()
    }

    #[test]
    fn groups_are_read_with_any_quotes() {
        let plain = r#"[{"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4, "group_count": 2}, {"pg_name": 1, "ranks": [2, 0]}]"#;
        let expected = vec![("0".to_owned(), vec![]), ("1".to_owned(), vec![2, 0])];
        let json = serde_json::to_string(&[plain]).unwrap();
        for text in [plain.to_owned(), format!("['{plain}']"), format!("[\"{plain}\"]"), json] {
            assert_eq!(names(&text), expected, "{text}");
        }
        assert_eq!(names(""), []);
        assert_eq!(names("[1, 2]"), []);
    }

    #[test]
    fn errors_say_what_is_wrong_with_groups() {
        for (text, why) in [
            ("pg_name", "not a JSON list"),
            (r#"[{"pg_name": "1"}]"#, "missing field `ranks`"),
            (r#"[{"pg_name": ["1"], "ranks": []}]"#, "neither a string nor a number"),
            (r#"[{"pg_name": "1", "ranks": [3, 3]}]"#, "lists a rank twice"),
            (r#"[{"pg_name": "1", "ranks": [-3]}]"#, "invalid value"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.message.contains(why), "{text}: {error}");
        }
    }
}
