//! The lanes of runs as a trace for <https://ui.perfetto.dev> and `chrome://tracing`.
//!
//! A process is a node of a run, a thread a lane of a rank. Steps are complete events that enclose the phases of
//! the steps whose spans were kept; the other steps have their phases as arguments. Loss and bytes per step are
//! counters, evaluations are marks. All runs begin at time 0, so that runs can be compared one below the other.
//!
//! Source: "Trace Event Format" (Chromium project). Times are microseconds there; three decimals keep every
//! nanosecond. JSON has no NaN: a loss that is not finite is left out of the counter and written as text.

use crate::output::human;
use record::{LaneId, Nanos, PhaseTimes, Rank, SpanRecord, StepRecord};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use store::{MetricRow, NodeRow, RunDetail};

/// A trace under way; [`Writer::end`] makes it whole.
pub(crate) struct Writer<'a> {
    out: &'a mut dyn Write,
    begun: bool,
    /// Processes that were named.
    processes: u32,
    /// Threads that were named.
    threads: u32,
}

/// One run's processes and threads.
pub(crate) struct Track {
    lanes: BTreeMap<(Rank, LaneId), (u32, u32)>,
    /// The process that counters of the whole run belong to.
    first: u32,
}

/// An event, in the words of the format.
#[derive(Default, Serialize)]
struct Event<'a> {
    name: &'a str,
    ph: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<u32>,
    /// How far a mark reaches: the process.
    #[serde(skip_serializing_if = "str::is_empty")]
    s: &'static str,
    #[serde(skip_serializing_if = "Map::is_empty")]
    args: Map<String, Value>,
}

