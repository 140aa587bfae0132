//! The command line of one link: its ports and its impairments.

use clap::Parser;
use common::time::Span;

use link::{
    Corruption, CorruptionScope, DirectionConfig, Invalid, LossModel, Outage, Reordering,
    wire_bytes,
};
use settings::{device, units};

/// One link. Frames received at A leave at B and the other way round.
#[derive(Parser, Clone, Debug)]
#[command(name = "lr2-wan ... --next", next_help_heading = "Link")]
pub struct LinkOptions {
    /// First port: a DPDK virtual device (net_memif0,...) or PCI address
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    pub a: String,
    /// Second port
    #[arg(long, value_name = "DEVICE", value_parser = device::parse)]
    pub b: String,
    /// Name of the link in the counters
    #[arg(long, default_value = "link")]
    pub name: String,
    /// How long a port may refuse frames that are due, until they are dropped. The default is less
    /// than the time for which other programs' rings take frames, and more than a scheduler's slice
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = units::duration)]
    pub patience: Span,
    /// Rate on the wire, 24 bytes of overhead per frame included [default: unlimited]
    #[arg(long, value_parser = each(units::rate_or_bits))]
    rate: Vec<Each<u64>>,
    /// Wire bytes that may wait for the line [default: 50 ms, at most 64 MiB]
    #[arg(long, value_name = "SIZE", value_parser = each(units::size_or_bytes))]
    queue: Vec<Each<u64>>,
    /// One-way delay
    #[arg(long, value_name = "TIME", value_parser = each(units::duration))]
    delay: Vec<Each<Span>>,
    /// Further delay, uniform from 0 to this
    #[arg(long, value_name = "TIME", value_parser = each(units::duration))]
    jitter: Vec<Each<Span>>,
    /// Let jitter change the order of frames
    #[arg(long)]
    jitter_reorders: bool,
    /// Share of frames lost at random
    #[arg(long, value_name = "SHARE", value_parser = each(units::share))]
    loss: Vec<Each<f64>>,
    /// Lose them in bursts of this many frames on average (Gilbert)
    #[arg(long, value_name = "FRAMES", value_parser = each(number))]
    burst: Vec<Each<f64>>,
    /// Gilbert-Elliott loss: probability per frame of turning bad, of turning good, loss while
    /// bad [1], loss while good [0]
    #[arg(long, value_name = "P,R[,BAD[,GOOD]]", value_parser = each(gilbert_elliott))]
    ge: Vec<Each<LossModel>>,
    /// Frames to lose, counted from 1 in each direction
    #[arg(long, value_name = "N,...", value_parser = each(frame_numbers))]
    drop: Vec<Each<FrameNumbers>>,
    /// Share of frames that take longer and are overtaken, and by how much longer
    #[arg(long, value_name = "SHARE,TIME", value_parser = each(reordering))]
    reorder: Vec<Each<Reordering>>,
    /// Share of frames that arrive twice
    #[arg(long, value_name = "SHARE", value_parser = each(units::share))]
    duplicate: Vec<Each<f64>>,
    /// Share of frames with flipped bits, and how many bits [1]
    #[arg(long, value_name = "SHARE[,BITS]", value_parser = each(corruption))]
    corrupt: Vec<Each<Corruption>>,
    /// Flip bits anywhere, also where no ICRC reveals it
    #[arg(long)]
    corrupt_anywhere: bool,
    /// When the link is dead, from the start of the program
    #[arg(long, value_name = "START,DURATION[,EVERY]", value_parser = each(outage))]
    outage: Vec<Each<Outage>>,
}

/// A list of frame numbers.
#[derive(Clone, Debug)]
struct FrameNumbers(Vec<u64>);

/// A value for both directions (`None`) or one of them.
#[derive(Clone, Debug)]
struct Each<T> {
    direction: Option<usize>,
    value: T,
}

/// A parser of `VALUE`, `ab:VALUE` or `ba:VALUE`.
fn each<T: 'static>(
    parse: fn(&str) -> Result<T, String>,
) -> impl Fn(&str) -> Result<Each<T>, String> + Clone + Send + Sync + 'static {
    move |text| {
        let (direction, value) = match text.split_once(':') {
            Some(("ab" | "a", value)) => (Some(0), value),
            Some(("ba" | "b", value)) => (Some(1), value),
            Some((other, _)) => return Err(format!("direction {other:?}: expected ab or ba")),
            None => (None, text),
        };
        parse(value).map(|value| Each { direction, value })
    }
}

