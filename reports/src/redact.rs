//! Removes hosts, users and paths from a page if the recipe asks for it (`report.redact`).
//!
//! It changes the rows before anything else reads them, so that page, card and CSV files agree. It knows the names of the sweep's machines and the form of user
//! names and paths; other secrets in a log are not found.

use crate::aliases::{Alias, Aliases};
use recipe::Redaction;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use store::SweepRows;

/// Replaces what was removed.
const GONE: &str = "…";

/// Names and paths that pages can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Withheld {
    /// Names of machines, which get aliases.
    Hosts,
    /// Names of users, before an `@` or in the path of a home folder.
    Users,
    /// Absolute paths but their last part.
    Paths,
    /// Names that the recipe gives to arms.
    Arms,
}

/// Rows that hold nothing that was to go.
#[derive(Clone, Debug)]
pub struct PublicRows {
    /// The rows. Their recipe's `report.redact` is empty: it was heeded.
    pub rows: SweepRows,
    /// Number of texts from which names of users were removed.
    pub users: usize,
    /// Number of texts from which paths were removed.
    pub paths: usize,
}

/// The rows with everything removed that the page must not show.
pub(crate) fn redacted(rows: &SweepRows) -> Cow<'_, SweepRows> {
    if rows.plan.report.redact.is_empty() {
        return Cow::Borrowed(rows);
    }
    let mut aliases = Aliases::default();
    aliases.add(rows);
    Cow::Owned(public_rows(rows, &BTreeSet::new(), &aliases).rows)
}

/// The rows without what the recipe's `report.redact` or `withheld` names. `aliases` must know the sweep.
pub fn public_rows(rows: &SweepRows, withheld: &BTreeSet<Withheld>, aliases: &Aliases) -> PublicRows {
    let asked = |what: Withheld, key: Option<Redaction>| {
        withheld.contains(&what) || key.is_some_and(|key| rows.plan.report.redact.contains(&key))
    };
    let hosts = asked(Withheld::Hosts, Some(Redaction::Hosts));
    let users = asked(Withheld::Users, Some(Redaction::Users));
    let paths = asked(Withheld::Paths, Some(Redaction::Paths));
    let arms = asked(Withheld::Arms, None);
    let mut public = PublicRows { rows: rows.clone(), users: 0, paths: 0 };
    let rows = &mut public.rows;
    rows.plan.report.redact.clear();
    // First, while the arms have the names that the aliases know.
    if arms {
        let names = aliases.arms();
        each_text(rows, &|text| without_names(text, &names, is_name));
        each_label(rows, &|label| without_names(label, &names, is_name));
    }
    // Before hosts: `user@host` is recognised by both.
    if users {
        public.users = each_text(rows, &without_users) + each_label(rows, &without_users);
    }
    if paths {
        public.paths = each_text(rows, &without_paths) + each_label(rows, &without_paths);
    }
    if hosts {
        let names = aliases.hosts();
        each_text(rows, &|text| without_names(text, &names, is_name));
        each_label(rows, &|label| without_names(label, &names, char::is_alphanumeric));
        for node in &mut rows.nodes {
            let alias =
                aliases.number(node).map_or_else(|| GONE.to_owned(), |number| format!("host {number}"));
            node.host.clone_from(&alias);
            if node.name != "local" {
                node.name = alias;
            }
        }
    }
    public
}

/// All texts that this program did not write. Returns the number of those that changed.
fn each_text(rows: &mut SweepRows, change: &dyn Fn(&str) -> String) -> usize {
    let plan = &mut rows.plan;
    let mut texts: Vec<&mut String> =
        vec![&mut plan.question, &mut plan.source, &mut plan.expanded, &mut rows.recipe_path];
    texts.push(&mut rows.annotations.note);
    texts.extend(plan.cells.iter_mut().filter_map(|cell| cell.excluded.as_mut()));
    texts.extend(&mut rows.argv);
    for attempt in rows.runs.iter_mut().filter_map(|run| run.attempt.as_mut()) {
        texts.push(&mut attempt.detail);
        texts.extend(&mut attempt.last_lines);
        if let Some(Err(lines)) = &mut attempt.weights {
            texts.extend(lines);
        }
    }
    // No page shows them, so that they do not count.
    for value in &mut plan.values {
        value.text = change(&value.text);
    }
    let mut count = 0;
    for text in texts {
        let changed = change(text);
        count += usize::from(changed != *text);
        *text = changed;
    }
    count
}

