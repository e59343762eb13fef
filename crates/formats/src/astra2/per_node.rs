//! The custom algorithm of each collective: a YAML mapping from node ids to prefixes of traces.
//! ASTRA-sim 2, `CollectiveImplLookup.cc:parse_per_node_yaml_file`.

use super::source::Source;
use std::collections::BTreeMap;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Result};

/// Reads a file.
///
/// # Errors
/// `Unreadable`, or `BadAstraFile` if it is not a mapping from whole numbers to texts.
pub(super) fn read(path: &Path) -> Result<BTreeMap<u64, String>> {
    parse(&Source::read(path)?)
}

fn parse(source: &Source) -> Result<BTreeMap<u64, String>> {
    serde_saphyr::from_str(source.text()).map_err(|error: serde_saphyr::Error| {
        let place = error
            .location()
            .map_or_else(|| source.place(0, 0, 0), |at| source.place(at.line(), at.column(), 1));
        let text = error.without_snippet().to_string();
        Diagnostic::error(
            Code::BadAstraFile,
            "the file of per-node algorithms is not a mapping from node ids to prefixes of traces",
        )
        .in_place(place)
        .note(text.lines().next().unwrap_or_default())
        .help("write one line for each node, such as `12: folder/ring`")
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ids_map_to_file_prefixes() {
        let read = |text: &str| parse(&Source::new("nodes.yaml", text));
        let nodes = read("12: folder/ring\n7: 'tree'\n").unwrap();
        assert_eq!(nodes, BTreeMap::from([(7, "tree".to_owned()), (12, "folder/ring".to_owned())]));
        for (text, line) in [("12: [1]\n", 1), ("1: a\nx: b\n", 2), ("- 1\n", 1), ("1: a\n1: b\n", 2)] {
            let error = read(text).unwrap_err().0.remove(0);
            assert_eq!(error.code, Code::BadAstraFile, "{text}: {error}");
            assert_eq!(error.place.unwrap().line, line, "{text}");
        }
    }
}
