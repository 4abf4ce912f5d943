//! The results of all sweeps in one SQLite database, and the queries of reports and of the command line.
//!
//! No other crate knows SQL. Writers pass domain types ([`NewSweep`], [`record::Event`]); readers get plain rows
//! ([`SweepRows`]), already selected and thinned. The driver is the only writer while a sweep runs. It may be killed at any
//! moment: committed data stays, and attempts under way read as interrupted.

mod annotation;
mod bundle;
mod database;
mod derive;
mod driver;
mod error;
mod id;
mod journal;
mod layout;
mod rank_rows;
mod read;
mod rebuild;
mod rows;
mod selection;
mod selection_sql;
mod sql;
mod write;

pub use annotation::{AnnotationError, Annotations, SweepNote, SweepTag};
pub use bundle::alike::{AlikeCell, AlikeSweep};
pub use bundle::error::BundleError;
pub use bundle::import::{Imported, ImportedSweep, Importing, import, look_at_bundle};
pub use bundle::manifest::BundledSweep;
pub use bundle::pack::{Bundled, BundledModels, LeftOut};
pub use bundle::standing::SweepStanding;
pub use database::compact::compact;
pub use database::health::{DbInfo, DbProblem};
pub use database::open::Store;
pub use driver::Driver;
pub use error::StoreError;
pub use id::{AttemptId, NodeId, RunId, SweepId};
pub use journal::entries::{AttemptEnd, SweepEnd};
pub use journal::event_log::EventLog;
pub use layout::DATABASE;
pub use rank_rows::{PaceRow, PhaseRow, RankRow, Steady, UsageRow};
pub use read::annotations::FittingSweep;
pub use read::course::{Course, CourseStep, WorkerCourse};
pub use read::earlier::{EarlierCell, EarlierRun};
pub use read::export::{Export, ExportTable, Value};
pub use read::kept::{KeptModel, SampleIds, recorded_samples};
pub use read::list::{AttemptLine, EventLine, RunDetail};
pub use read::trace::LaneTrace;
pub use rebuild::progress::{Rebuilding, Rebuilt, Unread};
pub use rebuild::rebuild;
pub use rows::{
    AttemptRow, AveragingRow, BlockRow, Commit, LinkRow, LossRow, LostRow, MetricRow, NodeRow, RunInFull,
    RunLine, RunRow, RunState, SpanRow, StalenessRow, SweepRows, TransferRow,
};
pub use selection::{Selection, SelectionError};
pub use write::annotate::Tagging;
pub use write::attempt::NewAttempt;
pub use write::heartbeat::Heartbeats;
pub use write::left_over::LeftOver;
pub use write::prune::{NeededRun, Prunable, PrunedSweep, Surplus};
pub use write::sweep::{NewReport, NewSweep, RunRef};
