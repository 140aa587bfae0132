//! Beyond the published evaluation: other losses, distances, rates, numbers of flows,
//! and sites where a gateway's behaviour matters.

use super::markdown::{by_scheme, loss, mean_and_p99, page, table};
use super::{Effort, Found, Part, Setting, fabric, lose, read};
use crate::plan::ACK_EVERY;
use crate::plan::forms::Path;
use crate::report::figures::Figure;
use crate::report::format::number;
use crate::report::{Course, Scale};
use crate::scenario::Traffic;
use crate::scheme::Scheme;

/// A series of settings: the file name of its figure, its title, its axis.
struct Series {
    name: &'static str,
    title: &'static str,
    axis: &'static str,
    /// The constant settings; `RATE` stands for [`Effort::rate_gbps`].
    about: &'static str,
}

const LOSS: Series = Series {
    name: "beyond-loss",
    title: "Loss",
    axis: "loss of packets",
    about: "RATE Gbit/s, 10 ms there and back, independent losses.",
};
const BURST: Series = Series {
    name: "beyond-burst",
    title: "Bursts of loss",
    axis: "packets per burst",
    about: "RATE Gbit/s, 10 ms there and back, loss 1e-3 in bursts; the axis is their mean length.",
};
const RTT: Series = Series {
    name: "beyond-rtt",
    title: "Distance",
    axis: "round trip (ms)",
    about: "40 Gbit/s, loss 1e-3.",
};
const RATE: Series = Series {
    name: "beyond-rate",
    title: "Rate",
    axis: "rate (Gbit/s)",
    about: "10 ms there and back, loss 1e-3.",
};
const FLOWS: Series = Series {
    name: "beyond-flows",
    title: "Flows at once",
    axis: "messages at once",
    about: "Sixteen hosts of 6.25 Gbit/s per site, 100 Gbit/s and 10 ms between them, loss 1e-3. The \
            messages begin together. From sixteen on, their total size is the same.",
};
/// Of one long message each.
const LONG: [&Series; 4] = [&LOSS, &BURST, &RTT, &RATE];
/// WebSearch at sites with deep and with shallow buffers.
const SITES: &str = "beyond-sites";

const SCHEMES: &str = r#""lossless", "gbn", "irn", "uet", "lr2-paper", "lr2", "cached", "tunnel""#;
/// Bytes of payload of a packet, here.
const PMTU: u64 = 4096;

/// A link and its one flow.
struct Link {
    rate_gbps: u32,
    rtt_us: u64,
    loss: f64,
    burst: u32,
}

impl Link {
    const fn new(rate_gbps: u32, rtt_us: u64, loss: f64) -> Self {
        Self { rate_gbps, rtt_us, loss, burst: 1 }
    }

    /// Bandwidth-delay product in bytes.
    fn product(&self) -> u64 {
        u64::from(self.rate_gbps) * self.rtt_us * 125
    }

