//! The traffic of each rank over a run, by the formula of its method.

use super::{Ran, STEPS};
use recipe::{
    Codec, Collective, Compression, ExchangeThrough, FcUpdate, ModuloScheme, ReduceOrder, Serve, Strategy,
};
use std::ops::Range;
use std::sync::Arc;
use strategies::collective::Cost;
use strategies::{Blueprint, SamplePartition, TrainingPlan, vector::piece};

/// A word with which a worker asks, is admitted, or says that it has the answer.
const WORD: u64 = 1;
/// A note of a server before its weights: how many samples, and whether weights follow.
const NOTE: u64 = 9;
/// Bytes of the message that a worker sends in place of a gradient when none follows.
const GOODBYE: u64 = 1;
/// Weights of the model.
const PARAMETERS: usize = 784 * 102 + 102 + 102 * 50 + 50 + 50 * 10 + 10;

/// Samples of a step of all workers.
const BATCH: u64 = 100;

/// The traffic of a link over a run: bytes and messages.
type Load = (u64, u64);

/// Compares the counted traffic between ranks with the formula, where there is one; returns the differences.
pub(crate) fn sends_what_it_costs(ran: &Ran) -> Vec<String> {
    let workers = ran.workers();
    let sent = |from: usize, to: Range<usize>| -> Load {
        let links = ran
            .attempt
            .links
            .iter()
            .filter(|link| link.from.index() == from && to.contains(&link.to.index()));
        links.fold((0, 0), |sum, link| add(sum, (link.bytes, link.messages)))
    };
    let mut offences = Vec::new();
    let mut compare = |what: String, counted: Load, formula: Load| {
        if counted != formula {
            offences.push(format!("{what} sent {counted:?}, not {formula:?} (bytes and messages)"));
        }
    };
    // The first worker's initial weights go to every other rank.
    let initial =
        |worker: usize, others: usize| if worker == 0 { weights(PARAMETERS, others as u64) } else { (0, 0) };
    for worker in 0..workers {
        // Groups cut their parts out of the same seed.
        let begin = if ran.spec.strategy.parts() > 1 { (0, 0) } else { initial(worker, workers - 1) };
        if let Some(formula) = all_reduces(ran, worker).or_else(|| in_groups(ran, worker)) {
            let formula = add(formula, begin);
            compare(format!("worker {worker}"), sent(worker, 0..workers), formula);
        }
        for server in workers..ran.spec.cluster.ranks() as usize {
            if let Some((up, down)) = served(ran, worker, server - workers) {
                let up = add(up, initial(worker, 1));
                compare(format!("worker {worker} to {server}"), sent(worker, server..server + 1), up);
                compare(format!("server {server} to {worker}"), sent(server, worker..worker + 1), down);
            }
        }
    }
    offences
}

/// The traffic of a worker in all all-reduces of a run: as many as the method says, each at its `cost()`.
fn all_reduces(ran: &Ran, worker: usize) -> Option<Load> {
    let n = PARAMETERS;
    if ran.spec.strategy.averages_through_servers() {
        // Workers send nothing to each other, unless groups exchange activations.
        return (ran.spec.strategy.parts() == 1).then_some((0, 0));
    }
    let (calls, vectors, compression) = match ran.spec.strategy {
        // Groups of one worker average as `d-sync` and `local-sgd` do.
        Strategy::DSync | Strategy::Gmp { mp: 1, average_every: None, .. } => {
            (STEPS, vec![n], ran.spec.compression)
        }
        Strategy::PipeSgd { segments, .. } => {
            let parts = (0..segments as usize).map(|part| piece(n, segments as usize, part).len());
            (STEPS, parts.collect(), ran.spec.compression)
        }
        Strategy::LocalSgd { period }
        | Strategy::Slowmo { period, .. }
        | Strategy::Gmp { mp: 1, average_every: Some(period), .. } => {
            (STEPS.div_ceil(period), vec![n], Compression::None)
        }
        // They all-reduce nothing, or elastic differences on the way of a tree.
        Strategy::PsSync
        | Strategy::AsyncSgd { .. }
        | Strategy::AsyncMsgd { .. }
        | Strategy::HogwildSgd { .. }
        | Strategy::DPsgd { .. }
        | Strategy::AdPsgd { .. }
        | Strategy::Sgp
        | Strategy::EasgdOriginal { .. }
        | Strategy::EasgdAsync { .. }
        | Strategy::MeasgdAsync { .. }
        | Strategy::EasgdHogwild { .. }
        | Strategy::EasgdSync { .. }
        | Strategy::Eamsgd { .. }
        | Strategy::Gmp { .. }
        | Strategy::Custom { .. } => return None,
    };
    let collective = Blueprint::new(&ran.spec, training_plan(ran), n).collective().clone();
    // The values that a codec rounds together must not depend on how a ring cuts its chunks: it gets whole chunks.
    let whole = compression != Compression::None
        && (ran.spec.communication.collective, ran.spec.communication.reduce_order)
            == (Collective::Ring, ReduceOrder::Ring);
    let call = vectors.into_iter().try_fold((0, 0), |sum, vector| {
        let cost = collective.cost(vector, ran.workers(), worker);
        let messages = if whole { 2 * (ran.workers() - 1) } else { cost.messages };
        Some(add(sum, coded(compression, cost.elements as u64, messages as u64)?))
    });
    Some(times(calls, call?))
}

