//! `lr2-sim`'s commands, with a simulation made up for the purpose: which runs they
//! start, in which order the results come, and the output.

use std::path::Path;

use crate::support::{flow, result, run_of};
use clap::Parser;
use common::time::Span;
use simulator::cli::{Cli, Failure};
use simulator::results::{HostUse, LongHaulUse, RunResult};
use simulator::scenario::{Scenario, Traffic};
use simulator::scheme::Scheme;
use tempfile::TempDir;

/// Ten messages; go-back-N takes ten times as long as the others, and longer
/// the more is lost.
fn fake(scenario: &Scenario, scheme: Scheme, seed: u64) -> Result<RunResult, String> {
    let loss = if scheme == Scheme::LOSSLESS { 0.0 } else { scenario.long_haul.loss.mean() };
    let factor = if scheme == Scheme::GBN { 10 + (loss * 1e4) as u64 } else { 1 };
    let rtt = scenario.long_haul.rtt();
    // The first runs take longest, so that they end last.
    std::thread::sleep(std::time::Duration::from_millis(20 / (seed + 1)));
    let message = |n: u32| {
        let fct = (rtt + Span::from_micros(u64::from(n) + seed)).scale(factor, 1);
        result(flow(0, 0, 1, 1_000_000), Some(fct.as_micros()), rtt.as_micros())
    };
    let end = rtt.scale(20, 1).as_micros();
    Ok(RunResult {
        long_haul: LongHaulUse {
            rate: scenario.long_haul.rate,
            data_bytes: 10_000,
            repeated_bytes: 2_500,
            ..LongHaulUse::default()
        },
        hosts: HostUse { timeouts: 3, failed_qps: 1, ..HostUse::default() },
        ..run_of(scheme, seed, end, (0..10).map(message).collect())
    })
}

fn execute_with(
    arguments: &[&str],
    runner: impl Fn(&Scenario, Scheme, u64) -> Result<RunResult, String> + Sync,
) -> Result<String, Failure> {
    let line = std::iter::once(&"lr2-sim").chain(arguments);
    Cli::try_parse_from(line).expect("a command line").execute(&runner)
}

fn execute(arguments: &[&str]) -> Result<String, Failure> {
    execute_with(arguments, fake)
}

/// A folder with a scenario, removed at the end.
struct Folder(TempDir);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = TempDir::with_prefix(format!("lr2-{name}-")).expect("a folder");
        let text = "schemes = [\"cached\", \"gbn\"]\nseeds = [0, 5]\nabout = \"Just to try.\"\n\
                    [long_haul]\nrate = \"10Gbps\"\nrtt = \"2ms\"\nloss = 1e-3\n";
        std::fs::write(folder.path().join("trial.toml"), text).expect("written");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).expect(name)
    }
}

/// The cells of the first line that begins with `first`.
fn row(text: &str, first: &str) -> Vec<String> {
    let line = text.lines().find(|line| line.starts_with(first)).expect(first);
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
}

#[test]
fn rerouting_in_the_network_needs_a_port_for_each_path() {
    let folder = Folder::new("conweave");
    let schemes = ["--scheme", "conweave", "--scheme", "tunnel"];
    let run = |file: &str| execute(&[&["run", file], &schemes[..]].concat());
    let failure = run(&folder.path("trial.toml")).expect_err("one path, of nobody's own");
    assert_eq!(failure.code, 2);
    let reason = "trial: conweave needs a WAN port for each path: long_haul.ports = \"own\"";
    assert_eq!(failure.message, reason);
    for file in ["spray.toml", "spray-8.toml"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(file);
        let text = run(&file.display().to_string()).expect("runs");
        assert!(text.find("\nconweave") > text.find("\ntunnel"), "{text}");
    }
}

