//! A fabric as a list of links, in CSV or YAML.
//!
//! ```csv
//! from,to,rate,latency,duplex
//! npu0,switch0,100Gb/s,500ns,yes
//! npu1,switch0,100Gb/s,500ns,yes
//! ```
//! ```yaml
//! links:
//!   - { from: npu0, to: switch0, rate: 100Gb/s, latency: 500ns }
//!   - { from: npu1, to: switch0, rate: 100Gb/s, latency: 500ns, duplex: yes }
//! ```
//!
//! Vertices are `npu<number>` and `switch<number>`, both counted from 0 without gaps. A link runs both ways unless
//! `duplex` says `no`. Links that are listed several times are parallel links.

use crate::astra2::Source;
use serde::Deserialize;
use serde_saphyr::Spanned;
use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Place, Result};
use syncline_units::{Rate, Time};

/// Most NPUs, and most switches, of an edge list.
pub const MAX_VERTICES: u32 = 1 << 24;
/// Most errors that are reported one by one.
const MAX_PROBLEMS: usize = 20;
const COLUMNS: [&str; 5] = ["from", "to", "rate", "latency", "duplex"];

/// A fabric's vertices and directed links. NPU `i` is vertex `i`, switch `i` is vertex `npus + i`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Edges {
    /// Number of NPUs.
    pub npus: u32,
    /// Number of switches.
    pub switches: u32,
    /// Directed links, in the order of the file; a duplex link is two of them.
    pub links: Vec<Edge>,
}

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Vertex that sends.
    pub from: u32,
    /// Vertex that receives.
    pub to: u32,
    /// Its rate.
    pub rate: Rate,
    /// Its latency.
    pub latency: Time,
}