    /// Messages one after the other, until there are enough packets to lose; `None`
    /// if the link is too large to be simulated.
    fn scenario(&self, effort: &Effort) -> Option<String> {
        if self.product() > effort.largest {
            return None;
        }
        let bytes = (effort.products * self.product() as f64) as u64;
        let rounds = (effort.packets * PMTU / 6 / bytes).clamp(2, 200);
        let limit = f64::from(effort.patience) * rounds as f64 * (effort.products + 1.0);
        let Self { rate_gbps, rtt_us, loss, burst, .. } = self;
        let loss = match burst {
            1 => format!("{loss:?}"),
            burst => format!("{{ rate = {loss:?}, burst = {burst} }}"),
        };
        Some(format!(
            "schemes = [{SCHEMES}]\nlimit = \"{}us\"\n\
             [long_haul]\nrate = \"{rate_gbps}Gbps\"\nrtt = \"{rtt_us}us\"\nloss = {loss}\n\
             [nic]\npmtu = {PMTU}\ncontent = false\n\
             [gateway]\nqueue = \"1GiB\"\n\
             [[traffic]]\nkind = \"rounds\"\nflows = 1\nbytes = \"{bytes}B\"\nrounds = {rounds}\n",
            (limit * *rtt_us as f64) as u64
        ))
    }
}

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    let mut all = Vec::new();
    let mut add = |series: &Series, x: f64, label: String, text: Option<String>| {
        let Some(text) = text else { return Ok(()) };
        let mut scenario = read(&text)?;
        scenario.name = format!("{}-{x}", series.name);
        scenario.seeds = vec![seed];
        all.push(Setting { part: Part::Beyond, series: series.name, x, label, scenario });
        Ok::<(), String>(())
    };
    for p in [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1] {
        add(&LOSS, p, loss(p), Link::new(effort.rate_gbps, 10_000, p).scenario(effort))?;
    }
    for burst in [1, 4, 16, 64, 256] {
        let link = Link { burst, ..Link::new(effort.rate_gbps, 10_000, 1e-3) };
        add(&BURST, f64::from(burst), burst.to_string(), link.scenario(effort))?;
    }
    for rtt_us in [100, 1_000, 10_000, 40_000, 100_000] {
        let ms = rtt_us as f64 / 1e3;
        add(&RTT, ms, ms.to_string(), Link::new(40, rtt_us, 1e-3).scenario(effort))?;
    }
    for rate in [10, 25, 100, 400] {
        add(
            &RATE,
            f64::from(rate),
            rate.to_string(),
            Link::new(rate, 10_000, 1e-3).scenario(effort),
        )?;
    }
    // A packet each, at least.
    let counts = [1, 10, 100, 1_000, 10_000];
    for flows in counts.into_iter().filter(|flows| u64::from(*flows) <= effort.packets) {
        add(&FLOWS, f64::from(flows), flows.to_string(), Some(many(flows, effort)))?;
    }
    all.extend(sites(effort, seed)?);
    Ok(all)
}

/// Messages of many hosts at once.
fn many(flows: u32, effort: &Effort) -> String {
    let volume = effort.packets * PMTU / 4;
    let bytes = volume / u64::from(flows.max(16));
    format!(
        "schemes = [{SCHEMES}]\nlimit = \"{}ms\"\n\
         [topology]\nkind = \"dumbbell\"\nhosts = 16\n\
         [long_haul]\nrate = \"100Gbps\"\nrtt = \"10ms\"\nloss = 1e-3\n\
         [site]\nhost_rate = \"6250Mbps\"\nbuffer = \"1GiB\"\necn = false\npfc = false\n\
         [nic]\npmtu = {PMTU}\ncontent = false\ndcqcn = false\n\
         [gateway]\nqueue = \"1GiB\"\n\
         [[traffic]]\nkind = \"long\"\nflows = {flows}\nbytes = \"{bytes}B\"\n",
        u64::from(effort.patience) * (10 + volume / 12_500_000),
    )
}

fn sites(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    let files = [
        ("marks from 1 MB, no pauses", include_str!("../../scenarios/websearch.toml")),
        ("marks from 100 kB, pauses at 1 MB", include_str!("../../scenarios/shallow.toml")),
    ];
    let setting = |(x, (label, text)): (usize, &(&str, &str))| {
        let mut scenario = read(text)?;
        let all = &scenario.schemes;
        let these = [
            Scheme::LOSSLESS,
            Scheme::GBN,
            Scheme::IRN,
            Scheme::LR2,
            Scheme::CACHED,
            Scheme::TUNNEL,
        ];
        scenario.schemes = all.iter().copied().filter(|s| these.contains(s)).collect();
        scenario.seeds = (seed..seed + effort.seeds).collect();
        scenario.nic.content = false;
        for traffic in &mut scenario.traffic {
            if let Traffic::Poisson { flows, .. } = traffic {
                *flows = effort.messages[0] * 2;
            }
        }
        Ok(Setting {
            part: Part::Beyond,
            series: SITES,
            x: x as f64,
            label: (*label).to_owned(),
            scenario,
        })
    };
    files.iter().enumerate().map(setting).collect()
}

/// Mean completion time under `scheme` as a multiple of the lossless one; or,
/// if not all was done, a lower bound of it.
fn times(found: &Found, scheme: Scheme) -> Option<Result<f64, f64>> {
    let ideal = found.scheme(Scheme::LOSSLESS)?.main().fct_us.mean?;
    let fct = &found.scheme(scheme)?.main().fct_us;
    if let Some(mean) = fct.mean {
        return Some(Ok(mean / ideal));
    }
    let limit = found.setting.scenario.limit.as_nanos() as f64 / 1e3;
    let done = (fct.count - fct.unfinished) as f64;
    let is_in_turn = matches!(found.setting.scenario.traffic.first(), Some(Traffic::Rounds { .. }));
    let least = match is_in_turn {
        true => limit / (done + 1.0),
        false => {
            let finished = fct.mean_of_finished.unwrap_or(0.0);
            (finished * done + limit * fct.unfinished as f64) / fct.count as f64
        }
    };
    Some(Err(least / ideal))
}

