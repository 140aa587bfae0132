//! The session of two boxes: who is there, and which frames belong to it.
//!
//! Each box offers a session of its own, 32 random bits, in its HELLOs, and says which one it knows of
//! the other. A box is *up* once a HELLO of the peer names the session that it offers. When it leaves that
//! state, it offers another session, by which the peer sees that the old one is over.

mod change;
mod refusal;

use arrayvec::ArrayVec;
use common::control::{Keys, Replay};
use common::ids::{BootId, NodeId};
use common::time::{Span, Time};

pub use self::change::{Change, End};
pub use self::refusal::Refusal;
use crate::division::Part;
use crate::features::{Features, LansRepaired};
use crate::message::{self, HELLO_LEN, Header, Hello, Message};
use crate::number::{Port, Session};
use crate::paths::Paths;

/// Where and how a HELLO arrived.
struct Arrived {
    port: Port,
    /// Bytes of its frame.
    len: u16,
    /// Whether it names this boot and the session that it offers.
    names_us: bool,
}

/// Boxes whose messages are remembered.
const PEERS_MAX: usize = 8;
/// A HELLO comes no sooner after the one before than this part of the interval: an answer, or one more while a session begins.
const SOONEST: u64 = 16;

/// Settings of a box.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionConfig {
    /// Node id of this box, different from that of the peer.
    pub node: NodeId,
    /// Boot id: the start time of the box in nanoseconds.
    pub boot: BootId,
    /// Random bits, from which the offered sessions follow.
    pub random: u64,
    /// Which of the tunnels between the boxes it is.
    pub part: Part,
    /// Lanes, 1 to 255.
    pub lanes: u8,
    /// WAN ports, 1 to [`Port::COUNT_MAX`]. HELLOs go out on each.
    pub ports: u8,
    /// The box's repair of the LANs, which it tells the peer.
    pub lans: LansRepaired,
    /// Bytes of the longest frame that every WAN port carries, from the destination MAC on.
    pub frame_max: u16,
    /// Bytes in front of a control message in its frame.
    pub overhead: u16,
    /// Time between two HELLOs once the session is up at both ends.
    pub hello_interval: Span,
    /// Silence of the peer after which the session is over.
    pub peer_timeout: Span,
}

/// The box at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its node id.
    pub node: NodeId,
    /// Its boot id.
    pub boot: BootId,
    /// The session that it offers: frames to it carry this.
    pub session: Session,
    /// Its lanes.
    pub lanes: u8,
    /// Bytes of the longest frame that its WAN port carries.
    pub frame_max: u16,
    /// What it says of itself, if it does.
    pub features: Option<Features>,
    /// Its newest HELLO.
    hello_seq: u64,
}

/// The path behind a WAN port, in this session.
#[derive(Clone, Copy, Default, Debug)]
struct Path {
    /// Bytes of the longest frame with a HELLO for the offered session that arrived here.
    heard: u16,
    /// Bytes of the longest of our HELLOs that has reached the peer here.
    reached: u16,
    /// The peer's newest HELLO that arrived here.
    hello_seq: u64,
}

/// Where a session stands. R-TUN-15
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No box has been heard.
    Searching,
    /// A box has been heard, which does not know our session.
    Heard(Peer),
    /// Both boxes know each other's session.
    Up(Peer),
}

impl State {
    /// The box at the other end, if one was heard.
    pub const fn peer(&self) -> Option<&Peer> {
        match self {
            Self::Searching => None,
            Self::Heard(peer) | Self::Up(peer) => Some(peer),
        }
    }
}

