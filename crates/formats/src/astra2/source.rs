//! A file's text and the positions of its keys, so that an error found much later can still point at its line.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Place, Result};

/// The largest configuration file that is read, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;

/// A file's text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Source {
    file: String,
    text: String,
}

impl Source {
    /// A text with the name that errors use for it.
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        // Some editors write a byte order mark, which has no meaning in UTF-8.
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        Self { file: file.into(), text }
    }
    /// Reads a configuration file of at most [`MAX_BYTES`].
    ///
    /// # Errors
    /// As [`Self::read_at_most`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_at_most(path, MAX_BYTES)
    }
    /// Reads a file of at most `limit` bytes. Of a larger file, nothing is kept.
    ///
    /// # Errors
    /// `Unreadable` if it cannot be read, is larger, or is not UTF-8 text.
    pub fn read_at_most(path: &Path, limit: u64) -> Result<Self> {
        let file = path.display().to_string();
        let unreadable = |problem: String| {
            Diagnostic::error(Code::Unreadable, format!("the file cannot be read: {problem}")).at(&file, 0)
        };
        let broken = |error: io::Error| unreadable(syncline_diagnostics::reason(&error));
        let too_large = || unreadable(format!("it is larger than {} MiB", limit >> 20));
        let input = File::open(path).map_err(broken)?;
        let length = input.metadata().map_err(broken)?.len();
        if length > limit {
            return Err(too_large().into());
        }
        // Something that is not a regular file, such as a pipe, does not report its length.
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        input.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(broken)?;
        if bytes.len() as u64 > limit {
            return Err(too_large().into());
        }
        let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
        Ok(Self::new(file, text))
    }
    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }
    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The place of `width` characters at line and column, both from 1. Line 0 means the whole file.
    pub fn place(&self, line: u64, column: u64, width: usize) -> Place {
        let number = |value: u64| u32::try_from(value).unwrap_or(0);
        let text = line
            .checked_sub(1)
            .and_then(|before| self.text.lines().nth(usize::try_from(before).ok()?))
            .unwrap_or("");
        // A line that is wider than a screen is not useful.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_as_large_as_the_limit_but_no_larger() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, vec![b'x'; 2 << 20]).unwrap();
        assert_eq!(Source::read_at_most(&path, 2 << 20).unwrap().text().len(), 2 << 20);
        std::fs::write(&path, vec![b'x'; (2 << 20) + 1]).unwrap();
        let error = Source::read_at_most(&path, 2 << 20).unwrap_err();
        assert!(error.to_string().contains("it is larger than 2 MiB"), "{error}");
        // A sparse file: it occupies no disk space, but its content would need far too much memory.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(Source::read(&path).unwrap_err().to_string().contains("larger than 64 MiB"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn endless_files_are_refused() {
        let error = Source::read_at_most(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
        assert!(Source::read(Path::new("/")).unwrap_err().to_string().contains("cannot be read"));
    }
}
