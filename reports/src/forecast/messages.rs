//! Costs of the messages of a run: its all-reduces, and the bytes of a gradient on the wire.

use super::{NoModel, no_model};
use predict::all_reduce;
use predict::linear::{Fit, FitError, Linear, Probe};
use predict::network::LinkRates;
use predict::pipe_sgd::RingExchange;
use predict::tree::RootedTree;
use recipe::{Codec, Collective, Compression, ReduceOrder, Role, RunSpec};
use std::num::NonZeroU32;

/// A vector of a whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Gradient,
    Weights,
}

impl Sent {
    /// Its bytes on the wire, and whether they are coded.
    fn bytes(self, spec: &RunSpec) -> Result<(u64, bool), NoModel> {
        match self {
            Self::Gradient => Ok((gradient(spec)?, spec.compression != Compression::None)),
            Self::Weights => Ok((weights(spec)?, false)),
        }
    }
}

/// Seconds of the all-reduce of a vector.
pub(super) fn all_reduce_seconds(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    sent: Sent,
) -> Result<f64, NoModel> {
    let places = workers.get() as usize;
    let (bytes, coded) = sent.bytes(spec)?;
    let line = |line: Linear| Ok(line.time(bytes));
    match spec.communication.collective {
        Collective::PipelinedRing { segments } => {
            let Some(segments) = NonZeroU32::new(segments) else { return no_model("a ring in no segments") };
            Ok(all_reduce::pipelined_ring(rates, workers, segments, bytes))
        }
        Collective::Ring if spec.communication.reduce_order == ReduceOrder::Rank => {
            line(all_reduce::in_rank_order(rates, workers))
        }
        Collective::Ring if !coded => Ok(all_reduce::ring_in_windows(rates, workers, bytes)),
        // A codec is given whole chunks.
        Collective::Ring => line(all_reduce::ring(rates, workers)),
        Collective::RecursiveDoubling => line(all_reduce::recursive_doubling(rates, workers)),
        Collective::HalvingDoubling => line(all_reduce::halving_doubling(rates, workers)),
        Collective::AllGather => line(all_reduce::all_gather(rates, workers)),
        Collective::Tree => Ok(RootedTree::binomial(places).seconds(rates, bytes)),
        Collective::Star => Ok(RootedTree::star(places).seconds(rates, bytes)),
        Collective::Hierarchical { group_size } => {
            Ok(RootedTree::hierarchical(&groups_of(spec, places, group_size)).seconds(rates, bytes))
        }
    }
}

/// Seconds of a gradient that travels around a ring in several pieces, each in an all-reduce of its own.
pub(super) fn ring_in_pieces(
    spec: &RunSpec,
    rates: LinkRates,
    workers: NonZeroU32,
    pieces: NonZeroU32,
) -> Result<f64, NoModel> {
    if spec.communication.collective != Collective::Ring {
        return no_model("segments on this collective");
    }
    let bytes = gradient(spec)?;
    Ok(match spec.communication.reduce_order {
        ReduceOrder::Ring => {
            RingExchange { rates, workers, bytes, segments: pieces, synchronization: 0.0 }.seconds()
        }
        ReduceOrder::Rank => {
            let line = all_reduce::in_rank_order(rates, workers);
            f64::from(pieces.get() - 1) * line.start_up() + line.time(bytes)
        }
    })
}

/// Time of the all-reduce of one of several vectors, one after the other, by its bytes before coding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MessageTime {
    /// a + b M.
    Line(Linear),
    /// A ring that passes parts of long chunks on before the rest has come.
    Ring { rates: LinkRates, workers: NonZeroU32 },
}

impl MessageTime {
    /// Of parts of the gradient or of the weights of a run.
    pub(super) fn of(
        spec: &RunSpec,
        rates: LinkRates,
        workers: NonZeroU32,
        sent: Sent,
    ) -> Result<Self, NoModel> {
        let (bytes, coded) = sent.bytes(spec)?;
        if spec.communication.adds_around_a_ring() && !coded {
            return Ok(Self::Ring { rates, workers });
        }
        let line = message_cost(spec, rates, workers)?;
        let whole = 4 * spec.model.parameter_count() as u64;
        Self::line_of(line.start_up(), line.per_byte() * bytes as f64 / whole.max(1) as f64)
    }

    /// A line of these.
    pub(super) fn line_of(start_up: f64, per_byte: f64) -> Result<Self, NoModel> {
        Linear::new(start_up, per_byte).map(Self::Line).map_err(|error| NoModel(error.to_string()))
    }

