//! Tables read from a folder, and a view of both kinds of table.

use syncline_timeline::{Data, Table};

/// A table that owns its names.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct OwnedTable {
    /// Its name.
    pub name: String,
    /// What a row is.
    pub meaning: String,
    /// Its columns in order.
    pub columns: Vec<OwnedColumn>,
}

/// A column that owns its names.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedColumn {
    /// Its name, with the unit as suffix.
    pub name: String,
    /// What its values mean.
    pub meaning: String,
    /// The values.
    pub data: Data,
}

impl OwnedTable {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.data.len())
    }

    /// The column of that name.
    pub fn column(&self, name: &str) -> Option<&OwnedColumn> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl From<&Table> for OwnedTable {
    fn from(table: &Table) -> Self {
        let columns = table.columns.iter().map(|column| OwnedColumn {
            name: column.name.to_owned(),
            meaning: column.meaning.to_owned(),
            data: column.data.clone(),
        });
        Self { name: table.name.to_owned(), meaning: table.meaning.to_owned(), columns: columns.collect() }
    }
}

/// A table of either kind, borrowed.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Its name.
    pub name: &'a str,
    /// What a row is.
    pub meaning: &'a str,
    /// Name, meaning and values of its columns in order.
    pub columns: Vec<(&'a str, &'a str, &'a Data)>,
}

impl View<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.2.len())
    }
}

impl<'a> From<&'a Table> for View<'a> {
    fn from(table: &'a Table) -> Self {
        let columns = table.columns.iter().map(|column| (column.name, column.meaning, &column.data));
        Self { name: table.name, meaning: table.meaning, columns: columns.collect() }
    }
}

impl<'a> From<&'a OwnedTable> for View<'a> {
    fn from(table: &'a OwnedTable) -> Self {
        let columns = table.columns.iter().map(|c| (c.name.as_str(), c.meaning.as_str(), &c.data));
        Self { name: &table.name, meaning: &table.meaning, columns: columns.collect() }
    }
}
