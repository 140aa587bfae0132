//! Shared parts of the tests of the real program.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::wire::{icrc, parse};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};
use tempfile::TempDir;

/// A folder of one test, removed at its end.
pub struct Folder(TempDir);

impl Folder {
    pub fn new(test: &str) -> Self {
        Self(TempDir::with_prefix(format!("lr2-{test}-")).unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a configuration and returns its path.
    pub fn config(&self, text: &str) -> PathBuf {
        let path = self.path("gateway.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs a gateway that ends by itself.
    pub fn run(&self, text: &str, options: &[&str]) -> Output {
        lr2_gateway(&self.config(text)).args(options).output().unwrap()
    }
}

/// The text that a program wrote to stderr before it ended.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The message of a failed start: one line on stderr beside the log, which must
/// contain all of `parts`.
pub fn fails_with(output: &Output, code: i32, parts: &[&str]) {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("lr2-gateway: "), "{stderr}");
    for part in parts {
        assert!(last.contains(part), "{last:?} lacks {part:?}\n{stderr}");
    }
}

/// Its runtime folder is that of the configuration.
pub fn lr2_gateway(config: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lr2-gateway"));
    command.arg("--config").arg(config).env_remove("RUST_LOG");
    command.env("RUNTIME_DIRECTORY", config.parent().unwrap());
    command
}

pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A packet of RC: SEND Only to queue pair 0x11, from 10.1.0.1 to 10.2.0.1.
pub fn send(psn: u8) -> Vec<u8> {
    send_to(0x11, psn)
}

/// The same, to any queue pair.
pub fn send_to(qpn: u32, psn: u8) -> Vec<u8> {
    let [_, a, b, c] = qpn.to_be_bytes();
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
    f.extend([0x45, 0, 0, 60, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1]);
    f.extend([0xc0, 0, 0x12, 0xb7, 0, 40, 0, 0]);
    f.extend([0x04, 0x40, 0xff, 0xff, 0, a, b, c, 0x80, 0, 0, psn]);
    f.extend([psn; 16]);
    f.extend([0; 4]);
    let roce = parse(&f).unwrap();
    let right = icrc(&f, &roce).to_le_bytes();
    let at = f.len() - right.len();
    f[at..].copy_from_slice(&right);
    f
}

/// A small gateway between two devices.
pub fn config(lan: &str, wan: &str, listen: SocketAddr, more: &str) -> String {
    format!(
        "[lan]\ndevice = \"{lan}\"\nmtu = 1500\nrx_desc = 256\ntx_desc = 256\n\
         [wan]\ndevice = \"{wan}\"\nmtu = 1500\nrx_desc = 256\ntx_desc = 256\n\
         [peer]\nlab_unkeyed = true\n\
         [recovery]\nresend_cache = \"1MiB\"\nreorder_pool = \"1MiB\"\n\
         backup_pool = \"1MiB\"\n\
         [control]\nlisten = \"{listen}\"\n{more}"
    )
}

pub const SMALL: &str = "[eal]\nhuge_pages = \"never\"\nmemory = \"64MiB\"\n";

/// [`SMALL`], with an `eal.file_prefix` that no other gateway has, whatever its `peer.node`: that of the box `me` of a test.
pub fn small_of(folder: &Folder, me: usize) -> String {
    let name = folder.path("");
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    format!("{SMALL}file_prefix = \"{name}-{me}\"\n")
}

/// A running gateway, killed if the test fails.
pub struct Running {
    pub child: Child,
    pub listen: SocketAddr,
}

impl Running {
    /// Starts it and waits until it says that all is well.
    pub fn start(config: &Path, listen: SocketAddr) -> Self {
        let child = lr2_gateway(config).stderr(Stdio::piped()).spawn().unwrap();
        Self { child, listen }.until_well()
    }

    pub fn until_well(mut self) -> Self {
        self.wait("a good /healthz", |r| r.get("/healthz").ends_with("\r\n\r\nok\n"));
        self
    }

    /// Ends the program by a signal, and checks that it ends cleanly. Returns its stderr.
    pub fn end(mut self, signal: Signal) -> String {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
        let status = self.child.wait().unwrap();
        let stderr = self.stderr();
        assert_eq!(status.code(), Some(0), "{stderr}");
        stderr
    }

    pub fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(self.listen) {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            if stream.write_all(request.as_bytes()).is_ok() {
                let _ = stream.read_to_string(&mut answer);
            }
        }
        answer
    }

    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics");
        let line = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
    }

    /// Waits until each port has sent so many frames.
    pub fn wait_transmitted(&mut self, frames: f64) {
        self.wait("frames on both sides", |gateway| {
            ["lan", "wan"].into_iter().all(|port| {
                let name = format!("lr2_port_transmitted_frames_total{{port=\"{port}\"}}");
                gateway.metric(&name) == frames
            })
        });
    }

    pub fn wait(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done(self) {
            if self.child.try_wait().unwrap().is_some() || Instant::now() > deadline {
                let _ = self.child.kill();
                panic!("no {what}:\n{}", self.stderr());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Like [`wait`](Self::wait), of a gateway whose stderr is a file.
    pub fn wait_quietly(&mut self, what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            let has_ended = self.child.try_wait().unwrap().is_some();
            assert!(!has_ended && Instant::now() < deadline, "no {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut pcap = PcapWriter::new(std::fs::File::create(path).unwrap()).unwrap();
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap();
        pcap.write_packet(&PcapPacket::new(Duration::ZERO, length, frame)).unwrap();
    }
}

pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let mut pcap = PcapReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = pcap.next_packet() {
        frames.push(packet.unwrap().data.into_owned());
    }
    frames
}
