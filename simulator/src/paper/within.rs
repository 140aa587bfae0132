//! Loss within the sites: the half of LR2 that works near the hosts.

use super::evaluation::{network, web_traffic};
use super::markdown::{by_scheme, mean_median_p99};
use super::{Effort, Found, Part, Setting, of_series, read};

const SERIES: &str = "published-within";

/// Name, loss on the long haul, keys of `[site]`.
const PLACES: [(&str, f64, &str); 4] = [
    ("sources' site, 1e-3", 0.0, "loss = 1e-3\nloss_in = \"source\"\n"),
    ("destinations' site, 1e-3", 0.0, "loss = 1e-3\nloss_in = \"destination\"\n"),
    ("both sites, 1e-3", 0.0, "loss = 1e-3\n"),
    ("both sites and the long haul, 1e-3", 1e-3, "loss = 1e-3\n"),
];

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    const SCHEMES: &str =
        r#""lossless", "gbn", "irn", "uet", "slr", "netrt", "lr2-paper", "lr2", "cached""#;
    let setting = |(n, (label, p, site)): (usize, &(&str, f64, &str))| {
        let text = format!("name = \"within-{n}\"\nschemes = [{SCHEMES}]\nlimit = \"20s\"\n")
            + &network(effort.delays_us[0], *p, site, "", "")
            + &web_traffic("websearch", effort.messages[0]);
        let mut scenario = read(&text)?;
        scenario.seeds = (seed..seed + effort.seeds).collect();
        let (x, label) = (n as f64, (*label).to_owned());
        Ok(Setting { part: Part::Published, series: SERIES, x, label, scenario })
    };
    PLACES.iter().enumerate().map(setting).collect()
}

/// The settings with their results.
pub(super) fn of(found: &[Found]) -> Vec<&Found> {
    of_series(found, SERIES)
}

/// Completion times.
pub(super) fn table(found: &[Found]) -> String {
    let found = of(found);
    let schemes = found.first().map_or(&[][..], |found| &found.setting.scenario.schemes);
    by_scheme("loss of packets per cable", schemes, &found, mean_median_p99)
}
