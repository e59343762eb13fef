//! The outermost object of a JSON file, with the position of every key.

use super::source::Source;
use serde_json::Value;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Place, Result};

/// A key of the outermost object and its position, including the quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAt {
    /// The key.
    pub name: String,
    /// Offset of its opening quote.
    pub start: usize,
    /// Length in bytes, including both quotes.
    pub length: usize,
}

/// The keys of the outermost object of a well-formed JSON text, in order; empty for other texts.
pub fn keys(text: &str) -> Vec<KeyAt> {
    let bytes = text.as_bytes();
    let mut keys = Vec::new();
    let (mut depth, mut at) = (0usize, 0);
    let mut expects_key = false;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let start = at;
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                let end = (at + 1).min(bytes.len());
                if depth == 1 && expects_key {
                    if let Some(name) = text.get(start..end).and_then(|key| serde_json::from_str(key).ok()) {
                        keys.push(KeyAt { name, start, length: end - start });
                    }
                    expects_key = false;
                }
            }
            b'{' | b'[' => {
                depth += 1;
                expects_key = depth == 1 && bytes[at] == b'{';
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => expects_key = true,
            _ => {}
        }
        at += 1;
    }
    keys
}

impl Source {
    /// The place of a key of the outermost object of a JSON text, or the whole file if it has no such key.
    pub fn json_key(&self, key: &str) -> Place {
        keys(self.text())
            .into_iter()
            .find(|found| found.name == key)
            .map_or_else(|| self.place(0, 0, 0), |found| self.place_at(found.start, found.length))
    }
}

/// The keys and values of a JSON object. Bad syntax, a value that is not an object, and duplicate keys are errors.
pub fn object(source: &Source, what: &str) -> Result<Vec<(KeyAt, Value)>> {
    let value: Value = serde_json::from_str(source.text()).map_err(|error| {
        let place = source.place(error.line() as u64, error.column() as u64, 1);
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or(&text);
        Diagnostic::error(Code::BadSyntax, format!("the {what} is not valid JSON: {text}")).in_place(place)
    })?;
    let Value::Object(mut members) = value else {
        return Err(Diagnostic::error(Code::BadAstraFile, format!("the {what} must be a JSON object"))
            .in_place(source.place(1, 1, 1))
            .found(kind(&value))
            .into());
    };
    let mut pairs = Vec::with_capacity(members.len());
    let mut problems = Diagnostics::new();
    for key in keys(source.text()) {
        match members.remove(&key.name) {
            Some(value) => pairs.push((key, value)),
            None => problems.push(
                Diagnostic::error(Code::BadAstraFile, format!("a key of the {what} occurs twice"))
                    .in_place(source.place_at(key.start, key.length))
                    .key(&key.name)
                    .help("keep one of them"),
            ),
        }
    }
    problems.into_result()?;
    Ok(pairs)
}

/// The type of a value, as text.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a number with a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value as shown in an error.
pub fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 60 { format!("{}...", text.chars().take(57).collect::<String>()) } else { text }
}

/// A whole number; also accepts a fraction of zero, such as `1.0`. `None` for everything else, including booleans.
pub fn whole(value: &Value) -> Option<i64> {
    let Value::Number(number) = value else { return None };
    number.as_i64().or_else(|| {
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })
}

/// A finite number.
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite())
}
