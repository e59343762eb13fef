//! Converts a table to Parquet and back.
//!
//! Columns are `INT64`, `DOUBLE`, `BYTE_ARRAY` (UTF-8) and `BOOLEAN`; all but optional floats are required. Pages are
//! compressed with Snappy, and row groups have [`ROW_GROUP`] rows. Nothing in the file depends on when, where or by
//! which version it was written. The file's key-value metadata hold the name and meaning of the table, and the meaning
//! of each column.
//!
//! Columns are written and read directly with the Parquet library, without Arrow, which would take up a third of the
//! build time.

use crate::error::internal;
use crate::manifest::SCHEMA;
use crate::table::{OwnedColumn, OwnedTable, View};
use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnDescriptor, Type};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_timeline::Data;

/// Rows in a row group.
pub const ROW_GROUP: usize = 1 << 18;
/// Key of the table's name in the file's metadata.
const TABLE_NAME: &str = "syncline.table";
/// Key of the table's meaning in the file's metadata.
const TABLE_MEANING: &str = "syncline.meaning";
/// Key of the schema of results in the file's metadata.
const TABLE_SCHEMA: &str = "syncline.schema";
/// Key of a column's meaning in the file's metadata, before the column's name.
const COLUMN_MEANING: &str = "syncline.meaning.";
/// Number of rows that are passed to the Parquet library at once. It limits the memory for copies.
const BATCH: usize = 1 << 16;

/// A table as the bytes of a Parquet file.
///
/// # Errors
/// [`Code::Internal`] if the columns differ in length.
pub fn table_to_parquet<'a>(table: impl Into<View<'a>>) -> Result<Vec<u8>> {
    let table = table.into();
    let failed = |error: &dyn std::fmt::Display| internal(&format!("the table {}", table.name), error);
    let rows = table.rows();
    if let Some((name, ..)) = table.columns.iter().find(|column| column.2.len() != rows) {
        return Err(failed(&format!("column {name} has another length")));
    }
    written(&table, rows).map_err(|error| failed(&error))
}

fn written(table: &View<'_>, rows: usize) -> std::result::Result<Vec<u8>, ParquetError> {
    let fields = table.columns.iter().map(|&(name, _, data)| Ok(Arc::new(field(name, data)?)));
    let fields = fields.collect::<std::result::Result<Vec<_>, ParquetError>>()?;
    let schema = Arc::new(Type::group_type_builder("schema").with_fields(fields).build()?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties(table)))?;
    for start in (0..rows).step_by(ROW_GROUP) {
        let mut group = writer.next_row_group()?;
        for &(_, _, data) in &table.columns {
            write_column(&mut group, data, start..rows.min(start + ROW_GROUP))?;
        }
        group.close()?;
    }
    writer.into_inner()
}

fn properties(table: &View<'_>) -> WriterProperties {
    let pair = |key: String, value: &str| KeyValue::new(key, value.to_owned());
    let mut pairs = vec![
        pair(TABLE_SCHEMA.to_owned(), SCHEMA),
        pair(TABLE_NAME.to_owned(), table.name),
        pair(TABLE_MEANING.to_owned(), table.meaning),
    ];
    let columns = table.columns.iter();
    pairs.extend(columns.map(|&(name, meaning, _)| pair(format!("{COLUMN_MEANING}{name}"), meaning)));
    WriterProperties::builder()
        .set_created_by("syncline".to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(pairs))
        .build()
}

fn field(name: &str, data: &Data) -> std::result::Result<Type, ParquetError> {
    let physical = match data {
        Data::Int(_) => Physical::INT64,
        Data::Float(_) | Data::OptionalFloat(_) => Physical::DOUBLE,
        Data::Text(_) => Physical::BYTE_ARRAY,
        Data::Bool(_) => Physical::BOOLEAN,
    };
    let optional = matches!(data, Data::OptionalFloat(_));
    Type::primitive_type_builder(name, physical)
        .with_repetition(if optional { Repetition::OPTIONAL } else { Repetition::REQUIRED })
        .with_logical_type(matches!(data, Data::Text(_)).then_some(LogicalType::String))
        .build()
}

