//! Tables for people: columns in line, numbers to the right.

use std::fmt::Write;

/// A table under construction.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Columns of text; the others hold numbers.
    is_text: Vec<bool>,
}

impl Table {
    /// With these heads, of which those that begin with `<` stand above text.
    pub fn new(heads: &[&str]) -> Self {
        let is_text = heads.iter().map(|head| head.starts_with('<')).collect();
        let heads = heads.iter().map(|head| head.trim_start_matches('<').to_owned()).collect();
        Self { rows: vec![heads], is_text }
    }

    /// Adds a row, with as many cells as there are heads.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// The table, or `instead` if it has no row.
    pub fn text(&self, instead: &str) -> String {
        if self.rows.len() == 1 {
            return format!("{instead}\n");
        }
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.is_text.len()).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), is_text) in row.iter().zip(&widths).zip(&self.is_text) {
                // Writing to a string can't fail.
                let _ = if *is_text {
                    write!(line, "{cell:<width$}  ")
                } else {
                    write!(line, "{cell:>width$}  ")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_line() {
        let mut table = Table::new(&["<port", "frames"]);
        assert_eq!(table.text("no ports"), "no ports\n");
        table.row(["lan".into(), "7".into()]);
        table.row(["wan10".into(), "1234567".into()]);
        assert_eq!(table.text(""), "port    frames\nlan          7\nwan10  1234567\n");
    }
}
