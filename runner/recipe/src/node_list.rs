//! The words of `nodes.use`: `local`, `user@lab[01-08]:22*4`.

use crate::{Access, Node};

/// More slots than this on one node are a mistake.
pub(crate) const MOST_SLOTS: u32 = 65_536;
/// More hosts than this in one range are a mistake.
const MOST_HOSTS: usize = 4_096;
/// More digits than this in a number of a range are a mistake.
const WIDEST: usize = 16;

/// An entry of the list: machines of one kind, and how many workers fit on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeEntry {
    pub(crate) names: Vec<String>,
    /// Without a number in the entry.
    pub(crate) slots: Option<u32>,
}

/// A problem with an entry, as a fragment of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// No number of workers behind the star.
    Slots,
    /// A name that `ssh` could take for something else, or that no machine has.
    Name(String),
    /// A range that has no end or too many machines.
    Range(String),
}

impl NodeEntry {
    /// Reads an entry: a name, a range of names, a group or a host file, and perhaps slots behind a star.
    pub(crate) fn read(text: &str) -> Result<Self, Wrong> {
        let (name, slots) = match text.rsplit_once('*') {
            Some((name, count)) => {
                let slots = count.trim().parse().ok().filter(|slots| (1..=MOST_SLOTS).contains(slots));
                (name.trim(), Some(slots.ok_or(Wrong::Slots)?))
            }
            None => (text.trim(), None),
        };
        let named = name.starts_with("group:") || name.starts_with("hostfile:");
        let names = if named { vec![name.to_owned()] } else { expanded(name)? };
        for name in names.iter().filter(|_| !named) {
            check(name)?;
        }
        Ok(Self { names, slots })
    }
}

/// A machine that is reached by this name: `user@host:port`, or the driver's own.
pub(crate) fn node(name: &str, slots: u32) -> Node {
    let local = Node::local(slots);
    if name == "local" {
        return local;
    }
    let (login, port) = split_port(name);
    Node { name: name.to_owned(), access: Access::Ssh { login: login.to_owned(), port }, ..local }
}

/// The login and the port of `user@host:port`.
fn split_port(name: &str) -> (&str, Option<u16>) {
    match name.rsplit_once(':') {
        Some((login, port)) => match port.parse() {
            Ok(port) => (login, Some(port)),
            Err(_) => (name, None),
        },
        None => (name, None),
    }
}

/// `lab[01-03,7]` as `lab01`, `lab02`, `lab03`, `lab7`: zeros in front keep the width, as in Slurm's lists of hosts.
pub(crate) fn expanded(name: &str) -> Result<Vec<String>, Wrong> {
    let Some((head, rest)) = name.split_once('[') else { return Ok(vec![name.to_owned()]) };
    let wrong = || Wrong::Range(name.to_owned());
    let (inside, tail) = rest.split_once(']').ok_or_else(wrong)?;
    // A second range in the name is expanded behind each number of the first.
    let tails = expanded(tail)?;
    let mut names = Vec::new();
    for part in inside.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let width = from.len();
        let number = |digits: &str| {
            let plain = digits.len() <= WIDEST && digits.bytes().all(|digit| digit.is_ascii_digit());
            digits.parse::<usize>().ok().filter(|_| plain).ok_or_else(wrong)
        };
        let first = number(from)?;
        let last = number(to)?;
        let count = last.checked_sub(first).map(|more| more.saturating_add(1).saturating_mul(tails.len()));
        if count.is_none_or(|count| names.len() + count > MOST_HOSTS) {
            return Err(wrong());
        }
        for number in first..=last {
            names.extend(tails.iter().map(|tail| format!("{head}{number:0width$}{tail}")));
        }
    }
    Ok(names)
}

fn check(name: &str) -> Result<(), Wrong> {
    if is_login(name) { Ok(()) } else { Err(Wrong::Name(name.to_owned())) }
}

/// Whether `ssh` takes `user@host:port` for a machine.
pub(crate) fn is_login(name: &str) -> bool {
    let (login, port) = split_port(name);
    let (user, host) = login.rsplit_once('@').unwrap_or(("user", login));
    is_name(host) && is_name(user) && port != Some(0)
}

/// Whether this is the name of a machine or of a user: `ssh` takes a leading dash for an option.
pub(crate) fn is_name(text: &str) -> bool {
    let letters = text.chars().all(|one| one.is_ascii_alphanumeric() || "._-".contains(one));
    !text.is_empty() && !text.starts_with('-') && letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        NodeEntry::read(text).unwrap().names
    }

    #[test]
    fn ranges_are_expanded_as_slurm_does() {
        assert_eq!(names("lab[08-10]"), ["lab08", "lab09", "lab10"]);
        assert_eq!(names("me@n[1,3-4].example*2"), ["me@n1.example", "me@n3.example", "me@n4.example"]);
        assert_eq!(names("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(NodeEntry::read("lab[08-10]*3").unwrap().slots, Some(3));
        assert_eq!(NodeEntry::read("local").unwrap().slots, None);
    }

    #[test]
    fn a_name_says_login_and_port() {
        let access = |name: &str| node(name, 2).access;
        assert_eq!(access("local"), Access::Local);
        assert_eq!(access("me@lab1:2222"), Access::Ssh { login: "me@lab1".into(), port: Some(2222) });
        assert_eq!(access("lab1"), Access::Ssh { login: "lab1".into(), port: None });
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in
            ["-oProxyCommand=evil", "a b", "", "@lab", "me@", "lab;rm", "lab:0", "lab:x", "$(id)", "-l@x"]
        {
            assert!(matches!(NodeEntry::read(text), Err(Wrong::Name(_))), "{text}");
        }
        let wide = format!("lab[{}]", "0".repeat(70_000));
        let much = ["n[0-4095][0-4095]", "n[0-99][0-99]", "lab[+1-2]", wide.as_str()];
        for text in ["lab[1-", "lab[3-1]", "lab[a-b]", "lab[0-99999]", "lab[]"].into_iter().chain(much) {
            assert!(matches!(NodeEntry::read(text), Err(Wrong::Range(_))), "{text}");
        }
        for text in ["lab*0", "lab*", "lab*x", "lab*70000"] {
            assert_eq!(NodeEntry::read(text), Err(Wrong::Slots), "{text}");
        }
    }
}
