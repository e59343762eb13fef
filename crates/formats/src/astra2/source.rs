//! A file's text and where its keys are, so that an error found much later can still point at its line.

use std::fs;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Place, Result};

/// The largest configuration file that is read.
pub const MAX_BYTES: u64 = 64 << 20;

/// A file's text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Source {
    file: String,
    text: String,
}

impl Source {
    /// A text that goes by that name in errors.
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self { file: file.into(), text: text.into() }
    }
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let unreadable = |problem: String| {
            Diagnostic::error(Code::Unreadable, format!("the file cannot be read: {problem}")).at(&file, 0)
        };
        let length = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
        if length > MAX_BYTES {
            return Err(unreadable("it is larger than 64 MiB".to_owned()).into());
        }
        let bytes = fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
        Ok(Self { file, text })
    }
    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The place of `width` characters at line and column, both from 1; line 0 means the file as a whole.
    pub fn place(&self, line: u64, column: u64, width: usize) -> Place {
        let number = |value: u64| u32::try_from(value).unwrap_or(0);
        let text = line
            .checked_sub(1)
            .and_then(|before| self.text.lines().nth(usize::try_from(before).ok()?))
            .unwrap_or("");
        // A line that is longer than a screen is no help.
        let text = if text.len() > 400 { "" } else { text };
        Place {
            file: self.file.clone(),
            line: number(line),
            column: number(column),
            width: u32::try_from(width).unwrap_or(0),
            text: text.to_owned(),
        }
    }
    /// The place of the bytes `from..from + length`.
    pub fn place_at(&self, from: usize, length: usize) -> Place {
        let before = self.text.get(..from).unwrap_or(&self.text);
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() as u64 + 1;
        let width = self.text.get(from..from + length).map_or(length, |text| text.chars().count());
        self.place(line, column, width)
    }
    /// The place of a key of the outermost object of a JSON text; the whole file where it has none of that name.
    pub fn json_key(&self, key: &str) -> Place {
        super::json::keys(&self.text)
            .into_iter()
            .find(|found| found.name == key)
            .map_or_else(|| self.place(0, 0, 0), |found| self.place_at(found.start, found.length))
    }
}