impl Edges {
    /// Reads a file; its ending (`.csv`, `.yaml`, `.yml`, `.json`) says the form.
    ///
    /// # Errors
    /// [`Code::Unreadable`], [`Code::BadSyntax`], [`Code::UnknownKey`], [`Code::MissingKey`], [`Code::BadValue`],
    /// [`Code::BadUnit`], [`Code::BadFabric`], each with line and column name.
    pub fn read(path: &Path) -> Result<Self> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("csv") => Self::csv(&Source::read(path)?),
            Some("yaml" | "yml" | "json") => Self::yaml(&Source::read(path)?),
            _ => Err(Diagnostic::error(Code::Unreadable, "a list of links is a CSV or YAML file")
                .at(path.display().to_string(), 0)
                .found(ending.map_or_else(|| "no ending".to_owned(), |ending| format!(".{ending}")))
                .allowed(".csv, .yaml, .yml, .json")
                .into()),
        }
    }

    /// Reads CSV with a header.
    ///
    /// # Errors
    /// As [`Edges::read`].
    pub fn csv(source: &Source) -> Result<Self> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(source.text().as_bytes());
        let broken = |error: csv::Error| {
            let line = error.position().map_or(0, csv::Position::line);
            Diagnostic::error(Code::BadSyntax, format!("the file is not well-formed CSV: {error}"))
                .in_place(source.place(line, 0, 0))
        };
        let header = reader.headers().map_err(broken)?.clone();
        let columns = columns(source, &header)?;
        let mut list = List::new(source);
        for record in reader.records() {
            let record = record.map_err(broken)?;
            let at = At::Record(record.position().map_or(0, csv::Position::byte));
            if record.len() != header.len() {
                list.problems.push(
                    Diagnostic::error(
                        Code::BadSyntax,
                        "the line has another number of fields than the header",
                    )
                    .in_place(at.place(source, 0))
                    .found(record.len().to_string())
                    .allowed(header.len().to_string()),
                );
            } else {
                list.link(columns.map(|column| {
                    column.and_then(|column| record.get(column)).map(|text| Cell { text, at })
                }));
            }
            if list.problems.0.len() >= MAX_PROBLEMS {
                break;
            }
        }
        list.finish()
    }

    /// Reads YAML (or JSON, which is YAML).
    ///
    /// # Errors
    /// As [`Edges::read`].
    pub fn yaml(source: &Source) -> Result<Self> {
        let file: YamlFile = serde_saphyr::from_str(source.text()).map_err(|error| {
            let place =
                error.location().map_or_else(|| source.place(0, 0, 0), |at| source.place(at.line(), at.column(), 1));
            let text = error.without_snippet().to_string();
            let text = text.lines().next().unwrap_or_default().to_owned();
            Diagnostic::error(Code::BadSyntax, format!("the file is not a list of links: {text}"))
                .in_place(place)
                .allowed("`links:`, a list of `{ from, to, rate, latency }`, with `duplex` where a link is one-way")
        })?;
        let mut list = List::new(source);
        for link in &file.links {
            let cells = [
                Some(&link.from),
                Some(&link.to),
                Some(&link.rate),
                Some(&link.latency),
                link.duplex.as_ref(),
            ];
            let row = cells.map(|cell| {
                cell.map(|cell| {
                    let at = At::Mark(cell.referenced.line(), cell.referenced.column());
                    Cell { text: &cell.value, at }
                })
            });
            list.link(row);
            if list.problems.0.len() >= MAX_PROBLEMS {
                break;
            }
        }
        list.finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct YamlFile {
    links: Vec<YamlLink>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct YamlLink {
    from: Spanned<String>,
    to: Spanned<String>,
    rate: Spanned<String>,
    latency: Spanned<String>,
    #[serde(default)]
    duplex: Option<Spanned<String>>,
}

/// Where each of [`COLUMNS`] is.
fn columns(source: &Source, header: &csv::StringRecord) -> Result<[Option<usize>; 5]> {
    let mut columns = [None; 5];
    let mut problems = Diagnostics::new();
    let place = || source.place(header.position().map_or(1, csv::Position::line), 0, 0);
    for (index, name) in header.iter().enumerate() {
        // A spreadsheet may begin its file with a byte-order mark.
        let name = name.trim_start_matches('\u{feff}');
        match COLUMNS.iter().position(|column| *column == name) {
            None => problems.push(
                Diagnostic::error(Code::UnknownKey, "unknown column").in_place(place()).one_of(name, COLUMNS),
            ),
            Some(column) if columns[column].is_some() => problems.push(
                Diagnostic::error(Code::BadSyntax, "a column occurs twice").in_place(place()).key(name),
            ),
            Some(column) => columns[column] = Some(index),
        }
    }
    for (column, name) in columns.iter().zip(COLUMNS).take(4) {
        if column.is_none() {
            problems.push(
                Diagnostic::error(Code::MissingKey, "the header lacks a column")
                    .in_place(place())
                    .key(name)
                    .help("the first line is `from,to,rate,latency`, and `duplex` where a link is one-way"),
            );
        }
    }
    problems.into_result()?;
    Ok(columns)
}

/// A value and where it stands.
#[derive(Clone, Copy)]
struct Cell<'a> {
    text: &'a str,
    at: At,
}

/// Where something stands; a place is only made of it for an error.
#[derive(Clone, Copy)]
enum At {
    /// In the record that begins at or after this byte.
    Record(u64),
    /// At this line and column.
    Mark(u64, u64),
}

impl At {
    fn place(self, source: &Source, width: usize) -> Place {
        match self {
            Self::Mark(line, column) => source.place(line, column, width),
            Self::Record(byte) => {
                let start = usize::try_from(byte).unwrap_or(usize::MAX);
                let rest = source.text().get(start..).unwrap_or_default();
                // Blank lines and comments belong to no record.
                let skipped = rest.split_inclusive('\n').take_while(|line| {
                    let line = line.trim();
                    line.is_empty() || line.starts_with('#')
                });
                let line = source.place_at(start + skipped.map(str::len).sum::<usize>(), 0).line;
                source.place(line.into(), 0, 0)
            }
        }
    }
}

/// A vertex by its name in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Vertex {
    Npu(u32),
    Switch(u32),
}

/// Links as they are read.
struct List<'a> {
    source: &'a Source,
    links: Vec<(Vertex, Vertex, Rate, Time, bool)>,
    problems: Diagnostics,
}

impl<'a> List<'a> {
    fn new(source: &'a Source) -> Self {
        Self { source, links: Vec::new(), problems: Diagnostics::new() }
    }

