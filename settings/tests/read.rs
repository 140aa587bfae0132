//! Reading a file: accepted values, and the problems reported for all others.

use std::path::Path;

use settings::{Document, Override, Report, Section};

/// Reads every kind of value from `text`.
fn read(text: &str, options: &[(&str, &str)]) -> Result<Vec<String>, Report> {
    let overrides: Vec<_> = options
        .iter()
        .map(|(key, value)| Override {
            key: (*key).into(),
            value: (*value).into(),
            option: format!("--over {key}={value}"),
            ..Override::default()
        })
        .collect();
    settings::parse(Path::new("x.toml"), text, &overrides, all)
}

fn all(doc: &Document<'_>, mut root: Section<'_>) -> Vec<String> {
    let mut out = Vec::new();
    let mut link = root.section("link");
    out.push(format!("{:?}", link.rate("rate", 1_000, 1_000_000_000_000)));
    out.push(format!("{:?}", link.share("loss", 0.0, 0.5)));
    out.push(format!("{:?}", link.number("burst", 1.0, 100.0, "packets")));
    let mut inner = link.section("inner");
    out.push(format!("{:?}", inner.int("n", 0, 9, "")));
    inner.finish();
    link.finish();
    out.push(format!("{:?}", root.choices("words", &[("one", 1), ("two", 2), ("three", 3)])));
    for mut item in root.sections("item") {
        item.require("bytes", "a size");
        let bytes = item.size("bytes", 1, 1 << 20);
        out.push(format!("{} {bytes:?}", item.name()));
        item.finish();
    }
    if doc.is_set("link.loss") && doc.is_set("link.burst") {
        doc.problem("link.burst", "a burst beside loss", "one of them");
    }
    root.finish();
    out
}

fn good(text: &str, options: &[(&str, &str)]) -> String {
    read(text, options).unwrap_or_else(|report| panic!("{report}")).join(" ")
}

fn bad(text: &str, options: &[(&str, &str)]) -> Vec<String> {
    let report = read(text, options).expect_err("must be refused").to_string();
    report.lines().map(str::to_owned).collect()
}

#[test]
fn quantities_are_read() {
    let text = "words = [\"two\", \"one\"]\n[link]\nrate = \"2.5Gbps\"\nloss = \"1%\"\n\
                inner = { n = 0x7 }\n[[item]]\nbytes = \"1KiB\"\n";
    let all = "Some(2500000000) Some(0.01) None Some(7) Some([2, 1]) item[1] Some(1024)";
    assert_eq!(good(text, &[]), all);
    assert!(good("[link]\nloss = 1e-3\n", &[]).contains("Some(0.001)"));
    assert!(good("[link]\nloss = 0\n", &[]).contains("Some(0.0)"));
    assert!(good("[link]\nburst = 8\n", &[]).contains("Some(8.0)"));
}

#[test]
fn every_problem_is_told_at_once() {
    let text = "words = [\"two\", \"four\", \"two\"]\n\
                [link]\n\
                rate = \"2.5\"\n\
                loss = \"60%\"\n\
                burst = inf\n\
                [link.inner]\n\
                n = 10\n\
                m = 1\n\
                [[item]]\n\
                [[item]]\n\
                bytes = 5\n";
    assert_eq!(
        bad(text, &[]),
        [
            "x.toml:1:17: words: found \"four\"; allowed: \"one\", \"two\", \"three\"",
            "x.toml:1:25: words: found \"two\" again; allowed: each once",
            "x.toml:3:8: link.rate: found \"2.5\"; allowed: 1kbps to 1Tbps, written as a number \
             and one of bps, kbps, Mbps, Gbps, Tbps, e.g. \"100Gbps\"",
            "x.toml:4:8: link.loss: found \"60%\"; allowed: 0 to 0.5, written as a number such as \
             1e-3, or a percentage such as \"0.1%\"",
            "x.toml:5:9: link.burst: found inf; allowed: 1 to 100 packets",
            "x.toml:5:9: link.burst: found a burst beside loss; allowed: one of them",
            "x.toml:7:5: link.inner.n: found 10; allowed: 0 to 9",
            "x.toml:8:1: link.inner.m: found an unknown key; allowed: did you mean \"n\"?",
            "x.toml:9:1: item[1].bytes: found nothing; allowed: a size",
            "x.toml:11:9: item[2].bytes: found 5; allowed: 1B to 1MiB, written as a number and \
             one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, e.g. \"64MiB\"",
        ]
    );
}

