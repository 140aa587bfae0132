//! Earlier findings of the fuzzers, without a fuzzer: every input of the corpus
//! goes through its target.

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_passes() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, run) in fuzz::TARGETS {
        let inputs = fs::read_dir(corpus.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut count = 0;
        for input in inputs {
            let path = input.unwrap().path();
            println!("{}", path.display());
            run(&fs::read(&path).unwrap());
            count += 1;
        }
        assert!(count > 0, "{name} has no corpus");
    }
}
