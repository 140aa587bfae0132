//! Whether the workers are enough for the rate of the link, by the measured cost of a packet.
//!
//! `docs/guide/size.md` has the reckoning and its results; a test compares that page with this file, and the costs with
//! `docs/performance.md`. It is an estimate, and never a reason to refuse a configuration.

use std::iter;

use dpdk_sys_wrapper::Port;
use settings::sizing::pmtu;
use settings::units::show_rate;

use crate::config::{Config, Pairs, Recovery, Role, TunnelMode, WORKERS};
use crate::port::PortId;

/// Cycles of the time-stamp counter that a packet takes, without the port's: of data that comes from the LAN, and of
/// data that comes from the WAN.
struct Cost {
    /// With a payload of 4096 bytes.
    of_4096: [f64; 2],
    /// With a payload of 1024 bytes.
    of_1024: [f64; 2],
}

/// The frequency of the time-stamp counter where the costs below were measured.
const MEASURED_HZ: u64 = 2_600_000_000;

// docs/performance.md, at b2330d77 on 2026-11-28: a virtual machine with two cores (Zen 4), the counter at 2.6 GHz; own
// cycles of one worker with 64 flows, without loss. 128 k frames are in flight, as on a long link: most of what `cached`
// and the tunnel cost is memory then.

/// `both off`. It holds no frames, and was measured with 4 k of them in flight.
const OFF: Cost = Cost { of_4096: [28.5, 28.5], of_1024: [28.6, 28.6] };
/// `sentry lr2`, which holds no frames either, with 4 k of them in flight; `depot cached`, which is the same in both modes.
const LR2: Cost = Cost { of_4096: [175.0, 206.0], of_1024: [174.0, 238.0] };
/// `sentry cached` and `depot cached`.
const CACHED: Cost = Cost { of_4096: [242.0, 206.0], of_1024: [229.0, 238.0] };
/// `tunnel sender` and `tunnel receiver`.
const ETHERNET: Cost = Cost { of_4096: [116.0, 44.9], of_1024: [105.0, 43.9] };
/// The same over UDP with 8 lanes. Packets of 4096 bytes were not measured: here they take as many cycles more than those
/// of 1024 bytes as over Ethernet.
const UDP: Cost = Cost { of_4096: [151.0, 71.1], of_1024: [140.0, 70.1] };

/// Cycles that a NIC's driver is taken to add to each packet. Not measured: some 50 to 100.
const DRIVER: f64 = 100.0;
/// ACKs for each packet.
const ACKS: f64 = 1.0 / 16.0;
/// The load of a worker that leaves room for bursts and resends.
const LOAD: f64 = 0.7;
/// Bytes of a packet on the wire besides its payload: Ethernet, IPv4, UDP, BTH, ICRC; FCS, preamble and gap.
const OVERHEAD: f64 = 82.0;

/// Workers that a link takes at this rate (bit/s) in both directions, with packets of so many bytes of payload, each of
/// which takes so many cycles in the two directions together.
fn workers(rate: u64, payload: u64, cycles: f64, hz: u64) -> f64 {
    let packets = rate as f64 / (8.0 * (payload as f64 + OVERHEAD));
    packets * (1.0 + ACKS) * cycles / (hz as f64 * LOAD)
}

/// Cycles of a packet from the LAN and of one from the WAN.
fn cycles(config: &Config, payload: u64) -> f64 {
    let of = |cost: &Cost| if payload > 1024 { cost.of_4096 } else { cost.of_1024 };
    let [outbound, inbound] = match (config.tunnel.mode, config.recovery.mode) {
        (TunnelMode::Ethernet, _) => of(&ETHERNET),
        (TunnelMode::Udp, _) => of(&UDP),
        (TunnelMode::Off, Recovery::Off) => of(&OFF),
        (TunnelMode::Off, mode) => {
            let [sentry, depot] = of(if mode == Recovery::Lr2 { &LR2 } else { &CACHED });
            let [wire, _] = of(&OFF);
            match config.role {
                Role::Both => [sentry, depot],
                Role::Sentry => [sentry, wire],
                Role::Depot => [wire, depot],
            }
        }
    };
    outbound + inbound + 2.0 * DRIVER
}

