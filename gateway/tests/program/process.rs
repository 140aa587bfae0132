//! The real program on ports that need no NIC: `net_pcap` replays one file
//! and records another.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::Signal;

use crate::support::{
    Folder, Running, SMALL, config, fails_with, free_address, lr2_gateway, read_pcap, stderr,
    write_pcap,
};

/// Ethernet, IPv4, UDP to `port`, then `body`; `udp_len` as claimed.
fn udp(port: u16, udp_len: u16, body: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    let total = u16::try_from(28 + body.len()).unwrap().to_be_bytes();
    f.extend([0x45, 0, total[0], total[1], 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    for word in [0xc000, port, udp_len, 0] {
        f.extend(word.to_be_bytes());
    }
    f.extend(body);
    f
}

/// All that a gateway must leave alone.
fn strangers() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for n in 0..200u8 {
        let mut arp = vec![0xff; 60];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        arp[59] = n;
        frames.push(arp);
        let dns = [n; 33];
        frames.push(udp(53, 41, &dns));
        // RoCEv2 whose BTH is cut off, and one whose UDP length lies.
        frames.push(udp(4791, 13, &[n; 5]));
        frames.push(udp(4791, 9000, &[n; 40]));
        // Noise of every length.
        let noise = (0..14 + usize::from(n) * 7).map(|i| (i * 31 + usize::from(n)) as u8);
        frames.push(noise.collect());
    }
    frames
}

#[test]
fn strangers_cross_unchanged_and_the_end_is_clean() {
    let folder = Folder::new("strangers");
    let frames = strangers();
    let mut backwards = frames.clone();
    backwards.reverse();
    write_pcap(&folder.path("lan-in.pcap"), &frames);
    write_pcap(&folder.path("wan-in.pcap"), &backwards);
    let device = |n: u8, side: &str| {
        let (rx, tx) = (format!("{side}-in.pcap"), format!("{side}-out.pcap"));
        let (rx, tx) = (folder.path(&rx), folder.path(&tx));
        format!("net_pcap{n},rx_pcap={},tx_pcap={}", rx.display(), tx.display())
    };
    let listen = free_address();
    let text = config(&device(0, "lan"), &device(1, "wan"), listen, SMALL);
    let mut gateway = Running::start(&folder.config(&text), listen);

    let all = frames.len() as f64;
    gateway.wait_transmitted(all);
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"malformed\"}"), 2.0 * 400.0);
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"not_roce\"}"), 2.0 * (all - 400.0));
    assert!(gateway.metric("lr2_mbufs{state=\"free\"}") > 0.0);

    let stderr = gateway.end(Signal::SIGTERM);
    assert!(stderr.contains("port lan: net_pcap0 (net_pcap), MAC "), "{stderr}");
    assert!(stderr.trim_end().ends_with("stopped"), "{stderr}");
    assert!(!stderr.contains("WARN") || stderr.contains("lab_unkeyed"), "{stderr}");
    assert_eq!(read_pcap(&folder.path("wan-out.pcap")), frames);
    assert_eq!(read_pcap(&folder.path("lan-out.pcap")), backwards);
}

#[test]
fn an_interrupt_ends_it_as_well() {
    let folder = Folder::new("interrupt");
    let listen = free_address();
    let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, SMALL);
    Running::start(&folder.config(&text), listen).end(Signal::SIGINT);
}

#[test]
fn three_mistakes_are_three_lines() {
    let folder = Folder::new("mistakes");
    let text = "role = \"sentinel\"\n[lan]\ndevice = \"net_null0\"\nmtu = \"big\"\n\
                [peer]\nlab_unkeyed = true\n";
    for options in [&["--check"][..], &[]] {
        let output = folder.run(text, options);
        assert_eq!(output.status.code(), Some(2));
        let stderr = stderr(&output);
        let lines: Vec<_> = stderr.lines().collect();
        assert_eq!(lines.len(), 3, "{stderr}");
        let file = folder.path("gateway.toml");
        let file = file.display();
        assert!(lines[0].starts_with(&format!("{file}:1:8: role: found \"sentinel\"")), "{stderr}");
        assert!(lines[1].starts_with(&format!("{file}:4:7: lan.mtu: found \"big\"")), "{stderr}");
        assert!(lines[2].starts_with(&format!("{file}: wan.device: found nothing")), "{stderr}");
    }
}

