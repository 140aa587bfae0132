//! A lost packet, left to the RNICs.

use common::time::Time;

use crate::rnic_check::check::{Check, Context, Fate, Packet};
use crate::rnic_check::flow::{Reply, Request};
use crate::rnic_check::trail::{Trail, count, time};

/// One packet of a message is dropped.
#[derive(Default)]
pub struct Gap {
    trail: Option<Trail>,
    /// When the first packet behind it went on.
    behind: Option<Time>,
    /// When the second NAK came.
    second_nak: Option<Time>,
}

impl Check for Gap {
    fn trail(&mut self) -> Option<&mut Trail> {
        self.trail.as_mut()
    }

    fn on_request(&mut self, request: &Request, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if Trail::begin(&mut self.trail, request, cx) {
            return Fate::Drop;
        }
        if let Some(trail) = &mut self.trail {
            trail.on_request(request, cx.now);
            self.behind.get_or_insert(cx.now);
        }
        Fate::Forward
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, cx: &mut Context<'_>) -> Fate {
        if let Some(trail) = &mut self.trail {
            trail.on_reply(reply, cx.now);
            if reply.is_nak() && trail.naks == 2 {
                self.second_nak = Some(cx.now);
            }
        }
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let Some(trail) = &mut self.trail else { return };
        if !trail.is_over(cx.flow, cx.now, cx.hold) {
            return;
        }
        let Some((repeat_at, repeated)) = trail.first_repeat else {
            return cx.judge(false, "the packet was never sent again, and the queue pair went on");
        };
        let behind = self.behind.unwrap_or(trail.since);
        let Some((nak_at, nak)) = trail.first_nak else {
            let after = time(repeat_at.since(trail.since));
            return cx.judge(
                false,
                format!("no NAK; the requester sent the packet again {after} after its loss"),
            );
        };
        let mut words = vec![
            format!(
                "{} {} after the first packet behind the gap",
                count(trail.naks, "NAK"),
                time(nak_at.since(behind))
            ),
            format!(
                "the requester went back {} after the NAK and sent {} again",
                time(repeat_at.since(nak_at)),
                count(trail.repeats, "packet")
            ),
        ];
        if let Some(second) = self.second_nak {
            words.push(format!(
                "the second NAK came {} after the first",
                time(second.since(nak_at))
            ));
        }
        let is_selective = trail.repeats == 1 && trail.high > trail.at.next().next();
        let discards = !trail.kept_behind && !is_selective;
        words.push(match (discards, is_selective) {
            (true, _) => "the responder discards what is behind a gap".into(),
            (_, true) => "only the lost packet was sent again: selective repeat".into(),
            _ => "the responder keeps what is behind a gap".into(),
        });
        if nak != trail.at {
            words.push("the NAK has another PSN than the lost packet".into());
        }
        if repeated != trail.at {
            words.push("the requester began with another PSN than the lost packet".into());
        }
        let is_expected = trail.naks == 1 && discards && nak == trail.at && repeated == trail.at;
        cx.judge(is_expected && trail.errors == 0, words.join("; "));
    }
}