/// The section, and its figures.
pub(super) fn section(found: &[Found], effort: &Effort) -> (String, Vec<Figure>) {
    let of = |name: &str| -> Vec<&Found> {
        found.iter().filter(|found| found.setting.series == name).collect()
    };
    if !found.iter().any(|found| found.setting.part == Part::Beyond) {
        return (String::new(), Vec::new());
    }
    let (mut figures, mut text) = (Vec::new(), String::new());
    for series in LONG.into_iter().chain([&FLOWS]) {
        let points = of(series.name);
        let Some(first) = points.first() else { continue };
        let about = series.about.replace("RATE", &effort.rate_gbps.to_string());
        let schemes = &first.setting.scenario.schemes[1..];
        let table = by_scheme(series.axis, schemes, &points, times_cell);
        text += &format!("### {}\n\n{about}\n\n{table}\n", series.title);
        if let Some(figure) = course(series, &points).figure() {
            text += &super::embed::embed(&figure);
            figures.push(figure);
        }
    }
    let sites = of(SITES);
    let at_sites = sites.first().map(|first| {
        let schemes = &first.setting.scenario.schemes;
        by_scheme("switches of the sites", schemes, &sites, mean_and_p99)
    });
    let [fabrics, orders] = fabric::tables(found);
    let values = [
        ("products", effort.products.to_string()),
        ("packets", crate::report::format::count(effort.packets / 6)),
        ("patience", effort.patience.to_string()),
        ("series", text),
        ("largest", (effort.largest / 1_000_000).to_string()),
        ("reckoned", reckoned(effort)),
        ("sites", at_sites.unwrap_or_default()),
        ("behind", lose::list(found)),
        ("worse", number(lose::WORSE)),
        ("fabrics", fabrics),
        ("orders", orders),
    ];
    (page(include_str!("pages/beyond.md"), &values), figures)
}

fn times_cell(found: &Found, scheme: Scheme) -> String {
    match times(found, scheme) {
        Some(Ok(times)) => number(times),
        Some(Err(least)) => format!("> {}", number(least)),
        None => "–".to_owned(),
    }
}

fn course(series: &Series, points: &[&Found]) -> Course {
    let schemes = points.first().map_or(Vec::new(), |found| found.setting.scenario.schemes.clone());
    let line = |scheme: &Scheme| {
        let value = |found: &&Found| times(found, *scheme).and_then(Result::ok).unwrap_or(f64::NAN);
        (*scheme, points.iter().map(value).collect())
    };
    Course {
        name: series.name,
        title: format!("{}: mean completion time", series.title),
        axis: series.axis.into(),
        places: points.iter().map(|f| (f.setting.x, f.setting.label.clone())).collect(),
        scale: Scale::Log("multiple of lossless".into()),
        lines: schemes.iter().map(line).collect(),
    }
}

/// Settings too large to simulate, by the closed forms.
fn reckoned(effort: &Effort) -> String {
    let mut rows = Vec::new();
    for (rate, ms) in [(40, 100), (400, 10), (100, 100), (400, 40), (400, 100)] {
        let link = Link::new(rate, 1_000 * ms, 0.0);
        if link.product() <= effort.largest {
            continue;
        }
        for p in [1e-5, 1e-3, 1e-2] {
            let frame = crate::path::packet_wire_bytes(PMTU);
            let window = link.product() as f64 / frame as f64;
            let path = Path { window, loss: p, burst: 1.0, timeout: 4.0 * window };
            let shares = [path.gbn(ACK_EVERY), path.lr2(), path.bounded(1.0), path.bounded(3.0)];
            let mut row = vec![format!("{rate} Gbit/s, {ms} ms, {}", loss(p))];
            row.extend(shares.map(|share| format!("{share:.3}")));
            rows.push(row);
        }
    }
    let heads = ["rate, round trip, loss", "gbn", "lr2", "irn, no loss of repeats", "cached"];
    table(&heads, &rows)
}
