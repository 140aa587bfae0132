//! Two ends of a session: restarts, silence, and a path that loses, repeats and reorders as the input says.

use common::control::Keys;
use common::ids::{BootId, NodeId};
use common::time::{Span, Time};
use testkit::operations::input::Input;
use tunnel::message::{self, Header, Message};
use tunnel::session::{EndPoint, SessionConfig};
use tunnel::{Part, Port};

const INTERVAL: Span = Span::from_millis(1_000);

struct Box2 {
    config: SessionConfig,
    end: EndPoint,
}

struct World {
    boxes: [Box2; 2],
    keys: Keys,
    now: Time,
    /// On the path, towards each of them.
    path: [Vec<Vec<u8>>; 2],
    boots: u64,
}

fn make(me: usize, boot: u64) -> Box2 {
    let config = SessionConfig {
        node: NodeId(me as u32 + 1),
        boot: BootId(boot),
        random: boot << 1 | me as u64,
        part: Part::WHOLE,
        lanes: 1,
        ports: 1,
        frame_max: 200,
        overhead: 14,
        lans: Default::default(),
        hello_interval: INTERVAL,
        peer_timeout: INTERVAL * 3,
    };
    Box2 { end: EndPoint::new(&config), config }
}

/// `data` is a sequence of operations.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut world = World {
        boxes: [make(0, 1), make(1, 1)],
        keys: Keys::unkeyed_lab(),
        now: Time::from_nanos(1_000_000_000),
        path: Default::default(),
        boots: 1,
    };
    while !input.is_empty() {
        world.step(&mut input);
    }
    world.end();
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) {
        let operation = input.byte();
        let me = usize::from(operation >> 7);
        match operation & 0xf {
            0..=4 => self.arrive(me, usize::from(input.byte())),
            5 => drop(self.path[me].pop()),
            6 => {
                let again = self.path[me].first().cloned();
                self.path[me].extend(again);
            }
            7 => self.pass(Span::from_millis(u64::from(input.byte()) * 20)),
            8 => {
                self.boots += 1;
                self.boxes[me] = make(me, self.boots);
            }
            9 => {
                let Box2 { config, end } = &mut self.boxes[me];
                if let Some((_, header, bye)) = end.close(config).pop() {
                    self.send(me, &header, &bye);
                }
            }
            10 => self.boxes[me].end.mark_used(),
            11 => {
                let len = usize::from(input.byte());
                self.path[me].push(input.bytes(len).to_vec());
            }
            _ => self.timers(),
        }
    }

    fn send(&mut self, from: usize, header: &Header, message: &Message) {
        let mut bytes = vec![0; message::wire_len(message)];
        message::write(header, message, &self.keys, &mut bytes);
        self.path[1 - from].push(bytes);
    }

    fn arrive(&mut self, to: usize, which: usize) {
        if self.path[to].is_empty() {
            return;
        }
        let bytes = self.path[to].remove(which % self.path[to].len());
        let Box2 { config, end } = &mut self.boxes[to];
        let before = (*end.state(), end.own());
        if end.on_message(config, self.now, Port::default(), &bytes, &self.keys).is_err() {
            assert_eq!((*end.state(), end.own()), before, "a refused message changes nothing");
        }
    }

    fn timers(&mut self) {
        for me in 0..2 {
            let Box2 { config, end } = &mut self.boxes[me];
            end.on_timer(config, self.now);
            if end.hello_due(config) <= self.now {
                let (_, header, hello) = end.hellos(config, self.now).next().expect("a port");
                assert!(end.hello_due(config) > self.now, "a HELLO stays due");
                self.send(me, &header, &hello);
            }
        }
    }

    fn pass(&mut self, span: Span) {
        self.now += span;
        self.timers();
    }

    /// All arrives in order now: the two agree.
    fn end(&mut self) {
        self.path = Default::default();
        for _ in 0..200 {
            self.pass(INTERVAL / 16);
            for to in 0..2 {
                while !self.path[to].is_empty() {
                    self.arrive(to, 0);
                }
            }
        }
        for me in 0..2 {
            let peer = self.boxes[me].end.up().map(|peer| peer.session);
            assert_eq!(peer, Some(self.boxes[1 - me].end.own()), "{:?}", self.boxes[me].end);
        }
    }
}
