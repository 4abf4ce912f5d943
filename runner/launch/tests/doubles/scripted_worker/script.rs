//! Misbehaviour of the members of a run, as a script says.

use mesh::Member;
use record::Rank;

/// A way to misbehave; most take the step in which to do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Exit with this code before anything is said.
    Early,
    /// Hang before it is prepared.
    Unready,
    /// Hold other initial weights.
    Differ,
    /// Die of SIGKILL in this step.
    Kill,
    /// Be stopped by SIGSTOP in this step.
    Hang,
    /// Exit with code 9 in this step, after garbage on standard error; the evaluator: with this code.
    Exit,
    /// Start another process in this step, then exit with code 9.
    Orphan,
    /// Diverge in this step.
    Diverge,
    /// Report a fault in this step; the evaluator: with every snapshot.
    Fail,
    /// Take steps until told to stop.
    Endless,
    /// Take steps for ever.
    Deaf,
    /// Not notice that the driver is gone.
    Blind,
    /// End without a goodbye.
    Mute,
    /// Stay after the goodbye.
    Linger,
    /// Write other snapshots than those it tells of.
    Forge,
    /// As the evaluator, delete the snapshots that it has evaluated.
    Tidy,
    /// Write into its log what the environment says to libraries that compute, and its threads.
    Tell,
}

const VERBS: [(&str, Verb); 17] = [
    ("early", Verb::Early),
    ("unready", Verb::Unready),
    ("differ", Verb::Differ),
    ("kill", Verb::Kill),
    ("hang", Verb::Hang),
    ("exit", Verb::Exit),
    ("orphan", Verb::Orphan),
    ("diverge", Verb::Diverge),
    ("fail", Verb::Fail),
    ("endless", Verb::Endless),
    ("deaf", Verb::Deaf),
    ("blind", Verb::Blind),
    ("mute", Verb::Mute),
    ("linger", Verb::Linger),
    ("forge", Verb::Forge),
    ("tidy", Verb::Tidy),
    ("tell", Verb::Tell),
];

/// Misbehaviour of one member: the words of its clause.
pub(crate) struct Part(Vec<String>);

impl Part {
    /// The part of a member: the clause that begins with its number, or with `evaluator`.
    pub(crate) fn of(script: &str, member: Member) -> Self {
        let name = match member {
            Member::Rank(rank) => rank.to_string(),
            Member::Evaluator => "evaluator".into(),
        };
        let clauses = script.split(';').map(|clause| clause.split_whitespace().map(str::to_owned));
        let mine = clauses.map(Iterator::collect::<Vec<_>>).find(|words| words.first() == Some(&name));
        Self(mine.unwrap_or_default())
    }

    /// Whether this is done.
    pub(crate) fn has(&self, verb: Verb) -> bool {
        self.at(verb).is_some()
    }

    /// The number that belongs to a verb.
    pub(crate) fn get(&self, verb: Verb) -> Option<u64> {
        self.0.get(self.at(verb)? + 1)?.parse().ok()
    }

    /// Whom the member accuses in this step, if anybody: `accuse STEP RANK`.
    pub(crate) fn accused(&self, step: u64) -> Option<Rank> {
        let at = self.0.iter().position(|word| word == "accuse")?;
        let number = |place: usize| self.0.get(place)?.parse::<u64>().ok();
        (number(at + 1) == Some(step)).then(|| Rank(number(at + 2).unwrap_or(0) as u32))
    }

    fn at(&self, verb: Verb) -> Option<usize> {
        let (name, _) = VERBS.iter().find(|(_, known)| *known == verb)?;
        self.0.iter().position(|word| word == name)
    }
}
