//! Runs on hosts that are reached through a real `sshd`: the same numbers as on one machine, and what goes wrong there.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{CLEAN, Desk, Lab, Sketch, WorkerProcess, free_port, gone, wait_until};
use record::{Event, Nanos, Rank};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(4);

/// A recipe of four workers on these machines.
fn recipe(strategy: &'static str, nodes: &str, steps: u32) -> String {
    let sketch = Sketch { strategy, steps, evaluate: steps, ..Sketch::default() };
    let communication = if strategy == "d-sync" { "[communication]\nreduce-order = \"rank\"\n" } else { "" };
    sketch.to_string().replace("use = [\"local*2\"]", nodes) + communication
}

const HOSTS: &str = "use = [\"lab1*2\", \"lab2*2\"]";
const ENDLESS: u32 = 1_000_000;

/// The last digest of each rank's weights, by strategy.
fn weights(desk: &Desk) -> BTreeMap<Rank, String> {
    let hash = |event| match event {
        Event::WeightHash(hash) => Some((hash.rank, hash.sha256)),
        _ => None,
    };
    desk.events().into_iter().filter_map(hash).collect()
}

fn trained(lab: Option<&Lab>, strategy: &'static str, nodes: &str) -> BTreeMap<Rank, String> {
    weights(&desk_of(lab, strategy, nodes))
}

/// The desk of a finished run.
fn desk_of(lab: Option<&Lab>, strategy: &'static str, nodes: &str) -> Desk {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe(strategy, nodes, 20)).unwrap();
    let driver = match lab {
        Some(lab) => lab.run(&desk, ["run", "recipe.toml"]).unwrap(),
        None => desk.start(["run", "recipe.toml"]).unwrap(),
    };
    driver.end(PATIENCE).unwrap().with_code(0).unwrap();
    desk
}

/// All hosts here have the clock of this machine: it lies within the error that is stated.
#[test]
fn the_clocks_of_hosts_are_compared_and_the_page_says_how_exactly() {
    if !Lab::is_possible() {
        return;
    }
    let desk = desk_of(Some(&Lab::start().unwrap()), "d-sync", HOSTS);
    let exported = desk
        .run(["export", "last", "--format", "csv", "--what", "hosts"])
        .unwrap()
        .with_code(0)
        .unwrap()
        .stdout;
    let mut lines = exported.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let column = |name: &str| head.iter().position(|other| other == name).unwrap();
    let (node, error) = (column("node"), column("clock_error_ns"));
    let read: BTreeMap<String, u64> =
        lines.map(|line| (line[node].clone(), line[error].parse().unwrap())).collect();
    assert_eq!(read.keys().collect::<Vec<_>>(), ["0", "1"], "{exported}");
    assert!(read.values().all(|error| (1..1_000_000_000).contains(error)), "{exported}");
    let page = desk.run(["report", "last", "-o", "page.html"]).unwrap().with_code(0);
    page.unwrap();
    let page = std::fs::read_to_string(desk.at("page.html")).unwrap();
    assert!(page.contains("The clocks of its 2 machines differ by at most "), "no bound on the page");
}

/// Through doors, in a tunnel, and with this machine as one of the hosts.
#[test]
fn ranks_on_several_hosts_end_with_the_weights_of_one_machine() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let places =
        [HOSTS, "use = [\"lab1*2\", \"lab2*2\"]\ntunnel = \"ssh\"", "use = [\"local*2\", \"lab2*2\"]"];
    for (strategy, places) in [("d-sync", &places[..]), ("ps-sync", &places[..1])] {
        let here = trained(None, strategy, "use = [\"local*4\"]");
        assert!(!here.is_empty());
        for place in places {
            assert_eq!(trained(Some(&lab), strategy, place), here, "{strategy} on {place}");
        }
    }
}

/// Three hosts in network namespaces, four ranks; of one thread, because sums depend on their number.
const APART: &str = "use = [\"lab1*2\", \"lab2*1\", \"lab3*1\"]\nthreads = 1";

