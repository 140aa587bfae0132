//! The real program on ports that need no NIC: `net_pcap` replays one file
//! and records another.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lr2-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a configuration and returns its path.
    fn config(&self, text: &str) -> PathBuf {
        let path = self.path("gateway.toml");
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn lr2_gateway(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lr2-gateway"));
    command.arg("--config").arg(config).env_remove("RUST_LOG");
    command
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A small gateway between two devices.
fn config(lan: &str, wan: &str, listen: SocketAddr, more: &str) -> String {
    format!(
        "[lan]\ndevice = \"{lan}\"\nmtu = 1500\nrx_desc = 256\ntx_desc = 256\n\
         [wan]\ndevice = \"{wan}\"\nmtu = 1500\nrx_desc = 256\ntx_desc = 256\n\
         [peer]\nlab_unkeyed = true\n\
         [recovery]\nresend_cache = \"1MiB\"\nreorder_pool = \"1MiB\"\n\
         backup_pool = \"1MiB\"\n\
         [control]\nlisten = \"{listen}\"\n{more}"
    )
}

const SMALL: &str = "[eal]\nhuge_pages = \"never\"\nmemory = \"64MiB\"\n";

/// What a failed start says: one line on stderr beside the log, which must
/// contain all of `parts`.
fn fails_with(output: &Output, code: i32, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("lr2-gateway: "), "{stderr}");
    for part in parts {
        assert!(last.contains(part), "{last:?} lacks {part:?}\n{stderr}");
    }
}

/// A running gateway, killed if the test fails.
struct Running {
    child: Child,
    listen: SocketAddr,
}

impl Running {
    /// Starts it and waits until it says that all is well.
    fn start(config: &Path, listen: SocketAddr) -> Self {
        let child = lr2_gateway(config).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Self { child, listen };
        running.wait("a good /healthz", |r| r.get("/healthz").ends_with("\r\n\r\nok\n"));
        running
    }

    fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.listen) {
            let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            if stream.write_all(request.as_bytes()).is_ok() {
                let _ = stream.read_to_string(&mut answer);
            }
        }
        answer
    }

    fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics");
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            if self.child.try_wait().unwrap().is_some() || Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("no {what}:\n{}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut pcap = PcapWriter::new(std::fs::File::create(path).unwrap()).unwrap();
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap();
        pcap.write_packet(&PcapPacket::new(Duration::ZERO, length, frame)).unwrap();
    }
}

fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let mut pcap = PcapReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = pcap.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}

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
    gateway.wait("frames on both sides", |g| {
        ["lan", "wan"].into_iter().all(|port| {
            let name = format!("lr2_port_transmitted_frames_total{{port=\"{port}\"}}");
            g.metric(&name) == all
        })
    });
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"malformed\"}"), 2.0 * 400.0);
    assert_eq!(gateway.metric("lr2_passed_frames_total{reason=\"not_roce\"}"), 2.0 * (all - 400.0));
    assert!(gateway.metric("lr2_mbufs{state=\"free\"}") > 0.0);

    gateway.signal(Signal::SIGTERM);
    let status = gateway.child.wait().unwrap();
    let stderr = gateway.stderr();
    assert_eq!(status.code(), Some(0), "{stderr}");
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
    let mut gateway = Running::start(&folder.config(&text), listen);
    gateway.signal(Signal::SIGINT);
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
}

#[test]
fn three_mistakes_are_three_lines() {
    let folder = Folder::new("mistakes");
    let path = folder.config(
        "role = \"sentinel\"\n[lan]\ndevice = \"net_null0\"\nmtu = \"big\"\n[peer]\nlab_unkeyed = true\n",
    );
    for check in [true, false] {
        let mut command = lr2_gateway(&path);
        if check {
            command.arg("--check");
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<_> = stderr.lines().collect();
        assert_eq!(lines.len(), 3, "{stderr}");
        let file = path.display();
        assert!(lines[0].starts_with(&format!("{file}:1:8: role: found \"sentinel\"")), "{stderr}");
        assert!(lines[1].starts_with(&format!("{file}:4:7: lan.mtu: found \"big\"")), "{stderr}");
        assert!(lines[2].starts_with(&format!("{file}: wan.device: found nothing")), "{stderr}");
    }
}

#[test]
fn check_prints_what_is_in_effect() {
    let folder = Folder::new("check");
    let text = config("net_null0", "net_null1", free_address(), SMALL);
    let path = folder.config(&text);
    let output = lr2_gateway(&path).args(["--check", "--role", "depot"]).output().unwrap();
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("role = \"depot\"\n"), "{printed}");
    assert!(printed.contains("\ndrain_timeout = \"2s\"\n"), "{printed}");
    let again = lr2_gateway(&folder.config(&printed)).arg("--check").output().unwrap();
    assert_eq!(String::from_utf8(again.stdout).unwrap(), printed);
}

#[test]
fn ports_that_do_not_exist() {
    let folder = Folder::new("no-port");
    for (device, why) in [
        ("0000:ff:1f.7", "no such PCI device"),
        ("net_af_packet0,iface=nosuch0,blocksz=4096,framesz=4096", "nosuch0"),
        ("net_frobnicate0", "net_memif"),
    ] {
        let text = config(device, "net_null1", free_address(), SMALL);
        let output = lr2_gateway(&folder.config(&text)).output().unwrap();
        fails_with(&output, 1, &["lan.device", device, why]);
    }
}

#[test]
fn too_few_mbufs() {
    let folder = Folder::new("mbufs");
    let more = format!("{SMALL}[pool]\nmbufs = 1024\n");
    let text = config("net_null0", "net_null1", free_address(), &more);
    let output = lr2_gateway(&folder.config(&text)).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("pool.mbufs: found 1024; allowed: at least "), "{stderr}");
}

#[test]
fn hugepages_that_are_not_there() {
    let folder = Folder::new("hugepages");
    let more = "[eal]\nhuge_pages = \"require\"\nmemory = \"1TiB\"\n";
    let text = config("net_null0", "net_null1", free_address(), more);
    let output = lr2_gateway(&folder.config(&text)).output().unwrap();
    fails_with(&output, 1, &["1048576 MiB of hugepages are required"]);
}

#[test]
fn a_metrics_address_that_is_taken() {
    let folder = Folder::new("address");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap();
    let text = config("net_null0", "net_null1", listen, SMALL);
    let output = lr2_gateway(&folder.config(&text)).output().unwrap();
    fails_with(&output, 1, &[&listen.to_string(), "another process listens", "control.listen"]);
}

/// Packet sockets are for root: the gateway runs as nobody.
#[test]
fn no_permission() {
    /// `nobody` on Debian.
    const NOBODY: u32 = 65534;
    let folder = Folder::new("permission");
    let device = "net_af_packet0,iface=lo,blocksz=4096,framesz=4096";
    let path = folder.config(&config(device, "net_null1", free_address(), SMALL));
    // The build folder may be out of nobody's reach.
    let program = folder.path("lr2-gateway");
    std::fs::copy(env!("CARGO_BIN_EXE_lr2-gateway"), &program).unwrap();
    let mut command = Command::new(program);
    command.arg("--config").arg(path).env_remove("RUST_LOG").env("XDG_RUNTIME_DIR", &folder.0);
    if std::fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::os::unix::fs::chown(&folder.0, Some(NOBODY), None).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    fails_with(&output, 1, &["lan.device", "net_af_packet0"]);
    let stderr = String::from_utf8_lossy(&output.stderr).to_ascii_lowercase();
    assert!(stderr.contains("permi"), "{stderr}");
}
