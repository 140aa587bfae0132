//! `lr2-gateway`: see the library for what it does, `--help` for how to call
//! it.
//!
//! Exit status: 0 after a clean end or a good `--check`, 1 if it could not
//! start or was ended by a second signal, 2 if the command line or the
//! configuration is wrong.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gateway::config::{self, ROLES, Role};
use tracing_subscriber::EnvFilter;

/// Repairs losses of RoCEv2 traffic on a long-haul link, inside the network.
#[derive(Parser)]
#[command(name = "lr2-gateway", version)]
struct Cli {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: PathBuf,

    /// Which half of the job to do, whatever the file says.
    #[arg(long, value_parser = role())]
    role: Option<Role>,

    /// Print the effective configuration, with all defaults, or everything
    /// that is wrong with it, and exit.
    #[arg(long)]
    check: bool,
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(ROLES.iter().map(|(name, _)| *name)).map(|name| {
        // The parser lets only these names through.
        ROLES.iter().find(|(word, _)| *word == name).map_or(Role::Both, |(_, role)| *role)
    })
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let config = match config::load(&cli.config, cli.role) {
        Ok(config) => config,
        Err(report) => {
            eprintln!("{report}");
            return ExitCode::from(2);
        }
    };
    if cli.check {
        for warning in &config.warnings {
            eprintln!("{}: warning: {warning}", cli.config.display());
        }
        print!("{config}");
        return ExitCode::SUCCESS;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    tracing::info!("lr2-gateway {} with {}", env!("CARGO_PKG_VERSION"), cli.config.display());
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    match gateway::run::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lr2-gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
