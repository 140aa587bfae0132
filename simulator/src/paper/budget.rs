//! Memory: each scheme with a quarter of a bandwidth-delay product to two.

use super::evaluation::{network, web_traffic};
use super::markdown::{by_scheme, mean_median_p99};
use super::{Effort, Found, Part, Setting, of_series, read};

const SERIES: &str = "published-budget";

/// Memory of a gateway, in bandwidth-delay products.
const PRODUCTS: [f64; 4] = [0.25, 0.5, 1.0, 2.0];
const LOSS: f64 = 3e-3;

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    let setting = |products: f64| {
        let head = format!(
            "name = \"budget-{products}\"\nlimit = \"20s\"\n\
             schemes = [\"gbn\", \"netrt\", \"lr2-paper\", \"lr2\", \"cached\"]\n"
        );
        let gateway = format!("budget = {products:?}\n");
        let text = head
            + &network(effort.delays_us[0], LOSS, "", "", &gateway)
            + &web_traffic("websearch", effort.messages[0].min(100));
        let mut scenario = read(&text)?;
        // They take long where memory is short, and differ by more than seeds do.
        scenario.seeds = vec![seed];
        let label = format!("{products}");
        Ok(Setting { part: Part::Published, series: SERIES, x: products, label, scenario })
    };
    PRODUCTS.into_iter().map(setting).collect()
}

/// Completion times.
pub(super) fn table(found: &[Found]) -> String {
    let found = of_series(found, SERIES);
    let schemes = found.first().map_or(&[][..], |found| &found.setting.scenario.schemes);
    by_scheme("memory, in bandwidth-delay products", schemes, &found, mean_median_p99)
}
