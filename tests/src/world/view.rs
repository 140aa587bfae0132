//! What a test sees of a run.

use common::allowance::Allowance;
use common::metrics::Counters;
use common::recorder::Record;
use common::time::Time;
use rnic::Nic;

use super::{BOXES_START, TO_SWITCH, WAN_OUT, World};
use crate::link::Link;
use crate::tunnel::Tunnelling;
use crate::workers::Workers;

impl World {
    /// Packets that the ring of host `me` had no room for.
    pub fn overflowed(&self, me: usize) -> u64 {
        self.ends[me].ring.as_ref().map_or(0, |ring| ring.lost)
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Payload bytes and packets accepted at NIC `me`.
    pub fn nic(&self, me: usize) -> &Nic {
        &self.ends[me].nic
    }

    /// Counters of each worker of switch `me`.
    pub fn counters(&self, me: usize) -> impl Iterator<Item = &Counters> {
        self.ends[me].switch.iter().flat_map(Workers::counters)
    }

    /// What box `me` has recorded.
    pub fn records(&self, me: usize) -> Vec<Record> {
        let recorders = self.ends[me].switch.iter().flat_map(Workers::recorders);
        recorders.flat_map(|it| (it.start()..it.end()).filter_map(|n| it.get(n))).collect()
    }

    /// Frames that came to the boxes from the LANs, and that were sent between the boxes.
    pub fn frames(&self) -> [u64; 2] {
        let links = self.ends.iter().map(|end| &end.links);
        let all = links.map(|links| {
            let lan = links[TO_SWITCH].fate;
            let wan: u64 = links[WAN_OUT..].iter().map(|link| link.fate.offered).sum();
            [lan.offered - lan.lost, wan]
        });
        all.fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]])
    }

    /// Checks that the boxes sent no more repair frames than numbered ones (R-TUN-67), and besides these three frames for each
    /// one from the LANs at most, and a hundred in a second for each worker (R-TUN-62, R-MSG-7); where messages have a budget, as many more as a full bucket of each box pays for. Tests without the
    /// budget have no such bound.
    pub(super) fn check_frames(&self) {
        let [lan, wan] = self.frames();
        let fates = self.ends.iter().flat_map(|end| &end.links[WAN_OUT..]).map(|link| link.fate);
        let [repairs, numbered] =
            fates.fold([0; 2], |[r, n], fate| [r + fate.repairs, n + fate.numbered]);
        assert!(repairs <= numbered, "{repairs} repair frames for {numbered} numbered ones");
        let wan = wan - repairs;
        let seconds = self.now.since(BOXES_START).as_secs_f64();
        let tunnels = f64::from(self.scenario.division().tunnels());
        let is_ample = self.scenario.early_per_second == Allowance::AMPLE;
        // SYNCs with their STATUS, of both boxes. A tunnel has a hundred messages of its own in a second.
        let syncs = match self.scenario.tunnel {
            Tunnelling::No | Tunnelling::WithLanRepair(_) if is_ample => return,
            Tunnelling::No => f64::from(2 * Allowance::SAVED),
            Tunnelling::WithLanRepair(_) => {
                2.0 * (f64::from(Allowance::SAVED) + f64::from(Allowance::PER_SECOND) * seconds)
            }
            _ => 0.0,
        };
        let most = 3.0 * lan as f64 + tunnels * (100.0 * seconds + 2.0 * syncs);
        if std::env::var_os("FRAMES").is_some() {
            println!(
                "{lan} frames of the LANs, {wan} on the WAN in {seconds:.3} s, {:.2}",
                wan as f64 / most
            );
        }
        assert!(wan as f64 <= most, "{wan} frames on the WAN for {lan} in {seconds:.3} s");
    }

    /// The long-haul link from `me` on.
    pub fn wan(&self, me: usize) -> &Link {
        &self.ends[me].links[WAN_OUT]
    }

    /// The LAN from nic `me` to its switch.
    pub fn from_nic(&self, me: usize) -> &Link {
        &self.ends[me].links[TO_SWITCH]
    }

    /// Queue pairs that failed, in all incarnations.
    pub fn dead(&self) -> usize {
        self.fates.iter().filter(|fate| fate.died.is_some()).count()
    }
}
