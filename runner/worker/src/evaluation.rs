//! The process that evaluates snapshots, so that no rank's clock has to.

use crate::data::DataSet;
use crate::evaluator::Evaluator;
use mesh::{Briefing, ControlClient, ToDriver, ToMember};
use record::{Event, SnapshotRecord};
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
                let failure = evaluate(briefing, &mut evaluator, &record, &client).err();
                let failure = failure.map(|error| format!("{error:#}"));
                client.send(ToDriver::Evaluated { file: record.file, failure });
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

fn evaluate(
    briefing: &Briefing,
    evaluator: &mut Option<Evaluator>,
    record: &SnapshotRecord,
    client: &ControlClient,
) -> anyhow::Result<()> {
    if evaluator.is_none() {
        let data = Arc::new(DataSet::load(&briefing.spec.dataset)?);
        *evaluator = Some(Evaluator::new(briefing.spec.model.clone(), data)?);
    }
    if let Some(evaluator) = evaluator {
        let metrics = evaluator.evaluate(&briefing.directory, record)?;
        client.send(ToDriver::Events(metrics.into_iter().map(Event::Metric).collect()));
    }
    Ok(())
}
