//! How many of the lost frames are left to a resend.

use fec::{Decoder, Encoder, Plan};
use galois::Kernel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Lost frames that were decoded or not, and how many numbers later.
struct Share {
    lost: u64,
    left: u64,
    mean_delay: f64,
}

impl Share {
    fn left(&self) -> f64 {
        self.left as f64 / self.lost as f64
    }
}

/// `frames` frames and their repair frames, of which the part `loss` is lost in bursts of mean length `burst`.
fn run(plan: Plan, loss: f64, burst: f64, frames: u64, seed: u64) -> Share {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut is_bad = false;
    // Gilbert's two states: all is lost in the bad one.
    let mut is_lost = move || {
        let change = if is_bad { 1.0 / burst } else { loss / (1.0 - loss) / burst };
        if burst > 1.0 {
            is_bad ^= rng.random_bool(change);
        } else {
            is_bad = rng.random_bool(loss);
        }
        is_bad
    };
    let (mut encoder, mut decoder) =
        (Encoder::new(Kernel::best(), 8), Decoder::new(Kernel::best(), 8));
    decoder.repair(&encoder.start(plan, 0), &[], 0);
    let (mut lost, mut decoded, mut delays) = (0, 0, 0);
    for number in 0..frames {
        let frame = number.to_be_bytes();
        let repair = encoder.add(number, &[&frame]);
        // The last ones have no repair frames behind them.
        let is_counted = number + 2 * plan.span() < frames;
        if is_lost() {
            lost += u64::from(is_counted);
        } else {
            decoder.frame(number, &[&frame]);
        }
        if let Some((repair, bytes)) = repair
            && !is_lost()
        {
            decoder.repair(&repair, bytes, number + 1);
            while let Some((from, frame)) = decoder.decoded() {
                assert_eq!(frame, from.to_be_bytes());
                if from + 2 * plan.span() < frames {
                    decoded += 1;
                    delays += number - from;
                }
            }
        }
    }
    let share = Share { lost, left: lost - decoded, mean_delay: delays as f64 / decoded as f64 };
    println!(
        "{plan:?}, loss {loss}, bursts of {burst}: {} of {lost} left, {:.1e}; {:.0} numbers later",
        share.left,
        share.left(),
        share.mean_delay
    );
    share
}

fn plan(streams: u8, every: u8, windows: u8) -> Plan {
    Plan::new(streams, every, windows).unwrap()
}

#[test]
fn independent_losses_are_hardly_left_to_a_resend() {
    assert!(run(plan(1, 64, 4), 1e-3, 1.0, 600_000, 2).left() < 4e-3);
    assert!(run(plan(1, 32, 8), 1e-2, 1.0, 100_000, 3).left() < 3e-3);
    assert!(run(plan(1, 16, 8), 1e-2, 1.0, 100_000, 4).left() < 1e-3);
    // More frames are lost than repair frames are sent.
    assert!(run(plan(1, 128, 4), 1e-2, 1.0, 100_000, 5).left() > 0.8);
}

#[test]
fn streams_are_against_bursts() {
    // Without streams, most bursts are more than the repair frames of their window.
    assert!(run(plan(1, 64, 4), 1e-3, 4.0, 300_000, 5).left() > 0.4);
    assert!(run(plan(8, 64, 4), 1e-3, 4.0, 300_000, 6).left() < 1e-2);
    assert!(run(plan(32, 64, 4), 1e-3, 16.0, 300_000, 8).left() < 1e-2);
}

#[test]
fn a_lost_frame_is_decoded_within_its_window() {
    let share = run(plan(1, 64, 4), 1e-3, 1.0, 200_000, 9);
    assert!((25.0..60.0).contains(&share.mean_delay), "{}", share.mean_delay);
}
