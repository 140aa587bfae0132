//! Tables and paragraphs on a terminal.

use std::fmt;

/// A column: its heading, and its cell in a row.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// A table whose columns are as wide as their cells: the first one to the
/// left, as is every other whose cells are words, the rest to the right.
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows.
    pub fn new<T: Into<String>>(heads: impl IntoIterator<Item = T>) -> Self {
        Self { heads: heads.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// A row for each of `rows`; a column is its heading and its cell in a row.
    pub fn of<T>(columns: &[Column<T>], rows: &[T]) -> Self {
        let mut table = Self::new(columns.iter().map(|(head, _)| *head));
        for row in rows {
            table.row(columns.iter().map(|(_, cell)| cell(row)));
        }
        table
    }

    /// Adds a row; cells that are missing are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.chain(self.heads.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// Whether the column has words, not figures.
    fn is_words(&self, column: usize) -> bool {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let mut cells = cells.filter(|cell| !cell.is_empty());
        column == 0 || cells.all(|cell| cell.starts_with(|c: char| c.is_alphabetic()))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> =
            (0..self.heads.len()).map(|c| (self.width(c), self.is_words(c))).collect();
        for row in std::iter::once(&self.heads).chain(&self.rows) {
            let mut line = String::new();
            for (n, (width, is_words)) in columns.iter().enumerate() {
                let cell = row.get(n).map_or("", String::as_str);
                let space = " ".repeat(width - cell.chars().count());
                let gap = if n == 0 { "" } else { "  " };
                let (before, after) = if *is_words { ("", &*space) } else { (&*space, "") };
                line.extend([gap, before, cell, after]);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `text` in lines of at most `width` characters, the first behind `first`, the
/// others behind `other`.
pub fn wrapped(text: &str, width: usize, first: &str, other: &str) -> String {
    let mut lines = vec![first.to_owned()];
    let mut is_new = true;
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if !is_new && last + 1 + word.chars().count() > width {
            lines.push(other.to_owned());
            is_new = true;
        }
        if let Some(line) = lines.last_mut() {
            line.extend([if is_new { "" } else { " " }, word]);
        }
        is_new = false;
    }
    lines.join("\n")
}

/// A share as people write it: "0.1 %", not "0.100 %".
pub fn percent(share: f64) -> String {
    let digits = format!("{:.9}", 100.0 * share);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right() {
        let mut table = Table::new(["scheme", "what", "time"]);
        table.row(["gbn".into(), "slow".into(), "1.5 ms".into()]);
        table.row(["cached".into(), "quick one".into(), "100 µs".into()]);
        table.row(["x".into()]);
        assert_eq!(
            table.to_string(),
            "scheme  what         time\n\
             gbn     slow       1.5 ms\n\
             cached  quick one  100 µs\n\
             x\n"
        );
    }

    #[test]
    fn shares_have_no_zeros_at_the_end() {
        let shares = [0.0, 1.0, 0.3, 1e-3, 1e-8, 0.0625];
        assert_eq!(shares.map(percent), ["0 %", "100 %", "30 %", "0.1 %", "0.000001 %", "6.25 %"]);
    }

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 9, "- ", "  "), "- one two\n  three");
        assert_eq!(wrapped("incomprehensible", 5, "- ", "  "), "- incomprehensible");
    }
}
