//! Near the receiver: puts packets in order, asks for those that are missing, and repairs
//! loss behind it.

use std::collections::BTreeMap;

use common::frame::{Class, Frame, Side};
use common::psn::Seq;
use common::time::{Span, Time};
use common::wire::{Response, Roce, parse};
use hashbrown::HashMap;

use super::Context;
use super::hop::{Gap, MOST_GAPS, Message, Status, plain};
use crate::frame::SimFrame;
use crate::peers::{Backup, Map, Ports, acknowledge, answered, flow};

/// Packets delivered from one STATUS without gaps to the next.
const TOLD_EVERY: u32 = 16;

struct Flow {
    /// The next in order, and one past the highest that came.
    expected: u32,
    high: u32,
    /// Ahead of a gap; `None`: the other switch doesn't have it.
    early: BTreeMap<u32, Option<SimFrame>>,
    /// Packets delivered since the last report to the other switch.
    untold: u32,
    /// When the next report or request is due.
    tell_at: Time,
    /// PSN of the newest packet delivered.
    newest: Option<Seq>,
    /// Delivered and not acknowledged, by rising PSN.
    backup: Backup,
}

impl Flow {
    const fn new() -> Self {
        Self {
            expected: 0,
            high: 0,
            early: BTreeMap::new(),
            untold: 0,
            tell_at: Time::NEVER,
            newest: None,
            backup: Backup::new(),
        }
    }

    /// Missing packets before `high`.
    fn gaps(&self) -> Vec<Gap> {
        let mut gaps = Vec::new();
        let mut from = self.expected;
        for number in self.early.keys().copied().chain([self.high]) {
            if from < number {
                gaps.push((from, number));
            }
            from = number + 1;
        }
        gaps.truncate(MOST_GAPS);
        gaps
    }
}

pub(super) struct Far {
    flows: HashMap<u32, Flow, foldhash::fast::FixedState>,
    numbers: Map<u32>,
    rtt: Span,
    early: u64,
    backup: u64,
    /// No flow's timer goes off earlier.
    next: Time,
}

impl Far {
    pub(super) fn new(rtt: Span) -> Self {
        Self {
            flows: HashMap::default(),
            numbers: Map::default(),
            rtt,
            early: 0,
            backup: 0,
            next: Time::NEVER,
        }
    }

    /// A packet from the other switch.
    pub(super) fn on_data(
        &mut self,
        frame: &SimFrame,
        roce: &Roce,
        cx: &mut Context<'_, impl Ports>,
    ) {
        let Some((number, at, frame)) = plain(frame) else { return };
        self.numbers.insert(flow(roce), number);
        let flow = self.flows.entry(number).or_insert_with(Flow::new);
        if at < flow.expected || flow.early.contains_key(&at) {
            // The other switch doesn't know that it came.
            return self.tell(number, cx);
        }
        let is_news = at > flow.high;
        flow.high = flow.high.max(at + 1);
        if at > flow.expected && cx.memory.take(&frame) {
            self.early += frame.bytes().len() as u64;
            flow.early.insert(at, Some(frame));
            if is_news {
                self.tell(number, cx);
            }
            return;
        }
        // Without room nothing is gained by waiting for a gap.
        for missing in flow.expected..at {
            flow.early.entry(missing).or_insert(None);
        }
        self.drain(number, cx);
        let Some(flow) = self.flows.get_mut(&number) else { return };
        flow.expected += 1;
        self.deliver(number, frame, cx);
        self.drain(number, cx);
    }

