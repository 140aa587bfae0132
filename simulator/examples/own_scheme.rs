//! A scheme of one's own: gateways that send each data packet twice.

use common::frame::{Class, Frame, Packet, Side, Sink};
use common::time::Time;
use common::wire::parse;
use simulator::frame::SimFrame;
use simulator::node::{Egress, Middlebox};
use simulator::results::Summary;
use simulator::scheme::Scheme;
use simulator::schemes::{self, Class as Kind, Look, Marker, Place, Profile, SchemeModel};
use simulator::{input, run};

struct Twice;

impl SchemeModel for Twice {
    fn profile(&self) -> Profile {
        Profile {
            name: "twice",
            about: "Gateways send each data packet twice.",
            class: Kind::Peer,
            look: Look {
                light: 0x8250DF,
                dark: 0xA371F7,
                dashes: "",
                width: 2,
                marker: Marker::Down,
            },
        }
    }

    fn gateway(&self, _: &Place<'_>) -> Box<dyn Middlebox> {
        Box::new(Repeater)
    }
}

struct Repeater;

impl Middlebox for Repeater {
    fn receive(&mut self, side: Side, frame: SimFrame, _: Time, out: &mut Egress) {
        let is_data = parse(frame.bytes()).is_ok_and(|roce| roce.opcode.kind().is_request());
        if side == Side::Lan && is_data {
            out.transmit(Side::Wan, Class::Data, Packet::Owned(frame.clone()));
        }
        out.transmit(side.other(), Class::Data, Packet::Owned(frame));
    }
}

const SCENARIO: &str = r#"
    schemes = ["lossless", "gbn", "twice"]
    [long_haul]
    rate = "10Gbps"
    rtt = "1ms"
    loss = 1e-2
    [site]
    host_rate = "4Gbps"
    [[traffic]]
    kind = "long"
    bytes = "8MB"
"#;

/// Runs the scenario, and returns the figures of each scheme.
pub fn compare() -> Vec<Summary> {
    schemes::register(&Twice);
    let scenario = input::parse("twice.toml".as_ref(), SCENARIO, &[]).expect("a scenario");
    let figures = |scheme: &Scheme| {
        let runs = scenario.seeds.iter().map(|seed| run::run(&scenario, *scheme, *seed));
        let runs: Vec<_> = runs.collect::<Result<_, _>>().expect("queue pairs");
        Summary::of(*scheme, &runs).expect("it ran")
    };
    scenario.schemes.iter().map(figures).collect()
}

fn main() {
    for figures in compare() {
        let mean = figures.main().fct_us.mean.expect("it ended");
        println!("{:10} {mean:9.0} us", figures.scheme.name());
    }
}
