//! A selection as a condition in SQL. Everything a user wrote is bound, never spliced into the text.

use crate::selection::{Field, IMPORTED, Operand, Selection, Test};
use crate::sql::from_row::from_row;
use crate::{RunId, Store, StoreError};
use recipe::{KeyTest, Relation};
use sqlx::{QueryBuilder, Sqlite};

/// The order of sweeps, whenever they came into this store: the first ten characters of an id are the moment.
pub(crate) const BY_TIME: &str = "substr(sweep.ulid, 1, 10), sweep.id";

from_row! {
    /// A run that fits.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) struct Fitting {
        /// Its row.
        pub(crate) run: i64,
        /// Its sweep's row.
        pub(crate) sweep: i64,
        pub(crate) ulid: String,
    }
}

impl Store {
    /// The runs that fit, in the order in which they were planned: that of an imported sweep among those that were made here.
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
        query.push(" ORDER BY ").push(BY_TIME).push(", run.position");
        Ok(query.build_query_as().fetch_all(&self.reader).await?)
    }
}

fn condition(query: &mut QueryBuilder<Sqlite>, test: &Test, dead: &[i64]) {
    match test {
        Test::Any => {
            query.push("1");
        }
        Test::Last(before) => {
            // A sweep that is imported must not become the one that scripts mean by `last`.
            query.push(
                "run.sweep = (SELECT id FROM sweep WHERE (imported_unix IS NULL) = EXISTS \
                 (SELECT 1 FROM sweep WHERE imported_unix IS NULL) \
                 ORDER BY CASE WHEN imported_unix IS NULL THEN '' ELSE ulid END DESC, id DESC LIMIT 1 OFFSET ",
            );
            query.push_bind(*before).push(")");
        }
        Test::Id(part) => id(query, part),
        Test::Field(field, relation, operand) => {
            let relation = without_different(query, *relation);
            query.push("(");
            field_test(query, *field, relation, operand, dead);
            query.push(")");
        }
        Test::Key(test) => {
            let relation = without_different(query, test.relation());
            key(query, test, relation);
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

/// Turns `!=` into the opposite of `=`: a run without the value in question would fit neither of them.
fn without_different(query: &mut QueryBuilder<Sqlite>, relation: Relation) -> Relation {
    match relation {
        Relation::Different => {
            query.push("NOT ");
            Relation::Equal
        }
        Relation::Equal | Relation::Less | Relation::AtMost | Relation::Greater | Relation::AtLeast => {
            relation
        }
    }
}

/// One test of a field; `!=` has been turned into its opposite.
fn field_test(
    query: &mut QueryBuilder<Sqlite>,
    field: Field,
    relation: Relation,
    operand: &Operand,
    dead: &[i64],
) {
    match field {
        Field::Strategy => {
            strategy_name(query, "cell", operand);
            query.push(" OR (");
            named(query, "cell.strategy", relation, operand);
            // As in a recipe: a name of a strategy means that strategy, and only another word a kind.
            query.push(" AND NOT EXISTS (SELECT 1 FROM cell AS other WHERE other.sweep = cell.sweep AND (");
            strategy_name(query, "other", operand);
            query.push(")))");
        }
        Field::StrategyName => strategy_name(query, "cell", operand),
        Field::StrategyKind => named(query, "cell.strategy", relation, operand),
        Field::Arm => named(query, "cell.arm_name", relation, operand),
        Field::Recipe => named(query, "sweep.name", relation, operand),
        Field::Condition => named(query, "cell.condition", relation, operand),
        Field::Seed => named(query, "run.seed", relation, operand),
        Field::Workers => named(query, "cell.workers", relation, operand),
        Field::Tag => {
            query.push("EXISTS (SELECT 1 FROM tag WHERE tag.sweep = run.sweep AND tag.name");
            compared(query, relation, operand);
            query.push(")");
        }
        Field::Origin => {
            let imported = *operand == Operand::Text(IMPORTED.to_owned());
            query.push(if imported {
                "sweep.imported_unix IS NOT NULL"
            } else {
                "sweep.imported_unix IS NULL"
            });
        }
        Field::Repeat => named(query, "(run.repeat + 1)", relation, operand),
        Field::State => {
            state(query, dead);
            compared(query, relation, operand);
        }
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

fn named(query: &mut QueryBuilder<Sqlite>, column: &str, relation: Relation, operand: &Operand) {
    query.push(column);
    compared(query, relation, operand);
}

fn compared(query: &mut QueryBuilder<Sqlite>, relation: Relation, operand: &Operand) {
    query.push(" ").push(relation.sign()).push(" ");
    bind(query, operand);
}

fn bind(query: &mut QueryBuilder<Sqlite>, operand: &Operand) {
    match operand {
        Operand::Text(text) => query.push_bind(text.clone()),
        Operand::Number(number) => query.push_bind(*number),
    };
}

/// The name of an arm is that of its strategy, and the values of the axes that multiply it, as `period=4`. A name may have
/// spaces, so that what follows a shorter name must be such a value.
fn strategy_name(query: &mut QueryBuilder<Sqlite>, cell: &str, operand: &Operand) {
    query.push(format_args!("{cell}.arm_name = "));
    bind(query, operand);
    query.push(format_args!(" OR (substr({cell}.arm_name, 1, length("));
    bind(query, operand);
    query.push(") + 1) = ");
    bind(query, operand);
    query.push(format_args!(" || ' ' AND instr(substr({cell}.arm_name, length("));
    bind(query, operand);
    query.push(format_args!(") + 2, instr(substr({cell}.arm_name, length("));
    bind(query, operand);
    query.push(") + 2) || ' ', ' ')), '=') > 0)");
}

/// Whether the value of the key in the cell fits: the recorded one of the cell alone, else of its arm, else of its sweep. Of a sweep
/// that an earlier version recorded, the values of its axes are all that is known.
fn key(query: &mut QueryBuilder<Sqlite>, test: &KeyTest, relation: Relation) {
    query
        .push("CASE WHEN EXISTS (SELECT 1 FROM key_value WHERE key_value.sweep = cell.sweep) THEN coalesce(");
    for scope in [
        "own.cell = cell.position",
        "own.cell IS NULL AND own.arm = cell.arm",
        "own.cell IS NULL AND own.arm IS NULL",
    ] {
        query.push("(SELECT ");
        value(query, test, relation);
        query
            .push(" FROM key_value AS own WHERE own.sweep = cell.sweep AND own.path = ")
            .push_bind(test.path());
        query.push(" AND ").push(scope).push(" LIMIT 1), ");
    }
    query.push("0) ELSE ");
    axis(query, test, relation);
    query.push(" END");
}

/// Whether the value of the cell's axis over the key fits; NULL if it has none: no comparison finds an unknown value, `!=` neither.
fn axis(query: &mut QueryBuilder<Sqlite>, test: &KeyTest, relation: Relation) {
    let path = test.path();
    query.push("(SELECT ");
    value(query, test, relation);
    if test.is_kind() {
        // The value of an axis over whole tables: `step(every=2 epochs)`.
        let beginning = format!("{}(", test.text());
        query.push(" OR substr(text, 1, ").push_bind(beginning.chars().count() as i64);
        query.push(") = ").push_bind(beginning);
    }
    query.push(" FROM cell_axis WHERE cell_axis.cell = cell.id AND (path IN (");
    // A recipe may write `kind` at its end, or leave it out.
    query.push_bind(path).push(", ").push_bind(format!("{path}.kind")).push(")");
    // An axis of one strategy has that strategy's name in its path, which may have dots.
    let of_one = match path.strip_prefix("strategy.") {
        Some(key) => Some(key),
        None => ["communication.", "compression"].iter().any(|table| path.starts_with(table)).then_some(path),
    };
    if let Some(key) = of_one {
        query.push(" OR (path LIKE ").push_bind(format!("strategy.%.{key}"));
        query.push(" OR path LIKE ").push_bind(format!("strategy.%.{key}.kind")).push(")");
        if path.starts_with("strategy.") {
            query.push(" AND path NOT LIKE 'strategy.%.communication.%' AND path NOT LIKE 'strategy.%.compression.%'");
        }
    }
    query.push(") LIMIT 1)");
}

/// The comparison itself, of the columns `text` and `number`; never NULL.
fn value(query: &mut QueryBuilder<Sqlite>, test: &KeyTest, relation: Relation) {
    match test.number() {
        Some(number) => {
            query.push("(number IS NOT NULL AND number ").push(relation.sign()).push(" ").push_bind(number)
        }
        None => query.push("(text ").push(relation.sign()).push(" ").push_bind(test.text().to_owned()),
    };
    if let Some(unit) = test.unit() {
        query.push(" AND instr(text, ").push_bind(unit).push(") > 0");
    }
    query.push(")");
}

/// The state of a run. One that is under way and whose driver is gone is interrupted.
fn state(query: &mut QueryBuilder<Sqlite>, dead: &[i64]) {
    query.push("CASE WHEN run.state = 'running' AND run.sweep IN (");
    let mut list = query.separated(", ");
    for sweep in dead {
        list.push_bind(*sweep);
    }
    query.push(") THEN 'interrupted' ELSE run.state END");
}
