//! The results of all sweeps in one SQLite database, and the questions that reports and the command line ask it.
//!
//! No other crate knows SQL. Writers hand over domain types ([`NewSweep`], [`record::Event`]); readers get
//! plain rows ([`SweepRows`]), already chosen and thinned. The driver is the only writer while a sweep runs, and
//! may be killed at any moment: what was committed stays, and what was under way reads as interrupted.

mod attempt;
mod attempt_parts;
mod attempt_tables;
mod driver;
mod earlier;
mod error;
mod event_log;
mod exchange;
mod export;
mod filesystem;
mod health;
mod id;
mod ingest;
mod insert;
mod journal;
mod kept;
mod list;
mod load;
mod lock;
mod open;
mod plan_rows;
mod rebuild;
mod replay;
mod reserve;
mod rounds;
mod rows;
mod selection;
mod selection_sql;
mod step_time;
mod summary;
mod sweep;
mod tally;
mod timeline;
mod trace;
mod transfers;
mod value;

pub use attempt::{AttemptEnd, LeftOver, NewAttempt};
pub use driver::Driver;
pub use earlier::EarlierRun;
pub use error::StoreError;
pub use event_log::EventLog;
pub use export::{Export, ExportTable, Value};
pub use health::{DbInfo, Problem};
pub use id::{AttemptId, NodeId, RunId, SweepId};
pub use kept::{KeptModel, Samples, recorded_samples};
pub use list::{AttemptLine, EventLine, RunDetail};
pub use open::{DATABASE, Store};
pub use rebuild::{Rebuilding, Rebuilt, Unread, rebuild};
pub use rows::{
    AttemptRow, AveragingRow, LinkRow, LossRow, LostRow, MetricRow, NodeRow, PaceRow, PhaseRow, RankRow,
    RunLine, RunRow, RunState, SpanRow, StalenessRow, Steady, SweepRows, TransferRow,
};
pub use selection::{Selection, SelectionError};
pub use sweep::{NewReport, NewSweep, RunRef, SweepEnd};
pub use trace::Trace;