/// The last value that holds for `direction`.
fn pick<T: Clone>(values: &[Each<T>], direction: usize) -> Option<T> {
    let mut fitting = values.iter().rev().filter(|v| v.direction.is_none_or(|d| d == direction));
    fitting.next().map(|v| v.value.clone())
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no number"))
}

fn gilbert_elliott(text: &str) -> Result<LossModel, String> {
    let parts = text.split(',').map(units::share).collect::<Result<Vec<f64>, _>>()?;
    match parts[..] {
        [to_bad, to_good, ref rest @ ..] if rest.len() <= 2 => Ok(LossModel::GilbertElliott {
            to_bad,
            to_good,
            loss_bad: rest.first().copied().unwrap_or(1.0),
            loss_good: rest.get(1).copied().unwrap_or(0.0),
        }),
        _ => Err(format!("{text:?}: expected two to four shares, P,R[,BAD[,GOOD]]")),
    }
}

fn frame_numbers(text: &str) -> Result<FrameNumbers, String> {
    let parse = |n: &str| n.trim().parse().map_err(|_| format!("{n:?} is no frame number"));
    text.split(',').map(parse).collect::<Result<_, _>>().map(FrameNumbers)
}

fn reordering(text: &str) -> Result<Reordering, String> {
    match text.split_once(',') {
        Some((share, extra)) => {
            Ok(Reordering { probability: units::share(share)?, extra: units::duration(extra)? })
        }
        None => Err(format!("{text:?}: expected SHARE,TIME such as 1%,500us")),
    }
}

fn corruption(text: &str) -> Result<Corruption, String> {
    let (share, bits) = text.split_once(',').unwrap_or((text, "1"));
    let bits = bits.trim().parse().map_err(|_| format!("{bits:?} is no number of bits"))?;
    Ok(Corruption { probability: units::share(share)?, bits, ..Corruption::default() })
}

fn outage(text: &str) -> Result<Outage, String> {
    let spans = text.split(',').map(units::duration).collect::<Result<Vec<Span>, _>>()?;
    match spans[..] {
        [start, duration] => Ok(Outage { start, duration, every: None }),
        [start, duration, every] => Ok(Outage { start, duration, every: Some(every) }),
        _ => Err(format!("{text:?}: expected START,DURATION or START,DURATION,EVERY")),
    }
}

/// Default size of the line's queue, as time at the line's rate.
const DEFAULT_QUEUE_TIME: Span = Span::from_millis(50);
const MOST_DEFAULT_QUEUE: u64 = 64 << 20;
/// Mean frame that memory is set aside for. Where data flows one way and ACKs
/// the other, it is far more.
const MEAN_FRAME: usize = 1000;
/// For a direction without a rate, which has no bound to frames in flight.
const UNLIMITED_RATE: u64 = 10_000_000_000;

impl LinkOptions {
    /// The directions A to B and B to A.
    ///
    /// # Errors
    /// Everything that is out of range.
    pub fn directions(&self) -> Result<[DirectionConfig; 2], Invalid> {
        let ab = self.direction(0);
        let ba = self.direction(1);
        let mut wrong = Vec::new();
        for (name, direction) in [("A to B", &ab), ("B to A", &ba)] {
            let errors = match direction {
                Ok(config) => config.check().err().unwrap_or_default(),
                Err(error) => vec![error.clone()],
            };
            wrong.extend(errors.into_iter().map(|e| format!("{name}: {e}")));
        }
        match (ab, ba) {
            (Ok(ab), Ok(ba)) if wrong.is_empty() => Ok([ab, ba]),
            _ => Err(Invalid(wrong.join("\n"))),
        }
    }

    fn direction(&self, n: usize) -> Result<DirectionConfig, Invalid> {
        let rate = pick(&self.rate, n);
        let default_queue = || rate.map_or(u64::MAX, default_queue);
        let loss = match (pick(&self.ge, n), pick(&self.loss, n), pick(&self.burst, n)) {
            (None, None, _) => LossModel::None,
            (None, Some(p), None) => LossModel::Bernoulli(p),
            (None, Some(p), Some(burst)) => LossModel::bursts(p, burst)?,
            (Some(model), None, None) => model,
            (Some(_), ..) => {
                return Err(Invalid("--ge says it all: leave out --loss and --burst".into()));
            }
        };
        let mut corruption = pick(&self.corrupt, n).unwrap_or_default();
        if self.corrupt_anywhere {
            corruption.scope = CorruptionScope::Every;
        }
        Ok(DirectionConfig {
            rate,
            queue: pick(&self.queue, n).unwrap_or_else(default_queue),
            delay: pick(&self.delay, n).unwrap_or_default(),
            jitter: pick(&self.jitter, n).unwrap_or_default(),
            jitter_reorders: self.jitter_reorders,
            loss,
            drop: pick(&self.drop, n).map_or_else(Vec::new, |numbers| numbers.0),
            reordering: pick(&self.reorder, n).unwrap_or_default(),
            duplication: pick(&self.duplicate, n).unwrap_or_default(),
            corruption,
            outage: pick(&self.outage, n),
        })
    }
}

