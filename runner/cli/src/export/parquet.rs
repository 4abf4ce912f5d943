//! Tables as Parquet: a column is of whole numbers, of numbers or of text, whatever its values are throughout.
//!
//! The kind of a column is known only after its last row, so that a table is read twice, and never held in memory.

use crate::exit::{Exit, Failure};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;
use store::Value;

/// Rows that are written together: readers skip whole groups.
const GROUP: usize = 65_536;

/// Kind of a column's values; each kind can also hold the values of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    #[default]
    Integer,
    Real,
    Text,
}

impl Kind {
    /// The kind that holds a value, too.
    fn with(self, value: &Value) -> Self {
        match value {
            Value::Null | Value::Integer(_) => self,
            Value::Real(_) => self.max(Self::Real),
            Value::Text(_) => Self::Text,
        }
    }

    fn physical(self) -> Physical {
        match self {
            Self::Integer => Physical::INT64,
            Self::Real => Physical::DOUBLE,
            Self::Text => Physical::BYTE_ARRAY,
        }
    }
}

/// Learns the columns' kinds from rows.
pub(crate) fn learn(kinds: &mut [Kind], rows: &[Vec<Value>]) {
    for row in rows {
        for (kind, value) in kinds.iter_mut().zip(row) {
            *kind = kind.with(value);
        }
    }
}

/// A file under way; [`finish`](Self::finish) makes it whole.
pub(crate) struct ParquetFile<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    kinds: Vec<Kind>,
    /// Of the rows that wait, a list for each column.
    waiting: Vec<Vec<Value>>,
}

impl<W: Write + Send> ParquetFile<W> {
    pub(crate) fn begin(out: W, columns: &[String], kinds: Vec<Kind>) -> Result<Self, Failure> {
        let field = |(name, kind): (&String, &Kind)| {
            let field = Type::primitive_type_builder(name, kind.physical());
            let text = (*kind == Kind::Text).then_some(LogicalType::String);
            let field = field.with_repetition(Repetition::OPTIONAL).with_logical_type(text);
            field.build().map(Arc::new)
        };
        let fields = columns.iter().zip(&kinds).map(field).collect::<Result<Vec<_>, _>>().map_err(broken)?;
        let schema = Type::group_type_builder("table").with_fields(fields).build().map_err(broken)?;
        let program = format!("bakeoff {}", env!("CARGO_PKG_VERSION"));
        let settings = WriterProperties::builder().set_created_by(program).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(settings)).map_err(broken)?;
        let waiting = kinds.iter().map(|_| Vec::new()).collect();
        Ok(Self { writer, kinds, waiting })
    }

    /// # Errors
    /// A value that its column does not hold: the table has changed since it was read for the first time.
    pub(crate) fn row(&mut self, row: Vec<Value>) -> Result<(), Failure> {
        for ((column, kind), value) in self.waiting.iter_mut().zip(&self.kinds).zip(row) {
            if kind.with(&value) != *kind {
                let what = "the table changed while it was written, because a sweep is under way";
                return Err(Failure::new(Exit::Store, what).cure("export it again, or after the sweep"));
            }
            column.push(value);
        }
        if self.waiting.first().is_some_and(|column| column.len() >= GROUP) { self.group() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.waiting.first().is_some_and(|column| !column.is_empty()) {
            self.group()?;
        }
        self.writer.close().map(drop).map_err(broken)
    }

    fn group(&mut self) -> Result<(), Failure> {
        let mut group = self.writer.next_row_group().map_err(broken)?;
        for (kind, column) in self.kinds.iter().zip(&mut self.waiting) {
            let values = std::mem::take(column);
            match kind {
                Kind::Integer => write::<Int64Type, W>(&mut group, &values, integer),
                Kind::Real => write::<DoubleType, W>(&mut group, &values, real),
                Kind::Text => write::<ByteArrayType, W>(&mut group, &values, text),
            }
            .map_err(broken)?;
        }
        group.close().map(drop).map_err(broken)
    }
}

