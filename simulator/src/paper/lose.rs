//! Each setting in which another scheme is better than ours.

use super::markdown::table;
use super::{Found, Part};
use crate::report::format::number;
use crate::results::Summary;
use crate::scheme::Scheme;
use crate::schemes::{Class, profile};

/// A figure this many times that of another scheme is worse.
pub(super) const WORSE: f64 = 1.05;

type Of = fn(&Summary) -> Option<f64>;

/// The figures that are compared.
const FIGURES: [(&str, Of); 2] =
    [("mean", |of| of.main().fct_us.mean), ("p99", |of| of.main().fct_us.p99)];

/// All rows, with those that they are behind.
pub(super) fn rows(found: &[Found]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for found in found.iter().filter(|found| found.setting.part != Part::NeverWorse) {
        let schemes = &found.setting.scenario.schemes;
        let of = |class: &[Class]| -> Vec<Scheme> {
            let is = |scheme: &&Scheme| class.contains(&profile(**scheme).class);
            schemes.iter().filter(is).copied().collect()
        };
        for ours in of(&[Class::Ours]) {
            for (name, figure) in FIGURES {
                let behind: Vec<String> = of(&[Class::Baseline, Class::Peer])
                    .into_iter()
                    .filter_map(|rival| behind(found, ours, rival, figure))
                    .collect();
                if !behind.is_empty() {
                    let setting = &found.setting;
                    let place = format!("{}: {}", setting.series, setting.label);
                    rows.push(vec![place, ours.name().into(), name.into(), behind.join(", ")]);
                }
            }
        }
    }
    rows
}

/// How many times as long as under `rival`, if that is worse.
fn behind(found: &Found, ours: Scheme, rival: Scheme, figure: Of) -> Option<String> {
    let other = figure(found.scheme(rival)?)?;
    let own = figure(found.scheme(ours)?);
    match own {
        None => Some(format!("{} (not done)", rival.name())),
        Some(own) if own > WORSE * other => {
            Some(format!("{} {}", rival.name(), number(own / other)))
        }
        Some(_) => None,
    }
}

/// The table of all rows.
pub(super) fn list(found: &[Found]) -> String {
    let rows = rows(found);
    if rows.is_empty() {
        return "There is none.".to_owned();
    }
    table(&["setting", "ours", "figure", "times that of"], &rows)
}
