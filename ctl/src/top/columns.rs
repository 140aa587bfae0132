//! Tables that fit the terminal: a column is shown whole, or left out.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};

/// Blanks between two columns.
const GAP: usize = 2;
/// Least width of a last column of text, whose cells may be cut at the right.
const LEAST_REST: usize = 8;

/// A column: its head, and the width that it has where there is room.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    head: &'static str,
    width: usize,
    is_text: bool,
    is_extra: bool,
}

impl Column {
    /// A column of numbers, in line at the right. No number is ever cut.
    pub const fn number(head: &'static str, width: usize) -> Self {
        Self { head, width, is_text: false, is_extra: false }
    }

    /// A column of text, in line at the left. Without room a cell that is wider is cut at the right.
    pub const fn text(head: &'static str, width: usize) -> Self {
        Self { head, width, is_text: true, is_extra: false }
    }

    /// The column, left out before others.
    pub const fn extra(self) -> Self {
        Self { is_extra: true, ..self }
    }
}

/// Draws a table under a title; `instead` if the table has no rows.
pub fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    columns: &[Column],
    rows: Vec<(Style, Vec<String>)>,
    instead: &str,
) {
    let [top, rest] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(title.to_owned()).bold(), top);
    if rows.is_empty() {
        return frame.render_widget(Paragraph::new(instead.to_owned()), rest);
    }
    let cells: Vec<&[String]> = rows.iter().map(|(_, cells)| &cells[..]).collect();
    let shown = fit(columns, &cells, usize::from(rest.width));
    let cell = |column: usize, text: &str| {
        let line = Line::from(text.to_owned());
        Cell::new(if columns[column].is_text { line } else { line.right_aligned() })
    };
    let head = Row::new(shown.iter().map(|(column, _)| cell(*column, columns[*column].head))).dim();
    let widths = shown
        .iter()
        .map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    let rows = rows.iter().map(|(style, cells)| {
        let text = |column: usize| cells.get(column).map_or("", String::as_str);
        Row::new(shown.iter().map(|(column, _)| cell(*column, text(*column)))).style(*style)
    });
    let gap = u16::try_from(GAP).unwrap_or(u16::MAX);
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(gap), rest);
}

/// The columns that are shown in `room` cells of the terminal, with their widths.
///
/// If the columns don't fit, each is as narrow as its contents, and then text is cut at its column's width. If the columns
/// still don't fit, they are left out from the right, extra ones first; a last column of text takes the cells that are left.
fn fit(columns: &[Column], rows: &[&[String]], room: usize) -> Vec<(usize, usize)> {
    let content = |index: usize, column: &Column| {
        let cells = rows.iter().filter_map(|row| row.get(index));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(column.head.len())
    };
    let total = |shown: &[(usize, usize)]| {
        shown.iter().map(|(_, width)| width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    let all = |width: fn(usize, &Column) -> usize| -> Vec<(usize, usize)> {
        let each = columns.iter().enumerate();
        each.map(|(index, column)| (index, width(content(index, column), column))).collect()
    };
    let mut shown = all(|content, column| content.max(column.width));
    if total(&shown) > room {
        shown = all(|content, _| content);
    }
    if total(&shown) > room {
        shown = all(|content, it| if it.is_text { content.min(it.width) } else { content });
    }
    while total(&shown) > room && shown.len() > 1 {
        if let Some((rest, before)) = shown.split_last_mut()
            && columns[rest.0].is_text
            && let Some(left) = room.checked_sub(total(before) + GAP)
            && left >= LEAST_REST
        {
            rest.1 = left;
            break;
        }
        let extra = shown.iter().rposition(|(index, _)| columns[*index].is_extra);
        shown.remove(extra.unwrap_or(shown.len() - 1));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::number("loss", 9),
        Column::number("held", 8).extra(),
        Column::number("sent", 8),
        Column::text("why", 30),
    ];

    fn fitted(cells: [&str; 4], room: usize) -> Vec<(usize, usize)> {
        let cells = cells.map(str::to_owned);
        fit(&COLUMNS, &[&cells], room)
    }

    #[test]
    fn with_room_columns_are_as_wide_as_they_want() {
        assert_eq!(fitted(["1 %", "2", "3", "x"], 61), [(0, 9), (1, 8), (2, 8), (3, 30)]);
    }

    #[test]
    fn a_number_wider_than_its_column_widens_the_column() {
        assert_eq!(fitted(["12345678901", "2", "3", "x"], 63)[0], (0, 11));
    }

    #[test]
    fn without_room_columns_are_as_narrow_as_their_contents() {
        let why = "no Sentry announced it";
        assert_eq!(fitted(["0.000 %", "2", "3", why], 43), [(0, 7), (1, 4), (2, 4), (3, 22)]);
        // The text is cut at the right.
        assert_eq!(fitted(["0.000 %", "2", "3", why], 30), [(0, 7), (1, 4), (2, 4), (3, 9)]);
    }

    #[test]
    fn extra_columns_are_left_out_first_and_then_the_last() {
        let why = "no Sentry announced it";
        assert_eq!(fitted(["0.000 %", "2", "3", why], 28), [(0, 7), (2, 4), (3, 13)]);
        assert_eq!(fitted(["0.000 %", "2", "3", why], 20), [(0, 7), (2, 4)]);
        assert_eq!(fitted(["0.000 %", "2", "3", why], 8), [(0, 7)]);
    }
}
