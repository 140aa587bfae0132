//! `lr2-gateway`: see the library for its design, `--help` for how to call
//! it.
//!
//! Exit status: 0 after a clean end or a good `--check`, 1 if it could not
//! start, for want of memory on this machine for instance, or was ended by a
//! second signal, 2 if the command line or the configuration is wrong.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, Parser};
use gateway::config::{self, Machine, Pairs, ROLES, Refusal, Report, Role, Statement};
use gateway::control::socket;
use gateway::cores::{self, Verdict};
use gateway::log::Log;
use gateway::{boot, held};
use manual::out;
use tracing_subscriber::EnvFilter;

/// Repairs losses of RoCEv2 traffic on a long-haul link, inside the network.
#[derive(Parser)]
#[command(
    name = "lr2-gateway",
    version,
    after_help = "lr2-gateway doctor: whether this machine is set up for a gateway, and how to mend what is not.\n\
                  lr2-gateway release-links: sets up the interfaces that a gateway which was killed held down.\n\n\
                  Signals: SIGHUP reads the file again; SIGTERM and SIGINT end the gateway in order, a second one at once.\n\
                  Exit status: 0 after an orderly end or a good --check; 1 if it could not start or was ended by a second signal; \
                  2 if the command line or the file is wrong."
)]
struct Cli {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Which half of the job to do, in place of the file's `role`
    #[arg(long, value_parser = role())]
    role: Option<Role>,

    /// Print the effective configuration, with all defaults, and the mbufs, memory
    /// and hugepages that it takes, or all its mistakes and all that is missing on this machine,
    /// and exit. Opens ports and listeners, and closes them again, unless a gateway runs with it.
    #[arg(long)]
    check: bool,

    /// With --check: it is for another machine, so don't look at this one.
    #[arg(long, requires = "check")]
    elsewhere: bool,
}

/// Whether this machine is set up for a gateway, and how to mend what is not: hugepages, IOMMU, CPUs, drivers of NICs.
/// Exit status: 0 if nothing is to be mended, else 1; 2 for a command line that is wrong.
#[derive(Parser)]
#[command(name = "lr2-gateway doctor", bin_name = "lr2-gateway doctor", version)]
struct Doctor {
    /// The folder in which proc and sys are.
    #[arg(long, value_name = "FOLDER", default_value = "/", value_parser = manual::folder())]
    root: PathBuf,
}

/// Sets up the kernel interfaces that the link-loss forwarding of a killed gateway held down, and prints their names. An interface
/// that a running gateway holds down stays down. The systemd units run this command after each end of a gateway.
/// Exit status: 0, or 1 if one can't be set up.
#[derive(Parser)]
#[command(name = "lr2-gateway release-links", bin_name = "lr2-gateway release-links", version)]
struct ReleaseLinks {
    /// The runtime folder of these gateways [default: $RUNTIME_DIRECTORY, or /run/lr2-held]
    #[arg(value_parser = manual::folder())]
    folder: Option<PathBuf>,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(ROLES.iter().map(|(name, _)| *name)).map(|name| {
        // The parser lets only these names through.
        ROLES.iter().find(|(word, _)| *word == name).map_or(Role::Both, |(_, role)| *role)
    })
}

