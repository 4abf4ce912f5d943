//! The options of `sbatch`: the shape of a job follows from the recipe, the rest is the user's.

use crate::exit::{Exit, Failure};
use recipe::RunSpec;
use std::ffi::OsString;

/// Options of which the result does not depend: for how long, on whose account, how soon.
const HARMLESS: [&str; 25] = [
    "-t",
    "--time",
    "--time-min",
    "-A",
    "--account",
    "-q",
    "--qos",
    "--comment",
    "--mail-type",
    "--mail-user",
    "--wckey",
    "--priority",
    "--nice",
    "-b",
    "--begin",
    "--deadline",
    "--kill-on-invalid-dep",
    "-d",
    "--dependency",
    "--mem",
    "--mem-per-cpu",
    "-v",
    "--verbose",
    "--no-requeue",
    "--parsable",
];

/// Options that a job has from bakeoff, and why.
const OURS: [(&str, &str, &str); 15] = [
    ("-N", "--nodes", "the number of nodes follows from `nodes.use` and `nodes.workers`"),
    ("-n", "--ntasks", "the number of tasks follows from `nodes.use` and `nodes.workers`"),
    ("", "--ntasks-per-node", "it follows from `nodes.use` and `nodes.workers`"),
    ("-J", "--job-name", "by the name a later `bakeoff run` finds the job"),
    ("-o", "--output", "the log lies in the job's folder"),
    ("-e", "--error", "the log lies in the job's folder"),
    ("-a", "--array", "each run is a job"),
    ("-W", "--wait", "`bakeoff run` waits itself"),
    ("", "--wrap", "the job's script is `bakeoff`'s"),
    ("", "--requeue", "`limits.retries` says how often a run is tried again"),
    ("", "--test-only", "`--dry-run` shows the jobs"),
    ("", "--signal", "a job is asked to end in order a minute before its time is up"),
    ("-M", "--clusters", "the queue of another cluster is not looked at"),
    ("-H", "--hold", "a job that is held never begins"),
    ("-Q", "--quiet", "`sbatch` would not say the number of the job"),
];

/// Short forms of options that are a part of a run's identity.
const SHORT: [(&str, &str); 9] = [
    ("-C", "--constraint"),
    ("-G", "--gpus"),
    ("-L", "--licenses"),
    ("-c", "--cpus-per-task"),
    ("-m", "--distribution"),
    ("-p", "--partition"),
    ("-s", "--oversubscribe"),
    ("-w", "--nodelist"),
    ("-x", "--exclude"),
];

/// Whether a job shares its nodes; one of them is given by the user, or nodes are the job's alone.
const SHARING: [&str; 3] = ["--exclusive", "--oversubscribe", "-s"];

/// The user's options for `sbatch`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    words: Vec<String>,
}

/// The nodes and tasks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    /// Ranks of the node that has most.
    pub(crate) tasks: usize,
    /// Threads of a worker.
    pub(crate) threads: u32,
}

impl Shape {
    /// That of a run.
    pub(crate) fn of(spec: &RunSpec) -> Self {
        let cluster = &spec.cluster;
        let ranks = |node: usize| {
            cluster.placements.iter().filter(|placement| placement.node as usize == node).count()
        };
        let tasks = (0..cluster.nodes.len()).map(ranks).max().unwrap_or(1).max(1);
        Self { nodes: cluster.machines().max(1), tasks, threads: spec.threads.worker }
    }
}

