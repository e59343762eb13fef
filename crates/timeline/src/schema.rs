//! What results contain, before any run: every table and column, and every key of the summary, with types, units and
//! meanings.
//!
//! The declarations are structures whose documentation is the meaning of each name: [`tables`](crate::tables) and
//! [`summary`](crate::summary). The macros `table!` and `keys!` add a list of the names to the structure.

use crate::Summary;
use crate::summary::{
    AxisSummary, Bottleneck, DimSummary, JobSummary, Overload, Packets, PathPart, WorkRates,
};
use crate::tables;

/// A column of a table, or a key of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name, which ends in the unit.
    pub name: &'static str,
    /// Type of its values, such as `int`, `float`, `text`, `bool`, `optional_float` or `list of text`.
    pub values: &'static str,
    /// Its meaning, in a sentence.
    pub meaning: &'static str,
}

/// A table, or a structure of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its name, which is also its file name without ending.
    pub name: &'static str,
    /// What a row is.
    pub meaning: &'static str,
    /// Its columns or keys, in the order in which they are written.
    pub names: &'static [Name],
}

/// Every table that a run may have, except those of ASTRA-sim 2's simulators.
pub static TABLES: [Schema; 15] = [
    tables::Layers::SCHEMA,
    tables::Collectives::SCHEMA,
    tables::Phases::SCHEMA,
    tables::Links::SCHEMA,
    tables::Ranks::SCHEMA,
    tables::Activity::SCHEMA,
    tables::CriticalPath::SCHEMA,
    tables::Ports::SCHEMA,
    tables::Flows::SCHEMA,
    tables::Queues::SCHEMA,
    tables::Timeouts::SCHEMA,
    tables::Costs::SCHEMA,
    tables::Jobs::SCHEMA,
    tables::Tiers::SCHEMA,
    tables::Contention::SCHEMA,
];

/// Structures in the summary, each with the prefix of its keys.
static PARTS: [(&str, Schema); 7] = [
    ("dims[].", DimSummary::SCHEMA),
    ("packets.", Packets::SCHEMA),
    ("overload.", Overload::SCHEMA),
    ("jobs[].", JobSummary::SCHEMA),
    ("exposed_by_axis[].", AxisSummary::SCHEMA),
    ("critical_path[].", PathPart::SCHEMA),
    ("bottleneck.", Bottleneck::SCHEMA),
];

/// Every key of the summary, in the order in which they are written; then the keys of the structures in it, such as
/// `dims[].name`. Each comes with the structure that has it.
pub fn summary() -> Vec<(String, Name, &'static str)> {
    let with = |prefix: &str, schema: &Schema| -> Vec<_> {
        let name = |name: &Name| (format!("{prefix}{}", name.name), *name, schema.meaning);
        schema.names.iter().map(name).collect()
    };
    let mut keys = with("", &Summary::SCHEMA);
    // `summary.json` has the rates of work as keys of its own.
    let work = keys.iter().position(|(_, name, _)| name.values == WorkRates::NAME).unwrap_or(keys.len());
    let mut rates = with("", &WorkRates::SCHEMA);
    for rate in &mut rates {
        rate.2 = Summary::SCHEMA.meaning;
    }
    keys.splice(work..(work + 1).min(keys.len()), rates);
    keys.extend(PARTS.iter().flat_map(|(prefix, schema)| with(prefix, schema)));
    keys
}

