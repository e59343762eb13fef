//! A table as Parquet.
//!
//! Columns are `INT64`, `DOUBLE`, `BYTE_ARRAY` (UTF-8) and `BOOLEAN`; all but optional floats are required. Pages are
//! compressed with Snappy, row groups have [`ROW_GROUP`] rows, and nothing in the file depends on when, where or by
//! which version it was written. What a column means is in its Arrow field metadata under [`MEANING`]; the table's
//! name and meaning are in the file's key-value metadata.

use crate::error::internal;
use crate::manifest::SCHEMA;
use crate::table::{OwnedColumn, OwnedTable, View};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_timeline::Data;

/// Rows in a row group.
pub const ROW_GROUP: usize = 1 << 18;
/// Key of a column's meaning in its Arrow field metadata.
pub const MEANING: &str = "meaning";
/// Key of the table's name in the file's metadata.
const TABLE_NAME: &str = "syncline.table";
/// Key of the table's meaning in the file's metadata.
const TABLE_MEANING: &str = "syncline.meaning";
/// Key of the schema of results in the file's metadata.
const TABLE_SCHEMA: &str = "syncline.schema";
/// Rows that are handed to the writer at once, which bounds the memory for the copy.
const BATCH: usize = 1 << 16;

/// A table as the bytes of a Parquet file.
///
/// # Errors
/// [`Code::Internal`] where the columns differ in length.
pub fn table_to_parquet<'a>(table: impl Into<View<'a>>) -> Result<Vec<u8>> {
    let table = table.into();
    let failed = |error: &dyn std::fmt::Display| internal(&format!("the table {}", table.name), error);
    let rows = table.rows();
    if let Some((name, ..)) = table.columns.iter().find(|column| column.2.len() != rows) {
        return Err(failed(&format!("column {name} has another length")));
    }
    let fields = table.columns.iter().map(|&(name, meaning, data)| {
        let (kind, nullable) = arrow_type(data);
        Field::new(name, kind, nullable).with_metadata([(MEANING, meaning)])
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let mut writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties(&table)))
        .map_err(|error| failed(&error))?;
    // Without columns there are no rows, and Arrow refuses a batch that says neither.
    let starts = if table.columns.is_empty() { 0 } else { rows };
    for start in (0..starts).step_by(BATCH) {
        let range = start..rows.min(start + BATCH);
        let arrays = table.columns.iter().map(|column| array(column.2, range.clone())).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(|error| failed(&error))?;
        writer.write(&batch).map_err(|error| failed(&error))?;
    }
    writer.into_inner().map_err(|error| failed(&error))
}

fn properties(table: &View<'_>) -> WriterProperties {
    let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    WriterProperties::builder()
        .set_created_by("syncline".to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_key_value_metadata(Some(vec![
            pair(TABLE_SCHEMA, SCHEMA),
            pair(TABLE_NAME, table.name),
            pair(TABLE_MEANING, table.meaning),
        ]))
        .build()
}

const fn arrow_type(data: &Data) -> (DataType, bool) {
    match data {
        Data::Int(_) => (DataType::Int64, false),
        Data::Float(_) => (DataType::Float64, false),
        Data::OptionalFloat(_) => (DataType::Float64, true),
        Data::Text(_) => (DataType::Utf8, false),
        Data::Bool(_) => (DataType::Boolean, false),
    }
}

fn array(data: &Data, range: std::ops::Range<usize>) -> ArrayRef {
    match data {
        Data::Int(values) => Arc::new(Int64Array::from_iter_values(values[range].iter().copied())),
        Data::Float(values) => Arc::new(Float64Array::from_iter_values(values[range].iter().copied())),
        Data::OptionalFloat(values) => Arc::new(values[range].iter().copied().collect::<Float64Array>()),
        Data::Text(values) => Arc::new(StringArray::from_iter_values(&values[range])),
        Data::Bool(values) => Arc::new(BooleanArray::from(values[range].to_vec())),
    }
}

/// The table in a Parquet file that [`table_to_parquet`] wrote.
///
/// # Errors
/// [`Code::BadResults`] where the bytes are not Parquet, are truncated or hold columns of another kind.
pub fn table_from_parquet(bytes: impl Into<Bytes>) -> Result<OwnedTable> {
    let bytes = bytes.into();
    guarded(|| read(bytes))
}

/// Number of rows that the file says it has.
pub(crate) fn rows(bytes: Bytes) -> Result<u64> {
    let rows = guarded(|| Ok(open(bytes)?.metadata().file_metadata().num_rows()))?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// The Parquet library panics at some corrupt pages (seen in version 60: levels that are fewer than values).
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(corrupt("sizes that contradict each other")))
}

fn read(bytes: Bytes) -> Result<OwnedTable> {
    let reader = open(bytes)?;
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let fact = |key| {
        let pair = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == key));
        pair.and_then(|pair| pair.value.clone()).unwrap_or_default()
    };
    let (name, meaning) = (fact(TABLE_NAME), fact(TABLE_MEANING));
    let columns: Result<Vec<OwnedColumn>> =
        reader.schema().fields().iter().map(|field| empty(field)).collect();
    let mut columns = columns?;
    for batch in reader.with_batch_size(BATCH).build().map_err(corrupt)? {
        let batch = batch.map_err(corrupt)?;
        for (column, array) in columns.iter_mut().zip(batch.columns()) {
            append(column, array)?;
        }
    }
    Ok(OwnedTable { name, meaning, columns })
}

fn open(bytes: Bytes) -> Result<ParquetRecordBatchReaderBuilder<Bytes>> {
    ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(corrupt)
}

