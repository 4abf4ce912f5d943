//! Names beside the rows of a chart.

/// Letters that fit on a line of a label.
const LABEL_LETTERS: usize = 21;

/// A name on one line, or on two. If it is too long its middle is left out, because names of arms often differ at their
/// end.
pub(crate) fn row_label(name: &str) -> Vec<String> {
    let mut letters: Vec<char> = name.chars().collect();
    if letters.len() <= LABEL_LETTERS {
        return vec![name.to_owned()];
    }
    if letters.len() > 2 * LABEL_LETTERS {
        letters.splice(LABEL_LETTERS - 1..letters.len() - LABEL_LETTERS, ['…']);
    }
    let fits = |at: &usize| letters.len() - at - 1 <= LABEL_LETTERS;
    let space = (1..=LABEL_LETTERS).rev().find(|at| letters[*at] == ' ').filter(fits);
    let (first, second) = letters.split_at(space.unwrap_or(LABEL_LETTERS));
    [first, second].map(|line| line.iter().collect::<String>().trim().to_owned()).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_take_two_lines_and_keep_their_ends() {
        for (name, wanted) in [
            ("d-sync, density=0.010", &["d-sync, density=0.010"][..]),
            ("d-sync, density=0.01 on", &["d-sync, density=0.01", "on"]),
            ("d-sync_with_density=0.01, server", &["d-sync_with_density=0", ".01, server"]),
            ("d sync_with_density=0.01_on_all_servers", &["d sync_with_density=0", ".01_on_all_servers"]),
            (
                "d-sync compression.kind=top-k density=0.05 feedback=on",
                &["d-sync compression.k…", "sity=0.05 feedback=on"][..],
            ),
        ] {
            let lines = row_label(name);
            assert!(lines.iter().all(|line| line.chars().count() <= LABEL_LETTERS), "{lines:?}");
            assert_eq!(lines, wanted);
        }
    }
}
