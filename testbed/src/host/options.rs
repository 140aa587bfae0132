//! The command line of `lr2-host`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, ValueEnum};
use common::time::Span;
use common::wire::MacAddr;
use rnic::{MAX_MESSAGE, RetryLimit, WIRE_OVERHEAD, WorkKind};

use crate::dpdk::DpdkOptions;
use crate::idle::IdlePolicy;
use crate::report;
use settings::{device, sizing, units};

/// Sends or receives RoCEv2 traffic on a DPDK port, as an RNIC would, and
/// verifies every byte.
///
/// A requester posts messages for some seconds, waits until all are completed,
/// writes its figures as JSON and ends. A responder ends when it is told to
/// (SIGTERM or SIGINT). Exit code 0: nothing failed and nothing was corrupt.
#[derive(Parser, Clone, Debug)]
#[command(name = "lr2-host", version)]
pub struct Options {
    /// Port: a DPDK virtual device (net_memif0,...) or PCI address
    #[arg(long, value_parser = device::parse)]
    pub device: String,
    /// Which side of the messages this host is
    #[arg(long, value_enum)]
    pub role: Role,
    /// Addresses and queue pairs.
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// The load.
    #[command(flatten)]
    pub workload: WorkloadOptions,
    /// Write figures to standard output this often, a line of JSON each
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub live: Option<Span>,
    /// Where to write the figures at the end
    #[arg(long, value_name = "FILE", value_parser = report::file)]
    pub json: Option<PathBuf>,
    /// How long to wait for the link to come up
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = units::duration)]
    pub link_wait: Span,
    /// How to wait while there is nothing to do
    #[arg(long, value_enum, default_value_t = IdlePolicy::Adaptive)]
    pub idle: IdlePolicy,
    /// DPDK.
    #[command(flatten)]
    pub dpdk: DpdkOptions,
}

impl Options {
    /// Whether they go together. To be asked before DPDK starts.
    ///
    /// # Errors
    /// The first that does not, and what is allowed.
    pub fn checked(self) -> Result<Self, clap::Error> {
        let found = self.fits();
        found.map_err(|why| Self::command().error(ErrorKind::ValueValidation, why))?;
        Ok(self)
    }

    fn fits(&self) -> Result<(), String> {
        let ConnectionOptions { ip, peer_ip, pmtu, qps, dcqcn, .. } = self.connection;
        if ip.is_ipv4() != peer_ip.is_ipv4() {
            return Err(format!(
                "--ip {ip} and --peer-ip {peer_ip}: one is IPv4, the other IPv6; give two of one kind"
            ));
        }
        if ip == peer_ip {
            return Err(format!("--ip and --peer-ip are both {ip}: give each host its own"));
        }
        if self.workload.rate == Some(0) {
            return Err("--rate 0 sends nothing".to_owned());
        }
        if dcqcn && self.workload.rate.is_none() {
            return Err("--dcqcn needs --rate".to_owned());
        }
        let window = self.workload.window_per_qp(pmtu, qps)?;
        super::run::nic(self, window).map_err(|why| format!("{why:#}"))?;
        // One that exists, by now.
        let least = u16::try_from(pmtu).map_or(u16::MAX, sizing::mtu);
        if self.dpdk.mtu < least {
            return Err(format!("--pmtu {pmtu} needs --mtu {least} at least"));
        }
        Ok(())
    }
}

/// Which side of the messages a host is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Role {
    /// Sends messages.
    Requester,
    /// Receives them.
    Responder,
    /// Does both at once.
    Both,
}

impl Role {
    /// Whether it sends messages.
    pub const fn requests(self) -> bool {
        matches!(self, Self::Requester | Self::Both)
    }

    /// Name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requester => "requester",
            Self::Responder => "responder",
            Self::Both => "both",
        }
    }
}