impl<'a> Writer<'a> {
    /// Writes the head of the document, up to the first event.
    pub(crate) fn begin(out: &'a mut dyn Write) -> io::Result<Self> {
        let about = json!({ "program": "bakeoff", "version": env!("CARGO_PKG_VERSION") });
        write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{about},\"traceEvents\":[")?;
        Ok(Self { out, begun: false, processes: 0, threads: 0 })
    }

    /// Names the processes and threads of a run, and marks its evaluations.
    pub(crate) fn run(&mut self, detail: &RunDetail, lanes: &[(Rank, LaneId)]) -> io::Result<Track> {
        let ranks = detail.run.attempt.iter().flat_map(|attempt| &attempt.ranks);
        let nodes: BTreeMap<Rank, (u32, &str)> =
            ranks.map(|rank| (rank.rank, (rank.node, rank.role.name()))).collect();
        let mut track = Track { lanes: BTreeMap::new(), first: self.processes + 1 };
        let mut processes: BTreeMap<u32, u32> = BTreeMap::new();
        for (rank, lane) in lanes {
            let (node, role) = nodes.get(rank).copied().unwrap_or((0, "worker"));
            let process = match processes.get(&node) {
                Some(process) => *process,
                None => self.process(detail, detail.nodes.get(node as usize))?,
            };
            processes.insert(node, process);
            let thread = self.thread(process, &format!("{role} rank {rank}, {lane}"))?;
            track.lanes.insert((*rank, *lane), (process, thread));
        }
        for metric in
            detail.run.attempt.iter().flat_map(|attempt| attempt.metrics.iter().chain(&attempt.beside))
        {
            self.metric(track.first, metric)?;
        }
        Ok(track)
    }

    /// A step, which encloses its phases.
    pub(crate) fn step(&mut self, track: &Track, step: &StepRecord) -> io::Result<()> {
        let Some((pid, tid)) = track.lanes.get(&(step.rank, step.lane)).copied() else { return Ok(()) };
        let name = if step.drain { "drain".to_owned() } else { format!("step {}", step.step) };
        let mut args = map(json!({
            "samples of all ranks": step.samples,
            "own samples": step.own_samples,
            "bytes out": step.bytes_out,
            "bytes in": step.bytes_in,
            "phases (ms)": phases(&step.phases),
        }));
        args.extend(step.loss.map(|loss| ("loss".to_owned(), number(f64::from(loss)))));
        args.extend(step.rate.map(|rate| ("rate".to_owned(), number(f64::from(rate)))));
        let ts = Some(micros(step.begin));
        let dur = Some(micros(step.length));
        self.event(&Event { name: &name, ph: "X", cat: "step", ts, dur, pid, tid: Some(tid), s: "", args })?;
        if step.lane != LaneId::Compute {
            return Ok(());
        }
        let of = format!("rank {}", step.rank);
        let end = step.begin + step.length;
        if let Some(loss) = step.loss.filter(|loss| loss.is_finite()) {
            self.counter("training loss", pid, end, json!({ &of: loss }))?;
        }
        self.counter("bytes sent per step", pid, end, json!({ of: step.bytes_out }))
    }

    /// A phase of a step.
    pub(crate) fn span(&mut self, track: &Track, span: &SpanRecord) -> io::Result<()> {
        let Some((pid, tid)) = track.lanes.get(&(span.rank, span.lane)).copied() else { return Ok(()) };
        let mut args = map(json!({ "step": span.step }));
        args.extend(span.peer.map(|peer| ("peer".to_owned(), json!(peer.0))));
        args.extend((span.bytes > 0).then(|| ("bytes".to_owned(), json!(span.bytes))));
        let name = span.phase.name();
        let cat = category(span);
        let ts = Some(micros(span.begin));
        let dur = Some(micros(span.length));
        self.event(&Event { name, ph: "X", cat, ts, dur, pid, tid: Some(tid), s: "", args })
    }

    /// Ends the trace: before this it is no valid JSON.
    pub(crate) fn end(self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    fn process(&mut self, detail: &RunDetail, node: Option<&NodeRow>) -> io::Result<u32> {
        self.processes += 1;
        let line = &detail.line;
        let node = node.map_or("local", |node| node.name.as_str());
        let condition =
            if line.condition.is_empty() { String::new() } else { format!(" {}", line.condition) };
        let repeat = line.repeat + 1;
        let id = crate::reuse::short(&line.id);
        let name = format!("{node}: {}{condition}, repeat {repeat}, run {id}", line.arm);
        self.name("process_name", self.processes, None, json!({ "name": name }))?;
        self.name("process_sort_index", self.processes, None, json!({ "sort_index": self.processes }))?;
        Ok(self.processes)
    }

    fn thread(&mut self, process: u32, name: &str) -> io::Result<u32> {
        self.threads += 1;
        // Apart from the numbers of processes: a viewer takes a thread with its process's number for the main one.
        let thread = 1_000_000 + self.threads;
        self.name("thread_name", process, Some(thread), json!({ "name": name }))?;
        self.name("thread_sort_index", process, Some(thread), json!({ "sort_index": self.threads }))?;
        Ok(thread)
    }

    fn name(&mut self, name: &str, pid: u32, tid: Option<u32>, args: Value) -> io::Result<()> {
        self.event(&Event { name, ph: "M", pid, tid, args: map(args), ..Event::default() })
    }

    fn metric(&mut self, pid: u32, metric: &MetricRow) -> io::Result<()> {
        let ts = Some(micros(metric.at));
        let name = format!("{} of {}", metric.metric, metric.model);
        let args = map(json!({ "value": number(metric.value), "epoch": metric.epoch, "step": metric.step }));
        let mark =
            format!("{} {}", human::metric_name(metric.metric), human::metric(metric.metric, metric.value));
        self.event(&Event {
            name: &mark,
            ph: "i",
            cat: "evaluation",
            ts,
            pid,
            s: "p",
            args,
            ..Event::default()
        })?;
        if metric.value.is_finite() {
            self.counter(&name, pid, metric.at, json!({ "value": metric.value }))?;
        }
        Ok(())
    }

    fn counter(&mut self, name: &str, pid: u32, at: Nanos, values: Value) -> io::Result<()> {
        let ts = Some(micros(at));
        self.event(&Event { name, ph: "C", ts, pid, args: map(values), ..Event::default() })
    }

    fn event(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.out.write_all(if self.begun { b",\n" } else { b"\n" })?;
        self.begun = true;
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }
}

fn map(value: Value) -> Map<String, Value> {
    if let Value::Object(map) = value { map } else { Map::new() }
}

fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

/// A number, or its name where JSON has none for it.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

fn phases(times: &PhaseTimes) -> Map<String, Value> {
    let spent = times.iter().filter(|(_, time)| time.0 > 0);
    spent.map(|(phase, time)| (phase.name().to_owned(), json!(time.0 as f64 / 1e6))).collect()
}

fn category(span: &SpanRecord) -> &'static str {
    use record::Category;
    match span.phase.category() {
        Category::Compute => "compute",
        Category::Communication => "communication",
        Category::Waiting => "waiting",
        Category::Rest => "rest",
    }
}
