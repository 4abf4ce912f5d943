//! A selection as a condition in SQL. Everything a user wrote is bound, never spliced into the text.

use crate::selection::{Comparison, Field, Operand, Selection, Test};
use crate::{RunId, Store, StoreError};
use sqlx::{QueryBuilder, Sqlite};

/// A run that fits.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Fitting {
    /// Its row.
    pub(crate) run: i64,
    /// Its sweep's row.
    pub(crate) sweep: i64,
    /// Its id.
    pub(crate) ulid: String,
}

impl Store {
    /// The runs that fit, in the order in which they were planned.
    pub async fn runs_fitting(&self, selection: &Selection) -> Result<Vec<RunId>, StoreError> {
        Ok(self.fitting(selection).await?.into_iter().map(|run| RunId(run.ulid)).collect())
    }

    pub(crate) async fn fitting(&self, selection: &Selection) -> Result<Vec<Fitting>, StoreError> {
        let dead = self.abandoned_sweeps().await?;
        let mut query = QueryBuilder::new(
            "SELECT run.id AS run, run.sweep, run.ulid FROM run JOIN sweep ON sweep.id = run.sweep \
             JOIN cell ON cell.id = run.cell WHERE ",
        );
        condition(&mut query, &selection.test, &dead);
        query.push(" ORDER BY run.sweep, run.position");
        Ok(query.build_query_as().fetch_all(&self.reader).await?)
    }
}

fn condition(query: &mut QueryBuilder<Sqlite>, test: &Test, dead: &[i64]) {
    match test {
        Test::Any => {
            query.push("1");
        }
        Test::Last => {
            query.push("run.sweep = (SELECT max(id) FROM sweep)");
        }
        Test::Id(part) => id(query, part),
        Test::Field(field, comparison, operand) => {
            // Without this, a run that has no such axis would fit neither `=` nor `!=`.
            let (negated, comparison) = match comparison {
                Comparison::Unequal => (true, Comparison::Equal),
                other => (false, *other),
            };
            query.push(if negated { "NOT " } else { "" });
            compare(query, field, (comparison, operand), dead);
        }
        Test::Not(inner) => {
            query.push("NOT (");
            condition(query, inner, dead);
            query.push(")");
        }
        Test::All(parts) => joined(query, " AND ", parts, dead),
        Test::Either(parts) => joined(query, " OR ", parts, dead),
    }
}

fn joined(query: &mut QueryBuilder<Sqlite>, word: &str, parts: &[Test], dead: &[i64]) {
    for (place, part) in parts.iter().enumerate() {
        query.push(if place == 0 { "(" } else { word });
        condition(query, part, dead);
    }
    query.push(")");
}

fn id(query: &mut QueryBuilder<Sqlite>, part: &str) {
    for (place, column) in ["run.ulid", "sweep.ulid"].into_iter().enumerate() {
        query.push(if place == 0 { "(" } else { " OR " });
        query.push(format_args!("substr({column}, 1, {}) = ", part.len())).push_bind(part.to_owned());
        query.push(format_args!(" OR substr({column}, -{}) = ", part.len())).push_bind(part.to_owned());
    }
    query.push(")");
}

fn compare(
    query: &mut QueryBuilder<Sqlite>,
    field: &Field,
    (comparison, operand): (Comparison, &Operand),
    dead: &[i64],
) {
    let column = match field {
        Field::Strategy => "cell.strategy",
        Field::Arm => "cell.arm_name",
        Field::Recipe => "sweep.name",
        Field::Condition => "cell.condition",
        Field::Seed => "run.seed",
        Field::Workers => "cell.workers",
        Field::Repeat => "run.repeat",
        Field::State => {
            standing(query, dead);
            ""
        }
        Field::Axis(path) => {
            query.push("EXISTS (SELECT 1 FROM cell_axis WHERE cell_axis.cell = cell.id AND path = ");
            query.push_bind(path.clone());
            query.push(match operand {
                Operand::Text(_) => " AND text ",
                Operand::Number(_) => " AND number ",
            });
            ""
        }
    };
    query.push(column).push(" ").push(comparison.operator()).push(" ");
    match operand {
        Operand::Text(text) => query.push_bind(text.clone()),
        Operand::Number(number) => query.push_bind(*number),
    };
    query.push(if matches!(field, Field::Axis(_)) { ")" } else { "" });
}

/// A run under way whose driver is gone is an interrupted one.
fn standing(query: &mut QueryBuilder<Sqlite>, dead: &[i64]) {
    query.push("CASE WHEN run.state = 'running' AND run.sweep IN (");
    let mut list = query.separated(", ");
    for sweep in dead {
        list.push_bind(*sweep);
    }
    query.push(") THEN 'interrupted' ELSE run.state END");
}