    /// The other switch doesn't have these.
    pub(super) fn on_gone(&mut self, number: u32, gaps: &[Gap], cx: &mut Context<'_, impl Ports>) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        for at in gaps.iter().flat_map(|(from, to)| *from..*to) {
            if at >= flow.expected {
                flow.early.entry(at).or_insert(None);
            }
        }
        flow.high = flow.high.max(gaps.last().map_or(0, |(_, to)| *to));
        self.drain(number, cx);
    }

    /// Delivers the packets that are in order now, and sends a report if one is due.
    fn drain(&mut self, number: u32, cx: &mut Context<'_, impl Ports>) {
        while let Some(flow) = self.flows.get_mut(&number)
            && let Some(frame) = flow.early.remove(&flow.expected)
        {
            flow.expected += 1;
            if let Some(frame) = frame {
                self.early -= frame.bytes().len() as u64;
                cx.memory.release(&frame);
                self.deliver(number, frame, cx);
            }
        }
        let Some(flow) = self.flows.get_mut(&number) else { return };
        flow.untold += 1;
        if flow.untold >= TOLD_EVERY {
            self.tell(number, cx);
        } else if flow.tell_at == Time::NEVER {
            flow.tell_at = cx.now + self.rtt.scale(1, 4);
            self.next = self.next.min(flow.tell_at);
        }
    }

    /// A packet in order goes to its destination, and a copy is kept if there is room.
    fn deliver(&mut self, number: u32, frame: SimFrame, cx: &mut Context<'_, impl Ports>) {
        if let (Ok(roce), Some(flow)) = (parse(frame.bytes()), self.flows.get_mut(&number)) {
            let seq = roce.psn.unwrap_near(flow.newest.unwrap_or(Seq::first(roce.psn)));
            flow.newest = Some(seq);
            // The source has gone back.
            while flow.backup.back().is_some_and(|(newest, _)| *newest >= seq)
                && let Some((_, copy)) = flow.backup.pop_back()
            {
                self.backup -= copy.bytes().len() as u64;
                cx.memory.release(&copy);
            }
            if cx.memory.take(&frame) {
                self.backup += frame.bytes().len() as u64;
                flow.backup.push_back((seq, frame.clone()));
            }
        }
        cx.out.send(Side::Lan, Class::Data, frame);
    }

    /// Reports the packets that arrived to the other switch, and requests the missing ones.
    fn tell(&mut self, number: u32, cx: &mut Context<'_, impl Ports>) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let status = Status { flow: number, expected: flow.expected, gaps: flow.gaps() };
        flow.untold = 0;
        // Until then the repeats are on their way.
        flow.tell_at = match status.gaps.is_empty() {
            true => Time::NEVER,
            false => cx.now + self.rtt.scale(5, 4),
        };
        self.next = self.next.min(flow.tell_at);
        cx.out.send(Side::Wan, Class::High, Message::Status(status).frame());
    }

    /// A response of the destination.
    pub(super) fn on_response(
        &mut self,
        frame: SimFrame,
        roce: &Roce,
        cx: &mut Context<'_, impl Ports>,
    ) {
        if let Some(response) = Response::of(roce, frame.bytes())
            && let Some(number) = self.numbers.get(&answered(roce))
            && let Some(flow) = self.flows.get_mut(number)
            && let Some(newest) = flow.newest
        {
            let is_asked = acknowledge(&mut flow.backup, &response, newest, |copy| {
                self.backup -= copy.bytes().len() as u64;
                cx.memory.release(copy);
            });
            if is_asked {
                for (_, copy) in &flow.backup {
                    cx.out.send(Side::Lan, Class::Data, copy.clone());
                }
                return;
            }
        }
        cx.out.send(Side::Wan, Class::Data, frame);
    }

    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, impl Ports>) {
        if self.next <= cx.now {
            let is_due =
                |(number, flow): (&u32, &Flow)| (flow.tell_at <= cx.now).then_some(*number);
            let mut due: Vec<u32> = self.flows.iter().filter_map(is_due).collect();
            due.sort_unstable();
            for number in due {
                self.tell(number, cx);
            }
            let times = self.flows.values().map(|flow| flow.tell_at);
            self.next = times.min().unwrap_or(Time::NEVER);
        }
    }

    pub(super) const fn next(&self) -> Time {
        self.next
    }

    /// Bytes held ahead of gaps, and until they are acknowledged.
    pub(super) const fn held(&self) -> (u64, u64) {
        (self.early, self.backup)
    }
}