fn corrupt(error: impl std::fmt::Display) -> syncline_diagnostics::Diagnostics {
    Diagnostic::error(Code::BadResults, "the Parquet file is truncated or corrupt")
        .found(error.to_string())
        .into()
}

fn empty(field: &Field) -> Result<OwnedColumn> {
    let data = match (field.data_type(), field.is_nullable()) {
        (DataType::Int64, false) => Data::Int(Vec::new()),
        (DataType::Float64, false) => Data::Float(Vec::new()),
        (DataType::Float64, true) => Data::OptionalFloat(Vec::new()),
        (DataType::Utf8, false) => Data::Text(Vec::new()),
        (DataType::Boolean, false) => Data::Bool(Vec::new()),
        (kind, nullable) => {
            let error =
                Diagnostic::error(Code::BadResults, "the Parquet file has a column of a kind not used here")
                    .key(field.name())
                    .found(format!("{kind}{}", if nullable { ", nullable" } else { "" }));
            return Err(error.into());
        }
    };
    let meaning = field.metadata().get(MEANING).cloned().unwrap_or_default();
    Ok(OwnedColumn { name: field.name().clone(), meaning, data })
}

fn append(column: &mut OwnedColumn, array: &ArrayRef) -> Result<()> {
    let nulls_allowed = matches!(column.data, Data::OptionalFloat(_));
    if array.null_count() > 0 && !nulls_allowed {
        return Err(corrupt(format!("column {} has missing values", column.name)));
    }
    let wrong = || corrupt(format!("column {} changes its kind", column.name));
    match &mut column.data {
        Data::Int(values) => {
            values.extend_from_slice(array.as_primitive_opt::<Int64Type>().ok_or_else(wrong)?.values());
        }
        Data::Float(values) => {
            values.extend_from_slice(array.as_primitive_opt::<Float64Type>().ok_or_else(wrong)?.values());
        }
        Data::OptionalFloat(values) => {
            values.extend(array.as_primitive_opt::<Float64Type>().ok_or_else(wrong)?.iter());
        }
        Data::Text(values) => {
            let texts = array.as_string_opt::<i32>().ok_or_else(wrong)?;
            values.extend((0..texts.len()).map(|row| texts.value(row).to_owned()));
        }
        Data::Bool(values) => {
            let flags = array.as_boolean_opt().ok_or_else(wrong)?;
            values.extend((0..flags.len()).map(|row| flags.value(row)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BATCH, ROW_GROUP, open, table_from_parquet, table_to_parquet};
    use crate::table::OwnedTable;
    use crate::testing::{any_table, same};
    use proptest::prelude::*;
    use syncline_diagnostics::Code;
    use syncline_timeline::Table;

    #[test]
    fn tables_without_rows_or_columns() {
        let none = Table::new("none", "nothing");
        assert_eq!(table_from_parquet(table_to_parquet(&none).unwrap()).unwrap(), OwnedTable::from(&none));
        let empty = none.with("a_s", "a time", Vec::<f64>::new()).with("b", "a name", Vec::<String>::new());
        assert_eq!(table_from_parquet(table_to_parquet(&empty).unwrap()).unwrap(), OwnedTable::from(&empty));
    }

    #[test]
    fn many_rows_make_row_groups_of_one_size() {
        let rows = ROW_GROUP + BATCH + 3;
        let table = Table::new("ranks", "a rank")
            .with("rank", "its number", (0..rows as i64).collect::<Vec<_>>())
            .with("name", "its name", (0..rows).map(|row| format!("r{}", row % 7)).collect::<Vec<_>>());
        let bytes = table_to_parquet(&table).unwrap();
        let groups = open(bytes.clone().into()).unwrap();
        let sizes: Vec<i64> = groups.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(sizes, [ROW_GROUP as i64, (BATCH + 3) as i64]);
        assert_eq!(table_from_parquet(bytes).unwrap(), OwnedTable::from(&table));
    }

    #[test]
    fn columns_of_different_length_are_refused() {
        let mut table =
            OwnedTable::from(&Table::new("t", "").with("a", "", vec![1_i64]).with("b", "", vec![1_i64]));
        table.columns[1].data = Vec::<i64>::new().into();
        assert_eq!(table_to_parquet(&table).unwrap_err().0[0].code, Code::Internal);
    }

    #[test]
    fn no_prefix_of_a_file_is_a_table() {
        let table = Table::new("t", "a row").with("a", "a number", vec![1_i64, 2, 3]);
        let bytes = table_to_parquet(&table).unwrap();
        for end in 0..bytes.len() {
            let errors = table_from_parquet(bytes[..end].to_vec()).unwrap_err();
            assert_eq!(errors.0[0].code, Code::BadResults);
        }
    }

    proptest! {
        #[test]
        fn tables_come_back_and_bytes_do_not_vary(table in any_table()) {
            let bytes = table_to_parquet(&table).unwrap();
            prop_assert_eq!(&bytes, &table_to_parquet(&table).unwrap());
            let back = table_from_parquet(bytes).unwrap();
            prop_assert!(same(&back, &OwnedTable::from(&table)), "{:?}", back);
            prop_assert_eq!(table_to_parquet(&back).unwrap(), table_to_parquet(&table).unwrap());
        }

        #[test]
        fn damaged_files_are_tables_or_errors(table in any_table(), at: prop::sample::Index, bit in 0..8_u32) {
            let mut bytes = table_to_parquet(&table).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            drop(table_from_parquet(bytes));
        }
    }
}
