//! Numbers over time, read from tables of slices. A value holds until the next one.

use crate::table::{Data, Table};
use crate::tables::ActivityKind;
use syncline_units::Time;

/// The unit of a counter's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Percent of the possible maximum.
    Percent,
    /// Bytes.
    Bytes,
    /// Number of occurrences in a slice of time.
    Count,
}

/// A number that changes with time.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The dimension of the fabric that it describes.
    pub dimension: String,
    /// Its name, which says what it counts.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Values in order of time, each with the time from which it holds. The last value is zero, at the end of the
    /// recorded time.
    pub points: Vec<(Time, f64)>,
}

/// Table, column, name and unit of each counter, in the order in which those of a dimension are shown.
const COLUMNS: [(&str, &str, &str, Unit); 9] = [
    ("activity", "utilization", "utilisation", Unit::Percent),
    ("activity", "busiest_utilization", "utilisation of the busiest link", Unit::Percent),
    ("queues", "mean_queue_bytes", "mean queue of a port", Unit::Bytes),
    ("queues", "longest_queue_bytes", "longest queue", Unit::Bytes),
    ("queues", "dropped", "dropped packets", Unit::Count),
    ("queues", "marked", "marked packets", Unit::Count),
    ("queues", "retransmissions", "segments sent again", Unit::Count),
    ("queues", "timeouts", "retransmission time-outs", Unit::Count),
    ("queues", "pauses", "pauses", Unit::Count),
];

/// The counters of each dimension in the tables `activity` and `queues`, in the order of dimensions there.
///
/// A column that is zero throughout gives no counter, nor does a missing table.
pub fn counters(tables: &[Table]) -> Vec<Counter> {
    let mut found: Vec<Counter> = Vec::new();
    let mut dimensions: Vec<&str> = Vec::new();
    for (table, column, name, unit) in COLUMNS {
        let Some(table) = tables.iter().find(|each| each.name == table) else { continue };
        let Some((names, slices)) = slices(table, column) else { continue };
        let kinds = texts(table, "kind");
        for (row, (dimension, (start, end, value))) in names.iter().zip(slices).enumerate() {
            // Compute is not a dimension: its spans show when it is busy.
            if kinds.is_some_and(|kinds| kinds[row] == ActivityKind::Compute.name()) {
                continue;
            }
            if !dimensions.contains(&dimension.as_str()) {
                dimensions.push(dimension);
            }
            let value = if unit == Unit::Percent { 100.0 * value } else { value };
            match found.iter_mut().find(|each| each.name == name && each.dimension == *dimension) {
                Some(counter) => counter.add(start, end, value),
                None => {
                    let mut counter =
                        Counter { dimension: dimension.clone(), name, unit, points: Vec::new() };
                    counter.add(start, end, value);
                    found.push(counter);
                }
            }
        }
    }
    found.retain(|counter| counter.points.iter().any(|&(_, value)| value != 0.0));
    // The sort is stable, so the counters of a dimension stay in order.
    found.sort_by_key(|counter| dimensions.iter().position(|&each| each == counter.dimension));
    found
}

impl Counter {
    /// Adds a slice. Slices must come in order of time.
    fn add(&mut self, start: Time, end: Time, value: f64) {
        // The previous slice ended with a zero. Remove it if this slice starts there, without a gap.
        if self.points.last().is_some_and(|&(time, _)| time == start) {
            self.points.pop();
        }
        if self.points.last().is_none_or(|&(_, before)| before != value) {
            self.points.push((start, value));
        }
        if value != 0.0 {
            self.points.push((end, 0.0));
        }
    }
}

/// Start, end and value of a row.
type Slice = (Time, Time, f64);

/// The dimension of each row, and its slice.
fn slices<'a>(table: &'a Table, column: &str) -> Option<(&'a [String], Vec<Slice>)> {
    let names = texts(table, "dimension")?;
    let (start, end) = (numbers(table, "start_s")?, numbers(table, "end_s")?);
    let rows = start.into_iter().zip(end).zip(numbers(table, column)?);
    Some((names, rows.map(|((start, end), value)| (time(start), time(end), value)).collect()))
}

