//! Accidents on other hosts while ranks train there: each is named with its place, and no process stays.

use crate::{
    APART, ENDLESS, HOSTS, PATIENCE, Training, cleaned, recipe, says, trained, training, training_in,
    training_of,
};
use e2e::{CLEAN, Desk, Lab, WorkerProcess, gone};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

#[test]
fn nothing_is_left_on_any_host_when_the_driver_is_killed() {
    if !Lab::is_possible() {
        return;
    }
    let scene = training(HOSTS);
    scene.driver.signal(Signal::KILL).unwrap();
    cleaned(&scene);
    let check = scene.desk.run(["db", "check"]).unwrap().with_code(0).unwrap();
    assert!(check.stdout.starts_with("ok"));
}

#[test]
fn an_orderly_end_leaves_nothing_on_any_host() {
    if !Lab::is_possible() {
        return;
    }
    let scene = training(HOSTS);
    scene.driver.signal(Signal::INT).unwrap();
    let Training { lab: _lab, desk: _desk, driver, workers, agents } = scene;
    driver.end(Duration::from_secs(30)).unwrap().with_code(130).unwrap();
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
}

#[test]
fn a_killed_agent_ends_the_run_and_its_host_is_named() {
    if !Lab::is_possible() {
        return;
    }
    let scene = training(HOSTS);
    scene.agents[1].signal(Signal::KILL).unwrap();
    let Training { lab: _lab, desk: _desk, driver, workers, agents } = scene;
    let ended = driver.end(Duration::from_secs(40)).unwrap().with_code(5).unwrap();
    says(&ended.stderr, &["was lost with its host lab2: ", "in step ", "host lab2: "]);
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
}

#[test]
fn the_next_run_connects_again_to_a_host_whose_agent_was_killed() {
    if !Lab::is_possible() {
        return;
    }
    let text = recipe("d-sync", HOSTS, 1_500).replace("count = 1", "count = 2");
    let twice = format!("{text}[compute]\nstep-time = \"2ms\"\n");
    let Training { lab: _lab, desk, driver, workers, agents } = training_of(&twice);
    agents[0].signal(Signal::KILL).unwrap();
    driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
    let runs = desk.json(["list", "--format", "json"]).unwrap();
    let states: Vec<&str> =
        runs.as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failed", "done"]);
}

#[test]
fn a_killed_worker_of_another_host_is_named() {
    if !Lab::is_possible() {
        return;
    }
    let scene = training(HOSTS);
    scene.workers[3].signal(Signal::KILL).unwrap();
    let Training { lab: _lab, desk: _desk, driver, workers, agents } = scene;
    let ended = driver.end(Duration::from_secs(40)).unwrap().with_code(5).unwrap();
    says(&ended.stderr, &["rank 3 ", "SIGKILL"]);
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
}

/// The client's process, the daemon's for the session, and one that stands still as a network does which carries nothing.
#[test]
fn a_lost_connection_ends_the_run_and_its_host_is_named() {
    if !Lab::is_possible() {
        return;
    }
    // A driver and an agent that do not hear each other wait for 15 s.
    let lease = Duration::from_secs(15);
    let lost = "was lost with its host lab2: ";
    let ways: [(&str, Signal, Duration, &str); 3] = [
        ("the client is killed", Signal::KILL, Duration::ZERO, lost),
        ("the daemon's process is killed", Signal::KILL, Duration::ZERO, lost),
        // Ranks are missed before their host is.
        ("nothing passes", Signal::STOP, lease, "on lab2 hangs: "),
    ];
    for (number, (what, signal, patience, told)) in ways.into_iter().enumerate() {
        let scene = training(HOSTS);
        let session = scene.driver.session("lab2").unwrap();
        let struck = if number == 1 { scene.agents[1].ancestor("sshd").unwrap() } else { session.clone() };
        struck.signal(signal).unwrap();
        let Training { lab: _lab, desk, driver, mut workers, agents } = scene;
        let ended = driver.end(Duration::from_mins(1)).unwrap().with_code(5).unwrap();
        says(&ended.stderr, &[told, "in step ", "phase "]);
        workers.extend(agents);
        workers.push(session);
        gone(&workers, patience + CLEAN).unwrap_or_else(|error| panic!("{what}: {error:#}"));
        assert!(desk.run(["db", "check"]).unwrap().with_code(0).unwrap().stdout.starts_with("ok"), "{what}");
    }
}