/// Doors at the addresses of the hosts' own cards.
#[test]
fn ranks_in_network_namespaces_end_with_the_weights_of_one_machine() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let lab = Lab::in_namespaces().unwrap();
    for strategy in ["d-sync", "ps-sync"] {
        let here = trained(None, strategy, "use = [\"local*4\"]\nthreads = 1");
        assert!(!here.is_empty());
        assert_eq!(trained(Some(&lab), strategy, APART), here, "{strategy}");
    }
    assert_eq!(lab.processes().unwrap(), [""; 0]);
}

#[test]
fn hosts_in_network_namespaces_are_ready_and_their_cards_are_named() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let lab = Lab::in_namespaces().unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", APART, 5)).unwrap();
    let check = lab.run(&desk, ["nodes", "check", "recipe.toml", "--json"]).unwrap();
    let found = check.end(PATIENCE).unwrap().with_code(0).unwrap().stdout;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let hosts = found["machines"].as_array().unwrap();
    assert_eq!(hosts.len(), 3, "{found}");
    for host in hosts {
        assert!(host["ready"] == true && host["network"]["interface"]["name"] == "eth0", "{host}");
    }
    let ways = found["ways"].as_array().unwrap();
    assert!(ways.len() == 6 && ways.iter().all(|way| way["round_trip"].as_f64() > Some(0.0)), "{found}");
}

/// What a cable that is pulled in the middle of a step looks like from the driver: silence, of ranks and host alike.
#[test]
fn a_cut_link_ends_the_run_and_names_rank_and_host() {
    if !Lab::is_possible_in_namespaces() {
        return;
    }
    let scene = training_in(Lab::in_namespaces().unwrap(), &recipe("d-sync", APART, ENDLESS));
    assert_eq!(scene.agents.len(), 3, "an agent for each host");
    scene.lab.cut(3).unwrap();
    let Training { lab, desk: _desk, driver, workers, agents } = scene;
    let ended = driver.end(Duration::from_secs(20)).unwrap().with_code(5).unwrap();
    says(&ended.stderr, &["rank 3 on lab3 hangs: ", "in step ", ", phase "]);
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
    assert_eq!(lab.processes().unwrap(), [""; 0]);
}

#[test]
fn strategies_that_wait_for_nothing_train_on_several_hosts() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    for strategy in ["ad-psgd", "easgd-async"] {
        assert!(!trained(Some(&lab), strategy, HOSTS).is_empty(), "{strategy}");
    }
}

/// What `bakeoff run` says of a lab that was changed by `spoil`, with exit code 4.
fn refused(nodes: &str, spoil: impl FnOnce(&Lab)) -> String {
    let lab = Lab::start().unwrap();
    spoil(&lab);
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", nodes, 5)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    let ended = ended.with_code(4).unwrap();
    assert!(!desk.at(".bakeoff/runs").exists(), "nothing was started");
    ended.stderr
}

#[track_caller]
fn says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "`{word}` is not in:\n{said}");
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_the_cure() {
    if !Lab::is_possible() {
        return;
    }
    let edit = |lab: &Lab, from: &str, to: &str| {
        let config = fs::read_to_string(lab.at("config")).unwrap();
        fs::write(lab.at("config"), config.replace(from, to)).unwrap();
    };
    let said = refused(HOSTS, |lab| edit(lab, "/user", "/stranger"));
    says(
        &said,
        &["error: lab1: it cannot be reached", "Permission denied", "error: lab2: ", "ssh-copy-id lab1"],
    );
    let said = refused(HOSTS, |lab| fs::write(lab.at("known"), "").unwrap());
    says(&said, &["Host key verification failed", "connect once by hand with `ssh lab1`"]);
    let said = refused("use = [\"lab3*4\"]", |_| ());
    says(&said, &["error: lab3: ", "refused", "check that it is on and that sshd runs there"]);
    let said = refused("use = [\"nowhere.invalid*4\"]", |_| ());
    says(&said, &["error: nowhere.invalid: ", "Could not resolve hostname", "alias"]);
}

