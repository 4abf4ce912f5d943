//! One checked value of a key, with its text and its place.

use crate::Extent;
use crate::Layer;
use crate::text::source::Span;
use crate::values::fault::FaultSetting;
use crate::values::slow::SlowSetting;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A value of a key, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Typed {
    Text(String),
    Path(PathBuf),
    Flag(bool),
    Whole(u64),
    Number(f64),
    Choice(&'static str),
    Duration(Duration),
    Extent(Extent),
    Extents(Vec<Extent>),
    List(Vec<String>),
    Seeds(Seeds),
    Layers(Vec<LayerSetting>),
    LayerRows(Vec<Vec<LayerSetting>>),
    Slow(Vec<SlowSetting>),
    Faults(Vec<FaultSetting>),
    /// Rate in bytes per second.
    Bandwidth(u64),
    /// Size as a number of bytes.
    Size(u64),
}

/// Where the seeds of the repeats come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seeds {
    /// Consecutive seeds, of which this is the first.
    From(u64),
    List(Vec<u64>),
}

/// A checked value, as it was written, and where.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) typed: Typed,
    /// For people: `0.1`, `ring`, `1Gbit/s`.
    pub(crate) text: String,
    /// For the expanded recipe.
    pub(crate) toml: String,
    /// `None` for a default.
    pub(crate) span: Option<Span>,
}

impl Leaf {
    /// A whole number that no recipe wrote.
    pub(crate) fn whole(number: u64) -> Arc<Self> {
        let text = number.to_string();
        Arc::new(Self { typed: Typed::Whole(number), toml: text.clone(), text, span: None })
    }

    /// A name that no recipe wrote.
    pub(crate) fn name(name: &'static str) -> Arc<Self> {
        let text = name.to_owned();
        let toml = crate::text::tree::quote(name);
        Arc::new(Self { typed: Typed::Choice(name), toml, text, span: None })
    }

    /// A path that no recipe wrote.
    pub(crate) fn path(path: PathBuf) -> Arc<Self> {
        let text = path.to_string_lossy().into_owned();
        let toml = crate::text::tree::quote(&text);
        Arc::new(Self { typed: Typed::Path(path), text, toml, span: None })
    }

    /// A list of texts that no recipe wrote.
    pub(crate) fn list(texts: &[String]) -> Arc<Self> {
        let quoted: Vec<String> = texts.iter().map(|text| crate::text::tree::quote(text)).collect();
        let toml = format!("[{}]", quoted.join(", "));
        Arc::new(Self { typed: Typed::List(texts.to_vec()), text: texts.join(","), toml, span: None })
    }

    /// The value as a number, where it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        self.typed.number()
    }
}

impl Typed {
    pub(crate) fn whole(&self) -> Option<u64> {
        match self {
            Self::Whole(number) | Self::Bandwidth(number) | Self::Size(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        match self {
            Self::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    pub(crate) fn extent(&self) -> Option<Extent> {
        match self {
            Self::Extent(extent) => Some(*extent),
            _ => None,
        }
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        match self {
            Self::Duration(duration) => Some(*duration),
            _ => None,
        }
    }

    /// The value as a number in its base unit, where it is one; of extents, whatever they count.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(number) | Self::Bandwidth(number) | Self::Size(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Duration(duration) => Some(duration.as_secs_f64()),
            Self::Extent(Extent::Epochs(epochs)) => Some(*epochs),
            Self::Extent(Extent::Steps(steps)) => Some(*steps as f64),
            _ => None,
        }
    }
}

/// A layer and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LayerSetting {
    pub(crate) layer: Layer,
    pub(crate) span: Span,
}
