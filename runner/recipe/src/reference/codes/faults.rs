//! Problems of faults that a recipe asks for.

use super::{Code, code};

pub(super) const FAULTS: &[Code] = &[
    code(
        "R163",
        "a fault as long as the run",
        "A rank that is paused for as long as `limits.run-timeout` lets a run take never continues: the run is out of time before. A pause \
         without `for` is for good, and the run goes the way it goes when a rank hangs. No rank learns that a link has dropped: one that waits \
         for a message over it gives up after a minute, or three where others may come first, and the run needs time for that.",
    ),
    code(
        "R186",
        "a fault without a rank",
        "An entry of `faults` names a rank that the run does not have, or a machine that none of its ranks is on. Arms without servers have \
         workers only.",
    ),
    code(
        "R187",
        "a fault after the end",
        "A fault strikes at the beginning of a step of its rank. Workers that step together take as many as the training has; those at their own \
         pace take as many on average, so that a slow one may end before the step comes. The run's record then says so.",
    ),
    code(
        "R188",
        "a fault that changes nothing",
        "A rank that was killed, or paused for good, takes no further step that anything could happen at; and a rank is slow from `step` up to, \
         not including, `until`. A link that drops stays so, is the same from both of its ends, and joins two ranks that send each other something \
         while they train: workers with a server exchange with it alone, those of a ring with their two neighbours, those of a graph with theirs.",
    ),
    code(
        "R189",
        "faults that leave no worker",
        "Strategies whose workers go at their own pace continue as long as one worker is left; all others end with the first that they lose, \
         which is a result. Without any worker there is nothing to see.",
    ),
];
