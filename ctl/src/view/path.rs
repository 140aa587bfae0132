//! The paths behind the WAN ports, for people.

use api::Paths;

use super::{some, span};
use crate::table::Table;

/// Bytes of an Ethernet header, which an MTU leaves out.
const ETHER_LEN: u16 = 14;

/// `/paths`.
pub fn paths(it: &Paths) -> String {
    let mut table = Table::new(&[
        "<port",
        "<peer",
        "round trip",
        "lost probes",
        "longest frame",
        "shortest lane",
        "needed",
        "path MTU",
    ]);
    for path in &it.paths {
        let bytes = |bytes: u16| some((bytes > 0).then_some(bytes), |bytes| bytes.to_string());
        let mtu = path.frame_bytes.saturating_sub(ETHER_LEN);
        table.row([
            path.port.to_string(),
            some(path.peer.clone(), |peer| peer),
            some(path.round_trip, span),
            format!("{} of {}", path.lost, path.probes),
            bytes(path.frame_bytes),
            bytes(path.shortest_lane_bytes),
            bytes(path.needed_bytes),
            bytes(mtu),
        ]);
    }
    table.text("there is no tunnel, and so there are no paths")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_reaches_the_peer() {
        let path = api::Path {
            port: "wan".into(),
            peer: Some("192.0.2.2".into()),
            frame_bytes: 1414,
            shortest_lane_bytes: 1414,
            needed_bytes: 1588,
            round_trip: Some(0.0105),
            probes: 64,
            lost: 3,
        };
        let unknown = api::Path { port: "wan1".into(), needed_bytes: 1588, ..api::Path::default() };
        let text = paths(&Paths { paths: vec![path, unknown] });
        let rows: Vec<Vec<_>> = text
            .lines()
            .map(|line| line.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect())
            .collect();
        assert_eq!(
            rows[1],
            ["wan", "192.0.2.2", "10.5 ms", "3 of 64", "1414", "1414", "1588", "1400"]
        );
        assert_eq!(rows[2], ["wan1", "-", "-", "0 of 0", "-", "-", "1588", "-"]);
        assert_eq!(paths(&Paths::default()), "there is no tunnel, and so there are no paths\n");
    }
}
