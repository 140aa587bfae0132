//! Prints what a configuration takes, as comments to go below it.

use std::fmt::{self, Write};

use settings::sizing::{HUGE_PAGE, PAGE, PMTUS};
use settings::units::{show_duration, show_rate, show_size};

use super::demand::{Demand, Pool, bdp};
use super::fit::{mib, show_pages};
use super::machine::Machine;
use super::{Config, HugePages};

/// 1 GiB, the other size of hugepages.
const LARGE_PAGE: u64 = 1 << 30;

/// What is printed.
pub struct Statement<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Where it is to run, if that is known.
    pub machine: Option<&'a Machine>,
    /// Rate of the long-haul link, if that is known, bit/s.
    pub rate: Option<u64>,
}

impl fmt::Display for Statement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let demand = Demand::of(self.config);
        let mut text = String::from("What it takes (docs/sizing.md)\n");
        self.frames(&demand, &mut text)?;
        self.memory(&demand, &mut text)?;
        self.hugepages(&mut text)?;
        self.reach(&demand, &mut text)?;
        for line in text.lines() {
            writeln!(f, "{}", format!("# {line}").trim_end())?;
        }
        Ok(())
    }
}

impl Statement<'_> {
    fn frames(&self, demand: &Demand, out: &mut String) -> fmt::Result {
        let workers = self.config.worker.count;
        let at_work = &demand.at_work;
        writeln!(
            out,
            "\n{} mbufs of {} bytes, each for one frame of up to {}:",
            demand.mbufs, demand.mbuf_size, demand.data_room
        )?;
        for (mbufs, what) in [
            (at_work.rings, format!("rings of both ports, {workers} worker(s)")),
            (at_work.working_set, "bursts under way and workers' own frames".into()),
            (at_work.backlog, "backlog before the ports".into()),
            (at_work.handover, "between workers".into()),
        ] {
            writeln!(out, "{mbufs:>10}  {what}")?;
        }
        for Pool { key, bytes, frames, .. } in &demand.pools {
            writeln!(out, "{frames:>10}  held: {key}, {}", show_size(*bytes))?;
        }
        writeln!(out, "{:>10}  to spare", demand.spare)
    }

    fn memory(&self, demand: &Demand, out: &mut String) -> fmt::Result {
        let footprint = &demand.footprint;
        let (page, name) = match self.config.eal.huge_pages {
            HugePages::Never => (PAGE, "ordinary pages"),
            HugePages::Auto | HugePages::Require => (HUGE_PAGE, "hugepages"),
        };
        writeln!(
            out,
            "\n{} for DPDK in {name}, of eal.memory = {}",
            mib(demand.dpdk(page)),
            show_size(self.config.eal.memory)
        )?;
        if self.config.eal.huge_pages == HugePages::Auto {
            writeln!(out, "{} without hugepages", mib(demand.dpdk(PAGE)))?;
        }
        writeln!(out, "{} besides, at most:", mib(demand.process()))?;
        for (bytes, what) in [
            (
                demand.table(),
                format!(
                    "flow table: max_flows = {} entries, {} bytes each and {} of index",
                    demand.max_flows, footprint.entry, footprint.index
                ),
            ),
            (
                demand.flows(),
                format!(
                    "state of as many flows, two to a QP; an idle QP takes {} bytes in all",
                    demand.idle_qp()
                ),
            ),
            (
                demand.connections(),
                format!("if rdma_cm makes the QPs, {} bytes for each", footprint.connection),
            ),
            (demand.slots(), "packets held at the Depot".into()),
            (
                demand.in_flight(),
                format!(
                    "{} packets in flight at the Sentry, {} bytes each",
                    demand.sentry_slots, footprint.sentry_slot
                ),
            ),
            (
                demand.egress(),
                format!("{} egress queues of {} frames", demand.egress_queues, demand.egress_limit),
            ),
        ] {
            if bytes > 0 {
                writeln!(out, "{:>10}  {what}", mib(bytes))?;
            }
        }
        for pool in demand.pools.iter().filter(|pool| pool.slot > 0) {
            writeln!(
                out,
                "a frame in the {}: {} bytes of mbuf, and {} at most",
                pool.key, demand.mbuf_size, pool.slot
            )?;
        }
        Ok(())
    }

    fn hugepages(&self, out: &mut String) -> fmt::Result {
        let memory = self.config.eal.memory;
        if self.config.eal.huge_pages == HugePages::Never {
            writeln!(out, "\nno hugepages")?;
        } else {
            writeln!(
                out,
                "\nhugepages: {} of {} or {} of {}",
                memory.div_ceil(HUGE_PAGE),
                show_size(HUGE_PAGE),
                memory.div_ceil(LARGE_PAGE),
                show_size(LARGE_PAGE)
            )?;
        }
        let Some(machine) = self.machine else { return Ok(()) };
        writeln!(
            out,
            "this machine: {} of memory; free: {}",
            mib(machine.memory),
            show_pages(&machine.pages)
        )?;
        for node in machine.nodes.iter().filter(|_| machine.nodes.len() > 1) {
            writeln!(out, "its NUMA node {}: free: {}", node.id, show_pages(&node.pages))?;
        }
        Ok(())
    }

    fn reach(&self, demand: &Demand, out: &mut String) -> fmt::Result {
        let payloads: Vec<u64> =
            PMTUS.into_iter().rev().map(u64::from).filter(|p| *p <= demand.payload).collect();
        let Some(guess) = demand.pools.iter().find_map(|pool| pool.rtt) else { return Ok(()) };
        let list: Vec<_> = payloads.iter().map(u64::to_string).collect();
        writeln!(
            out,
            "\nreach of the pools at rtt_guess = {}, by payload ({} bytes):",
            show_duration(guess),
            list.join(", ")
        )?;
        for pool in &demand.pools {
            match (pool.rtt, self.rate) {
                (Some(rtt), rate) => {
                    let rates: Vec<_> =
                        payloads.iter().map(|p| figures(pool.rate(*p, rtt) / 1e9)).collect();
                    write!(out, "{:>14}  a round trip at {} Gbit/s", pool.key, rates.join(", "))?;
                    if let Some(rate) = rate {
                        let bdp = bdp(rate, rtt) as f64;
                        let times: Vec<_> =
                            payloads.iter().map(|p| figures(pool.holds(*p) as f64 / bdp)).collect();
                        write!(out, "; {} x BDP of {}", times.join(", "), show_rate(rate))?;
                    }
                    writeln!(out)?;
                }
                (None, Some(rate)) => {
                    let times: Vec<_> = payloads
                        .iter()
                        .map(|p| figures(pool.holds(*p) as f64 * 8e6 / rate as f64))
                        .collect();
                    writeln!(
                        out,
                        "{:>14}  {} us of {}",
                        pool.key,
                        times.join(", "),
                        show_rate(rate)
                    )?;
                }
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// Three significant figures.
fn figures(value: f64) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::super::{Node, Pages, Refusal, parse_for};
    use super::*;

    const GIB: u64 = 1 << 30;
    const RATE: u64 = 100_000_000_000;

    fn repository(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
    }

    /// Two nodes, the ports at the second.
    fn machine(hugepages: u64) -> Machine {
        let all = |total| vec![Pages { size: LARGE_PAGE, total, free: total }];
        let node = |id, cpus, total| Node { id, cpus, pages: all(total) };
        Machine {
            memory: 64 * GIB,
            available: (62 - hugepages) * GIB,
            pages: all(hugepages),
            nodes: vec![node(0, (8..16).collect(), 0), node(1, (0..8).collect(), hugepages)],
            cpus: (0..16).collect(),
            devices: [("0000:3b:00.0".to_owned(), 1), ("0000:3b:00.1".to_owned(), 1)].into(),
        }
    }

    fn example(machine: &Machine) -> Result<Config, Refusal> {
        let text = std::fs::read_to_string(repository("configs/long-haul-100g.toml")).unwrap();
        let text = text.replace("key_file = \"/etc/lr2/key\"", "lab_unkeyed = true");
        parse_for(Path::new("long-haul-100g.toml"), &text, None, machine)
    }

    #[test]
    fn the_example_of_100_gbit_and_10_ms_fits_a_machine_with_memory() {
        let config = example(&machine(2)).unwrap_or_else(|refusal| panic!("{}", refusal.report()));
        assert_eq!(config.warnings.len(), 1, "no more than the missing key: {:?}", config.warnings);
        let demand = Demand::of(&config);
        assert_eq!(demand.too_small_for(RATE), [""; 0]);
        // What the rule asks for: one and a half and two, and two.
        let bdp = bdp(RATE, config.recovery.rtt_guess);
        assert_eq!(bdp, 125_000_000);
        let [cache, reorder, backup] = demand.pools[..] else { panic!("{:?}", demand.pools) };
        assert!(cache.holds(4096) * 2 >= bdp * 7 && reorder.holds(4096) >= bdp * 2);
        assert_eq!((reorder.packets(4096), reorder.packets(1024)), (64_620, 65_536));
        assert!(backup.holds(4096) as f64 * 8e9 / RATE as f64 > 2.0 * 1.3e6);
        assert_eq!(demand.spare, 0);
        let refusal = example(&machine(1)).expect_err("one page is not enough");
        assert!(matches!(refusal, Refusal::Unfit { .. }));
    }

    /// docs/sizing.md shows what is printed.
    #[test]
    fn the_manual_shows_the_example_as_it_is() {
        let config = example(&machine(2)).unwrap_or_else(|refusal| panic!("{}", refusal.report()));
        let statement = Statement { config: &config, machine: None, rate: Some(RATE) }.to_string();
        let manual = std::fs::read_to_string(repository("docs/sizing.md")).unwrap();
        assert!(manual.contains(&statement), "docs/sizing.md lacks\n{statement}");
        let here = Statement { config: &config, machine: Some(&machine(2)), rate: None };
        let here = here.to_string();
        assert!(here.contains("\n# this machine: 65536 MiB of memory; free: 2 pages of 1GiB\n"));
        assert!(here.contains("\n# its NUMA node 0: free: 0 pages of 1GiB\n"), "{here}");
    }

    #[test]
    fn every_line_is_a_comment_and_mbufs_add_up() {
        for more in ["", "role = \"sentry\"\n", "role = \"depot\"\n"] {
            let text = format!(
                "{more}[lan]\ndevice = \"net_null0\"\n[wan]\ndevice = \"net_null1\"\n\
                 [peer]\nlab_unkeyed = true\n[pool]\nmbufs = 50000\n"
            );
            let config = super::super::parse(Path::new("gw.toml"), &text, None).unwrap();
            let demand = Demand::of(&config);
            let held: u64 = demand.pools.iter().map(|pool| pool.frames).sum();
            let sum = u64::from(demand.at_work.sum() + demand.spare) + held;
            assert_eq!(sum, 50_000);
            let statement = Statement { config: &config, machine: None, rate: None }.to_string();
            assert!(statement.lines().all(|line| line.starts_with('#')), "{statement}");
        }
    }

    #[test]
    fn small_packets_pin_whole_mbufs() {
        let config = example(&machine(2)).unwrap_or_else(|refusal| panic!("{}", refusal.report()));
        let demand = Demand::of(&config);
        let reorder = demand.pools[1];
        assert_eq!(reorder.holds(1024), 65_536 * (1024 + 82));
        let small = Demand { payload: 1024, ..demand };
        let lines = small.too_small_for(RATE);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].contains("reorder_pool: 256MiB and 65536 mbufs hold 65536 of the 113020"));
        assert!(lines[1].contains("of 1024 bytes that are in flight at 100Gbps"), "{lines:?}");
        assert!(lines[1].contains("117MiB and as many mbufs"), "{lines:?}");
    }
}
