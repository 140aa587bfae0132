//! How much the published evaluation depends on congestion control and on the
//! gateway's LAN port.

use super::evaluation::{WORKLOADS, network, web_traffic};
use super::markdown::{by_scheme, loss, mean_median_p99};
use super::{Effort, Found, Part, Setting, of_series, read};
use crate::report::format::number;
use crate::scheme::Scheme;

/// Congestion control.
const CONTROL: &str = "published-congestion";
/// The LAN port.
const LAN: &str = "published-lan";
/// Where both are looked at.
const LOSS: f64 = 1e-3;

/// Settings other than those of the evaluation: name, keys of `[site]`, of `[nic]`.
const CONTROLS: [(&str, &str, &str); 3] = [
    ("marks from 40 kB", "ecn = { kmin = \"40kB\", kmax = \"160kB\" }\n", ""),
    (
        "marks from 40 kB, a CNP every 4 µs",
        "ecn = { kmin = \"40kB\", kmax = \"160kB\" }\n",
        "dcqcn = { cnp_interval = \"4us\" }\n",
    ),
    ("no congestion control", "ecn = false\n", "dcqcn = false\n"),
];

/// Name, keys of `[site]`, of `[gateway]`.
const LANS: [(&str, &str, &str); 4] = [
    ("40 Gbit/s, flows in turn", "", ""),
    ("40 Gbit/s, FIFO", "", "lan_queue = \"fifo\"\n"),
    ("10 Gbit/s, flows in turn", "fabric_rate = \"10Gbps\"\n", ""),
    ("10 Gbit/s, FIFO", "fabric_rate = \"10Gbps\"\n", "lan_queue = \"fifo\"\n"),
];

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    const ALL: &str = r#""lossless", "gbn", "irn", "uet", "lr2", "cached""#;
    const FEW: &str = r#""lossless", "cached""#;
    let mut settings = Vec::new();
    let mut add = |series: &'static str, label: &str, schemes: &str, keys: [&str; 3]| {
        let x = settings.len() as f64;
        let [site, nic, gateway] = keys;
        let text = format!("name = \"{series}-{x}\"\nschemes = [{schemes}]\nlimit = \"20s\"\n")
            + &network(effort.delays_us[0], LOSS, site, nic, gateway)
            + &web_traffic("websearch", effort.messages[0]);
        let mut scenario = read(&text)?;
        scenario.seeds = (seed..seed + effort.seeds).collect();
        let label = label.to_owned();
        settings.push(Setting { part: Part::Published, series, x, label, scenario });
        Ok::<(), String>(())
    };
    for (name, site, nic) in CONTROLS {
        add(CONTROL, name, ALL, [site, nic, ""])?;
    }
    for (name, site, gateway) in LANS {
        add(LAN, name, FEW, [site, "", gateway])?;
    }
    Ok(settings)
}

/// Both tables.
pub(super) fn tables(found: &[Found]) -> String {
    let controls = of_series(found, CONTROL);
    let Some(first) = controls.first() else { return String::new() };
    let base = of_series(found, WORKLOADS[0].0).into_iter().find(|of| {
        of.setting.x == LOSS && of.setting.scenario.long_haul == first.setting.scenario.long_haul
    });
    let all: Vec<&Found> = base.into_iter().chain(controls.iter().copied()).collect();
    let schemes = &first.setting.scenario.schemes;
    let control = by_scheme("congestion control", schemes, &all, mean_median_p99);
    let control = match base {
        // The others have a name, this one a delay and a loss.
        Some(base) => control.replacen(&base.setting.label, "as above", 1),
        None => control,
    };
    let lans = of_series(found, LAN);
    let excess = lans.iter().map(|found| {
        let excess = excess(found).map_or("–".to_owned(), number);
        vec![found.setting.label.clone(), excess]
    });
    let heads = ["LAN port", "`cached` above lossless, µs"];
    let lan = super::markdown::table(&heads, &excess.collect::<Vec<_>>());
    format!(
        "WebSearch, {} µs one way, loss {}, mean / median / p99 (ms):\n\n{control}\n\
         The gateway's port towards its site; in each setting the mean completion time of \
         `cached` minus that of the lossless link:\n\n{lan}\n",
        first.setting.scenario.long_haul.delay.as_micros(),
        loss(LOSS),
    )
}

/// Mean completion time of `cached` above that of the lossless link, µs.
fn excess(found: &Found) -> Option<f64> {
    let mean = |scheme| found.scheme(scheme)?.main().fct_us.mean;
    Some(mean(Scheme::CACHED)? - mean(Scheme::LOSSLESS)?)
}
