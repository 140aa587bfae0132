//! The JSON report at the end, and figures of a distribution.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::Serialize;

/// Durations in nanoseconds, from 1 ns to an hour, to three significant
/// digits. Recording is a few nanoseconds and allocates nothing.
pub struct Durations(Histogram<u64>);

const HOUR: u64 = 3_600_000_000_000;

impl Default for Durations {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HOUR, 3);
        Self(histogram.expect("the bounds are in order and three digits are allowed"))
    }
}

impl Durations {
    /// Adds `nanos`, `times` over.
    pub fn record(&mut self, nanos: u64, times: u64) {
        self.0.saturating_record_n(nanos.max(1), times);
    }

    /// The figures people ask for, in microseconds.
    pub fn summary(&self) -> Summary {
        let us = |nanos: u64| nanos as f64 / 1e3;
        let quantile = |q| us(self.0.value_at_quantile(q));
        Summary {
            count: self.0.len(),
            mean: self.0.mean() / 1e3,
            p50: quantile(0.50),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(self.0.max()),
        }
    }
}

/// Figures of a distribution in microseconds; all zero if `count` is.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// How many values there are.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest value.
    pub max: f64,
}

/// The file of an option for a report. A run that takes an hour should not find at its end that there is no folder for it.
///
/// # Errors
/// What is wrong with it.
pub fn file(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder {
        Some(folder) if !folder.is_dir() => Err(format!("there is no folder {}", folder.display())),
        _ if file.file_name().is_none() || file.is_dir() => Err("that is no file".to_owned()),
        _ => Ok(file),
    }
}

/// Writes `report` to `file`, all or nothing.
///
/// # Errors
/// If the file can't be written.
pub fn write(file: &Path, report: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(report).context("encoding the report")?;
    text.push(b'\n');
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, file))
        .with_context(|| format!("cannot write the report to {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_known_distribution() {
        let mut durations = Durations::default();
        for ms in 1..=1_000 {
            durations.record(ms * 1_000_000, 1);
        }
        let summary = durations.summary();
        assert_eq!(summary.count, 1_000);
        for (found, wanted) in [
            (summary.p50, 500e3),
            (summary.p99, 990e3),
            (summary.mean, 500.5e3),
            (summary.max, 1000e3),
        ] {
            assert!((found / wanted - 1.0).abs() < 2e-3, "{found} instead of {wanted}");
        }
    }

    #[test]
    fn a_report_needs_a_folder() {
        let folder = std::env::temp_dir();
        let inside = folder.join("lr2-report.json");
        assert_eq!(file(inside.to_str().expect("UTF-8")), Ok(inside));
        assert_eq!(file("lr2-report.json"), Ok("lr2-report.json".into()));
        let nowhere = file("/no/such/folder/x.json").expect_err("no folder");
        assert_eq!(nowhere, "there is no folder /no/such/folder");
        for not_a_file in [folder.to_str().expect("UTF-8"), "/", ""] {
            assert_eq!(file(not_a_file).expect_err(not_a_file), "that is no file");
        }
    }

    #[test]
    fn no_values_are_all_zero() {
        let summary = Durations::default().summary();
        assert_eq!((summary.count, summary.mean, summary.p99, summary.max), (0, 0.0, 0.0, 0.0));
    }

    #[test]
    fn a_report_is_written_whole() {
        let file = std::env::temp_dir().join(format!("lr2-report-{}.json", std::process::id()));
        write(&file, &serde_json::json!({"a": 1})).expect("a writable folder");
        assert_eq!(fs::read_to_string(&file).expect("written"), "{\n  \"a\": 1\n}\n");
        fs::remove_file(&file).expect("there");
        let error = write(Path::new("/nowhere/at/all"), &1).expect_err("no such folder");
        assert!(error.to_string().contains("/nowhere/at/all"));
    }
}