/// Writes some rows of a column as the next column of a row group.
fn write_column(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    data: &Data,
    rows: Range<usize>,
) -> std::result::Result<(), ParquetError> {
    let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column too many".into()))?;
    for start in rows.clone().step_by(BATCH) {
        let range = start..rows.end.min(start + BATCH);
        match data {
            Data::Int(values) => column.typed::<Int64Type>().write_batch(&values[range], None, None)?,
            Data::Float(values) => column.typed::<DoubleType>().write_batch(&values[range], None, None)?,
            Data::Bool(values) => column.typed::<BoolType>().write_batch(&values[range], None, None)?,
            Data::Text(values) => {
                let texts = texts(&values[range]);
                column.typed::<ByteArrayType>().write_batch(&texts, None, None)?
            }
            Data::OptionalFloat(values) => {
                let there: Vec<f64> = values[range.clone()].iter().copied().flatten().collect();
                let levels: Vec<i16> = values[range].iter().map(|value| i16::from(value.is_some())).collect();
                column.typed::<DoubleType>().write_batch(&there, Some(&levels), None)?
            }
        };
    }
    column.close()
}

/// Texts as Parquet takes them. They are slices of one buffer, so that rows need no allocation of their own.
fn texts(values: &[String]) -> Vec<ByteArray> {
    let all = Bytes::from(values.concat());
    let mut start = 0;
    let piece = |text: &String| {
        let range = start..start + text.len();
        start = range.end;
        ByteArray::from(all.slice(range))
    };
    values.iter().map(piece).collect()
}

/// Reads a table from the bytes of a Parquet file that [`table_to_parquet`] wrote.
///
/// # Errors
/// [`Code::BadResults`] if the bytes are not Parquet, are truncated or hold columns of another kind.
pub fn table_from_parquet(bytes: impl Into<Bytes>) -> Result<OwnedTable> {
    let bytes = bytes.into();
    guarded(|| read(bytes))
}

/// Number of rows according to the file's metadata.
pub(crate) fn rows(bytes: Bytes) -> Result<u64> {
    let rows = guarded(|| Ok(open(bytes)?.metadata().file_metadata().num_rows()))?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// Converts panics to errors: the Parquet library panics on some corrupt pages (seen in version 60: fewer levels than
/// values).
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(corrupt("sizes that contradict each other")))
}

fn open(bytes: Bytes) -> Result<SerializedFileReader<Bytes>> {
    SerializedFileReader::new(bytes).map_err(corrupt)
}

fn corrupt(error: impl std::fmt::Display) -> syncline_diagnostics::Diagnostics {
    Diagnostic::error(Code::BadResults, "the Parquet file is truncated or corrupt")
        .found(error.to_string())
        .into()
}

fn read(bytes: Bytes) -> Result<OwnedTable> {
    let reader = open(bytes)?;
    let facts = reader.metadata().file_metadata();
    let pairs = facts.key_value_metadata();
    let fact = |key: &str| {
        let pair = pairs.and_then(|pairs| pairs.iter().find(|pair| pair.key == key));
        pair.and_then(|pair| pair.value.clone()).unwrap_or_default()
    };
    let schema = facts.schema_descr();
    let mut columns = Vec::with_capacity(schema.num_columns());
    for column in schema.columns() {
        let (name, data) = (column.name().to_owned(), empty(column)?);
        columns.push(OwnedColumn { meaning: fact(&format!("{COLUMN_MEANING}{name}")), name, data });
    }
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(corrupt)?;
        for (index, column) in columns.iter_mut().enumerate() {
            append(&mut column.data, group.get_column_reader(index).map_err(corrupt)?)?;
        }
    }
    let rows = usize::try_from(facts.num_rows()).unwrap_or(usize::MAX);
    if let Some(column) = columns.iter().find(|column| column.data.len() != rows) {
        let message =
            format!("column {} has {} values, the file {rows} rows", column.name, column.data.len());
        return Err(corrupt(message));
    }
    Ok(OwnedTable { name: fact(TABLE_NAME), meaning: fact(TABLE_MEANING), columns })
}

