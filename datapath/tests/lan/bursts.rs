//! Frames that no pipeline takes stay in their bursts.

use super::*;

/// Transmitted frames by side, and the lengths of the bursts that they left in.
#[derive(Default)]
struct Counted {
    wires: Wires,
    bursts: [Vec<usize>; 2],
}

impl Counted {
    fn all<const N: usize>(&mut self, side: Side, packets: &mut ArrayVec<Packet<HeapFrame>, N>) {
        self.bursts[side.index()].push(packets.len());
        packets.drain(..).for_each(|packet| self.transmit(side, Class::Data, packet));
    }
}

impl Sink for Counted {
    type Frame = HeapFrame;

    fn transmit(&mut self, side: Side, class: Class, packet: Packet<HeapFrame>) {
        self.wires.transmit(side, class, packet);
    }
}

impl Ports for Counted {
    fn wait(&mut self, _: Port) -> Option<Span> {
        Some(Span::ZERO)
    }

    fn room(&mut self, _: Port) -> usize {
        usize::MAX
    }

    fn wan_all<const N: usize>(
        &mut self,
        _: Port,
        frames: &mut ArrayVec<<HeapFrame as Frame>::Shared, N>,
    ) {
        let mut packets = frames.drain(..).map(Packet::Shared).collect::<ArrayVec<_, N>>();
        self.all(Side::Wan, &mut packets);
    }

    fn lan_all<const N: usize>(&mut self, frames: &mut ArrayVec<HeapFrame, N>) {
        let mut packets = frames.drain(..).map(Packet::Owned).collect::<ArrayVec<_, N>>();
        self.all(Side::Lan, &mut packets);
    }

    fn local(&mut self, _: Port, _: HeapFrame) {}
}

impl Link {
    /// Frames arrive together. Returns how they left.
    fn burst(&mut self, me: usize, side: Side, frames: Vec<Vec<u8>>) -> Counted {
        let mut ports = Counted::default();
        let mut burst: ArrayVec<_, 32> = frames.into_iter().map(HeapFrame::from).collect();
        let way = (side, Port::default());
        self.ends[me].burst(way, &mut burst, self.now, &mut HeapPool, &mut ports);
        assert!(self.ends[me].as_tunnel().unwrap().is_balanced());
        ports
    }

    /// Frames cross together. Returns how they left both ends.
    fn cross(&mut self, frames: Vec<Vec<u8>>) -> [Counted; 2] {
        let sent = self.burst(0, Side::Lan, frames);
        let received = self.burst(1, Side::Wan, sent.wires.0[1].clone());
        [sent, received]
    }
}

/// R-TUN-28
#[test]
fn while_no_pair_is_watched_bursts_stay_whole() {
    let mut link = Link::new(Which::AfterNak);
    let mut frames: Vec<_> = (0..28).map(|n| write(1 + n % 2 * 2, 2 + n % 2 * 2, 5)).collect();
    frames.extend([arp(), response(1, 2, 5, 0x1f), response(1, 2, 5, 0x20), arp()]);
    let [sent, received] = link.cross(frames.clone());
    assert_eq!(sent.bursts, [vec![], vec![32]]);
    assert_eq!(received.bursts, [vec![32], vec![]]);
    assert_eq!(received.wires.0[0], frames);
    assert_eq!(link.all_counts().map(|counts| counts.direct), [[32, 0], [0, 32]]);
}

/// R-TUN-28: and those of a watched pair keep their order, from the NAK in the middle of a burst on.
#[test]
fn only_packets_of_watched_pairs_leave_their_burst() {
    let mut link = Link::new(Which::AfterNak);
    let mut frames = Vec::new();
    for psn in 0..14 {
        frames.extend([write(1, 2, psn), write(3, 4, psn)]);
    }
    frames.insert(10, response(1, 2, 6, 0x60));
    let [sent, received] = link.cross(frames.clone());
    assert_eq!(link.pairs(), [Some(1), Some(1)]);
    // Five of the pair before the NAK, and all of the other one; then the NAK and nine.
    assert_eq!(sent.bursts[1][0], 5 + 14);
    assert_eq!(received.bursts[0], [5 + 14]);
    let of = |pair: u8, frames: &[Vec<u8>]| -> Vec<_> {
        let is_one = |frame: &&Vec<u8>| frame[29] == pair && frame[42] < 0xe0;
        frames.iter().filter(is_one).cloned().collect()
    };
    for pair in [1, 3] {
        assert_eq!(of(pair, &received.wires.0[0]), of(pair, &frames), "hosts {pair}");
    }
    assert_eq!(link.repaired().map(|frames| frames >= 10), [true, true]);
    assert_eq!(link.all_counts().map(|counts| counts.direct), [[19, 0], [0, 19]]);
    // The other pair has bursts of its own from then on.
    let others: Vec<_> = (14..30).map(|psn| write(3, 4, psn)).collect();
    let [sent, received] = link.cross(others);
    assert_eq!((&sent.bursts[1], &received.bursts[0]), (&vec![16], &vec![16]));
}