/// Two hosts that are one machine: its card is loopback's, and its wall clock is right.
#[test]
fn hosts_are_checked_and_the_ways_between_them_measured() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", HOSTS, 5)).unwrap();
    let nodes = |words: &[&str]| {
        let words = [&["nodes"], words].concat();
        lab.run(&desk, words).unwrap().end(PATIENCE).unwrap().with_code(0).unwrap().stdout
    };
    says(&nodes(&["check", "recipe.toml"]), &["lab1", "lab2", " lo ", "wall clock"]);
    let found: serde_json::Value = serde_json::from_str(&nodes(&["check", "recipe.toml", "--json"])).unwrap();
    for host in found["machines"].as_array().unwrap() {
        assert!(host["ready"] == true && host["network"]["interface"]["name"] == "lo", "{host}");
        assert!(host["wall_clock_ahead_ns"].as_i64().unwrap().abs() < 1_000_000_000, "{host}");
        assert!(host["network"]["receive_buffer"].as_u64().unwrap() > 0, "{host}");
    }
    assert!(!desk.at(".bakeoff/nodes.jsonl").exists(), "nothing was measured");
    says(&nodes(&["bench", "recipe.toml"]), &["lab1", "lab2", "1 / b", "ring", "halving and doubling"]);
    let kept = fs::read_to_string(desk.at(".bakeoff/nodes.jsonl")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(kept.trim()).unwrap();
    let ways = kept["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 2, "{kept}");
    for way in ways {
        assert!(
            way["line"]["b"].as_f64().unwrap() > 0.0 && way["round_trip"].as_f64().unwrap() > 0.0,
            "{way}"
        );
        assert_eq!(way["messages"].as_array().unwrap().len(), 5, "{way}");
    }
}

#[test]
fn a_host_whose_cache_cannot_be_written_is_named_with_the_cure() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::with_cache(Path::new("/proc/nowhere")).unwrap();
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe("d-sync", HOSTS, 5)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    says(&ended.with_code(4).unwrap().stderr, &["lab1: its cache cannot be written", "BAKEOFF_CACHE"]);
}

#[test]
fn a_host_without_data_is_named_and_gets_a_copy_on_wish() {
    if !Lab::is_possible() {
        return;
    }
    let lab = Lab::start().unwrap();
    let desk = Desk::new().unwrap();
    let data = desk.at("mnist");
    mnist(&data);
    let inventory = |folder: &str| format!("[lab1]\n[lab2]\ndata = \"{}\"\n", desk.at(folder).display());
    desk.write("nodes.toml", &inventory("none")).unwrap();
    let text = |copy: bool| {
        let nodes = format!("{HOSTS}\ninventory = \"nodes.toml\"\ncopy-data = {copy}");
        let dataset = format!("kind = \"mnist\"\npath = \"{}\"", data.display());
        recipe("d-sync", &nodes, 5).replace("kind = \"synthetic\"\ntrain = 200\ntest = 100", &dataset)
    };
    desk.write("recipe.toml", &text(false)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    says(
        &ended.with_code(4).unwrap().stderr,
        &["lab2: ", "none/mnist has neither", "nodes.copy-data = true"],
    );
    desk.write("recipe.toml", &text(true)).unwrap();
    let ended = lab.run(&desk, ["run", "recipe.toml"]).unwrap().end(PATIENCE).unwrap();
    ended.with_code(0).unwrap();
}

/// A data set in the format of MNIST: 60,000 and 10,000 images would be too many, so that there are 100 and 20.
fn mnist(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, count) in [("train", 100_u32), ("t10k", 20)] {
        let mut images = [2051_u32, count, 28, 28].map(u32::to_be_bytes).concat();
        images.extend((0..count * 784).map(|pixel| (pixel % 251) as u8));
        fs::write(folder.join(format!("{name}-images-idx3-ubyte")), images).unwrap();
        let mut labels = [2049_u32, count].map(u32::to_be_bytes).concat();
        labels.extend((0..count).map(|label| (label % 10) as u8));
        fs::write(folder.join(format!("{name}-labels-idx1-ubyte")), labels).unwrap();
    }
}

/// A run without an end on two hosts, its workers by rank, and the agents.
struct Training {
    lab: Lab,
    desk: Desk,
    driver: e2e::DriverProcess,
    workers: Vec<WorkerProcess>,
    agents: Vec<WorkerProcess>,
}

fn training(nodes: &str) -> Training {
    training_of(&recipe("d-sync", nodes, ENDLESS))
}