/// Empty data of the column's kind.
fn empty(column: &ColumnDescriptor) -> Result<Data> {
    let optional = column.max_def_level() > 0;
    let is_text = matches!(column.logical_type_ref(), Some(LogicalType::String));
    let flat = column.max_rep_level() == 0 && column.max_def_level() <= 1 && column.path().parts().len() == 1;
    Ok(match (column.physical_type(), optional, is_text) {
        (Physical::INT64, false, false) if flat => Data::Int(Vec::new()),
        (Physical::DOUBLE, false, false) if flat => Data::Float(Vec::new()),
        (Physical::DOUBLE, true, false) if flat => Data::OptionalFloat(Vec::new()),
        (Physical::BYTE_ARRAY, false, true) if flat => Data::Text(Vec::new()),
        (Physical::BOOLEAN, false, false) if flat => Data::Bool(Vec::new()),
        (kind, ..) => {
            let error =
                Diagnostic::error(Code::BadResults, "the Parquet file has a column of an unsupported kind")
                    .key(column.name())
                    .found(format!("{kind}{}", if optional { ", optional" } else { "" }));
            return Err(error.into());
        }
    })
}

/// Appends the values of a column in one row group.
fn append(data: &mut Data, reader: ColumnReader) -> Result<()> {
    match data {
        Data::Int(values) => required::<Int64Type>(reader, |batch| {
            values.extend_from_slice(batch);
            Ok(())
        }),
        Data::Float(values) => required::<DoubleType>(reader, |batch| {
            values.extend_from_slice(batch);
            Ok(())
        }),
        Data::Bool(values) => required::<BoolType>(reader, |batch| {
            values.extend_from_slice(batch);
            Ok(())
        }),
        Data::Text(values) => required::<ByteArrayType>(reader, |batch| {
            for text in batch {
                values.push(std::str::from_utf8(text.data()).map_err(corrupt)?.to_owned());
            }
            Ok(())
        }),
        Data::OptionalFloat(values) => batches::<DoubleType>(reader, |there, levels| {
            let mut there = there.iter().copied();
            for &level in levels {
                let value = if level > 0 {
                    Some(there.next().ok_or_else(|| corrupt("too few values"))?)
                } else {
                    None
                };
                values.push(value);
            }
            Ok(())
        }),
    }
}

fn required<T: DataType>(reader: ColumnReader, mut take: impl FnMut(&[T::T]) -> Result<()>) -> Result<()> {
    batches::<T>(reader, |values, _| take(values))
}

/// Passes the values of a column to `take`, batch by batch, with the level of each row, which says whether it has a
/// value.
fn batches<T: DataType>(
    reader: ColumnReader,
    mut take: impl FnMut(&[T::T], &[i16]) -> Result<()>,
) -> Result<()> {
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    loop {
        let (records, ..) =
            reader.read_records(BATCH, Some(&mut levels), None, &mut values).map_err(corrupt)?;
        if records == 0 {
            return Ok(());
        }
        take(&values, &levels)?;
        values.clear();
        levels.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, ROW_GROUP, open, table_from_parquet, table_to_parquet};
    use crate::table::OwnedTable;
    use crate::testing::{any_table, same};
    use parquet::file::reader::FileReader as _;
    use proptest::prelude::*;
    use syncline_diagnostics::Code;
    use syncline_timeline::Table;

    #[test]
    fn tables_without_rows_or_columns_read_back_unchanged() {
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
        fn tables_read_back_unchanged_and_bytes_do_not_vary(table in any_table()) {
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
