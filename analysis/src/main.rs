//! `lr2-analyze`: what happened to the RoCEv2 flows of a capture.
//!
//! Exit status: 0 after success, 2 if the command line is wrong or the capture can't be used.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use analysis::capture::{self, Choice, Contents};
use analysis::{Analysis, Copied, Marks, Report, Settings, html, text, warnings};
use clap::{CommandFactory, Parser};
use common::time::Span;

/// Losses, reordering, NAKs, timeouts and go-back-N of the RoCEv2 flows in a capture, their cost, and the part of the cost
/// that LR2 would have saved.
#[derive(Parser, Debug)]
#[command(name = "lr2-analyze", version)]
struct Options {
    /// Capture, pcap or pcapng, from any point of the path; the first 128 bytes of each packet are enough.
    file: PathBuf,
    /// Print the report as JSON, with all flows.
    #[arg(long)]
    json: bool,
    /// Write an HTML page too, with a timeline of each flow.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Number of flows in the text and in the page, worst first.
    #[arg(long, value_name = "N", default_value_t = 20)]
    flows: usize,
    /// Analyse packets of this interface only: name or number in a pcapng file, index in a capture of `tcpdump -i any`.
    /// May be given several times.
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// Analyse the readable part of a truncated or damaged file.
    #[arg(long)]
    partial: bool,
    /// Least time, in microseconds, between a packet and its resend that counts as a timeout if there was no NAK.
    #[arg(long, value_name = "US", default_value_t = 1000)]
    silence: u64,
    /// EtherType of the tunnel.
    #[arg(long, value_name = "HEX", default_value = "88b5", value_parser = ethertype)]
    tunnel_ethertype: u16,
    /// UDP port of the tunnel.
    #[arg(long, value_name = "PORT", default_value_t = Marks::default().port)]
    tunnel_port: u16,
}

fn ethertype(text: &str) -> Result<u16, String> {
    u16::from_str_radix(text.trim_start_matches("0x"), 16)
        .map_err(|_| "give hexadecimal digits, 0600 to ffff".to_owned())
}

fn main() -> ExitCode {
    if let Some(code) = manual::answer(&[Options::command()], std::env::args_os()) {
        return code;
    }
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            manual::out::complain(format_args!("lr2-analyze: {message}"));
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let name = options.file.display();
    let (analysis, contents) = look(options, Copied::default())?;
    // A pipe can be read once.
    let is_file = options.file.metadata().is_ok_and(|data| data.is_file());
    let copied = if is_file { analysis.copied() } else { Copied::default() };
    let (analysis, contents) =
        if copied.is_empty() { (analysis, contents) } else { look(options, copied)? };
    let mut report = analysis.report();
    check(&report, &contents).map_err(|what| format!("{name} {what}"))?;
    report.warnings = warnings(&report.totals, &contents);
    for warning in &report.warnings {
        manual::out::complain(format_args!("lr2-analyze: {name} {warning}"));
    }
    if let Some(file) = &options.html {
        std::fs::write(file, html::page(&report, &name.to_string(), options.flows))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut out = String::new();
    if options.json {
        out = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
        out.push('\n');
    } else {
        text::write(&report, options.flows, &mut out).map_err(|error| error.to_string())?;
    }
    // A pipe that closes early is no error of ours.
    let _ = std::io::stdout().write_all(out.as_bytes());
    Ok(())
}

/// Reads the file, and leaves out copies in these flows.
fn look(options: &Options, copied: Copied) -> Result<(Analysis, Contents), String> {
    let name = options.file.display();
    let settings = Settings {
        silence: Span::from_micros(options.silence),
        tunnel: Marks { ethertype: options.tunnel_ethertype, port: options.tunnel_port },
        with_timeline: options.html.is_some(),
        ..Settings::default()
    };
    let mut analysis = Analysis::new(settings).without_copies(copied);
    let file = File::open(&options.file).map_err(|error| format!("{name}: {error}"))?;
    let choice = Choice { interfaces: options.interface.clone(), is_partial: options.partial };
    let contents =
        capture::read(file, &choice, &mut analysis).map_err(|fault| format!("{name} {fault}"))?;
    Ok((analysis, contents))
}

/// Whether there is anything to report.
fn check(report: &Report, contents: &Contents) -> Result<(), String> {
    let totals = &report.totals;
    if totals.roce > 0 {
        return Ok(());
    }
    Err(match totals {
        _ if totals.records == 0 && contents.untimed > 0 => format!(
            "has {} records, all without a time (Simple Packet Blocks): a capture without times can't be analysed",
            contents.untimed
        ),
        _ if totals.records == 0 => "has no records".to_owned(),
        _ if totals.cut > 0 => format!(
            "has {} records, and of {} too little was captured: capture at least 128 bytes of each (tcpdump -s 128)",
            totals.records, totals.cut
        ),
        _ if totals.malformed > 0 => format!(
            "has {} records, and no whole RoCEv2 packet; {} to UDP port 4791 are malformed",
            totals.records, totals.malformed
        ),
        _ if totals.tunnel_messages > 0 => format!(
            "has {} records, {} of them messages of the tunnel, and no RoCEv2 packet",
            totals.records, totals.tunnel_messages
        ),
        _ => format!(
            "has {} records, and none is RoCEv2 (UDP port 4791); some NICs hand RDMA to captures only when told to, see docs/captures.md",
            totals.records
        ),
    })
}
