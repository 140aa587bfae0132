//! docs/api.md has the requests that are answered, each with its method, and no others.

use std::collections::BTreeSet;

use super::PATHS;

const PAGE: &str = include_str!("../../../../docs/api.md");
const SOURCES: [&str; 4] = [
    include_str!("../routes.rs"),
    include_str!("capturing.rs"),
    include_str!("protection.rs"),
    include_str!("several.rs"),
];

/// Methods and paths, in which `*` stands for a number or a name.
type Requests = BTreeSet<(String, String)>;

/// Those of the code: `.route("/capture/{number}", get(...).delete(...))`.
fn answered() -> Requests {
    let mut all = Requests::new();
    let routes = SOURCES.iter().flat_map(|source| source.split(".route(\"").skip(1));
    for route in routes {
        let (path, rest) = route.split_once("\", ").expect("a path and its methods");
        let path = match path.split_once('{') {
            Some((start, _)) => format!("{start}*"),
            None => path.to_owned(),
        };
        let methods = rest.lines().next().unwrap_or_default();
        for (word, method) in
            [("get(", "GET"), ("put(", "PUT"), ("post(", "POST"), (".delete(", "DELETE")]
        {
            // `.route(path, any(..))` refuses requests over TCP that only the Unix socket answers.
            if methods.starts_with(word) || word.starts_with('.') && methods.contains(word) {
                all.insert((method.to_owned(), path.clone()));
            }
        }
    }
    all
}

/// Those of a table of the page: its first cells have them between backticks, with or without a method.
fn documented(title: &str) -> Requests {
    let (_, rest) = PAGE.split_once(&format!("\n## {title}\n")).expect("the title");
    let table = rest.split("\n#").next().unwrap_or_default();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let requests = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let request = |text: &str| {
        let (method, path) = text.split_once(' ').unwrap_or(("GET", text));
        let path = path.split('?').next()?;
        let is_place =
            |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase());
        let parts = path.split('/').map(|part| if is_place(part) { "*" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        path.starts_with('/').then(|| (method.to_owned(), path))
    };
    requests.filter_map(request).collect()
}

#[test]
fn the_page_has_every_request_and_no_other() {
    let reads = documented("Read");
    let all: Requests = reads.union(&documented("Change")).cloned().collect();
    assert_eq!(answered(), all, "the code, and docs/api.md");
    assert!(all.len() >= 27, "{all:?}");
    // The answer to a path that there is not.
    let named: Requests = PATHS.iter().map(|path| ("GET".to_owned(), (*path).to_owned())).collect();
    assert_eq!(named, reads);
}