/// The rate of the link in one direction, bit/s: `link_rate` of each WAN port, or where a port has none its speed; and no
/// more than the LAN port's. `speeds` are those of the ports, bit/s, by [`PortId::index`], where they are known. `None` if
/// that of a WAN port is not.
pub fn link_rate(config: &Config, speeds: &[Option<u64>]) -> Option<u64> {
    // The speed that a virtual device reports is not one.
    let speed_of = |id: PortId, is_pci: bool| {
        speeds.get(id.index()).copied().flatten().filter(|speed| is_pci && *speed > 0)
    };
    let each = PortId::all(u8::MAX).skip(1).zip(&config.wan);
    let each = each.map(|(id, wan)| wan.link_rate.or_else(|| speed_of(id, wan.port.is_pci())));
    let wan: u64 = each.sum::<Option<u64>>()?;
    let lan = speed_of(PortId::LAN, config.lan.is_pci());
    Some(lan.map_or(wan, |lan| lan.min(wan)))
}

/// The speeds of open ports, bit/s.
pub fn speeds(ports: &[Port]) -> Vec<Option<u64>> {
    let speed = |port: &Port| {
        let link = port.link();
        link.speed_mbps.filter(|_| link.up).map(|speed| u64::from(speed) * 1_000_000)
    };
    ports.iter().map(speed).collect()
}

/// Whether the workers are enough, in one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// They are.
    Enough(String),
    /// They are not, and what to do.
    TooFew(String),
}

impl Verdict {
    /// The same, with the name of the pair of ports where there are several.
    pub fn of(self, config: &Config) -> Self {
        let Some(name) = config.pair.label() else { return self };
        match self {
            Self::Enough(line) => Self::Enough(format!("pair {name}: {line}")),
            Self::TooFew(line) => Self::TooFew(format!("pair {name}: {line}")),
        }
    }
}

/// Judges each pair of ports by its file alone, where [`link_rate`] is known from it; with its name where there are several.
pub fn by_file(pairs: &Pairs) -> Vec<Verdict> {
    let judged = |config: &Config| Some(judge(config, link_rate(config, &[])?, None).of(config));
    pairs.iter().filter_map(judged).collect()
}

