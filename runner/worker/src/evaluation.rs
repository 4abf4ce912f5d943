//! The process that evaluates snapshots, so that no rank's clock has to.

use crate::data::DataSet;
use crate::evaluator::Evaluator;
use mesh::{Briefing, ControlClient, ToDriver, ToMember};
use recipe::{Access, RunSpec};
use record::{Event, MetricRecord, SnapshotRecord};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for the driver before looking whether it is still there.
const LISTEN: Duration = Duration::from_millis(500);

/// Evaluates what the driver names until it says that there is no more.
pub fn run(briefing: &Briefing) -> anyhow::Result<()> {
    let (client, inbox) = ControlClient::connect(briefing)?;
    // Made at the first snapshot: a failure is then told as the failure of that snapshot.
    let mut evaluator: Option<Evaluator> = None;
    loop {
        match inbox.recv_timeout(LISTEN) {
            Some(ToMember::Evaluate(record)) => {
                let work = |evaluator: &mut Evaluator| evaluator.evaluate(&briefing.directory, &record);
                let found = evaluator_of(briefing, &mut evaluator).and_then(|evaluator| Ok(work(evaluator)?));
                tell(&client, record.file.clone(), found.map(|metrics| (metrics, None)));
            }
            Some(ToMember::Average(records)) => {
                let file = records.first().map(|record| record.file.clone()).unwrap_or_default();
                let together = !briefing.spec.strategy.is_asynchronous();
                let in_parts = briefing.spec.strategy.parts() > 1;
                let work = |evaluator: &mut Evaluator| {
                    if in_parts {
                        evaluator.join(&briefing.directory, &records)
                    } else {
                        evaluator.average(&briefing.directory, &records, together)
                    }
                };
                let found = evaluator_of(briefing, &mut evaluator).and_then(|evaluator| Ok(work(evaluator)?));
                tell(&client, file, found);
            }
            Some(ToMember::Leave | ToMember::Stop) => break,
            None if inbox.lost() => anyhow::bail!("the connection to the driver is lost"),
            Some(ToMember::Start { .. }) | None => {}
        }
    }
    client.send(ToDriver::Goodbye);
    client.close(briefing.deadlines.shut_down)?;
    Ok(())
}

/// The evaluator, which is made when it is first asked for.
fn evaluator_of<'a>(
    briefing: &Briefing,
    evaluator: &'a mut Option<Evaluator>,
) -> anyhow::Result<&'a mut Evaluator> {
    match evaluator {
        Some(made) => Ok(made),
        none => {
            let data = Arc::new(DataSet::load(&briefing.spec.dataset)?);
            let evaluator = Evaluator::new(&briefing.spec.model, data, briefing.seed, gpu(&briefing.spec))?;
            Ok(none.insert(evaluator.of_parts(briefing.spec.model_partition())))
        }
    }
}

/// The GPU that models are evaluated on: that of the first worker on this machine, once no worker uses it.
fn gpu(spec: &RunSpec) -> Option<u32> {
    let here = |rank: &usize| {
        let node = spec
            .cluster
            .placements
            .get(*rank)
            .and_then(|placement| spec.cluster.nodes.get(placement.node as usize));
        node.is_some_and(|node| node.access == Access::Local)
    };
    let first = (0..spec.cluster.placements.len()).find(here)?;
    spec.cluster.gpu(first).filter(|_| !spec.threads.evaluate_at_once)
}

type Found = (Vec<MetricRecord>, Option<SnapshotRecord>);

/// Tells what came of a snapshot, or of several.
fn tell(client: &ControlClient, file: String, found: anyhow::Result<Found>) {
    let failure = match found {
        Ok((metrics, result)) => {
            let events = metrics.into_iter().map(Event::Metric).chain(result.map(Event::Snapshot));
            client.send(ToDriver::Events(events.collect()));
            None
        }
        Err(error) => Some(format!("{error:#}")),
    };
    client.send(ToDriver::Evaluated { file, failure });
}