#[test]
fn check_prints_what_is_in_effect() {
    let folder = Folder::new("check");
    let text = config("net_null0", "net_null1", free_address(), SMALL);
    // How much is free here may change from one to the next.
    let output = folder.run(&text, &["--check", "--elsewhere", "--role", "depot"]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("role = \"depot\"\n"), "{printed}");
    assert!(printed.contains("\ndrain_timeout = \"2s\"\n"), "{printed}");
    assert!(printed.contains(" mbufs of 1856 bytes, each for a frame of up to 1526:\n"));
    let again = folder.run(&printed, &["--check", "--elsewhere"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), printed);

    let output = folder.run(&text, &["--check"]);
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("\n# this machine: "), "{printed}");
}

/// DPDK is content with it, with mbufs that cross pages and with others.
#[test]
fn the_least_memory_that_is_allowed_is_enough() {
    let folder = Folder::new("least");
    for mtu in [9000, 2200] {
        let listen = free_address();
        let text = |memory: &str| {
            format!(
                "[lan]\ndevice = \"net_null0,no-rx=1\"\nmtu = {mtu}\n\
                 [wan]\ndevice = \"net_null1,no-rx=1\"\nmtu = {mtu}\n\
                 [peer]\nlab_unkeyed = true\n[control]\nlisten = \"{listen}\"\n\
                 [recovery]\nresend_cache = \"32MiB\"\nreorder_pool = \"32MiB\"\n\
                 backup_pool = \"32MiB\"\n\
                 [eal]\nhuge_pages = \"never\"\nmemory = \"{memory}\"\n"
            )
        };
        let output = folder.run(&text("64MiB"), &["--check"]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = stderr(&output);
        let (_, least) = stderr.split_once("allowed: eal.memory of at least ").expect(&stderr);
        let (least, _) = least.split_once(',').expect(&stderr);
        Running::start(&folder.config(&text(least)), listen).end(Signal::SIGTERM);
    }
}

#[test]
fn ports_that_do_not_exist() {
    let folder = Folder::new("no-port");
    for (device, why) in [
        ("0000:ff:1f.7", "no such PCI device"),
        ("net_af_packet0,iface=nosuch0", "nosuch0"),
        ("net_frobnicate0", "net_memif"),
    ] {
        let memory = SMALL.replace("64MiB", "96MiB");
        let text = config(device, "net_null1", free_address(), &memory);
        fails_with(&folder.run(&text, &[]), 1, &["lan.device", device, why]);
        fails_with(&folder.run(&text, &["--check"]), 1, &["lan.device", device, why]);
    }
    // All of them at once.
    let text = config("0000:ff:1f.7", "net_frobnicate0", free_address(), SMALL);
    let faults = ["lan.device: port 0000:ff:1f.7", "wan.device: port net_frobnicate0"];
    fails_with(&folder.run(&text, &["--check"]), 1, &faults);
}

/// What `--check` says, stdout and stderr, of a configuration that starts.
fn checked(folder: &Folder, text: &str) -> (String, String) {
    let output = folder.run(text, &["--check"]);
    assert!(output.status.success(), "{}", stderr(&output));
    (String::from_utf8_lossy(&output.stdout).into_owned(), stderr(&output))
}

#[test]
fn check_opens_what_a_start_opens() {
    let folder = Folder::new("check-opens");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, SMALL);
    let (printed, said) = checked(&folder, &text);
    assert!(said.contains(&format!("warning: can't serve metrics at {listen}")), "{said}");
    assert!(printed.contains("\n# port lan: net_null0 (net_null), MAC "), "{printed}");
    assert!(printed.contains("\n# Not known before frames flow: "), "{printed}");
    drop(taken);

    // Of a gateway that runs, it leaves the devices alone.
    let gateway = Running::start(&folder.config(&text), listen);
    let (printed, said) = checked(&folder, &text);
    assert!(said.contains(" runs, so nothing was opened"), "{said}");
    assert!(!printed.contains("# port lan"), "{printed}");
    gateway.end(Signal::SIGTERM);
    let (printed, said) = checked(&folder, &text);
    assert!(printed.contains("\n# port lan") && !said.contains("serve metrics"), "{said}");
}