/// Judges the workers of a pair of ports for a link of this rate, bit/s, on a machine whose time-stamp counter runs at `hz`;
/// `None`: it is not known, and taken for that of the measurement.
pub fn judge(config: &Config, rate: u64, hz: Option<u64>) -> Verdict {
    let largest = pmtu(config.lan.mtu);
    let takes =
        |payload| workers(rate, payload, cycles(config, payload), hz.unwrap_or(MEASURED_HZ));
    let sizes = iter::once(largest).chain((largest > 1024).then_some(1024));
    let each = sizes.enumerate().map(|(n, size)| match n {
        0 => format!("{:.1} workers with packets of {size} bytes", takes(size)),
        _ => format!("{:.1} with {size} bytes", takes(size)),
    });
    let each = each.collect::<Vec<_>>().join(", ");
    let (count, needed) = (config.worker.count, takes(largest).ceil());
    let ghz = |hz: u64| format!("{:.1} GHz", hz as f64 / 1e9);
    let here = match hz {
        Some(hz) => format!("this one's runs at {}", ghz(hz)),
        None => "so is this one's taken to be".to_owned(),
    };
    let found =
        format!("{} in both directions takes {each}, and there are {count}", show_rate(rate));
    let basis = format!(
        "an estimate from another machine, with a time-stamp counter of {}; {here} (docs/guide/size.md)",
        ghz(MEASURED_HZ)
    );
    if needed <= f64::from(count) {
        return Verdict::Enough(format!("cores for the link: {found}; {basis}"));
    }
    let key = config.cores_key();
    let advice = if needed <= f64::from(WORKERS) {
        format!("have worker.count = {needed}, and as many cores in {key}")
    } else {
        format!("which even {WORKERS} workers could not do")
    };
    Verdict::TooFew(format!("worker.count: {found}: {advice}; {basis}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::tests::{good, lab};

    const RATE: u64 = 100_000_000_000;

    fn page(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        std::fs::read_to_string(path).unwrap()
    }

    fn of_link(payload: u64, cycles: f64) -> f64 {
        workers(RATE, payload, cycles, MEASURED_HZ)
    }

    #[test]
    fn the_manual_has_the_results() {
        let manual = page("guide/size.md");
        let modes = [
            ("`recovery.mode = \"off\"`", &OFF),
            ("`\"lr2\"`", &LR2),
            ("`\"cached\"`, `\"auto\"`", &CACHED),
            ("`wan.tunnel = \"ethernet\"`", &ETHERNET),
            ("`\"udp\"`", &UDP),
        ];
        for (name, cost) in modes {
            let of = |payload, [outbound, inbound]: [f64; 2]| {
                let result = of_link(payload, outbound + inbound + 2.0 * DRIVER);
                format!("{outbound} + {inbound} | {result:.1}")
            };
            let row =
                format!("| {name} | {} | {} |", of(4096, cost.of_4096), of(1024, cost.of_1024));
            assert!(manual.contains(&row), "docs/guide/size.md lacks\n{row}");
        }
        // Those with a loss are of the run of docs/performance.md, too, but not in its tables.
        for (payload, without, with) in
            [(4096, CACHED.of_4096, 395.0 + 922.0), (1024, CACHED.of_1024, 374.0 + 851.0)]
        {
            let rate = RATE as f64 / (8.0 * (payload as f64 + OVERHEAD)) / 1e6;
            let digits = if rate < 10.0 { 2 } else { 1 };
            let sum: f64 = without.iter().sum();
            let [without, with] = [sum, with].map(|cycles| {
                let with_driver = of_link(payload, cycles + 2.0 * DRIVER);
                format!("{:.1} | {with_driver:.1}", of_link(payload, cycles))
            });
            let row = format!("| {payload} | {rate:.digits$} | {without} | {with} |");
            assert!(manual.contains(&row), "docs/guide/size.md lacks\n{row}");
        }
        let numbers = "a = 1/16, f = 2.6 GHz, u = 0.7";
        assert!(manual.contains(numbers), "docs/guide/size.md lacks {numbers}");
        assert!((ACKS, LOAD, MEASURED_HZ) == (1.0 / 16.0, 0.7, 2_600_000_000));
    }

    /// The own cycles in the rows of a page that begin so, in the table of these columns; a cell has them behind a dot.
    fn measured(page: &str, table: &str, row: &str, column: usize) -> f64 {
        let (_, rest) = page.split_once(table).unwrap_or_else(|| panic!("no {table}"));
        let line = rest.lines().find(|line| line.starts_with(row));
        let line = line.unwrap_or_else(|| panic!("no {row} in {table}"));
        let cell = line.split('|').nth(column + 1).unwrap().trim();
        cell.split(" · ").nth(1).unwrap_or(cell).parse().unwrap()
    }

    /// After other measurements the costs are to be renewed if they are others by more than the noise of such a machine.
    #[test]
    fn the_costs_are_those_that_were_measured() {
        let page = page("performance.md");
        let flows = "| payload | flows | in flight | per ACK | macswap |";
        let tunnel = "| payload | flows | in flight | per ACK | `hold` |";
        let several = "| program | payload | flows | in flight | one: Mpps |";
        let programs = "| payload | program | Mpps | Gbit/s |";
        let point = |payload| format!("| {payload} | 64 | 128 k |");
        let own =
            |payload, program| measured(&page, programs, &format!("| {payload} | {program} |"), 5);
        let udp = |program| {
            measured(
                &page,
                several,
                &format!("| tunnel {program} over UDP, 8 lanes | 1024 | 64 | 128 k |"),
                7,
            )
        };
        let mut pairs = Vec::new();
        for payload in [4096, 1024] {
            let of = |cost: &Cost| if payload == 4096 { cost.of_4096 } else { cost.of_1024 };
            let depot = measured(&page, flows, &point(payload), 11);
            pairs.extend([
                (of(&OFF), [own(payload, "both off"); 2]),
                (of(&LR2), [own(payload, "sentry lr2"), depot]),
                (of(&CACHED), [measured(&page, flows, &point(payload), 9), depot]),
                (
                    of(&ETHERNET),
                    [5, 6].map(|column| measured(&page, tunnel, &point(payload), column)),
                ),
            ]);
        }
        pairs.push((UDP.of_1024, [udp("sender"), udp("receiver")]));
        for (ours, theirs) in pairs {
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                assert!(
                    (ours / theirs - 1.0).abs() < 0.25,
                    "{ours}, and docs/performance.md has {theirs}"
                );
            }
        }
    }

    #[test]
    fn too_few_workers_are_told_what_it_takes() {
        let config = good(&lab("[worker]\ncount = 1\n"));
        let Verdict::TooFew(line) = judge(&config, RATE, Some(MEASURED_HZ)) else {
            panic!("one is enough")
        };
        for part in [
            "100Gbps in both directions takes 1.1 workers with packets of 4096 bytes, 4.4 with 1024 bytes, and there are 1:",
            "have worker.count = 2, and as many cores in eal.cores",
            "an estimate from another machine",
            "this one's runs at 2.6 GHz",
        ] {
            assert!(line.contains(part), "{line}");
        }
        let config = good(&lab("[worker]\ncount = 2\n[eal]\nmemory = \"1GiB\"\n"));
        assert!(
            matches!(judge(&config, RATE, None), Verdict::Enough(line) if line.contains("taken to be"))
        );
        // Half as fast, and twice as many packets.
        assert!(matches!(judge(&config, RATE, Some(MEASURED_HZ / 2)), Verdict::TooFew(_)));
        assert!(
            matches!(judge(&config, 10_000_000_000_000, None), Verdict::TooFew(line) if line.contains("could not do"))
        );
        let small = good(&lab("[worker]\ncount = 2\n").replace("device", "mtu = 1500\ndevice"));
        assert!(
            matches!(judge(&small, RATE, None), Verdict::TooFew(line) if line.contains("takes 4.4 workers with packets of 1024 bytes, and"))
        );
    }

    #[test]
    fn each_mode_and_role_has_its_cost() {
        let cost = |text: &str| ((cycles(&good(text), 4096) - 2.0 * DRIVER) * 10.0).round() / 10.0;
        let mode = |mode: &str| cost(&lab(&format!("[recovery]\nmode = \"{mode}\"\n")));
        assert_eq!(["off", "lr2", "cached", "auto"].map(mode), [57.0, 381.0, 448.0, 448.0]);
        let tunnel = lab("").replace("[wan]", "[wan]\ntunnel = \"ethernet\"\nmtu = 9034");
        assert_eq!(cost(&tunnel), 160.9);
        for (role, expected) in [("sentry", 270.5), ("depot", 234.5)] {
            assert_eq!(cost(&format!("role = \"{role}\"\n{}", lab(""))), expected);
        }
    }

    #[test]
    fn the_rate_is_the_files_or_the_ports() {
        const G: u64 = 1_000_000_000;
        let pci = lab("").replace("net_null0", "0000:3b:00.0").replace("net_null1", "0000:3b:00.1");
        let with_key = |text: &str| text.replace("[wan]", "[wan]\nlink_rate = \"40Gbps\"");
        let rate = |text: &str, speeds: [Option<u64>; 2]| link_rate(&good(text), &speeds);
        assert_eq!(rate(&pci, [Some(100 * G), Some(100 * G)]), Some(100 * G));
        assert_eq!(rate(&pci, [Some(25 * G), Some(100 * G)]), Some(25 * G));
        assert_eq!(rate(&pci, [Some(100 * G), None]), None);
        assert_eq!(rate(&with_key(&pci), [None, None]), Some(40 * G));
        assert_eq!(rate(&with_key(&pci), [Some(10 * G), Some(100 * G)]), Some(10 * G));
        let vdevs = lab("");
        assert_eq!(rate(&vdevs, [Some(10 * G); 2]), None);
        assert_eq!(rate(&with_key(&vdevs), [Some(10 * G); 2]), Some(40 * G));
        let two = pci.replace("[wan]", "[[wan]]\ntunnel = \"ethernet\"\nmtu = 9034")
            + "[[wan]]\ndevice = \"0000:5e:00.0\"\nmtu = 9034\nlink_rate = \"10Gbps\"\n";
        assert_eq!(link_rate(&good(&two), &[None, Some(25 * G), None]), Some(35 * G));
    }
}
