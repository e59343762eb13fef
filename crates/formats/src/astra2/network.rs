//! The network of the analytical backends: ASTRA-sim 2, `common/network-parser/NetworkParser.cpp`.

use super::source::Source;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;
use std::fmt;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Place, Result};

/// How the NPUs of one dimension are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A bidirectional ring.
    Ring,
    /// A link between each pair.
    FullyConnected,
    /// A link from each NPU to a switch and back.
    Switch,
}

impl Topology {
    /// The name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "Ring",
            Self::FullyConnected => "FullyConnected",
            Self::Switch => "Switch",
        }
    }
}

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dimension {
    /// How its NPUs are connected.
    pub topology: Topology,
    /// Number of NPUs, at least 2.
    pub npus: u32,
    /// Rate of a link in ASTRA-sim's "GB/s", which is 2^30 bytes per second; above 0.
    pub bandwidth: f64,
    /// Latency of a hop in nanoseconds; at least 0.
    pub latency: f64,
}

/// The network, lowest dimension first.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkFile {
    /// Its dimensions.
    pub dims: Vec<Dimension>,
    /// Where it was read.
    pub source: Source,
}

const KEYS: [&str; 4] = ["topology", "npus_count", "bandwidth", "latency"];
const TOPOLOGIES: [&str; 3] = ["Ring", "FullyConnected", "Switch"];

/// Any YAML value.
#[derive(Clone, Debug)]
enum Yaml {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Yaml>>),
    Map(Vec<(Spanned<String>, Spanned<Yaml>)>),
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = Yaml;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }
    fn visit_bool<E>(self, value: bool) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Integer(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Integer(value.into()))
    }
    fn visit_i128<E>(self, value: i128) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Integer(value))
    }
    fn visit_u128<E>(self, value: u128) -> std::result::Result<Yaml, E> {
        Ok(i128::try_from(value).map_or(Yaml::Float(f64::INFINITY), Yaml::Integer))
    }
    fn visit_f64<E>(self, value: f64) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Float(value))
    }
    fn visit_str<E>(self, value: &str) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Text(value.to_owned()))
    }
    fn visit_unit<E>(self) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Null)
    }
    fn visit_none<E>(self) -> std::result::Result<Yaml, E> {
        Ok(Yaml::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Yaml, D::Error> {
        Yaml::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Yaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Yaml::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> std::result::Result<Yaml, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Yaml::Map(map))
    }
}