/// Its driver names 1514 bytes as its longest frame, and takes longer ones.
#[test]
fn a_packet_socket_opens_at_an_mtu_of_1500() {
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("not tested: packet sockets are for root");
        return;
    }
    let folder = Folder::new("packet-socket");
    let device = "net_af_packet0,iface=lo";
    let memory = SMALL.replace("64MiB", "96MiB");
    let text = config(device, "net_null1,no-rx=1", free_address(), &memory);
    let text = format!("{text}[link_loss]\nforward = \"off\"\n");
    let (printed, _) = checked(&folder, &text);
    assert!(printed.contains("# port lan: net_af_packet0 (net_af_packet)"), "{printed}");
}

#[test]
fn too_few_mbufs() {
    let folder = Folder::new("mbufs");
    let more = format!("{SMALL}[pool]\nmbufs = 1024\n");
    let text = config("net_null0", "net_null1", free_address(), &more);
    let output = folder.run(&text, &[]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = stderr(&output);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("pool.mbufs: found 1024; allowed: at least "), "{stderr}");
}

#[test]
fn hugepages_that_are_not_there() {
    let folder = Folder::new("hugepages");
    let more = "[eal]\nhuge_pages = \"require\"\nmemory = \"1TiB\"\n";
    let text = config("net_null0", "net_null1", free_address(), more);
    for options in [&["--check"][..], &[]] {
        let output = folder.run(&text, options);
        // Not wrong, but not for this machine.
        assert_eq!(output.status.code(), Some(1));
        let stderr = stderr(&output);
        let last = stderr.lines().last().unwrap_or_default();
        let start = format!(
            "{}:20:14: eal.huge_pages: found \"require\"",
            folder.path("gateway.toml").display()
        );
        assert!(last.starts_with(&start), "{stderr}");
        assert!(
            last.contains("free for eal.memory = 1TiB; allowed: smaller pools and eal.memory"),
            "{stderr}"
        );
    }
}

#[test]
fn a_metrics_address_that_is_taken_stops_nothing() {
    let folder = Folder::new("address");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let text = config("net_null0,no-rx=1", "net_null1,no-rx=1", listen, SMALL);
    let log = folder.path("log");
    let mut command = lr2_gateway(&folder.config(&text));
    let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let mut gateway = Running { child, listen };
    let text = || std::fs::read_to_string(&log).unwrap();
    gateway.wait_quietly("forwarding", || text().contains("forwarding: role"));
    let error = format!("ERROR can't serve metrics at {listen}: another process listens there");
    assert!(text().contains(&error) && text().contains("control.listen"), "{}", text());
    drop(taken);
    gateway.wait_quietly("metrics", || text().contains("INFO metrics at"));
    assert!(gateway.get("/metrics").starts_with("HTTP/1.1 200"));
}

/// Packet sockets are for root: the gateway runs as nobody.
#[test]
fn no_permission() {
    /// `nobody` on Debian.
    const NOBODY: u32 = 65534;
    let folder = Folder::new("permission");
    let device = "net_af_packet0,iface=lo";
    let memory = SMALL.replace("64MiB", "96MiB");
    let path = folder.config(&config(device, "net_null1", free_address(), &memory));
    // The build folder may be out of nobody's reach.
    let program = folder.path("lr2-gateway");
    std::fs::copy(env!("CARGO_BIN_EXE_lr2-gateway"), &program).unwrap();
    let mut command = Command::new(program);
    command
        .arg("--config")
        .arg(path)
        .env_remove("RUST_LOG")
        .env("XDG_RUNTIME_DIR", folder.path(""));
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::os::unix::fs::chown(folder.path(""), Some(NOBODY), None).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    fails_with(&output, 1, &["lan.device", "net_af_packet0"]);
    let stderr = stderr(&output).to_ascii_lowercase();
    assert!(stderr.contains("permi"), "{stderr}");
}

