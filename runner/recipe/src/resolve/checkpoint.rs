//! Settings of checkpoints, and where there can be none.

use crate::keys::lookup::KeyId;
use crate::text::finding::Finding;
use crate::values::settings::Settings;
use crate::values::typed_key::Optional;
use crate::{Extent, StrategyKind};

const CHECKPOINT: Optional<Extent> = Optional::extent("train.checkpoint");

/// How often the ranks' state is saved; never, where the run could not go on from it with the same bits.
pub(crate) fn read(settings: &Settings, kind: StrategyKind) -> Option<Extent> {
    CHECKPOINT.of(settings).filter(|_| kind.not_continued().is_none())
}

/// What stands against checkpoints.
pub(crate) fn findings(settings: &Settings, kind: StrategyKind) -> Vec<Finding> {
    let Some(leaf) = settings.given(KeyId::from(CHECKPOINT)) else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(reason) = kind.not_continued() {
        findings.push(
            Finding::new("R208", format!("runs of `{kind}` have no checkpoints and begin again"))
                .at_option(leaf.span, "for the other strategies")
                .note(reason),
        );
    }
    findings
}