impl Yaml {
    fn shown(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => text.chars().take(60).collect(),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
    fn number(&self) -> Option<f64> {
        match *self {
            Self::Integer(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
        .filter(|value| value.is_finite())
    }
}

impl NetworkFile {
    /// Number of NPUs.
    pub fn npus(&self) -> u32 {
        self.dims.iter().map(|dim| dim.npus).product()
    }
    /// Reads a file; the diagnostics are warnings.
    pub fn read(path: &Path) -> Result<(Self, Diagnostics)> {
        Self::parse(Source::read(path)?)
    }
    /// Reads a text; the diagnostics are warnings.
    pub fn parse(source: Source) -> Result<(Self, Diagnostics)> {
        let root: Spanned<Yaml> = serde_saphyr::from_str(source.text())
            .map_err(|error| not_yaml(&source, error.without_snippet()))?;
        let Yaml::Map(entries) = root.value else {
            return Err(Diagnostic::error(Code::BadAstraFile, "the network file must be a mapping")
                .in_place(source.place(1, 1, 0))
                .found(root.value.shown())
                .allowed(KEYS.join(", "))
                .into());
        };
        let mut reader = Fields { source: &source, problems: Diagnostics::new() };
        let mut lists: [Option<Vec<Spanned<Yaml>>>; 4] = [None, None, None, None];
        for (key, value) in entries {
            let place = reader.place(&key);
            match KEYS.iter().position(|name| *name == key.value) {
                None => reader.problems.push(
                    Diagnostic::warning(
                        Code::AstraIgnored,
                        format!("{} has no effect: ASTRA-sim does not know it and ignores it", key.value),
                    )
                    .in_place(Place { width: key.value.chars().count() as u32, ..place })
                    .key(&key.value)
                    .one_of(&key.value, KEYS),
                ),
                Some(index) => match value.value {
                    Yaml::List(list) => lists[index] = Some(list),
                    other => {
                        reader.problems.push(
                            Diagnostic::error(
                                Code::BadAstraFile,
                                "the value must be a list with one entry per dimension",
                            )
                            .in_place(place)
                            .key(&key.value)
                            .found(other.shown())
                            .help(format!(
                                "write `{}: [ {} ]`",
                                key.value,
                                other.shown()
                            )),
                        );
                        lists[index] = Some(Vec::new());
                    }
                },
            }
        }
        for (index, list) in lists.iter().enumerate() {
            if list.is_none() {
                reader.problems.push(
                    Diagnostic::error(Code::BadAstraFile, format!("the key {} is missing", KEYS[index]))
                        .at(source.file(), 0)
                        .key(KEYS[index])
                        .help("the network needs topology, npus_count, bandwidth and latency, with one entry per dimension each"),
                );
            }
        }
        let [topology, npus, bandwidth, latency] = lists.map(Option::unwrap_or_default);
        let topology = reader.each(&topology, KEYS[0], |value| match value {
            Yaml::Text(name) => match name.as_str() {
                "Ring" => Ok(Topology::Ring),
                "FullyConnected" => Ok(Topology::FullyConnected),
                "Switch" => Ok(Topology::Switch),
                _ => Err("Ring, FullyConnected, Switch"),
            },
            _ => Err("Ring, FullyConnected, Switch"),
        });
        let npus = reader.each(&npus, KEYS[1], |value| match *value {
            Yaml::Integer(count) if count > 1 => {
                u32::try_from(count).map_err(|_| "a number that fits 32 bits")
            }
            _ => Err("a whole number above 1"),
        });
        let bandwidth = reader.each(&bandwidth, KEYS[2], |value| {
            value.number().filter(|&rate| rate > 0.0).ok_or("GB/s (2^30 bytes per second) above 0")
        });
        let latency = reader.each(&latency, KEYS[3], |value| {
            value.number().filter(|&ns| ns >= 0.0).ok_or("nanoseconds, 0 or more")
        });
        let warnings = reader.problems.into_result()?;
        let lengths = [topology.len(), npus.len(), bandwidth.len(), latency.len()];
        if lengths.iter().any(|&length| length != lengths[0]) || lengths[0] == 0 {
            let shown: Vec<String> = KEYS.iter().zip(lengths).map(|(key, n)| format!("{key} {n}")).collect();
            return Err(Diagnostic::error(
                Code::BadAstraFile,
                "topology, npus_count, bandwidth and latency must have the same number of entries, one or more",
            )
            .at(source.file(), 0)
            .found(shown.join(", "))
            .into());
        }
        let total = npus.iter().try_fold(1u32, |product, &count| product.checked_mul(count));
        if total.is_none_or(|total| total > MAX_NPUS) {
            return Err(Diagnostic::error(Code::BadAstraFile, "the network has too many NPUs")
                .at(source.file(), 0)
                .key("npus_count")
                .allowed(format!("{MAX_NPUS} NPUs"))
                .into());
        }
        let dims = (0..lengths[0])
            .map(|dim| Dimension {
                topology: topology[dim],
                npus: npus[dim],
                bandwidth: bandwidth[dim],
                latency: latency[dim],
            })
            .collect();
        Ok((Self { dims, source }, warnings))
    }
}

/// The error for a text that is not YAML, reworded for common mistakes.
fn not_yaml(source: &Source, error: &serde_saphyr::Error) -> Diagnostic {
    let place =
        error.location().map_or_else(|| source.place(0, 0, 0), |at| source.place(at.line(), at.column(), 1));
    let indent = place.text.len() - place.text.trim_start_matches([' ', '\t']).len();
    if let Some(at) = place.text[..indent].find('\t') {
        return Diagnostic::error(
            Code::BadSyntax,
            "the network file is not valid YAML: a tab in the indentation",
        )
        .help("indent by spaces")
        .in_place(Place { column: at as u32 + 1, ..place });
    }
    let text = match error {
        serde_saphyr::Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(|| "a key".to_owned(), |key| format!("key `{key}`"));
            format!("{key} is given twice")
        }
        serde_saphyr::Error::NonFiniteFloat { value, .. } => format!("`{value}` is not a finite number"),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    Diagnostic::error(Code::BadSyntax, format!("the network file is not valid YAML: {text}")).in_place(place)
}

/// The largest machine: ASTRA-sim's 32-bit tags and ranks can still number it, and its data still fits into memory.
pub const MAX_NPUS: u32 = 1 << 22;

/// Reads lists and collects errors.
struct Fields<'a> {
    source: &'a Source,
    problems: Diagnostics,
}

impl Fields<'_> {
    fn place<T>(&self, spanned: &Spanned<T>) -> Place {
        self.source.place(spanned.referenced.line(), spanned.referenced.column(), 0)
    }
    fn each<T>(
        &mut self,
        list: &[Spanned<Yaml>],
        key: &str,
        read: impl Fn(&Yaml) -> std::result::Result<T, &'static str>,
    ) -> Vec<T> {
        let mut values = Vec::with_capacity(list.len());
        for (dim, item) in list.iter().enumerate() {
            match read(&item.value) {
                Ok(value) => values.push(value),
                Err(allowed) => {
                    let found = item.value.shown();
                    let place = Place { width: found.chars().count() as u32, ..self.place(item) };
                    let problem = Diagnostic::error(Code::BadAstraFile, "the value is not allowed")
                        .in_place(place)
                        .key(format!("{key}[{dim}]"));
                    self.problems.push(if key == "topology" {
                        problem.one_of(&found, TOPOLOGIES)
                    } else {
                        problem.found(found).allowed(allowed)
                    });
                }
            }
        }
        values
    }
}
