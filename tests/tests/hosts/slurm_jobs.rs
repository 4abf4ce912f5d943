//! Runs as jobs of a real Slurm: the same weights as on one machine, nothing lost and nothing twice, whatever happens to jobs and driver.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, DriverProcess, Ended, Sketch, SlurmLab, wait_until};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(4);

/// Two arms twice, each of two workers and perhaps a server; of one thread, because sums depend on their number.
fn recipe(nodes: &str, steps: u32) -> String {
    let sketch =
        Sketch { name: "jobs", batch: 20, samples: 200, steps, evaluate: steps, ..Sketch::default() };
    let text = sketch.to_string().replace("use = [\"local*2\"]", &format!("{nodes}\nthreads = 1"));
    let arms = "[[strategy]]\nkind = \"d-sync\"\n[[strategy]]\nkind = \"ps-sync\"\n";
    text.replace("[strategy]\nkind = \"d-sync\"\n", arms).replace("count = 1", "count = 2")
        + "[communication]\nreduce-order = \"rank\"\n"
}

const SUBMIT: [&str; 4] = ["run", "recipe.toml", "--submit", "slurm"];

/// `bakeoff` in front of the lab's queue.
fn queued(lab: &SlurmLab, desk: &Desk, arguments: &[&str]) -> Command {
    let mut command = desk.command(arguments).unwrap();
    command.env("BAKEOFF_CACHE", e2e::binary("bakeoff").unwrap().with_file_name("hosts-cache"));
    for (name, value) in lab.slurm("sbatch").get_envs() {
        command.env(name, value.unwrap());
    }
    command
}

fn run(lab: &SlurmLab, desk: &Desk, arguments: &[&str]) -> Ended {
    DriverProcess::start(queued(lab, desk, arguments)).unwrap().end(PATIENCE).unwrap()
}

/// The numbers of the jobs that a driver waited for.
fn numbers(said: &str) -> BTreeSet<u64> {
    let number = |line: &str| line.strip_prefix("job ")?.split_once(" is submitted")?.0.parse().ok();
    said.lines().filter_map(number).collect()
}

/// Number and state of each job in the queue.
fn jobs(lab: &SlurmLab) -> Vec<String> {
    let said = lab.slurm("squeue").args(["-h", "-o", "%i %T"]).output().unwrap();
    String::from_utf8_lossy(&said.stdout).lines().map(str::to_owned).collect()
}

