//! The event log of a run, as JSON lines: `{"event":"step","fields":{...},"run":"...","version":1}`.
//!
//! The version is that of the set of events; it is raised whenever an event or a field changes its meaning. JSON has no
//! number that is none, so that a loss that has diverged is `null`.

use record::{EVENT_VERSION, Event};
use serde_json::{Map, Value, json};
use std::io::{Error, ErrorKind, Write};
use store::StoreError;

/// Writes a run's events, in the order of the log.
pub(crate) fn write(
    run: &str,
    events: impl Iterator<Item = Result<Event, StoreError>>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    for event in events {
        let event = event.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        writeln!(out, "{}", line(run, &event)?)?;
    }
    Ok(())
}

fn line(run: &str, event: &Event) -> std::io::Result<Value> {
    // An event is an object with one entry: its name and its fields.
    let whole: Map<String, Value> = serde_json::from_value(serde_json::to_value(event)?)?;
    let (name, fields) = whole.into_iter().next().unwrap_or_default();
    Ok(json!({ "version": EVENT_VERSION, "run": run, "event": name, "fields": fields }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{LaneId, Nanos, PhaseTimes, Rank, StepRecord};

    #[test]
    fn a_line_names_version_run_and_event_and_a_loss_that_is_none_is_null() {
        let step = |loss| {
            Event::Step(StepRecord {
                rank: Rank(3),
                lane: LaneId::Compute,
                step: 7,
                samples: 70,
                begin: Nanos(1),
                length: Nanos(2),
                phases: PhaseTimes::default(),
                bytes_out: 5,
                bytes_in: 6,
                loss: Some(loss),
                own_samples: 10,
                rate: Some(0.5),
                drain: false,
                hidden: Nanos(0),
            })
        };
        let mut out = Vec::new();
        write("R", [0.25, f32::NAN].map(step).map(Ok).into_iter(), &mut out).unwrap();
        let told = String::from_utf8(out).unwrap();
        let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["version"], &lines[0]["run"]), (&json!(EVENT_VERSION), &json!("R")));
        let fields = &lines[0]["fields"];
        assert_eq!(
            (&lines[0]["event"], &fields["step"], &fields["rank"]),
            (&json!("step"), &json!(7), &json!(3))
        );
        assert_eq!((&fields["loss"], &lines[1]["fields"]["loss"]), (&json!(0.25), &Value::Null));
    }
}