fn texts<'a>(table: &'a Table, column: &str) -> Option<&'a [String]> {
    match &table.column(column)?.data {
        Data::Text(values) => Some(values),
        _ => None,
    }
}

fn numbers(table: &Table, column: &str) -> Option<Vec<f64>> {
    match &table.column(column)?.data {
        Data::Float(values) => Some(values.clone()),
        Data::Int(values) => Some(values.iter().map(|&value| value as f64).collect()),
        _ => None,
    }
}

/// Converts seconds, as in tables, to the nearest picosecond.
fn time(seconds: f64) -> Time {
    Time((seconds * 1e12).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::{Counter, Unit, counters};
    use crate::table::Table;
    use syncline_units::Time;

    /// A table with slices of one microsecond for two dimensions, the second of which is idle.
    fn table(name: &'static str, column: &'static str, values: [f64; 4]) -> Table {
        let slices = values.len() as u32;
        let names = ["local", "idle"].map(|name| vec![name.to_owned(); values.len()]).concat();
        let at = |shift: u32| (0..slices).map(|slice| f64::from(slice + shift) * 1e-6).collect::<Vec<_>>();
        Table::new(name, "A slice")
            .with("dimension", "Its name", names)
            .with("start_s", "Begin", at(0).repeat(2))
            .with("end_s", "End", at(1).repeat(2))
            .with(column, "A number", [values.to_vec(), vec![0.0; values.len()]].concat())
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let found = counters(&[table("activity", "utilization", [0.5, 0.5, 0.0, 0.25])]);
        let us = |time: u64| Time(time * 1_000_000);
        let points = vec![(us(0), 50.0), (us(2), 0.0), (us(3), 25.0), (us(4), 0.0)];
        let expected =
            Counter { dimension: "local".into(), name: "utilisation", unit: Unit::Percent, points };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn compute_has_no_counter_but_a_dimension_of_that_name_has() {
        let table = |kinds: [&str; 4]| {
            Table::new("activity", "A slice")
                .with("dimension", "Its name", vec!["compute".to_owned(); 4])
                .with("start_s", "Begin", vec![0.0, 1e-6, 0.0, 1e-6])
                .with("end_s", "End", vec![1e-6, 2e-6, 1e-6, 2e-6])
                .with("utilization", "A number", vec![1.0, 1.0, 0.5, 0.25])
                .with("kind", "What it is", kinds.map(str::to_owned).to_vec())
        };
        let found = counters(&[table(["compute", "compute", "links", "links"])]);
        let points = vec![(Time(0), 50.0), (Time(1_000_000), 25.0), (Time(2_000_000), 0.0)];
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].dimension.as_str(), &found[0].points), ("compute", &points));
        assert!(counters(&[table(["compute"; 4])]).is_empty());
    }

    #[test]
    fn counters_are_sorted_by_dimension_then_in_reading_order() {
        let queues = table("queues", "longest_queue_bytes", [0.0, 1.0, 2.0, 3.0]);
        let mut queues = queues.with("timeouts", "Time-outs", vec![0_i64, 0, 0, 1, 0, 0, 0, 2]);
        let found = counters(&[queues.clone(), table("activity", "utilization", [1.0; 4])]);
        let names: Vec<_> = found.iter().map(|each| (each.dimension.as_str(), each.name)).collect();
        let expected = [
            ("local", "utilisation"),
            ("local", "longest queue"),
            ("local", "retransmission time-outs"),
            ("idle", "retransmission time-outs"),
        ];
        assert_eq!(names, expected);
        queues.columns.retain(|column| column.name != "end_s");
        assert!(counters(&[queues]).is_empty());
        assert!(counters(&[]).is_empty());
    }
}