/// Changes the names of arms, conditions, axes and tags, in which that of a machine, a user or a path may be a part.
/// Names that differ still do so afterwards: arms and conditions are told apart by them. Returns the number of those
/// that changed.
fn each_label(rows: &mut SweepRows, change: &dyn Fn(&str) -> String) -> usize {
    let plan = &mut rows.plan;
    let name = change(&plan.name);
    let mut count = usize::from(name != plan.name);
    plan.name = name;
    let mut labels: Vec<&mut String> = rows.annotations.tags.iter_mut().collect();
    labels.extend(plan.arms.iter_mut().map(|arm| &mut arm.name));
    for cell in &mut plan.cells {
        labels.extend([&mut cell.label, &mut cell.condition]);
        labels.extend(cell.axes.iter_mut().map(|axis| &mut axis.text));
    }
    for trial in plan.search.iter_mut().flat_map(|search| &mut search.trials) {
        labels.push(&mut trial.condition);
        labels.extend(trial.setting.iter_mut().map(|value| &mut value.text));
    }
    let names: BTreeSet<String> = labels.iter().map(|label| (*label).clone()).collect();
    let mut same: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        same.entry(change(&name)).or_default().push(name);
    }
    for label in labels {
        let changed = change(label);
        count += usize::from(changed != *label);
        let alike = same.get(&changed).map_or(&[][..], Vec::as_slice);
        *label = match alike.iter().position(|name| name == label) {
            Some(place) if alike.len() > 1 => format!("{changed} ({})", place + 1),
            _ => changed,
        };
    }
    count
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || "-_.".contains(letter)
}

/// Replaces whole names only: those with no letter of `word` beside them, a dot aside, which a domain begins with.
fn without_names(text: &str, names: &[Alias], word: fn(char) -> bool) -> String {
    let mut text = text.to_owned();
    for Alias { name, shown: alias } in names {
        let mut rest = text.as_str();
        let mut changed = String::new();
        while let Some(at) = rest.find(name.as_str()) {
            let (before, found) = rest.split_at(at);
            let after = &found[name.len()..];
            let inside =
                changed.chars().chain(before.chars()).next_back().is_some_and(|c| word(c) && c != '.')
                    || after.chars().next().is_some_and(|c| word(c) && c != '.');
            changed += before;
            changed += if inside { name } else { alias };
            rest = after;
        }
        changed += rest;
        text = changed;
    }
    text
}

/// The text without names of users: without the `ada` of `ada@gpu-1` and of `/home/ada`.
fn without_users(text: &str) -> String {
    let mut changed = String::new();
    let mut pieces = text.split('@').peekable();
    while let Some(piece) = pieces.next() {
        let named = piece.trim_end_matches(is_name);
        if pieces.peek().is_some() && named.len() < piece.len() {
            changed += named;
            changed += GONE;
        } else {
            changed += piece;
        }
        if pieces.peek().is_some() {
            changed.push('@');
        }
    }
    for folder in ["/home/", "/Users/"] {
        let mut parts = changed.split(folder);
        let mut shown = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            shown += folder;
            shown += GONE;
            shown += part.trim_start_matches(is_name);
        }
        changed = shown;
    }
    changed
}