fn main() -> ExitCode {
    let manual = [
        Cli::command(),
        Doctor::command().name("lr2-gateway-doctor"),
        ReleaseLinks::command().name("lr2-gateway-release-links"),
    ];
    if let Some(code) = manual::answer(&manual, std::env::args_os()) {
        return code;
    }
    // Words of their own, as they need no configuration.
    let words = || std::env::args_os().skip(1);
    match words().next() {
        Some(word) if word == "doctor" => return examine(&Doctor::parse_from(words())),
        Some(word) if word == "release-links" => {
            return release(&ReleaseLinks::parse_from(words()));
        }
        _ => {}
    }
    let cli = Cli::parse();
    let machine = (!cli.elsewhere).then(Machine::read);
    let (pairs, refusal) = match config::load(&cli.config, cli.role, machine.as_ref()) {
        Ok(pairs) => (pairs, None),
        Err(Refusal { unfit: Some(pairs), report }) => (pairs, Some(report)),
        Err(Refusal { report, .. }) => {
            out::complain(report);
            return ExitCode::from(2);
        }
    };
    if cli.check {
        return check(&cli, &pairs, machine.as_ref(), refusal);
    }
    if let Some(report) = refusal {
        out::complain(report);
        return ExitCode::FAILURE;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let level = filter.to_string();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        // A log without a reader ends no gateway.
        .log_internal_errors(false)
        .with_filter_reloading();
    let handle = log.reload_handle();
    log.init();
    let log = Log::new(level, move |filter| handle.reload(filter).map_err(|e| e.to_string()));
    tracing::info!("lr2-gateway {} with {}", env!("CARGO_PKG_VERSION"), cli.config.display());
    for warning in &pairs.warnings() {
        tracing::warn!("{warning}");
    }
    // The hugepages are taken by now, so that nothing can be said of the machine.
    let (file, role) = (cli.config, cli.role);
    let load = move || config::load(&file, role, None).map_err(|it| it.report.to_string());
    match gateway::run::run(&pairs, Arc::new(load), log) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            out::complain(format_args!("lr2-gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the answer of the doctor.
fn examine(options: &Doctor) -> ExitCode {
    let findings = gateway::doctor::examine(&options.root);
    findings.iter().for_each(out::println);
    if findings.iter().any(|finding| finding.mend.is_some()) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Runs `lr2-gateway release-links`.
fn release(options: &ReleaseLinks) -> ExitCode {
    match held::release(&options.folder.clone().unwrap_or_else(held::folder)) {
        Ok(raised) => {
            raised.iter().for_each(|name| out::println(format_args!("{name} is set up")));
            ExitCode::SUCCESS
        }
        Err(error) => {
            out::complain(format_args!("lr2-gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the answer to `--check`.
fn check(cli: &Cli, pairs: &Pairs, machine: Option<&Machine>, unfit: Option<Report>) -> ExitCode {
    let warn = |warning: &str| {
        out::complain(format_args!("{}: warning: {warning}", cli.config.display()));
    };
    let first = pairs.first();
    let mut faults: Vec<_> =
        first.socket.as_deref().and_then(socket::too_long).into_iter().collect();
    // The file of another machine is unknown.
    let mut kept = None;
    match machine.map(|_| boot::check(&first.peer.boot_file)) {
        Some(boot::Finding::Kept(text)) => kept = Some(text),
        Some(boot::Finding::Warning(text)) => warn(&text),
        Some(boot::Finding::Fault(text)) => faults.push(format!("peer.boot_file: {text}")),
        None => {}
    }
    pairs.warnings().iter().for_each(|warning| warn(warning));
    out::print(format_args!("{pairs}\n{}", Statement { pairs, machine }));
    if let Some(text) = kept {
        out::println(format_args!("#\n# {text}"));
    }
    // On this machine the trial below says so, by the speeds of the ports that it opens.
    let judged = if machine.is_none() { cores::by_file(pairs) } else { Vec::new() };
    for verdict in judged {
        match verdict {
            Verdict::Enough(line) => out::println(format_args!("#\n# {line}")),
            Verdict::TooFew(line) => warn(&line),
        }
    }
    let code = match unfit {
        // What this machine lacks is known already.
        None if machine.is_some() => trial(cli, pairs),
        None => ExitCode::SUCCESS,
        Some(report) => {
            out::complain(report);
            ExitCode::FAILURE
        }
    };
    faults.iter().for_each(|fault| out::complain(format_args!("lr2-gateway: {fault}")));
    if faults.is_empty() { code } else { ExitCode::FAILURE }
}

/// Opens what a start opens.
fn trial(cli: &Cli, pairs: &Pairs) -> ExitCode {
    match gateway::run::trial::open(pairs) {
        Ok(found) => {
            for warning in &found.warnings {
                out::complain(format_args!("{}: warning: {warning}", cli.config.display()));
            }
            for line in &found.opened {
                out::println(format_args!("# {line}"));
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            out::complain(format_args!("lr2-gateway: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
