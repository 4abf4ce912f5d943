//! A small transformer on a text in real processes: strategies of each family, every schedule of exchanges, and hostile files.
#![expect(clippy::unwrap_used, reason = "in a test, a failure is a panic")]

use e2e::{Desk, Trained, train};
use recipe::Metric;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A text of 20 kB that can be learned: words of three letters in a drawn order.
fn words() -> String {
    let mut state = 1_u32;
    let mut text = String::new();
    while text.len() < 20_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(["abc ", "acd ", "bde ", "efa "][(state >> 30) as usize]);
    }
    text
}

fn recipe(path: &Path, strategy: &str, workers: u32, more: &str) -> String {
    format!(
        r#"
schema = 1
name = "texts"
[model]
kind = "gpt"
depth = 2
heads = 2
width = 16
[dataset]
kind = "text-lines"
path = "{}"
tokens = "characters"
context = 16
[train]
global-batch = 16
steps = 40
optimizer = {{ kind = "adamw", lr = 0.01 }}
evaluate = "20 steps"
[nodes]
use = ["local*{workers}"]
[[strategy]]
{strategy}
[repeats]
count = 1
{more}
"#,
        path.display()
    )
}

struct Corpus(tempfile::TempDir);

impl Corpus {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("words.txt"), words()).unwrap();
        Self(folder)
    }

    fn run(&self, strategy: &str, workers: u32, more: &str) -> Trained {
        let path = self.0.path().join("words.txt");
        train(&recipe(&path, strategy, workers, more)).unwrap().done().unwrap()
    }
}

fn values(trained: &Trained, metric: Metric) -> Vec<f64> {
    trained.metrics().filter(|found| found.metric == metric).map(|found| found.value).collect()
}

const BY_RANK: &str = "[communication]\nreduce-order = \"rank\"\n";

#[test]
fn every_schedule_and_a_server_end_with_the_same_weights() {
    let corpus = Corpus::new();
    let hashed = |schedule: &str| format!("{BY_RANK}{schedule}\n[measure]\nweight-hash = \"step\"");
    let d_sync = "kind = \"d-sync\"";
    let single = corpus.run(d_sync, 2, &hashed("")).common_digests().unwrap();
    assert_eq!(single.len(), 41);
    for schedule in
        ["\"per-layer\"", "{ kind = \"fixed\", size = \"16 KiB\" }", "\"merged\"", "\"merged-exact\""]
    {
        let other = corpus.run(d_sync, 2, &hashed(&format!("schedule = {schedule}")));
        assert_eq!(other.common_digests().unwrap(), single, "{schedule}");
    }
    let server = corpus.run("kind = \"ps-sync\"", 2, &hashed("schedule = \"per-layer\""));
    assert_eq!(server.common_digests().unwrap(), single, "a server");
}

#[test]
fn workers_together_are_one_process_to_1e_5() {
    let corpus = Corpus::new();
    let weights = |workers| {
        let path = corpus.0.path().join("words.txt");
        let text = recipe(&path, "kind = \"d-sync\"", workers, BY_RANK);
        // Roundings grow from step to step.
        let text = text.replace("steps = 40", "steps = 10").replace("20 steps", "10 steps");
        // Adam's first steps have the sign of a gradient, however small: a rounding there parts two runs.
        let text = text.replace("{ kind = \"adamw\", lr = 0.01 }", "{ kind = \"sgd\", lr = 0.1 }");
        train(&text).unwrap().done().unwrap().final_weights().unwrap()
    };
    let alone = weights(1);
    for workers in [2, 3] {
        let together = weights(workers);
        let apart = alone.iter().zip(&together).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart <= 1e-5, "{workers} workers end {apart} away from one");
    }
}

#[test]
fn strategies_of_each_family_learn_the_text() {
    let corpus = Corpus::new();
    for strategy in
        ["kind = \"d-sync\"", "kind = \"local-sgd\"\nperiod = 4", "kind = \"ad-psgd\"", "kind = \"ps-sync\""]
    {
        let trained = corpus.run(strategy, 2, "");
        let loss = values(&trained, Metric::TestLoss);
        let perplexity = values(&trained, Metric::TestPerplexity);
        // Untrained, it is as uncertain as a choice among the seven characters.
        assert!((perplexity[0] - 7.0).abs() < 0.5, "{strategy}: {perplexity:?}");
        assert!(perplexity.last().unwrap() < &2.5, "{strategy}: {perplexity:?}");
        for (loss, perplexity) in loss.iter().zip(&perplexity) {
            assert_eq!(loss.exp().to_bits(), perplexity.to_bits());
        }
    }
}

#[test]
fn a_sweep_with_a_perplexity_as_target_ends_with_a_page_that_says_it() {
    let desk = Desk::new().unwrap();
    fs::write(desk.at("words.txt"), words()).unwrap();
    let target = "evaluate = \"20 steps\"\ntarget = { metric = \"test-perplexity\", at-most = 3.5 }";
    let text =
        recipe(Path::new("words.txt"), "kind = \"d-sync\"", 2, "").replace("evaluate = \"20 steps\"", target);
    desk.write("recipe.toml", &text).unwrap();
    let ended = desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    let page = fs::read_to_string(desk.at(ended.page().unwrap())).unwrap();
    assert!(page.contains("3.5 test perplexity"), "the target's words");
    let listed: Value = serde_json::from_str(&desk.said(["list", "--format", "json"]).unwrap()).unwrap();
    let id = listed[0]["id"].as_str().unwrap();
    assert!(desk.said(["show", id]).unwrap().contains("test perplexity"));
    // One letter changes: another text is another run.
    let trained = |desk: &Desk| desk.attempts().filter(|attempt| attempt.is_dir()).count();
    assert_eq!(trained(&desk), 1);
    fs::write(desk.at("words.txt"), words().replacen("abc", "abd", 1)).unwrap();
    desk.run(["run", "recipe.toml"]).unwrap().with_code(0).unwrap();
    assert_eq!(trained(&desk), 2);
}

#[test]
fn files_that_are_no_texts_are_refused_before_anything_starts() {
    let desk = Desk::new().unwrap();
    desk.write("recipe.toml", &recipe(Path::new("words.txt"), "kind = \"d-sync\"", 2, "")).unwrap();
    let many: String = (0_u32..).filter_map(char::from_u32).take(70_000).collect();
    for (content, told) in [
        (None, "words.txt is missing"),
        (Some(&b""[..]), "words.txt is empty"),
        (Some(b"abc"), "the text has 3 tokens, and two windows of 16 with the token behind them take 33"),
        (Some(b"abc\xff"), "words.txt is not UTF-8: byte 3 begins no character"),
        (Some(many.as_bytes()), "words.txt has more than 65536 different characters: the one at byte"),
    ] {
        if let Some(content) = content {
            fs::write(desk.at("words.txt"), content).unwrap();
        }
        let ended = desk.run(["run", "recipe.toml"]).unwrap();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.contains(told) && line.contains("R180"), "{told}: {said}");
        assert!(ended.with_code(0).is_err());
        assert_eq!(desk.attempts().count(), 0, "nothing was started");
    }
}
