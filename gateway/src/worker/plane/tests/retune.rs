//! Timers and pools that change while two workers have a tunnel.

use super::*;

// R-TUN-60
#[test]
fn timers_and_pools_reach_the_tunnel_and_lose_no_frame() {
    let mut link = Link::new();
    link.pass(Span::from_millis(200));
    link.lose_one_in = 9;
    let config = config(1);
    let start = tunnel::Tuning::of(&config.sender, &config.receiver);
    let switch = switch::Config::lab(switch::Recovery::Off, 1, 1).settings();
    let sent: Vec<_> = (0..2_000).map(frame).collect();
    for (n, frame) in sent.iter().enumerate() {
        for me in 0..2 {
            link.boxes[me].rx[0].arrive(frame.clone());
            if n % 150 == 50 * me {
                let k = n / 150 % 3;
                let tunnel = tunnel::Tuning {
                    rtt: Span::from_millis([1, 20, 5][k]),
                    cache_max: [200, 1_000, 300][k],
                    waiting_max: [300, 200, 1_000][k],
                    give_up: Span::from_millis([60, 500, 20][k]),
                    report_interval: Span::from_micros([1_000, 100, 400][k]),
                    ..start
                };
                let change = Change::Settings(Box::new(datapath::Settings { switch, tunnel }));
                link.boxes[me].set.push(change).expect("room");
            }
        }
        link.step();
    }
    link.pass(Span::from_millis(40));
    for me in 0..2 {
        assert_eq!(link.boxes[1 - me].tx[0].taken(), sent);
        let delivered = [LaneIo::Ordered, LaneIo::Late, LaneIo::Unordered];
        assert_eq!(delivered.map(|what| link.lane(me, what))[1..], [0, 0]);
    }
}
