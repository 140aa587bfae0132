//! The memory of 100 Gbit/s over 10 ms: the plan, the manual and the configurations give
//! one answer.

use common::time::Span;
use simulator::plan::{Memory, Ports};

const PLAN: &str = "lr2-sim plan --rate 100Gbps --rtt 10ms --loss 1e-2 --lan-rtt 1.34ms --workers 4 --descriptors 2048";

fn file(name: &str) -> String {
    let path = format!("{}/../{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn memory() -> Memory {
    let ports = Ports { workers: 4, descriptors: 2048, mtu: 4200 };
    let lan = Span::from_micros(1_340);
    Memory::of(100_000_000_000, Span::from_millis(10), lan, 1e-2, 4096, ports)
}

#[test]
fn the_configurations_have_the_pools_of_the_plan() {
    let memory = memory();
    for name in ["configs/long-haul-100g.toml", "configs/e810.toml"] {
        let text = file(name);
        for (key, bytes) in [
            ("resend_cache", memory.resend_cache),
            ("reorder_pool", memory.reorder_pool),
            ("backup_pool", memory.backup_pool),
        ] {
            let line = format!("{key} = \"{}MiB\"\n", bytes >> 20);
            assert!(text.contains(&line), "{name} lacks {line}");
        }
        for line in ["mtu = 4200", "rx_desc = 2048", "tx_desc = 2048"] {
            assert_eq!(text.matches(&format!("\n{line}\n")).count(), 2, "{name}: {line}");
        }
        assert!(
            text.contains("\ncount = 4\n") && text.contains("\nmemory = \"1280MiB\"\n"),
            "{name}"
        );
    }
    assert!(memory.total <= 1280 << 20);
}

/// The gateway's own test compares the statement in the manual with that of `--check`.
#[test]
fn the_manual_has_the_memory_of_the_plan() {
    let (memory, manual) = (memory(), file("docs/guide/size.md"));
    assert!(manual.contains(PLAN) && file("configs/long-haul-100g.toml").contains(PLAN));
    for line in [
        format!("# {} mbufs of {} bytes,", memory.mbufs, memory.mbuf_size),
        format!("# {} MiB for DPDK,", memory.total.div_ceil(1 << 20)),
        format!("{} hugepages of 2 MiB", memory.hugepages),
    ] {
        assert!(manual.contains(&line), "docs/guide/size.md lacks {line}");
    }
}