/// Addresses and queue pairs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionOptions {
    /// Address of this host
    #[arg(long)]
    pub ip: IpAddr,
    /// Address of the other host
    #[arg(long)]
    pub peer_ip: IpAddr,
    /// MAC address of this host [default: from its IP address]
    #[arg(long, value_parser = mac)]
    pub mac: Option<MacAddr>,
    /// MAC address that frames are sent to [default: from the other host's IP address]
    #[arg(long, value_parser = mac)]
    pub peer_mac: Option<MacAddr>,
    /// Number of queue pairs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub qps: u32,
    /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096
    #[arg(long, default_value_t = 4096)]
    pub pmtu: u32,
    /// Retransmission timeout: 4.096 us times 2 to the power of this
    #[arg(long, value_name = "EXPONENT", default_value_t = 14, value_parser = clap::value_parser!(u8).range(1..=31))]
    pub timeout: u8,
    /// Tries without progress before a QP fails: 0 to 7, or "infinite"
    #[arg(long, default_value = "7", value_parser = retry)]
    pub retry: RetryLimit,
    /// Packets from one ACK request to the next, beside the one at the end of each message
    #[arg(long, value_name = "PACKETS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub ack_every: u32,
    /// The responder answers after this many ACK requests
    #[arg(long, value_name = "REQUESTS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub ack_coalesce: u32,
    /// ... or this long after the first of them
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = units::duration)]
    pub ack_delay: Span,
    /// Slow down at congestion notification packets (DCQCN); needs --rate
    #[arg(long)]
    pub dcqcn: bool,
    /// Seed of QP numbers, starting PSNs and message content; the same at both hosts
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// A requester's load, and its rate.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub struct WorkloadOptions {
    /// Operation
    #[arg(long, value_enum, default_value_t = Operation::Write)]
    pub op: Operation,
    /// Length of a message
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = message)]
    pub message: u32,
    /// Line rate of the port, 24 bytes of overhead per frame included [default: unlimited]
    #[arg(long, value_parser = units::rate_or_bits)]
    pub rate: Option<u64>,
    /// Packets all QPs together may have unacknowledged, or a multiple of rate x RTT such as "4bdp"
    #[arg(long, default_value = "1024", value_parser = window)]
    pub window: Window,
    /// Round-trip time that a window in "bdp" refers to
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    pub rtt: Option<Span>,
    /// How long figures are taken
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    pub seconds: f64,
    /// How long messages are sent before that
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub warm_up: f64,
    /// How long to wait for outstanding work requests at the end
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub drain: f64,
}

/// RDMA operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Operation {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ; the responder sends the data, and its --rate bounds it.
    Read,
    /// Fetch-and-add of eight bytes; --message is without meaning.
    FetchAdd,
}

impl From<Operation> for WorkKind {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Send => Self::Send,
            Operation::Write => Self::Write,
            Operation::Read => Self::Read,
            Operation::FetchAdd => Self::FetchAdd { add: 1 },
        }
    }
}

/// How much may be unacknowledged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Window {
    /// In packets.
    Packets(u32),
    /// In bandwidth-delay products.
    Bdp(f64),
}

fn window(text: &str) -> Result<Window, String> {
    let parsed = match text.strip_suffix("bdp") {
        Some(times) => times.trim().parse().ok().filter(|t| *t > 0.0).map(Window::Bdp),
        None => text.parse().ok().filter(|n| *n > 0).map(Window::Packets),
    };
    parsed.ok_or_else(|| format!("{text:?} is no window: expected packets, or such as 4bdp"))
}