impl Options {
    /// Checks the user's words.
    ///
    /// # Errors
    /// A word that is no option, or an option that bakeoff gives itself.
    pub(crate) fn of(words: &[String]) -> Result<Self, Failure> {
        for (place, option) in grouped(words).into_iter().enumerate() {
            let name = option.name();
            let refused = |what: String, cure: &str| Err(Failure::new(Exit::Usage, what).cure(cure));
            if name == "--"
                || !name.starts_with('-')
                || option.words.len() > 2
                || place == 0 && !words[0].starts_with('-')
            {
                let word = option.words.last().map_or("", String::as_str);
                return refused(
                    format!("`{word}` after `--` is no option of `sbatch`"),
                    "write options alone, as in `-- --partition=short --time=30:00`",
                );
            }
            if let Some((_, _, why)) =
                OURS.iter().find(|(short, long, _)| name == *long || !short.is_empty() && name == *short)
            {
                return refused(format!("`{name}` cannot be given to `sbatch` here: {why}"), "leave it out");
            }
            if let Some(whole) = abbreviated(name) {
                return refused(
                    format!("`{name}` is short for `{whole}`, perhaps"),
                    "write options in full: some decide on which machines a run is, and some are bakeoff's",
                );
            }
            if is_a_cluster(&option) {
                return refused(
                    format!("`{}` is several options in one word", option.words[0]),
                    "write each for itself, as in `-p short -t 30:00`",
                );
            }
        }
        Ok(Self { words: words.to_vec() })
    }

    /// The words that decide on which machines, and how, a run is made: a part of its identity, because its machines are not known before.
    pub(crate) fn asked(&self) -> String {
        let options = grouped(&self.words);
        let mut kept: Vec<String> =
            options.iter().filter(|option| !HARMLESS.contains(&option.name())).map(Grouped::whole).collect();
        kept.sort();
        let mut words = vec!["a job of Slurm".to_owned()];
        words.extend(kept);
        words.join(", ")
    }

    /// Whether other jobs may run on the same nodes.
    pub(crate) fn shares_nodes(&self) -> bool {
        grouped(&self.words).iter().any(|option| match option.name() {
            "--oversubscribe" | "-s" => true,
            // `--exclusive=user` keeps others' jobs away, and not those of this sweep.
            "--exclusive" => option.words[0].contains('=') || option.words.len() > 1,
            _ => false,
        })
    }

    /// The arguments of `sbatch` in front of the script.
    pub(crate) fn arguments(&self, shape: Shape, job: &str, log: &std::path::Path) -> Vec<OsString> {
        // `%` begins a pattern in names of logs.
        let log = log.display().to_string().replace('%', "%%");
        let mut words: Vec<OsString> = [
            "--parsable".to_owned(),
            format!("--job-name={job}"),
            format!("--output={log}"),
            format!("--nodes={}", shape.nodes),
            format!("--ntasks-per-node={}", shape.tasks),
            // Before its time is up the job has a minute to end in order: the run continues from there.
            "--signal=B:TERM@60".to_owned(),
            // The driver itself submits again where that may help.
            "--no-requeue".to_owned(),
        ]
        .map(OsString::from)
        .into();
        if shape.threads > 1 {
            words.push(format!("--cpus-per-task={}", shape.threads).into());
        }
        if !grouped(&self.words).iter().any(|option| SHARING.contains(&option.name())) {
            words.push("--exclusive".into());
        }
        words.extend(self.words.iter().map(OsString::from));
        words
    }
}

/// An option and its value, if that is a word of its own.
struct Grouped<'w> {
    words: &'w [String],
}

impl Grouped<'_> {
    /// `-p` of `-p short`, `-pshort` and `-p`; `--partition` of `--partition=short`.
    fn name(&self) -> &str {
        let first = self.words.first().map_or("", String::as_str);
        if first.starts_with("--") {
            return first.split('=').next().unwrap_or(first);
        }
        first.get(..2).unwrap_or(first)
    }
}

impl Grouped<'_> {
    /// One spelling of all: `--partition=short` of `-p short`, `-pshort` and `--partition short`.
    fn whole(&self) -> String {
        let name = self.name();
        let long = SHORT.iter().find(|(short, _)| *short == name).map_or(name, |(_, long)| *long);
        let first = self.words.first().map_or("", String::as_str);
        let joined =
            first.get(name.len()..).map(|rest| rest.trim_start_matches('=')).filter(|rest| !rest.is_empty());
        match joined.or_else(|| self.words.get(1).map(String::as_str)) {
            Some(value) => format!("{long}={value}"),
            None => long.to_owned(),
        }
    }
}

