//! Two switches with a bad link between them, each beside one without fast paths that does the same.

use proptest::prelude::*;
use switch::Recovery;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_switch_does_what_one_without_fast_paths_does(
        operations in prop::collection::vec(any::<u8>(), 1..600),
    ) {
        testkit::operations::switch::run(&operations);
    }
}

/// An ACK on the fast path must not leave the count of NAKs since the newest ACK as it was (R-NAK-5).
#[test]
fn a_source_is_asked_again_after_fast_paths() {
    for recovery in [Recovery::Lr2, Recovery::Cached, Recovery::Auto] {
        testkit::operations::switch::rewinds_between_fast_paths(recovery);
    }
}
