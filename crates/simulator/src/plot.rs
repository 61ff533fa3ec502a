//! Pictures for a terminal: what changes over time as a line of blocks, two costs of many strategies as a field of points.

use std::fmt::Write as _;

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// What many points in one place look like, from few to many.
const DENSITY: [char; 4] = ['·', ':', '∷', '▒'];
/// A point that nothing beats.
const FRONT: char = '●';

/// The values as blocks in one line of at most `width`, each the highest of its part; 0 is the lowest block.
pub fn line(values: &[u32], width: usize) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let part = values.len().div_ceil(width.max(1)).max(1);
    let block = |part: &[u32]| {
        let highest = part.iter().copied().max().unwrap_or(0);
        BLOCKS[(highest as usize * (BLOCKS.len() - 1)).div_ceil(most as usize).min(BLOCKS.len() - 1)]
    };
    values.chunks(part).map(block).collect()
}

/// One point of a field: x, y, and whether nothing beats it.
pub type Dot = (f64, f64, bool);

/// The points on axes from 0, with their names; x is logarithmic, from the least to the most.
pub fn field(dots: &[Dot], x_name: &str, y_name: &str, width: usize, height: usize) -> String {
    let known: Vec<&Dot> =
        dots.iter().filter(|(x, y, _)| x.is_finite() && y.is_finite() && *x > 0.0).collect();
    let (Some(least), Some(most)) =
        (known.iter().map(|d| d.0).min_by(f64::total_cmp), known.iter().map(|d| d.0).max_by(f64::total_cmp))
    else {
        return String::new();
    };
    let top = known.iter().map(|d| d.1).max_by(f64::total_cmp).unwrap_or(1.0).max(1e-9);
    let place =
        |x: f64| ((x / least).ln() / (most / least).ln().max(1e-9) * (width - 1) as f64).round() as usize;
    let mut cells = vec![vec![(0usize, false); width]; height];
    for (x, y, front) in &known {
        let row = height - 1 - ((y / top * (height - 1) as f64).round() as usize).min(height - 1);
        let cell = &mut cells[row][place(*x).min(width - 1)];
        *cell = (cell.0 + 1, cell.1 || *front);
    }
    let mut out = format!("{y_name}\n");
    for (row, cells) in cells.iter().enumerate() {
        let label = match row {
            0 => format!("{top:.2}"),
            _ if row == height - 1 => "0".to_owned(),
            _ => String::new(),
        };
        let drawn: String = cells
            .iter()
            .map(|(count, front)| match (count, front) {
                (0, _) => ' ',
                (_, true) => FRONT,
                (count, false) => DENSITY[count.ilog2().min(3) as usize],
            })
            .collect();
        let _ = writeln!(out, "{label:>7} ┤{}", drawn.trim_end());
    }
    let _ = writeln!(out, "{:>7} └{}", "", "─".repeat(width));
    let (from, to) = (format!("{least:.1}"), format!("{most:.1}"));
    let room = width.saturating_sub(from.len() + to.len());
    let _ = writeln!(out, "{:>8}{from}{:^room$}{to}", "", x_name);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_highest_and_its_lowest_place() {
        assert_eq!(line(&[0, 1, 2, 4], 10), "▁▃▅█");
        assert_eq!(line(&[4, 0, 0, 0], 2), "█▁");
        assert_eq!(line(&[], 5), "");
        assert_eq!(line(&[0, 0], 5), "▁▁");
    }

    #[test]
    fn a_field_shows_the_front_over_all_others() {
        let dots = [
            (1.0, 0.0, true),
            (10.0, 2.0, false),
            (10.0, 2.0, false),
            (10.0, 1.0, true),
            (3.2, f64::NAN, false),
        ];
        let drawn = field(&dots, "write", "space", 14, 3);
        let expected = "space\n   2.00 ┤             :\n        ┤             ●\n      0 ┤●\n        └──────────────\n        1.0 write 10.0\n";
        assert_eq!(drawn, expected);
        assert_eq!(field(&[], "x", "y", 5, 5), "");
    }
}
