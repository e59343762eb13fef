//! Events of a YAML document, each with its line and column. Python checks which keys and values are valid.

use granit_parser::{Event, Parser, ScalarStyle, Span};
use pyo3::prelude::*;

/// An event as Python gets it, in this order: kind (`document`, `alias`, `scalar`, `mapping`, `list`, `end`); first
/// line and column, last line and column (all from 1, the last column one past the end); the text of a scalar; whether
/// a scalar is plain; the number of the anchor that the event defines or repeats (0 for none and for an unresolved
/// alias); whether it has a tag.
type YamlEvent = (&'static str, usize, usize, usize, usize, Option<String>, bool, usize, bool);

/// A syntax error: line and column, from 1, and why parsing stopped there.
type Stop = (usize, usize, String);

/// Returns the first `limit` events of `text`, and the syntax error if there is one before that.
#[pyfunction]
fn yaml_events(text: &str, limit: usize) -> (Vec<YamlEvent>, Option<Stop>) {
    // Python limits the nesting depth, together with the other limits of a file; this only bounds the parser's state.
    let options = granit_parser::options! {
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: 100_000,
        block_nesting_limit: 100_000,
    };
    let mut events = Vec::new();
    for next in Parser::new_from_str_with_options(text, options) {
        match next {
            Ok((event, span)) => events.extend(forward(event, span)),
            Err(error) => {
                let mark = error.marker();
                return (events, Some((mark.line(), mark.col() + 1, error.info())));
            }
        }
        if events.len() >= limit {
            break;
        }
    }
    (events, None)
}

/// Converts an event for Python; `None` for kinds that carry no content, such as the end of the stream.
fn forward(event: Event<'_>, span: Span) -> Option<YamlEvent> {
    let (kind, text, plain, anchor, tagged) = match event {
        Event::DocumentStart(..) => ("document", None, false, 0, false),
        Event::Alias(anchor) => ("alias", None, false, anchor, false),
        Event::UnresolvedAlias(_) => ("alias", None, false, 0, false),
        Event::Scalar(text, style, anchor, tag) => {
            ("scalar", Some(text.into_owned()), style == ScalarStyle::Plain, anchor, tag.is_some())
        }
        Event::MappingStart(_, anchor, tag) => ("mapping", None, false, anchor, tag.is_some()),
        Event::SequenceStart(_, anchor, tag) => ("list", None, false, anchor, tag.is_some()),
        Event::MappingEnd | Event::SequenceEnd => ("end", None, false, 0, false),
        _ => return None,
    };
    let (start, end) = (span.start, span.end);
    Some((kind, start.line(), start.col() + 1, end.line(), end.col() + 1, text, plain, anchor, tagged))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(yaml_events, module)?)
}
