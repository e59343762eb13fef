//! Renders diagnostics for people: the code and the sentence, the place with its line, what was found and what is
//! allowed, the remedy.

use crate::{Diagnostic, Severity};
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Renders without colour.
pub fn plain(diagnostic: &Diagnostic) -> String {
    with(diagnostic, &Renderer::plain())
}

/// Renders with terminal colours.
pub fn coloured(diagnostic: &Diagnostic) -> String {
    with(diagnostic, &Renderer::styled())
}

fn with(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(&diagnostic.message).id(diagnostic.code.id());
    let (label, allowed) = label(diagnostic);
    let help = help(diagnostic);
    let mut group = title.elements(None::<annotate_snippets::Message<'_>>);
    let span = diagnostic.place.as_ref().map(|place| {
        let start = place
            .text
            .char_indices()
            .nth((place.column as usize).saturating_sub(1))
            .map_or(place.text.trim_end().len(), |(at, _)| at);
        let rest = &place.text[start..];
        let width = if place.width == 0 { rest.trim_end().chars().count() } else { place.width as usize };
        let end = rest.char_indices().nth(width).map_or(place.text.len(), |(at, _)| start + at);
        start..end.max(start)
    });
    let mut unplaced = true;
    if let Some(place) = &diagnostic.place {
        if place.line > 0 && !place.text.is_empty() {
            unplaced = false;
            let annotation =
                AnnotationKind::Primary.span(span.expect("there is a place")).label(label.clone());
            group = group.element(
                Snippet::source(place.text.as_str())
                    .path(place.file.as_str())
                    .line_start(place.line as usize)
                    .annotation(annotation),
            );
        } else if !place.file.is_empty() {
            let mut origin = annotate_snippets::Origin::path(place.file.as_str());
            if place.line > 0 {
                origin = origin.line(place.line as usize);
            }
            group = group.element(origin);
        }
    }
    if unplaced && !label.is_empty() {
        group = group.element(Level::NOTE.message(label));
    }
    if let Some(allowed) = allowed {
        group = group.element(Level::NOTE.message(folded(&allowed)));
    }
    if let (false, Some(key)) = (unplaced, &diagnostic.key) {
        group = group.element(Level::NOTE.message(format!("key `{key}`")));
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    if let Some(help) = help {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// Longest label beside a line of a file, in characters.
const LABEL: usize = 80;
/// Width of a note, in columns.
const NOTE: usize = 68;

/// The label with what was found and what is allowed. If that would be too long, what is allowed is returned
/// separately.
fn label(diagnostic: &Diagnostic) -> (String, Option<String>) {
    let mut parts = Vec::new();
    if let (Some(key), true) = (&diagnostic.key, diagnostic.place.as_ref().is_none_or(|p| p.text.is_empty()))
    {
        parts.push(format!("`{key}`"));
    }
    if let Some(found) = &diagnostic.found {
        parts.push(format!("found `{found}`"));
    }
    let Some(allowed) = &diagnostic.allowed else { return (parts.join(", "), None) };
    let allowed = format!("allowed: {allowed}");
    let length: usize = parts.iter().chain([&allowed]).map(|part| part.chars().count() + 2).sum();
    if length > LABEL {
        return (parts.join(", "), Some(allowed));
    }
    parts.push(allowed);
    (parts.join(", "), None)
}

/// `text` wrapped to [`NOTE`] columns, between words.
fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= NOTE {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn help(diagnostic: &Diagnostic) -> Option<String> {
    match (&diagnostic.nearest, &diagnostic.help) {
        (Some(near), Some(help)) => Some(format!("did you mean `{near}`? {help}")),
        (Some(near), None) => Some(format!("did you mean `{near}`?")),
        (None, help) => help.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;
    use crate::{Code, Diagnostic, Place};

    #[test]
    fn a_place_in_a_text_file_is_shown_with_its_line() {
        let place =
            Place { file: "job.yaml".into(), line: 3, column: 5, width: 4, text: "    rtae: 25GB/s".into() };
        let text = plain(
            &Diagnostic::error(Code::UnknownKey, "unknown key")
                .in_place(place)
                .key("fabric.dims.0.rtae")
                .one_of("rtae", ["rate", "latency"]),
        );
        assert_eq!(
            text,
            "error[SL0101]: unknown key\n --> job.yaml:3:5\n  |\n3 |     rtae: 25GB/s\n  |     ^^^^ found `rtae`, allowed: rate, latency\n  |\n  = note: key `fabric.dims.0.rtae`\n  = help: did you mean `rate`?"
        );
    }

    #[test]
    fn a_long_list_of_what_is_allowed_is_folded() {
        let names =
            ["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "barrier"];
        let text =
            plain(&Diagnostic::error(Code::UnknownKey, "unknown").one_of("gather", names).at("a.yaml", 0));
        assert!(text.contains(
            "= note: allowed: all_reduce, reduce_scatter, all_gather, all_to_all,\n         broadcast, reduce, barrier"
        ), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_place_without_text_or_past_the_end_of_the_line_is_shown() {
        let text = plain(&Diagnostic::error(Code::UnknownKey, "no").at("w.3.et", 0).key("rank 3 node 17"));
        assert!(text.contains("w.3.et") && text.contains("rank 3 node 17"), "{text}");
        let place = Place { file: "a".into(), line: 1, column: 99, width: 9, text: "x".into() };
        assert!(plain(&Diagnostic::error(Code::UnknownKey, "no").in_place(place)).contains("a:1"));
    }
}
