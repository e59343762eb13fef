//! Tables as named, documented columns.

/// The values of a column. All columns of a table have equal length.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Whole numbers.
    Int(Vec<i64>),
    /// Measured or derived values.
    Float(Vec<f64>),
    /// Values, some of which may be missing.
    OptionalFloat(Vec<Option<f64>>),
    /// Names.
    Text(Vec<String>),
    /// Yes or no.
    Bool(Vec<bool>),
}

impl Data {
    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Int(v) => v.len(),
            Self::Float(v) => v.len(),
            Self::OptionalFloat(v) => v.len(),
            Self::Text(v) => v.len(),
            Self::Bool(v) => v.len(),
        }
    }
    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<i64>> for Data {
    fn from(values: Vec<i64>) -> Self {
        Self::Int(values)
    }
}
impl From<Vec<f64>> for Data {
    fn from(values: Vec<f64>) -> Self {
        Self::Float(values)
    }
}
impl From<Vec<Option<f64>>> for Data {
    fn from(values: Vec<Option<f64>>) -> Self {
        Self::OptionalFloat(values)
    }
}
impl From<Vec<String>> for Data {
    fn from(values: Vec<String>) -> Self {
        Self::Text(values)
    }
}
impl From<Vec<bool>> for Data {
    fn from(values: Vec<bool>) -> Self {
        Self::Bool(values)
    }
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, with the unit as suffix (`_s`, `_bytes`, `_bytes_per_s`, `_flop`, `_usd`; none for counts, fractions and
    /// names).
    pub name: &'static str,
    /// What its values mean, in a sentence.
    pub meaning: &'static str,
    /// The values.
    pub data: Data,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name, which is also its file name without ending.
    pub name: &'static str,
    /// What a row is.
    pub meaning: &'static str,
    /// Its columns, in the order in which they are written. Versions never reorder them.
    pub columns: Vec<Column>,
}

impl Table {
    /// An empty table.
    pub const fn new(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, columns: Vec::new() }
    }

    /// Adds a column.
    ///
    /// # Panics
    /// If its length differs from that of the columns before it, which is a bug in the caller.
    #[must_use]
    pub fn with(mut self, name: &'static str, meaning: &'static str, data: impl Into<Data>) -> Self {
        let data = data.into();
        assert!(
            self.columns.first().is_none_or(|c| c.data.len() == data.len()),
            "column {name} has another length than the columns before it"
        );
        self.columns.push(Column { name, meaning, data });
        self
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.data.len())
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}
