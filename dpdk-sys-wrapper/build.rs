//! Finds libdpdk, generates bindings to it and compiles the C shim.

use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

const MISSING: &str = "libdpdk 22.11 or later was not found by pkg-config.\n\
    On Debian 12: apt install libdpdk-dev libclang-dev pkg-config";

fn main() {
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim.h");
    println!("cargo::rerun-if-changed=src/store.c");

    // Shared linking: with `--static` Debian's pkg-config file lists libraries
    // that no package brings, and only the shared EAL finds its drivers.
    if let Err(e) = pkg_config::Config::new().atleast_version("22.11").probe("libdpdk") {
        eprintln!("{MISSING}\n\n{e}");
        exit(1);
    }
    let cflags = cflags();

    // `-include rte_config.h` and `-march` belong to the ABI: they decide the
    // layout of structs and which inline paths are compiled.
    let mut shim = cc::Build::new();
    shim.file("src/shim.c").file("src/store.c").warnings(true).flag("-std=gnu11");
    for flag in &cflags {
        shim.flag(flag);
    }
    // DPDK's own headers are not free of warnings; ours should be.
    shim.flag("-Wno-unused-parameter").flag("-O3").compile("lr2dpdkshim");

    let bindings = bindgen::Builder::default()
        .header("src/shim.h")
        .clang_args(&cflags)
        .allowlist_function("lr2_.*")
        .allowlist_function("rte_eal_(init|cleanup|get_runtime_dir)")
        .allowlist_function("rte_dev_(probe|remove)")
        .allowlist_function("rte_eth_dev_(adjust_nb_rx_tx_desc|close|configure|get_port_by_name)")
        .allowlist_function(
            "rte_eth_dev_(info_get|set_mtu|set_link_(up|down)|start|stop|get_name_by_port)",
        )
        .allowlist_function("rte_eth_dev_socket_id")
        .allowlist_function("rte_eth_(rx|tx)_queue_setup")
        .allowlist_function("rte_eth_promiscuous_enable|rte_eth_macaddr_get")
        .allowlist_function("rte_eth_link_get_nowait|rte_eth_stats_get|rte_eth_stats_reset")
        .allowlist_function("rte_pktmbuf_(pool_create_by_ops|free_bulk)")
        .allowlist_function("rte_mempool_(free|avail_count|in_use_count)")
        .allowlist_function("rte_thread_(register|unregister)")
        .allowlist_function("rte_strerror|rte_version")
        .allowlist_type("rte_mbuf|rte_mempool")
        .allowlist_var("RTE_(MAX_LCORE|PKTMBUF_HEADROOM|MEMPOOL_CACHE_MAX_SIZE|MEMPOOL_NAMESIZE)")
        .allowlist_var("RTE_ETH_(NAME_MAX_LEN|LINK_UP)")
        .allowlist_var("LR2_.*")
        // A thread-local, which bindgen would bind as a plain static: it links
        // and then faults. The shim has an accessor.
        .blocklist_item("per_lcore_.*")
        // Packed and aligned at once, which Rust cannot express. Not used.
        .opaque_type("rte_arp_.*|rte_l2tpv2_.*|rte_gtp_psc_generic_hdr|rte_ecpri.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .derive_debug(false)
        .generate_comments(false)
        .layout_tests(true)
        .generate();
    let bindings = match bindings {
        Ok(b) => b,
        Err(e) => {
            eprintln!("bindgen cannot read DPDK's headers: {e}");
            exit(1);
        }
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    bindings.write_to_file(out.join("bindings.rs")).expect("OUT_DIR is writable");
}

/// All compiler flags, including those that the pkg-config crate leaves out.
fn cflags() -> Vec<String> {
    let tool = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    match Command::new(tool).args(["--cflags", "libdpdk"]).output() {
        Ok(out) if out.status.success() => {
            String::from_utf8_lossy(&out.stdout).split_whitespace().map(str::to_owned).collect()
        }
        _ => {
            eprintln!("{MISSING}");
            exit(1);
        }
    }
}
