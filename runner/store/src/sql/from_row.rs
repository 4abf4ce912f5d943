//! Structs that are read from rows.

/// Defines a struct that is read from a row, each field from the column of its name. In place of `sqlx`'s derive macro, for which Cargo would compile
/// SQLite, `tokio` and `sqlx` a second time, to run with the compiler.
macro_rules! from_row {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$note:meta])* $seen:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$note])* $seen $field: $type,)*
        }

        impl<'r> sqlx::FromRow<'r, sqlx::sqlite::SqliteRow> for $name {
            fn from_row(row: &'r sqlx::sqlite::SqliteRow) -> sqlx::Result<Self> {
                Ok(Self { $($field: sqlx::Row::try_get(row, stringify!($field))?,)* })
            }
        }
    };
}

pub(crate) use from_row;
