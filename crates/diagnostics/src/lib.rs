//! One data type for errors and warnings, rendered as text and as JSON.
//!
//! - [`Diagnostic`]: a code, a sentence, the place, what was found, what is allowed, the nearest valid name and a
//!   remedy;
//! - [`Diagnostics`]: several of them; the error type of every function that reads a user's input;
//! - [`code`]: the list of codes with their exit status and explanation;
//! - [`nearest`]: the valid name closest to a misspelt one;
//! - [`render`]: the form for terminals.

pub mod code;
mod nearest;
pub mod render;

pub use code::{Code, ExitStatus};
pub use nearest::nearest;

use serde::{Deserialize, Serialize};
use std::fmt;

/// How severe a diagnostic is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The run goes on; the user should know.
    Warning,
    /// The run cannot go on.
    Error,
}

/// The operating system's text for an I/O error, without the error number: `no such file or directory`.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" (os error ").map_or(text.as_str(), |(text, _)| text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The file as the user named it; empty for the command line.
    pub file: String,
    /// Line, from 1; 0 where the file has no lines (binary files).
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
    /// Number of characters to underline; 0 where unknown.
    pub width: u32,
    /// The text of the line, for display.
    pub text: String,
}

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Kind of problem.
    pub code: Code,
    /// Severity.
    pub severity: Severity,
    /// One sentence that states the broken rule, without a full stop.
    pub message: String,
    /// A word for programs that says which of the code's problems this is, such as `deadline`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The place in the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The key or name concerned, such as `fabric.dims.2.rate`, `rank 3 node 17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<String>,
    /// The valid name nearest to what was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Further facts, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// Returns an error of kind `code`.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            message: message.into(),
            kind: None,
            place: None,
            key: None,
            found: None,
            allowed: None,
            nearest: None,
            help: None,
            notes: Vec::new(),
        }
    }
    /// Returns a warning of kind `code`.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }
    /// Sets which of the code's problems this is.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = Some(kind.into());
        self
    }
    /// Sets the file and the line; `line` is 0 where the file has none.
    #[must_use]
    pub fn at(mut self, file: impl Into<String>, line: u32) -> Self {
        self.place = Some(Place { file: file.into(), line, ..Place::default() });
        self
    }
    /// Sets the place.
    #[must_use]
    pub fn in_place(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }
    /// Sets the key, rank or node concerned.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
    /// Sets what was found.
    #[must_use]
    pub fn found(mut self, found: impl Into<String>) -> Self {
        self.found = Some(found.into());
        self
    }
    /// Sets what is allowed.
    #[must_use]
    pub fn allowed(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = Some(allowed.into());
        self
    }
    /// Lists the allowed names, and suggests the one nearest to `found`.
    #[must_use]
    pub fn one_of<'a>(mut self, found: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        self.nearest = nearest(found, names.iter().copied()).map(str::to_owned);
        self.found = Some(found.to_owned());
        self.allowed = Some(names.join(", "));
        self
    }
    /// Sets the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&render::plain(self))
    }
}

/// One or more diagnostics: what a reader or a check returns when it refuses its input.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// No diagnostics.
    pub const fn new() -> Self {
        Self(Vec::new())
    }
    /// Adds a diagnostic.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }
    /// Adds all of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }
    /// Whether any diagnostic is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|d| d.severity == Severity::Error)
    }
    /// Returns `Err(self)` if any diagnostic is an error, else the warnings.
    pub fn into_result(self) -> std::result::Result<Self, Self> {
        if self.has_errors() { Err(self) } else { Ok(self) }
    }
    /// The exit status of the first error, or `Done`.
    pub fn exit(&self) -> ExitStatus {
        self.0.iter().find(|d| d.severity == Severity::Error).map_or(ExitStatus::Done, |d| d.code.exit())
    }
    /// The diagnostics as a JSON array.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("diagnostics are plain data")
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.0 {
            writeln!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The result of reading or checking a user's input.
pub type Result<T> = std::result::Result<T, Diagnostics>;
