//! The answer for people: one screen.

use std::fmt::Write;

use common::time::Span;
use settings::units::{show_duration, show_rate, show_size};

use super::{MESSAGES, Plan, Simulated};
use crate::report::format::{bytes, count, micros, number, rate, share};
use crate::results::Summary;
use crate::text::{Column, Table, percent, wrapped};

/// Columns of a terminal.
const WIDTH: usize = 80;

/// `plan` as text, with a line end behind the last line.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, plan);
    out
}

fn write(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let q = &plan.question;
    let bursts = match q.burst > 1.0 {
        true => format!(" in bursts of {}", q.burst),
        false => String::new(),
    };
    writeln!(
        out,
        "{}, round trip {}, {} of packets lost{bursts}, path MTU {}\n\
         {} packets ({}) in flight fill it; retransmission timeout {}\n",
        show_rate(q.rate_bps),
        show_duration(q.rtt),
        percent(q.loss),
        q.pmtu,
        count(plan.packets_in_flight.round() as u64),
        bytes(plan.memory.bdp),
        time(plan.timeout),
    )?;
    schemes(out, plan)?;
    let m = &plan.memory;
    writeln!(
        out,
        "\nMemory of each of the two gateways, both directions protected, workers: {}",
        q.workers
    )?;
    let mut table = Table::new([
        "  resend_cache",
        "reorder_pool",
        "backup_pool",
        "mbufs",
        "hugepages of 2 MiB",
    ]);
    table.row([
        format!("  {}", show_size(m.resend_cache)),
        show_size(m.reorder_pool),
        show_size(m.backup_pool),
        format!("{} of {} B", count(m.mbufs), count(m.mbuf_size)),
        format!("{} ({} MiB)", count(m.hugepages), count(m.total.div_ceil(1 << 20))),
    ]);
    out.push_str(&table.to_string());
    writeln!(
        out,
        "RNICs must be allowed {} packets in flight per queue pair.",
        count(plan.window_needed)
    )?;
    if let Some(simulated) = &plan.simulated {
        simulation(out, simulated)?;
    }
    if !plan.warnings.is_empty() {
        writeln!(out, "\nLook out for:")?;
    }
    for warning in &plan.warnings {
        writeln!(out, "{}", wrapped(warning, WIDTH, "- ", "  "))?;
    }
    Ok(())
}

fn schemes(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let flows = match plan.question.flows {
        1 => "one long flow".to_owned(),
        n => format!("{} long flows", count(n.into())),
    };
    writeln!(out, "{:<34}{flows:<31}a message alone, mean time", "What repairs")?;
    let mut heads =
        vec!["".to_owned(), "".into(), "goodput".into(), "useful".into(), "sent".into()];
    heads.extend(MESSAGES.map(bytes));
    let mut table = Table::new(heads);
    for outlook in &plan.schemes {
        let mut row = vec![
            outlook.scheme.name().to_owned(),
            outlook.about.into(),
            rate(outlook.goodput_bps),
            share(outlook.efficiency),
            format!("{:.2} x", outlook.sends_per_packet),
        ];
        row.extend(outlook.fct_s.map(|seconds| micros(seconds * 1e6)));
        table.row(row);
    }
    out.push_str(&table.to_string());
    Ok(())
}

fn simulation(out: &mut String, simulated: &Simulated) -> std::fmt::Result {
    writeln!(out, "\nSimulated: {}", simulated.about)?;
    let columns: [Column<Summary>; 6] = [
        ("", |s| s.scheme.name().to_owned()),
        ("mean time", |s| told(s.main().fct_us.mean)),
        ("99th percentile", |s| told(s.main().fct_us.p99)),
        ("slowdown", |s| s.main().slowdown.mean.map_or("–".into(), number)),
        ("link used", |s| share(s.link.useful_share)),
        ("sent twice", |s| share(s.link.sent_twice_share)),
    ];
    out.push_str(&Table::of(&columns, &simulated.summaries).to_string());
    Ok(())
}

fn told(us: Option<f64>) -> String {
    us.map_or("not all done".into(), micros)
}

fn time(span: Span) -> String {
    micros(span.as_nanos() as f64 / 1e3)
}