#[test]
fn a_run_compares_schemes_in_one_table() {
    let folder = Folder::new("table");
    let text = execute(&["run", &folder.path("trial.toml")]).expect("runs");
    assert!(text.starts_with("trial\nJust to try.\n"), "{text}");
    for part in ["long haul: 10Gbps, 1ms one way", "loss: 0.1 %", "seeds: 0, 5"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    // 2 ms and 0 to 9 µs, and 5 µs more with the second seed.
    let cached = row(&text, "cached");
    assert_eq!(cached[..4], ["cached", "2.01 ms", "2.01 ms", "2.01 ms"], "{text}");
    // Timeouts and failed queue pairs of both runs.
    assert_eq!(cached[8..], ["6", "2"], "{text}");
    assert_eq!(cached[7], "25.0 %", "{text}");
    let gbn = row(&text, "gbn");
    assert_eq!(gbn[1], "40.1 ms", "{text}");
    assert!(text.find("\ngbn") < text.find("\ncached"), "the order of all tables\n{text}");
}

#[test]
fn seeds_and_schemes_of_the_command_line_count() {
    let folder = Folder::new("given");
    let seen = std::sync::Mutex::new(Vec::new());
    let note = |s: &Scenario, scheme: Scheme, seed: u64| {
        seen.lock().expect("no panic").push((scheme.name(), seed));
        fake(s, scheme, seed)
    };
    let file = folder.path("trial.toml");
    let line = [
        "run", &file, "--seed", "3", "--seed", "2", "--seed", "3", "--scheme", "irn", "--jobs", "1",
    ];
    execute_with(&line, note).expect("runs");
    assert_eq!(*seen.lock().expect("no panic"), [("irn", 3), ("irn", 2)]);
    let error =
        Cli::try_parse_from(["lr2-sim", "run", "x.toml", "--scheme", "lr3"]).expect_err("none");
    assert!(error.to_string().contains("gbn-renak"), "{error}");
}

#[test]
fn a_command_that_is_missing_is_told() {
    let error = Cli::try_parse_from(["lr2-sim"]).expect_err("none");
    assert!(error.to_string().starts_with("error: 'lr2-sim' requires a subcommand"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn a_key_of_the_file_is_set_on_the_command_line() {
    let folder = Folder::new("set");
    let file = folder.path("trial.toml");
    let text = execute(&["run", &file, "--set", "loss=1%", "--set", "nic.pmtu=512"]).expect("runs");
    for part in ["loss: 1 %", "path MTU 512"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let wrong = execute(&["run", &file, "--set", "nic.pmtu=513"]).expect_err("refused");
    assert!(wrong.message.contains("--set nic.pmtu=513"), "{}", wrong.message);
    let two = Cli::try_parse_from(["lr2-sim", "run", &file, "--set", "loss=1%,2%"]);
    assert!(two.expect_err("one value").to_string().contains("one is expected"));
}

/// However the runs are spread over threads.
#[test]
fn files_are_the_same_every_time() {
    let folder = Folder::new("files");
    let (file, mut before) = (folder.path("trial.toml"), None);
    for jobs in ["1", "4"] {
        let names = ["a.json", "a.csv", "f.csv", "a.html"];
        let [json, csv, flows, html] = names.map(|name| folder.path(name));
        execute(&[
            "run", &file, "--jobs", jobs, "--json", &json, "--csv", &csv, "--flows", &flows,
            "--report", &html,
        ])
        .expect("runs");
        let files = names.map(|name| folder.read(name));
        assert!(files[0].contains("\"scheme\": \"cached\""), "{}", files[0]);
        assert!(files[1].lines().any(|l| l.starts_with("gbn,")), "{}", files[1]);
        // Two schemes, two seeds, ten messages.
        assert_eq!(files[2].lines().count(), 1 + 40);
        assert!(files[2].lines().nth(1).is_some_and(|l| l.starts_with("cached,0,")));
        assert!(files[3].contains("<svg"), "plots");
        let before = before.get_or_insert(files.clone());
        assert!(*before == files, "with {jobs} jobs");
    }
}

#[test]
fn failures_are_told_with_their_run() {
    let folder = Folder::new("failures");
    let file = folder.path("trial.toml");
    let broken = |s: &Scenario, scheme: Scheme, seed: u64| match (scheme, seed) {
        (scheme, _) if scheme == Scheme::GBN => Err("the wheels came off".to_owned()),
        _ => fake(s, scheme, seed),
    };
    let failure = execute_with(&["run", &file], broken).expect_err("fails");
    let lines: Vec<_> = failure.message.lines().collect();
    assert_eq!(
        lines,
        ["trial, gbn, seed 0: the wheels came off", "trial, gbn, seed 5: the wheels came off"]
    );
    assert_eq!(failure.code, 1);

    // Before anything is run.
    let never = |_: &Scenario, _: Scheme, _: u64| -> Result<RunResult, String> { panic!("ran") };
    let failure = execute_with(&["run", &file, "--json", "/nonexistent/x.json"], never);
    let failure = failure.expect_err("not writable");
    assert!(failure.message.starts_with("/nonexistent/x.json: can't be written: No such"));
    let failure = execute_with(&["run", "/nonexistent/s.toml"], never).expect_err("no file");
    assert_eq!(failure.code, 2);
    assert!(failure.message.starts_with("/nonexistent/s.toml: found a file that can't be read"));
}

#[test]
fn what_did_not_end_is_told() {
    let folder = Folder::new("unfinished");
    let file = folder.path("trial.toml");
    let stuck = |s: &Scenario, scheme: Scheme, seed: u64| {
        let mut result = fake(s, scheme, seed)?;
        if scheme == Scheme::GBN {
            result.flows[3].completed = None;
        }
        Ok(result)
    };
    let text = execute_with(&["run", &file], stuck).expect("runs");
    assert_eq!(row(&text, "gbn")[1], "–", "{text}");
    assert_eq!(row(&text, "gbn").last().map(String::as_str), Some("2 of 20"), "{text}");
    assert_eq!(row(&text, "cached").last().map(String::as_str), Some("0 of 20"), "{text}");
}

#[test]
fn a_sweep_has_a_table_per_combination() {
    let folder = Folder::new("sweep");
    let file = folder.path("trial.toml");
    let [json, csv, html] = ["s.json", "s.csv", "s.html"].map(|name| folder.path(name));
    let text = execute(&[
        "sweep",
        &file,
        "--over",
        "loss=1e-2,1e-3",
        "--over",
        "rtt=1ms,10ms",
        "--json",
        &json,
        "--csv",
        &csv,
        "--report",
        &html,
    ])
    .expect("runs");
    let heads: Vec<_> =
        text.lines().filter(|l| l.starts_with("loss = ") || l.starts_with("trial")).collect();
    assert_eq!(
        heads,
        [
            "trial, rtt = 1ms",
            "loss = 1e-3",
            "loss = 1e-2",
            "trial, rtt = 10ms",
            "loss = 1e-3",
            "loss = 1e-2"
        ]
    );
    // 1 ms, ten times and once more per 1e-4 lost.
    let times: Vec<_> =
        text.lines().filter(|l| l.starts_with("gbn")).map(|l| row(l, "gbn")[1].clone()).collect();
    assert_eq!(times, ["20.1 ms", "111 ms", "200 ms", "1.10 s"]);
    assert!(!text.contains("1ms one way") && text.contains("a host at each end"), "{text}");

    let parsed: serde_json::Value = serde_json::from_str(&folder.read("s.json")).expect("JSON");
    assert_eq!(parsed.as_array().map(Vec::len), Some(2));
    assert_eq!(parsed[1]["points"][0]["x"], 1e-3);
    assert_eq!(parsed[1]["axis"], "loss");
    let csv = folder.read("s.csv");
    assert!(csv.starts_with("rtt,x,label,scheme,"), "{csv}");
    assert_eq!(
        csv.lines().filter(|l| l.starts_with("10ms,0.01,1e-2,gbn,")).count(),
        csv.lines().filter(|l| l.starts_with("1ms,0.001,1e-3,cached,")).count()
    );
    assert!(csv.lines().any(|l| l.starts_with("10ms,0.01,1e-2,gbn,all,all,20,")), "{csv}");
    assert!(folder.read("s.html").contains("<svg"));

    let one = execute(&["sweep", &file, "--over", "rtt=10ms,1ms", "--json", &json]).expect("runs");
    assert!(one.find("rtt = 1ms") < one.find("rtt = 10ms"), "{one}");
    let parsed: serde_json::Value = serde_json::from_str(&folder.read("s.json")).expect("JSON");
    assert_eq!((&parsed["axis"], &parsed["points"][1]["x"]), (&"rtt (ms)".into(), &10.0.into()));
}

#[test]
fn what_is_wrong_with_a_sweep() {
    let folder = Folder::new("wrong");
    let file = folder.path("trial.toml");
    let fails = |arguments: &[&str]| {
        let line: Vec<_> = ["sweep", &file].iter().chain(arguments).copied().collect();
        let failure = execute(&line).expect_err("refused");
        assert_eq!(failure.code, 2);
        failure.message
    };
    let message = fails(&["--over", "loss=2,1e-3,3", "--over", "nic.pmtu=7"]);
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(lines.len(), 3, "each once: {message}");
    assert!(lines[0].starts_with("--over loss=2: long_haul.loss: found 2; allowed: 0 to 0.9"));
    assert!(lines[1].starts_with("--over nic.pmtu=7: nic.pmtu: found 7; allowed: 256, 512"));
    assert!(lines[2].starts_with("--over loss=3: "));
    assert_eq!(
        fails(&["--over", "loss=1", "--over", "long_haul.loss=2"]),
        "--over long_haul.loss: once is enough"
    );
    let three = ["--over", "loss=1", "--over", "rtt=2ms", "--over", "pmtu=256"];
    assert_eq!(fails(&three), "--over: at most two keys at a time");
    assert!(Cli::try_parse_from(["lr2-sim", "sweep", "x.toml"]).is_err(), "over what?");
    let error = Cli::try_parse_from(["lr2-sim", "sweep", "x.toml", "--over", "loss"]);
    assert!(error.expect_err("no values").to_string().contains("KEY=VALUE"));
}

/// The program itself, with the engine.
#[test]
fn the_program_runs_the_smallest_example() {
    let run = |arguments: &[&str]| {
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_lr2-sim"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"))
            .args(arguments)
            .output()
            .expect("starts");
        let [out, err] =
            [program.stdout, program.stderr].map(|b| String::from_utf8(b).expect("text"));
        (program.status.code(), out, err)
    };
    let (code, out, err) = run(&["run", "minimal.toml", "--scheme", "lossless", "--scheme", "gbn"]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "no progress without a terminal");
    assert_eq!(row(&out, "lossless")[4], "1.00", "{out}");
    let (lossless, gbn) = (row(&out, "lossless"), row(&out, "gbn"));
    assert_eq!((lossless[7].as_str(), lossless.last().map(String::as_str)), ("0 %", Some("0")));
    assert_ne!(lossless[1], gbn[1], "{out}");
    let (code, out, err) = run(&["run", "none.toml"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.starts_with("none.toml: found a file that can't be read"), "{err}");
}

#[test]
fn a_plan_needs_no_simulation() {
    let never = |_: &Scenario, _: Scheme, _: u64| -> Result<RunResult, String> { panic!("ran") };
    let line = ["plan", "--rate", "100Gbps", "--rtt", "10ms", "--loss", "0.1%"];
    let text = execute_with(&line, never).expect("an answer");
    assert!(text.starts_with("100Gbps, round trip 10ms, 0.1 % of packets lost"), "{text}");
    let json = [&line[..], &["--json", "--flows", "10", "--window", "5000"]].concat();
    let json: serde_json::Value =
        serde_json::from_str(&execute_with(&json, never).expect("an answer")).expect("JSON");
    assert_eq!((&json["question"]["flows"], &json["window_needed"]), (&10.into(), &5984.into()));
    assert_eq!(json["simulated"], serde_json::Value::Null);

    for (option, part) in [
        (["--loss", "0.6"], "0 to 0.5"),
        (["--pmtu", "1500"], "256, 512, 1024, 2048 or 4096"),
        (["--rate", "fast"], "is no rate"),
        (["--rtt", "1ns"], "1us to 10s"),
        (["--burst", "0.5"], "1 to 1000000 packets"),
    ] {
        let mut words = vec!["lr2-sim", "plan"];
        for pair in line[1..].chunks(2) {
            words.extend(if pair[0] == option[0] { &option[..] } else { pair });
        }
        if !words.contains(&option[0]) {
            words.extend(option);
        }
        let error = Cli::try_parse_from(words).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
    let bursts = ["plan", "--rate", "1Gbps", "--rtt", "1ms", "--loss", "50%", "--burst", "1.0001"];
    let error = execute(&bursts).map(|_| ());
    assert!(error.is_ok(), "half of all in bursts of one is just possible");
}

#[test]
fn a_plan_may_try_a_workload() {
    let half = |s: &Scenario, scheme: Scheme, seed: u64| {
        assert!(matches!(s.traffic[..], [Traffic::Poisson { flows: 30, .. }]), "{:?}", s.traffic);
        fake(s, scheme, seed)
    };
    let line = ["plan", "--rate", "100Gbps", "--rtt", "10ms", "--loss", "1e-3"];
    let with = |workload| [&line[..], &["--workload", workload, "--messages", "30"]].concat();
    let text = execute_with(&with("websearch"), half).expect("an answer");
    assert!(text.contains("Simulated: 30 messages, sizes of websearch, half of"), "{text}");
    let simulated = &text[text.find("Simulated").expect("there")..];
    for scheme in ["lossless", "gbn", "lr2", "cached"] {
        assert!(row(simulated, scheme).len() > 4, "{text}");
    }
    let failure = execute_with(&with("none.cdf"), half).expect_err("no such file");
    assert!(
        failure.message.starts_with("--workload: found \"none.cdf\", which can't be read"),
        "{}",
        failure.message
    );
    assert!(!Path::new("none.cdf").exists());
}