/// One box's end of the session.
#[derive(Debug)]
pub struct EndPoint {
    state: State,
    /// The session that this box offers.
    own: Session,
    /// Frames of it have arrived: the peer is up, whether or not this box is.
    is_used: bool,
    /// Sessions that it has offered.
    offered: u64,
    /// Control messages that it has sent.
    seq: u64,
    replays: ArrayVec<(NodeId, Replay), PEERS_MAX>,
    heard_at: Time,
    paths: ArrayVec<Path, { Port::COUNT_MAX as usize }>,
    hello_at: Time,
    hellos: u64,
    /// The wait from a HELLO to the next while none is owed and the session is not known to be up at both ends. It begins anew with each
    /// step towards that, and when the session ends.
    search_wait: Span,
    /// The peer waits for a short HELLO.
    owes_short: bool,
    /// The peer waits for a HELLO as long as the longest frame.
    owes_padded: bool,
    last_refusal: Option<(Refusal, Time)>,
    /// HELLOs say so: [`Features::repairs`].
    pub(crate) repairs: bool,
    /// The longest frames of the paths.
    pub(crate) sizes: Paths,
}

impl EndPoint {
    /// A box that has heard nothing. Its first HELLO is due at once.
    pub fn new(config: &SessionConfig) -> Self {
        let mut this = Self {
            state: State::Searching,
            own: Session::NONE,
            is_used: false,
            offered: 0,
            seq: 0,
            replays: ArrayVec::new(),
            heard_at: Time::ZERO,
            paths: Port::all(config.ports).map(|_| Path::default()).collect(),
            hello_at: Time::ZERO,
            hellos: 0,
            search_wait: Span::ZERO,
            owes_short: false,
            owes_padded: false,
            last_refusal: None,
            repairs: false,
            sizes: Paths::new(),
        };
        this.offer(config);
        this
    }

    /// Where the session stands.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// The session that this box offers: frames to it carry it.
    pub const fn own(&self) -> Session {
        self.own
    }

    /// Whether a frame of the offered session has arrived.
    pub const fn is_used(&self) -> bool {
        self.is_used
    }

    /// A frame of the offered session arrived.
    #[inline]
    pub const fn mark_used(&mut self) {
        self.is_used = true;
    }

    /// The peer, while the session is up.
    #[inline]
    pub const fn up(&self) -> Option<&Peer> {
        match &self.state {
            State::Up(peer) => Some(peer),
            State::Searching | State::Heard(_) => None,
        }
    }

    /// Why the newest message was refused, if it was, and when.
    pub const fn last_refusal(&self) -> Option<(Refusal, Time)> {
        self.last_refusal
    }

    /// When a HELLO is due. R-TUN-61
    pub fn hello_due(&self, config: &SessionConfig) -> Time {
        let wait = if self.owes_short || self.owes_padded {
            config.hello_interval / SOONEST
        } else if self.is_known() {
            config.hello_interval
        } else {
            self.search_wait
        };
        if self.hellos == 0 { Time::ZERO } else { self.hello_at + wait }
    }

    /// When the session ends unless the peer is heard; without a session, when the peer that was heard is forgotten.
    pub fn silence_at(&self, config: &SessionConfig) -> Time {
        let is_nobody = self.state == State::Searching;
        if is_nobody { Time::NEVER } else { self.heard_at + config.peer_timeout }
    }

    /// Bytes of the longest of our HELLOs that has reached the peer through a port in this session; 0: none has.
    pub fn reached(&self, port: Port) -> u16 {
        self.paths.get(port.index()).filter(|_| self.up().is_some()).map_or(0, |path| path.reached)
    }

    /// Whether the session is up, and the peer has said that one of our HELLOs arrived that names its session: then it is up there too.
    fn is_known(&self) -> bool {
        self.up().is_some() && self.paths.iter().any(|path| path.reached > 0)
    }

    /// The HELLOs that are due, one for each port. Every other one that is no answer is as long as the longest
    /// frame. R-TUN-17
    pub fn hellos(
        &mut self,
        config: &SessionConfig,
        now: Time,
    ) -> impl Iterator<Item = (Port, Header, Message)> {
        let is_padded = if self.owes_short {
            self.owes_short = false;
            false
        } else if self.owes_padded {
            self.owes_padded = false;
            true
        } else {
            self.hellos % 2 == 1
        };
        self.hellos += 1;
        self.hello_at = now;
        let soonest = config.hello_interval / SOONEST;
        self.search_wait = (self.search_wait * 2).clamp(soonest, config.hello_interval);
        let room = self.frame_max(config).saturating_sub(config.overhead);
        let padding = if is_padded { room.saturating_sub(HELLO_LEN as u16) } else { 0 };
        Port::all(config.ports).map(move |port| {
            let hello = Hello {
                session: self.own,
                lanes: config.lanes,
                division: config.part.division().code(),
                features: Features {
                    ports: config.ports,
                    lans: config.lans,
                    answers_paths: true,
                    repairs: self.repairs,
                }
                .code(),
                frame_max: config.frame_max,
                heard: self.paths[port.index()].heard,
                padding,
            };
            (port, self.header(config), Message::Hello(hello))
        })
    }

