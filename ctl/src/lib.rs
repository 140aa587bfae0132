//! `lr2ctl`: asks a running `lr2-gateway` through [the API](api), and changes it. docs/lr2ctl.md.
//!
//! [`cli`] reads the command line, [`client`] asks, [`view`] makes tables for people, and [`top`] is the live view.

mod capture;
pub mod cli;
pub mod client;
mod find;
mod table;
pub mod top;
pub mod view;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use serde::de::DeserializeOwned;

use self::cli::{Cli, Command};
use self::client::{Client, Request};

/// Exit status for a wrong command line or a value that the gateway refuses.
pub const BAD_INPUT: u8 = 2;
/// Exit status if the gateway can't be reached or fails to do what was asked.
pub const FAILED: u8 = 1;

/// In place of an exit status: one of several pairs of ports has to be chosen.
const CHOOSE: u8 = 3;

/// Why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// [`BAD_INPUT`] or [`FAILED`].
    pub code: u8,
    /// In one sentence.
    pub text: String,
}

impl Failure {
    /// The gateway can't do it, or could not be asked.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: FAILED, text: text.into() }
    }
}

/// Runs a command line, and returns the exit status: 0, [`FAILED`] or [`BAD_INPUT`].
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    errors: &mut dyn Write,
) -> u8 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            // Help, or the version.
            let _ = write!(out, "{e}");
            return 0;
        }
        Err(e) => {
            let text = e.to_string();
            // clap writes the error in the first line and usage in those that follow.
            let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let first = lines.next().unwrap_or_default();
            let first = first.strip_prefix("error: ").unwrap_or(first).trim_end_matches(':');
            let values = lines.find(|line| line.starts_with("[possible values"));
            let more = match e.kind() {
                // Their names stand in lines of their own.
                ErrorKind::MissingRequiredArgument => {
                    let names = text.lines().filter_map(|line| line.strip_prefix("  "));
                    format!(": {}", names.collect::<Vec<_>>().join(", "))
                }
                _ => values.map_or(String::new(), |values| format!(" {values}")),
            };
            let first = match e.kind() {
                // clap writes the whole help.
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing",
                _ => first,
            };
            let _ = writeln!(errors, "lr2ctl: {first}{more}; see lr2ctl --help");
            return BAD_INPUT;
        }
    };
    match command(&cli, out) {
        Ok(()) => 0,
        Err(Failure { code: CHOOSE, text }) => {
            let _ = writeln!(errors, "lr2ctl: {text}; --pair NAME chooses one");
            BAD_INPUT
        }
        Err(Failure { code, text }) => {
            let _ = writeln!(errors, "lr2ctl: {text}");
            code
        }
    }
}