    /// Seconds of a message; one of no bytes is not sent.
    pub(super) fn seconds(self, bytes: u64) -> f64 {
        match self {
            Self::Line(line) => line.time(bytes),
            Self::Ring { .. } if bytes == 0 => 0.0,
            Self::Ring { rates, workers } => all_reduce::ring_in_windows(rates, workers, bytes),
        }
    }

    /// The line that a plan takes the messages for: it measures one of each of these sizes.
    pub(super) fn planned(self, sizes: &[u64]) -> Linear {
        match self {
            Self::Line(line) => line,
            Self::Ring { .. } => {
                fitted(Fit::relative, sizes.iter().map(|bytes| (*bytes, self.seconds(*bytes))))
            }
        }
    }
}

/// The line that a plan makes of messages of these bytes and seconds. Where all have one size, none is needed.
pub(super) fn fitted(
    fit: impl Fn(&[Probe]) -> Result<Fit, FitError>,
    messages: impl Iterator<Item = (u64, f64)>,
) -> Linear {
    let probes = messages.filter(|(bytes, _)| *bytes > 0).map(|(bytes, seconds)| Probe { bytes, seconds });
    let probes: Vec<Probe> = probes.collect();
    let mean = || probes.iter().map(|probe| probe.seconds).sum::<f64>() / probes.len().max(1) as f64;
    fit(&probes).map_or_else(|_| Linear::constant(mean()), |fit| fit.cost)
}

/// Cost of the all-reduce of each of several vectors, one after the other, as a line in its bytes. Through a centre,
/// and among a number of workers that is no power of two, the next one begins before the last one has ended everywhere,
/// which no line has.
pub(super) fn message_cost(spec: &RunSpec, rates: LinkRates, workers: NonZeroU32) -> Result<Linear, NoModel> {
    let collective = spec.communication.collective;
    let line: fn(LinkRates, NonZeroU32) -> Linear = match collective {
        Collective::Ring => match spec.communication.reduce_order {
            ReduceOrder::Ring => all_reduce::ring,
            ReduceOrder::Rank => all_reduce::in_rank_order,
        },
        Collective::AllGather => all_reduce::all_gather,
        Collective::Tree | Collective::RecursiveDoubling | Collective::HalvingDoubling
            if !workers.is_power_of_two() =>
        {
            return no_model(format_args!(
                "messages one by one of `{}` among {workers} workers",
                collective.kind()
            ));
        }
        Collective::Tree => all_reduce::binary_tree,
        Collective::RecursiveDoubling => all_reduce::recursive_doubling,
        Collective::HalvingDoubling => all_reduce::halving_doubling,
        Collective::PipelinedRing { .. } | Collective::Star | Collective::Hierarchical { .. } => {
            return no_model(format_args!("messages one by one of `{}`", collective.kind()));
        }
    };
    Ok(line(rates, workers))
}

/// The workers of each group of a hierarchy: neighbours by number, or those of a machine, in the order of their first ones.
fn groups_of(spec: &RunSpec, workers: usize, group_size: Option<u32>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(u32, Vec<usize>)> = Vec::new();
    for place in 0..workers {
        let machine = || spec.cluster.placements.get(place).map_or(0, |placement| placement.node);
        let key = group_size.map_or_else(machine, |size| place as u32 / size.max(1));
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(place),
            None => groups.push((key, vec![place])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Bytes of a gradient on the wire. The time to encode it is not predicted.
pub(super) fn gradient(spec: &RunSpec) -> Result<u64, NoModel> {
    let parameters = spec.model.parameter_count() as u64;
    match spec.compression {
        Compression::None => Ok(4 * parameters),
        Compression::Coded {
            codec: Codec::Truncate16 | Codec::Fp16 | Codec::Bf16,
            parameters: false,
            ..
        } => Ok(2 * parameters),
        Compression::Coded { codec: Codec::Quantize8, parameters: false, .. } => Ok(parameters),
        Compression::Coded { parameters: true, .. } => no_model("coded weights"),
        Compression::Coded { codec, .. } => no_model(format_args!("codec `{}`", codec.kind())),
    }
}

/// Bytes of the weights on the wire.
pub(super) fn weights(spec: &RunSpec) -> Result<u64, NoModel> {
    match spec.compression {
        Compression::Coded { parameters: true, .. } => no_model("coded weights"),
        Compression::Coded { parameters: false, .. } | Compression::None => {
            Ok(4 * spec.model.parameter_count() as u64)
        }
    }
}

/// The servers of a run that has some.
pub(super) fn servers(spec: &RunSpec) -> Result<NonZeroU32, NoModel> {
    let servers = spec.cluster.placements.iter().filter(|placement| placement.role == Role::Server).count();
    NonZeroU32::new(servers as u32).ok_or_else(|| NoModel("the run has no server".to_owned()))
}