    /// Bytes of the longest frame that the WAN ports of both boxes carry.
    pub fn frame_max(&self, config: &SessionConfig) -> u16 {
        self.state.peer().map_or(config.frame_max, |peer| peer.frame_max.min(config.frame_max))
    }

    /// The header of a message to the peer; each has a sequence number of its own.
    pub fn header(&mut self, config: &SessionConfig) -> Header {
        self.seq += 1;
        let peer = self.state.peer();
        Header {
            node: config.node,
            boot: config.boot,
            seq: self.seq,
            seen_boot: peer.map_or(BootId::NONE, |peer| peer.boot),
            session: peer.map_or(Session::NONE, |peer| peer.session),
            tunnel: config.part.index(),
        }
    }

    /// A control message arrived at a port. If it is of the session and no HELLO, it is returned, for the lanes.
    ///
    /// # Errors
    /// Why it was dropped. It changed nothing then. R-TUN-16
    pub fn on_message(
        &mut self,
        config: &SessionConfig,
        now: Time,
        port: Port,
        bytes: &[u8],
        keys: &Keys,
    ) -> Result<(Option<Message>, Option<Change>), Refusal> {
        let read = message::read(bytes, keys).map_err(Refusal::from);
        let result = read.and_then(|read| self.take(config, now, port, read, bytes.len()));
        self.last_refusal = result.as_ref().err().map(|refusal| (*refusal, now));
        result
    }

    fn take(
        &mut self,
        config: &SessionConfig,
        now: Time,
        port: Port,
        (header, message): (Header, Message),
        len: usize,
    ) -> Result<(Option<Message>, Option<Change>), Refusal> {
        if header.node == config.node {
            return Err(Refusal::OwnNode);
        }
        if self.up().is_some_and(|peer| peer.node != header.node) {
            return Err(Refusal::OtherPeer);
        }
        let division = config.part.division().code();
        let is_other = matches!(&message, Message::Hello(hello) if hello.division != division);
        if is_other || header.tunnel != config.part.index() {
            return Err(Refusal::Tunnels);
        }
        if matches!(&message, Message::Hello(hello) if hello.lanes != config.lanes) {
            return Err(Refusal::Lanes);
        }
        self.accept(&header)?;
        let names_us = header.seen_boot == config.boot && header.session == self.own;
        match message {
            Message::Hello(hello) => {
                let len = u16::try_from(len + usize::from(config.overhead)).unwrap_or(u16::MAX);
                let arrived = Arrived { port, len, names_us };
                Ok((None, self.on_hello(config, now, &header, &hello, arrived)))
            }
            _ if !names_us || !self.is_peer(&header) => Err(Refusal::OtherSession),
            Message::Bye => match self.leave(config) {
                true => Ok((None, Some(Change::Ended(End::Bye)))),
                false => Err(Refusal::OtherSession),
            },
            message => {
                self.heard_at = now;
                Ok((Some(message), None))
            }
        }
    }

    /// When the newest message of the peer arrived.
    pub const fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// Ends the session if nothing was heard for too long.
    pub fn on_timer(&mut self, config: &SessionConfig, now: Time) -> Option<Change> {
        if now >= self.silence_at(config) { self.fall_silent(config) } else { None }
    }

    /// Forgets the peer, which is silent, and ends the session if it is up.
    pub fn fall_silent(&mut self, config: &SessionConfig) -> Option<Change> {
        let was_up = self.leave(config);
        self.state = State::Searching;
        was_up.then_some(Change::Ended(End::Silence))
    }

