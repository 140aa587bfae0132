//! Figures of a page.

use crate::report::figures::Figure;

/// The folder of figures and of their data, beside the page.
pub(super) const FOLDER: &str = "evaluation";

/// The file of a figure.
pub(super) fn svg(figure: &Figure) -> String {
    format!("{}.svg", figure.name)
}

/// A figure in the text.
pub(super) fn embed(figure: &Figure) -> String {
    let Figure { title, .. } = figure;
    format!("![{title}]({FOLDER}/{})\n\n*{title}.*\n\n", svg(figure))
}
