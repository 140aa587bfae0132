//! Beyond what is published.
use super::{Effort, Found, Setting};
use crate::report::figures::Figure;

pub(super) fn settings(_: &Effort, _: u64) -> Result<Vec<Setting>, String> {
    Ok(Vec::new())
}

pub(super) fn section(_: &[Found], _: &Effort) -> (String, Vec<Figure>) {
    (String::new(), Vec::new())
}