fn command(cli: &Cli, out: &mut dyn Write) -> Result<(), Failure> {
    let client = match (&cli.command, &cli.socket, cli.address) {
        (Command::Completions { .. } | Command::Man { .. }, ..) => Client::new(Path::new(""), None),
        (_, None, None) => Client::new(&find::socket(Path::new(find::RUN))?, None),
        (_, socket, address) => Client::new(socket.as_deref().unwrap_or(Path::new("")), address),
    };
    let client = match &cli.pair {
        Some(name) => client.of_pair(name),
        None => client,
    };
    let show = Show { cli, client: &client };
    let text = match &cli.command {
        Command::Top { .. } if cli.json => {
            let text = "top draws a picture; --json goes with status, lanes, recovery or flows";
            return Err(Failure { code: BAD_INPUT, text: text.to_owned() });
        }
        Command::Top { interval, once } => {
            let interval = Duration::from_secs(*interval);
            return match once {
                true => top::once(&client, interval, out),
                false => top::live(&client, interval),
            };
        }
        Command::Status => show.get("/status", view::status)?,
        Command::Pairs => show.get("/pairs", view::pairs)?,
        Command::Peers => show.get("/peers", view::peers)?,
        Command::Lanes => show.get("/lanes", view::lanes)?,
        Command::Path => show.get("/paths", view::paths)?,
        Command::Recovery => show.get("/recovery", view::recovery)?,
        Command::Flows(of) => show.get(&of.path(), view::flows)?,
        Command::Unprotect(of) => show.ask(&Request::post(&of.path("unprotect")), view::flows)?,
        Command::Protect(of) => show.ask(&Request::post(&of.path("protect")), view::flows)?,
        Command::Trace(of) => return capture::trace(&client, of, cli.json, out),
        Command::Records(of) => show.get(&of.path(), view::records)?,
        Command::Capture(_) if cli.json => {
            let text = "capture writes pcapng; --json goes with the other commands";
            return Err(Failure { code: BAD_INPUT, text: text.to_owned() });
        }
        Command::Capture(of) => return capture::run(&client, of, out),
        Command::Ports => show.get("/ports", view::ports)?,
        Command::Pools => show.get("/pools", view::pools)?,
        Command::Events { last } => show.get(&format!("/events?last={last}"), view::events)?,
        Command::Build => show.get("/build", view::build)?,
        Command::Config => {
            show.get("/config", |config: &api::Configuration| config.toml.clone())?
        }
        Command::Parameters => show.get("/parameters", view::parameters)?,
        Command::Set { name, value } => {
            let path = format!("/parameters/{}", client::escaped(name));
            show.ask(&Request::put(&path, value), |it: &api::Parameter| {
                format!("{} is {}\n", it.name, it.value)
            })?
        }
        Command::LogLevel { level } => show
            .ask(&Request::put("/log-level", level), |it: &api::LogLevel| {
                format!("the log level is {}\n", it.log_level)
            })?,
        Command::Reload => show.ask(&Request::post("/reload"), view::reloaded)?,
        Command::Drain => {
            show.ask(&Request::post("/drain"), |it: &api::Draining| format!("{}\n", it.draining))?
        }
        Command::Completions { shell } => {
            manual::completions(&Cli::command(), *shell, out);
            return Ok(());
        }
        Command::Man { folder } => return man(folder),
    };
    // Who reads no further has seen enough.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

/// Asks, and makes text of the answer.
struct Show<'a> {
    cli: &'a Cli,
    client: &'a Client,
}

impl Show<'_> {
    fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        text: impl Fn(&T) -> String,
    ) -> Result<String, Failure> {
        let request = Request::get(path);
        match self.ask(&request, &text) {
            // Of several pairs of ports each is shown.
            Err(Failure { code: CHOOSE, .. }) if !self.cli.json => {
                let mut all = String::new();
                for pair in self.client.get::<api::Pairs>("/pairs")?.pairs {
                    let client = self.client.of_pair(&pair.pair);
                    let text = Show { client: &client, ..*self }.ask(&request, &text)?;
                    let space = if all.is_empty() { "" } else { "\n" };
                    all.push_str(&format!("{space}pair {}\n{text}", pair.pair));
                }
                Ok(all)
            }
            answer => answer,
        }
    }

    fn ask<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        text: impl Fn(&T) -> String,
    ) -> Result<String, Failure> {
        let body = self.client.ask(request)?;
        if self.cli.json { Ok(body) } else { Ok(text(&client::read(&body)?)) }
    }
}

