//! Converts a table to comma-separated values.

use crate::error::internal;
use crate::table::View;
use syncline_diagnostics::Result;
use syncline_timeline::Data;

/// A table as CSV: UTF-8, a header with the column names, then one line for each row. Floats have as many digits as are
/// needed to read the same number back. A missing value is an empty field.
///
/// # Errors
/// [`syncline_diagnostics::Code::Internal`] if the columns differ in length.
pub fn table_to_csv<'a>(table: impl Into<View<'a>>) -> Result<String> {
    let table = table.into();
    let mut out = csv::Writer::from_writer(Vec::new());
    let failed = |error: csv::Error| internal("the table", error);
    if !table.columns.is_empty() {
        out.write_record(table.columns.iter().map(|column| column.0)).map_err(failed)?;
    }
    for row in 0..table.rows() {
        for (name, _, data) in &table.columns {
            let field =
                field(data, row).ok_or_else(|| internal("the table", format!("column {name} is short")))?;
            out.write_field(field).map_err(failed)?;
        }
        out.write_record(None::<&[u8]>).map_err(failed)?;
    }
    let bytes = out.into_inner().map_err(|error| internal("the table", error))?;
    String::from_utf8(bytes).map_err(|error| internal("the table", error))
}

fn field(data: &Data, row: usize) -> Option<String> {
    Some(match data {
        Data::Int(values) => values.get(row)?.to_string(),
        Data::Float(values) => format!("{:?}", values.get(row)?),
        Data::OptionalFloat(values) => values.get(row)?.map(|value| format!("{value:?}")).unwrap_or_default(),
        Data::Text(values) => values.get(row)?.clone(),
        Data::Bool(values) => values.get(row)?.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::table_to_csv;
    use crate::table::OwnedTable;
    use crate::testing::any_table;
    use proptest::prelude::*;
    use syncline_timeline::{Data, Table};

    #[test]
    fn a_table_is_written_as_csv() {
        let table = Table::new("links", "a link")
            .with("link", "its name", vec!["a, \"b\"".to_owned(), "c\nd".to_owned()])
            .with("bytes", "how much", vec![-1_i64, i64::MAX])
            .with("busy_s", "how long", vec![0.1, 1e300])
            .with("queue_s", "how long it waited", vec![None, Some(2.0)])
            .with("cut", "whether it failed", vec![true, false]);
        let expected = "link,bytes,busy_s,queue_s,cut\n\"a, \"\"b\"\"\",-1,0.1,,true\n\"c\nd\",9223372036854775807,1e300,2.0,false\n";
        assert_eq!(table_to_csv(&table).unwrap(), expected);
        assert_eq!(table_to_csv(&OwnedTable::from(&table)).unwrap(), expected);
        assert_eq!(table_to_csv(&Table::new("none", "nothing")).unwrap(), "");
    }

    proptest! {
        #[test]
        fn every_value_reads_back_unchanged(table in any_table()) {
            let text = table_to_csv(&table).unwrap();
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            prop_assert_eq!(rows.len(), table.rows());
            for (at, column) in table.columns.iter().enumerate() {
                for (row, record) in rows.iter().enumerate() {
                    let found = &record[at];
                    match &column.data {
                        Data::Int(values) => prop_assert_eq!(found.parse::<i64>().unwrap(), values[row]),
                        Data::Float(values) => {
                            prop_assert_eq!(found.parse::<f64>().unwrap().to_bits(), values[row].to_bits());
                        }
                        Data::OptionalFloat(values) => {
                            prop_assert_eq!(found.parse::<f64>().ok().map(f64::to_bits), values[row].map(f64::to_bits));
                        }
                        Data::Text(values) => prop_assert_eq!(found, &values[row]),
                        Data::Bool(values) => prop_assert_eq!(found.parse::<bool>().unwrap(), values[row]),
                    }
                }
            }
        }
    }
}