/// A plan of any samples.
fn training_plan(ran: &Ran) -> Arc<TrainingPlan> {
    Arc::new(TrainingPlan::new(&ran.spec, SamplePartition::shared_by(1, vec![0])))
}

/// The traffic of a worker in groups that split all layers of the model in pairs.
fn in_groups(ran: &Ran, worker: usize) -> Option<Load> {
    let Strategy::Gmp { mp: 2, scheme, fc_update, average_every, .. } = ran.spec.strategy else {
        return None;
    };
    if ran.spec.strategy.averages_through_servers() {
        return None;
    }
    let partition = ran.spec.model_partition();
    let rounds = scheme.rounds(2) as u64;
    let holders = ran.workers() / 2;
    // The rows of the batch, in the round of the scheme that has one worker's only once; then columns of three layers up and of
    // two down, whatever the scheme.
    let gathers = if scheme == ModuloScheme::Turns { 1 } else { rounds };
    let own = BATCH / ran.workers() as u64;
    let exchanged = (4 * own * partition.values_sent() as u64, gathers + 5 * rounds);
    // Both parts of this model have the same number of weights.
    let part = partition.parameter_count(0);
    let (calls, compression) = match average_every {
        Some(every) => (STEPS.div_ceil(every), Compression::None),
        None if fc_update == FcUpdate::PerRound => (STEPS * rounds, ran.spec.compression),
        None => (STEPS, ran.spec.compression),
    };
    let collective = Blueprint::new(&ran.spec, training_plan(ran), PARAMETERS).collective().clone();
    let cost = if holders == 1 { Cost::default() } else { collective.cost(part, holders, worker / 2) };
    // As above, a ring cuts no chunk that is coded.
    let messages = if compression == Compression::None { cost.messages } else { 2 * (holders - 1) };
    let call = coded(compression, cost.elements as u64, messages as u64)?;
    Some(add(times(STEPS, exchanged), times(calls, call)))
}

/// The traffic between a worker and a server over a run, up and down.
fn served(ran: &Ran, worker: usize, server: usize) -> Option<(Load, Load)> {
    let servers = ran.spec.cluster.ranks() as usize - ran.workers();
    let part = piece(PARAMETERS, servers, server).len();
    let gradient = coded(ran.spec.compression, part as u64, 1)?;
    let made = ran.gradients()[worker];
    match ran.spec.strategy.kind().profile().exchange {
        ExchangeThrough::SyncServer => Some((times(made, gradient), weights(part, made))),
        ExchangeThrough::AsyncServer => {
            let up = add(times(made, gradient), (GOODBYE, 1));
            // One at a time: a worker asks and thanks, and is admitted.
            let asks = ran.spec.strategy.serve() == Some(Serve::One);
            let words = |each: u64| if asks { (each * made * WORD, each * made) } else { (0, 0) };
            let up = add(up, words(2));
            // Weights follow each note but the one with which the first server says that the run is over.
            let replies = made.saturating_sub(u64::from(server == 0));
            Some((up, add(add(times(made, (NOTE, 1)), words(1)), weights(part, replies))))
        }
        ExchangeThrough::AllReduce => {
            let Strategy::Gmp { mp: 1, average_every: None, .. } = ran.spec.strategy else { return None };
            // One worker has nothing to add.
            let sums = if ran.workers() > 1 { made } else { 0 };
            Some((add(times(sums, gradient), (GOODBYE, 1)), weights(part, sums)))
        }
        ExchangeThrough::Centre | ExchangeThrough::Neighbours => None,
    }
}

/// Unencoded weights, `count` times.
fn weights(elements: usize, count: u64) -> Load {
    (4 * elements as u64 * count, count)
}

/// `messages` messages of `elements` elements in all, if the code's length is known.
fn coded(compression: Compression, elements: u64, messages: u64) -> Option<Load> {
    let bytes = match compression {
        Compression::None => 4 * elements,
        Compression::Coded { codec, .. } => match codec {
            Codec::Truncate16 | Codec::Fp16 | Codec::Bf16 => 2 * elements,
            // A scale goes with each message.
            Codec::Quantize8 | Codec::Quantize8Gradient => elements + 4 * messages,
            Codec::TopK { .. }
            | Codec::RandomK { .. }
            | Codec::Sign
            | Codec::Terngrad { .. }
            | Codec::Qsgd { .. }
            | Codec::Powersgd { .. }
            | Codec::Custom => return None,
        },
    };
    Some((bytes, messages))
}

fn add(one: Load, other: Load) -> Load {
    (one.0 + other.0, one.1 + other.1)
}

fn times(count: u64, one: Load) -> Load {
    (count * one.0, count * one.1)
}