    /// The BYEs that end the session, one for each port; none if it is not up.
    pub fn close(&mut self, config: &SessionConfig) -> Vec<(Port, Header, Message)> {
        if self.up().is_none() {
            return Vec::new();
        }
        let ports = Port::all(config.ports);
        let byes = ports.map(|port| (port, self.header(config), Message::Bye)).collect();
        self.leave(config);
        byes
    }

    /// Whether a message is no replay, of a boot that is not over.
    fn accept(&mut self, header: &Header) -> Result<(), Refusal> {
        if let Some((_, replay)) = self.replays.iter_mut().find(|(node, _)| *node == header.node) {
            return Ok(replay.accept(header.boot, header.seq)?);
        }
        let mut replay = Replay::new();
        replay.accept(header.boot, header.seq)?;
        // To forget a box would be to accept its old messages again.
        self.replays.try_push((header.node, replay)).map_err(|_| Refusal::OtherPeer)
    }

    fn is_peer(&self, header: &Header) -> bool {
        self.state.peer().is_some_and(|peer| (peer.node, peer.boot) == (header.node, header.boot))
    }

    fn on_hello(
        &mut self,
        config: &SessionConfig,
        now: Time,
        header: &Header,
        hello: &Hello,
        Arrived { port, len, names_us }: Arrived,
    ) -> Option<Change> {
        let known = self.state.peer().filter(|_| self.is_peer(header)).copied();
        let path = self.paths.get_mut(port.index())?;
        // Of two paths, one may be faster.
        let is_newest = known.is_none_or(|known| header.seq > known.hello_seq);
        if names_us && (is_newest || header.seq > path.hello_seq) {
            (path.hello_seq, path.reached) = (header.seq, hello.heard);
            if len > path.heard {
                path.heard = len;
                self.owes_short = true;
            }
        }
        if !is_newest {
            return None;
        }
        let peer = Peer {
            node: header.node,
            boot: header.boot,
            session: hello.session,
            lanes: hello.lanes,
            frame_max: hello.frame_max,
            features: Features::read(hello.features),
            hello_seq: header.seq,
        };
        let is_same = known.is_some_and(|known| known.session == peer.session);
        let was_up = self.up().is_some();
        if (was_up || self.is_used) && !is_same {
            // The numbers of the peer's frames begin anew.
            self.offer(config);
            self.hear(now, peer);
            return Some(Change::Ended(End::PeerRestarted));
        }
        if names_us {
            (self.state, self.heard_at) = (State::Up(peer), now);
            if was_up {
                return None;
            }
            // The peer may not know yet that it is known.
            (self.owes_short, self.owes_padded) = (true, true);
            self.search_wait = Span::ZERO;
            return Some(Change::Began);
        }
        // An old HELLO of a peer that has named us since is overtaken; one that comes now has lost us.
        if was_up {
            return None;
        }
        self.hear(now, peer);
        None
    }

    /// Answers a HELLO of a box that does not know the offered session.
    fn hear(&mut self, now: Time, peer: Peer) {
        (self.state, self.heard_at) = (State::Heard(peer), now);
        (self.owes_short, self.owes_padded) = (true, true);
        self.search_wait = Span::ZERO;
    }

    /// Leaves the session, and offers another. False if there is none.
    fn leave(&mut self, config: &SessionConfig) -> bool {
        if self.up().is_none() {
            return false;
        }
        self.state = State::Searching;
        (self.owes_short, self.search_wait) = (true, Span::ZERO);
        self.offer(config);
        true
    }

    /// Offers a session that was not offered before.
    fn offer(&mut self, config: &SessionConfig) {
        loop {
            self.offered += 1;
            let bits = mix(config.random.wrapping_add(mix(self.offered))) as u32;
            let next = config.part.session(bits);
            if next != Session::NONE && next != self.own {
                (self.own, self.is_used) = (next, false);
                self.paths.iter_mut().for_each(|path| *path = Path::default());
                return;
            }
        }
    }
}

/// The finalizer of SplitMix64.
const fn mix(n: u64) -> u64 {
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ n >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ n >> 31
}
