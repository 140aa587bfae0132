use super::*;
use crate::division::Part;
use crate::features::LansRepaired;
use common::ids::{BootId, NodeId};

const RTT: Span = Span::from_millis(20);
const MOST: u16 = 1_600;

fn lane(n: u8) -> Lane {
    Lane::new(n).expect("a lane")
}

/// Paths of lanes, in steps of a millisecond.
struct Network {
    paths: Paths,
    now: Time,
    rtt: Span,
    /// By lane: the longest frame that its path carries.
    carries: Vec<u16>,
    /// Echoes under way.
    echoes: Vec<(Time, Lane, Time, u16)>,
    /// Probes that were sent.
    probes: Vec<(Lane, u16)>,
}

impl Network {
    fn new(lanes: u8, ports: u8) -> Self {
        let config = SessionConfig {
            node: NodeId(1),
            boot: BootId(1),
            random: 1,
            part: Part::WHOLE,
            lanes,
            ports,
            lans: LansRepaired::Off,
            frame_max: MOST,
            overhead: 42,
            hello_interval: Span::from_millis(1_000),
            peer_timeout: Span::from_millis(3_000),
        };
        let (mut paths, now) = (Paths::new(), Time::from_nanos(1_000_000_000));
        paths.begin(&config, now, MOST);
        let carries = vec![MOST; lanes.into()];
        Self { paths, now, rtt: RTT, carries, echoes: Vec::new(), probes: Vec::new() }
    }

    /// Passes so many milliseconds, and returns the probes of this time.
    fn pass(&mut self, ms: u64) -> Vec<(Lane, u16)> {
        let before = self.probes.len();
        for _ in 0..ms {
            self.now += Span::from_millis(1);
            let now = self.now;
            for (_, lane, sent_at, size) in self.echoes.extract_if(.., |echo| echo.0 <= now) {
                self.paths.on_echo(now, lane, sent_at, size);
            }
            while let Some((lane, sizes)) = self.paths.next(now) {
                for size in sizes {
                    self.probes.push((lane, size));
                    if size <= self.carries[lane.index()] {
                        self.echoes.push((now + self.rtt, lane, now, size));
                    }
                }
            }
        }
        self.probes[before..].to_vec()
    }

    fn limits(&self) -> Vec<u16> {
        let lanes = Lane::all(self.carries.len() as u8);
        lanes.map(|lane| self.paths.limit(lane)).collect()
    }
}

/// One PATH in a second on each port, however many lanes it has, on each lane in turn, and no more when the session begins.
#[test]
fn lanes_of_a_port_are_checked_in_turn() {
    for (lanes, ports) in [(1, 1), (16, 1), (255, 1), (16, 8)] {
        let mut network = Network::new(lanes, ports);
        let seconds = u64::from(lanes.div_ceil(ports));
        let probes = network.pass(seconds * (1_000 + 20) + 300);
        assert!(probes.iter().all(|(_, size)| *size == MOST));
        let by_lane = |n| probes.iter().filter(|(it, _)| *it == lane(n)).count();
        assert!((0..lanes).all(|n| (1..=2).contains(&by_lane(n))), "{lanes} {ports}");
        assert!(probes.len() as u64 <= (seconds + 2) * u64::from(ports));
        assert_eq!(network.limits(), vec![MOST; lanes.into()]);
    }
}

/// The path of all lanes of a port becomes short: the lane that is found first decides, and the others agree.
#[test]
fn all_lanes_of_a_port_fall_together() {
    let mut network = Network::new(32, 2);
    network.pass(20_000);
    for n in (0..32).step_by(2) {
        network.carries[n] = 1_414;
    }
    let probes = network.pass(3_000);
    let expected = [1_414, MOST].repeat(16);
    assert_eq!(network.limits(), expected);
    let probes = [probes, network.pass(2_000)].concat();
    // A search takes some 70, and each other lane nine.
    println!("{}", probes.len());
    assert!((80..250).contains(&probes.len()), "{}", probes.len());
    // Then one look for longer frames in five seconds.
    let probes = network.pass(20_000);
    assert!(probes.len() < 20 * 2 + 4 * 12, "{}", probes.len());
    assert_eq!(network.limits(), expected);
    network.carries.fill(MOST);
    network.pass(8_000);
    assert_eq!(network.limits(), [MOST; 32]);
}

/// A fall is found within three seconds where the round trip is up to 100 ms, whenever it comes and whatever is left.
#[test]
fn a_fall_is_found_within_three_seconds() {
    for (rtt, most) in [(1, 3), (10, 3), (30, 3), (60, 3), (100, 3), (300, 6)] {
        for (n, left) in [128, 400, 1_000, 1_414, 1_500, MOST - 1].into_iter().enumerate() {
            let mut network = Network::new(4, 1);
            network.rtt = Span::from_millis(rtt);
            network.pass(20_000 + 190 * n as u64);
            network.carries.fill(left);
            let probes = network.pass(most * 1_000).len();
            assert_eq!(network.limits(), [left; 4], "{rtt} ms");
            assert!(probes < 100 * most as usize, "{rtt} ms: {probes}");
        }
    }
}

