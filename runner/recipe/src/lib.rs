//! From a recipe's text to a plan: parse, check, expand, assign. Pure: it touches neither network nor clock, and no file
//! but through the [`Files`] it is given.
//!
//! The folders in the order of their dependencies: `spec` (what a run is), `keys` (what may be written), `text` (what was
//! written), `values` (each written value against its key), `resolve` (settings to descriptions), `query` (conditions),
//! `sweep` (axes, cells, runs), `difference` (settings in which two runs differ), `reference` (what people and editors read).

mod difference;
mod files;
mod keys;
mod node_list;
mod paths;
mod query;
mod reference;
mod repeat_count;
mod resolve;
mod spec;
mod sweep;
mod text;
mod values;

pub use difference::configuration::{ChangedSetting, Configuration, Configurations, changed_settings};
pub use files::{AllocatedHost, ArrayProblem, FileProblem, Files, Machine};
pub use keys::lookup::nearest;
pub use query::condition::NAMES_OF_RUNS;
pub use query::grammar::{Misread, Query, Relation, Word};
pub use query::key_test::{KeyTest, OwnKey};
pub use reference::explain::{Unexplained, explain, topics};
pub use reference::schema::schema;
pub use reference::template::Template;
pub use repeat_count::{NoRepeatCount, RepeatCount};
pub use spec::arrays::{ArrayProfile, ArrayValues};
pub use spec::augment::{AugmentKind, Augmentation};
pub use spec::axis_value::AxisValue;
pub use spec::bounds::Bounds;
pub use spec::cluster::{Cluster, Placement, Role};
pub use spec::communication::{
    Adds, Collective, CollectiveKind, Communication, PayloadPath, ReduceOrder, Schedule, ScheduleKind,
    TransportKind,
};
pub use spec::compression::{Codec, CodedSum, Compression, CompressionKind, CustomCodec, QuantizeRange};
pub use spec::dataset::{Dataset, DatasetKind, Partition, PartitionKind, Sampling, Source};
pub use spec::dataset_files::{DatasetFiles, SampleFiles};
pub use spec::dataset_profile::{DatasetProfile, ShapedBy, Targets};
pub use spec::device::Device;
pub use spec::emulation::{
    CardShare, Compute, ComputeSplit, Emulation, Network, Silence, Slow, SplitKind, Whom,
};
pub use spec::family::{Availability, Choice, Family};
pub use spec::fault::{FaultAction, FaultKind, PlannedFault};
pub use spec::hex::hex;
pub use spec::key_value::{KeyValue, SharedBy, SharedValues};
pub use spec::labelled_text::{
    LabelledTextForm, LabelledTextProfile, LabelledTextSize, PADDING, SPECIAL_TOKENS, UNKNOWN_TOKEN,
};
pub use spec::layer::{Layer, LayerKind, NoShape, Shape};
pub use spec::lost_with_link::{LONGEST_WAIT, LostWithLink, UsedLinks};
pub use spec::measure::{HashTime, KeptModels, KeptSteps, Measure};
pub use spec::message_size::share_of;
pub use spec::metric::{Metric, Target, TargetMetric};
pub use spec::model::{Init, LayeredModel, Model, ModelKind, TARGETS_AT_ONCE};
pub use spec::model_file::{FileLayer, LayoutError, ModelFile, ModelLayout};
pub use spec::model_partition::{ModelPartition, Stage};
pub use spec::node::{Access, HostSettings, Node, PortRange, Tunnel};
pub use spec::optimizer::{OptimizerKind, OptimizerSettings, UpdateRule};
pub use spec::pictures::{PictureCounts, PictureProfile};
pub use spec::placed_layer::{MatrixShape, Parameter, Paths, PlacedLayer};
pub use spec::plan::{Arm, Cell, Limits, Plan, Prices, Provenance, Redaction, ReportSettings, Run, RunOrder};
pub use spec::problem::{Affected, Place, Problem, Problems, Severity};
pub use spec::quantity::{duration as parse_duration, share as parse_share};
pub use spec::run_spec::RunSpec;
pub use spec::search::{Search, Trial, is_searched};
pub use spec::strategy::{ModelSplit, Strategy};
pub use spec::strategy_choice::{
    AveragedBy, Averaging, FcUpdate, MixOrder, ModuloScheme, MovingRate, Serve, SyncVariant,
};
pub use spec::strategy_kind::{
    ExchangeThrough, ModelShare, Profile, Replicas, Sends, StepPace, StrategyKind,
};
pub use spec::text::{TextProfile, TextSize, TextTokens};
pub use spec::threads::Threads;
pub use spec::topology::{Graph, Mixing, Topology};
pub use spec::train::{Epoch, Extent, LrScale, LrScaleKind, LrSchedule, LrShape, LrShapeKind, Training};
pub use spec::weighted_layer::WeightedLayer;
pub use sweep::planner::{PlanRequest, plan};
pub use text::render::{Colours, render};
pub use text::turning::{spelled_out, turns_text};
