//! Lines no longer than a terminal is wide, with what goes on below set under where its text begins.

/// Text begins at this column or before: what looks like a gap behind it is part of the text.
const TEXT_BEGINS_MAX: usize = 80;

/// Breaks lines at blanks so that each has at most so many columns, if it has a blank to be broken at.
pub fn wrap(text: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        wrap_line(line, columns, &mut out);
        out.push_str(end);
    }
    out
}

fn wrap_line(line: &str, columns: usize, out: &mut String) {
    if width(line) <= columns {
        out.push_str(line);
        return;
    }
    let indent = hanging(line).min(columns / 2);
    let begin = line.len() - line.trim_start_matches(' ').len();
    out.push_str(&line[..begin]);
    let mut at = begin;
    for (i, word) in line[begin..].split(' ').enumerate() {
        let needed = usize::from(i > 0) + width(word);
        if i > 0 && at + needed > columns && at > indent && !word.is_empty() {
            // Blanks at the end of a line are nobody's.
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            at = indent;
        } else if i > 0 {
            out.push(' ');
            at += 1;
        }
        out.push_str(word);
        at += width(word);
    }
}

/// The column at which what follows is set: where the text of a table's last column begins, else where the line does.
fn hanging(line: &str) -> usize {
    let chars: Vec<char> = line.chars().take(TEXT_BEGINS_MAX + 1).collect();
    let starts =
        |i: usize| chars[i] != ' ' && (i == 0 || (i >= 2 && chars[i - 1] == ' ' && chars[i - 2] == ' '));
    let begin = line.chars().take_while(|c| *c == ' ').count();
    (0..chars.len()).rev().find(|i| starts(*i)).unwrap_or(begin)
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_and_set_under_their_text() {
        let text = "      --sync <MODE>  When a write counts as done, and when not\nshort\n\n  name   what it is, said at length\n";
        let expected = [
            "      --sync <MODE>  When a",
            "               write counts as",
            "               done, and when",
            "               not",
            "short",
            "",
            "  name   what it is, said at",
            "         length",
            "",
        ];
        // Half of the line is left to the text, wherever it begins.
        assert_eq!(wrap(text, 30), expected.join("\n"));
        assert_eq!(wrap("a line of prose\nends", 8), "a line\nof prose\nends");
        assert_eq!(wrap(&"x".repeat(50), 20), "x".repeat(50));
        assert_eq!(wrap(text, 200), text);
        // What is said of an example stays on its side, where half of the line begins at the latest.
        let example = "  keel load --db shop.db --key-field id prices.json         values are JSON objects";
        let expected = "  keel load --db shop.db --key-field id prices.json         values are\n                                   JSON objects";
        assert_eq!(wrap(example, 70), expected);
    }
}