    /// A link from cells in the order of [`COLUMNS`].
    fn link(&mut self, [from, to, rate, latency, duplex]: [Option<Cell<'_>>; 5]) {
        let (Some(from), Some(to), Some(rate), Some(latency)) = (from, to, rate, latency) else { return };
        let ends = (self.vertex("from", from), self.vertex("to", to));
        let rate_of = self.quantity::<Rate>("rate", rate);
        let latency = self.quantity::<Time>("latency", latency);
        let duplex = duplex.map_or(Some(true), |cell| self.duplex(cell));
        if rate_of.is_some_and(Rate::is_zero) {
            self.wrong(
                Code::BadFabric,
                "rate",
                rate,
                "a link needs a rate above zero",
                "a rate such as 100Gb/s",
            );
        }
        if let (Some(a), Some(b)) = ends
            && a == b
        {
            self.wrong(Code::BadFabric, "to", to, "a link joins a vertex with itself", "another vertex");
        }
        if let ((Some(from), Some(to)), Some(rate), Some(latency), Some(duplex)) =
            (ends, rate_of, latency, duplex)
        {
            self.links.push((from, to, rate, latency, duplex));
        }
    }

    fn wrong(&mut self, code: Code, column: &str, cell: Cell<'_>, message: &str, allowed: &str) {
        self.problems.push(
            Diagnostic::error(code, message)
                .in_place(cell.at.place(self.source, cell.text.chars().count()))
                .key(column)
                .found(cell.text.chars().take(60).collect::<String>())
                .allowed(allowed),
        );
    }

    fn vertex(&mut self, column: &str, cell: Cell<'_>) -> Option<Vertex> {
        let digits = cell.text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
        let (kind, digits) = cell.text.split_at(cell.text.len() - digits.len());
        let numbered = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse::<u32>().ok().filter(|&number| number < MAX_VERTICES);
        match (kind, numbered, number) {
            ("npu", true, Some(number)) => Some(Vertex::Npu(number)),
            ("switch", true, Some(number)) => Some(Vertex::Switch(number)),
            ("npu" | "switch", true, None) => {
                let allowed = format!("numbers below {MAX_VERTICES}");
                self.wrong(Code::BadFabric, column, cell, "the vertex's number is too large", &allowed);
                None
            }
            _ => {
                let message = "a vertex is an NPU or a switch with its number";
                self.wrong(Code::BadValue, column, cell, message, "npu0, npu1, ..., switch0, switch1, ...");
                None
            }
        }
    }

    fn quantity<T: FromStr<Err = syncline_units::UnitError>>(
        &mut self,
        column: &str,
        cell: Cell<'_>,
    ) -> Option<T> {
        match cell.text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.problems.push(
                    Diagnostic::error(Code::BadUnit, error.problem)
                        .in_place(cell.at.place(self.source, cell.text.chars().count()))
                        .key(column)
                        .found(cell.text.chars().take(60).collect::<String>())
                        .help(error.help),
                );
                None
            }
        }
    }

    fn duplex(&mut self, cell: Cell<'_>) -> Option<bool> {
        match cell.text {
            "yes" | "true" | "" => Some(true),
            "no" | "false" => Some(false),
            _ => {
                self.wrong(
                    Code::BadValue,
                    "duplex",
                    cell,
                    "a link runs both ways, or it does not",
                    "yes, no",
                );
                None
            }
        }
    }

    fn finish(mut self) -> Result<Edges> {
        let ends: BTreeSet<Vertex> = self.links.iter().flat_map(|&(from, to, ..)| [from, to]).collect();
        let [npus, switches] = [false, true].map(|switch| {
            ends.iter().filter_map(move |&vertex| match vertex {
                Vertex::Npu(number) => (!switch).then_some(number),
                Vertex::Switch(number) => switch.then_some(number),
            })
        });
        let file = self.source.file().to_owned();
        let mut count = |name: &str, numbers: &mut dyn Iterator<Item = u32>| {
            let mut next = 0;
            for number in numbers {
                if number != next {
                    let problem = Diagnostic::error(Code::BadFabric, format!("{name}{next} has no link"));
                    self.problems.push(
                        problem
                            .at(file.clone(), 0)
                            .found(format!("{name}{number}"))
                            .help(format!("count from {name}0 without gaps")),
                    );
                    return 0;
                }
                next += 1;
            }
            next
        };
        // Gaps are worth a word only where all links could be read.
        let (npus, switches) = if ends.is_empty() || self.links.is_empty() {
            (0, 0)
        } else {
            let (mut npus, mut switches) = (npus, switches);
            (count("npu", &mut npus), count("switch", &mut switches))
        };
        if npus == 0 && !self.problems.has_errors() {
            self.problems.push(
                Diagnostic::error(Code::BadFabric, "the list has no NPU")
                    .at(file, 0)
                    .help("name NPUs npu0, npu1, ..."),
            );
        }
        self.problems.into_result()?;
        let index = |vertex: Vertex| match vertex {
            Vertex::Npu(number) => number,
            Vertex::Switch(number) => npus + number,
        };
        let mut links = Vec::with_capacity(self.links.len() * 2);
        for (from, to, rate, latency, duplex) in self.links {
            let (from, to) = (index(from), index(to));
            links.push(Edge { from, to, rate, latency });
            if duplex {
                links.push(Edge { from: to, to: from, rate, latency });
            }
        }
        Ok(Edges { npus, switches, links })
    }
}

#[cfg(test)]
mod tests;
