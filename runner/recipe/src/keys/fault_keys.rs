//! The keys of what goes wrong on purpose.

use crate::FaultKind;
use crate::keys::key::{Key, Kind, Range};
use crate::spec::family::Family;

const STEPS: Kind = Kind::Whole(1, 1_000_000_000_000);

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "faults",
        Kind::Faults,
        "Faults that are caused on purpose, each at a stated step: `[[faults]]`, an entry for each. They are part of a run, and every arm has the same. A run \
         whose strategy cannot do without the lost rank fails as ordered, which is a result and not tried again.",
    )
    .default("[]")
    .example("[{ kind = \"kill\", rank = 2, step = 40 }]"),
    Key::new("faults.kind", Kind::Choice(FaultKind::CHOICES), "The kind of fault.").example("\"kill\"").sweep(),
    Key::new("faults.rank", Kind::Whole(0, 65_535), "Which rank, counted from 0; servers follow the workers. This or `host`.")
        .example("2")
        .sweep(),
    Key::new("faults.host", Kind::Text, "The machine of `nodes.use`, all of whose ranks are meant. This or `rank`.")
        .example("\"lab02\"")
        .sweep(),
    Key::new(
        "faults.step",
        STEPS,
        "It happens at the beginning of this step of the rank, counted from 1. Workers at their own pace count their own steps, \
         servers what they have served.",
    )
    .example("40")
    .sweep(),
    Key::new(
        "faults.peer",
        Kind::Whole(0, 65_535),
        "The rank at the other end of the link. What either sends the other vanishes from the beginning of `step` of `rank` on, with the messages \
         on their way to `rank` then. It does so for good, because no strategy sends anything twice: who waits for a lost message waits \
         until its deadline, and a link that came back would change nothing.",
    )
    .of(&[FaultKind::DropLink.name()])
    .example("0")
    .sweep(),
    Key::new("faults.for", Kind::Duration, "How long the rank is paused; without it, it never continues.")
        .of(&[FaultKind::Pause.name()])
        .example("\"2s\"")
        .sweep(),
    Key::new(
        "faults.compute",
        Kind::Number(Range::AT_LEAST_ONE),
        "Factor by which every compute phase takes longer.",
    )
    .of(&[FaultKind::Slow.name()])
    .example("4.0")
    .sweep(),
    Key::new(
        "faults.until",
        STEPS,
        "The first step of the rank that is as fast as before; without it the rank stays slow.",
    )
    .of(&[FaultKind::Slow.name()])
    .example("60")
    .sweep(),
];