/// From the driver, a cable that is pulled in the middle of a step looks like silence, of ranks and host alike.
#[test]
fn a_cut_link_ends_the_run_and_names_rank_and_host() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let scene = training_in(Lab::in_namespaces().unwrap(), &recipe("d-sync", APART, ENDLESS));
    assert_eq!(scene.agents.len(), 3, "an agent for each host");
    scene.lab.cut(3).unwrap();
    let Training { lab, desk: _desk, driver, workers, agents } = scene;
    // Its ranks are missed after 5 s, the host after 15 s; then nothing is left to wait for but a busy machine.
    let ended = driver.end(Duration::from_secs(40)).unwrap().with_code(5).unwrap();
    says(&ended.stderr, &["rank 3 on lab3 hangs: ", "in step ", ", phase "]);
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
    assert_eq!(lab.processes().unwrap(), [""; 0]);
}

/// Faults that the recipe plans happen on other machines as well, and are a result: no retry, no blame, exit code 0.
#[test]
fn ranks_of_other_hosts_fail_pause_slow_down_and_lose_links_as_the_recipe_says() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    // Ranks 2 and 3 are on the second host; the link between 1 and 2 is one between hosts.
    let faults = r#"
faults = [
    [{ kind = "kill", rank = 3, step = 20 }],
    [{ kind = "pause", host = "lab2", step = 20, for = "700ms" }],
    [{ kind = "slow", rank = 2, step = 20, until = 30, compute = 3.0 }],
    [{ kind = "drop-link", rank = 1, peer = 2, step = 20 }],
]
"#;
    let text = recipe("d-sync", HOSTS, 60);
    let text = format!("{text}[compute]\nstep-time = \"10ms\"\n[sweep.axes]{faults}");
    desk.write("recipe.toml", &text).unwrap();
    let mut driver = lab.run(&desk, ["-v", "run", "recipe.toml"]).unwrap();
    let workers: Vec<_> = (0..4).map(|rank| driver.worker(rank).unwrap()).collect();
    let agents: Vec<WorkerProcess> = workers.iter().filter_map(|worker| worker.starter().ok()).collect();
    let ended = driver.end(PATIENCE).unwrap().with_code(0).unwrap();
    says(
        &ended.stderr,
        &[
            "rank 3 was killed at the beginning of step 20, as the recipe says",
            "rank 2 was paused for 700ms at the beginning of step 20",
            "rank 3 was paused for 700ms at the beginning of step 20",
            "rank 2 was slowed down by 3",
            "rank 1 lost its link with rank 2 at the beginning of step 20, as the recipe says",
            "phase wait-peer",
        ],
    );
    assert!(!ended.stderr.contains("retrying"), "{}", ended.stderr);
    let runs = desk.json(["list", "--format", "json"]).unwrap();
    let runs = runs.as_array().unwrap();
    let state = |condition: &str| {
        let is_it = |run: &&serde_json::Value| run.to_string().contains(condition);
        runs.iter().find(is_it).unwrap()["state"].as_str().unwrap().to_owned()
    };
    for (condition, expected) in [
        ("kill-rank3@20", "failed"),
        ("pause-lab2@20:700ms", "done"),
        ("slow-rank2@20-30", "done"),
        ("drop-link-rank1-rank2@20", "failed"),
    ] {
        assert_eq!(state(condition), expected, "{condition}");
    }
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
}

/// The files of a run that a host's agent removes.
#[test]
fn a_host_keeps_nothing_of_a_run_but_its_cache() {
    if !Lab::is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::with_cache(folder.path()).unwrap();
    assert!(!trained(Some(&lab), "d-sync", HOSTS).is_empty());
    let names = |path: PathBuf| fs::read_dir(path).unwrap().count();
    assert_eq!(names(folder.path().join("attempts")), 0);
    // The program and its libraries, once, although two hosts share the cache.
    assert!(names(folder.path().join("files")) >= 3);
    assert_eq!(names(folder.path().join("sets")), 1);
    assert_eq!(names(folder.path().join("agents")), 1);
}