fn default_queue(rate: u64) -> u64 {
    (bytes_in(rate, DEFAULT_QUEUE_TIME)).min(MOST_DEFAULT_QUEUE)
}

fn bytes_in(rate: u64, time: Span) -> u64 {
    time.scale(rate, 8_000_000_000).as_nanos()
}

/// How many frames of [`MEAN_FRAME`] a direction holds when it is full.
pub(super) fn frames_on_their_way(config: &DirectionConfig) -> u64 {
    let time = config.delay + config.jitter + config.reordering.extra;
    let flying = bytes_in(config.rate.unwrap_or(UNLIMITED_RATE), time);
    let waiting = config.rate.map_or(0, |_| config.queue);
    flying.saturating_add(waiting).div_ceil(wire_bytes(MEAN_FRAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<LinkOptions, clap::Error> {
        LinkOptions::try_parse_from(
            ["lr2-wan", "--a", "net_null0", "--b", "net_null1"].iter().chain(args),
        )
    }

    fn directions(args: &[&str]) -> [DirectionConfig; 2] {
        parse(args).expect("parses").directions().expect("valid")
    }

    #[test]
    fn nothing_asked_for_is_a_plain_wire() {
        assert_eq!(directions(&[]), [DirectionConfig::default(), DirectionConfig::default()]);
    }

    #[test]
    fn options_hold_for_both_directions_or_one() {
        let [ab, ba] = directions(&[
            "--rate",
            "1Gbps",
            "--delay",
            "5ms",
            "--delay",
            "ba:7ms",
            "--loss",
            "ab:1%",
            "--burst",
            "4",
            "--drop",
            "b:17,18",
            "--reorder",
            "1%,500us",
            "--corrupt",
            "ba:1e-4,2",
            "--outage",
            "ab:1s,20ms,2s",
        ]);
        assert_eq!((ab.rate, ba.rate), (Some(1_000_000_000), Some(1_000_000_000)));
        assert_eq!((ab.delay, ba.delay), (Span::from_millis(5), Span::from_millis(7)));
        assert_eq!(ab.loss, LossModel::bursts(0.01, 4.0).expect("possible"));
        assert_eq!(ba.loss, LossModel::None);
        assert_eq!((ab.drop, ba.drop), (vec![], vec![17, 18]));
        assert_eq!(ab.reordering.extra, Span::from_micros(500));
        assert_eq!(ba.corruption.bits, 2);
        assert_eq!(ab.queue, 6_250_000);
        assert!(ab.outage.is_some() && ba.outage.is_none());
    }

    #[test]
    fn gilbert_elliott_has_two_to_four_parameters() {
        let [ab, _] = directions(&["--ge", "0.1%,25%,80%"]);
        let expected = LossModel::GilbertElliott {
            to_bad: 0.001,
            to_good: 0.25,
            loss_bad: 0.8,
            loss_good: 0.0,
        };
        assert_eq!(ab.loss, expected);
        assert!(parse(&["--ge", "0.1"]).is_err());
        assert!(parse(&["--ge", "1,1,1,1,1"]).is_err());
    }

    #[test]
    fn mistakes_are_told() {
        for (args, part) in [
            (vec!["--rate", "fast"], "Gbps"),
            (vec!["--delay", "up:1ms"], "expected ab or ba"),
            (vec!["--drop", "1,x"], "no frame number"),
            (vec!["--reorder", "1%"], "SHARE,TIME"),
        ] {
            let error = parse(&args).expect_err("wrong").to_string();
            assert!(error.contains(part), "{error}");
        }
        let both = parse(&["--loss", "90%", "--burst", "1", "--corrupt", "ba:1%,9"]);
        let error = both.expect("parses").directions().expect_err("impossible").to_string();
        assert!(error.contains("A to B: loss rate 0.9"), "{error}");
        let twice = parse(&["--ge", "1%,50%", "--loss", "1%"]).expect("parses").directions();
        assert!(twice.expect_err("both").to_string().contains("--ge"));
    }
}
