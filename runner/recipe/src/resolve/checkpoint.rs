//! Settings of checkpoints, and where there can be none.

use crate::keys::lookup::KeyId;
use crate::resolve::compression;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Optional;
use crate::{Compression, Extent, StrategyKind, Training};

const CHECKPOINT: Optional<Extent> = Optional::extent("train.checkpoint");

/// How often the ranks' state is saved; never, where the run could not go on from it with the same bits.
pub(crate) fn read(settings: &Settings, kind: StrategyKind) -> Option<Extent> {
    CHECKPOINT.of(settings).filter(|_| obstacle(settings, kind).is_none())
}

/// Problem of the checkpoints that a recipe asks for, if there is one.
pub(crate) fn findings(settings: &Settings, kind: StrategyKind, train: &Training) -> Option<Finding> {
    let leaf = settings.given(KeyId::from(CHECKPOINT))?;
    if let Some(Obstacle { of, reason }) = obstacle(settings, kind) {
        let finding = Finding::new("R208", format!("runs of {of} have no checkpoints and begin again"));
        return Some(finding.at_option(leaf.span, "for other runs").note(reason));
    }
    let late = match (train.checkpoint?, train.length) {
        (Extent::Steps(every), Extent::Steps(all)) => every >= all,
        (Extent::Epochs(every), Extent::Epochs(all)) => every >= all,
        (Extent::Steps(_), Extent::Epochs(_)) | (Extent::Epochs(_), Extent::Steps(_)) => false,
    };
    late.then(|| {
        Finding::new("R209", "the run is over before its first checkpoint")
            .at_option(leaf.span, format!("it trains for {}", train.length))
            .cure("write a shorter interval, or leave `checkpoint` out")
    })
}

/// Why a run cannot be continued.
struct Obstacle {
    /// Strategy or codec that has no checkpoints, in words.
    of: String,
    reason: &'static str,
}

fn obstacle(settings: &Settings, kind: StrategyKind) -> Option<Obstacle> {
    if let Some(reason) = kind.not_continued() {
        return Some(Obstacle { of: format!("`{kind}`"), reason });
    }
    let Compression::Coded { codec, .. } = compression::read(kind, settings) else { return None };
    codec.not_continued().map(|reason| Obstacle { of: format!("a codec of kind `{}`", codec.name()), reason })
}