/// The unit of a column or key, from the end of its name; empty for counts, ratios and words.
pub fn unit(name: &str) -> &'static str {
    // The first that fits applies.
    const UNITS: [(&str, &str); 18] = [
        ("bytes_per_s", "bytes per second"),
        ("samples_per_s", "samples per second"),
        ("tokens_per_s", "tokens per second"),
        ("tflop_per_s_per_npu", "TFLOP per second and NPU"),
        ("bytes", "bytes"),
        ("flop", "floating-point operations"),
        ("iterations_per_s_per_usd", "iterations per second per US dollar"),
        ("iterations_per_s_per_w", "iterations per second per watt"),
        ("usd", "US dollars"),
        ("power_w", "watts"),
        ("s", "seconds"),
        ("utilization", "fraction"),
        ("utilization_while_busy", "fraction"),
        ("fraction", "fraction"),
        ("link_busy", "fraction"),
        ("mfu", "fraction"),
        ("mfu_unmasked", "fraction"),
        ("hfu", "fraction"),
    ];
    let ends = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    UNITS.iter().find(|(end, _)| ends(end)).map_or("", |&(_, unit)| unit)
}

/// A type that columns or keys have.
pub trait Values {
    /// Its name in files.
    const NAME: &'static str;
}

macro_rules! values {
    ($($kind:ty = $name:literal;)+) => { $(impl Values for $kind { const NAME: &'static str = $name; })+ };
}

values! {
    i64 = "int";
    u32 = "int";
    u64 = "int";
    Option<u64> = "optional_int";
    f64 = "float";
    Option<f64> = "optional_float";
    String = "text";
    Option<String> = "optional_text";
    bool = "bool";
    Vec<String> = "list of text";
    Vec<DimSummary> = "list of dimensions";
    Vec<JobSummary> = "list of jobs";
    Vec<AxisSummary> = "list of axes";
    Vec<PathPart> = "list of parts";
    Option<Packets> = "packets";
    Option<Overload> = "overload";
    WorkRates = "rates of work";
    Bottleneck = "bottleneck";
}

/// The text of documentation lines, each of which begins with a space.
pub(crate) const fn text(lines: &'static str) -> &'static str {
    lines.trim_ascii()
}

/// Declares a table: a structure with a vector for each column.
macro_rules! table {
    (
        $(#[doc = $row:literal])+
        $table:literal => pub struct $Table:ident {
            $( $(#[doc = $meaning:literal])+ pub $column:ident: Vec<$kind:ty>, )+
        }
    ) => {
        $(#[doc = $row])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $Table {
            $( $(#[doc = $meaning])+ pub $column: Vec<$kind>, )+
        }

        impl $Table {
            /// Its name, columns and meanings.
            pub const SCHEMA: $crate::schema::Schema = $crate::schema::Schema {
                name: $table,
                meaning: $crate::schema::text(concat!($($row),+)),
                names: &[$($crate::schema::Name {
                    name: stringify!($column),
                    values: <$kind as $crate::schema::Values>::NAME,
                    meaning: $crate::schema::text(concat!($($meaning),+)),
                }),+],
            };
        }

        impl From<$Table> for $crate::Table {
            /// # Panics
            /// If columns differ in length, which is a bug in the caller.
            fn from(table: $Table) -> Self {
                let mut names = $Table::SCHEMA.names.iter();
                let mut with = |table: Self, data: $crate::Data| match names.next() {
                    Some(column) => table.with(column.name, column.meaning, data),
                    None => table,
                };
                let empty = Self::new($Table::SCHEMA.name, $Table::SCHEMA.meaning);
                $(let empty = with(empty, table.$column.into());)+
                empty
            }
        }
    };
}

/// Declares a set of words: each variant has its word in files and on screens.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $Words:ident {
            $(#[$first_about:meta])* $First:ident = $first:literal
            $(, $(#[$each_about:meta])* $Each:ident = $each:literal)* $(,)?
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $Words {
            $(#[$first_about])*
            #[serde(rename = $first)]
            $First,
            $( $(#[$each_about])* #[serde(rename = $each)] $Each, )*
        }

        impl $Words {
            /// Its name in files and on screens.
            pub const fn name(self) -> &'static str {
                match self {
                    Self::$First => $first,
                    $( Self::$Each => $each, )*
                }
            }
        }

        impl $crate::schema::Values for $Words {
            const NAME: &'static str = concat!("text: \"", $first, "\"" $(, ", \"", $each, "\"")*);
        }
    };
}

/// Declares a structure of the summary: its keys are its fields.
macro_rules! keys {
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:tt)*)]
        $(#[serde($($serde:tt)*)])*
        pub struct $Keys:ident {
            $( $(#[doc = $meaning:literal])+ $(#[serde($($how:tt)*)])* pub $key:ident: $kind:ty, )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive($($derive)*)]
        $(#[serde($($serde)*)])*
        pub struct $Keys {
            $( $(#[doc = $meaning])+ $(#[serde($($how)*)])* pub $key: $kind, )+
        }

        impl $Keys {
            /// Its keys and their meanings.
            pub const SCHEMA: $crate::schema::Schema = $crate::schema::Schema {
                name: "summary",
                meaning: $crate::schema::text(concat!($($about),+)),
                names: &[$($crate::schema::Name {
                    name: stringify!($key),
                    values: <$kind as $crate::schema::Values>::NAME,
                    meaning: $crate::schema::text(concat!($($meaning),+)),
                }),+],
            };
        }
    };
}

pub(crate) use {keys, table, words};

#[cfg(test)]
mod tests {
    use super::{TABLES, summary, unit};
    use crate::{Summary, Table, tables};
    use std::collections::BTreeSet;

    #[test]
    fn the_keys_are_those_that_are_written() {
        let mut filled = Summary { overload: Some(Default::default()), ..Summary::default() };
        filled.packets = Some(Default::default());
        filled.micro_batches = Some(2);
        let written = serde_json::to_value(filled).unwrap();
        let keys = summary();
        let declared: BTreeSet<&str> = keys.iter().map(|(key, ..)| key.as_str()).collect();
        assert_eq!(declared.len(), keys.len(), "a key is declared twice");
        for (key, value) in written.as_object().unwrap() {
            assert!(declared.contains(key.as_str()), "{key}");
            let inner = value.as_object().into_iter().flatten();
            for (inner, _) in inner {
                assert!(declared.contains(format!("{key}.{inner}").as_str()), "{key}.{inner}");
            }
        }
    }

    #[test]
    fn every_name_has_a_meaning_and_is_declared_once() {
        for table in &TABLES {
            let names: BTreeSet<&str> = table.names.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), table.names.len(), "{}", table.name);
            assert!(!table.meaning.is_empty() && table.names.iter().all(|column| !column.meaning.is_empty()));
        }
        let tables: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
        assert_eq!(tables.len(), TABLES.len());
        assert!(summary().iter().all(|(_, name, about)| !name.meaning.is_empty() && !about.is_empty()));
    }

    #[test]
    fn a_table_has_its_declared_columns() {
        let costs = tables::Costs { cost_usd: vec![1.5], power_w: vec![None], ..Default::default() };
        let costs = tables::Costs {
            component: vec!["nic".into()],
            part: vec!["d".into()],
            description: vec!["a port".into()],
            quantity: vec![3],
            unit_usd: vec![0.5],
            ..costs
        };
        let table = Table::from(costs);
        let columns: Vec<_> = table.columns.iter().map(|column| (column.name, column.meaning)).collect();
        let declared: Vec<_> =
            tables::Costs::SCHEMA.names.iter().map(|column| (column.name, column.meaning)).collect();
        assert_eq!((table.name, table.rows()), ("costs", 1));
        assert_eq!(columns, declared);
        assert_eq!(declared[3], ("quantity", "How many"));
    }

    #[test]
    fn a_name_ends_in_its_unit() {
        for (name, expected) in [
            ("carried_bytes", "bytes"),
            ("rate_bytes_per_s", "bytes per second"),
            ("finish_s", "seconds"),
            ("iterations_per_s_per_usd", "iterations per second per US dollar"),
            ("cost_per_npu_usd", "US dollars"),
            ("power_w", "watts"),
            ("busiest_utilization", "fraction"),
            ("samples_per_s", "samples per second"),
            ("slowdown", ""),
            ("ranks", ""),
            ("bytes", "bytes"),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }
}
