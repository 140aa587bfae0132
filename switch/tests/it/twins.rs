//! Two switches with a bad link between them, each beside one without fast paths that does the same.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_switch_does_what_one_without_fast_paths_does(
        operations in prop::collection::vec(any::<u8>(), 1..600),
    ) {
        testkit::operations::switch::run(&operations);
    }
}