/// The folders of jobs that no driver has taken over.
fn folders(desk: &Desk) -> Vec<PathBuf> {
    let entries = fs::read_dir(desk.at(".bakeoff/jobs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Runs on one node that take some seconds each.
fn slow(nodes: &str) -> String {
    let arms = "[[strategy]]\nkind = \"d-sync\"\n[[strategy]]\nkind = \"d-sync\"\nname = \"star\"\ncommunication.collective = \"star\"\n";
    let (before, after) = recipe(nodes, 150)
        .split_once("[[strategy]]")
        .map(|(one, two)| (one.to_owned(), two.to_owned()))
        .unwrap();
    let after = after.split_once("[repeats]").unwrap().1.split_once("[communication]").unwrap().0.to_owned();
    format!("{before}{arms}[repeats]{after}[compute]\nstep-time = \"20ms\"\n")
}

#[test]
fn runs_that_are_jobs_end_with_the_weights_of_one_machine() {
    if !SlurmLab::is_possible() {
        return;
    }
    let lab = SlurmLab::start().unwrap();
    let here = Desk::new().unwrap();
    here.write("recipe.toml", &recipe("use = [\"local*2\"]", 10)).unwrap();
    here.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let there = Desk::new().unwrap();
    // Two of three nodes for each job.
    there.write("recipe.toml", &recipe("use = [\"slurm*1\"]\nworkers = 2", 10)).unwrap();
    let shown = run(&lab, &there, &[&SUBMIT[..], &["--dry-run"]].concat()).with_code(0).unwrap().stdout;
    assert!(
        shown.contains("4 jobs would be submitted") && shown.contains("--nodes=2 --ntasks-per-node=2"),
        "{shown}"
    );
    assert!(jobs(&lab).is_empty() && !there.at(".bakeoff").exists());
    let ended = run(&lab, &there, &[&SUBMIT[..], &["--", "--partition=p", "--time=10"]].concat())
        .with_code(0)
        .unwrap();
    let page = fs::read_to_string(there.at(ended.page().unwrap())).unwrap();
    assert!(page.contains("ps-sync") && page.contains("d-sync"));
    let found = here.weights().unwrap();
    assert_eq!((found.len(), there.weights().unwrap()), (4, found));
    assert!(folders(&there).is_empty() && jobs(&lab).is_empty());
    // It is all there: nothing is submitted, and another partition would be another run.
    let again = run(&lab, &there, &[&SUBMIT[..], &["--", "--partition=p"]].concat()).with_code(0).unwrap();
    assert!(
        numbers(&again.stderr).is_empty() && again.stderr.contains("4 finished before and reused"),
        "{}",
        again.stderr
    );
    let other = run(&lab, &there, &[&SUBMIT[..], &["--dry-run"]].concat()).with_code(0).unwrap().stdout;
    assert!(other.contains("4 jobs would be submitted"), "{other}");
}

#[test]
fn jobs_that_are_cancelled_are_named_and_submitted_again_alone() {
    if !SlurmLab::is_possible() {
        return;
    }
    let lab = SlurmLab::start().unwrap();
    let here = Desk::new().unwrap();
    here.write("recipe.toml", &slow("use = [\"local*2\"]")).unwrap();
    here.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let there = Desk::new().unwrap();
    there.write("recipe.toml", &slow("use = [\"local*2\"]")).unwrap();
    let driver = DriverProcess::start(queued(&lab, &there, &SUBMIT)).unwrap();
    let mut chosen = None;
    wait_until(PATIENCE, || {
        let under_way = folders(&there).into_iter().find(|folder| folder.join("attempt/events.mpk").exists());
        chosen = under_way.and_then(|folder| fs::read_to_string(folder.join("number")).ok());
        Ok(chosen.is_some())
    })
    .unwrap();
    let chosen = chosen.unwrap();
    let status = queued(&lab, &there, &["status"]).output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("4 jobs") && status.contains("is running"), "{status}");
    assert!(lab.slurm("scancel").arg(chosen.trim()).status().unwrap().success());
    // The three nodes have jobs; this one ends without a sign of life.
    let waiting =
        jobs(&lab).into_iter().find_map(|job| Some(job.strip_suffix(" PENDING")?.to_owned())).unwrap();
    assert!(lab.slurm("scancel").arg(&waiting).status().unwrap().success());
    let first = driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    assert!(first.stderr.contains(&format!("job {waiting} was cancelled; ")), "{}", first.stderr);
    let words = format!("job {} was cancelled; the same command submits it again; its log: ", chosen.trim());
    assert!(first.stderr.contains(&words) && numbers(&first.stderr).len() == 4, "{}", first.stderr);
    let second = run(&lab, &there, &SUBMIT).with_code(0).unwrap();
    assert!(second.stderr.contains("2 finished before and reused"), "{}", second.stderr);
    assert_eq!(numbers(&second.stderr).len(), 2, "{}", second.stderr);
    let found = here.weights().unwrap();
    assert_eq!((found.len(), there.weights().unwrap()), (4, found));
    there.run(["report", "last", "-o", "page.html"]).unwrap().with_code(0).unwrap();
    assert!(fs::read_to_string(there.at("page.html")).unwrap().contains("star"));
    assert!(folders(&there).is_empty() && jobs(&lab).is_empty());
}

#[test]
fn a_driver_that_goes_leaves_its_jobs_and_a_later_one_takes_them() {
    if !SlurmLab::is_possible() {
        return;
    }
    let lab = SlurmLab::start().unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &slow("use = [\"local*2\"]")).unwrap();
    let start = || DriverProcess::start(queued(&lab, &desk, &SUBMIT)).unwrap();
    let all_are_there = || {
        wait_until(PATIENCE, || {
            Ok(folders(&desk).iter().filter(|folder| folder.join("number").exists()).count() == 4)
        })
    };
    let driver = start();
    all_are_there().unwrap();
    // Its jobs are its own as long as it waits.
    let other = run(&lab, &desk, &SUBMIT).with_code(7).unwrap();
    assert!(other.stderr.contains("another `bakeoff run --submit` waits for the jobs"), "{}", other.stderr);
    driver.signal(Signal::INT).unwrap();
    let first = driver.end(PATIENCE).unwrap().with_code(130).unwrap();
    let left =
        first.stderr.lines().find(|line| line.contains("in the queue: the same command")).unwrap_or_default();
    assert!(left.contains("`scancel "), "{}", first.stderr);
    // A job of another name, which an earlier `sbatch` brings late, trains nothing.
    let folder = folders(&desk)[0].display().to_string();
    let stray = desk.run(["job", &folder, "--name", "bakeoff-of-another"]).unwrap().with_code(0).unwrap();
    assert!(stray.stderr.contains("another job has this run"), "{}", stray.stderr);
    // The second is killed while it waits.
    drop(start());
    let last = run(&lab, &desk, &SUBMIT).with_code(0).unwrap();
    let before = numbers(&first.stderr);
    let after = numbers(&last.stderr);
    assert!(before.len() == 4 && after.is_subset(&before), "{before:?} {after:?}");
    assert_eq!(desk.weights().unwrap().len(), 4);
    assert!(folders(&desk).is_empty() && jobs(&lab).is_empty());
    // A driver that makes all runs again gets no job, and no result, of an earlier driver.
    let fresh = [&SUBMIT[..], &["--fresh"]].concat();
    let driver = DriverProcess::start(queued(&lab, &desk, &fresh)).unwrap();
    all_are_there().unwrap();
    driver.signal(Signal::INT).unwrap();
    let left = numbers(&driver.end(PATIENCE).unwrap().with_code(130).unwrap().stderr);
    let again = numbers(&run(&lab, &desk, &fresh).with_code(0).unwrap().stderr);
    assert!(left.len() == 4 && again.len() == 4 && left.is_disjoint(&again), "{left:?} {again:?}");
}

#[test]
fn a_queue_that_is_not_there_or_refuses_is_told_with_the_cure() {
    if !SlurmLab::is_possible() {
        return;
    }
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("use = [\"slurm*1\"]\nworkers = 2", 10)).unwrap();
    let mut without = desk.command(SUBMIT).unwrap();
    without.env("PATH", "/nowhere");
    let said = DriverProcess::start(without).unwrap().end(PATIENCE).unwrap().with_code(4).unwrap().stderr;
    assert!(said.contains("there is no `sbatch` on the PATH") && said.contains("login node"), "{said}");
    let lab = SlurmLab::start().unwrap();
    let said =
        run(&lab, &desk, &[&SUBMIT[..], &["--", "--partition=none"]].concat()).with_code(4).unwrap().stderr;
    assert!(said.contains("the queue refuses a job: ") && said.contains("invalid partition"), "{said}");
    assert!(said.contains("cure: name partition"), "{said}");
    assert!(jobs(&lab).is_empty());
}
