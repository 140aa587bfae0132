//! Results for spreadsheets and data frames: one heading line, comma-separated,
//! quoted where needed (RFC 4180 but for the line ends). An empty field did not end, or
//! there was nothing to measure.

use csv::Writer;

use super::{Study, Sweep};
use crate::results::summary::{Group, Summary};
use crate::results::{Distribution, RunResult};

/// Each message of each run: `scheme, seed, traffic, round, src, dst, bytes,
/// long_haul, due_us, posted_us, fct_us, ideal_us, slowdown`.
pub fn csv_flows(study: &Study) -> String {
    let head = "scheme,seed,traffic,round,src,dst,bytes,long_haul,due_us,posted_us,fct_us,\
                ideal_us,slowdown";
    table(head.split(','), study.results.iter().flat_map(flows))
}

fn flows(run: &RunResult) -> impl Iterator<Item = Vec<String>> {
    run.flows.iter().map(|flow| {
        let spec = &flow.spec;
        vec![
            run.scheme.name().to_owned(),
            run.seed.to_string(),
            spec.traffic.to_string(),
            spec.round.to_string(),
            spec.src.to_string(),
            spec.dst.to_string(),
            spec.bytes.to_string(),
            flow.is_long_haul.to_string(),
            micros(flow.due.min(flow.posted).as_nanos()),
            micros(flow.posted.as_nanos()),
            optional(flow.fct().map(|fct| micros(fct.as_nanos()))),
            micros(flow.ideal.as_nanos()),
            optional(flow.slowdown()),
        ]
    })
}

const GROUP_HEAD: &str = "scope,size,messages,unfinished,fct_mean_us,fct_p50_us,fct_p95_us,\
                          fct_p99_us,fct_p999_us,slowdown_mean,slowdown_p50,slowdown_p95,\
                          slowdown_p99,slowdown_p999,goodput_bps,message_goodput_bps,\
                          useful_share,sent_twice_share";

/// The messages of each scheme by scope (`all`, `long_haul`, `within`) and size
/// (`all`, or the bytes of the bucket's bound). Goodput and the shares of the
/// link are given for all sizes only.
pub fn csv_summary(study: &Study) -> String {
    let summaries = study.summaries();
    let rows = summaries.iter().flat_map(|summary| {
        let scheme = summary.scheme.name().to_owned();
        groups(summary).into_iter().map(move |group| [&[scheme.clone()][..], &group].concat())
    });
    table(format!("scheme,{GROUP_HEAD}").split(','), rows)
}

/// As [`csv_summary`], for each point of each sweep. If there are several, `outer`
/// names the key that changes from sweep to sweep, and its values: a column in front.
pub fn csv_sweeps(sweeps: &[Sweep], outer: Option<(&str, &[String])>) -> String {
    let mut rows = Vec::new();
    for (n, sweep) in sweeps.iter().enumerate() {
        for point in &sweep.points {
            for summary in &point.summaries {
                let mut lead: Vec<_> =
                    outer.map(|(_, values)| values[n].clone()).into_iter().collect();
                let scheme = summary.scheme.name().to_owned();
                lead.extend([point.x.to_string(), point.label.clone(), scheme]);
                rows.extend(groups(summary).into_iter().map(|group| [&lead[..], &group].concat()));
            }
        }
    }
    let outer = outer.map_or(String::new(), |(name, _)| format!("{name},"));
    table(format!("{outer}x,label,scheme,{GROUP_HEAD}").split(','), rows)
}

/// The fields of [`GROUP_HEAD`] of each scope and size that has messages.
fn groups(summary: &Summary) -> Vec<Vec<String>> {
    let scopes =
        [("all", &summary.all), ("long_haul", &summary.long_haul), ("within", &summary.within)];
    let mut rows = Vec::new();
    for (scope, group) in scopes {
        if group.fct_us.count == 0 {
            continue;
        }
        let Group { fct_us, slowdown, goodput_bps, message_goodput_bps, sizes, .. } = group;
        let of_link =
            |share: f64| if scope == "within" { String::new() } else { share.to_string() };
        let rates = [
            goodput_bps.to_string(),
            message_goodput_bps.to_string(),
            of_link(summary.link.useful_share),
            of_link(summary.link.sent_twice_share),
        ];
        rows.push(fields(scope, "all", fct_us, slowdown, rates));
        for bucket in sizes.iter().filter(|bucket| bucket.fct_us.count > 0) {
            let bound = bucket.up_to_bytes.map_or("larger".to_owned(), |bytes| bytes.to_string());
            rows.push(fields(scope, &bound, &bucket.fct_us, &bucket.slowdown, Default::default()));
        }
    }
    rows
}

fn fields(
    scope: &str,
    size: &str,
    fct_us: &Distribution,
    slowdown: &Distribution,
    rates: [String; 4],
) -> Vec<String> {
    let mut row = vec![scope.to_owned(), size.to_owned()];
    row.extend([fct_us.count, fct_us.unfinished].map(|count| count.to_string()));
    for d in [fct_us, slowdown] {
        row.extend([d.mean, d.p50, d.p95, d.p99, d.p999].map(optional));
    }
    row.extend(rates);
    row
}

/// A table with this heading; each row has as many fields.
pub(crate) fn table<'h>(
    head: impl IntoIterator<Item = &'h str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(head).expect("memory can be written");
    for row in rows {
        writer.write_record(row).expect("a row has as many fields as the heading");
    }
    let bytes = writer.into_inner().expect("memory can be flushed");
    String::from_utf8(bytes).expect("all fields are strings")
}

/// Nanoseconds as microseconds, exactly.
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
