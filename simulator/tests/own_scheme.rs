//! The example of a scheme of one's own, as `docs/simulator.md` shows it.
//!
//! A program of its own: a scheme that is registered is known to all tests of a process.

#[path = "../examples/own_scheme.rs"]
#[allow(dead_code, reason = "`main` of the example")]
mod example;

use simulator::scheme::Scheme;
use simulator::schemes;

#[test]
fn a_scheme_of_ones_own_takes_one_file() {
    let figures = example::compare();
    let [lossless, gbn, twice] = ["lossless", "gbn", "twice"].map(|name| {
        let figures = figures.iter().find(|figures| figures.scheme.name() == name);
        figures.and_then(|figures| figures.main().fct_us.mean).expect("it ran")
    });
    assert!(lossless < twice && 2.0 * twice < gbn, "{lossless} {twice} {gbn}");
    assert_eq!(schemes::named("twice").map(Scheme::name), Some("twice"));
}

#[test]
fn the_manual_shows_the_example() {
    let manual = include_str!("../../docs/simulator.md");
    let example = include_str!("../examples/own_scheme.rs");
    assert!(manual.contains(&format!("```rust\n{example}```\n")), "copy it into the manual");
}
