//! The value that a key has in a cell: given, or the default of its table's kind; none where the key has no effect there.

use crate::keys::key::{Kind, Reach};
use crate::keys::lookup::KeyId;
use crate::keys::table::KEYS;
use crate::resolve::shared_keys::{AVERAGED_BY, PERIOD, SERVE};
use crate::resolve::{collective, communication};
use crate::values::check::OPTIONAL;
use crate::values::leaf::Leaf;
use crate::values::settings::Settings;
use crate::{AveragedBy, StrategyKind};
use std::sync::{Arc, LazyLock};

/// The keys whose values tell cells apart, in the order of the table.
static OF_CELLS: LazyLock<Vec<CellKey>> =
    LazyLock::new(|| (0..KEYS.len()).map(KeyId).filter(|id| is_of_cells(*id)).map(CellKey::new).collect());

/// A key whose value belongs to a cell, with the keys that decide whether it has one.
pub(crate) struct CellKey {
    pub(crate) id: KeyId,
    /// The `kind` of its table, where the table has kinds.
    kind: Option<KeyId>,
    /// The keys of its table, where a table without any of them means nothing.
    table: Vec<KeyId>,
}

impl CellKey {
    /// All of them.
    pub(crate) fn all() -> &'static [Self] {
        &OF_CELLS
    }

    /// That of this key, if cells have it.
    pub(crate) fn of(id: KeyId) -> Option<&'static Self> {
        Self::all().iter().find(|key| key.id == id)
    }

    fn new(id: KeyId) -> Self {
        let parent = id.key().parent();
        let table = if OPTIONAL.contains(&parent) {
            (0..KEYS.len()).map(KeyId).filter(|other| other.key().parent() == parent).collect()
        } else {
            Vec::new()
        };
        Self { id, kind: id.kind(), table }
    }

    /// Its value in a cell with these settings and a strategy of this kind.
    pub(crate) fn value(&self, settings: &Settings, strategy: StrategyKind) -> Option<Arc<Leaf>> {
        let is_of_collective = collective::keys().contains(&self.id);
        let served = is_of_collective && AVERAGED_BY.of(settings) == AveragedBy::Servers;
        if served || communication::has_no_effect(strategy, self.id) {
            return None;
        }
        if let Some(given) = settings.given(self.id) {
            return Some(Arc::clone(given));
        }
        let key = self.id.key();
        let fits = self.kind.is_none_or(|kind| key.is_of(settings.name(kind)));
        let has_table = self.table.is_empty() || self.table.iter().any(|id| settings.given(*id).is_some());
        if !fits || !has_table {
            return None;
        }
        usual_of(strategy, self.id).or_else(|| settings.get(self.id).map(Arc::clone))
    }
}

/// The default of a key that has another one for each kind of strategy.
pub(crate) fn usual_of(strategy: StrategyKind, id: KeyId) -> Option<Arc<Leaf>> {
    let profile = strategy.profile();
    if id == PERIOD.into() {
        Some(Leaf::whole(profile.period))
    } else if id == SERVE.into() {
        Some(Leaf::name(profile.serve.name()))
    } else {
        None
    }
}

/// Whether a key's value is one of a cell.
fn is_of_cells(id: KeyId) -> bool {
    let key = id.key();
    let has_cells = key.reach != Reach::Sweep || key.path == "strategy.kind";
    has_cells && !key.later && !matches!(key.kind, Kind::Table)
}
