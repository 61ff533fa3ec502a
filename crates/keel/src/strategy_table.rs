//! Strategies as a table of the four primitives, from their text form: a line each, and one below for each part of the tree that
//! differs.

use evenkeel::strategy::CatalogRow;

/// The columns: keys of the text form.
const KEYS: [&str; 4] = ["when", "how", "much", "which"];

/// The catalogue.
pub fn of_catalog(rows: &[CatalogRow]) -> String {
    let mut lines = vec![["NAME", "WHEN", "HOW", "MUCH", "WHICH"].map(str::to_owned).to_vec()];
    for row in rows {
        for (i, segment) in row.text.split(';').enumerate() {
            let (name, fields) = match (i, segment.trim().split_once(": ")) {
                (0, _) => (row.name.to_owned(), segment),
                (_, Some((part, fields))) => (format!("  {part}"), fields),
                (_, None) => continue,
            };
            lines.push(line(name, fields));
        }
    }
    aligned(&lines)
}

/// The columns of one segment; what is no primitive comes behind them.
fn line(name: String, fields: &str) -> Vec<String> {
    let value = |key: &str| {
        let found = fields.split_whitespace().find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
        found.unwrap_or_default().to_owned()
    };
    let others =
        fields.split_whitespace().filter(|f| !KEYS.iter().any(|key| f.starts_with(&format!("{key}="))));
    let mut out = vec![name];
    out.extend(KEYS.map(value));
    let others: Vec<&str> = others.collect();
    if !others.is_empty() {
        out.push(others.join(" "));
    }
    out
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width =
        |column: usize| lines.iter().filter_map(|l| l.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..=KEYS.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .enumerate()
            .map(|(i, cell)| format!("{cell:<width$}", width = widths.get(i).copied().unwrap_or(0)))
            .collect();
        out.push_str(cells.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_strategy_has_a_line_and_each_part_that_differs_one_below() {
        let row = |name, text| CatalogRow { name, source: "", about: "", text };
        let table = of_catalog(&[
            row("one", "when=saturation how=runs:1 much=file which=oldest; L0: how=runs:4 much=runs"),
            row("two", "when=runs how=runs:4 much=level; size: cut=last"),
        ]);
        let want = "\
NAME    WHEN        HOW     MUCH   WHICH
one     saturation  runs:1  file   oldest
  L0                runs:4  runs
two     runs        runs:4  level
  size                                     cut=last
";
        assert_eq!(table, want);
    }
}
