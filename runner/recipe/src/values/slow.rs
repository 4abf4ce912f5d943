//! An entry of `nodes.slow`: which ranks are slowed down, and by how much.

use crate::text::source::Span;
use crate::{Cluster, Role, Slow, Whom};

/// Slow ranks and where they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlowSetting {
    pub(crate) whose: Whose,
    pub(crate) compute: f64,
    pub(crate) link: f64,
    pub(crate) probability: f64,
    pub(crate) span: Span,
}

/// Which ranks an entry means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Whose {
    These(Whom),
    /// Every server: which ranks these are depends on the arm, and some have none.
    Servers,
}

impl SlowSetting {
    /// Slow ranks that the entry means in a cluster; none for the servers of one without.
    pub(crate) fn among(&self, cluster: &Cluster) -> Vec<Slow> {
        let Self { compute, link, probability, .. } = *self;
        let slow = |whom| Slow { whom, compute, link, probability };
        match self.whose {
            Whose::These(whom) => vec![slow(whom)],
            Whose::Servers => {
                let ranks = (0_u32..)
                    .zip(&cluster.placements)
                    .filter(|(_, placement)| placement.role == Role::Server);
                ranks.map(|(rank, _)| slow(Whom::Rank(rank))).collect()
            }
        }
    }

    /// In a few letters, for labels: `rank3:compute*4,link/10`.
    pub(crate) fn label(&self) -> String {
        let Self { compute, link, probability, .. } = *self;
        let whom = match self.whose {
            Whose::These(Whom::Rank(rank)) => format!("rank{rank}"),
            Whose::These(Whom::Random(count)) => format!("random{count}"),
            Whose::Servers => "servers".to_owned(),
        };
        let often = if probability < 1.0 { format!("@{probability}") } else { String::new() };
        let compute = (compute > 1.0).then(|| format!("compute*{compute}{often}"));
        let link = (link > 1.0).then(|| format!("link/{link}"));
        let parts: Vec<String> = compute.into_iter().chain(link).collect();
        format!("{whom}:{}", parts.join(","))
    }
}