#[test]
fn options_take_the_place_of_what_the_file_says() {
    let text = "[link]\nrate = \"1Gbps\"\n[[item]]\nbytes = \"1B\"\n[[item]]\nbytes = \"2B\"\n";
    let all = "Some(5000000000) Some(0.001) None Some(3) None item[1] Some(9) item[2] Some(9)";
    let options = [
        ("link.rate", "5Gbps"),
        ("link.loss", "1e-3"),
        ("link.inner.n", "3"),
        ("item.bytes", "9B"),
    ];
    assert_eq!(good(text, &options), all);
    // A list takes it where it stands already, ...
    let text = "[[item]]\nbytes = \"1B\"\n[[item]]\n";
    assert_eq!(bad(text, &[("item.bytes", "9B")]).len(), 1);
    // ... or everywhere.
    let text = "[[item]]\n[[item]]\n";
    assert!(good(text, &[("item.bytes", "9B")]).ends_with("item[1] Some(9) item[2] Some(9)"));
}

#[test]
fn an_option_may_mean_what_another_key_says() {
    let read = |text: &str, key: &str, value: &str| {
        let option = Override {
            key: key.into(),
            value: value.into(),
            replaces: Some("link.delay".into()),
            single: Some("rate".into()),
            ..Override::default()
        };
        settings::parse(Path::new("x.toml"), text, &[option], |_, mut root| {
            let mut link = root.section("link");
            let is_table = link.is_table("loss");
            let mut loss = link.section("loss");
            let read = (loss.number("rate", 0.0, 1.0, ""), loss.number("burst", 1.0, 9.0, ""));
            loss.finish();
            link.finish();
            (is_table, read)
        })
        .unwrap_or_else(|report| panic!("{report}"))
    };
    let gone = "[link]\ndelay = \"1ms\"\nloss = { rate = 0.5, burst = 2 }\n";
    assert_eq!(read(gone, "link.loss", "0.25"), (true, (Some(0.25), Some(2.0))));
    let table = "[link]\nloss = { rate = 0.5, burst = 2 }\n";
    assert_eq!(read(table, "link.loss", "{ burst = 3 }"), (true, (None, Some(3.0))));
    let value = "[link]\nloss = 0.5\n";
    assert_eq!(read(value, "link.loss.burst", "3"), (true, (Some(0.5), Some(3.0))));
}

#[test]
fn what_is_wrong_with_an_option_names_the_option() {
    let text = "[link]\nrate = \"1Gbps\"\nloss = 2\n";
    let lines = bad(text, &[("link.rate", "fast"), ("link.speed", "1"), ("link.inner.n", "99")]);
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].starts_with("x.toml:3:8: link.loss: found 2;"), "{}", lines[0]);
    for start in [
        "--over link.rate=fast: link.rate: found fast; allowed: 1kbps to 1Tbps",
        "--over link.speed=1: link.speed: found an unknown key; allowed: ",
        "--over link.inner.n=99: link.inner.n: found 99; allowed: 0 to 9",
    ] {
        assert!(lines.iter().any(|l| l.starts_with(start)), "{start}: {lines:#?}");
    }
}

#[test]
fn a_file_that_is_not_there() {
    let report = settings::load(Path::new("/nonexistent/x.toml"), &[], all).expect_err("none");
    let text = report.to_string();
    assert!(text.starts_with("/nonexistent/x.toml: found a file that can't be read: No such"));
}

/// One table in the place of another, section by section.
#[test]
fn a_section_stands_over_another_one() {
    const OWN: &[&str] = &["name", "link"];
    let text = "[link]\nrate = 1\ndelay = 2\n[[pair]]\nlink.delay = 3\n[[pair]]\nlnk.delay = 4\nlink.colour = 5\n";
    let read = |at: usize| {
        let mut found = (None, None, false, false);
        let report = settings::parse("it.toml".as_ref(), text, &[], |doc, mut root| {
            let pair = root.sections("pair").swap_remove(at);
            let mut over = pair.over(&root, OWN);
            let mut link = over.section("link");
            let (rate, delay) = (link.int("rate", 0, 9, ""), link.int("delay", 0, 9, ""));
            let own = doc.own();
            found = (rate, delay, own.contains("link.rate"), own.contains("link.delay"));
            link.finish();
            assert!(over.is_table("link") && !over.has("name"));
            let _ = over.sections("pair");
            over.finish();
        });
        (found, report.map_err(|report| report.to_string()))
    };
    assert_eq!(read(0), ((Some(1), Some(3), false, true), Ok(())));
    let (found, report) = read(1);
    assert_eq!(found, (Some(1), Some(2), false, false));
    let unknown = "it.toml:7:1: pair[2].lnk: found an unknown key; allowed: did you mean \"link\"?\n\
                   it.toml:8:6: link.colour: found an unknown key; allowed: rate, delay";
    assert_eq!(report, Err(unknown.to_owned()));
}