/// Absolute paths keep their last part.
fn without_paths(text: &str) -> String {
    let mut changed = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, changed: &mut String| {
        let absolute = word.starts_with('/') && word.len() > 1;
        match word.trim_end_matches('/').rsplit_once('/').filter(|_| absolute) {
            Some((_, last)) => changed.extend([GONE, "/", last]),
            None => *changed += word,
        }
        word.clear();
    };
    for letter in text.chars() {
        if letter == '/' || is_name(letter) || letter == GONE.chars().next().unwrap_or_default() {
            word.push(letter);
        } else {
            flush(&mut word, &mut changed);
            changed.push(letter);
        }
    }
    flush(&mut word, &mut changed);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn users() {
        for (text, shown) in [
            ("ssh ada@gpu-1: refused", "ssh …@gpu-1: refused"),
            ("open /home/ada/data: no", "open /home/…/data: no"),
            ("at @ 3 and a@b@c", "at @ 3 and …@…@c"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_users(text), shown);
        }
    }

    #[test]
    fn paths() {
        for (text, shown) in [
            ("cannot read `/srv/data/mnist/train.gz`: no", "cannot read `…/train.gz`: no"),
            ("path = \"/srv/data\"", "path = \"…/data\""),
            ("recipes/quickstart.toml and 3/4", "recipes/quickstart.toml and 3/4"),
            ("/ alone", "/ alone"),
        ] {
            assert_eq!(without_paths(text), shown);
        }
    }

    #[test]
    fn hosts_are_replaced_as_whole_names() {
        let names = [Alias { name: "gpu-1".to_owned(), shown: "host-1".to_owned() }];
        assert_eq!(
            without_names("gpu-1, gpu-12, ada@gpu-1*2", &names, is_name),
            "host-1, gpu-12, ada@host-1*2"
        );
        let label = without_names("d-sync-on-gpu-1 gpu-12", &names, char::is_alphanumeric);
        assert_eq!(label, "d-sync-on-host-1 gpu-12");
    }

    #[test]
    fn users_and_paths_go_from_names_which_stay_apart() {
        let mut rows = Sample { workers: vec![2, 4], ..Sample::duel() }.rows();
        let paths = ["/home/ada/mnist", "/srv/x/mnist"];
        rows.plan.arms[1].name = "d-sync-ada@gpu".to_owned();
        for (place, cell) in rows.plan.cells.iter_mut().enumerate() {
            let text = paths[place / 2].to_owned();
            cell.condition = format!("dataset.path={text}");
            cell.label = format!("x dataset.path={text}");
            cell.axes = vec![recipe::AxisValue { path: "dataset.path".to_owned(), text, number: None }];
        }
        rows.plan.report.redact = vec![Redaction::Paths];
        let shown = redacted(&rows);
        let conditions: BTreeSet<&str> =
            shown.plan.cells.iter().map(|cell| cell.condition.as_str()).collect();
        let apart = ["dataset.path=…/mnist (1)", "dataset.path=…/mnist (2)"];
        assert_eq!(conditions, BTreeSet::from(apart));
        assert!(shown.plan.cells.iter().all(|cell| cell.axes[0].text.starts_with("…/mnist (")));
        assert_eq!(shown.plan.arms[1].name, "d-sync-ada@gpu");
        rows.plan.report.redact = vec![Redaction::Users];
        let shown = redacted(&rows);
        assert_eq!(shown.plan.arms[1].name, "…@gpu");
        assert_eq!(shown.plan.cells[0].condition, "dataset.path=/home/…/mnist");
    }

    #[test]
    fn what_arms_search_under_is_redacted_too() {
        let mut rows = Sample::duel().rows();
        let text = "/home/ada/mnist".to_owned();
        let value = recipe::AxisValue { path: "dataset.path".to_owned(), text, number: None };
        let trial = recipe::Trial {
            cell: 0,
            rungs: vec![2],
            setting: vec![value],
            condition: "dataset.path=/home/ada/mnist".to_owned(),
        };
        rows.plan.search = Some(recipe::Search { rungs: 1, factor: 2, trials: vec![trial] });
        rows.plan.report.redact = vec![Redaction::Paths, Redaction::Users];
        let shown = redacted(&rows);
        let trial = &shown.plan.search.as_ref().unwrap().trials[0];
        assert_eq!(
            (trial.condition.as_str(), trial.setting[0].text.as_str()),
            ("dataset.path=…/mnist", "…/mnist")
        );
    }

    #[test]
    fn a_page_holds_nothing_of_what_was_asked_to_go() {
        let mut rows = Sample::duel().rows();
        rows.argv.push("/srv/secret/x.toml".to_owned());
        rows.annotations.note = "as ada@workbench saw it in /srv/secret/x".to_owned();
        rows.annotations.tags = vec!["on-nightowl".to_owned(), "nightowl".to_owned()];
        rows.plan.expanded += "use = [\"ada@workbench*4\"]\n";
        rows.plan.arms[1].name = "d-sync-workbench".to_owned();
        let cell = &mut rows.plan.cells[1];
        cell.label = "d-sync-workbench use=nightowl*4".to_owned();
        cell.condition = "use=nightowl*4".to_owned();
        let node = &mut cell.spec.cluster.nodes[0];
        node.name = "nightowl".to_owned();
        node.access = recipe::Access::Ssh { login: "ada@barn.example".to_owned(), port: None };
        rows.plan.expanded += "# ada@barn.example\n";
        cell.axes.push(recipe::AxisValue {
            path: "nodes.use".to_owned(),
            text: "nightowl*4".to_owned(),
            number: None,
        });
        let shown = |rows: &SweepRows| {
            crate::page(rows, &crate::Timelines::new(), &crate::Options::default()).unwrap().html
        };
        for secret in ["workbench", "nightowl", "barn.example", "secret", "ada@"] {
            assert!(shown(&rows).contains(secret));
        }
        rows.plan.report.redact = Redaction::ALL.to_vec();
        for secret in ["workbench", "nightowl", "barn.example", "secret", "ada@"] {
            assert!(!shown(&rows).contains(secret), "{secret}");
        }
    }
}
