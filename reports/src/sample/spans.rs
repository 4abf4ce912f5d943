//! Spans of made-up runs: each rank computes, then sends, waits and adds hop by hop; one step has a straggler.

use super::Noise;
use crate::{STRETCHES, Timelines, Traced};
use record::{LaneId, Nanos, Phase, Rank};
use store::{AttemptRow, Course, CourseStep, RankRow, SpanRow, SweepRows, WorkerCourse};

/// Spans for the runs that a page asks for.
pub fn timelines(rows: &SweepRows) -> Timelines {
    crate::wanted_timelines(rows)
        .into_iter()
        .filter_map(|id| {
            let run = rows.runs.iter().find(|run| run.id == id)?;
            let attempt = run.attempt.as_ref()?;
            Some((id, Traced { spans: spans(attempt, run.seed), course: course(attempt, run.seed) }))
        })
        .collect()
}

fn spans(attempt: &AttemptRow, seed: u64) -> Vec<SpanRow> {
    let mut noise = Noise(seed);
    let mut spans = Vec::new();
    let step_time = attempt.step_time.unwrap_or_default().0;
    for step in (1..=5).chain((1..).map(|k| k * 100).take_while(|step| *step <= attempt.steps)) {
        let begin = step_time * (step - 1);
        let stretch = if step == 300 { 1.9 } else { 1.0 };
        for rank in attempt.ranks.iter().filter(|rank| rank.steady.steps > 0) {
            let lean = 1.0 + 0.12 * noise.draw();
            let mut at = begin;
            for (phase, share) in script(rank, lean, stretch) {
                let length = (share * 1e6) as u64;
                let peer =
                    matches!(phase, Phase::WaitPeer | Phase::Transfer | Phase::Send).then_some(Rank(0));
                let span = SpanRow {
                    rank: rank.rank,
                    lane: LaneId::Compute,
                    step,
                    phase,
                    begin: Nanos(at),
                    length: Nanos(length),
                    peer,
                    bytes: 0,
                };
                spans.push(span);
                at += length;
            }
        }
    }
    spans
}

/// The workers' steps at their mean pace, a few of them longer.
fn course(attempt: &AttemptRow, seed: u64) -> Option<Course> {
    let mut noise = Noise(seed + 17);
    let paced = attempt.ranks.iter().filter_map(|rank| Some((rank, rank.pace?.own)));
    let workers = paced.map(|(rank, own)| {
        let mut step = |place: usize| {
            let hiccup = if place % 47 == 13 * (rank.rank.0 as usize + 1) { 2.4 } else { 1.0 };
            Nanos((own.0 as f64 * hiccup * (1.0 + 0.06 * noise.draw())) as u64)
        };
        let stretches: Vec<Option<Nanos>> = (0..STRETCHES).map(|place| Some(step(place))).collect();
        let longest = stretches.iter().flatten().max().copied().unwrap_or_default();
        let longest = CourseStep { step: 300, begin: Nanos(300 * own.0), own: longest };
        WorkerCourse { rank: rank.rank, steps: rank.steady.steps, longest, stretches }
    });
    let workers: Vec<WorkerCourse> = workers.collect();
    let course = Course { from: Nanos(0), to: attempt.training.unwrap_or_default(), workers };
    (!course.workers.is_empty()).then_some(course)
}

/// Phases of one step in milliseconds: compute, then six hops of sending, waiting, moving and adding.
fn script(rank: &RankRow, lean: f64, stretch: f64) -> Vec<(Phase, f64)> {
    let mean = |phase: Phase| {
        let row = rank.phases.iter().find(|row| row.phase == phase);
        row.map_or(0.0, |row| row.total.seconds() * 1e3 / rank.steady.steps.max(1) as f64)
    };
    let mut script = vec![(Phase::Data, mean(Phase::Data))];
    let late = if rank.rank.0 == 2 { stretch } else { 1.0 };
    script.push((Phase::Forward, mean(Phase::Forward) * lean * late));
    script.push((Phase::Backward, mean(Phase::Backward) * lean * late));
    let slack = (mean(Phase::Forward) + mean(Phase::Backward)) * (stretch * 1.1 - lean * late).max(0.0);
    for hop in 0..6 {
        script.push((Phase::Encode, mean(Phase::Encode) / 6.0));
        script.push((Phase::Send, mean(Phase::Send) / 6.0));
        script.push((Phase::WaitPeer, if hop == 0 { slack } else { mean(Phase::WaitPeer) / 12.0 }));
        script.push((Phase::Transfer, mean(Phase::Transfer) / 6.0));
        script.push((if hop < 3 { Phase::Reduce } else { Phase::Decode }, mean(Phase::Reduce) / 6.0));
    }
    script.push((Phase::Update, mean(Phase::Update)));
    script.push((Phase::Other, mean(Phase::Other)));
    script
}
