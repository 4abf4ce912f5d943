//! The queries of reports, lists, exports and drivers. Each returns plain rows.

pub(crate) mod annotations;
pub(crate) mod attempt_spec;
pub(crate) mod course;
pub(crate) mod earlier;
pub(crate) mod export;
pub(crate) mod kept;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod losses;
pub(crate) mod narrowed;
pub(crate) mod parts;
pub(crate) mod plan;
pub(crate) mod steps;
pub(crate) mod tables;
pub(crate) mod target;
pub(crate) mod timeline;
pub(crate) mod trace;
pub(crate) mod transfers;