/// The option of a known name that this one begins, which `sbatch` would take it for.
fn abbreviated(name: &str) -> Option<&'static str> {
    let known = || OURS.iter().map(|(_, long, _)| *long).chain(HARMLESS).chain(SHARING);
    let is_whole = !name.starts_with("--") || name.len() < 3 || known().any(|long| long == name);
    if is_whole { None } else { known().find(|long| long.starts_with(name)) }
}

/// Whether a word has several short options: the first takes no value.
fn is_a_cluster(option: &Grouped<'_>) -> bool {
    let word = option.words[0].as_str();
    let takes_no_value = ["-h", "-k", "-O", "-Q", "-s", "-v", "-V"];
    !word.starts_with("--") && word.len() > 2 && takes_no_value.contains(&option.name())
}

/// Options begin with a dash; the words behind one are its value.
fn grouped(words: &[String]) -> Vec<Grouped<'_>> {
    let mut groups = Vec::new();
    let mut begin = 0;
    for end in 1..=words.len() {
        if end == words.len() || words[end].starts_with('-') {
            groups.push(Grouped { words: &words[begin..end] });
            begin = end;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn options(words: &str) -> Result<Options, Failure> {
        Options::of(&words.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    fn refusal(words: &str) -> String {
        let Err(Failure::Fault { error, cure, .. }) = options(words) else { panic!("{words} is taken") };
        format!("{error} = {}", cure.unwrap_or_default())
    }

    #[test]
    fn a_run_knows_its_partition_and_not_its_time() {
        let asked = |words| options(words).unwrap().asked();
        assert_eq!(asked(""), "a job of Slurm");
        assert_eq!(asked("--time=5 -A me -p short"), "a job of Slurm, --partition=short");
        assert_eq!(
            asked("-C fast --partition=short"),
            "a job of Slurm, --constraint=fast, --partition=short"
        );
        assert_eq!(asked("--partition=short -t 9 -C fast"), asked("-C fast --partition=short -t 5"));
        for same in ["-pshort", "--partition short", "-p short -v --no-requeue --mem=0"] {
            assert_eq!(asked(same), asked("-p short"), "{same}");
        }
    }

    #[test]
    fn what_is_no_option_or_bakeoffs_own_is_refused() {
        assert!(refusal("short").contains("`short` after `--` is no option"));
        assert!(refusal("-p short script.sh").contains("`script.sh` after `--` is no option"));
        assert!(refusal("-- script.sh").contains("`script.sh` after `--` is no option"));
        assert!(refusal("--signal=USR1@5").contains("to end in order"));
        assert!(refusal("--nodes=3").contains("follows from `nodes.use`"));
        assert!(refusal("-N 3").contains("`-N` cannot be given"));
        assert!(refusal("-ofile").contains("the log lies in the job's folder"));
        assert!(refusal("--arr=1-3").contains("short for `--array`"));
        assert!(refusal("--overs").contains("short for `--oversubscribe`"));
        assert!(refusal("-M other").contains("another cluster"));
        assert!(refusal("-sN2").contains("several options"));
        assert!(options("--time=5 --export=ALL --mem=4G --nodelist=n1 -v").is_ok());
    }

    #[test]
    fn nodes_are_a_jobs_alone_unless_the_user_says_otherwise() {
        let shape = Shape { nodes: 2, tasks: 3, threads: 1 };
        let words = |options: &Options| -> Vec<String> {
            let words = options.arguments(shape, "bakeoff-1", Path::new("/a%b/slurm.log"));
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let own = words(&options("-p short").unwrap());
        for word in [
            "--nodes=2",
            "--ntasks-per-node=3",
            "--exclusive",
            "--output=/a%%b/slurm.log",
            "--job-name=bakeoff-1",
        ] {
            assert!(own.iter().any(|other| other == word), "{own:?}");
        }
        assert_eq!(own[own.len() - 2..], ["-p", "short"]);
        assert!(options("--exclusive=user").unwrap().shares_nodes());
        assert!(!options("--exclusive -p short").unwrap().shares_nodes());
        let shared = options("--oversubscribe").unwrap();
        assert!(shared.shares_nodes() && !words(&shared).iter().any(|word| word == "--exclusive"));
    }
}
