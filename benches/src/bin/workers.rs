//! Does one case in one thread, and then in several at once, each with state of its own, as workers do:
//! `lr2-workers CASE THREADS SECONDS`. Says how often each does it in a second of its time on a CPU, and how many times
//! one thread's rate all of them together reach. The rate includes making the frames. Time that other programs take on the CPUs
//! does not count. Caches and memory are shared by the threads, and lower the rate.

use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use benches::{Case, case};

/// Rounds between two looks at the clock.
const ROUNDS: u32 = 256;

/// Nanoseconds that this thread was on a CPU; `None` if the kernel does not say.
fn on_cpu() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// How often in a second on a CPU one thread does the case, while all do.
fn rate(case: &Case, all: &Barrier, time: Duration) -> Option<f64> {
    let mut stage = (case.make)();
    all.wait();
    let (done, cpu, end) = (stage.done(), on_cpu()?, Instant::now() + time);
    while Instant::now() < end {
        for _ in 0..ROUNDS {
            stage.prepare();
            stage.run();
        }
    }
    let (done, cpu) = (stage.done() - done, on_cpu()? - cpu);
    // One that is done before the others would leave them the caches.
    all.wait();
    Some(done as f64 * 1e9 / cpu as f64)
}

fn rates(case: &Case, threads: usize, time: Duration) -> Vec<f64> {
    let all = Barrier::new(threads);
    std::thread::scope(|scope| {
        let each: Vec<_> = (0..threads).map(|_| scope.spawn(|| rate(case, &all, time))).collect();
        each.into_iter().filter_map(|thread| thread.join().ok()?).collect()
    })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let known = match &arguments[..] {
        [name, threads, seconds] => case(name).zip(threads.parse().ok()).zip(seconds.parse().ok()),
        _ => None,
    };
    let Some(((case, threads), seconds)) = known else {
        eprintln!("lr2-workers CASE THREADS SECONDS; lr2-instructions names the cases");
        return ExitCode::from(2);
    };
    let time = Duration::from_secs(seconds);
    let (one, all) = (rates(case, 1, time), rates(case, threads, time));
    let show = |rates: &[f64]| {
        rates.iter().map(|rate| format!("{:.3}", rate / 1e6)).collect::<Vec<_>>().join(" + ")
    };
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    println!(
        "{}: {} M in a second on a CPU; {threads} at once: {}; together {:.2} times",
        case.name,
        show(&one),
        show(&all),
        sum(&all) / sum(&one)
    );
    ExitCode::SUCCESS
}