fn training_of(recipe: &str) -> Training {
    let scene = training_in(Lab::start().unwrap(), recipe);
    assert_eq!(scene.agents.len(), 2, "an agent for each host");
    scene
}

fn training_in(lab: Lab, recipe: &str) -> Training {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", recipe).unwrap();
    let mut driver = lab.run(&desk, ["-v", "run", "recipe.toml"]).unwrap();
    let workers: Vec<_> = (0..4).map(|rank| driver.worker(rank).unwrap()).collect();
    // Long enough for heartbeats to tell where ranks are.
    let trains = |event: &Event| matches!(event, Event::Step(step) if step.begin > Nanos(1_500_000_000));
    wait_until(Duration::from_mins(1), || Ok(desk.events().iter().any(trains))).unwrap();
    let mut agents: Vec<WorkerProcess> = workers.iter().map(|worker| worker.parent().unwrap()).collect();
    agents.dedup();
    Training { lab, desk, driver, workers, agents }
}

/// No process is left on any host, and nothing in the cache's folder of attempts.
fn cleaned(scene: &Training) {
    gone(&scene.workers, CLEAN).unwrap();
    gone(&scene.agents, CLEAN).unwrap();
}

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
    let twice = recipe("d-sync", HOSTS, 5_000).replace("count = 1", "count = 2");
    let Training { lab: _lab, desk, driver, workers, agents } = training_of(&twice);
    agents[0].signal(Signal::KILL).unwrap();
    driver.end(PATIENCE).unwrap().with_code(5).unwrap();
    gone(&workers, CLEAN).unwrap();
    gone(&agents, CLEAN).unwrap();
    let runs = desk.json(["list", "--format", "json"]).unwrap();
    let mut states: Vec<&str> =
        runs.as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    states.sort_unstable();
    assert_eq!(states, ["done", "failed"]);
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

/// What the recipe lets go wrong on other machines is what goes wrong there, and a result: no retry, no blame, exit code 0.
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
    let agents: Vec<WorkerProcess> = workers.iter().filter_map(|worker| worker.parent().ok()).collect();
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

/// Sends a byte every half second until it is hung up on, and returns how long that took.
fn dribble(mut stream: TcpStream) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_mins(1) && stream.write_all(&[0]).is_ok() {
        thread::sleep(Duration::from_millis(500));
    }
    begin.elapsed()
}

/// Strangers at the only ports that a run opens: garbage, giant lengths, silence, a byte now and then, and a thousand connections.
#[test]
fn strangers_at_a_door_change_nothing() {
    if !Lab::is_possible() {
        return;
    }
    let port = free_port().unwrap();
    let scene = training(&format!("{HOSTS}\nports = \"{port}-{port}\""));
    let knock = |host: &str| TcpStream::connect((host, port)).unwrap();
    let slow = knock("127.0.0.1");
    let slow = thread::spawn(move || dribble(slow));
    for host in ["127.0.0.1", "127.0.0.2"] {
        knock(host).write_all(&[0xff; 4096]).unwrap();
        let mut giant = knock(host);
        giant.write_all(&[0; 12]).unwrap();
        giant.write_all(&[0xff, 0xff]).unwrap();
        giant.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert!(matches!(giant.read(&mut [0; 8]), Ok(0) | Err(_)), "it is hung up on");
        let silent: Vec<TcpStream> = (0..500).map(|_| knock(host)).collect();
        drop(silent);
    }
    let steps = |desk: &Desk| {
        desk.events()
            .iter()
            .filter_map(|event| match event {
                Event::Step(step) => Some(step.step),
                _ => None,
            })
            .max()
            .unwrap()
    };
    let before = steps(&scene.desk);
    wait_until(Duration::from_secs(20), || Ok(steps(&scene.desk) > before + 50)).unwrap();
    assert!(scene.workers.iter().all(WorkerProcess::lives));
    let hung_up = slow.join().unwrap();
    assert!(hung_up < Duration::from_secs(30), "a slow sender keeps a connection for {hung_up:?}");
    scene.driver.signal(Signal::INT).unwrap();
    scene.driver.end(Duration::from_secs(30)).unwrap().with_code(130).unwrap();
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