/// Writes the manual: a page for the program, and one for each command.
fn man(folder: &Path) -> Result<(), Failure> {
    manual::pages(&[Cli::command()], folder)
        .map_err(|e| Failure::failed(format!("can't write to {}: {e}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exit status, output and errors.
    fn lr2ctl(args: &[&str]) -> (u8, String, String) {
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let args = std::iter::once("lr2ctl").chain(args.iter().copied()).map(Into::into);
        let code = run(args, &mut out, &mut errors);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
    }

    #[test]
    fn bad_input_is_one_clear_line_and_status_2() {
        for (args, part) in [
            (&["frobnicate"][..], "unrecognized subcommand 'frobnicate'"),
            (&[], "a command is missing"),
            (&["events", "--last", "10001"], "10001 is not in 0..=10000"),
            (&["events", "--last", "x"], "invalid digit"),
            (&["log-level", "loud"], "possible values: off, error, warn, info, debug, trace"),
            (&["set", "wan.spray"], "required arguments were not provided: <VALUE>;"),
            (&["flows", "--sort", "size"], "possible values: lost, resent, held"),
            (&["flows", "--limit", "1001"], "1001 is not in 1..=1000"),
            (&["status", "--address", "here"], "--address"),
            (&["flows", "--host", "here"], "--host"),
            (&["protect", "10.2.0.1", "-1"], "unexpected argument"),
            (&["unprotect", "10.2.0.1"], "required arguments were not provided: <QPN>;"),
            (&["protect", "here", "17"], "DESTINATION"),
            (&["top", "--interval", "0"], "0 is not in 1..=60"),
            (&["top", "--once", "--json", "--socket", "/nowhere"], "top draws a picture"),
            (&["capture"], "required arguments were not provided: --out <FILE>;"),
            (&["capture", "--out", "x", "--direction", "up"], "possible values: in, out"),
            (&["capture", "--out", "x", "--json", "--socket", "/nowhere"], "writes pcapng"),
            (&["flows", "--qpn", "x"], "'x' for '--qpn <NUMBER>': it is no number up to 16777215"),
            (&["records", "--psn", "0x1000000"], "up to 16777215, e.g. 17 or 0x11"),
            (&["protect", "10.2.0.1", "QP"], "'QP' for '<QPN>'"),
            (&["trace", "--qpn", "1.5"], "'1.5'"),
            (&["capture", "--out", "x", "--qpn", "1.5"], "'1.5'"),
            (&["man", "/nowhere"], "'/nowhere' for '<FOLDER>': there is no such folder"),
            (&["man"], "required arguments were not provided: <FOLDER>;"),
            (&["completions", "csh"], "possible values: bash"),
        ] {
            let (code, out, errors) = lr2ctl(args);
            assert_eq!((code, &*out), (BAD_INPUT, ""), "{args:?}");
            assert!(errors.starts_with("lr2ctl: ") && errors.contains(part), "{args:?}: {errors}");
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }

    #[test]
    fn without_a_gateway_there_is_one_line_and_status_1() {
        for command in [&["status"][..], &["reload"], &["--json", "peers"], &["top", "--once"]] {
            let (code, out, errors) =
                lr2ctl(&[&["--socket", "/nowhere/control.sock"], command].concat());
            assert_eq!((code, &*out, errors.lines().count()), (FAILED, "", 1), "{errors}");
            assert!(errors.contains("/nowhere/control.sock"), "{errors}");
        }
    }

    /// `--address` says which gateway, `--host` which flows.
    #[test]
    fn a_host_is_no_address_of_the_gateway() {
        let args = ["lr2ctl", "--address", "127.0.0.1:9", "flows", "--host", "10.0.0.1"];
        let cli = Cli::try_parse_from(args).unwrap();
        assert!(
            matches!(&cli.command, Command::Flows(of) if of.path().ends_with("&address=10.0.0.1"))
        );
        assert_eq!(cli.address, Some(([127, 0, 0, 1], 9).into()));
    }

    #[test]
    fn completions_and_man_pages_know_every_command() {
        let (code, bash, _) = lr2ctl(&["completions", "bash"]);
        assert!(code == 0 && bash.contains("log-level") && bash.contains("--socket"), "{bash}");
        let folder = tempfile::tempdir().unwrap();
        let (code, ..) = lr2ctl(&["man", folder.path().to_str().unwrap()]);
        assert_eq!(code, 0);
        for command in Cli::command().get_subcommands() {
            let page = folder.path().join(format!("lr2ctl-{}.1", command.get_name()));
            assert!(page.is_file(), "{}", page.display());
        }
    }
}
