//! Whether a queue pair still works.

use common::psn::Seq;
use common::time::{Span, Time};

use crate::rnic_check::check::{Check, Context, Fate, Packet};
use crate::rnic_check::flow::Reply;
use crate::rnic_check::trail::Trail;

/// For so long it is looked at.
const LOOKED_AT: Span = Span::from_millis(500);

/// New requests are sent and answered.
#[derive(Default)]
pub struct Alive {
    began: Option<(Time, Seq)>,
    errors: u32,
}

impl Check for Alive {
    fn trail(&mut self) -> Option<&mut Trail> {
        None
    }

    fn on_reply(&mut self, reply: &Reply, _: Packet<'_>, _: &mut Context<'_>) -> Fate {
        self.errors += u32::from(reply.response.is_nak());
        Fate::Forward
    }

    fn on_time(&mut self, cx: &mut Context<'_>) {
        let flow = cx.flow;
        let acked = flow.acked;
        let (began, first) = *self.began.get_or_insert((cx.now, acked));
        // One that died meanwhile leaves packets that are not acknowledged.
        let works = flow.is_settled() || flow.acked_at >= began + LOOKED_AT / 2;
        if cx.now.since(began) >= LOOKED_AT && acked > first && works {
            let span = cx.now.since(began).as_nanos() / 1_000_000;
            let words = format!(
                "{} PSNs were acknowledged in {span} ms, with {} NAKs",
                acked.since(first),
                self.errors
            );
            cx.judge(self.errors == 0, words);
        }
    }

    fn so_far(&mut self) -> Option<String> {
        self.began.map(|_| format!("nothing was acknowledged in the end, {} NAKs", self.errors))
    }
}