/// Writes the next column of a group; what `of` has no value for is missing.
fn write<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[Value],
    of: impl Fn(&Value) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let found: Vec<Option<T::T>> = values.iter().map(of).collect();
    let levels: Vec<i16> = found.iter().map(|value| i16::from(value.is_some())).collect();
    let there: Vec<T::T> = found.into_iter().flatten().collect();
    column.typed::<T>().write_batch(&there, Some(&levels), None)?;
    column.close()
}

fn integer(value: &Value) -> Option<i64> {
    if let Value::Integer(number) = value { Some(*number) } else { None }
}

fn real(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Real(number) => Some(*number),
        Value::Null | Value::Text(_) => None,
    }
}

fn text(value: &Value) -> Option<ByteArray> {
    match value {
        Value::Null => None,
        Value::Integer(number) => Some(number.to_string().into_bytes().into()),
        Value::Real(number) => Some(number.to_string().into_bytes().into()),
        Value::Text(text) => Some(text.clone().into_bytes().into()),
    }
}

fn broken(error: ParquetError) -> Failure {
    Failure::new(Exit::Internal, format!("the table cannot be written: {error}"))
        .cure("free some space, or name another place with -o")
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    #[test]
    fn every_value_comes_back_as_what_it_was() {
        let rows = [
            vec![
                Value::Integer(3),
                Value::Integer(-1),
                Value::Text("a,\"b\"\n\u{1F980}".to_owned()),
                Value::Null,
            ],
            vec![Value::Null, Value::Real(0.1), Value::Null, Value::Null],
            vec![Value::Integer(i64::MAX), Value::Null, Value::Integer(7), Value::Null],
        ];
        let mut kinds = vec![Kind::default(); 4];
        learn(&mut kinds, &rows);
        assert_eq!(kinds, [Kind::Integer, Kind::Real, Kind::Text, Kind::Integer]);
        let columns = ["whole", "number", "text", "nothing"].map(str::to_owned);
        let mut bytes = Vec::new();
        let mut file = ParquetFile::begin(&mut bytes, &columns, kinds).unwrap();
        for row in rows {
            file.row(row).unwrap();
        }
        file.finish().unwrap();
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
        let read: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().into_columns().into_iter().map(|(_, field)| field).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        assert_eq!(read[0], [Field::Long(3), Field::Double(-1.0), text("a,\"b\"\n\u{1F980}"), Field::Null]);
        assert_eq!(read[1], [Field::Null, Field::Double(0.1), Field::Null, Field::Null]);
        assert_eq!(read[2], [Field::Long(i64::MAX), Field::Null, text("7"), Field::Null]);
    }

    #[test]
    fn a_value_that_came_between_the_passes_is_not_lost_in_silence() {
        let columns = ["number".to_owned()];
        let mut bytes = Vec::new();
        let mut file = ParquetFile::begin(&mut bytes, &columns, vec![Kind::Integer]).unwrap();
        file.row(vec![Value::Null]).unwrap();
        assert!(file.row(vec![Value::Real(0.5)]).is_err());
    }

    #[test]
    fn many_rows_are_many_groups_and_no_rows_are_a_table() {
        let columns = ["number".to_owned()];
        for (rows, groups) in [(0, 0), (1, 1), (GROUP, 1), (GROUP + 1, 2)] {
            let mut bytes = Vec::new();
            let mut file = ParquetFile::begin(&mut bytes, &columns, vec![Kind::Integer]).unwrap();
            for row in 0..rows {
                file.row(vec![Value::Integer(row as i64)]).unwrap();
            }
            file.finish().unwrap();
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
            assert_eq!(reader.num_row_groups(), groups, "{rows}");
            assert_eq!(reader.metadata().file_metadata().num_rows(), rows as i64);
        }
    }
}
