//! Tokens separated by white space, each with its position.

use crate::astra2::Source;
use syncline_diagnostics::{Code, Diagnostic, Place};

/// The largest number that is accepted.
pub const MAX_NUMBER: u64 = i64::MAX as u64;

/// One token.
#[derive(Clone, Copy, Debug)]
pub struct Token<'a> {
    /// Its text.
    pub text: &'a str,
    /// Offset of its first byte.
    pub at: usize,
    /// Its line, from 1.
    pub line: u32,
}

/// The tokens of a file, in order.
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    source: &'a Source,
    at: usize,
    line: u32,
}

impl<'a> Tokens<'a> {
    /// All tokens of a file.
    pub const fn new(source: &'a Source) -> Self {
        Self { source, at: 0, line: 1 }
    }

    /// Returns the next token without consuming it.
    pub fn peek(&self) -> Option<Token<'a>> {
        self.clone().next()
    }

    /// The place of a token.
    pub fn place(&self, token: Token<'_>) -> Place {
        self.source.place_at(token.at, token.text.len())
    }

    /// An error about a token.
    pub fn wrong(&self, token: Token<'_>, key: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(Code::BadAstraText, message)
            .in_place(self.place(token))
            .key(key)
            .found(token.text.chars().take(60).collect::<String>())
    }

    /// Returns the next token, or an error that says that `what` was expected.
    pub fn need(&mut self, key: &str, what: &str) -> Result<Token<'a>, Box<Diagnostic>> {
        self.next().ok_or_else(|| Box::new(self.at_end("the file ends too early").key(key).allowed(what)))
    }

    /// An error about the end of the file.
    pub fn at_end(&self, message: &str) -> Diagnostic {
        Diagnostic::error(Code::BadAstraText, message)
            .at(self.source.file(), self.line)
            .found("the end of the file")
    }

    /// Returns the next token as a whole number of 0 or more.
    pub fn number(&mut self, key: &str) -> Result<u64, Box<Diagnostic>> {
        self.within(key, MAX_NUMBER)
    }

    /// Returns the next token as a 32-bit whole number.
    pub fn small(&mut self, key: &str) -> Result<u32, Box<Diagnostic>> {
        self.within(key, u32::MAX.into()).map(|number| number as u32)
    }

    fn within(&mut self, key: &str, most: u64) -> Result<u64, Box<Diagnostic>> {
        let token = self.need(key, "a whole number")?;
        token.text.parse().ok().filter(|&number| number <= most).ok_or_else(|| {
            let digits = token.text.strip_prefix('-').unwrap_or(token.text);
            let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let message = match (whole, digits.len() < token.text.len()) {
                (true, true) => "the number is negative",
                (true, false) => "the number is too large",
                (false, _) => "a whole number is expected here",
            };
            Box::new(self.wrong(token, key, message).allowed(format!("a whole number from 0 to {most}")))
        })
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let rest = self.source.text().get(self.at..)?;
        let skipped = rest.len() - rest.trim_start().len();
        self.line = self.line.saturating_add(rest[..skipped].matches('\n').count() as u32);
        let rest = &rest[skipped..];
        let at = self.at + skipped;
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at = at + length;
        (length > 0).then_some(Token { text: &rest[..length], at, line: self.line })
    }
}
