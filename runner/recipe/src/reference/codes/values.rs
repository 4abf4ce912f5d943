//! Keys and values that are wrong by themselves.

use super::{Code, code};

pub(super) const VALUES: &[Code] = &[
    code(
        "R001",
        "not TOML",
        "The file is no TOML document. All places where the reader stumbles are shown; later ones may follow \
         from the first. Nothing else is checked until the text can be read.",
    ),
    code(
        "R002",
        "a file cannot be read",
        "The recipe, or a file that it extends, is missing, is not readable, or is not UTF-8. Names in \
         `extends` are relative to the file that extends.",
    ),
    code(
        "R003",
        "recipes extend each other in a circle",
        "`extends` must lead to files that extend nothing. The chain of files is shown. Put what they share \
         into a file of its own.",
    ),
    code(
        "R004",
        "an override is not understood",
        "`--set` takes KEY=VALUE, `--sweep` takes KEY=A,B. The key is a dotted path as `bakeoff explain` shows \
         it; a strategy's key is strategy.<name>.<key>. Values are TOML; a string may go without quotes.",
    ),
    code(
        "R010",
        "a key is missing",
        "The key has no default, because a wrong guess would cost a run. The message shows an example.",
    ),
    code(
        "R011",
        "a value of the wrong type",
        "The key takes another type of value; quantities with a unit are strings.",
    ),
    code(
        "R012",
        "an unknown key",
        "Unknown keys are errors, never ignored: a slip of the pen must not silently change an experiment. The \
         nearest known key is suggested. Some keys belong to one `kind` of their table only.",
    ),
    code(
        "R013",
        "an unknown name",
        "The key takes one of a few names; the message lists them and suggests the nearest.",
    ),
    code(
        "R014",
        "a value out of range",
        "The value can be read, and makes no sense; the message gives the range.",
    ),
    code(
        "R015",
        "a quantity that cannot be read",
        "Quantities are a number and a unit: `\"15min\"`, `\"2 epochs\"`, `\"100 steps\"`, `\"5%\"`. Machines are \
         `local*4`: a name and the number of workers that fit.",
    ),
    code(
        "R016",
        "two keys say the same",
        "Of `train.global-batch` and `train.per-worker-batch`, of `train.epochs` and `train.steps`, and of an elastic \
         strategy's `rho` and `moving-rate`, only one can be given: two could contradict each other.",
    ),
    code(
        "R017",
        "an unknown version of the format",
        "This version of bakeoff reads recipes with `schema = 1`.",
    ),
    code(
        "R018",
        "no range of ports",
        "`nodes.ports` is a port, or the first and the last of a range: `\"7000-7100\"`. Each machine listens at one of \
         them while a run has ranks on several machines.",
    ),
    code(
        "R019",
        "the name of a setting",
        "Some methods of papers are settings of a more general strategy here; the message names the setting.",
    ),
    code(
        "R020",
        "not in this version",
        "The name or key is part of the format, and this version of bakeoff cannot do it yet. It is refused, \
         because running something else instead would be worse.",
    ),
    code(
        "R021",
        "a machine that is not there",
        "`nodes.use` lists machines: `local`, what your `ssh` is called with (`lab1`, `user@lab1:2222`, ranges such as \
         `lab[01-08]`), `group:NAME` of the inventory, `hostfile:FILE`, or `slurm` inside of an allocation. `nodes.server` \
         names one of them. With `run --submit slurm` each run is a job with hosts of its own: `slurm*2` with `nodes.workers`, or `local`.",
    ),
    code(
        "R022",
        "a list of machines that cannot be read or followed",
        "`nodes.inventory` is a TOML file with a table for each machine. A file of hosts has a line for each: its name, and \
         `slots=4`. Neither has a place for a password: `ssh` must work without one. Each machine is connected once for all runs of a sweep, so that two \
         inventories may not describe one name in two ways.",
    ),
    code(
        "R023",
        "arrays that cannot be used",
        "With `dataset.kind = \"npy\"`, `dataset.path` is a folder with train_x.npy, train_y.npy, test_x.npy and test_y.npy, as \
         `np.save` writes them. Features (x) are `[samples, values]` or `[samples, channels, rows, columns]`: bytes (uint8), \
         which are normalised per channel as pictures are, or 32-bit or 64-bit floats, which are taken as they are (the \
         latter rounded to 32 bits), and must be finite. Labels (y) are `[samples]`, integers from 0 on; there are as many \
         classes as the largest label of both files and one more. Elements are little-endian and in C's order. \
         With `safetensors` the folder has train.safetensors and test.safetensors, each with the tensors `x` and `y` and no other.",
    ),
    code(
        "R024",
        "a character that changes how text is shown",
        "A terminal obeys control characters, marks of direction let a name read as another one, and separators of lines begin a line where \
         none is meant. Texts of a recipe become names and labels in lists, charts and files, so that none may have them; `question`, \
         `when` and `reason` may have several lines.",
    ),
    code(
        "R025",
        "a device that there is not",
        "`nodes.device` is `cpu`; `cuda`, where each worker of a machine takes a GPU of its own; or `cuda:0`, `cuda:1` and so on, \
         which all workers of a machine share. `device` of a machine in the inventory comes first.",
    ),
    code(
        "R030",
        "an axis that is no list",
        "Each leaf of `[sweep.axes]` is a list of the values that a key takes in turn.",
    ),
    code("R031", "an axis with fewer than two values", "Nothing varies. Set the key itself, or add a value."),
    code(
        "R032",
        "axes in lockstep of different lengths",
        "The axes of one `[[sweep.zip]]` take their values together.",
    ),
    code(
        "R033",
        "axes of arms and of conditions in lockstep",
        "An axis over a strategy, its communication or compression multiplies arms, which are compared. Any other \
         multiplies conditions, under which they are compared. One axis cannot be both.",
    ),
    code(
        "R034",
        "a key that cannot be an axis",
        "The key concerns the sweep as a whole, or is a table whose keys can be axes.",
    ),
    code("R035", "a key that is varied twice", "Two axes over one key would overwrite each other."),
    code("R036", "too many cells", "The product of the axes is larger than anything that can be run."),
    code(
        "R037",
        "a range that nothing can be drawn from",
        "A key of [[sweep.random]] has one range: { uniform = [low, high] } or { log-uniform = [low, high] } for numbers, \
         { integers = [low, high] } for whole ones, { choice = [...] } for values of any kind.",
    ),
    code(
        "R038",
        "more draws than values",
        "No two draws are alike, and the ranges have too few values for that.",
    ),
    code(
        "R039",
        "a condition that is none of the sweep",
        "Verdicts compare arms within a condition, and pages lay conditions out by their axes, so that [[sweep.include]] gives each \
         axis of the conditions a value, and nothing else.",
    ),
    code(
        "R040",
        "a condition that cannot be read",
        "Conditions compare keys with values and join comparisons with `and`, `or`, `not` and parentheses: \
         `strategy.name == 'd-sync' and nodes.workers > 4`. Comparisons are ==, !=, <, <=, >, >=. `bakeoff explain \
         selection` has the language.",
    ),
];