fn message(text: &str) -> Result<u32, String> {
    let bytes = units::size_or_bytes(text)?;
    u32::try_from(bytes)
        .ok()
        .filter(|b| *b <= MAX_MESSAGE)
        .ok_or_else(|| format!("a message of {bytes} bytes is too long: at most 2 GiB"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|s| (0.0..=1e6).contains(s));
    value.ok_or_else(|| format!("{text:?} is no number of seconds"))
}

fn retry(text: &str) -> Result<RetryLimit, String> {
    match text {
        "infinite" => Ok(RetryLimit::Infinite),
        _ => text
            .parse()
            .ok()
            .filter(|n| *n <= 7)
            .map(RetryLimit::Count)
            .ok_or_else(|| format!("{text:?} is no retry count: expected 0 to 7, or infinite")),
    }
}

fn mac(text: &str) -> Result<MacAddr, String> {
    let bytes: Option<Vec<u8>> = text
        .to_ascii_lowercase()
        .split(':')
        // from_str_radix would take a sign.
        .map(|byte| u8::from_str_radix(byte, 16).ok().filter(|b| byte == format!("{b:02x}")))
        .collect();
    bytes
        .and_then(|b| b.try_into().ok())
        .ok_or_else(|| format!("{text:?} is no MAC address such as 02:00:0a:00:00:01"))
}

/// Ethernet, IPv4, UDP, BTH and ICRC around the payload.
const HEADERS: u64 = 14 + 20 + 8 + 12 + 4;

impl WorkloadOptions {
    /// Packets of `pmtu` bytes that the line carries in `time`; without a rate,
    /// as many as at 100 Gbit/s.
    pub fn packets_in(&self, time: Span, pmtu: u32) -> f64 {
        let bits = 8 * (u64::from(pmtu) + HEADERS + WIRE_OVERHEAD);
        self.rate.unwrap_or(100_000_000_000) as f64 * time.as_secs_f64() / bits as f64
    }

    /// PSNs that each of `qps` QPs may have unacknowledged: their share of the
    /// window.
    ///
    /// # Errors
    /// If the RTT that it refers to is missing.
    pub fn window_per_qp(&self, pmtu: u32, qps: u32) -> Result<u32, String> {
        let all = match (self.window, self.rtt) {
            (Window::Packets(packets), _) => f64::from(packets),
            (Window::Bdp(times), Some(rtt)) => times * self.packets_in(rtt, pmtu),
            (Window::Bdp(times), None) => {
                return Err(format!("--window {times}bdp needs --rtt"));
            }
        };
        Ok((all / f64::from(qps)).ceil().clamp(1.0, f64::from(1 << 22)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Options, clap::Error> {
        let needed = ["lr2-host", "--device", "net_null0", "--role", "requester"];
        let addresses = ["--ip", "10.0.0.1", "--peer-ip", "10.0.0.2"];
        let addresses = if args.contains(&"--peer-ip") { &addresses[..2] } else { &addresses };
        Options::try_parse_from(needed.iter().chain(addresses).chain(args))
    }

    #[test]
    fn a_window_in_bdp_follows_from_rate_and_rtt() {
        let args = ["--rate", "1Gbps", "--rtt", "10ms", "--window", "4bdp"];
        let workload = parse(&args).expect("parses").workload;
        // 4096 + 58 + 24 bytes take 33.424 us: 299.2 packets in 10 ms.
        assert_eq!(workload.window_per_qp(4096, 1), Ok(1_197));
        assert_eq!(workload.window_per_qp(4096, 4), Ok(300));
        assert!(parse(&args[4..]).expect("parses").workload.window_per_qp(4096, 1).is_err());
        let plain = parse(&["--window", "128"]).expect("parses").workload;
        assert_eq!(plain.window_per_qp(4096, 1), Ok(128));
    }

    #[test]
    fn mistakes_are_told() {
        let other = ["lr2-host", "--device", "bogus", "--role", "both", "--ip", "10.0.0.1"];
        let error = Options::try_parse_from(other).expect_err("wrong").to_string();
        assert!(error.contains("a PCI address such as"), "{error}");
        for (args, part) in [
            (["--window", "0"], "no window"),
            (["--message", "3GiB"], "at most 2 GiB"),
            (["--retry", "8"], "0 to 7"),
            (["--mac", "02:00"], "no MAC address"),
            (["--seconds", "1e9"], "no number of seconds"),
            (["--qps", "0"], "0"),
            (["--mtu", "100"], "100 is not in 576..=9600"),
            (["--memory", "1KiB"], "DPDK needs 16MiB at least"),
            (["--file-prefix", "a/b"], "expected letters, digits"),
            (["--cores", "100000"], "this process may run on the CPUs "),
        ] {
            let error = parse(&args).expect_err("wrong");
            assert!(error.to_string().contains(part), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn options_that_do_not_go_together_are_told() {
        for (args, part) in [
            (&["--peer-ip", "fd00::2"][..], "one is IPv4, the other IPv6"),
            (&["--peer-ip", "10.0.0.1"], "both 10.0.0.1"),
            (&["--window", "4bdp"], "--window 4bdp needs --rtt"),
            (&["--pmtu", "1500"], "use 256, 512, 1024, 2048 or 4096"),
            (&["--dcqcn"], "--dcqcn needs --rate"),
            (&["--rate", "0"], "--rate 0 sends nothing"),
            (&["--message", "2GiB"], "does not fit"),
            (&["--mtu", "1500"], "--pmtu 4096 needs --mtu 4"),
        ] {
            let error = parse(args).expect("parses").checked().expect_err("wrong");
            assert!(error.to_string().contains(part), "{args:?}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
        for args in [&[][..], &["--dcqcn", "--rate", "1Gbps"], &["--mtu", "1500", "--pmtu", "1024"]]
        {
            assert!(parse(args).expect("parses").checked().is_ok(), "{args:?}");
        }
    }

    #[test]
    fn a_mac_address_is_six_bytes() {
        assert_eq!(mac("02:00:0a:00:00:ff"), Ok([2, 0, 10, 0, 0, 255]));
        assert!(mac("2:0:a:0:0:ff").is_err());
        assert!(mac("+2:00:0a:00:00:ff").is_err());
    }
}
