//! The settings of the published evaluation, and the measures that compare its results.

use super::markdown::loss;
use super::{Effort, Part, Setting, read};
use crate::results::Summary;

/// Workloads: series, name of the sizes, how the page calls it.
pub(super) const WORKLOADS: [(&str, &str, &str); 3] = [
    ("published-websearch", "websearch", "WebSearch"),
    ("published-hadoop", "hadoop", "Hadoop"),
    ("published-alistorage", "alistorage", "AliStorage"),
];
/// LR2 as published with pools that hold no more than published.
pub(super) const POOLS: &str = "published-pools";
/// Buckets of sizes from 500 kB on.
const LARGE: std::ops::Range<usize> = 3..6;

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    const SCHEMES: &str = r#""lossless", "gbn", "irn", "uet", "slr", "netrt", "lr2-paper", "lr2", "cached", "tunnel""#;
    let mut all = Vec::new();
    for (&(series, sizes, _), messages) in WORKLOADS.iter().zip(effort.messages) {
        for &delay_us in &effort.delays_us {
            for &p in &effort.losses {
                let text = scenario(sizes, delay_us, p, messages, SCHEMES, "", "20s");
                all.push(setting(series, delay_us, p, &text, effort, seed)?);
            }
        }
    }
    for &p in &effort.losses {
        let first = effort.delays_us[0];
        let pools = "paper_reorder = \"1MB\"\npaper_backup = \"50kB\"\n";
        let text =
            scenario("websearch", first, p, effort.messages[0], r#""lr2-paper""#, pools, "2s");
        all.push(setting(POOLS, first, p, &text, effort, seed)?);
    }
    Ok(all)
}

fn setting(
    series: &'static str,
    delay_us: u32,
    p: f64,
    text: &str,
    effort: &Effort,
    seed: u64,
) -> Result<Setting, String> {
    let mut scenario = read(text)?;
    scenario.seeds = (seed..seed + effort.seeds).collect();
    let label = format!("{delay_us} µs, {}", loss(p));
    Ok(Setting { part: Part::Published, series, x: p, label, scenario })
}

/// The file of a scenario; `more`: further keys of its top level.
pub(super) fn scenario(
    sizes: &str,
    delay_us: u32,
    p: f64,
    messages: u32,
    schemes: &str,
    gateway: &str,
    limit: &str,
) -> String {
    let head = format!(
        "name = \"{sizes}-{delay_us}us-{p:e}\"\nschemes = [{schemes}]\nlimit = \"{limit}\"\n"
    );
    head + &network(delay_us, p, "", "", gateway) + &web_traffic(sizes, messages)
}

/// The network of the published evaluation. Switches mark from a quarter of a
/// bandwidth-delay product on, and each packet from a whole one on; `site`, `nic` and
/// `gateway`: further keys of these sections.
pub(super) fn network(delay_us: u32, p: f64, site: &str, nic: &str, gateway: &str) -> String {
    let product = 10_000 / 8 * 2 * u64::from(delay_us);
    let marks = match site.contains("ecn = ") {
        true => String::new(),
        false => format!("ecn = {{ kmin = \"{}B\", kmax = \"{product}B\" }}\n", product / 4),
    };
    let dcqcn = if nic.contains("dcqcn = ") { "" } else { "dcqcn = { cnp_interval = \"50us\" }\n" };
    let fabric = if site.contains("fabric_rate") { "" } else { "fabric_rate = \"40Gbps\"\n" };
    format!(
        "[topology]\nkind = \"dumbbell\"\nhosts = 8\n\
         [long_haul]\nrate = \"10Gbps\"\ndelay = \"{delay_us}us\"\nloss = {p:?}\n\
         [site]\n{marks}{fabric}{site}\
         [nic]\npmtu = 1024\ncontent = false\n{dcqcn}{nic}\
         [gateway]\n{gateway}"
    )
}

/// Messages at 60 % of the link's rate.
pub(super) fn web_traffic(sizes: &str, messages: u32) -> String {
    format!(
        "[[traffic]]\nkind = \"poisson\"\nsizes = \"{sizes}\"\nload = 0.6\nflows = {messages}\n"
    )
}

/// Mean completion time of messages above 500 kB.
fn mean_of_large(summary: &Summary) -> Option<f64> {
    let sizes = summary.main().sizes.get(LARGE)?;
    let (mut sum, mut count) = (0.0, 0.0);
    for bucket in sizes.iter().filter(|bucket| bucket.fct_us.count > 0) {
        sum += bucket.fct_us.mean? * bucket.fct_us.count as f64;
        count += bucket.fct_us.count as f64;
    }
    (count > 0.0).then(|| sum / count)
}

pub(super) type Of = fn(&Summary) -> Option<f64>;

pub(super) fn mean(summary: &Summary) -> Option<f64> {
    summary.main().fct_us.mean
}

pub(super) fn p99(summary: &Summary) -> Option<f64> {
    summary.main().fct_us.p99
}

/// The measures that compare LR2 as published and go-back-N.
pub(super) const COLUMNS: [Of; 3] = [mean, p99, mean_of_large];
