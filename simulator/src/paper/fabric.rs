//! Fabrics: two leaf–spine sites with two long-haul links, a collective that converges on
//! one host, and a long haul that changes the order of packets.

use super::markdown::{by_scheme, mean_median_p99};
use super::{Effort, Found, Part, Setting, of_series, read};

const SERIES: &str = "beyond-fabric";
const ORDER: &str = "beyond-order";

/// Every scheme with published or real RNICs and switches.
const SCHEMES: &str =
    r#""lossless", "gbn", "irn", "uet", "slr", "netrt", "lr2-paper", "lr2", "cached", "tunnel""#;

/// Sixteen hosts of 10 Gbit/s per site; two long-haul links of 20 Gbit/s. Marks from a
/// quarter of a host's bandwidth-delay product on.
const FABRIC: &str = "[topology]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 4\n\
     long_hauls = 2\n\
     [long_haul]\nrate = \"20Gbps\"\ndelay = \"400us\"\nloss = 1e-3\n\
     [site]\nhost_rate = \"10Gbps\"\nfabric_rate = \"40Gbps\"\n\
     ecn = { kmin = \"250kB\", kmax = \"1MB\" }\n\
     [nic]\npmtu = 1024\ncontent = false\ndcqcn = { cnp_interval = \"50us\" }\n";

/// A long haul without loss that changes the order of packets, or has several paths:
/// name, keys of `[long_haul]`.
const ORDERS: [(&str, &str); 4] = [
    ("1e-4 of the packets 20 µs late", "reordering = { share = 1e-4, extra = \"20us\" }\n"),
    ("1e-3 of the packets 20 µs late", "reordering = { share = 1e-3, extra = \"20us\" }\n"),
    ("1e-2 of the packets 20 µs late", "reordering = { share = 1e-2, extra = \"20us\" }\n"),
    (
        "four routes, each 50 µs longer",
        "paths = [{ delay = \"400us\" }, { delay = \"450us\" }, { delay = \"500us\" }, { delay = \"550us\" }]\n",
    ),
];

pub(super) fn settings(effort: &Effort, seed: u64) -> Result<Vec<Setting>, String> {
    let web = |load: f64, flows: u32, scope: &str| {
        format!(
            "[[traffic]]\nkind = \"poisson\"\nsizes = \"websearch\"\nload = {load:?}\n\
             flows = {flows}\nscope = \"{scope}\"\n"
        )
    };
    let messages = effort.messages[0];
    let incast =
        "[[traffic]]\nkind = \"incast\"\nflows = 64\nbytes = \"500kB\"\nspread = \"100us\"\n";
    let cases = [
        ("WebSearch between the sites", web(0.4, messages, "between")),
        (
            "WebSearch between and within the sites",
            web(0.4, messages, "between") + &web(0.2, messages, "within"),
        ),
        ("64 x 500 kB to one host", incast.to_owned()),
    ];
    let mut settings = Vec::new();
    let mut add = |series: &'static str, label: &str, schemes: &str, rest: &str| {
        let x = settings.len() as f64;
        let head = format!("name = \"{series}-{x}\"\nschemes = [{schemes}]\nlimit = \"20s\"\n");
        let mut scenario = read(&(head + rest))?;
        scenario.seeds = (seed..seed + effort.seeds).collect();
        let label = label.to_owned();
        settings.push(Setting { part: Part::Beyond, series, x, label, scenario });
        Ok::<(), String>(())
    };
    for (label, traffic) in &cases {
        add(SERIES, label, SCHEMES, &format!("{FABRIC}{traffic}"))?;
    }
    for (label, keys) in ORDERS {
        let haul = format!("loss = 0\n{keys}");
        let network = super::evaluation::network(effort.delays_us[0], 0.0, "", "", "");
        let traffic = super::evaluation::web_traffic("websearch", messages);
        let text = network.replacen("loss = 0.0\n", &haul, 1) + &traffic;
        add(ORDER, label, r#""lossless", "gbn", "irn", "uet", "lr2", "cached", "tunnel""#, &text)?;
    }
    Ok(settings)
}

/// The table of fabrics, and that of orders.
pub(super) fn tables(found: &[Found]) -> [String; 2] {
    [(SERIES, "traffic"), (ORDER, "long haul without loss")].map(|(series, head)| {
        let of = of_series(found, series);
        let schemes = of.first().map_or(&[][..], |found| &found.setting.scenario.schemes);
        by_scheme(head, schemes, &of, mean_median_p99)
    })
}
