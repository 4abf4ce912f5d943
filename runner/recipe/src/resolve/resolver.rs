//! Resolves one cell after the other; the other files of this folder each resolve one part.

use crate::resolve::cell::Cell;
use crate::resolve::dataset::Folders;
use crate::resolve::inventory::Known;
use crate::resolve::model::Models;
use crate::resolve::{
    assign, batch_norm, checkpoint, communication, compression, dataset, elastic, emulation, faults, gossip,
    hybrid, lr_schedule, measure, optimizer, period, pictures, quantize_range, schedule, strategy, training,
};
use crate::text::finding::Finding;
use crate::text::source::Span;
use crate::values::settings::Settings;
use crate::{RunSpec, StrategyKind, Threads};
use std::collections::BTreeMap;

/// Builds specifications; remembers models and folders of arrays, since thousands of cells share a few.
pub(crate) struct Resolver<'a> {
    machine: Known<'a>,
    sections: &'a BTreeMap<String, Span>,
    models: Models<'a>,
    arrays: Folders<'a>,
}

impl<'a> Resolver<'a> {
    /// `sections` are the places where the recipe's tables begin.
    pub(crate) fn new(machine: Known<'a>, sections: &'a BTreeMap<String, Span>) -> Self {
        Self { machine, sections, models: Models::new(machine.files), arrays: Folders::new(machine.files) }
    }

    /// The specification of a cell's runs, and why they cannot be run where they cannot.
    ///
    /// The specification is complete in any case: an excluded cell may be an impossible one.
    pub(crate) fn resolve(&mut self, kind: StrategyKind, settings: &Settings) -> (RunSpec, Vec<Finding>) {
        let mut cell = Cell { settings, sections: self.sections, findings: Vec::new() };
        let strategy = strategy::read(kind, settings);
        cell.findings.extend(strategy::findings(settings, &strategy));
        let (cluster, findings) = assign::cluster(settings, &strategy, self.machine);
        cell.findings.extend(findings);
        let workers = cluster.workers();
        let compression = compression::read(kind, settings);
        cell.findings.extend(compression::findings(kind, settings));
        cell.findings.extend(quantize_range::findings(kind, settings, workers));
        cell.findings.extend(gossip::findings(settings, &strategy, workers));
        let dataset = dataset::read(&mut cell, &mut self.arrays);
        cell.findings.extend(pictures::copied(&cell, &dataset, &cluster));
        let (emulation, findings) = emulation::emulation(settings, &cluster, self.machine);
        cell.findings.extend(findings);
        let train = training::read(&mut cell, workers, &dataset);
        cell.findings.extend(optimizer::findings(settings, &train.optimizer, &strategy));
        cell.findings.extend(checkpoint::findings(settings, kind, &train));
        cell.findings.extend(lr_schedule::findings(settings, &train, &dataset));
        cell.findings.extend(elastic::findings(settings, &strategy, workers, &train));
        cell.findings.extend(schedule::findings(kind, settings));
        let spec = RunSpec {
            model: self.models.read(&mut cell, &cluster, &dataset.source),
            train,
            communication: communication::read(&mut cell, &strategy, &cluster),
            dataset,
            faults: faults::read(settings, &cluster),
            cluster,
            strategy,
            compression,
            custom_codec: compression::custom_codec(compression, settings),
            measure: measure::read(settings),
            emulation,
            // Decided for all cells of a condition, when all are known.
            threads: Threads::default(),
        };
        cell.findings.extend(compression::nothing_to_factor(settings, compression, &spec.model));
        cell.findings.extend(batch_norm::findings(settings, &spec));
        cell.findings.extend(hybrid::findings(settings, &spec));
        cell.findings.extend(faults::findings(settings, &spec));
        cell.findings.extend(schedule::never_planned(settings, &spec));
        cell.findings.extend(strategy::endless_warmup(settings, &spec));
        cell.findings.extend(period::long_period(settings, &spec.strategy, training::steps(settings, &spec)));
        (spec, cell.findings)
    }
}