/// The path of one lane of sixteen becomes short, and loses long frames: it is looked at next. The others are whole again at once.
#[test]
fn a_lane_that_loses_long_frames_is_looked_at_soon() {
    let mut network = Network::new(16, 1);
    network.pass(20_000);
    // It has just had its turn.
    while network.pass(1).first() != Some(&(lane(7), MOST)) {}
    network.pass(RTT.as_nanos() / 1_000_000);
    network.carries[7] = 900;
    let mut expected = vec![MOST; 16];
    network.pass(100);
    network.paths.on_loss(network.now, lane(7), 400);
    assert_eq!(network.pass(700), [], "a short frame says nothing");
    network.paths.on_loss(network.now, lane(7), 1_200);
    network.pass(2_000);
    expected[7] = 900;
    assert_eq!(network.limits(), expected);
}

/// A flow that a filter refuses takes the checks from no other lane, and makes them four in a second at most.
#[test]
fn a_refused_flow_keeps_no_lane_from_its_turn() {
    let mut network = Network::new(8, 1);
    network.pass(10_000);
    network.carries[3] = 1_000;
    let before = network.probes.len();
    for _ in 0..5_000 {
        network.paths.on_loss(network.now, lane(0), 1_500);
        network.pass(1);
    }
    assert_eq!(network.limits()[3], 1_000);
    network.carries[3] = MOST;
    for _ in 0..20_000 {
        network.paths.on_loss(network.now, lane(0), 1_500);
        network.pass(1);
    }
    assert_eq!(network.limits(), [MOST; 8]);
    let probes = network.probes.len() - before;
    assert!((100..25 * 4 + 150).contains(&probes), "{probes}");
}

/// A path that carries nothing is not short, and costs some probes in a second.
#[test]
fn silence_says_nothing() {
    let mut network = Network::new(4, 1);
    network.pass(10_000);
    network.carries.fill(0);
    let probes = network.pass(60_000);
    assert_eq!(network.limits(), [MOST; 4]);
    assert!(probes.len() < 60 * 10, "{}", probes.len());
    let state = network.paths.state(Port::default());
    assert!(state.checks > 40 && state.lost > 40, "{state:?}");
    // One lane of four: the others have their turns.
    network.carries = vec![1_500, 0, 1_500, 1_500];
    network.pass(8_000);
    assert_eq!(network.limits(), [1_500; 4]);
    // They still have.
    network.carries[3] = MOST;
    network.pass(25_000);
    assert_eq!(network.limits(), [1_500, 1_500, 1_500, MOST]);
}

/// A length that was not carried before is too long after three losses in three rounds.
#[test]
fn an_unproven_length_is_too_long_after_three_losses() {
    for (losses, limit) in [(2, MOST), (3, 1_500)] {
        let mut network = Network::new(1, 1);
        network.carries[0] = 1_500;
        network.pass(5_000);
        assert_eq!(network.limits(), [1_500]);
        let mut lost = 0;
        while lost < losses {
            lost += network.pass(1).iter().filter(|probe| probe.1 == MOST).count();
        }
        network.carries[0] = MOST;
        network.pass(500);
        assert_eq!(network.limits(), [limit]);
    }
}

/// Paths of three lengths at one port.
#[test]
fn lanes_of_a_port_may_differ() {
    let mut network = Network::new(6, 1);
    network.pass(2_000);
    network.carries = vec![MOST, 1_300, 1_400, 1_300, MOST, 1_400];
    network.pass(12_000);
    assert_eq!(network.limits(), network.carries);
    let probes = network.pass(30_000);
    assert_eq!(network.limits(), network.carries);
    assert!(probes.len() < 30 + 6 * 15, "{}", probes.len());
    // Each of the four short ones has its turn in twenty seconds.
    network.carries[5] = MOST;
    network.pass(23_000);
    assert_eq!(network.limits(), network.carries);
}

/// Eight losses in a row, behind that of the probe that is sent alone, make a length too long that was carried before.
#[test]
fn a_proven_length_is_too_long_after_eight_losses() {
    for (losses, limit) in [(8, MOST), (9, MOST - 1)] {
        let mut network = Network::new(1, 1);
        network.pass(5_000);
        network.carries[0] = MOST - 1;
        let mut lost = 0;
        while lost < losses {
            lost += network.pass(1).iter().filter(|probe| probe.1 == MOST).count();
        }
        network.carries[0] = MOST;
        network.pass(1_000);
        assert_eq!(network.limits(), [limit]);
    }
}
