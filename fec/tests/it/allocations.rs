//! Encoder and decoder allocate no memory per frame.

use fec::{Decoder, Encoder, Plan};
use galois::Kernel;

#[test]
fn neither_end_allocates() {
    let (mut encoder, mut decoder) =
        (Encoder::new(Kernel::best(), 100), Decoder::new(Kernel::best(), 100));
    let (mut number, mut decoded) = (0, 0);
    let counted = allocation_counter::measure(|| {
        for (streams, every) in [(1, 16), (32, 128), (4, 8)] {
            let plan = Plan::new(streams, every, 4).unwrap();
            decoder.repair(&encoder.start(plan, number), &[], number);
            for _ in 0..20_000 {
                let repair = encoder.add(number, &[&[7; 90], &number.to_be_bytes()]);
                if number % 100 > 0 {
                    decoder.frame(number, &[&[7; 90], &number.to_be_bytes()]);
                }
                number += 1;
                if let Some((repair, bytes)) = repair {
                    decoder.repair(&repair, bytes, number);
                    while decoder.decoded().is_some() {
                        decoded += 1;
                    }
                }
            }
        }
    });
    assert_eq!(counted.count_total, 0);
    assert!(decoded > 300, "{decoded}");
}