/// It leaves its sockets behind.
#[test]
fn a_gateway_that_was_killed_starts_again() {
    let (folder, listen) = (Folder::new("killed"), free_address());
    let socket = folder.path("wan.sock");
    let wan = format!(
        "net_memif1,role=server,id=0,socket={},socket-abstract=no,bsize=2048",
        socket.display()
    );
    let text = config("net_null0,no-rx=1", &wan, listen, SMALL);
    let log = folder.path("log");
    let mut command = lr2_gateway(&folder.config(&text));
    for _ in 0..2 {
        let child = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut gateway = Running { child, listen };
        gateway.wait_quietly("forwarding", || {
            std::fs::read_to_string(&log).unwrap().contains("forwarding: role")
        });
        gateway.child.kill().unwrap();
        gateway.child.wait().unwrap();
        assert!(socket.exists());
    }
}

#[test]
fn the_doctor_says_what_is_to_be_mended() {
    let folder = Folder::new("doctor");
    let doctor = |root| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lr2-gateway"));
        command.args(["doctor", "--root"]).arg(folder.path(root)).output().unwrap()
    };
    let output = doctor("nowhere");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("there is no such folder"), "{}", stderr(&output));
    let output = doctor("");
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("MEND  hugepages: none are reserved\n      echo 512 > "), "{printed}");
}

#[test]
fn a_folder_of_marks_that_is_not_there_is_a_mistake_and_none_is_not() {
    let folder = Folder::new("marks");
    let release = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lr2-gateway"));
        command.env("RUNTIME_DIRECTORY", folder.path("nothing"));
        command.arg("release-links").args(more).output().unwrap()
    };
    assert_eq!(release(&[]).status.code(), Some(0));
    let output = release(&["/nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("'/nowhere' for '[FOLDER]': there is no such folder"));
}

/// `lr2-gateway ... | true`: the reader of both outputs has left before the program writes. It ends as SIGPIPE ends a program,
/// or with its own status if all its words went to standard error.
#[test]
fn a_reader_that_leaves_is_no_panic() {
    let folder = Folder::new("reader");
    let text = config("net_null0", "net_null1", free_address(), SMALL);
    let of_check = |more: &[&str]| {
        let mut command = lr2_gateway(&folder.config(&text));
        command.arg("--check").args(more);
        command
    };
    let mut doctor = Command::new(env!("CARGO_BIN_EXE_lr2-gateway"));
    doctor.arg("doctor");
    for mut command in [of_check(&["--elsewhere"]), of_check(&[]), doctor] {
        let (reader, writer) = std::io::pipe().unwrap();
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        drop(reader);
        let mut child = command.spawn().unwrap();
        // The pipe's ends of this process are gone with the command.
        drop(command);
        assert_eq!(child.wait().unwrap().code(), Some(141));
    }
}

/// `--check` opens what a start opens: the socket of the operator, and the file of the boot id.
#[test]
fn a_check_refuses_a_socket_and_a_boot_file_that_a_start_cannot_make() {
    let folder = Folder::new("unusable");
    let base = config("net_null0", "net_null1", free_address(), SMALL);
    let with = |socket: &str| {
        let line = format!("[control]\nsocket = \"{socket}\"\n");
        if base.contains("[control]\n") {
            base.replace("[control]\n", &line)
        } else {
            format!("{base}{line}")
        }
    };
    let here = folder.path("control.sock");
    let good = folder.run(&with(here.to_str().unwrap()), &["--check"]);
    assert!(good.status.success(), "{}", stderr(&good));
    assert!(!here.exists());
    let long = format!("/run/{}", "s".repeat(140));
    for options in [&["--check"][..], &["--check", "--elsewhere"]] {
        let parts = ["control.socket", "145 bytes", "at most 107"];
        fails_with(&folder.run(&with(&long), options), 1, &parts);
    }
    let nowhere = folder.path("none/none/control.sock");
    let parts = ["control.socket", "No such file"];
    fails_with(&folder.run(&with(nowhere.to_str().unwrap()), &["--check"]), 1, &parts);
    let unwritable = base.replace("[peer]\n", "[peer]\nboot_file = \"/proc/self/boot\"\n");
    let parts = ["peer.boot_file: can't keep the boot id in /proc/self/boot"];
    fails_with(&folder.run(&unwritable, &["--check"]), 1, &parts);
}
